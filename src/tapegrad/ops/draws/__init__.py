"""Random numbers: PyTorch's streams on NumPy, generators, and the functions that draw."""
