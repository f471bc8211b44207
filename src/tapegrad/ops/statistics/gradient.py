"""`torch.gradient`: slopes of sampled functions by finite differences."""

from __future__ import annotations

from typing import Any

from ...core.arguments import wrap_dim
from ...core.base import TensorBase
from ...core.python_dispatch import read_values
from ...errors import no_tensor_in_list
from ..block import APIS, Case, api
from ..block.checks import array_of, as_int, as_ints, invalid_call, is_number
from ..block.samples import Draw, Index


def joined(parts: list[Any], dim: int) -> Any:
    return APIS["cat"].call(parts, dim)


def slopes(f: Any, dim: int, step: Any, edge_order: int) -> Any:
    """Central differences for samples `step` apart; one-sided ones at both ends."""
    size = f._array.shape[dim]

    def at(start: int, length: int = 1) -> Any:
        return f.narrow(dim, start, length)

    if edge_order == 1:
        first = (at(1) - at(0)) / step
        last = (at(size - 1) - at(size - 2)) / step
    else:
        first = (at(0) * -1.5 + at(1) * 2 - at(2) * 0.5) / step
        last = (at(size - 3) * 0.5 - at(size - 2) * 2 + at(size - 1) * 1.5) / step
    middle = (at(2, size - 2) - at(0, size - 2)) / (step * 2)
    return joined([first, middle, last], dim)


def slopes_at(f: Any, dim: int, places: Any, edge_order: int) -> Any:
    """Finite differences for samples at any places: exact for polynomials of the second degree."""
    shape = f._array.shape
    size = shape[dim]

    def at(start: int, length: int = 1) -> Any:
        return f.narrow(dim, start, length)

    def along(x: Any) -> Any:
        return x.reshape([-1 if d == dim else 1 for d in range(len(shape))])

    gaps = places.narrow(0, 1, size - 1) - places.narrow(0, 0, size - 1)
    before, after = gaps.narrow(0, 0, size - 2), gaps.narrow(0, 1, size - 2)
    a = along(-after / (before * (before + after)))
    b = along((after - before) / (before * after))
    c = along(before / (after * (before + after)))
    middle = a * at(0, size - 2) + b * at(1, size - 2) + c * at(2, size - 2)
    if edge_order == 1:
        first = (at(1) - at(0)) / gaps[0]
        last = (at(size - 1) - at(size - 2)) / gaps[size - 2]
    else:
        near, far = gaps[0], gaps[1]
        a = -(near * 2.0 + far) / (near * (near + far))
        b = (near + far) / (near * far)
        c = -near / (far * (near + far))
        first = a * at(0) + b * at(1) + c * at(2)
        near, far = gaps[size - 3], gaps[size - 2]
        a = far / (near * (near + far))
        b = -(near + far) / (near * far)
        c = (far * 2.0 + near) / (far * (near + far))
        last = a * at(size - 3) + b * at(size - 2) + c * at(size - 1)
    return joined([first, middle, last], dim)


def check_spacing(count: int, given: int, every: bool) -> None:
    """One spacing for each dimension."""
    if count == given:
        return
    if every:
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of length "
            f"equal to 'self.dim() = {given}', since dim argument was not given, but got a list "
            f"of length {count}"
        )
    raise RuntimeError(
        "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim "
        f"arguments to have the same length, but got a spacing argument of length {count} and a "
        f"dim argument of length {given}."
    )


def checked_dims(x: Any, dim: Any, edge_order: int) -> tuple[int, ...]:
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    if dim is None:
        dims = tuple(range(x.ndim))
    elif isinstance(dim, (tuple, list)):
        dims = as_ints("gradient", "dim", 3, dim)
    else:
        dims = (as_int("gradient", "dim", 3, dim),)
    dims = tuple([wrap_dim(d, x.ndim) for d in dims])
    for i, d in enumerate(dims):
        if d in dims[:i]:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    for d in dims:
        if not x.ndim:
            raise IndexError("Dimension specified as 0 but tensor has no dimensions")
        if x.shape[d] < edge_order + 1:
            raise RuntimeError(
                "torch.gradient expected each dimension size to be at least edge_order+1"
            )
    return dims


@api(
    method=False,
    samples=[
        Case(Draw(5)),
        Case(Draw(3, 4), spacing=2.0, dim=1),
        Case(Draw(3, 4), spacing=(2.0, 0.5), edge_order=2),
        Case(Draw(3, 4), spacing=(Index([1.0, 2.0, 4.0, 4.5]),), dim=1),
        Case(Draw(3, 4, layout="T"), spacing=(Index([1.0, 2.0, 4.0]),), dim=0, edge_order=2),
    ],
)
def gradient(input: Any, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> Any:
    """gradient(input, *, spacing=1, dim=None, edge_order=1) -> tuple of Tensors: the slopes of
    values on a grid.

    Along each of `dim`, by central differences. `spacing` is the distance of the samples, a number
    for each dimension, or a tensor with their places for each.

    >>> gradient(tensor([1.0, 2.0, 4.0, 7.0]))
    (tensor([1.0000, 1.5000, 2.5000, 3.0000]),)
    """
    x = array_of("gradient", input)
    if isinstance(spacing, TensorBase) and not spacing._array.ndim:
        spacing = read_values(spacing).item()
    listed = isinstance(spacing, (tuple, list))
    if not listed and not (spacing is None or is_number(spacing)):
        raise invalid_call("gradient", input, spacing)
    given = listed and any(isinstance(each, TensorBase) for each in spacing)
    if listed:
        count = x.ndim if dim is None else len(dim) if isinstance(dim, (tuple, list)) else 1
        check_spacing(len(spacing), count, dim is None)
    if given:
        check_places(input, spacing)
    dims = checked_dims(x, dim, edge_order)
    if x.dtype.name == "uint8":
        raise RuntimeError("torch.gradient does not support uint8 input.")
    if given:
        return tuple(
            [slopes_at(input, d, at, edge_order) for d, at in zip(dims, spacing, strict=True)]
        )
    steps = spacing if listed else [1 if spacing is None else spacing] * len(dims)
    return tuple([slopes(input, d, step, edge_order) for d, step in zip(dims, steps, strict=True)])


def check_places(input: Any, spacing: Any) -> None:
    for i, places in enumerate(spacing):
        if not isinstance(places, TensorBase):
            raise no_tensor_in_list(i, 1, places)
    for places in spacing:
        if places.device != input.device:
            raise RuntimeError(
                "torch.gradient expected each tensor to be on the same device, but got devices "
                f"{input.device} and {places.device}!"
            )
        if places._array.ndim != 1:
            raise RuntimeError(
                "torch.gradient expected each element of spacing to have one dimension, but got an "
                f"element with {places._array.ndim} dimensions!"
            )
