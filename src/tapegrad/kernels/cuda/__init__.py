"""Tensors on a GPU: CuPy, our own CUDA C (sources/) and what starts it (launchers/)."""
