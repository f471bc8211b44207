"""See DESIGN notes in the module docstrings."""
