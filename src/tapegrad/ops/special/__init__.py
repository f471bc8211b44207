"""Special functions, and the kernels behind them."""
