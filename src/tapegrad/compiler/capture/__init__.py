"""How a call is captured: what Python reads and changes while it is recorded."""
