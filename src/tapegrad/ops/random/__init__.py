"""Random numbers through which gradients flow."""
