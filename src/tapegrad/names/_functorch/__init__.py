"""Private names of PyTorch's transforms that libraries import: torch.func has the public ones."""
