"""Autocast: which functions get their tensors in which precision, on the CPU and on GPUs.

The names are those for which PyTorch has a rule. A public function of the table is called with cast
arguments and autocast off inside; ops that other functions are made of are cast in dispatch.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from .. import dtypes
from ..core.base import F32, ON_DEVICE, STATE, TensorBase, cell_of
from ..core.dispatch import REALS, apply, recorded
from ..core.modes import MODES
from ..core.op import REGISTRY, Op
from ..core.upward import AUTOCAST, GPU

LOWER, SINGLE, WIDEST = 1, 2, 3


class Rules:
    """The functions that run in low precision, in single, and in the widest of their tensors."""

    def __init__(self, lower: str, single: str, widest: str) -> None:
        self.kinds: dict[str, int] = {}
        for names, kind in ((lower, LOWER), (single, SINGLE), (widest, WIDEST)):
            self.kinds.update(dict.fromkeys(names.split(), kind))


CPU_RULES = Rules(
    """
    addbmm addmm baddbmm bmm conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d
    conv_transpose3d linalg_vecdot linear matmul mm prelu scaled_dot_product_attention
    """,
    """
    adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d binary_cross_entropy
    binary_cross_entropy_with_logits cdist cholesky cholesky_inverse cholesky_solve
    cosine_embedding_loss cross_entropy ctc_loss fft_fft fft_fft2 fft_fftn fft_hfft fft_ifft
    fft_ifft2 fft_ifftn fft_ihfft fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftn
    fractional_max_pool2d fractional_max_pool3d geqrf grid_sample grid_sampler grid_sampler_2d
    grid_sampler_3d hinge_embedding_loss huber_loss inverse kl_div l1_loss linalg_cholesky
    linalg_cholesky_ex linalg_cond linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh
    linalg_householder_product linalg_inv linalg_inv_ex linalg_lstsq linalg_matrix_rank linalg_qr
    linalg_solve linalg_svd linalg_svdvals linalg_tensorinv linalg_tensorsolve lu_solve
    margin_ranking_loss max_pool3d max_unpool1d max_unpool2d max_unpool3d mse_loss
    multi_margin_loss multilabel_margin_loss nanquantile nll_loss orgqr ormqr pinverse
    poisson_nll_loss polar prod qr quantile reflection_pad1d reflection_pad2d replication_pad1d
    replication_pad2d replication_pad3d smooth_l1_loss soft_margin_loss stft svd trace
    triangular_solve triplet_margin_loss view_as_complex
    """,
    "cat concat concatenate index_copy stack",
)
GPU_RULES = Rules(
    """
    addbmm addmm addmv addr baddbmm bmm chain_matmul conv1d conv2d conv3d conv_tbc conv_transpose1d
    conv_transpose2d conv_transpose3d einsum gru_cell linalg_multi_dot linalg_vecdot linear
    lstm_cell matmul mm multi_dot mv prelu rnn_relu_cell rnn_tanh_cell scaled_dot_product_attention
    """,
    """
    acos arccos arcsin asin binary_cross_entropy_with_logits cdist cosh cosine_embedding_loss
    cosine_similarity cross_entropy cumprod cumsum dist erfinv exp expm1 group_norm
    hinge_embedding_loss huber_loss interpolate kl_div l1_loss layer_norm linalg_matrix_norm
    linalg_norm linalg_vector_norm log log10 log1p log2 log_softmax logsumexp margin_ranking_loss
    mse_loss multi_margin_loss multilabel_margin_loss native_layer_norm nll_loss norm nuclear_norm
    pdist poisson_nll_loss pow prod reciprocal renorm rms_norm rsqrt sinh smooth_l1_loss
    soft_margin_loss softmax softplus sum tan triplet_margin_loss upsample upsample_bilinear
    upsample_nearest
    """,
    """
    addcdiv addcmul arctan2 atan2 bilinear cross dot grid_sample grid_sampler index_put scatter_add
    tensordot vdot
    """,
)
LISTED = frozenset([*CPU_RULES.kinds, *GPU_RULES.kinds, "binary_cross_entropy"])
UNSAFE = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
    "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
    "In this case, combine the two layers using "
    "torch.nn.functional.binary_cross_entropy_with_logits\n"
    "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
    "safe to autocast."
)


def plain_name(name: str) -> str:
    """`nn.functional.linear` -> `linear`, `linalg.qr` -> `linalg_qr`: as the sets above say it."""
    return name.removeprefix("nn.functional.").replace(".", "_")


def autocasts(api: Any) -> bool:
    """Whether autocast has a rule for a public function."""
    return plain_name(api.name) in LISTED


class Cache:
    """The parameters that were cast since the outermost autocast block began.

    A training loop casts the same ones in every block. On a GPU they are all cast in one launch
    when the first of them is asked for; each is recorded where it is used.
    """

    def __init__(self) -> None:
        self.casts: dict[tuple[int, Any], tuple[Any, Any]] = {}
        # Cast, but not asked for yet: what it was cast from, which version, and the result.
        self.ready: dict[tuple[int, Any], tuple[Any, int, Any]] = {}
        # What blocks cast, by the parameter that they began with.
        self.blocks: dict[tuple[int, Any], list[Any]] = {}

    def cast(self, t: Any, dtype: Any) -> Any:
        """`t` in `dtype`, the same tensor each time: a weight used twice gets one cast."""
        key = (id(t), dtype)
        found = self.casts.get(key)
        # Keeping the parameter itself keeps its id from being used again.
        if found is None:
            if not self.casts:
                self.prepare(key, t)
            array = self.prepared(key, t)
            if array is None:
                made = cast(t, dtype)
            else:
                made = recorded(REGISTRY["cast"], t, (dtype.np,), array)
            found = self.casts[key] = (t, made)
        return found[1]

    def prepare(self, key: tuple[int, Any], first: Any) -> None:
        """Cast all that a block cast that began with the same parameter."""
        known = self.blocks.get(key)
        if known is None or STATE.modes_on != STATE.only_casting:
            return
        params = [t for t in [reference() for reference in known] if t is not None]
        if len(params) < 2 or params[0] is not first:
            return
        if not all([t.special == ON_DEVICE for t in params]):
            return
        arrays = GPU.memory.cast_together([t.array for t in params], key[1].np)
        if arrays is not None:
            for t, array in zip(params, arrays, strict=True):
                self.ready[(id(t), key[1])] = (t.array, cell_of(t).n, array)

    def prepared(self, key: tuple[int, Any], t: Any) -> Any:
        """What was cast already of a parameter; None if it has changed since."""
        found = self.ready.pop(key, None)
        if found is None or found[0] is not t.array or found[1] != cell_of(t).n:
            return None
        return found[2]

    def clear(self) -> None:
        """The outermost block ends."""
        for first, (t, _) in self.casts.items():
            if t.special != ON_DEVICE:
                break
            known = self.blocks.get(first)
            if known is None or len(known) != len(self.casts) or known[0]() is not t:
                if len(self.blocks) >= BLOCKS:
                    self.blocks.clear()
                own = [t for (_, dtype), (t, _) in self.casts.items() if dtype is first[1]]
                self.blocks[first] = [weakref.ref(t) for t in own]
            break
        self.casts.clear()
        self.ready.clear()


BLOCKS = 16  # kinds of blocks that are remembered
CACHE = Cache()
CACHING = [True]  # set_autocast_cache_enabled: one switch for the process


def cast(t: Any, dtype: Any) -> Any:
    return apply(REGISTRY["cast"], (t,), (dtype.np,))


def eligible(t: Any) -> bool:
    """Floats that are not double, as PyTorch casts."""
    if not isinstance(t, TensorBase):
        return False
    dtype = t.array.dtype
    return dtype is F32 or (dtype.itemsize == 2 and dtype.kind in REALS)


def converted(t: Any, dtype: Any) -> Any:
    """A tensor in `dtype` where it is eligible, lists item by item, anything else as it is."""
    if isinstance(t, (list, tuple)):
        return type(t)([converted(v, dtype) for v in t]) if type(t) in (list, tuple) else t
    if not eligible(t):
        return t
    found = t.array.dtype
    if found is dtype.np or found == dtype.np:
        return t
    return CACHE.cast(t, dtype) if found is F32 and is_parameter(t) else cast(t, dtype)


def all_converted(values: tuple[Any, ...], dtype: Any) -> tuple[Any, ...]:
    """The last one first, as PyTorch does: a backward pass comes to what was cast last first."""
    made = list(values)
    for i in range(len(values) - 1, -1, -1):
        made[i] = converted(values[i], dtype)
    return tuple(made)


def is_parameter(t: TensorBase) -> bool:
    """Whether the cast of a float32 tensor is kept for when it is used again."""
    if not CACHING[0] or t.view_of is not None or not MODES.records:
        return False
    wanted = t.requires_grad if t.special == 1 else t.wants_grad  # type: ignore[attr-defined]
    return bool(wanted) and (t.node is None or t.node.is_leaf)


def widest(values: Any, dtype: Any) -> Any:
    """The dtype that a function of several tensors promotes to: single, or `dtype` itself."""
    for t in values:
        if dtype is dtypes.float32:
            break
        if isinstance(t, (list, tuple)):
            dtype = widest(t, dtype)
        elif eligible(t):
            found = dtypes.of(t.array.dtype)
            if found not in (dtype, dtypes.float32):
                raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
            dtype = found
    return dtype


def on_gpu(values: Any) -> bool:
    """Whether the tensors among the arguments are on a GPU: the first one says."""
    if STATE.device_type is None:
        return False
    for v in values:
        if isinstance(v, TensorBase):
            if v.special == 1:  # its memory knows
                return v.device.type == "cuda"  # type: ignore[attr-defined, no-any-return]
            return v.special == ON_DEVICE
        if isinstance(v, (list, tuple)) and v and isinstance(v[0], TensorBase):
            return on_gpu(v)
    return False


def target(name: str, values: Any) -> Any:
    """The dtype in which a function runs; None without a rule for it."""
    gpu = on_gpu(values)
    rules = GPU_RULES if gpu else CPU_RULES
    low = MODES.autocast[1 if gpu else 0]
    if low is None:
        return None
    if gpu and name == "binary_cross_entropy":
        raise RuntimeError(UNSAFE)
    kind = rules.kinds.get(name)
    if kind == WIDEST:
        return widest(values, low)
    return low if kind == LOWER else dtypes.float32 if kind == SINGLE else None


class off:
    """Autocast off for a block, which is short: the process's counters are left alone."""

    __slots__ = ("before",)

    def __enter__(self) -> None:
        self.before = MODES.autocast
        MODES.autocast = None

    def __exit__(self, *error: object) -> None:
        if MODES.share.casting:
            MODES.autocast = self.before
        else:  # another mode was set meanwhile, and counted anew
            MODES.set("autocast", self.before)


def cast_call(
    name: str, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """`call(*args, **kwargs)` with the tensors cast as autocast wants it for `name`."""
    if MODES.autocast is None:
        return call(*args, **kwargs)
    name = plain_name(name)
    if name == "max_pool3d" and kwargs.get("return_indices"):
        return call(*args, **kwargs)  # another function in PyTorch, without a rule
    dtype = target(name, (*args, *kwargs.values()))
    if dtype is None and name not in CPU_RULES.kinds:
        return call(*args, **kwargs)
    with off():
        if dtype is None:  # on for the other kind of device
            return call(*args, **kwargs)
        if kwargs:
            values = all_converted(tuple(kwargs.values()), dtype)
            kwargs = dict(zip(kwargs, values, strict=True))
        return call(*all_converted(args, dtype), **kwargs)


def cast_operands(op: Op, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same for an op that some function is made of."""
    if MODES.autocast is None or op.name not in LISTED:
        return tensors
    dtype = target(op.name, tensors)
    if dtype is None:
        return tensors
    with off():
        return all_converted(tensors, dtype)


AUTOCAST.call = cast_call
AUTOCAST.operands = cast_operands
