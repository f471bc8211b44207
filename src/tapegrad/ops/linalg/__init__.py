"""Linear algebra: factors of matrices, and what is made of them."""
