"""Attention with a score of one's own: `score_mod` and `mask_mod` are functions of positions.

PyTorch compiles them into one kernel. Here they are mapped over all positions with `vmap`, so the
result and its gradients are the same, and the scores exist as a whole in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import tapegrad as tg

from ...func import vmap

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

_DEFAULT_SPARSE_BLOCK_SIZE = 128
Mod = Callable[..., Any]


class AuxRequest(NamedTuple):
    """Names further results that `flex_attention` should return.

    >>> torch.nn.attention.flex_attention.AuxRequest(lse=True).lse
    True
    """

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """The further results of `flex_attention`.

    >>> torch.nn.attention.flex_attention.AuxOutput(lse=ones(2)).lse
    tensor([1., 1.])
    """

    lse: Any = None
    max_scores: Any = None


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """A mask that hides nothing.

    >>> torch.nn.attention.flex_attention.noop_mask(tensor(0), tensor(0), tensor(0), tensor(1))
    tensor(True)
    """
    return batch.new_ones(size=(), dtype=tg.bool, device=batch.device)


def and_masks(*mask_mods: Mod) -> Mod:
    """Visible where all of them say so.

    >>> flex = torch.nn.attention.flex_attention
    >>> causal = lambda b, h, q, k: q >= k
    >>> near = lambda b, h, q, k: q - k < 2
    >>> both = flex.and_masks(causal, near)
    >>> zero = tensor(0)
    >>> both(zero, zero, tensor(5), tensor(4)), both(zero, zero, tensor(5), tensor(2))
    (tensor(True), tensor(False))
    """
    if not all(callable(mod) for mod in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def both(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        result = b.new_ones((), dtype=tg.bool)
        for mod in mask_mods:
            result = result & mod(b, h, q_idx, kv_idx)
        return result

    return both


def or_masks(*mask_mods: Mod) -> Mod:
    """Visible where one of them says so.

    >>> flex = torch.nn.attention.flex_attention
    >>> first = lambda b, h, q, k: k == 0
    >>> same = lambda b, h, q, k: q == k
    >>> either = flex.or_masks(first, same)
    >>> zero = tensor(0)
    >>> either(zero, zero, tensor(5), zero), either(zero, zero, tensor(5), tensor(4))
    (tensor(True), tensor(False))
    """
    if not all(callable(mod) for mod in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def either(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        result = b.new_zeros((), dtype=tg.bool)
        for mod in mask_mods:
            result = result | mod(b, h, q_idx, kv_idx)
        return result

    return either


def over_positions(mod: Mod, leading: tuple[Any, ...] = ()) -> Mod:
    """A function of one position, mapped over batch, head, query and key."""
    for dims in (
        (None, None, None, 0),
        (None, None, 0, None),
        (None, 0, None, None),
        (0, None, None, None),
    ):
        mod = vmap(mod, in_dims=(*leading, *dims))
    return mod


def positions(sizes: tuple[int, ...], device: Any) -> list[Any]:
    return [tg.arange(size, device=device) for size in sizes]


def create_mask(
    mod_fn: Mod, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Any:
    """The mask as a tensor of bools: (batch, heads, queries, keys).

    >>> create_mask = torch.nn.attention.flex_attention.create_mask
    >>> create_mask(lambda b, h, q, k: q >= k, None, None, 2, 2)
    tensor([[[[ True, False],
              [ True,  True]]]])
    """
    at = positions((B or 1, H or 1, Q_LEN, KV_LEN), device)
    found = over_positions(mod_fn)(*at)
    return found.expand(B or 1, H or 1, Q_LEN, KV_LEN)


class BlockMask:
    """Which blocks of queries see which blocks of keys.

    `kv_num_blocks` and `kv_indices` are the blocks that are seen in part, `full_…` those that are
    seen as a whole; within a block `mask_mod` decides.

    >>> flex = torch.nn.attention.flex_attention
    >>> mask = flex.create_block_mask(lambda b, h, q, k: q >= k, 1, 1, 256, 256, device="cpu")
    >>> isinstance(mask, flex.BlockMask), mask.kv_num_blocks
    (True, tensor([[[1, 1]]], dtype=torch.int32))
    """

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Any,
        kv_indices: Any,
        full_kv_num_blocks: Any,
        full_kv_indices: Any,
        BLOCK_SIZE: tuple[int, int],
        mask_mod: Mod,
    ) -> None:
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        self.seq_lengths, self.BLOCK_SIZE, self.mask_mod = seq_lengths, BLOCK_SIZE, mask_mod
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Any,
        kv_indices: Any,
        full_kv_num_blocks: Any = None,
        full_kv_indices: Any = None,
        BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
        mask_mod: Mod | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
        **options: Any,
    ) -> BlockMask:
        """A mask of lists of blocks."""
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        if seq_lengths is None:
            q_blocks, kv_blocks = kv_indices.shape[-2:]
            seq_lengths = (q_blocks * size[0], kv_blocks * size[1])
        return cls(
            seq_lengths,
            kv_num_blocks,
            kv_indices,
            full_kv_num_blocks,
            full_kv_indices,
            size,
            noop_mask if mask_mod is None else mask_mod,
        )

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        return math.prod(self.shape)

    def to_dense(self) -> Any:
        """One number per block: whether it is seen."""
        dense = scattered(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is not None:
            dense = dense | scattered(self.full_kv_num_blocks, self.full_kv_indices)
        return dense.to(tg.int32)

    def sparsity(self) -> float:
        """How much is not seen, in percent."""
        seen = self.kv_num_blocks.sum().item()
        if self.full_kv_num_blocks is not None:
            seen += self.full_kv_num_blocks.sum().item()
        return 100 * (1 - seen * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel())

    def to(self, device: Any) -> BlockMask:
        """A copy on another device."""
        held = (self.kv_num_blocks, self.kv_indices, self.full_kv_num_blocks, self.full_kv_indices)
        moved = [None if t is None else t.to(device) for t in held]
        return BlockMask(self.seq_lengths, *moved, self.BLOCK_SIZE, self.mask_mod)

    def visible(self, batch: int, heads: int, queries: int, keys: int, device: Any) -> Any:
        """The mask of every position, as a tensor of bools."""
        inside = create_mask(self.mask_mod, batch, heads, queries, keys, device)
        rows, columns = self.BLOCK_SIZE

        def spread(blocks: Any) -> Any:
            wide = blocks.repeat_interleave(rows, -2).repeat_interleave(columns, -1)
            return wide[..., :queries, :keys]

        seen = spread(scattered(self.kv_num_blocks, self.kv_indices)) & inside
        if self.full_kv_num_blocks is not None:
            seen = seen | spread(scattered(self.full_kv_num_blocks, self.full_kv_indices))
        return seen

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"


def scattered(counts: Any, indices: Any) -> Any:
    """Lists of blocks as a table of bools."""
    columns = indices.shape[-1]
    listed = tg.arange(columns, device=indices.device) < counts[..., None]
    dense = tg.zeros_like(indices, dtype=tg.int32)
    return dense.scatter_add_(-1, indices.long(), listed.to(tg.int32)) > 0


def listed(dense: Any) -> tuple[Any, Any]:
    """A table of bools as lists of blocks: how many in each row, and which, those first."""
    counts = dense.sum(-1).to(tg.int32)
    order = tg.argsort(dense.to(tg.int32), dim=-1, descending=True, stable=True)
    return counts, order.to(tg.int32)


def create_block_mask(
    mask_mod: Mod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
    separate_full_blocks: bool = True,
    **options: Any,
) -> BlockMask:
    """The blocks that a mask leaves visible.

    >>> flex = torch.nn.attention.flex_attention
    >>> mask = flex.create_block_mask(lambda b, h, q, k: q >= k, 1, 1, 256, 256, device="cpu")
    >>> mask.shape, mask.sparsity()
    ((1, 1, 256, 256), 25.0)
    """
    if not callable(mask_mod):
        raise TypeError(f"Expected mask_mod to be a callable mask_mod, got {type(mask_mod)}")
    rows, columns = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    missing = (-Q_LEN % rows, -KV_LEN % columns)
    padded = tg.nn.functional.pad(mask, (0, missing[1], 0, missing[0]))
    blocks = padded.unflatten(-1, (-1, columns)).unflatten(-3, (-1, rows))
    seen = blocks.sum((-3, -1))
    full = seen == rows * columns
    partial = (seen > 0) & ~full if separate_full_blocks else seen > 0
    lists = (*listed(partial), *(listed(full) if separate_full_blocks else (None, None)))
    return BlockMask((Q_LEN, KV_LEN), *lists, (rows, columns), mask_mod)


def _create_empty_block_mask(query: Any, key: Any) -> BlockMask:
    """A mask of one block that hides nothing."""
    ones = tg.ones(1, 1, 1, dtype=tg.int32, device=query.device)
    zeros = tg.zeros(1, 1, 1, 1, dtype=tg.int32, device=query.device)
    size = (query.size(-2), key.size(-2))
    return BlockMask.from_kv_blocks(ones, zeros, BLOCK_SIZE=size, seq_lengths=size)


def flex_attention(
    query: Any,
    key: Any,
    value: Any,
    score_mod: Mod | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Attention whose scores are changed by a function of score, batch, head, query and key.

    >>> flex_attention = torch.nn.attention.flex_attention.flex_attention
    >>> x = torch.ones(1, 1, 2, 4)
    >>> flex_attention(x, x, x, score_mod=lambda score, b, h, q, k: score * 2).shape
    torch.Size([1, 1, 2, 4])
    """
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    if query.size(-3) != key.size(-3) and not enable_gqa:
        raise ValueError(
            "Expect query and key/value to have the same number of heads but got "
            f"Hq={query.size(-3)} and Hkv={key.size(-3)}. Try setting enable_gqa=True for GQA."
        )
    if enable_gqa:
        times = query.size(-3) // key.size(-3)
        key, value = key.repeat_interleave(times, -3), value.repeat_interleave(times, -3)
    scale = 1.0 / math.sqrt(query.size(-1)) if scale is None else scale
    # Low precision is computed in float32, as PyTorch does.
    working = tg.promote_types(query.dtype, tg.float32)
    scores = (query @ key.transpose(-2, -1)).to(working) * scale
    at = positions(scores.shape, query.device)
    if score_mod is not None:
        scores = over_positions(score_mod, (0,))(scores, *at).to(working)
    if block_mask is not None:
        seen = block_mask.visible(*scores.shape, query.device)
        scores = tg.where(seen, scores, -math.inf)
    lse = tg.logsumexp(scores, -1)
    # A row that sees nothing is zero, not NaN.
    empty = lse == -math.inf
    weights = tg.exp(scores - tg.where(empty, 0, lse)[..., None])
    out = (weights.to(query.dtype) @ value).to(query.dtype)
    if return_aux is not None:
        most = scores.amax(-1) if return_aux.max_scores else None
        return out, AuxOutput(lse if return_aux.lse else None, most)
    return (out, lse) if return_lse else out
