"""Distances between clouds of points."""

from show import show

# isort: split
import torch
from geomloss import SamplesLoss

torch.manual_seed(0)
x, y = torch.randn(12, 2, requires_grad=True), torch.randn(9, 2)
for kind in ("sinkhorn", "gaussian", "energy"):
    loss = SamplesLoss(kind, backend="tensorized")(x, y)
    (grad,) = torch.autograd.grad(loss, x)
    show(kind, loss)
    show("gradient", grad)
