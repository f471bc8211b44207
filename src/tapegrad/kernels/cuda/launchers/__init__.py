"""Overrides of ops on a GPU: from device arrays to one launch of a kernel."""
