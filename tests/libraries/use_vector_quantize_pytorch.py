"""Codebooks that learn, and gradients that pass them."""

from show import show

# isort: split
import torch
from vector_quantize_pytorch import FSQ, LFQ, ResidualVQ, VectorQuantize

torch.manual_seed(0)
x = torch.randn(1, 16, 8, requires_grad=True)
for make in (
    lambda: VectorQuantize(dim=8, codebook_size=12, decay=0.8),
    lambda: ResidualVQ(dim=8, num_quantizers=2, codebook_size=12),
    lambda: FSQ([8, 5, 5], dim=8),
    lambda: LFQ(codebook_size=16, dim=8),
):
    torch.manual_seed(1)
    layer = make()
    out = layer(x)
    show(type(layer).__name__, out[0])
    show("codes", out[1].double())
    x.grad = None
    out[0].square().sum().backward()
    show("gradient", x.grad)
