"""Views that show conjugates or negatives of what is in memory (arrays: core/lazy_conj.py)."""

from __future__ import annotations

from typing import Any

from ...core.devices import xp_of
from ...core.host_arrays import host
from ...core.lazy_conj import CONJ_VIEW, NEG_VIEW, flipped
from ...core.op import REGISTRY
from ...core.transforms.batched import physical_array
from ..block import Case, ViewOp, api, apply, op
from ..block.samples import Draw, Index

# ruff: noqa: N805


@op
class ConjView(ViewOp):
    """conj_view(input) -> Tensor: the same memory, read conjugated."""

    name, node = CONJ_VIEW, "ConjBackward0"
    aten = "_conj"
    public = False
    replays = True
    wirtinger = True
    leading = (0,)

    def fwd(xp, input):
        return flipped(input, True, False)

    def d_input(F, grad):
        return F.conj(grad)

    def batch(F, size, batched, input):
        return F.conj_view(input)


@op
class NegView(ViewOp):
    """neg_view(input) -> Tensor: the same memory, read with the other sign."""

    name, node = NEG_VIEW, "NegViewBackward0"
    aten = "_neg_view"
    public = False
    replays = True
    leading = (0,)

    def fwd(xp, input):
        return flipped(input, False, True)

    def d_input(F, grad):
        return -grad

    def batch(F, size, batched, input):
        return F.neg_view(input)


def is_here(t: Any) -> bool:
    """Whether the memory of a tensor is the CPU's: elsewhere there are no bits, but copies."""
    return xp_of(physical_array(t)) is host


def conjugate_view(input: Any) -> Any:
    return apply(ConjView if is_here(input) else REGISTRY["conj"], (input,))


def negative_view(input: Any) -> Any:
    return apply(NegView if is_here(input) else REGISTRY["neg"], (input,))


@api(samples=[Case(Index([1 + 2j, 3j]))])
def _conj(input: Any) -> Any:
    """_conj(input) -> Tensor: what `conj` does with complex tensors.

    >>> torch._conj(tensor([1 + 2j])).is_conj()
    True
    """
    if input._array.dtype.kind != "c":
        raise RuntimeError("isComplexType(typeMetaToScalarType(dtype())) INTERNAL ASSERT FAILED")
    return conjugate_view(input)


@api(samples=[Case(Draw(2)), Case(Index([1 + 2j, 3j]))])
def _conj_physical(input: Any) -> Any:
    """_conj_physical(input) -> Tensor: what `conj_physical` does.

    >>> torch._conj_physical(tensor([1 + 2j]))
    tensor([1.-2.j])
    """
    if input._array.dtype.kind == "b":
        return input.clone()  # NumPy's conjugates of bools are integers
    return apply(REGISTRY["conj_physical"], (input,))


@api(samples=[Case(Draw(2))])
def _neg_view(input: Any) -> Any:
    """_neg_view(input) -> Tensor: negatives, as a view.

    >>> torch._neg_view(tensor([1.0, 2.0]))
    tensor([-1., -2.])
    """
    return negative_view(input)


@api(samples=[Case(Draw(2))])
def resolve_conj(input: Any) -> Any:
    """resolve_conj(input) -> Tensor: a copy of a conjugate view; others themselves.

    >>> resolve_conj(tensor([1 + 2j]).conj()).is_conj()
    False
    """
    return input.clone() if input.is_conj() else input


@api(samples=[Case(Draw(2))])
def resolve_neg(input: Any) -> Any:
    """resolve_neg(input) -> Tensor: a copy of a negative view; others themselves.

    >>> resolve_neg(tensor([1 + 2j]).conj().imag)
    tensor([-2.])
    """
    return input.clone() if input.is_neg() else input
