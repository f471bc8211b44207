"""One output element per (broadcast) input element."""
