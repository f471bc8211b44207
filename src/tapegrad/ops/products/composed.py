"""Products made of other products: outer, linear, tensordot, kron, chains."""

from __future__ import annotations

import math
from typing import Any

from ...core.base import STATE, TensorBase
from ...core.casting import cast_call
from ...core.function_modes import WATCHED, ask_watchers, is_watched
from ...core.late_bound import ON_DEMAND
from ...core.modes import MODES
from ...core.python_dispatch import read_values
from ...core.transforms.batched import batch_of, entered, is_batched, physical_at
from ...core.transforms.levels import BATCHES
from ...core.warned import warn_once
from ...errors import explain_call
from ..block import APIS, LOWER, WIDEST, Autocast, Case, api, apply
from ..block.checks import OUT_EXACT
from ..block.out_argument import write_outputs
from ..block.samples import Draw
from .addmm import Addmm, check_addmm
from .linear_layer import cast_linear, linear_of_floats
from .matmul import Dot, check_dot, is_tensor, matmul, mm, unsafe_view, view

OUT_TENSORDOT = (
    "tensordot: Expected the output tensor to have dtype {want}, but got an output tensor with "
    "dtype {got}"
)


@api(aliases=("ger",), samples=[Case(Draw(2), Draw(3)), Case(Draw(0), Draw(2))])
def outer(input: Any, vec2: Any) -> Any:
    """outer(input, vec2) -> Tensor: all products of elements of two vectors.

    >>> outer(tensor([1, 2]), tensor([3, 4]))
    tensor([[3, 4],
            [6, 8]])
    """
    a, b = is_tensor("outer", "input", 1, input), is_tensor("outer", "vec2", 2, vec2)
    for name, x in (("self", a), ("vec2", b)):
        if x.ndim != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {x.ndim}-D")
    return input.reshape(a.size, 1) * vec2


@api(
    name="nn.functional.linear",
    samples=[
        Case(Draw(2, 3), Draw(4, 3)),
        Case(Draw(2, 3), Draw(4, 3), Draw(4)),
        Case(Draw(3), Draw(4, 3), Draw(4)),
        Case(Draw(2, 2, 3), Draw(4, 3), Draw(4)),
    ],
    autocast=Autocast(cpu=LOWER, gpu=LOWER),
    out_dtype=OUT_EXACT,
)
def linear(input: Any, weight: Any, bias: Any = None, *, out: Any = None) -> Any:
    """linear(input, weight, bias=None) -> Tensor: `input @ weight.T + bias`.

    >>> torch.nn.functional.linear(tensor([1.0, 2.0]), tensor([[3.0, 4.0]]))
    tensor([11.])
    """
    if WATCHED and is_watched((input, weight, bias, out), {}):
        given = (input, weight) if bias is None else (input, weight, bias)
        return ask_watchers(linear, given, {} if out is None else {"out": out})
    if out is not None:
        record = APIS["nn.functional.linear"]
        return write_outputs("linear", out, linear, (input, weight, bias), {}, record)
    if STATE.casting and MODES.autocast is not None:
        input, weight, bias, found = cast_linear(input, weight, bias)
        return cast_call(linear, (input, weight, bias), {}) if found is None else found
    found = linear_of_floats(input, weight, bias)
    if found is not None:
        return found  # by the same ops as below
    given = (input, weight) if bias is None else (input, weight, bias)
    if BATCHES and is_batched(input):
        found = linear_of_entries(*given)
        if found is not None:
            return found
    if not all([isinstance(t, TensorBase) for t in given]):
        found = ON_DEMAND.ask_foreign(linear, given, {})
        if found is not NotImplemented:
            return found
    try:
        x = is_tensor("linear", "input", 1, input)
        w = is_tensor("linear", "weight", 2, weight)
        if not x.ndim or not w.ndim:
            raise RuntimeError(
                "both arguments to linear need to be at least 1D, but they are "
                f"{x.ndim}D and {w.ndim}D"
            )
        if bias is None:
            return matmul(input, weight.t())
        b = is_tensor("linear", "bias", 3, bias)
        if x.ndim == 2:
            turned = weight.t()
            check_addmm(b, x, turned._array)
            return apply(Addmm, (bias, input, turned), (1, 1))
        if x.ndim != 0 and x.flags.c_contiguous and w.ndim == 2:
            turned = weight.t()
            flat = view(input, (math.prod(x.shape[:-1]), x.shape[-1]))
            check_addmm(b, flat._array, turned._array)
            return view(apply(Addmm, (bias, flat, turned), (1, 1)), (*x.shape[:-1], w.shape[0]))
        return matmul(input, weight.t()).add_(bias)
    except RuntimeError as error:
        explain_call(error, "linear", ("input", "weight", "bias"), (input, weight, bias))
        raise


def linear_of_entries(input: Any, weight: Any, bias: Any = None) -> Any:
    """`linear` of one vector per entry of a batch: the vectors are the rows of a matrix."""
    batch = batch_of(input)
    shared = [t for t in (weight, bias) if isinstance(t, TensorBase)]
    if input._array.ndim != 1 or any([physical_at(t, batch.level)[1] for t in shared]):
        return None
    out = linear_of_floats(batch.physical, weight, bias)
    return None if out is None else entered(out, batch.level)


@api(
    samples=[Case(Draw(2, 3), Draw(4, 3)), Case(Draw(3), Draw(3)), Case(Draw(2, 3), Draw())],
    out_dtype=OUT_TENSORDOT,
)
def inner(input: Any, other: Any) -> Any:
    """inner(input, other) -> Tensor: the products summed over the last dimension of both.

    >>> inner(tensor([[1, 2], [3, 4]]), tensor([1, 1]))
    tensor([3, 7])
    """
    a, b = is_tensor("inner", "input", 1, input), is_tensor("inner", "other", 2, other)
    if a.ndim == 0 or b.ndim == 0:
        return input * other
    if a.shape[-1] != b.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(a.shape)} and {list(b.shape)}"
        )
    return tensordot(input, other, dims=([a.ndim - 1], [b.ndim - 1]))


def dimension_lists(a: Any, b: Any, dims: Any) -> tuple[list[int], list[int]]:
    """The dimensions of both tensors that tensordot sums over."""
    if isinstance(dims, TensorBase):
        dims = read_values(dims).tolist()
    if isinstance(dims, (tuple, list)):
        if len(dims) == 2 and all([isinstance(d, (tuple, list)) for d in dims]):
            return list(dims[0]), list(dims[1])
        first, second = dims if len(dims) == 2 else (dims, dims)
        return [int(first)], [int(second)]
    count = int(dims)
    if count < 0:
        raise RuntimeError(f"tensordot expects dims >= 0, but got dims={count}")
    if count > min(a.ndim, b.ndim):
        raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={count}")
    return list(range(-count, 0)), list(range(count))


@api(
    method=False,
    samples=[
        Case(Draw(2, 3), Draw(3, 4), 1),
        Case(Draw(2, 3, 4), Draw(3, 4, 5)),
        Case(Draw(2), Draw(3), 0),
    ],
    autocast=Autocast(gpu=WIDEST),
    out_dtype=OUT_TENSORDOT,
    python=True,
)
def tensordot(a: Any, b: Any, dims: Any = 2, out: Any = None) -> Any:
    """tensordot(a, b, dims=2) -> Tensor: the product summed over several dimensions at once.

    >>> tensordot(ones(2, 3), ones(3, 4), dims=1).shape
    torch.Size([2, 4])
    """
    if not isinstance(dims, (int, tuple, list, TensorBase)):
        raise RuntimeError(
            "tensordot expects dims to be int or tuple[list[int], list[int]] or list[list[int]] "
            f"containing two lists, but got dims={dims}"
        )
    x, y = is_tensor("tensordot", "a", 1, a), is_tensor("tensordot", "b", 2, b)
    left, right = dimension_lists(x, y, dims)
    if len(left) != len(right):
        raise RuntimeError("both dimension lists should have same length")
    if x.dtype != y.dtype:
        raise RuntimeError("both inputs should have same dtype")
    for i, j in zip(left, right, strict=True):
        if x.shape[i] != y.shape[j] and 1 in (x.shape[i], y.shape[j]):
            if y.shape[j] == 1:
                a = a.sum(i, keepdim=True, dtype=a.dtype)
            else:
                b = b.sum(j, keepdim=True, dtype=b.dtype)
            x, y = a._array, b._array
        elif x.shape[i] != y.shape[j]:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {x.shape[i]} in dim {i} "
                f"and second has size {y.shape[j]} in dim {j}"
            )
    left, right = [i % x.ndim for i in left], [j % y.ndim for j in right]
    keep_left = [i for i in range(x.ndim) if i not in left]
    keep_right = [j for j in range(y.ndim) if j not in right]
    rows, columns = [x.shape[i] for i in keep_left], [y.shape[j] for j in keep_right]
    inner_size = math.prod([x.shape[i] for i in left])
    first, second = a.permute(*keep_left, *left), b.permute(*right, *keep_right)
    if math.prod(rows) * math.prod(columns) == 1:
        if first.is_contiguous() and second.is_contiguous():
            number = dot(first.flatten(), second.flatten())
        else:
            number = (first.squeeze() * second.squeeze()).sum(dtype=a.dtype)
        result = view(number, (*rows, *columns))
    else:
        left_matrix = first.reshape(math.prod(rows), inner_size)
        right_matrix = second.reshape(inner_size, math.prod(columns))
        result = view(mm(left_matrix, right_matrix), (*rows, *columns))
    return result if out is None else out.copy_(result)


def dot(a: Any, b: Any) -> Any:
    check_dot("dot", a._array, b._array)
    return apply(Dot, (a, b))


@api(samples=[Case(Draw(2, 2), Draw(2, 3)), Case(Draw(2), Draw(2, 3))])
def kron(input: Any, other: Any) -> Any:
    """kron(input, other) -> Tensor: the Kronecker product.

    >>> kron(tensor([1, 10]), tensor([1, 2]))
    tensor([ 1,  2, 10, 20])
    """
    a, b = is_tensor("kron", "input", 1, input).shape, is_tensor("kron", "other", 2, other).shape
    ndim = max(len(a), len(b))
    a, b = (1,) * (ndim - len(a)) + a, (1,) * (ndim - len(b)) + b
    left = [n for size in a for n in (size, 1)]
    right = [n for size in b for n in (1, size)]
    prod = unsafe_view(input, tuple(left)) * unsafe_view(other, tuple(right))
    shape = tuple([m * n for m, n in zip(a, b, strict=True)])
    try:
        return unsafe_view(prod, shape)
    except RuntimeError:  # the product of a turned and a straight matrix, which PyTorch refuses
        return unsafe_view(prod.contiguous(), shape)


@api(
    method=False,
    samples=[Case(Draw(2, 3), Draw(3, 4), Draw(4, 2))],
    autocast=Autocast(gpu=LOWER),
    python=True,
)
def chain_matmul(*matrices: Any, out: Any = None) -> Any:
    """chain_matmul(*matrices) -> Tensor: the product of several matrices (deprecated).

    >>> chain_matmul(ones(2, 3)).shape
    torch.Size([2, 3])
    """
    warn_once(
        "torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use "
        "torch.linalg.multi_dot instead, which accepts a list of two or more tensors rather than "
        "multiple parameters.",
    )
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    for m in matrices:
        if m._array.ndim != 2:
            raise RuntimeError(f"Tensor dimension is {m._array.ndim}, expected 2 instead.")
    return matrices[0].clone() if len(matrices) == 1 else multi_dot(list(matrices))


def multi_dot(tensors: Any) -> Any:
    """linalg.multi_dot: the product in the order that needs the fewest multiplications."""
    count = len(tensors)
    if count < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {count}")
    first, last = tensors[0], tensors[-1]
    shape: list[int] = []
    parts = list(tensors)
    if first._array.ndim == 1:
        parts[0] = first.unsqueeze(0)
    elif first._array.ndim == 2:
        shape.append(first._array.shape[0])
    else:
        raise RuntimeError(
            f"multi_dot(): the first tensor must be 1D or 2D but got {first._array.ndim}D"
        )
    if last._array.ndim == 1:
        parts[-1] = last.unsqueeze(-1)
    elif last._array.ndim == 2:
        shape.append(last._array.shape[1])
    else:
        raise RuntimeError(
            f"multi_dot(): the last tensor must be 1D or 2D but got {last._array.ndim}D"
        )
    for i, p in enumerate(parts[1:-1]):
        if p._array.ndim != 2:
            raise RuntimeError(f"multi_dot(): tensor {i + 1} must be 2D but got {p._array.ndim}D")
    for i in range(count - 1):
        if parts[i]._array.shape[1] != parts[i + 1]._array.shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {i} and {i + 1} with shapes {list(tensors[i]._array.shape)} "
                f"and {list(tensors[i + 1]._array.shape)} cannot be multiplied"
            )
    return view(chain(parts), tuple(shape))


def chain(parts: list[Any]) -> Any:
    """The product of matrices by the cheapest bracketing (dynamic programming)."""
    count = len(parts)
    dims = [parts[0]._array.shape[0], *[p._array.shape[1] for p in parts]]
    if count == 3 and dims[0] * dims[2] * (dims[1] + dims[3]) <= dims[1] * dims[3] * (
        dims[0] + dims[2]
    ):
        return mm(mm(parts[0], parts[1]), parts[2])  # of two equals PyTorch takes the left one
    cost = [[0] * count for _ in range(count)]
    split = [[0] * count for _ in range(count)]
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            choices = [
                cost[i][k] + cost[k + 1][j] + dims[i] * dims[k + 1] * dims[j + 1]
                for k in range(i, j)
            ]
            cost[i][j] = min(choices)
            split[i][j] = i + choices.index(cost[i][j])

    def build(i: int, j: int) -> Any:
        return parts[i] if i == j else mm(build(i, split[i][j]), build(split[i][j] + 1, j))

    return build(0, count - 1)
