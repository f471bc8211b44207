"""Reading and writing at places that are given by tensors."""
