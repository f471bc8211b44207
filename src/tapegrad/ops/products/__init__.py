"""Sums of products: vectors, matrices, batches of them, subscripts."""
