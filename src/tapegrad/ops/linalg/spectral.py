"""Eigenvalues, singular values, and Q times R: what a matrix is made of.

The kernels are LAPACK's. Vectors are determined only up to a sign or, for complex matrices, a
phase; gradients of functions that depend on that phase are refused.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...core.base import TensorBase, wrap
from ...core.devices import is_device, to_host, xp_of
from ...core.host_arrays import host
from ...core.named_results import return_type
from ...core.python_dispatch import same_always
from ...core.transforms.batched import physical_array
from ...core.warned import warn_once
from ...kernels.cpu import KERNELS
from ..block import APIS, SINGLE, Autocast, Block, Case, api, apply, helper, looks_at_values, op
from ..block.checks import OUT_EXACT, SAFELY, is_complex, only_bool, only_tensors
from ..block.samples import Draw
from . import solve as linalg_solve  # noqa: F401  rules call linalg.solve
from .matrices import (
    LinAlgError,
    adjoint,
    by_column,
    check_floating,
    check_kernel,
    check_matrix,
    check_square,
    diagonal_of,
    is_half,
    scalar_type,
    solve_arrays,
    svd_arrays,
)

# ruff: noqa: N803, N805, N806

EigResult = return_type("linalg_eig", ("eigenvalues", "eigenvectors"))
EighResult = return_type("linalg_eigh", ("eigenvalues", "eigenvectors"))
SvdResult = return_type("linalg_svd", ("U", "S", "Vh"))
OldSvdResult = return_type("svd", ("U", "S", "V"))
QrResult = return_type("linalg_qr", ("Q", "R"))
OldQrResult = return_type("qr", ("Q", "R"))

PHASE_TOLERANCE = 1e-2


# ---------------------------------------------------------------------- matrices in rules


def on_diagonal(F: Any, x: Any) -> Any:
    """Diagonal matrices."""
    last = len(x.shape)
    return F.diag_embed(x, (*x.shape, x.shape[-1]), 0, last - 1, last)


def as_row(F: Any, x: Any) -> Any:
    return F.unsqueeze(x, len(x.shape) - 1)


def as_column(F: Any, x: Any) -> Any:
    return F.unsqueeze(x, len(x.shape))


def product(F: Any, *factors: Any) -> Any:
    """The matrix product, from left to right."""
    total = factors[0]
    for factor in factors[1:]:
        total = F.matmul(total, factor)
    return total


def gaps(F: Any, values: Any) -> Any:
    """values[j] - values[i] at (i, j), and 1 on the diagonal, where nothing is to be divided."""
    ones = on_diagonal(F, F.ones_like(values))
    return as_row(F, values) - as_column(F, values) + ones


def leading_columns(F: Any, x: Any, count: int) -> Any:
    last = len(x.shape) - 1
    return x if x.shape[-1] == count else F.narrow(x, last, 0, count)


def leading_rows(F: Any, x: Any, count: int) -> Any:
    return x if x.shape[-2] == count else F.narrow(x, len(x.shape) - 2, 0, count)


def filled_up(F: Any, part: Any, whole: Any, dim: int) -> Any:
    """`part` with zeros behind it along `dim`, in the shape of `whole`."""
    dim += len(whole.shape)
    have, want = part.shape[dim], whole.shape[dim]
    if have == want:
        return part
    return F.cat([part, F.zeros_like(F.narrow(whole, dim, have, want - have))], dim)


@looks_at_values
def check_phase(function: str, what: str, why: str, slopes: Any) -> None:
    """Refuse a loss that changes when vectors are multiplied by e^{i phi}."""
    if isinstance(slopes, TensorBase):
        if slopes._special and not is_device(slopes):
            return  # of a transform: there are no plain values to look at
        slopes = slopes._array
    slopes = to_host(slopes)  # PyTorch waits for the GPU here too
    if np.all(np.absolute(np.imag(slopes)) <= PHASE_TOLERANCE):
        return
    raise RuntimeError(
        f"{function}: The {what} in the complex case are specified up to multiplication by "
        f"e^{{i phi}}. The specified loss function depends on this {why}"
    )


# ---------------------------------------------------------------------- arguments and kernels


def wants_vectors(input: Any) -> bool:
    """Derivatives need the vectors, also where only the values are asked for."""
    return bool(input._wants_grad or input._special)


def converged(function: str, why: str, solve: Any, x: Any, *options: Any) -> Any:
    """LAPACK's answer; where it has none, PyTorch's sentence about the matrix that was to blame."""
    try:
        return solve(x, *options)
    except np.linalg.LinAlgError:
        bad = ~np.isfinite(to_host(x)).all((-2, -1))
        element = f"(Batch element {int(np.argmax(bad))}): " if x.ndim > 2 else ""
        raise LinAlgError(
            f"{function}: {element}The algorithm failed to converge because {why}"
        ) from None


def of_nothing(solve: Any, x: Any) -> Any:
    """The kernel on no elements of a dtype that LAPACK lacks, which is no error."""
    return tuple([part.astype(x.dtype) for part in solve(x.astype(np.float32))])


def left_divided(a: Any, b: Any) -> Any:
    """a⁻¹ b"""
    return APIS["linalg.solve"].call(a, b)


def left_divided_arrays(a: Any, b: Any) -> Any:
    """a⁻¹ b, column by column in memory as `linalg.solve` gives it."""
    xp = xp_of(a)
    return by_column(xp, solve_arrays(xp, a, b)[0])


helper("left_divided", left_divided_arrays, left_divided)


# ---------------------------------------------------------------------- symmetric eigenproblems


@op
class LinalgEigh(Block):
    """linalg.eigh(input, UPLO="L") -> (Tensor, Tensor): eigenvalues and eigenvectors of Hermitian
    matrices.

    Eigenvalues in ascending order, and eigenvectors as columns. Only the lower ("L") or the upper
    ("U") triangle is looked at.

    >>> L, V = torch.linalg.eigh(tensor([[2.0, 0.0], [0.0, 1.0]]))
    >>> L
    tensor([1., 2.])
    """

    name = "linalg.eigh"
    aten = "_linalg_eigh"
    outs = ("eigenvalues", "eigenvectors")
    result = EighResult
    wirtinger = True
    partial = True
    leading = (2,)
    autocast = Autocast(cpu=SINGLE)
    out_dtype = OUT_EXACT
    samples = (Case(Draw(3, 3)), Case(Draw(2, 2, 2, layout="T"), "U"), Case(Draw(0, 0)))

    def fwd(xp, input, uplo, vectors):
        if input.dtype.kind not in "fc" or is_half(input):
            return of_nothing(lambda x: LinalgEigh.forward(xp, x, uplo, vectors), input)
        why = "the input matrix is ill-conditioned or has too many repeated eigenvalues"
        if not vectors:
            why += " (error code: 1)."
            values = converged("linalg.eigh", why, xp.linalg.eigvalsh, input, uplo)
            return values, xp.empty((*input.shape[:-2], 0, 0), input.dtype)
        why += f" (error code: {input.shape[-1] - 1})."
        values, vectors_ = converged("linalg.eigh", why, xp.linalg.eigh, input, uplo)
        return values, by_column(xp, vectors_)

    def d_input(F, grad, eigenvalues, eigenvectors):
        g_values, g_vectors = grad
        V = eigenvectors
        if g_vectors is None:
            return product(F, V * as_row(F, g_values), adjoint(F, V))
        inner = product(F, adjoint(F, V), g_vectors)
        if is_complex(V):
            check_phase("linalg_eigh_backward", "eigenvectors", QUANTITY, diagonal_of(F, inner))
        inner = (inner - adjoint(F, inner)) * 0.5 / gaps(F, eigenvalues)
        if g_values is not None:
            inner = inner + on_diagonal(F, g_values)
        return product(F, V, inner, adjoint(F, V))

    def jvp(F, t_input, eigenvalues, eigenvectors):
        V = eigenvectors
        change = product(F, adjoint(F, V), t_input, V)
        t_values = diagonal_of(F, change)
        turn = (change - on_diagonal(F, t_values)) / gaps(F, eigenvalues)
        return F.real_part(t_values), product(F, V, turn)

    def call(input, UPLO="L"):
        return eigh_of("linalg_eigh", input, UPLO, True)


QUANTITY = "quantity, so it is ill-defined."


def eigh_of(function: str, input: Any, uplo: Any, vectors: bool) -> Any:
    array = input._array
    check_square("linalg.eigh", array)
    if not isinstance(uplo, str):
        raise TypeError(f"{function}(): argument 'UPLO' must be str, not {type(uplo).__name__}")
    triangle = uplo.upper()
    if triangle not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {uplo}")
    if array.size:
        check_kernel("linalg_eigh_cpu", array)
    return apply(LinalgEigh, (input,), (triangle, vectors or wants_vectors(input)))


@api(
    name="linalg.eigvalsh",
    samples=[Case(Draw(3, 3)), Case(Draw(2, 2, 2, layout="T"), UPLO="U"), Case(Draw(0, 0))],
    autocast=Autocast(cpu=SINGLE),
    out_dtype=OUT_EXACT,
)
def eigvalsh(input: Any, UPLO: str = "L") -> Any:
    """linalg.eigvalsh(input, UPLO="L") -> Tensor: the eigenvalues of Hermitian matrices.

    >>> torch.linalg.eigvalsh(tensor([[2.0, 0.0], [0.0, 1.0]]))
    tensor([1., 2.])
    """
    return eigh_of("linalg_eigvalsh", input, UPLO, False)[0]


# ---------------------------------------------------------------------- general eigenproblems


@op
class LinalgEig(Block):
    """linalg.eig(input) -> (Tensor, Tensor): complex eigenvalues and eigenvectors.

    >>> L, V = torch.linalg.eig(tensor([[0.0, 2.0], [-2.0, 0.0]]))
    >>> L
    tensor([0.+2.j, 0.-2.j])
    """

    name = "linalg.eig"
    meta_by_rows = 1
    outs = ("eigenvalues", "eigenvectors")
    result = EigResult
    wirtinger = True
    partial = True
    leading = (2,)
    autocast = Autocast(cpu=SINGLE)
    samples = (Case(Draw(3, 3)), Case(Draw(2, 2, 2, layout="T")), Case(Draw(0, 0)))

    def fwd(xp, input, vectors):
        single = input.dtype.itemsize == (4 if input.dtype.kind == "f" else 8)
        dtype = xp.complex64 if single else xp.complex128
        if not xp.isfinite(input).all():
            raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")
        why = "the input matrix is ill-conditioned."
        if not vectors:
            values = converged("linalg.eig", why, xp.linalg.eigvals, input)
            return values.astype(dtype), xp.empty((*input.shape[:-2], 0, 0), dtype)
        values, vectors_ = converged("linalg.eig", why, xp.linalg.eig, input)
        return values.astype(dtype), by_column(xp, vectors_.astype(dtype))

    def d_input(F, grad, eigenvalues, eigenvectors, input_dtype):
        g_values, g_vectors = grad
        V = eigenvectors
        Vh = adjoint(F, V)
        if g_vectors is None:
            found = F.left_divided(Vh, as_column(F, g_values) * Vh)
        else:
            inner = product(F, Vh, g_vectors)
            along = diagonal_of(F, inner)
            check_phase("linalg_eig_backward", "eigenvectors", QUANTITY, along)
            inner = inner - product(F, Vh, V) * as_row(F, F.real_part(along))
            inner = inner / gaps(F, F.conj(eigenvalues))
            if g_values is not None:
                inner = inner + on_diagonal(F, g_values - diagonal_of(F, inner))
            found = F.left_divided(Vh, product(F, inner, Vh))
        return found if input_dtype.kind == "c" else F.real_part(found)

    def jvp(F, t_input, eigenvalues, eigenvectors):
        V = eigenvectors
        if not is_complex(t_input):
            t_input = F.cast(t_input, getattr(V, "_array", V).dtype)
        change = F.left_divided(V, product(F, t_input, V))
        t_values = diagonal_of(F, change)
        turn = (change - on_diagonal(F, t_values)) / gaps(F, eigenvalues)
        moved = product(F, V, turn)
        along = F.real_part(diagonal_of(F, product(F, adjoint(F, V), moved)))
        return t_values, moved - V * as_row(F, along)

    def call(input):
        return eig_of("linalg.eig", input, True)


def eig_of(function: str, input: Any, vectors: bool) -> Any:
    array = input._array
    check_square(function, array)
    if array.dtype.kind in "biu":
        raise RuntimeError(f"Unknown Complex ScalarType for {scalar_type(array)}")
    check_kernel("linalg_eig_out_cpu", array)
    return apply(LinalgEig, (input,), (vectors or wants_vectors(input),))


@api(
    name="linalg.eigvals",
    out_dtype="torch.{torch_name}: " + SAFELY.replace("{what}", "eigenvalues"),
    samples=[Case(Draw(3, 3)), Case(Draw(2, 2, 2, layout="T")), Case(Draw(0, 0))],
    autocast=Autocast(cpu=SINGLE),
)
def eigvals(input: Any) -> Any:
    """linalg.eigvals(input) -> Tensor: the eigenvalues, which are complex numbers.

    >>> torch.linalg.eigvals(tensor([[0.0, 2.0], [-2.0, 0.0]]))
    tensor([0.+2.j, 0.-2.j])
    """
    return eig_of("linalg.eigvals", input, False)[0]


# ---------------------------------------------------------------------- singular values


@op
class LinalgSvd(Block):
    """linalg.svd(A, full_matrices=True, *, driver=None) -> (Tensor, Tensor, Tensor): the singular
    value decomposition U, S, Vh.

    A = U diag(S) Vh, with singular values in descending order.

    >>> U, S, Vh = torch.linalg.svd(tensor([[0.0, 2.0], [3.0, 0.0]]))
    >>> S
    tensor([3., 2.])
    """

    name = "linalg.svd"
    meta_by_rows = 2
    aten = "_linalg_svd"
    outs = ("U", "S", "Vh")
    result = SvdResult
    wirtinger = True
    partial = True
    leading = (2,)
    autocast = Autocast(cpu=SINGLE)
    out_dtype = OUT_EXACT
    samples = (
        Case(Draw(3, 3)),
        Case(Draw(2, 4, 2), False),
        Case(Draw(2, 4, layout="T"), full_matrices=False),
        Case(Draw(0, 2), False),
    )

    def fwd(xp, input, full, vectors):
        if is_half(input):
            return of_nothing(lambda x: LinalgSvd.forward(xp, x, full, vectors), input)
        why = "the input matrix contained non-finite values."
        solve = functools.partial(svd_or_none, xp)
        if vectors:
            U, S, Vh = converged("linalg.svd", why, solve, input, full, True)
            return by_column(xp, U), S, by_column(xp, Vh)
        S = converged("linalg.svd", why, solve, input, full, False)
        none = xp.empty((*input.shape[:-2], 0, 0), input.dtype)
        return none, S, none.copy()

    def d_input(F, grad, U, S, Vh):
        return svd_gradient(F, grad, U, S, Vh)

    def jvp(F, t_input, U, S, Vh):
        return svd_tangents(F, t_input, U, S, Vh)

    def call(A, full_matrices=True, *, driver=None):
        only_tensors("linalg_svd", A=A)
        only_bool("linalg_svd", "full_matrices", 2, full_matrices)
        return svd_of(A, full_matrices, True, driver)


def svd_or_none(xp: Any, x: Any, full: bool, vectors: bool) -> Any:
    """The decomposition of what has one; NaN never converges, infinities become NaN."""
    known = xp is host and KERNELS is not None and KERNELS.all_finite(x)
    if not known and xp.isnan(x).any():
        raise np.linalg.LinAlgError
    return svd_arrays(xp, x, full, vectors)


def svd_of(A: Any, full: bool, vectors: bool, driver: Any = None) -> Any:
    array = A._array
    check_matrix("linalg.svd", array)
    check_floating("linalg.svd", array)
    if driver is not None:
        raise RuntimeError(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with "
            "cuSOLVER backend."
        )
    if array.size:
        check_kernel("linalg_svd_cpu", array)
    return apply(LinalgSvd, (A,), (full, vectors or wants_vectors(A)))


def skew(F: Any, x: Any) -> Any:
    return x - adjoint(F, x)


def svd_gradient(F: Any, grad: Any, U: Any, S: Any, Vh: Any) -> Any:
    """Vectors beyond the singular values (`full_matrices`) are arbitrary and give nothing back."""
    count = S.shape[-1]
    g_U, g_S, g_Vh = grad
    g_U = None if g_U is None else leading_columns(F, g_U, count)
    g_Vh = None if g_Vh is None else leading_rows(F, g_Vh, count)
    U, Vh = leading_columns(F, U, count), leading_rows(F, Vh, count)
    if g_U is None and g_Vh is None:
        if U.shape[-2] >= Vh.shape[-1]:
            return product(F, U, as_column(F, g_S) * Vh)
        return product(F, U * as_row(F, g_S), Vh)
    turn_U = None if g_U is None else skew(F, product(F, adjoint(F, U), g_U))
    turn_V = None if g_Vh is None else skew(F, product(F, Vh, adjoint(F, g_Vh)))
    if is_complex(U):
        slopes = [diagonal_of(F, turn) for turn in (turn_U, turn_V) if turn is not None]
        total = slopes[0] if len(slopes) == 1 else slopes[0] + slopes[1]
        why = "phase term, making it ill-defined."
        check_phase("svd_backward", "singular vectors", why, total)
    distances = gaps(F, S * S)
    inner = None if g_S is None else on_diagonal(F, g_S)
    if turn_U is not None:
        part = turn_U / distances * as_row(F, S)
        inner = part if inner is None else inner + part
    if turn_V is not None:
        part = as_column(F, S) * (turn_V / distances)
        inner = part if inner is None else inner + part
    if turn_U is not None and turn_V is not None and is_complex(U):
        inner = inner + on_diagonal(F, diagonal_of(F, turn_U) / (2 * S))
    found = product(F, U, inner)
    if g_U is not None and U.shape[-2] > count:
        scaled = g_U / as_row(F, S)
        found = found + scaled - product(F, U, product(F, adjoint(F, U), scaled))
    found = product(F, found, Vh)
    if g_Vh is not None and Vh.shape[-1] > count:
        scaled = g_Vh / as_column(F, S)
        outside = scaled - product(F, product(F, scaled, adjoint(F, Vh)), Vh)
        found = found + product(F, U, outside)
    return found


def svd_tangents(F: Any, t: Any, U: Any, S: Any, Vh: Any) -> tuple[Any, Any, Any]:
    count = S.shape[-1]
    full_U, full_Vh = U, Vh
    U, Vh = leading_columns(F, U, count), leading_rows(F, Vh, count)
    Uh, V = adjoint(F, U), adjoint(F, Vh)
    change = product(F, Uh, t, V)
    along = diagonal_of(F, change)
    distances = gaps(F, S * S)
    off = change - on_diagonal(F, along)
    off_h = adjoint(F, off)
    turn_U = (off * as_row(F, S) + as_column(F, S) * off_h) / distances
    turn_V = (as_column(F, S) * off + off_h * as_row(F, S)) / distances
    if is_complex(U):
        phase = on_diagonal(F, (along - F.conj(along)) / (4 * S))
        turn_U, turn_V = turn_U + phase, turn_V - phase
    t_U, t_V = product(F, U, turn_U), product(F, V, turn_V)
    if U.shape[-2] > count:
        outside = product(F, t, V) / as_row(F, S)
        t_U = t_U + outside - product(F, U, product(F, Uh, outside))
    if V.shape[-2] > count:
        outside = product(F, adjoint(F, t), U) / as_row(F, S)
        t_V = t_V + outside - product(F, V, product(F, Vh, outside))
    t_U = filled_up(F, t_U, full_U, -1)
    return t_U, F.real_part(along), filled_up(F, adjoint(F, t_V), full_Vh, -2)


@api(
    name="linalg.svdvals",
    samples=[Case(Draw(3, 3)), Case(Draw(2, 4, 2)), Case(Draw(2, 4, layout="T")), Case(Draw(0, 2))],
    autocast=Autocast(cpu=SINGLE),
    out_dtype=OUT_EXACT,
)
def svdvals(A: Any, *, driver: Any = None) -> Any:
    """linalg.svdvals(A, *, driver=None) -> Tensor: the singular values, in descending order.

    >>> torch.linalg.svdvals(tensor([[0.0, 2.0], [3.0, 0.0]]))
    tensor([3., 2.])
    """
    return svd_of(A, False, False, driver)[1]


@api(
    samples=[Case(Draw(3, 2)), Case(Draw(2, 2, 4)), Case(Draw(3, 2), True, False)],
    autocast=Autocast(cpu=SINGLE),
    out_dtype=OUT_EXACT,
)
def svd(input: Any, some: bool = True, compute_uv: bool = True) -> Any:
    """svd(input, some=True, compute_uv=True) -> (Tensor, Tensor, Tensor): the singular value
    decomposition: U, S and V.

    The old spelling of `linalg.svd`; note that it gives V and not its adjoint.

    >>> U, S, V = svd(tensor([[0.0, 2.0], [3.0, 0.0]]))
    >>> S
    tensor([3., 2.])
    """
    array = input._array
    if array.ndim < 2:
        raise RuntimeError(
            "linalg.svd: input should have at least 2 dimensions, but has "
            f"{array.ndim} dimensions instead"
        )
    if compute_uv:
        U, S, Vh = svd_of(input, not some, True)
        return OldSvdResult((U, S, Vh.mH))
    S = svd_of(input, False, False)[1]
    *stack, rows, cols = array.shape
    xp = xp_of(physical_array(input))
    U = same_always(wrap(xp.zeros((*stack, rows, rows), array.dtype)))
    V = same_always(wrap(by_column(xp, xp.zeros((*stack, cols, cols), array.dtype))))
    return OldSvdResult((U, S, V))


# ---------------------------------------------------------------------- Q times R


@op
class LinalgQr(Block):
    """linalg.qr(A, mode="reduced") -> (Tensor, Tensor): orthonormal columns times a triangle.

    "complete" gives all columns of Q, "r" only R.

    >>> Q, R = torch.linalg.qr(tensor([[3.0, 1.0], [4.0, 2.0]]))
    >>> R.abs()
    tensor([[5.0000, 2.2000],
            [0.0000, 0.4000]])
    """

    name = "linalg.qr"
    outs = ("Q", "R")
    result = QrResult
    wirtinger = True
    partial = True
    autocast = Autocast(cpu=SINGLE)
    out_dtype = OUT_EXACT
    samples = (
        Case(Draw(3, 3)),
        Case(Draw(2, 4, 2)),
        Case(Draw(2, 4, layout="T")),
        Case(Draw(2, 3), "complete"),
        Case(Draw(0, 2)),
    )

    def fwd(xp, input, mode):
        if mode == "r":
            return xp.empty((0,), input.dtype), by_column(xp, xp.linalg.qr(input, "r"))
        Q, R = xp.linalg.qr(input, mode)
        return by_column(xp, Q), by_column(xp, R)

    def batch(F, size, batched, input, mode):
        Q, R = F.linalg_qr(input, mode)
        return (F.expand(Q, (size, 0)) if mode == "r" else Q), R

    def d_input(F, grad, Q, R, mode, input_shape):
        check_qr(mode, input_shape)
        g_Q, g_R = grad
        if g_R is None:
            pull = g_Q
        else:
            pull = -product(F, Q, g_R, adjoint(F, R))
            pull = pull if g_Q is None else g_Q + pull
        inner = -product(F, adjoint(F, Q), pull)
        above = F.triu(inner, 1)
        inner = above + adjoint(F, above) + on_diagonal(F, F.real_part(diagonal_of(F, inner)))
        square = leading_columns(F, R, R.shape[-2])
        found = pull + product(F, Q, inner)
        found = adjoint(F, F.left_divided(square, adjoint(F, found)))
        if g_R is None:
            return filled_up(F, found, R, -1) if R.shape[-1] > R.shape[-2] else found
        direct = product(F, Q, g_R)
        return direct + (filled_up(F, found, direct, -1))

    def jvp(F, t_input, Q, R, mode):
        check_qr(mode, t_input.shape)
        square = leading_columns(F, R, R.shape[-2])
        t_square = leading_columns(F, t_input, R.shape[-2])
        # Every change is a rotation and a stretch: t_input = t_Q R + Q t_R.
        relative = adjoint(F, F.left_divided(adjoint(F, square), adjoint(F, t_square)))
        inner = product(F, adjoint(F, Q), relative)
        stretch = F.triu(inner + adjoint(F, inner), 1)
        stretch = stretch + on_diagonal(F, F.real_part(diagonal_of(F, inner)))
        t_Q = relative - product(F, Q, stretch)
        Qh = adjoint(F, Q)
        return t_Q, product(F, Qh, t_input) - product(F, Qh, t_Q, R)

    def call(A, mode="reduced"):
        return QrResult(qr_of(A, mode))


def qr_of(A: Any, mode: Any) -> Any:
    array = A._array
    check_matrix("linalg.qr", array)
    check_floating("linalg.qr", array)
    if mode not in ("reduced", "r", "complete"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), "
            "'r', or 'complete'"
        )
    check_kernel("geqrf_cpu", array)
    return apply(LinalgQr, (A,), (mode,))


def check_qr(mode: str, shape: tuple[int, ...]) -> None:
    """Raise unless Q and R are determined by the input."""
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. "
            "Please use linalg.qr(A, mode='reduced') if you are going to differentiate through "
            "linalg.qr."
        )
    if mode == "complete" and shape[-2] > shape[-1]:
        raise RuntimeError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols."
        )


@api(
    samples=[Case(Draw(3, 2)), Case(Draw(2, 2, 4)), Case(Draw(2, 3), False)],
    autocast=Autocast(cpu=SINGLE),
    out_dtype=OUT_EXACT,
)
def qr(input: Any, some: bool = True) -> Any:
    """qr(input, some=True) -> (Tensor, Tensor): the old spelling of `linalg.qr`.

    >>> Q, R = qr(tensor([[3.0], [4.0]]))
    >>> R.abs()
    tensor([[5.]])
    """
    warn_once(
        "torch.qr is deprecated in favor of torch.linalg.qr and will be removed in a future "
        "PyTorch release.\n"
        "The boolean parameter 'some' has been replaced with a string parameter 'mode'.\n"
        "Q, R = torch.qr(A, some)\n"
        "should be replaced with\n"
        "Q, R = torch.linalg.qr(A, 'reduced' if some else 'complete')",
    )
    return OldQrResult(qr_of(input, "reduced" if some else "complete"))
