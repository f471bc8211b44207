"""What libraries ask of PyTorch's tracers of ops and sizes."""
