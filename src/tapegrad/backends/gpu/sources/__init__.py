"""CUDA C, as text."""
