"""Kernels for ops, by device: cpu/ in C, cuda/ in CUDA C; backend.py is what they share."""
