"""Compiled functions and modules: which recording answers a call, and CUDA graphs."""
