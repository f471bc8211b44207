"""Results with the same bits on every machine: other functions, other products, and the switch."""
