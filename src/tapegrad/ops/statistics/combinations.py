"""Putting together and taking apart: block matrices, products of sets, membership, coordinates."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ... import dtypes
from ...core.base import TensorBase, wrap
from ...core.devices import on_device_of
from ...core.rounding import half_as_single
from ...core.size import Size
from ...errors import must_be_tensor, no_tensor_in_list
from ..block import PROMOTE, Block, Case, Linear, api, apply, op
from ..block.batching import flattened, lift
from ..block.checks import as_int, invalid_call, is_number
from ..block.samples import Draw, Index
from ..shape.joining import Stack
from ..shape.triangles import meshgrid

# ruff: noqa: N805


def listed(tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    for place, t in enumerate(tensors):
        if not isinstance(t, TensorBase):
            raise no_tensor_in_list(place, 0, t)
    return tensors


# ---------------------------------------------------------------------- block matrices


def as_matrix(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a block: a number is a matrix of one, a vector is a row."""
    return (*(1,) * (2 - len(shape)), *shape)


@op
class BlockDiag(Linear):
    """block_diag(tensors) -> Tensor: matrices along the diagonal, zeros elsewhere."""

    aten = "block_diag"
    tensors = ("tensors",)
    variadic = True
    dtype = PROMOTE
    public = False

    def fwd(xp, tensors):
        blocks = [x.reshape(as_matrix(x.shape)) for x in tensors]
        rows = sum([x.shape[-2] for x in blocks])
        columns = sum([x.shape[-1] for x in blocks])
        out = xp.zeros((*blocks[0].shape[:-2], rows, columns), blocks[0].dtype)
        row = column = 0
        for x in blocks:
            high, wide = x.shape[-2:]
            out[..., row : row + high, column : column + wide] = x
            row += high
            column += wide
        return out

    def backward(F, grad, needs, tensors_shape):
        found = []
        row = column = 0
        rank = len(grad.shape)
        for need, shape in zip(needs, tensors_shape, strict=True):
            high, wide = as_matrix(shape)[-2:]
            part = None
            if need:
                part = F.narrow(grad, rank - 2, row, high)
                part = F.reshape(F.narrow(part, rank - 1, column, wide), shape)
            found.append(part)
            row += high
            column += wide
        return found

    def batch(F, size, batched, tensors):
        whole = [lift(F, x, size, b) for x, b in zip(tensors, batched, strict=True)]
        return F.block_diag([F.reshape(x, (size, *as_matrix(x.shape[1:]))) for x in whole])


@api(
    method=False,
    samples=[Case(Draw(2, 3), Draw(3), Draw()), Case(Draw(0, 2), Draw(2, 1)), Case(Draw(2, 2))],
    python=True,
)
def block_diag(*tensors: Any) -> Any:
    """block_diag(*tensors) -> Tensor: matrices along the diagonal of one matrix.

    >>> block_diag(tensor([[1, 2]]), tensor(3))
    tensor([[1, 2, 0],
            [0, 0, 3]])
    """
    listed(tensors)
    for place, t in enumerate(tensors):
        if t._array.ndim > 2:
            raise RuntimeError(
                "torch.block_diag: Input tensors must have 2 or fewer dimensions. "
                f"Input {place} has {t._array.ndim} dimensions"
            )
    if not tensors:
        return wrap(np.empty((1, 0), np.float32))
    return apply(BlockDiag, tensors)


# ---------------------------------------------------------------------- products of sets


@api(
    method=False,
    samples=[Case(Draw(2), Draw(3)), Case(Draw(2), Draw(1), Draw(2)), Case(Draw(3))],
    python=True,
)
def cartesian_prod(*tensors: Any) -> Any:
    """cartesian_prod(*tensors) -> Tensor: one row per choice of one element of each vector.

    >>> cartesian_prod(tensor([1, 2]), tensor([4, 5]))
    tensor([[1, 4],
            [1, 5],
            [2, 4],
            [2, 5]])
    """
    for t in listed(tensors):
        if t._array.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(t._array.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    grids = meshgrid(*tensors, indexing="ij")
    return apply(Stack, tuple([grid.flatten() for grid in grids]), (1,))


@api(
    method=False,
    samples=[Case(Draw(4)), Case(Draw(3), 3, True), Case(Draw(3), 1), Case(Draw(2), 3)],
)
def combinations(input: Any, r: Any = 2, with_replacement: bool = False) -> Any:
    """combinations(input, r=2, with_replacement=False) -> Tensor: one row per choice of r elements.

    >>> combinations(tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    if not isinstance(input, TensorBase):
        raise must_be_tensor("combinations", "input", 1, input)
    r = as_int("combinations", "r", 2, r)
    if input._array.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input._array.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r > 64 and input._array.shape[0] > 1:  # 2 ** r, or more, places are looked at
        raise RuntimeError("numel: integer multiplication overflow")
    if r == 0:
        return on_device_of(input, np.empty(0, input._array.dtype))
    places = np.indices((input._array.shape[0],) * r)
    earlier = places[:-1] <= places[1:] if with_replacement else places[:-1] < places[1:]
    chosen = on_device_of(input, earlier.all(axis=0))
    grids = meshgrid(*[input] * r, indexing="ij")
    return apply(Stack, tuple([grid.masked_select(chosen) for grid in grids]), (1,))


# ---------------------------------------------------------------------- shapes


@api(method=False, python=True)
def broadcast_shapes(*shapes: Any) -> Any:
    """broadcast_shapes(*shapes) -> Size: the shape of an expression over tensors of these shapes.

    >>> broadcast_shapes((2, 1), (3,))
    torch.Size([2, 3])
    """
    given: list[Any] = []
    for s in shapes:
        if s is None:
            continue
        if isinstance(s, str):
            raise TypeError("'<' not supported between instances of 'str' and 'int'")
        shape = (s,) if isinstance(s, int) else s
        if not isinstance(shape, (tuple, list)):
            raise RuntimeError(
                f"Input shapes should be of type ints, a tuple of ints, or a list of ints, got {s}"
            )
        given.append(shape)
    common = [1] * max([len(s) for s in given], default=0)
    for place, shape in enumerate(given):
        for d in range(-1, -1 - len(shape), -1):
            if common[d] == 1:
                if shape[d] < 0:
                    raise ValueError("Attempting to broadcast a dimension with negative length!")
                common[d] = shape[d]
            elif shape[d] not in (1, common[d]):
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {shape[d]} at {d}! "
                    f"Mismatching argument at index {place} had {tuple(shape)}; but expected "
                    f"shape should be broadcastable to {common}"
                )
    return Size(common)


@api(
    function=False,
    samples=[Case(Draw(3, 4), 3, 1), Case(Draw(3, 4), (4,)), Case(Draw(2, 3), 1), Case(Draw(2), 2)],
)
def sum_to_size(input: Any, *size: Any, **kwargs: Any) -> Any:
    """sum_to_size(*size) -> Tensor: summed over dimensions until it has this shape.

    >>> ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])
    """
    from ..creation.arguments import sizes

    shape = sizes("sum_to_size", size, kwargs)
    have = input._array.shape
    lead = len(have) - len(shape)
    pairs = zip(shape, have[lead:] if lead >= 0 else (), strict=False)
    if lead < 0 or any([n not in (1, m) for n, m in pairs]):
        raise RuntimeError(f"size {{{list(shape)}}} is not expandable to size {{{list(have)}}}.")
    if not shape:
        return input.sum()
    dims = [d for d, n in enumerate(have) if d < lead or (shape[d - lead] == 1 and n != 1)]
    if not dims:
        return input
    summed = input.sum(dims, keepdim=True)
    return summed.view(shape) if lead else summed


# ---------------------------------------------------------------------- coordinates


@api(
    method=False,
    samples=[Case(Index([3, 1, 2]), (2, 3)), Case(Index(5), (2, 3)), Case(Index([[3], [1]]), 4)],
    python=True,
)
def unravel_index(indices: Any, shape: Any) -> Any:
    """unravel_index(indices, shape) -> tuple of Tensors: coordinates from flat indices.

    >>> unravel_index(tensor([4, 5]), (2, 3))
    (tensor([1, 1]), tensor([1, 2]))
    """
    if not isinstance(indices, TensorBase):
        raise must_be_tensor("unravel_index", "indices", 1, indices)
    if indices._array.dtype.kind not in "iu":
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if isinstance(shape, int):
        sizes = (shape,)
    elif isinstance(shape, (tuple, list, str)):
        for n in shape:
            if not isinstance(n, int):
                raise TypeError(
                    f"expected 'shape' sequence to only contain ints, but got {type(n)}"
                )
        sizes = tuple(shape)
    else:
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    if any([n >= 1 << 63 for n in sizes]):
        raise ValueError("Overflow when unpacking long long")
    if any([n < 0 for n in sizes]):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    steps = np.cumprod([1, *sizes[:0:-1]], dtype=np.int64)[::-1][: len(sizes)].copy()
    places = indices.unsqueeze(-1).div(on_device_of(indices, steps), rounding_mode="floor")
    return places.remainder(on_device_of(indices, np.asarray(sizes, np.int64))).unbind(-1)


@op
class NonzeroStatic(Block):
    """nonzero_static(input, size, fill_value, lead) -> Tensor: so many rows of coordinates.

    `lead` is the number of leading dimensions that are a batch.
    """

    aten = "nonzero_static"
    public = False
    undifferentiable = "the results are indices"

    def fwd(xp, input, size, fill_value, lead):
        inner = input.shape[lead:]
        batch = input.shape[:lead]
        flat = input.reshape((*batch, -1)) == 0
        # A stable sort puts what is not zero first, in order.
        first = xp.argsort(flat, axis=-1, kind="stable")[..., :size]
        taken = first.shape[-1]
        counts = (~flat).sum(axis=-1)[..., None]
        out = xp.full((*batch, size, len(inner)), fill_value, np.int64)
        if inner and taken:
            found = xp.stack(xp.unravel_index(first, inner), axis=-1)
            filled = (xp.arange(taken) < counts)[..., None]
            out[..., :taken, :] = xp.where(filled, found, fill_value)
        return out

    def batch(F, size_, batched, input, size, fill_value, lead):
        return F.nonzero_static(input, size, fill_value, lead + 1)


@api(
    samples=[Case(Draw(2, 3), size=4), Case(Draw(2, 3), size=8, fill_value=9), Case(Draw(), size=2)]
)
def nonzero_static(input: Any, *, size: Any, fill_value: Any = -1) -> Any:
    """nonzero_static(input, *, size, fill_value=-1) -> Tensor: `nonzero`, with `size` rows.

    >>> nonzero_static(tensor([0, 3, 0, 4]), size=3)
    tensor([[ 1],
            [ 3],
            [-1]])
    """
    if not isinstance(input, TensorBase):
        raise must_be_tensor("nonzero_static", "input", 1, input)
    if size is None:
        raise TypeError('nonzero_static() missing 1 required positional arguments: "size"')
    for name, value in (("size", size), ("fill_value", fill_value)):
        if not hasattr(value, "__index__"):
            kind = type(value).__name__
            raise TypeError(f"nonzero_static(): argument '{name}' must be int, not {kind}")
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    attrs = (operator.index(size), operator.index(fill_value), 0)
    return apply(NonzeroStatic, (input,), attrs)


# ---------------------------------------------------------------------- membership


@op
class Isin(Block):
    """isin_set(elements, test_elements, invert) -> Tensor: which elements are in a set."""

    name = "isin_set"
    aten = "isin.Tensor_Tensor"
    tensors = ("elements", "test_elements")
    dtype = PROMOTE
    numbers = True
    public = False
    undifferentiable = "the result is a bool"

    def fwd(xp, elements, test_elements, invert):
        return xp.isin(half_as_single(elements), half_as_single(test_elements), invert=invert)

    def batch(F, size, batched, elements, test_elements, invert):
        if not batched[1]:
            return F.isin_set(elements, test_elements, invert)
        members = flattened(F, test_elements)
        if not hasattr(elements, "shape"):
            found = F.sum(members == elements, (1,), False, None) > 0
            return ~found if invert else found
        whole = lift(F, elements, size, batched[0])
        same = F.unsqueeze(flattened(F, whole), 2) == F.unsqueeze(members, 1)
        found = F.reshape(F.sum(same, (2,), False, None), whole.shape) > 0
        return ~found if invert else found


@api(
    method=False,
    samples=[
        Case(Index([[1, 2], [3, 4]]), Index([2, 3])),
        Case(Index([1, 2, 3]), 2, invert=True),
        Case(2, Index([1, 2])),
        Case(Draw(3), Draw(0)),
    ],
)
def isin(
    elements: Any = None,
    test_elements: Any = None,
    *,
    assume_unique: bool = False,
    invert: bool = False,
    element: Any = None,
    test_element: Any = None,
) -> Any:
    """isin(elements, test_elements, *, assume_unique=False, invert=False) -> Tensor: which
    `elements` are among `test_elements`.

    >>> isin(tensor([[1, 2], [3, 4]]), tensor([2, 3]))
    tensor([[False,  True],
            [ True, False]])
    """
    first = elements if elements is not None else element
    second = test_elements if test_elements is not None else test_element
    given = (first, second)
    fits = all([isinstance(v, TensorBase) or is_number(v) for v in given])
    if not fits or not any([isinstance(v, TensorBase) for v in given]):
        raise invalid_call("isin", *given)
    for v in given:
        array = v._array if isinstance(v, TensorBase) else np.asarray(v)
        if array.dtype.kind in "bc":
            kind = dtypes.of(array.dtype).scalar_type
            raise RuntimeError(f"Unsupported input type encountered for isin(): {kind}")
    return apply(Isin, given, (bool(invert),))
