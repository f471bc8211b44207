"""The transforms: batches (vmap), duals (forward mode), and the levels that nest them."""
