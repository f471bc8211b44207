"""Attention with several heads and its projections, as one function."""

from __future__ import annotations

import math
from typing import Any

from ...core.warned import warn
from ..block import Case, api
from ..block.public import public
from ..block.samples import Draw

# ---------------------------------------------------------------------- what is refused


def ranks(query: Any, key: Any, value: Any, padding: Any, mask: Any, heads: int) -> bool:
    """Check the numbers of dimensions; whether there is a batch."""
    if query.dim() not in (2, 3):
        raise AssertionError(
            "query should be unbatched 2D or batched 3D tensor but received "
            f"{query.dim()}-D query tensor"
        )
    batched = query.dim() == 3
    rank = 3 if batched else 2
    case = f"For {'batched (3-D)' if batched else 'unbatched (2-D)'} `query`, expected"
    if key.dim() != rank or value.dim() != rank:
        raise AssertionError(
            f"{case} `key` and `value` to be {rank}-D but found {key.dim()}-D and {value.dim()}-D "
            "tensors respectively"
        )
    if padding is not None and padding.dim() != rank - 1:
        raise AssertionError(
            f"{case} `key_padding_mask` to be `None` or {rank - 1}-D but found {padding.dim()}-D "
            "tensor instead"
        )
    if mask is not None and mask.dim() not in (2, 3):
        raise AssertionError(
            f"{case} `attn_mask` to be `None`, 2-D or 3-D but found {mask.dim()}-D tensor instead"
        )
    if mask is not None and mask.dim() == 3 and not batched:
        expected = (heads, query.shape[0], key.shape[0])
        if tuple(mask.shape) != expected:
            raise AssertionError(
                f"Expected `attn_mask` shape to be {expected} but got {mask.shape}"
            )
    return batched


def additive(name: str, mask: Any, other: Any, dtype: Any, other_name: str = "attn_mask") -> Any:
    """A mask as numbers that are added: minus infinity where a bool mask is true.

    `other` is a mask that should be of the same kind.
    """
    if mask is None:
        return None
    if mask.dtype != public.bool and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported")
    if other is not None and mask.dtype != other.dtype:
        warn(
            f"Support for mismatched {name} and {other_name} is deprecated. Use same type for "
            "both instead.",
        )
    if mask.is_floating_point():
        return mask
    return public.zeros_like(mask, dtype=dtype).masked_fill_(mask, -math.inf)


def checked_mask(mask: Any, flat: tuple[int, int], heads: int) -> Any:
    """The mask with a dimension for the heads of the whole batch."""
    if mask.dim() == 2:
        if tuple(mask.shape) != flat:
            raise RuntimeError(
                f"The shape of the 2D attn_mask is {mask.shape}, but should be {flat}."
            )
        return mask.unsqueeze(0)
    if mask.dim() != 3:
        raise RuntimeError(f"attn_mask's dimension {mask.dim()} is not supported")
    if tuple(mask.shape) != (heads, *flat):
        raise RuntimeError(
            f"The shape of the 3D attn_mask is {mask.shape}, but should be {(heads, *flat)}."
        )
    return mask


# ---------------------------------------------------------------------- the parts


def projected(query: Any, key: Any, value: Any, weight: Any, bias: Any) -> tuple[Any, Any, Any]:
    """Queries, keys and values from one stack of weights; inputs that are the same go together."""
    linear = public.nn.functional.linear
    width = query.shape[-1]
    if key is value and query is key:
        whole = linear(query, weight, bias).unflatten(-1, (3, width)).unsqueeze(0)
        whole = whole.transpose(0, -2).squeeze(-2).contiguous()
        return whole[0], whole[1], whole[2]
    if key is value:
        q_weight, kv_weight = weight.split([width, width * 2])
        q_bias, kv_bias = (None, None) if bias is None else bias.split([width, width * 2])
        q = linear(query, q_weight, q_bias)
        both = linear(key, kv_weight, kv_bias).unflatten(-1, (2, width)).unsqueeze(0)
        both = both.transpose(0, -2).squeeze(-2).contiguous()
        return q, both[0], both[1]
    weights = weight.chunk(3)
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    q, k, v = (
        linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True)
    )
    return q, k, v


def one_more(mask: Any) -> Any:
    """A mask that lets one more key through."""
    return None if mask is None else public.nn.functional.pad(mask, (0, 1))


def by_head(x: Any, heads: int, width: int) -> Any:
    """(length, batch, heads * width) as (batch * heads, length, width)."""
    return x.view(x.shape[0], heads, width).transpose(0, 1)


def given_heads(name: str, x: Any, heads: int, width: int) -> Any:
    """Keys or values that are given by head already."""
    if x.size(0) != heads:
        raise AssertionError(f"expecting {name}.size(0) of {heads}, but got {x.size(0)}")
    if x.size(2) != width:
        raise AssertionError(f"expecting {name}.size(2) of {width}, but got {x.size(2)}")
    return x


def weighed(q: Any, k: Any, v: Any, mask: Any, dropout: float) -> tuple[Any, Any]:
    """Attention that keeps its weights."""
    scaled = q * math.sqrt(1.0 / float(q.shape[-1]))
    turned = k.transpose(-2, -1)
    scores = public.bmm(scaled, turned) if mask is None else public.baddbmm(mask, scaled, turned)
    weights = public.nn.functional.softmax(scores, dim=-1)
    if dropout > 0.0:
        weights = public.nn.functional.dropout(weights, p=dropout)
    return public.bmm(weights, v), weights


def over_itself(
    x: Any, heads: int, into: tuple[Any, Any], out_of: tuple[Any, Any], causal: bool, dense: bool
) -> Any:
    """Attention of sequences (batch, length, width) over themselves, read where they lie.

    The weights and biases are those of the projections before and after. Unless it is to be
    `dense`, the result lies as one that was turned: length first.
    """
    linear = public.nn.functional.linear
    batch, length, width = x.shape
    shape = (batch, length, heads, width // heads)
    q, k, v = [part.view(shape).transpose(1, 2) for part in linear(x, *into).split(width, -1)]
    out = public.nn.functional.scaled_dot_product_attention(q, k, v, None, 0.0, causal)
    if dense:
        return linear(out.transpose(1, 2).reshape(batch, length, width), *out_of)
    out = out.permute(2, 0, 1, 3).reshape(length, batch, width)
    return linear(out, *out_of).transpose(1, 0)


def small(*shape: int) -> Draw:
    return Draw(*shape, low=-0.5, high=0.5)


SAMPLE = Case(
    small(2, 1, 4),
    small(3, 1, 4),
    small(3, 1, 4),
    4,
    2,
    small(12, 4),
    small(12),
    None,
    None,
    False,
    0.0,
    small(4, 4),
    small(4),
)


@api(name="nn.functional.multi_head_attention_forward", samples=[SAMPLE])
def multi_head_attention_forward(
    query: Any,
    key: Any,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None,
    k_proj_weight: Any = None,
    v_proj_weight: Any = None,
    static_k: Any = None,
    static_v: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> Any:
    """multi_head_attention_forward(query, key, value, …) -> (Tensor, Tensor): what layers compute.

    >>> x, w = ones(2, 1, 2), eye(2)
    >>> out, weights = nn.functional.multi_head_attention_forward(
    ...     x, x, x, 2, 1, cat([w, w, w]), None, None, None, False, 0.0, w, None)
    >>> weights
    tensor([[[0.5000, 0.5000],
             [0.5000, 0.5000]]])
    """
    batched = ranks(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    length, batch, width = query.shape
    padding = additive("key_padding_mask", key_padding_mask, attn_mask, query.dtype)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module "
            "method `generate_square_subsequent_mask` to create this mask."
        )
    if is_causal and padding is None and not need_weights:
        mask = None  # the hint says it all
    else:
        mask = additive("attn_mask", attn_mask, None, query.dtype)
        is_causal = is_causal and padding is None
    if width != embed_dim_to_check:
        raise AssertionError(
            f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}"
        )
    head = width // num_heads
    if head * num_heads != width:
        raise AssertionError(f"embed_dim {width} not divisible by num_heads {num_heads}")
    if use_separate_proj_weight:
        if key.shape[:2] != value.shape[:2]:
            raise AssertionError(
                f"key's sequence and batch dims {key.shape[:2]} do not match value's "
                f"{value.shape[:2]}"
            )
        for name, weight in zip("qkv", (q_proj_weight, k_proj_weight, v_proj_weight), strict=True):
            if weight is None:
                raise AssertionError(
                    f"use_separate_proj_weight is True but {name}_proj_weight is None"
                )
        linear = public.nn.functional.linear
        biases = (None,) * 3 if in_proj_bias is None else in_proj_bias.chunk(3)
        q = linear(query, q_proj_weight, biases[0])
        k = linear(key, k_proj_weight, biases[1])
        v = linear(value, v_proj_weight, biases[2])
    else:
        if key.shape != value.shape:
            raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
        if in_proj_weight is None:
            raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
        q, k, v = projected(query, key, value, in_proj_weight, in_proj_bias)

    heads = batch * num_heads
    if mask is not None:
        mask = checked_mask(mask, (length, key.shape[0]), heads)
    if bias_k is not None and bias_v is not None:
        if static_k is not None:
            raise AssertionError("bias cannot be added to static key.")
        if static_v is not None:
            raise AssertionError("bias cannot be added to static value.")
        k = public.cat([k, bias_k.repeat(1, batch, 1)])
        v = public.cat([v, bias_v.repeat(1, batch, 1)])
        mask, padding = one_more(mask), one_more(padding)
    q = by_head(q, heads, head)
    if static_k is None:
        k = by_head(k, heads, head)
    else:
        k = given_heads("static_k", static_k, heads, head)
    if static_v is None:
        v = by_head(v, heads, head)
    else:
        v = given_heads("static_v", static_v, heads, head)
    if add_zero_attn:
        none = (heads, 1, head)
        k = public.cat([k, public.zeros(none, dtype=k.dtype)], dim=1)
        v = public.cat([v, public.zeros(none, dtype=v.dtype)], dim=1)
        mask, padding = one_more(mask), one_more(padding)
    source = k.size(1)
    if padding is not None:
        if tuple(padding.shape) != (batch, source):
            raise AssertionError(
                f"expecting key_padding_mask shape of {(batch, source)}, but got {padding.shape}"
            )
        padding = padding.view(batch, 1, 1, source).expand(-1, num_heads, -1, -1)
        padding = padding.reshape(heads, 1, source)
        mask = padding if mask is None else mask + padding
    dropout = dropout_p if training else 0.0

    if need_weights:
        out, weights = weighed(q, k, v, mask, dropout)
        out = out.transpose(0, 1).contiguous().view(length * batch, width)
    else:
        weights = None
        if mask is not None:
            if mask.size(0) == 1 and mask.dim() == 3:
                mask = mask.unsqueeze(0)
            else:
                mask = mask.view(batch, num_heads, -1, source)
        out = public.nn.functional.scaled_dot_product_attention(
            q.view(batch, num_heads, length, head),
            k.view(batch, num_heads, source, head),
            v.view(batch, num_heads, source, head),
            mask,
            dropout,
            is_causal,
        )
        out = out.permute(2, 0, 1, 3).contiguous().view(batch * length, width)
    out = public.nn.functional.linear(out, out_proj_weight, out_proj_bias)
    out = out.view(length, batch, out.size(1))
    if weights is not None:
        weights = weights.view(batch, num_heads, length, source)
        weights = weights.mean(dim=1) if average_attn_weights else weights
    if not batched:
        out = out.squeeze(1)
        weights = None if weights is None else weights.squeeze(0)
    return out, weights
