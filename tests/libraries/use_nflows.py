"""Densities through invertible networks."""

from show import show, train

# isort: split
import torch
from nflows import distributions, flows, transforms

torch.manual_seed(0)
steps = [
    transforms.MaskedAffineAutoregressiveTransform(features=2, hidden_features=8),
    transforms.RandomPermutation(2),
    transforms.MaskedPiecewiseRationalQuadraticAutoregressiveTransform(
        features=2, hidden_features=8, num_bins=4, tails="linear", tail_bound=3.0
    ),
]
flow = flows.Flow(transforms.CompositeTransform(steps), distributions.StandardNormal([2]))
x = torch.randn(20, 2)
train(flow, lambda: -flow.log_prob(x).mean())
torch.manual_seed(3)
show("samples", flow.sample(5))
