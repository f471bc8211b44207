"""`summary(t)`: what is in a tensor, at a glance. (Of a model: _layers.py.)

>>> import tapegrad as torch
>>> x = torch.tensor([[1.0, -2.0], [0.0, float("nan")]], requires_grad=True)
>>> torch.diagnose.summary(x)
Tensor `x`  shape (2, 2)  torch.float32  cpu  16 B  requires grad, leaf
  min -2  max 1  mean -0.3333  std 1.528  (of the finite values)
  4 values: 1 NaN, 0 Inf, 1 zero
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes
from ..core.array_kind import host
from ..core.transforms.batched import is_batched
from ..errors import evidence
from . import words


class Summary:
    """The result of `summary`: attributes for a program, text for a reader."""

    def __init__(self, t: Any) -> None:
        # Of a sparse tensor what it stores, inside of vmap the values of all entries.
        array = (t._values() if t.is_sparse else words.behind(t))._array
        node = t.grad_fn
        self.type: str = type(t).__name__
        self.name: str | None = words.name_of(t)
        self.shape: tuple[int, ...] = tuple(t.shape)
        self.dtype: str = str(dtypes.of(array.dtype))
        self.layout: str = str(t.layout)
        self.device: str = str(t.device)
        self.bytes: int = int(array.nbytes)
        self.contiguous: bool = bool(array.flags.c_contiguous)
        self.requires_grad: bool = t.requires_grad
        self.is_leaf: bool = t.is_leaf
        self.grad_fn: str | None = None if node is None else evidence.node_name(node)
        self.line: evidence.Place | None = evidence.of_node(node)
        self.entries: int = array.size // max(math.prod(t.shape), 1) if is_batched(t) else 1
        for name, value in statistics(host(array)).items():
            setattr(self, name, value)

    size: int
    min: float | None
    max: float | None
    mean: Any
    std: float | None
    nan: int
    inf: int
    zero: int

    def data(self) -> dict[str, Any]:
        """Everything as a dict of plain values; a complex mean becomes its text."""
        found = dict(vars(self), shape=list(self.shape))
        if isinstance(self.mean, complex):
            found["mean"] = str(self.mean)
        return found

    def __repr__(self) -> str:
        head = [self.type if self.name is None else f"{self.type} `{self.name}`"]
        head += [f"shape {self.shape}", self.dtype, self.device, words.as_bytes(self.bytes)]
        if self.requires_grad:
            head.append("requires grad, leaf" if self.is_leaf else "requires grad")
        if self.layout != "torch.strided":
            head.append(f"{self.layout}, {self.size} stored")
        elif not self.contiguous:
            head.append("not contiguous")
        if self.entries != 1:
            head.append(f"in vmap: the numbers are those of all {self.entries} entries")
        lines = ["  ".join(head)]
        if self.min is not None:
            absolute = "complex" in self.dtype
            names = ("|min|", "|max|") if absolute else ("min", "max")
            values = zip(
                (*names, "mean", "std"), (self.min, self.max, self.mean, self.std), strict=True
            )
            text = "  ".join(f"{name} {words.digits(value)}" for name, value in values)
            lines.append(f"  {text}" + ("  (of the finite values)" if self.nan + self.inf else ""))
        counts = f"{self.nan} NaN, {self.inf} Inf, {self.zero} zero"
        lines.append(f"  {words.counted(self.size, 'value')}: {counts}")
        if self.grad_fn is not None:
            lines.append(f"  made by {self.grad_fn} at {words.shown(self.line)}")
        return "\n".join(lines)


def summary(t: Any, *inputs: Any, **named: Any) -> Any:
    """Shape, dtype, bytes, range, mean, NaN, Inf and zeros of a tensor, and where it was made.

    Of a model with its inputs: the layers in the order of their calls, with the shapes, parameters,
    memory and time of each; without inputs, their parameters.
    """
    from ..nn import Module

    if isinstance(t, Module):
        from ._layers import layers

        return layers(t, inputs, named)
    if inputs or named:
        raise TypeError("summary(): only a model (an nn.Module) is given inputs")
    given = words.tensors_of([t], "summary", "t")[0]
    if words.is_lazy(given):
        name = words.name_of(given)
        raise ValueError(
            f"summary(): {'the tensor' if name is None else f'`{name}`'} belongs to a lazy layer "
            "that has not seen an input yet; it has no shape and no values before a forward pass"
        )
    return Summary(given)


def statistics(array: Any) -> dict[str, Any]:
    """Range and moments of the finite values; how many are NaN, infinite and zero.

    Of complex values the range is that of the absolute value. What does not exist (the mean of
    nothing, the standard deviation of one value) is None.
    """
    finite = np.isfinite(array)
    nan = np.isnan(array)
    found: dict[str, Any] = {
        "size": int(array.size),
        "nan": int(nan.sum()),
        "inf": int(array.size - finite.sum() - nan.sum()),
        "zero": int(array.size - np.count_nonzero(array)),
        "min": None,
        "max": None,
        "mean": None,
        "std": None,
    }
    values = array[finite]
    if not values.size:
        return found
    is_complex = array.dtype.kind == "c"
    with np.errstate(all="ignore"):
        if array.dtype.kind in "biu":
            found["min"], found["max"] = int(values.min()), int(values.max())
        else:
            size = np.abs(values) if is_complex else values
            found["min"], found["max"] = float(size.min()), float(size.max())
        wide = values.astype(np.complex128 if is_complex else np.float64)
        found["mean"] = wide.mean().item()
        if values.size > 1:
            found["std"] = float(wide.std(ddof=1))
    return found
