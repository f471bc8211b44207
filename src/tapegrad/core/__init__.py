"""What ops are made of and how a call becomes a result."""
