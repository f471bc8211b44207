"""What layers compute: convolution, pooling, norms, activations, losses, attention."""
