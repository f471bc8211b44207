"""Recording a call: its ops, the Python state that it reads, and its side effects."""
