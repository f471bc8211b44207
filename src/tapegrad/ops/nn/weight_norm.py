"""Weights given by direction and length: `g * v / |v|`."""

from __future__ import annotations

from typing import Any

from ...core.arguments import cast_value
from ...core.base import TensorBase
from ...core.rounding import half_as_single
from ...errors import must_be_tensor
from ..block import Block, Case, api, apply, op
from ..block.checks import BOOL, COMPLEX, INTEGRAL, not_for
from ..block.samples import Draw

# ruff: noqa: N805


@op
class WeightNormInterface(Block):
    """weight_norm_interface(input, g, over) -> Tensor: `input` with norms `g` over dimensions."""

    aten = "_weight_norm_interface"
    tensors = ("input", "g")
    dims = ("over",)
    guard = not_for("weight_norm_kernel", BOOL, INTEGRAL, COMPLEX)
    public = False

    def fwd(xp, input, g, over):
        v = half_as_single(input)
        norm = xp.sqrt(xp.sum(v * v, axis=over, keepdims=True))
        return cast_value(v * (half_as_single(g) / norm), input.dtype)

    def d_input(F, grad, input, g, over):
        norm = F.sqrt(F.sum(input * input, over, True, None))
        along = F.sum(grad * input, over, True, None)
        return g / norm * (grad - input * (along / (norm * norm)))

    def d_g(F, grad, input, over):
        norm = F.sqrt(F.sum(input * input, over, True, None))
        return F.sum(grad * input, over, True, None) / norm

    def jvp(F, input, t_input, g, t_g, over):
        norm = F.sqrt(F.sum(input * input, over, True, None))
        change = None if t_g is None else input * (t_g / norm)
        if t_input is None:
            return change
        along = F.sum(t_input * input, over, True, None)
        turned = g / norm * (t_input - input * (along / (norm * norm)))
        return turned if change is None else change + turned


@api(method=False, samples=[Case(Draw(3, 2), 2, 0), Case(Draw(2, 3, 2), 2, 1)])
def norm_except_dim(v: Any, pow: int = 2, dim: int = 0) -> Any:
    """norm_except_dim(v, pow=2, dim=0) -> Tensor: norms over all dimensions but one; -1 is all.

    >>> norm_except_dim(tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5.],
            [1.]])
    """
    if not isinstance(v, TensorBase):
        raise must_be_tensor("norm_except_dim", "v", 1, v)
    if dim == -1:
        return v.norm(pow)
    rank = v.dim()
    if dim not in (0, rank - 1):
        return norm_except_dim(v.transpose(0, dim), pow, 0).transpose(0, dim)
    size = v.shape[dim]
    dense = v.contiguous()
    if dim == 0:
        return dense.view(size, -1).norm(pow, 1).view(size, *(1,) * (rank - 1))
    return dense.view(-1, size).norm(pow, 0).view(*(1,) * (rank - 1), size)


@api(
    name="_weight_norm",
    method=False,
    samples=[
        Case(Draw(3, 2), Draw(3, 1), 0),
        Case(Draw(2, 2, 3), Draw(1, 1, 3), 2),
        Case(Draw(2, 3, 2), Draw(1, 3, 1), 1),
        Case(Draw(2, 2), Draw(), -1),
    ],
)
def weight_norm(v: Any, g: Any, dim: int = 0) -> Any:
    """_weight_norm(v, g, dim=0) -> Tensor: `v` with the norms `g`, one per index of `dim`.

    >>> torch._weight_norm(tensor([[3.0, 4.0]]), tensor([[1.0]]), 0)
    tensor([[0.6000, 0.8000]])
    """
    for position, (name, value) in enumerate((("v", v), ("g", g)), start=1):
        if not isinstance(value, TensorBase):
            raise must_be_tensor("_weight_norm", name, position, value)
    rank = v.dim()
    if dim not in (0, rank - 1):
        return v * (g / norm_except_dim(v, 2, dim))
    return apply(WeightNormInterface, (v, g), (tuple([d for d in range(rank) if d != dim]),))
