"""rearrange, reduce, repeat, einsum, pack, and layers."""

from show import show, train

# isort: split
import torch
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import Rearrange, Reduce

torch.manual_seed(0)
x = torch.randn(2, 3, 8, 8)
show("rearrange", rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4))
show("reduce", reduce(x, "b c h w -> b c", "max"))
show("repeat", repeat(x[0], "c h w -> b c h w", b=3))
show("einsum", einsum(x, x, "b c h w, b d h w -> b c d"))
packed, shapes = pack([x, x[:, 0]], "b *")
show("packed", packed)
show("unpacked", [tuple(u.shape) for u in unpack(packed, shapes, "b *")])
model = torch.nn.Sequential(
    Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4),
    torch.nn.Linear(48, 8),
    Reduce("b n d -> b d", "mean"),
)
train(model, lambda: model(x).square().mean())
