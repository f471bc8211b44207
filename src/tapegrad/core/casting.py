"""Autocast: functions get their tensors in the precision that their blocks ask for.

A block says `autocast = Autocast(cpu=…, gpu=…)` where PyTorch has a rule. A public function with
one is called with cast arguments and autocast off inside; ops that other functions are made of are
cast in dispatch.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from .. import dtypes
from .autocast_state import STATE as SET
from .base import F32, ON_DEVICE, ON_META, STATE, TensorBase, cell_of
from .dispatch import REALS, apply, recorded
from .late_bound import AUTOCAST, GPU
from .modes import MODES, set_mode
from .mypyc import mypyc_attr
from .op import AS_CALLED, LOWER, SINGLE, UNSAFE, WIDEST, Autocast, Op
from .operators import OPS

REFUSED = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
    "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
    "In this case, combine the two layers using "
    "torch.nn.functional.binary_cross_entropy_with_logits\n"
    "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
    "safe to autocast."
)


class Cache:
    """The parameters that were cast since the outermost autocast block began.

    A training loop casts the same ones in every block. On a GPU they are all cast in one launch
    when the first of them is asked for; each is recorded where it is used.
    """

    def __init__(self) -> None:
        self.casts: dict[tuple[int, Any], tuple[Any, Any]] = {}
        # Cast, but not asked for yet: what it was cast from, which version, and the result.
        self.ready: dict[tuple[int, Any], tuple[Any, int, Any]] = {}
        # The parameters that each autocast block cast, by the first of them.
        self.blocks: dict[tuple[int, Any], list[Any]] = {}

    def cast(self, t: Any, dtype: Any) -> Any:
        """`t` in `dtype`, the same tensor each time: a weight used twice gets one cast."""
        key = (id(t), dtype)
        found = self.casts.get(key)
        # Keeping the parameter itself keeps its id from being used again.
        if found is None:
            if not self.casts:
                self.prepare(key, t)
            array = None
            ready = self.ready.pop(key, None)
            if ready is not None and ready[0] is t._array and ready[1] == cell_of(t).n:
                array = ready[2]  # and nothing was written since
            if array is None:
                made = cast_tensor(t, dtype)
            else:
                made = recorded(OPS.cast, t, (dtype.np,), array)
            found = self.casts[key] = (t, made)
        return found[1]

    def prepare(self, key: tuple[int, Any], first: Any) -> None:
        """Cast at once all parameters that an earlier autocast block cast after `first`."""
        known = self.blocks.get(key)
        if known is None or STATE.modes_on != STATE.only_casting:
            return
        params = [t for t in [reference() for reference in known] if t is not None]
        if len(params) < 2 or params[0] is not first:
            return
        if not all([t._special == ON_DEVICE for t in params]):
            return
        arrays = GPU.memory.cast_together([t._array for t in params], key[1].np)
        if arrays is not None:
            for t, array in zip(params, arrays, strict=True):
                self.ready[(id(t), key[1])] = (t._array, cell_of(t).n, array)

    def clear(self) -> None:
        """At the end of the outermost autocast block: drop the casts, remember what was cast."""
        for first, (t, _) in self.casts.items():
            if t._special != ON_DEVICE:
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


def cast_tensor(t: Any, dtype: Any) -> Any:
    return apply(OPS.cast, (t,), (dtype.np,))


def eligible(t: Any) -> bool:
    """Floats that are not double, as PyTorch casts."""
    if not isinstance(t, TensorBase) or t._special == ON_META:
        return False
    dtype = t._array.dtype
    return dtype == F32 or (dtype.itemsize == 2 and dtype.kind in REALS)


def converted(t: Any, dtype: Any) -> Any:
    """Cast an eligible tensor, or those in a list, to `dtype`; other values unchanged."""
    if isinstance(t, (list, tuple)):
        return type(t)([converted(v, dtype) for v in t]) if type(t) in (list, tuple) else t
    if not eligible(t):
        return t
    found = t._array.dtype
    if found is dtype.np or found == dtype.np:
        return t
    return CACHE.cast(t, dtype) if found == F32 and is_parameter(t) else cast_tensor(t, dtype)


def all_converted(values: tuple[Any, ...], dtype: Any) -> tuple[Any, ...]:
    """Cast arguments, the last one first, as in PyTorch: the order of nodes follows from it."""
    made = list(values)
    wanted = dtype.np
    for i in range(len(values) - 1, -1, -1):
        t = values[i]
        if isinstance(t, TensorBase):
            if t._array.dtype is not wanted:
                made[i] = converted(t, dtype)
        elif isinstance(t, (list, tuple)):
            made[i] = converted(t, dtype)
    return tuple(made)


def is_parameter(t: TensorBase) -> bool:
    """Whether the cast of a float32 tensor is cached: it is a leaf that requires grad."""
    if not CACHING[0] or t._view_of is not None or not MODES.records:
        return False
    wanted = t.requires_grad if t._special == 1 else t._wants_grad  # type: ignore[attr-defined]
    return bool(wanted) and (t._node is None or t._node._is_leaf)


def widest(values: Any, dtype: Any) -> Any:
    """The dtype that a function of several tensors promotes to: single, or `dtype` itself."""
    for t in values:
        if dtype is dtypes.float32:
            break
        if isinstance(t, (list, tuple)):
            dtype = widest(t, dtype)
        elif eligible(t):
            found = dtypes.of(t._array.dtype)
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
            if v._special == 1:  # its memory knows
                return v.device.type == "cuda"  # type: ignore[attr-defined, no-any-return]
            return v._special == ON_DEVICE
        if isinstance(v, (list, tuple)) and v and isinstance(v[0], TensorBase):
            return on_gpu(v)
    return False


def target(rule: Autocast, values: Any) -> Any:
    """The dtype in which a function runs; None without a rule for it."""
    gpu = on_gpu(values)
    low = MODES.autocast[1 if gpu else 0]
    if low is None:
        return None
    kind = rule.gpu if gpu else rule.cpu
    if kind == UNSAFE:
        raise RuntimeError(REFUSED)
    if kind == WIDEST:
        return widest(values, low)
    return low if kind == LOWER else dtypes.float32 if kind == SINGLE else None


def follow() -> None:
    """Copy the autocast settings of this thread to the mode switches that dispatch reads."""
    wanted = [SET.dtype[k] if SET.enabled[k] else None for k in ("cpu", "cuda")]
    set_mode("autocast", None if wanted == [None, None] else tuple(wanted))


@mypyc_attr(allow_interpreted_subclasses=True)
class AutocastBlock:
    """Sets autocast in a `with` block from its attributes; compiled, as core/modes.py explains."""

    def __init__(self) -> None:
        self.device: Any = "cpu"
        self.fast_dtype: Any = None
        self._enabled: Any = True
        self._cache_enabled: Any = True
        self.prev: Any = False
        self.prev_fastdtype: Any = None
        self.prev_cache_enabled: Any = True

    def __enter__(self) -> Any:
        kind = self.device
        self.prev = SET.enabled.get(kind, False)
        self.prev_fastdtype = SET.dtype.get(kind, dtypes.float16)
        self.prev_cache_enabled = CACHING[0]
        SET.dtype[kind] = self.fast_dtype
        SET.enabled[kind] = self._enabled
        CACHING[0] = bool(self._cache_enabled)
        SET.nesting += 1
        follow()
        return self

    def __exit__(self, *error: object) -> Any:
        SET.dtype[self.device] = self.prev_fastdtype
        SET.enabled[self.device] = self.prev
        CACHING[0] = bool(self.prev_cache_enabled)
        SET.nesting -= 1
        follow()
        if SET.nesting == 0:
            CACHE.clear()
        return False


class off:
    """Switches autocast off in a `with` block; cheap, as it changes no counter of the process."""

    __slots__ = ("before",)

    def __enter__(self) -> None:
        self.before = MODES.autocast
        MODES.autocast = None

    def __exit__(self, *error: object) -> None:
        if MODES.share.casting:
            MODES.autocast = self.before
        else:  # another mode was set inside, which updated the counters
            set_mode("autocast", self.before)


def cast_call(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`call(*args, **kwargs)` with the tensors cast by the function's autocast rule."""
    if MODES.autocast is None:
        return call(*args, **kwargs)
    rule: Autocast = call.autocast  # type: ignore[attr-defined]  # ops.block.publish put it there
    if rule.unless and kwargs.get(rule.unless):
        return call(*args, **kwargs)
    dtype = target(rule, (*args, *kwargs.values()))
    if dtype is None and rule.cpu == AS_CALLED:
        return call(*args, **kwargs)
    with off():
        if dtype is None:  # on for the other kind of device
            return call(*args, **kwargs)
        if kwargs:
            values = all_converted(tuple(kwargs.values()), dtype)
            kwargs = dict(zip(kwargs, values, strict=True))
        return call(*all_converted(args, dtype), **kwargs)


def cast_at_once(t: TensorBase, dtype: Any, simple: bool) -> Any:
    """`converted` for a tensor of a GPU; `simple`: where nothing but autocast is on."""
    array = t._array
    found = array.dtype
    wanted = dtype.np
    if found is wanted:
        return t
    kernel = OPS.cast.device.kernel
    if not simple or found is not F32 or kernel is None or t._view_of is not None:
        return converted(t, dtype)
    edge = t._node
    if t._wants_grad and (edge is None or edge._is_leaf) and CACHING[0]:  # as `is_parameter`
        return CACHE.cast(t, dtype)
    try:
        return recorded(OPS.cast, t, (wanted,), kernel(array, wanted))
    except (MemoryError, ValueError):
        return converted(t, dtype)  # which says what is wrong


def cast_operands(op: Op, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    """Cast the operands of an op that a public function calls, if the op has a rule."""
    rule = op.autocast
    if rule is None or MODES.autocast is None:
        return tensors
    dtype = target(rule, tensors)
    if dtype is None:
        return tensors
    with off():
        return all_converted(tensors, dtype)


AUTOCAST.call = cast_call
AUTOCAST.operands = cast_operands
