"""Transformer: stacks of encoder and decoder layers around attention."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import tapegrad as tg

from ...core.warned import warn
from ...ops.nn.multihead_attention import additive
from .. import functional as F
from ..init import xavier_uniform_
from .activation import GELU, ReLU
from .attention import MultiheadAttention, needs_grad
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .normalization import LayerNorm

__all__ = [
    "Transformer",
    "TransformerEncoder",
    "TransformerDecoder",
    "TransformerEncoderLayer",
    "TransformerDecoderLayer",
]

Activation = str | Callable[[Any], Any]


def _generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Any:
    """Minus infinity above the diagonal: no position sees later ones."""
    return tg.triu(tg.full((sz, sz), -math.inf, dtype=dtype, device=device), diagonal=1)


def _get_seq_len(src: Any, batch_first: bool) -> int | None:
    """The length of sequences, alone or in a batch."""
    if src.dim() == 2:
        return int(src.size(0))
    if src.dim() == 3:
        return int(src.size(1 if batch_first else 0))
    return None


def _detect_is_causal_mask(mask: Any, is_causal: bool | None, size: int | None = None) -> bool:
    """Whether a mask is the one above; what the caller says counts."""
    if is_causal is not None or mask is None:
        return is_causal is True
    length = size if size is not None else mask.size(-2)
    causal = _generate_square_subsequent_mask(length, mask.device, mask.dtype)
    return mask.shape == causal.shape and bool((mask == causal).all())


def _get_clones(module: Module, n: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(n)])


def _get_activation_fn(activation: str) -> Callable[[Any], Any]:
    if activation == "relu":
        return F.relu
    if activation == "gelu":
        return F.gelu
    raise RuntimeError(f"activation should be relu/gelu, not {activation}")


class Transformer(Module):
    """An encoder for the source and a decoder that looks at its result and at the target.

    Args:
        d_model: features of the input and of the result
        nhead: heads of attention; `d_model` must be a multiple
        num_encoder_layers, num_decoder_layers: how many layers
        dim_feedforward: features between the two linear layers
        dropout: probability of dropout, in train mode
        activation: between the linear layers: "relu", "gelu" or a function
        custom_encoder, custom_decoder: modules to use instead
        layer_norm_eps: `eps` of the normalisations
        batch_first: the batch is dimension 0, not 1
        norm_first: normalise before attention and linear layers, not after
        bias: add a learned constant
        device, dtype: of the parameters

    Shape:
        source (S, N, d_model), target (T, N, d_model) -> (T, N, d_model).

    >>> model = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
    >>> model(zeros(3, 4, 8), zeros(3, 5, 8)).shape
    torch.Size([3, 5, 8])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        layer = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        form = (batch_first, norm_first, bias, device, dtype)
        norm = {"eps": layer_norm_eps, "bias": bias, "device": device, "dtype": dtype}
        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            self.encoder = TransformerEncoder(
                TransformerEncoderLayer(*layer, *form),
                num_encoder_layers,
                LayerNorm(d_model, **norm),
            )
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            self.decoder = TransformerDecoder(
                TransformerDecoderLayer(*layer, *form),
                num_decoder_layers,
                LayerNorm(d_model, **norm),
            )
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Any,
        tgt: Any,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Any:
        place = 0 if self.batch_first else 1
        if src.dim() == 3 and src.size(place) != tgt.size(place):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(
            src,
            mask=src_mask,
            src_key_padding_mask=src_key_padding_mask,
            is_causal=src_is_causal,
        )
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Any:
        """A mask that keeps every position from seeing later ones.

        >>> nn.Transformer.generate_square_subsequent_mask(2)
        tensor([[0., -inf],
                [0., 0.]])
        """
        return _generate_square_subsequent_mask(sz, device, dtype)

    def _reset_parameters(self) -> None:
        for p in self.parameters():
            if p.dim() > 1:
                xavier_uniform_(p)


def why_not_nested(layer: Any) -> str:
    """Why an encoder of such layers cannot leave the padding out; empty if it can."""
    name = "encoder_layer"
    if not isinstance(layer, TransformerEncoderLayer):
        return f"{name} was not TransformerEncoderLayer"
    attention = layer.self_attn
    if layer.norm_first:
        return f"{name}.norm_first was True"
    if not attention.batch_first:
        return (
            f"{name}.self_attn.batch_first was not True"
            "(use batch_first for better inference performance)"
        )
    if not attention._qkv_same_embed_dim:
        return f"{name}.self_attn._qkv_same_embed_dim was not True"
    if attention.in_proj_bias is None:
        return f"{name}.self_attn was passed bias=False"
    if not layer.activation_relu_or_gelu:
        return f"{name}.activation_relu_or_gelu was not True"
    if layer.norm1.eps != layer.norm2.eps:
        return f"{name}.norm1.eps was not equal to {name}.norm2.eps"
    if attention.num_heads % 2 == 1:
        return f"{name}.self_attn.num_heads is odd"
    return ""


class TransformerEncoder(Module):
    """Copies of one encoder layer, one after the other.

    Args:
        encoder_layer: the layer that is copied
        num_layers: how many copies
        norm: a normalisation at the end
        enable_nested_tensor, mask_check: accepted; they change nothing here

    Shape:
        (L, N, d_model), with `batch_first` (N, L, d_model) -> the same.

    >>> layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> nn.TransformerEncoder(layer, 2)(zeros(3, 5, 8)).shape
    torch.Size([3, 5, 8])
    """

    __constants__ = ["norm"]

    def __init__(
        self,
        encoder_layer: Any,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.use_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check
        reason = why_not_nested(encoder_layer)
        if enable_nested_tensor and reason:
            warn(
                "enable_nested_tensor is True, but self.use_nested_tensor is False because "
                f"{reason}",
            )
            self.use_nested_tensor = False

    def forward(
        self,
        src: Any,
        mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool | None = None,
    ) -> Any:
        padding = additive("src_key_padding_mask", src_key_padding_mask, mask, src.dtype, "mask")
        mask = additive("mask", mask, None, src.dtype)
        first = self.layers[0]
        length = _get_seq_len(src, first.self_attn.batch_first)
        causal = _detect_is_causal_mask(mask, is_causal, length)
        out = src
        for layer in self.layers:
            out = layer(out, src_mask=mask, is_causal=causal, src_key_padding_mask=padding)
        if mask is None and padding is not None and self._leaves_padding_out(src, padding):
            # PyTorch computes without the padded positions and fills them up with zeros.
            out = out.masked_fill((padding != 0).unsqueeze(-1), 0.0)
        return out if self.norm is None else self.norm(out)

    def _leaves_padding_out(self, src: Any, padding: Any) -> bool:
        """Whether PyTorch would run on a nested tensor: inference, and padding only at the end."""
        if self.training or not self.use_nested_tensor or src.dim() != 3:
            return False
        if needs_grad(src, *self.layers[0].parameters()):
            return False
        valid = (padding == 0).to(tg.int64)
        return not self.mask_check or bool((valid.cummin(1).values == valid).all())


class TransformerDecoder(Module):
    """Copies of one decoder layer, one after the other.

    Args:
        decoder_layer: the layer that is copied
        num_layers: how many copies
        norm: a normalisation at the end

    Shape:
        target (T, N, d_model), the encoder's result (S, N, d_model) -> (T, N, d_model).

    >>> layer = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
    >>> nn.TransformerDecoder(layer, 2)(zeros(3, 5, 8), zeros(3, 4, 8)).shape
    torch.Size([3, 5, 8])
    """

    __constants__ = ["norm"]

    def __init__(self, decoder_layer: Any, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Any:
        length = _get_seq_len(tgt, self.layers[0].self_attn.batch_first)
        causal = _detect_is_causal_mask(tgt_mask, tgt_is_causal, length)
        out = tgt
        for layer in self.layers:
            out = layer(
                out,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )
        return out if self.norm is None else self.norm(out)


class _Layer(Module):
    """Attentions and two linear layers, with a normalisation and a dropout for each of them."""

    __constants__ = ["norm_first"]
    activation: Any
    self_attn: Any
    multihead_attn: Any
    norm1: Any
    norm2: Any
    norm3: Any
    dropout1: Any
    dropout2: Any
    dropout3: Any
    _attentions: tuple[str, ...]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        where: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        for name in self._attentions:
            heads = MultiheadAttention(
                d_model, nhead, dropout=dropout, batch_first=batch_first, **where
            )
            heads._is_added = True
            setattr(self, name, heads)
        self.linear1 = Linear(d_model, dim_feedforward, **where)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **where)
        self.norm_first = norm_first
        parts = range(1, len(self._attentions) + 2)
        for i in parts:
            setattr(self, f"norm{i}", LayerNorm(d_model, eps=layer_norm_eps, **where))
        for i in parts:
            setattr(self, f"dropout{i}", Dropout(dropout))
        if isinstance(activation, str):
            activation = _get_activation_fn(activation)
        self._note_kind(activation)
        self.activation = activation

    def _note_kind(self, activation: Any) -> None:
        """Encoders say which activations have a fast way."""

    def _sa_block(
        self, x: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False
    ) -> Any:
        x = self.self_attn(
            x,
            x,
            x,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            need_weights=False,
            is_causal=is_causal,
        )[0]
        return self.dropout1(x)


class TransformerEncoderLayer(_Layer):
    """Self-attention and two linear layers, each added to what it was given and normalised.

    Args:
        d_model: features of the input and of the result
        nhead: heads of attention; `d_model` must be a multiple
        dim_feedforward: features between the two linear layers
        dropout: probability of dropout, in train mode
        activation: between the linear layers: "relu", "gelu" or a function
        layer_norm_eps: `eps` of the normalisations
        batch_first: the batch is dimension 0, not 1
        norm_first: normalise before attention and linear layers, not after
        bias: add a learned constant
        device, dtype: of the parameters

    Shape:
        (L, N, d_model), with `batch_first` (N, L, d_model) -> the same.

    >>> nn.TransformerEncoderLayer(8, 2, 16)(zeros(5, 3, 8)).shape
    torch.Size([5, 3, 8])
    """

    _attentions = ("self_attn",)

    def _note_kind(self, activation: Any) -> None:
        if activation is F.relu or isinstance(activation, ReLU):
            self.activation_relu_or_gelu = 1
        elif activation is F.gelu or isinstance(activation, GELU):
            self.activation_relu_or_gelu = 2
        else:
            self.activation_relu_or_gelu = 0

    def forward(
        self,
        src: Any,
        src_mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool = False,
    ) -> Any:
        name = "src_key_padding_mask"
        padding = additive(name, src_key_padding_mask, src_mask, src.dtype, "src_mask")
        mask = additive("src_mask", src_mask, None, src.dtype)
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), mask, padding, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, mask, padding, is_causal))
        return self.norm2(x + self._ff_block(x))

    def _ff_block(self, x: Any) -> Any:
        x = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return self.dropout2(x)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's result, and two linear layers.

    Args:
        d_model: features of the input and of the result
        nhead: heads of attention; `d_model` must be a multiple
        dim_feedforward: features between the two linear layers
        dropout: probability of dropout, in train mode
        activation: between the linear layers: "relu", "gelu" or a function
        layer_norm_eps: `eps` of the normalisations
        batch_first: the batch is dimension 0, not 1
        norm_first: normalise before attention and linear layers, not after
        bias: add a learned constant
        device, dtype: of the parameters

    Shape:
        target (T, N, d_model), the encoder's result (S, N, d_model) -> (T, N, d_model).

    >>> nn.TransformerDecoderLayer(8, 2, 16)(zeros(5, 3, 8), zeros(4, 3, 8)).shape
    torch.Size([5, 3, 8])
    """

    _attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Any:
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory_mask, memory_key_padding_mask, memory_is_causal)
        x = tgt
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *own)
            x = x + self._mha_block(self.norm2(x), memory, *other)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *own))
        x = self.norm2(x + self._mha_block(x, memory, *other))
        return self.norm3(x + self._ff_block(x))

    def _mha_block(
        self, x: Any, mem: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False
    ) -> Any:
        x = self.multihead_attn(
            x,
            mem,
            mem,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            is_causal=is_causal,
            need_weights=False,
        )[0]
        return self.dropout2(x)

    def _ff_block(self, x: Any) -> Any:
        x = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return self.dropout3(x)
