"""How far apart vectors are, how alike, and vectors of a wanted length."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import dtypes
from ...autograd.grad_mode import no_grad
from ...core import promote
from ...core.arguments import wrap_dim
from ...core.base import TensorBase, wrap
from ...core.devices import raw_space, where_is, xp_of
from ...core.node import unbroadcast
from ...core.python_dispatch import same_always
from ...core.rule_functions import RECORDED
from ..block import SINGLE, Autocast, Block, Case, api, apply, helper, op
from ..block.batching import lift
from ..block.checks import not_implemented
from ..block.samples import Draw
from ..linalg.matrices import is_half, scalar_type, tensor_array, turned
from ..pointwise.with_number import add_number
from ..products.matmul import broadcast_batch, product
from ..reduce.sums import computed_wide
from ..reduce.vector_norm import NormAlong, check_identity, lengths, norm_gradient, norm_tangent
from .smooth_activations import number_of

# ruff: noqa: N805

# Differences that are held at once; larger problems are done in blocks of rows.
HELD = 1 << 22


# ---------------------------------------------------------------------- all pairs


def row_blocks(rows: int, other: int, width: int) -> list[slice]:
    """The rows in blocks whose differences from all others are not too many to hold."""
    step = max(1, HELD // max(1, other * width))
    return [slice(start, start + step) for start in range(0, rows, step)]


def distances(xp: Any, x1: Any, x2: Any, p: float) -> Any:
    batch = np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    out = xp.zeros((*batch, x1.shape[-2], x2.shape[-2]), x1.dtype)
    if x1.shape[-1] == 0:
        return out
    for rows in row_blocks(x1.shape[-2], x2.shape[-2], math.prod(batch) * x1.shape[-1]):
        apart = x1[..., rows, None, :] - x2[..., None, :, :]
        found = lengths(xp, apart, p, (-1,), False)
        if p == 0:
            found = xp.where(xp.isnan(apart).any(-1), xp.nan, found)
        out[..., rows, :] = found
    return out


def slope(F: Any, grad: Any, apart: Any, length: Any, p: float) -> Any:
    """`grad` along the slope of a length; no slope where there is no length."""
    if p == 0:
        return F.zeros_like(apart)
    if p == 1:
        return F.sign(apart) * grad
    if p == math.inf:
        return F.where(F.abs(apart) == length, F.sign(apart) * grad, 0)
    scale = F.where(length == 0, 0, grad / F.pow_scalar(F.where(length == 0, 1, length), p - 1))
    if p == 2:
        return apart * scale
    size = F.where(apart == 0, 1, F.abs(apart))
    if p < 2:
        return F.where(apart == 0, 0, F.sign(apart) * F.pow_scalar(size, p - 1)) * scale
    return apart * F.pow_scalar(size, p - 2) * scale


def pulled(F: Any, grad: Any, x1: Any, x2: Any, dist: Any, p: float) -> Any:
    """The gradient of the rows of `x1`, from that of the distances."""
    n1, n2 = len(x1.shape), len(x2.shape)
    apart = F.unsqueeze(x1, n1 - 1) - F.unsqueeze(x2, n2 - 2)
    last = len(dist.shape)
    slopes = slope(F, F.unsqueeze(grad, last), apart, F.unsqueeze(dist, last), p)
    return F.sum(slopes, (last - 1,), False, None)


def pulled_in_blocks(grad: Any, x1: Any, x2: Any, dist: Any, p: float) -> Any:
    parts = [
        pulled(raw_space(grad), grad[..., rows, :], x1[..., rows, :], x2, dist[..., rows, :], p)
        for rows in row_blocks(
            x1.shape[-2], x2.shape[-2], math.prod(dist.shape[:-2]) * x1.shape[-1]
        )
    ]
    return parts[0] if len(parts) == 1 else xp_of(grad).concatenate(parts, axis=-2)


def pulled_recorded(grad: Any, x1: Any, x2: Any, dist: Any, p: float) -> Any:
    return pulled(RECORDED, grad, x1, x2, dist, p)


helper("distances_pulled", pulled_in_blocks, pulled_recorded)


def pushed(F: Any, x1: Any, x2: Any, t1: Any, t2: Any, dist: Any, p: float) -> Any:
    """Tangents of distances."""

    def pairs(a: Any, b: Any) -> Any:
        left = None if a is None else F.unsqueeze(a, len(a.shape) - 1)
        right = None if b is None else F.unsqueeze(b, len(b.shape) - 2)
        if left is None or right is None:
            return -right if left is None else left
        return left - right

    last = len(dist.shape)
    slopes = slope(F, 1.0, pairs(x1, x2), F.unsqueeze(dist, last), p)
    return F.sum(slopes * pairs(t1, t2), (last,), False, None)


@op
class CdistForward(Block):
    """cdist_forward(x1, x2, p) -> Tensor: distances of all pairs of rows."""

    node = "CdistBackward0"
    aten = "_cdist_forward"
    public = False
    tensors = ("x1", "x2")
    leading = (2, 2)

    def fwd(xp, x1, x2, p):
        return distances(xp, x1, x2, p)

    def d_x1(F, grad, x1, x2, out, p):
        if 0 in x1.shape or 0 in x2.shape:
            return F.zeros_like(x1)
        return unbroadcast(F, F.distances_pulled(grad, x1, x2, out, p), tuple(x1.shape))

    def d_x2(F, grad, x1, x2, out, p):
        if 0 in x1.shape or 0 in x2.shape:
            return F.zeros_like(x2)
        found = F.distances_pulled(turned(F, grad), x2, x1, turned(F, out), p)
        return unbroadcast(F, found, tuple(x2.shape))

    def jvp(F, x1, t_x1, x2, t_x2, out, p):
        return pushed(F, x1, x2, t_x1, t_x2, out, p)


def squared(xp: Any, x: Any) -> Any:
    """The squares of the lengths of rows."""
    return computed_wide(xp, x * x).sum(-1, keepdims=True).astype(x.dtype, copy=False)


@op
class EuclideanDist(Block):
    """euclidean_dist(x1, x2) -> Tensor: distances by way of one matrix product."""

    aten = "_euclidean_dist"
    public = False
    tensors = ("x1", "x2")
    leading = (2, 2)

    def fwd(xp, x1, x2):
        # |a|² + |b|² - 2ab as one product, rounded in half precision where PyTorch rounds.
        squares1, squares2 = squared(xp, x1), squared(xp, x2)
        left = xp.concatenate([-2 * x1, squares1, xp.ones_like(squares1)], axis=-1)
        right = xp.concatenate([x2, xp.ones_like(squares2), squares2], axis=-1)
        found = product(xp, left, right.swapaxes(-1, -2))
        return xp.sqrt(xp.maximum(computed_wide(xp, found), 0)).astype(x1.dtype, copy=False)

    def d_x1(F, grad, x1, x2, out):
        ratio = F.where(out == 0, 0, grad / F.where(out == 0, 1, out))
        last = len(out.shape) - 1
        return F.sub(x1 * F.sum(ratio, (last,), True, None), F.matmul(ratio, x2))

    def d_x2(F, grad, x1, x2, out):
        ratio = turned(F, F.where(out == 0, 0, grad / F.where(out == 0, 1, out)))
        last = len(out.shape) - 1
        return F.sub(x2 * F.sum(ratio, (last,), True, None), F.matmul(ratio, x1))

    def jvp(F, x1, t_x1, x2, t_x2, out):
        return pushed(F, x1, x2, t_x1, t_x2, out, 2.0)


COMPUTE_MODES = {
    "use_mm_for_euclid_dist_if_necessary": 0,
    "use_mm_for_euclid_dist": 1,
    "donot_use_mm_for_euclid_dist": 2,
}
MANY_ROWS = 25  # above, the matrix product is faster, though less exact


@api(
    method=False,
    samples=[
        Case(Draw(3, 2), Draw(4, 2)),
        Case(Draw(2, 3, 2), Draw(2, 2), 1.0),
        Case(Draw(2, 1, 3, 2), Draw(3, 2, 2), 3.0),
        Case(Draw(3, 2), Draw(2, 2), math.inf),
        Case(Draw(3, 2, layout="T"), Draw(2, 2), compute_mode="use_mm_for_euclid_dist"),
        Case(Draw(2, 3, 2), Draw(2, 2), 1.5),
        Case(Draw(0, 2), Draw(3, 2)),
        Case(Draw(2, 0), Draw(3, 0)),
    ],
    autocast=Autocast(cpu=SINGLE, gpu=SINGLE),
    python=True,
)
def cdist(
    x1: Any,
    x2: Any,
    p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",
) -> Any:
    """cdist(x1, x2, p=2.0, compute_mode="use_mm_…_if_necessary") -> Tensor: the distances between
    all pairs of rows.

    Between every row of `x1` and every row of `x2`.

    >>> cdist(tensor([[0.0, 0.0]]), tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    mode = COMPUTE_MODES.get(compute_mode) if isinstance(compute_mode, str) else None
    if mode is None:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    a, b = tensor_array("cdist", "x1", 1, x1), tensor_array("cdist", "x2", 2, x2)
    if not isinstance(p, (int, float)):
        raise TypeError(f"cdist(): argument 'p' (position 3) must be float, not {type(p).__name__}")
    for name, x in (("X1", a), ("X2", b)):
        if x.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D")
    if a.shape[-1] != b.shape[-1]:
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {a.shape[-1]} X2: {b.shape[-1]}"
        )
    for name, x in (("X1", a), ("X2", b)):
        if dtypes.of(x.dtype).category != dtypes.FLOATING:
            raise RuntimeError(
                f"cdist only supports floating-point dtypes, {name} got: {scalar_type(x)}"
            )
    if not p >= 0:
        raise RuntimeError("cdist only supports non-negative p values")
    stack = broadcast_batch(a.shape[:-2], b.shape[:-2])
    many = max(a.shape[-2], b.shape[-2]) > MANY_ROWS
    if a.dtype != b.dtype:
        raise RuntimeError(f"expected scalar type {scalar_type(a)} but found {scalar_type(b)}")
    if p == 2 and (mode == 1 or (mode == 0 and many)) and a.size and b.size:
        return by_product(x1, x2, stack)
    if is_half(a) and a.size and b.size:
        raise not_implemented("cdist", dtypes.of(a.dtype))
    return apply(CdistForward, (x1, x2), (float(p),))


def by_product(x1: Any, x2: Any, stack: tuple[int, ...]) -> Any:
    rows, others = x1._array.shape[-2], x2._array.shape[-2]
    if x1._array.ndim > 2 or x2._array.ndim > 2:
        count = math.prod(stack)
        x1, x2 = (
            x.expand(*stack, *x._array.shape[-2:]).reshape(count, *x._array.shape[-2:])
            for x in (x1, x2)
        )
    return apply(EuclideanDist, (x1, x2)).view(*stack, rows, others)


# ---------------------------------------------------------------------- pairs of one set


def pair_places(count: int) -> tuple[Any, Any]:
    """For every place of a square matrix its pair, and 1 off the diagonal."""
    first, second = np.triu_indices(count, 1)
    places = np.zeros((count, count), np.int64)
    places[first, second] = places[second, first] = np.arange(first.size)
    return places.reshape(-1), ~np.eye(count, dtype=bool)


def square_form(F: Any, pairs: Any, count: int) -> Any:
    """Values of pairs as symmetric matrices with a diagonal of zeros."""
    places, off = [where_is(pairs, part) for part in pair_places(count)]
    if F.recorded:
        places, off = same_always(wrap(places)), same_always(wrap(off))
    picked = F.index_select(pairs, places, len(pairs.shape) - 1)
    return F.where(off, F.reshape(picked, (*pairs.shape[:-1], count, count)), 0)


def pair_form(F: Any, square: Any) -> Any:
    """The values above the diagonal."""
    count = square.shape[-1]
    first, second = np.triu_indices(count, 1)
    places = where_is(square, first * count + second)
    if F.recorded:
        places = same_always(wrap(places))
    flat = F.reshape(square, (*square.shape[:-2], count * count))
    return F.index_select(flat, places, len(flat.shape) - 1)


@op
class PdistForward(Block):
    """pdist_forward(input, p) -> Tensor: distances of all pairs of rows of one matrix."""

    node = "PdistBackward0"
    aten = "_pdist_forward"
    public = False
    leading = (2,)

    def fwd(xp, input, p):
        first, second = xp.triu_indices(input.shape[-2], 1)
        return distances(xp, input, input, p)[..., first, second]

    def d_input(F, grad, input, out, p):
        count = input.shape[-2]
        if count < 2 or input.shape[-1] == 0:
            return F.zeros_like(input)
        grad, out = square_form(F, grad, count), square_form(F, out, count)
        return F.distances_pulled(grad, input, input, out, p)

    def jvp(F, input, t_input, out, p):
        count = input.shape[-2]
        if count < 2:
            return F.zeros_like(out)
        dist = square_form(F, out, count)
        return pair_form(F, pushed(F, input, input, t_input, t_input, dist, p))


@api(
    name="nn.functional.pdist",
    aliases=("pdist",),
    method=False,
    samples=[
        Case(Draw(4, 3)),
        Case(Draw(4, 2), 1.0),
        Case(Draw(3, 3, layout="T"), 2.5),
        Case(Draw(3, 2), math.inf),
        Case(Draw(1, 2)),
    ],
    autocast=Autocast(gpu=SINGLE),
)
def pdist(input: Any, p: float = 2.0) -> Any:
    """nn.functional.pdist(input, p=2.0) -> Tensor: p-distances of every pair of rows.

    >>> pdist(tensor([[0.0], [1.0], [3.0]]))
    tensor([1., 3., 2.])
    """
    array = tensor_array("pdist", "input", 1, input)
    if not isinstance(p, (int, float)):
        raise TypeError(f"pdist(): argument 'p' must be float, not {type(p).__name__}")
    if array.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {array.ndim}D")
    if dtypes.of(array.dtype).category != dtypes.FLOATING:
        raise RuntimeError("pdist only supports floating-point dtypes")
    if not p >= 0:
        raise RuntimeError("pdist only supports non-negative p values")
    if is_half(array) and array.shape[0] > 1 and array.size:
        raise not_implemented("pdist", dtypes.of(array.dtype))
    return apply(PdistForward, (input,), (float(p),))


# ---------------------------------------------------------------------- one pair at a time


@api(
    name="nn.functional.pairwise_distance",
    aliases=("pairwise_distance",),
    method=False,
    samples=[
        Case(Draw(3, 4), Draw(3, 4)),
        Case(Draw(2, 1, 3), Draw(4, 3), 1.0),
        Case(Draw(3), Draw(3), 3.0, keepdim=True),
        Case(Draw(2, 3), Draw(3), math.inf),
    ],
)
def pairwise_distance(
    x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Any:
    """nn.functional.pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False) -> Tensor: the
    distances between rows of the same number.

    Of x1 - x2 + eps, over the last dimension.

    >>> pairwise_distance(tensor([[3.0, 4.0]]), tensor([[0.0, 0.0]]))
    tensor([5.0000])
    """
    tensor_array("pairwise_distance", "x1", 1, x1)
    tensor_array("pairwise_distance", "x2", 2, x2)
    if not isinstance(keepdim, bool):
        raise TypeError(
            f"pairwise_distance(): argument 'keepdim' must be bool, not {type(keepdim).__name__}"
        )
    p = number_of("pairwise_distance", "p", 3, p, "float")
    apart = add_number(x1 - x2, number_of("pairwise_distance", "eps", 4, eps, "float"))
    ndim = apart._array.ndim
    dims = (ndim - 1,) if ndim else None
    check_identity(apart._array.shape, p, dims)
    return apply(NormAlong, (apart,), (float(p), dims, keepdim))


@api(
    name="nn.functional.cosine_similarity",
    aliases=("cosine_similarity",),
    method=False,
    samples=[
        Case(Draw(3, 4), Draw(3, 4)),
        Case(Draw(2, 3), Draw(3), -1),
        Case(Draw(3), Draw(3), dim=0),
        Case(Draw(2, 3, 1), Draw(3, 2), 1, 1e-6),
    ],
    autocast=Autocast(gpu=SINGLE),
)
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """nn.functional.cosine_similarity(x1, x2, dim=1, eps=1e-8) -> Tensor: the cosines of the angles
    between vectors.

    >>> cosine_similarity(tensor([1.0, 1.0]), tensor([1.0, 0.0]), dim=0)
    tensor(0.7071)
    """
    a = tensor_array("cosine_similarity", "x1", 1, x1)
    b = tensor_array("cosine_similarity", "x2", 2, x2)
    common = dtypes.of(promote.binary_result(a, b))
    if common.category != dtypes.FLOATING:
        raise RuntimeError(
            f"expected common dtype to be floating point, yet common dtype is {common.scalar_type}"
        )
    shape = broadcast_batch(a.shape, b.shape)
    place = wrap_dim(dim, len(shape))
    parts = []
    for x in (x1, x2):
        x = x.to(common)
        if x._array.shape != shape:
            x = x.expand(*shape)
        parts.append(x / raised(x, place, eps))
    along = place if shape else ()
    return (parts[0] * parts[1]).sum(along)


def raised(x: Any, dim: int, eps: float) -> Any:
    """Lengths, at least `eps`; a gradient does not see that they were raised."""
    length = x.norm(2, dim if x._array.ndim else None, True).clone()
    with no_grad():
        length.clamp_min_(eps)
    return length


@api(
    name="nn.functional.normalize",
    method=False,
    python=True,
    samples=[
        Case(Draw(3, 4)),
        Case(Draw(3, 4), 1.0, 0),
        Case(Draw(2, 3, 2), 3.0, (1, 2)),
        Case(Draw(4), dim=0),
    ],
    functional_out=True,
)
def normalize(input: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12) -> Any:
    """nn.functional.normalize(input, p=2.0, dim=1, eps=1e-12, out=None) -> Tensor: lengths of 1.

    >>> torch.nn.functional.normalize(tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    return input / input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)


# ---------------------------------------------------------------------- limited lengths


def other_dims(ndim: int, dim: int) -> tuple[int, ...]:
    return tuple(d for d in range(ndim) if d != dim)


@op
class Renorm(Block):
    """renorm(input, p, dim, maxnorm) -> Tensor: slices along `dim` made no longer than `maxnorm`.

    >>> renorm(tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """

    wirtinger = True
    inplace = True
    autocast = Autocast(gpu=SINGLE)
    samples = (
        Case(Draw(3, 4), 2, 0, 1.0),
        Case(Draw(2, 3, 2), 1, -1, 2.0),
        Case(Draw(2, 3, layout="T"), 3.0, 1, 0.5),
        Case(Draw(0, 2), 2, 0, 1.0),
    )

    def fwd(xp, input, p, dim, maxnorm):
        wide = computed_wide(xp, input)
        norm = lengths(xp, wide, p, other_dims(input.ndim, dim), True)
        factor = xp.where(norm > maxnorm, maxnorm / (norm + 1e-7), 1).astype(norm.dtype)
        return xp.ascontiguousarray((wide * factor).astype(input.dtype, copy=False))

    def d_input(F, grad, input, p, dim, maxnorm):
        dims = other_dims(len(input.shape), dim)
        norm = F.linalg_vector_norm(input, p, dims, True, None)
        along = F.real_part(F.sum(F.conj(input) * grad, dims, True, None))
        inverse = 1 / (norm + 1e-7)
        turn = norm_gradient(F, along, input, norm, p, dims)
        return F.where(norm > maxnorm, (grad - turn * inverse) * inverse * maxnorm, grad)

    def jvp(F, input, t_input, p, dim, maxnorm):
        dims = other_dims(len(input.shape), dim)
        norm = F.linalg_vector_norm(input, p, dims, True, None)
        inverse = 1 / (norm + 1e-7)
        change = norm_tangent(F, t_input, input, norm, p, dims, True)
        scaled = (t_input - input * change * inverse) * inverse * maxnorm
        return F.where(norm > maxnorm, scaled, t_input)

    def batch(F, size, batched, input, p, dim, maxnorm):
        x = F.transpose(lift(F, input, size, batched[0]), 1, dim + 1)
        flat = F.reshape(x, (size * x.shape[1], *x.shape[2:]))
        return F.transpose(F.reshape(F.renorm(flat, p, 0, maxnorm), tuple(x.shape)), 1, dim + 1)

    def call(input, p, dim, maxnorm, run=apply):
        array = tensor_array("renorm", "input", 1, input)
        p, maxnorm = (v.item() if isinstance(v, TensorBase) else v for v in (p, maxnorm))
        for name, value in (("p", p), ("maxnorm", maxnorm)):
            if isinstance(value, complex):
                raise RuntimeError(f"renorm: {name} must be real-valued")
        if p <= 0:
            raise RuntimeError("renorm: non-positive-norm not supported")
        if maxnorm < 0:
            raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm:g}")
        if array.ndim < 2:
            raise RuntimeError(
                f"renorm: input needs at least 2 dimensions, got {array.ndim} dimensions"
            )
        place = wrap_dim(dim, array.ndim)
        if array.dtype.kind in "biu":
            raise RuntimeError(
                "linalg.vector_norm: Expected a floating point or complex tensor as input. Got "
                f"{scalar_type(array)}"
            )
        check_identity(array.shape, p, other_dims(array.ndim, place))
        return run(Renorm, (input,), (float(p), place, float(maxnorm)))
