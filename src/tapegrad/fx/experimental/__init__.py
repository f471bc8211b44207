"""Names of PyTorch's tracers of ops and sizes that libraries ask for."""
