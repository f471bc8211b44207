"""Backward passes that begin in a compiled segment or lead into one."""
