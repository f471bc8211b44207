"""Norms of matrices, their condition and their rank."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import dtypes
from ...core.arguments import wrap_dim
from ...core.base import TensorBase
from ...core.devices import on_device_of
from ...core.warned import warn_once
from ...errors import does_not_fit
from ..block import APIS, SINGLE, Autocast, Case, api
from ..block.checks import OUT_SAFELY, invalid_call, only_bool
from ..block.samples import Draw
from ..reduce.vector_norm import check_dtype, vector_norm
from . import solve as linalg_solve  # noqa: F401  cond calls linalg.inv_ex
from .matrices import check_floating, check_matrix, check_square, is_half, scalar_type, tensor_array
from .spectral import eigh_of, svd_of

# ruff: noqa: N803, N805, N806

OUT_NORM = "{torch_name} expected out tensor dtype {want} but got: {got}"

MATRIX_FORMS = (1, 2, math.inf)


# ---------------------------------------------------------------------- norms


def checked_dims(A: Any, dim: Any, low_precision: bool, dtype: Any) -> tuple[int, int]:
    """The two dimensions of the matrices, after everything that PyTorch checks before."""
    function = "linalg.matrix_norm"
    array = A._array
    check_matrix(function, array)
    if len(dim) != 2:
        shown = " ".join(str(d) for d in dim)
        raise RuntimeError(f"{function}: dim must be a 2-tuple. Got {shown}")
    check_floating(function, array, low_precision)
    first, second = (wrap_dim(d, array.ndim) for d in dim)
    if first == second:
        raise RuntimeError(f"{function}: dims must be different. Got ({first}, {second})")
    if dtype is not None:
        check_dtype(function, dtypes.of(array.dtype), dtype)
    return first, second


def singular_values(A: Any, dims: tuple[int, int], dtype: Any) -> Any:
    if dtype is not None:
        A = A.to(dtype)
    ndim = A._array.ndim
    behind = [d for d in range(ndim) if d not in dims]
    return svd_of(A.permute([*behind, *dims]), False, False)[1]


def put_back(values: Any, dims: tuple[int, int], keepdim: bool) -> Any:
    """Norms with `keepdim`, which have one of their two dimensions, behind all others."""
    if not keepdim:
        return values
    values = values.unsqueeze(-1)
    ndim = values._array.ndim
    behind = [d for d in range(ndim) if d not in dims]
    order = [*behind, *dims]
    return values.permute([order.index(d) for d in range(ndim)])


def extreme(x: Any, largest: bool, dim: int, keepdim: bool) -> Any:
    if not largest:
        return x.amin(dim, keepdim)
    if x._array.shape[dim] == 0:
        return x.sum(dim, keepdim)  # the largest of no lengths is 0
    return x.amax(dim, keepdim)


@api(
    name="linalg.matrix_norm",
    samples=[
        Case(Draw(2, 3)),
        Case(Draw(2, 3, 2), "nuc"),
        Case(Draw(2, 3, 2), 2, (2, 0), True),
        Case(Draw(3, 3), -2),
        Case(Draw(2, 3, 4), 1, (0, 2)),
        Case(Draw(3, 2, layout="T"), -math.inf, keepdim=True),
        Case(Draw(0, 2), "fro"),
    ],
    autocast=Autocast(gpu=SINGLE),
    out_dtype=OUT_NORM,
)
def matrix_norm(
    input: Any,
    ord: Any = "fro",
    dim: Any = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Any:
    """linalg.matrix_norm(input, ord="fro", dim=(-2, -1), keepdim=False) -> Tensor: the norm of
    each matrix: `ord` says which.

    `ord` is "fro", "nuc", 1, -1, 2, -2, inf or -inf; `dtype=` is what is computed in.

    >>> torch.linalg.matrix_norm(tensor([[3.0, 0.0], [0.0, 4.0]]), 2)
    tensor(4.)
    """
    tensor_array("linalg_matrix_norm", "input", 1, input)
    if not isinstance(dim, (tuple, list)) or ord is None:
        raise invalid_call("linalg_matrix_norm", input, ord, dim)
    if isinstance(ord, str):
        if ord not in ("fro", "nuc"):
            raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
        dims = checked_dims(input, dim, ord != "nuc", dtype)
        if ord == "fro":
            return vector_norm(input, 2, dims, keepdim, dtype=dtype)
        values = singular_values(input, dims, dtype)
        return put_back(values.sum(-1, keepdim), dims, keepdim)
    if isinstance(ord, complex):
        raise RuntimeError(
            "linalg.matrix_norm: Expected a non-complex scalar as the order of norm."
        )
    size = abs(ord)
    if size not in MATRIX_FORMS:
        raise RuntimeError(f"linalg.matrix_norm: Order {ord:g} not supported.")
    first, second = dims = checked_dims(input, dim, size != 2, dtype)
    if size == 2:
        values = singular_values(input, dims, dtype)
        return put_back(extreme(values, ord > 0, -1, keepdim), dims, keepdim)
    if size == math.inf:
        first, second = second, first
    sums = vector_norm(input, 1, first, keepdim, dtype=dtype)
    if not keepdim and first < second:
        second -= 1
    return extreme(sums, ord > 0, second, keepdim)


@api(
    name="linalg.norm",
    samples=[
        Case(Draw(2, 3)),
        Case(Draw(2, 3), 2),
        Case(Draw(2, 3, 4), "nuc", (0, 2), True),
        Case(Draw(4), 3),
        Case(Draw(2, 3), math.inf, 1),
        Case(Draw(2, 2, 2)),
    ],
    autocast=Autocast(gpu=SINGLE),
    out_dtype=OUT_NORM,
)
def norm(
    input: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """linalg.norm(input, ord=None, dim=None, keepdim=False, *, dtype=None) -> Tensor: the norm of
    vectors or matrices: `ord` and `dim` say which.

    Of vectors where `dim` (or the input) is one dimension, of matrices where it is two; without
    `ord` always the 2-norm of a vector.

    >>> torch.linalg.norm(tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(5.)
    """
    array = tensor_array("linalg_norm", "input", 1, input)
    if isinstance(ord, TensorBase) and not ord._array.ndim and not ord._wants_grad:
        ord = ord.item()  # type: ignore[attr-defined]
    if ord is not None and not isinstance(ord, (str, int, float, complex)):
        raise invalid_call("linalg_norm", input, ord)
    if dim is not None and not isinstance(dim, (tuple, list)):
        dim = (dim,)
    if dim is not None:
        if len(dim) not in (1, 2):
            raise RuntimeError(
                "linalg.norm: If dim is specified, it must be of length 1 or 2. Got "
                f"[{', '.join(str(d) for d in dim)}]"
            )
    elif ord is not None and array.ndim not in (1, 2):
        raise RuntimeError(
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
            f"{array.ndim}D."
        )
    two = array.ndim == 2 if dim is None else len(dim) == 2
    if isinstance(ord, str) or (ord is not None and two):
        dims = (-2, -1) if dim is None else dim
        return matrix_norm(input, ord, dims, keepdim, dtype=dtype)
    return vector_norm(input, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


@api(
    name="linalg.cond",
    out_dtype="{torch_name}: " + OUT_SAFELY,
    samples=[
        Case(Draw(2, 2, low=1.0, high=2.0)),
        Case(Draw(2, 4, 3), -2),
        Case(Draw(3, 3), "nuc"),
        Case(Draw(0, 0)),
    ],
    autocast=Autocast(cpu=SINGLE),
)
def cond(input: Any, p: Any = None) -> Any:
    """linalg.cond(input, p=None) -> Tensor: condition numbers, how much errors may grow.

    >>> torch.linalg.cond(tensor([[2.0, 0.0], [0.0, 8.0]]))
    tensor(4.)
    """
    array = tensor_array("linalg_cond", "input", 1, input)
    if array.ndim < 2:
        raise RuntimeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    if isinstance(p, complex):
        raise does_not_fit(dtypes.float64)
    if p is None or (not isinstance(p, str) and abs(p) == 2):
        if array.size == 0:
            return on_device_of(
                input, np.zeros(array.shape[:-2], dtypes.of(array.dtype).to_real().np)
            )
        values = svd_of(input, False, False)[1]
        largest, smallest = values[..., :1], values[..., -1:]
        ratio = smallest / largest if p == -2 else largest / smallest
        return ratio.squeeze(-1)
    if p not in ("fro", "nuc", 1, -1, math.inf, -math.inf):
        shown = p if isinstance(p, str) else f"{p:g}"
        raise RuntimeError(f"linalg.cond got an invalid norm type: {shown}")
    check_square(f"linalg.cond(ord={p if isinstance(p, str) else f'{p:g}'})", array)
    if array.size == 0:
        return on_device_of(input, np.zeros(array.shape[:-2], dtypes.of(array.dtype).to_real().np))
    if p == "nuc":
        values = svd_of(input, False, False)[1]
        return values.sum(-1) * values.reciprocal().sum(-1)
    inverse, info = APIS["linalg.inv_ex"].call(input)
    inverse = inverse.masked_fill((info > 0)[..., None, None], math.inf)
    found = matrix_norm(input, p) * matrix_norm(inverse, p)
    return found.nan_to_num(math.inf, math.inf, -math.inf)


# ---------------------------------------------------------------------- tolerances


def default_tolerance(array: Any) -> float:
    if array.dtype.kind not in "fc" or is_half(array):
        raise RuntimeError("This function doesn't handle types other than float and double")
    return float(np.finfo(array.dtype).eps) * max(array.shape[-2:])


def real_tolerance(function: str, name: str, value: Any) -> Any:
    """A tolerance as a number or a tensor."""
    if isinstance(value, TensorBase):
        if value._array.dtype.kind == "c":
            raise RuntimeError(
                f"torch.{function}: {name} tensor of complex type is not supported. Got "
                f"{scalar_type(value._array)}"
            )
        return value
    if not isinstance(value, (int, float)):
        raise invalid_call(function.replace(".", "_"), value)
    return float(value)


def tolerances(function: str, input: Any, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """The absolute and the relative one; by default a relative one, unless there is another."""
    if atol is not None:
        atol = real_tolerance(function, "atol", atol)
    if rtol is not None:
        return (0.0 if atol is None else atol), real_tolerance(function, "rtol", rtol)
    rtol = default_tolerance(input._array)
    if atol is None:
        return 0.0, rtol
    if isinstance(atol, TensorBase):
        return atol, APIS["where"].call(atol > 0, 0.0, rtol)
    return atol, (0.0 if atol > 0 else rtol)


@api(
    name="linalg.matrix_rank",
    out_dtype="torch.{torch_name}: " + OUT_SAFELY,
    samples=[
        Case(Draw(3, 2)),
        Case(Draw(2, 3, 3), 0.1),
        Case(Draw(2, 2), atol=0.5, hermitian=True),
    ],
    autocast=Autocast(cpu=SINGLE),
)
def matrix_rank(
    input: Any,
    tol: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
) -> Any:
    """linalg.matrix_rank(input, *, atol=None, rtol=None, hermitian=False) -> Tensor: the rank of
    each matrix: how many singular values exceed the tolerance.

    The number of singular values above `atol` and above `rtol` times the largest.

    >>> torch.linalg.matrix_rank(tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(1)
    """
    if not isinstance(input, TensorBase):
        raise invalid_call("linalg_matrix_rank", input)
    array = input._array
    check_matrix("torch.linalg.matrix_rank", array, "input")
    if tol is not None:
        if atol is not None or rtol is not None:
            raise invalid_call("linalg_matrix_rank", input, tol, atol, rtol)
        atol, rtol = real_tolerance("linalg.matrix_rank", "atol", tol), 0.0
    else:
        atol, rtol = tolerances("linalg.matrix_rank", input, atol, rtol)
    plain = input.detach()
    if hermitian:
        values = eigh_of("linalg_matrix_rank", plain, "L", False)[0].abs()
    else:
        values = svd_of(plain, False, False)[1]
    if values._array.shape[-1] == 0:
        return on_device_of(input, np.zeros(array.shape[:-2], np.int64))
    limit = values.amax(-1, True) * per_matrix(rtol)
    if isinstance(atol, TensorBase):
        limit = APIS["maximum"].call(limit, per_matrix(atol))
    else:
        limit = limit.clamp_min(atol)
    return (values > limit).sum(-1)


def per_matrix(tolerance: Any) -> Any:
    return tolerance.unsqueeze(-1) if isinstance(tolerance, TensorBase) else tolerance


# ---------------------------------------------------------------------- old names

OLD = (
    "at::{}_norm is deprecated and it is just left for JIT compatibility. It will be removed in a "
    "future PyTorch release. Please use `linalg.{}` instead"
)


@api(method=False, samples=[Case(Draw(2, 3), (0, 1)), Case(Draw(2, 3), 1, True)])
def frobenius_norm(input: Any, dim: Any, keepdim: bool = False) -> Any:
    """frobenius_norm(input, dim, keepdim=False) -> Tensor: old; the root of the sum of squares.

    >>> frobenius_norm(tensor([[3.0, 4.0]]), (0, 1))
    tensor(5.)
    """
    only_bool("frobenius_norm", "keepdim", 3, keepdim)
    warn_once(OLD.format("frobenius", "vector_norm(A, 2., dim, keepdim)"))
    return vector_norm(input, 2.0, dim, keepdim)


@api(method=False, samples=[Case(Draw(2, 3)), Case(Draw(2, 3, 2), (0, 2), True)])
def nuclear_norm(input: Any, dim: Any = (-2, -1), keepdim: bool = False) -> Any:
    """nuclear_norm(input, dim=(-2, -1), keepdim=False) -> Tensor: old; the sum of singular values.

    >>> nuclear_norm(tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(7.)
    """
    if not isinstance(keepdim, bool):
        raise invalid_call("nuclear_norm", input, dim, keepdim)
    warn_once(OLD.format("nuclear", "matrix_norm(A, 'nuc', dim, keepdim)"))
    return matrix_norm(input, "nuc", dim, keepdim)
