"""Record one call of a function: ops, guards, side effects, and how to undo them."""
