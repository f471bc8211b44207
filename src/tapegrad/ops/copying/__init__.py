"""Views in memory of their own, and tensors that get other memory."""
