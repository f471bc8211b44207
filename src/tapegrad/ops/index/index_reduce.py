"""`index_reduce`: whole slices of one dimension combined by a product, a mean or an extremum."""

from __future__ import annotations

from typing import Any

from ...core.arguments import wrap_dim
from ...core.op import REGISTRY
from ...core.warned import warn
from ..block import Block, Case, apply, op
from ..block.batching import lift
from ..block.checks import not_implemented
from ..block.samples import Draw, Index
from .along_dim import along_lines, check_source, source_mismatch, without
from .gather import check_tensor, combine, first_outside, reduced_gradients

# ruff: noqa: N805


def over(F: Any, index: Any, shape: tuple[int, ...], dim: int) -> Any:
    """A vector of places along `dim`, as an index for every element of the source."""
    if not shape:
        return F.reshape(index, ())
    flat = [1] * len(shape)
    flat[dim] = shape[dim]
    return F.expand(F.reshape(index, tuple(flat)), tuple(shape))


@op
class IndexReduce(Block):
    """index_reduce(input, dim, index, source, reduce, *, include_self=True) -> Tensor: combine rows
    of `source` into rows of `input`.

    `reduce` is "prod", "mean", "amax" or "amin".

    >>> index_reduce(ones(2), 0, tensor([0, 0]), tensor([2.0, 3.0]), "prod")
    tensor([6., 1.])
    """

    tensors = ("input", "index", "source")
    inplace = True
    apart = ("index", "source")
    samples = [
        Case(Draw(2, 3), 1, Index([0, 2, 0, 0]), Draw(2, 4), how, include_self=own)
        for how in ("prod", "mean", "amax", "amin")
        for own in (True, False)
    ]

    def into(xp, input, index, source, dim, reduce, include_self):
        flat = [1] * source.ndim
        if source.ndim:
            flat[dim] = source.shape[dim]
        places = xp.broadcast_to(index.reshape(flat), source.shape)
        combine(xp, input, places, source, dim, reduce, include_self)

    def backward(F, grad, needs, input, index, source, out, dim, reduce, include_self):
        places = over(F, index, source.shape, dim)
        d_input, d_source = reduced_gradients(
            *(F, grad, needs, input, places, source, out, dim, reduce, include_self),
            name="index_reduce",
            source="source",
        )
        if needs[0] and not include_self:
            d_input = F.index_fill_value(d_input, index, 0, dim)
        return d_input, None, d_source

    def jvp(F, input, index, source, t_input, t_source, out, dim, reduce, include_self):
        tensors = (input, over(F, index, source.shape, dim), source)
        rule = REGISTRY["scatter_reduce"].jvp
        return rule(F, tensors, (t_input, None, t_source), (out,), (dim, reduce, include_self))

    def batch(F, size, batched, input, index, source, dim, reduce, include_self):
        if len(lift(F, source, size, batched[2]).shape) == 1:
            whole = lift(F, input, size, batched[0])
            values = lift(F, source, size, batched[2])
            places = F.reshape(lift(F, index, size, batched[1]), (size, 1))
            pairs = (F.unsqueeze(whole, 1), places, F.unsqueeze(values, 1))
            return F.squeeze(F.scatter_reduce(*pairs, 1, reduce, include_self), (1,))
        whole, values, places = along_lines(F, size, batched, input, index, source, dim)
        return F.scatter_reduce(whole, places, values, dim + 1, reduce, include_self)

    def call(input, dim, index, source, reduce, *, include_self=True, run=apply):
        warn(
            "index_reduce() is in beta and the API may change at any time.",
            UserWarning,
        )
        check_tensor("index_reduce", "index", 3, index)
        check_tensor("index_reduce", "source", 4, source)
        if reduce not in ("prod", "mean", "amax", "amin"):
            raise RuntimeError(
                "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got "
                f"{reduce}."
            )
        shape, given = input._array.shape, source._array.shape
        dim = wrap_dim(dim, len(shape))
        check_source("index_reduce_()", input, index, source, dim)
        if without(shape, dim) != without(given, dim) or len(shape) != len(given):
            raise source_mismatch(shape, given)
        if first_outside(index, shape[dim] if shape else 1) is not None:
            raise IndexError("index out of range in self")
        refuse_dtype(input, reduce, include_self)
        return run(IndexReduce, (input, index, source), (dim, reduce, bool(include_self)))


def refuse_dtype(input: Any, reduce: str, include_self: bool) -> None:
    """Which inner loop lacks bool and complex numbers depends on the way that it goes."""
    kind = input._array.dtype.kind
    if kind not in "bc":
        return
    kernel = None
    if not include_self:
        kernel = "index_reduce_func_exclude_input_init"
    elif input._array.ndim < 2:
        kernel = "index_func_"
    elif kind == "b":
        kernel = "div_floor_cpu" if reduce == "mean" else None
    elif reduce in ("amax", "amin"):
        kernel = "maximum_cpu" if reduce == "amax" else "minimum_cpu"
    if kernel is not None:
        raise not_implemented(kernel, input.dtype)
