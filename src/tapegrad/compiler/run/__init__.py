"""Compiled functions and modules: which recording answers a call; CUDA graphs."""
