"""Scaled dot product attention: in one op where PyTorch has one, else made of products."""

from __future__ import annotations

import functools
import math
from typing import Any

from ... import dtypes
from ...core.arguments import cast_value
from ...core.base import TensorBase
from ...core.python_dispatch import same_always
from ...core.rounding import half_as_single
from ...core.strides import empty_like
from ...device import CPU
from ...dtypes import cpp_name
from ...errors import must_be_tensor
from ..block import APIS, LOWER, Autocast, Block, Case, api, apply, op
from ..block.checks import not_implemented
from ..block.samples import Draw, Index
from ..creation.sized import full, ones
from ..pointwise.with_number import mul_number
from .dropout import dropped
from .standardize import row_dots, sum_of

# ruff: noqa: N805


def exponentials(xp: Any, scores: Any, dim: int) -> tuple[Any, Any]:
    """Numerator and denominator of softmax; the numerator overwrites `scores`.

    Where every score is minus infinity there is no weight: zeros, to be divided by one.
    """
    most = xp.maximum.reduce(scores, dim, keepdims=True, initial=-xp.inf)
    scores -= xp.where(xp.isneginf(most), scores.dtype.type(0), most)
    xp.exp(scores, scores)
    sums = xp.add.reduce(scores, dim, keepdims=True)
    return scores, xp.where(sums == 0, scores.dtype.type(1), sums)


@op
class SafeSoftmax(Block):
    """safe_softmax(input, dim) -> Tensor: `softmax`, but zero along lines of minus infinity."""

    aten = "_safe_softmax"
    public = False
    dims = ("dim",)

    def fwd(xp, input, dim):
        if input.dtype.kind not in "fV":
            raise not_implemented("softmax_lastdim_kernel_impl", dtypes.of(input.dtype))
        above, below = exponentials(xp, xp.array(half_as_single(input)), dim)
        return cast_value(above / below, input.dtype)

    def d_input(F, grad, out, dim):
        return F.softmax_backward_data(grad, out, dim)

    def jvp(F, t_input, out, dim):
        return F.softmax_backward_data(t_input, out, dim)


# ---------------------------------------------------------------------- in one op


def weights(
    xp: Any, query: Any, key: Any, mask: Any, scale: float, causal: bool
) -> tuple[Any, Any]:
    """How much every query looks at every key, still to be divided by the second."""
    scores = xp.matmul(query * scale, key.swapaxes(-1, -2))
    if mask is not None:
        scores = scores + half_as_single(mask)
    if causal:  # what is not seen has no say, not even where it is no number
        seen = xp.tri(*scores.shape[-2:], dtype=bool)
        scores = xp.where(seen, scores, scores.dtype.type(-math.inf))
    return exponentials(xp, scores, -1)


def turned(F: Any, x: Any) -> Any:
    rank = len(x.shape)
    return F.transpose(x, rank - 2, rank - 1)


def pull_softmax(F: Any, grad: Any, p: Any) -> Any:
    return F.softmax_backward_data(grad, p, len(p.shape) - 1)


def rows(F: Any, z: Any) -> Any:
    return F.sum(z, (len(z.shape) - 1,), True, None)


class Weights:
    """The weights of attention in the language of rules."""

    def __init__(self, F: Any, query: Any, key: Any, mask: Any, scale: float, causal: bool) -> None:
        scores = F.matmul(query * scale, turned(F, key))
        if mask is not None:
            scores = scores + mask
        if causal:
            scores = scores + F.triu(F.zeros_like(scores) - math.inf, 1)
        self.p = F.safe_softmax(scores, len(scores.shape) - 1)


class Attention(Block):
    """Leading dimensions are samples and heads; `mask` is added to the scores.

    With `causal` every query sees only the keys up to its own place.
    """

    public = False


@op
class ScaledDotProductFlashAttentionForCpu(Attention):
    """scaled_dot_product_flash_attention_for_cpu(query, key, value, mask, scale, causal) -> Tensor:
    values in a mixture by how well their keys fit the queries."""

    aten = "_scaled_dot_product_flash_attention_for_cpu"
    tensors = ("query", "key", "value", "mask")
    leading = (2, 2, 2, 2)
    gradient_text = {
        "query": "scale * dS @ key",
        "key": "scale * dS.T @ query",
        "value": "softmax(query @ key.T * scale).T @ grad",
    }

    def fwd(xp, query, key, value, mask, scale, causal):
        q, k, v = half_as_single(query), half_as_single(key), half_as_single(value)
        above, below = weights(xp, q, k, mask, scale, causal)
        if q is not query:  # half precision: what is multiplied is rounded, as in PyTorch
            above = half_as_single(cast_value(above, query.dtype))
        out = empty_like(xp, query)
        out[...] = xp.matmul(above, v) / below
        return out

    def backward(F, grad, needs, query, key, value, mask, scale, causal):
        found = F.scaled_dot_product_flash_attention_for_cpu_backward(
            grad, query, key, value, mask, scale, causal
        )
        return (*found, None)

    def jvp(F, query, t_query, key, t_key, value, t_value, mask, scale, causal):
        p = Weights(F, query, key, mask, scale, causal).p
        by_query = None if t_query is None else F.matmul(t_query * scale, turned(F, key))
        by_key = None if t_key is None else F.matmul(query * scale, turned(F, t_key))
        change = sum_of(by_query, by_key)
        moved = None if change is None else F.matmul(pull_softmax(F, change, p), value)
        return sum_of(moved, None if t_value is None else F.matmul(p, t_value))


@op
class ScaledDotProductFlashAttentionForCpuBackward(Attention):
    """scaled_dot_product_flash_attention_for_cpu_backward(grad_output, query, key, value, mask,
    scale, causal) -> (Tensor, Tensor, Tensor): the gradients of query, key and value."""

    node = "ScaledDotProductFlashAttentionForCpuBackwardBackward0"
    aten = "_scaled_dot_product_flash_attention_for_cpu_backward"
    tensors = ("grad_output", "query", "key", "value", "mask")
    outs = ("grad_query", "grad_key", "grad_value")
    leading = (2, 2, 2, 2, 2)

    def fwd(xp, grad_output, query, key, value, mask, scale, causal):
        grad, q, k, v = [half_as_single(x) for x in (grad_output, query, key, value)]
        p, below = weights(xp, q, k, mask, scale, causal)
        p /= below
        to_value = xp.matmul(p.swapaxes(-1, -2), grad)
        to_scores = xp.matmul(grad, v.swapaxes(-1, -2))
        to_scores -= row_dots(xp, to_scores, p)[..., None]
        to_scores *= p
        to_scores *= scale
        to_query = xp.matmul(to_scores, k)
        to_key = xp.matmul(to_scores.swapaxes(-1, -2), q)
        return (
            cast_value(to_query, query.dtype),
            cast_value(to_key, key.dtype),
            cast_value(to_value, value.dtype),
        )

    def backward(F, grad, needs, grad_output, query, key, value, mask, scale, causal):
        a, b, c = grad
        p = Weights(F, query, key, mask, scale, causal).p
        pulled = F.matmul(grad_output, turned(F, value))
        to_scores = pull_softmax(F, pulled, p)
        # To the gradient of the scores, which is to_query = to_scores @ key and so on.
        to_first = (F.matmul(a, turned(F, key)) + F.matmul(query, turned(F, b))) * scale
        to_pulled = pull_softmax(F, to_first, p)
        to_p = F.matmul(grad_output, turned(F, c)) + to_first * (pulled - rows(F, pulled * p))
        to_p = to_p - pulled * rows(F, to_first * p)
        again = pull_softmax(F, to_p, p)
        to_query = (F.matmul(to_scores, b) + F.matmul(again, key)) * scale
        to_key = (F.matmul(turned(F, to_scores), a) + F.matmul(turned(F, again), query)) * scale
        to_value = F.matmul(turned(F, to_pulled), grad_output)
        return F.matmul(p, c) + F.matmul(to_pulled, value), to_query, to_key, to_value, None

    def jvp(
        F,
        grad_output,
        t_grad_output,
        query,
        t_query,
        key,
        t_key,
        value,
        t_value,
        mask,
        scale,
        causal,
    ):
        def tangent(t: Any, x: Any) -> Any:
            return F.zeros_like(x) if t is None else t

        t_grad, t_q = tangent(t_grad_output, grad_output), tangent(t_query, query)
        t_k, t_v = tangent(t_key, key), tangent(t_value, value)
        p = Weights(F, query, key, mask, scale, causal).p
        t_s = (F.matmul(t_q, turned(F, key)) + F.matmul(query, turned(F, t_k))) * scale
        t_p = pull_softmax(F, t_s, p)
        pulled = F.matmul(grad_output, turned(F, value))
        t_pulled = F.matmul(t_grad, turned(F, value)) + F.matmul(grad_output, turned(F, t_v))
        to_scores = pull_softmax(F, pulled, p)
        t_scores = pull_softmax(F, t_pulled, p) + t_p * (pulled - rows(F, pulled * p))
        t_scores = t_scores - p * rows(F, pulled * t_p)
        return (
            (F.matmul(t_scores, key) + F.matmul(to_scores, t_k)) * scale,
            (F.matmul(turned(F, t_scores), query) + F.matmul(turned(F, to_scores), t_q)) * scale,
            F.matmul(turned(F, t_p), grad_output) + F.matmul(turned(F, p), t_grad),
        )


def fits_one_op(query: Any, key: Any, value: Any, mask: Any, dropout_p: float) -> bool:
    """PyTorch's conditions for its one op."""
    q, k, v = query._array, key._array, value._array
    own, other = q.shape, k.shape
    if dropout_p > 0 or len(own) != 4 or len(other) != 4 or v.shape != other:
        return False
    if own[:2] != other[:2] or own[3] != other[3] or 0 in own or 0 in other:
        return False
    dtype = q.dtype
    item = dtype.itemsize
    if dtype.kind not in "fV" or q.strides[3] != item:
        return False
    if k.strides[3] != item or v.strides[3] != item:
        return False
    if mask is None:
        return True
    if mask._wants_grad or mask._array.ndim not in (2, 4):
        return False
    full_shape = (*own[:3], other[2])[-mask._array.ndim :]
    return all([m in (1, n) for m, n in zip(mask._array.shape, full_shape, strict=True)])


# ---------------------------------------------------------------------- the function


def check_attention(query: Any, key: Any, value: Any, mask: Any) -> None:
    arguments = (query, key, value, mask)
    for place, t in enumerate(arguments):
        if not isinstance(t, TensorBase) and (t is not None or place < 3):
            name = ("query", "key", "value", "attn_mask")[place]
            raise must_be_tensor("scaled_dot_product_attention", name, place + 1, t)
    types = query._array.dtype, key._array.dtype, value._array.dtype
    if types[0] != types[1] or types[0] != types[2]:
        q, k, v = [cpp_name(t) for t in types]
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{q} key.dtype: {k} and value.dtype: {v} instead."
        )
    ranks = query._array.ndim, key._array.ndim, value._array.ndim
    if min(ranks) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{ranks[0]} key.dim: {ranks[1]} and value.dim: {ranks[2]} instead."
        )
    if types[0].kind not in "fVc":
        raise RuntimeError(
            f"expected scalar type Float but found {dtypes.of(types[0]).scalar_type}"
        )
    if mask is not None:
        own = mask._array.dtype
        if own.kind != "b" and own.name != "float32" and own != types[0]:
            raise RuntimeError(
                "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
                f"attn_mask.dtype: {cpp_name(own)} and  query.dtype: "
                f"{cpp_name(types[0])} instead."
            )
        if mask._array.ndim < 2:
            raise IndexError(
                "Dimension out of range (expected to be in range of [-1, 0], but got -2)"
            )


def as_bias(mask: Any, query: Any) -> Any:
    """A mask of bools as what is added to the scores: nothing, or minus infinity."""
    if mask is None or mask._array.dtype.kind != "b":
        return mask
    nothing = same_always(full((), 0.0, dtype=query.dtype))
    return APIS["where"].call(mask, nothing, -math.inf)


def causal_bias(query: Any, key: Any) -> Any:
    """Every query sees the keys up to its own place."""
    if query.device != CPU:
        return kept_causal_bias(query.size(-2), key.size(-2), query.dtype, query.device)
    seen = same_always(ones((query.size(-2), key.size(-2)), dtype=dtypes.bool_)).tril()
    return as_bias(seen, query)


@functools.lru_cache(maxsize=16)
def kept_causal_bias(queries: int, keys: int, dtype: Any, device: Any) -> Any:
    """The causal bias on a GPU, cached: making it would cost more than the attention."""
    seen = ones((queries, keys), dtype=dtypes.bool_).tril()
    return as_bias(seen, ones((), dtype=dtype)).to(device)


def by_products(query: Any, key: Any, value: Any, bias: Any, dropout_p: float, scale: float) -> Any:
    """The definition, in ordinary ops; half precision is computed in single."""
    dtype = query.dtype
    if dtype.itemsize == 2:
        query, key, value = query.float(), key.float(), value.float()
        bias = None if bias is None else bias.float()
    # Both sides take half of the scale, which keeps the products small.
    root = math.sqrt(abs(scale))
    left = mul_number(query, math.copysign(root, scale))
    scores = APIS["matmul"].call(left, mul_number(key.transpose(-2, -1), root))
    if bias is not None:
        scores = scores + bias
    p = apply(SafeSoftmax, (scores,), (scores.dim() - 1,))
    if dropout_p > 0:
        p = dropped("dropout", p, dropout_p, True, False, False)
    out = APIS["matmul"].call(p, value)
    return out if out.dtype == dtype else out.to(dtype)


def heads_for(query: Any, t: Any) -> Any:
    """Keys or values with every head repeated for the queries that share it."""
    wanted, have = query.size(-3), t.size(-3)
    if not have or wanted % have:
        raise RuntimeError(
            "Number of heads in key and value must divide the number of heads in \nquery."
        )
    return t if wanted == have else t.repeat_interleave(wanted // have, -3)


QKV = (Draw(2, 2, 3, 4), Draw(2, 2, 5, 4), Draw(2, 2, 5, 4))


@api(
    name="nn.functional.scaled_dot_product_attention",
    method=False,
    samples=[
        Case(*QKV),
        Case(*QKV, is_causal=True, scale=0.7),
        Case(*QKV, Index([[True, True, False, True, False]] * 3)),
        Case(*QKV, Draw(3, 5)),
        Case(Draw(3, 4), Draw(2, 4), Draw(2, 3)),
        Case(Draw(2, 3, 4), Draw(2, 3, 4), Draw(2, 3, 4), None, 0.4),
        Case(Draw(1, 4, 2, 3), Draw(1, 2, 3, 3), Draw(1, 2, 3, 3), enable_gqa=True),
    ],
    autocast=Autocast(cpu=LOWER, gpu=LOWER),
)
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """scaled_dot_product_attention(query, key, value, attn_mask=None, …) -> Tensor: values mixed by
    `softmax(query @ key.mT * scale + mask)`.

    >>> x = torch.eye(2)
    >>> torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
    tensor([[1.0000, 0.0000],
            [0.3302, 0.6698]])
    """
    check_attention(query, key, value, attn_mask)
    if enable_gqa:
        key, value = heads_for(query, key), heads_for(query, value)
    if scale is None:
        width = query._array.shape[-1]
        scale = 1 / math.sqrt(width) if width else math.inf
    bias = as_bias(attn_mask, query)
    alone = fits_one_op(query, key, value, bias, dropout_p)
    if is_causal:
        if bias is not None and not alone:
            raise RuntimeError(
                "_scaled_dot_product_attention: Explicit attn_mask should not be set when "
                "is_causal=True"
            )
        if not alone:
            bias = causal_bias(query, key)
            is_causal = False
    if alone:
        tensors = (query, key, value, bias)
        attrs = (float(scale), bool(is_causal))
        return apply(ScaledDotProductFlashAttentionForCpu, tensors, attrs)
    return by_products(query, key, value, bias, dropout_p, scale)
