"""Reports about compiled functions for users: drawings and explanations."""
