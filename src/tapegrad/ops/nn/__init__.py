"""The ops of layers: convolution, pooling, norms, activations, losses, attention."""
