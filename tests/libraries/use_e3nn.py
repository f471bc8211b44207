"""Equivariant layers."""

from show import show, train

# isort: split
import torch
from e3nn import nn, o3

torch.manual_seed(0)
irreps = o3.Irreps("4x0e + 2x1o")
product = o3.FullyConnectedTensorProduct(irreps, "1x0e + 1x1o", irreps)
gate = nn.Activation("4x0e + 2x1o", [torch.tanh, None])
x, positions = torch.randn(5, irreps.dim), torch.randn(5, 3)
harmonics = o3.spherical_harmonics("1x0e + 1x1o", positions, normalize=True)
show("harmonics", harmonics)
show("product", gate(product(x, harmonics)))
turn = o3.matrix_x(torch.tensor(0.7))
matrix = irreps.D_from_matrix(turn)
turned = o3.spherical_harmonics("1x0e + 1x1o", positions @ turn.T, normalize=True)
error = (product(x @ matrix.T, turned) - product(x, harmonics) @ matrix.T).abs().max().item()
show("equivariant", error < 1e-4)
train(product, lambda: product(x, harmonics).square().mean())
