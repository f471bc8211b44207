"""What users are told about a compiled function: drawings and explanations."""
