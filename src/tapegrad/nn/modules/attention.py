"""MultiheadAttention; PyTorch has it among the activations, and so `activation` lists it."""

from __future__ import annotations

from typing import Any

import tapegrad as tg

from ...core.base import ON_DEVICE, TensorBase, making_for_caller
from ...core.function_modes import WATCHED
from ...ops.nn.multihead_attention import over_itself
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .linear import NonDynamicallyQuantizableLinear
from .module import Module

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Attention with several heads: each looks at its own projection of queries, keys and values.

    Args:
        embed_dim: features of queries and of the result
        num_heads: heads; `embed_dim` must be a multiple
        dropout: probability of dropout on the weights, in train mode
        bias: add learned constants to the projections
        add_bias_kv: one more learned key and value
        add_zero_attn: one more key and value of zeros
        kdim, vdim: features of keys and of values, `embed_dim` by default
        batch_first: the batch is dimension 0, not 1
        device, dtype: of the parameters

    Shape:
        query (L, N, embed_dim), key (S, N, kdim), value (S, N, vdim), with `batch_first` (N, L,
        ...) -> output (L, N, embed_dim), weights (N, L, S), the mean over the heads.
        `attn_mask` (L, S) and `key_padding_mask` (N, S) are True where must not be looked.

    >>> attention = nn.MultiheadAttention(4, 2, batch_first=True)
    >>> x = zeros(3, 5, 4)
    >>> out, weights = attention(x, x, x)
    >>> out.shape, weights.shape
    (torch.Size([3, 5, 4]), torch.Size([3, 5, 5]))
    """

    __constants__ = ["batch_first"]
    bias_k: Any
    bias_v: Any
    _is_added = False  # by a layer around it, who does not mind how the result lies in memory

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0, got "
                f"embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")

        def empty(*shape: int) -> Parameter:
            return Parameter(tg.empty(shape, device=device, dtype=dtype))

        one_matrix = ("in_proj_weight",)
        three = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
        if self._qkv_same_embed_dim:
            self.in_proj_weight = empty(3 * embed_dim, embed_dim)
        else:
            for name, width in zip(three, (embed_dim, self.kdim, self.vdim), strict=True):
                setattr(self, name, empty(embed_dim, width))
        for name in three if self._qkv_same_embed_dim else one_matrix:
            self.register_parameter(name, None)
        if bias:
            self.in_proj_bias = empty(3 * embed_dim)
        else:
            self.register_parameter("in_proj_bias", None)
        self.out_proj = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, device=device, dtype=dtype
        )
        self.bias_k = empty(1, 1, embed_dim) if add_bias_kv else None
        self.bias_v = empty(1, 1, embed_dim) if add_bias_kv else None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        if self._qkv_same_embed_dim:
            init.xavier_uniform_(self.in_proj_weight)
        else:
            init.xavier_uniform_(self.q_proj_weight)
            init.xavier_uniform_(self.k_proj_weight)
            init.xavier_uniform_(self.v_proj_weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        if self.bias_k is not None:
            init.xavier_normal_(self.bias_k)
        if self.bias_v is not None:
            init.xavier_normal_(self.bias_v)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Pickles of older versions lack the attribute.
        state.setdefault("_qkv_same_embed_dim", True)
        super().__setstate__(state)

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Any, Any]:
        if not need_weights and key_padding_mask is None:
            if stays_in_place(self, query, key, value, attn_mask, is_causal):
                into = (self.in_proj_weight, self.in_proj_bias)
                out_of = (self.out_proj.weight, self.out_proj.bias)
                dense = self._is_added or not self.training and not needs_grad(query, *into)
                given = (query, self.num_heads, into, out_of, is_causal, dense)
                return making_for_caller(over_itself, *given), None
        dense = takes_short_way(self, query, key, value, attn_mask, is_causal)
        turned = self.batch_first and query.dim() == 3
        if turned:
            query, key, value = turned_together(query, key, value)
        out, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        if turned:
            out = out.transpose(1, 0)
        return out.contiguous() if dense else out, weights

    def merge_masks(self, attn_mask: Any, key_padding_mask: Any, query: Any) -> tuple[Any, Any]:
        """Both masks as one for (batch, heads, targets, sources), and its kind: 1 is padding."""
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        batch, length, _ = query.shape
        if attn_mask.dim() == 3:
            merged = attn_mask.view(batch, -1, length, length)
        else:
            merged = attn_mask.view(1, 1, length, length).expand(batch, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            padding = key_padding_mask.view(batch, 1, 1, length)
            merged = merged + padding.expand(-1, self.num_heads, -1, -1)
        return merged, 2


def stays_in_place(
    layer: Any, query: Any, key: Any, value: Any, attn_mask: Any, is_causal: bool
) -> bool:
    """Whether there is a kernel that takes heads wherever they lie, so that nothing is turned.

    Only GPUs have one.
    """
    if query is not key or key is not value or not layer.batch_first or WATCHED:
        return False
    if not isinstance(query, TensorBase) or query._special != ON_DEVICE:
        return False
    if (layer.training and layer.dropout) or layer.bias_k is not None or layer.add_zero_attn:
        return False
    if not layer._qkv_same_embed_dim or is_causal != (attn_mask is not None):
        return False
    x = query._array
    return x.ndim == 3 and x.shape[2] == layer.embed_dim and bool(x.flags.c_contiguous)


def takes_short_way(
    layer: Any, query: Any, key: Any, value: Any, attn_mask: Any, is_causal: bool
) -> bool:
    """Whether PyTorch would run its inference kernel, whose result lies dense in memory."""
    if layer.training or not layer.batch_first or query.dim() != 3 or layer.num_heads % 2:
        return False
    if query is not key or key is not value or layer.bias_k is not None or layer.add_zero_attn:
        return False
    if not layer._qkv_same_embed_dim or layer.in_proj_bias is None:
        return False
    if attn_mask is not None and attn_mask.is_floating_point():
        return False
    if query.dtype != layer.in_proj_bias.dtype or query.dtype != layer.in_proj_weight.dtype:
        return False
    return not needs_grad(query, *layer.parameters())


def needs_grad(*tensors: Any) -> bool:
    return tg.is_grad_enabled() and any([t.requires_grad for t in tensors])


def turned_together(query: Any, key: Any, value: Any) -> tuple[Any, Any, Any]:
    """Length in front, batch behind; what was one tensor stays one, as its projection is shared."""
    if key is not value:
        return query.transpose(1, 0), key.transpose(1, 0), value.transpose(1, 0)
    if query is key:
        query = query.transpose(1, 0)
        return query, query, query
    key = key.transpose(1, 0)
    return query.transpose(1, 0), key, key


# Where PyTorch has it, and so what pickled models name.
MultiheadAttention.__module__ = "tapegrad.nn.modules.activation"
