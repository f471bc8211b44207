"""Curvature and variance beside the gradient, by hooks of modules."""

from show import show

# isort: split
import torch
from backpack import backpack, extend
from backpack.extensions import BatchL2Grad, DiagGGNExact, DiagHessian, Variance

torch.manual_seed(0)
model = extend(
    torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Sigmoid(), torch.nn.Linear(6, 3))
)
loss = extend(torch.nn.CrossEntropyLoss())(model(torch.randn(7, 4)), torch.arange(7) % 3)
with backpack(BatchL2Grad(), DiagGGNExact(), DiagHessian(), Variance()):
    loss.backward()
for name, p in model.named_parameters():
    for kind in ("batch_l2", "diag_ggn_exact", "diag_h", "variance"):
        show(f"{name} {kind}", getattr(p, kind))
