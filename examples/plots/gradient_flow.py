"""Do gradients reach the first layer? Norms per layer, for a deep network and two remedies.

Sigmoids make gradients smaller from layer to layer. ReLU and careful first weights keep their
size, and so do connections that skip.
"""

import matplotlib.pyplot as plt
import torch
from picture import arguments, save
from torch import nn

args = arguments(__doc__, steps=1)
DEPTH, WIDTH = 12, 32


class Deep(nn.Module):
    """Layers one after the other, with or without a way around each."""

    def __init__(self, activation, skips):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH))
        self.activation, self.skips = activation, skips
        if activation is torch.relu:
            for layer in self.layers:
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")

    def forward(self, x):
        for layer in self.layers:
            made = self.activation(layer(x))
            x = x + made if self.skips else made
        return x


figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for name, activation, skips in [
    ("sigmoid", torch.sigmoid, False),
    ("ReLU, Kaiming", torch.relu, False),
    ("sigmoid, skips", torch.sigmoid, True),
]:
    torch.manual_seed(args.seed)
    model = Deep(activation, skips)
    model(torch.randn(64, WIDTH)).pow(2).mean().backward()
    norms = [layer.weight.grad.norm().item() for layer in model.layers]
    axes.plot(range(1, DEPTH + 1), norms, marker="o", label=name)
    print(f"{name:<15} first layer {norms[0]:.1e}, last layer {norms[-1]:.1e}")
axes.set(xlabel="layer", ylabel="norm of the gradient", yscale="log", title="Gradient flow")
axes.legend()
save(figure, args)
