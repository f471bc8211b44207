"""PyTorch's compiler, as far as settings go: kernels here are built with the package."""
