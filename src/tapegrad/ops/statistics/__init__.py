"""Statistics of samples, masked reductions, and sets of elements."""
