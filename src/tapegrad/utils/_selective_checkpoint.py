"""Selective checkpointing: a policy decides, op by op, what is kept instead of computed again.

Around forward, `_Keeping` asks the policy about every op and keeps the results that it wants kept.
Around recomputation, `_Reusing` hands these out in the same order: such an op does not run again,
its node is recorded around the kept result.
"""

from __future__ import annotations

import enum
import inspect
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import tapegrad as tg

from .. import dtypes
from .._ops import OpOverload, OpOverloadPacket, overload_of
from ..core.base import INTERPRETED, ON_DEVICE, TensorBase, blank
from ..core.dispatch import apply
from ..core.modes import count
from ..core.op import Op
from ..core.record import finish
from ..core.upward import AUTOCAST, INTERPRETERS, VIEWS
from ..errors import evidence
from ..ops.block.definition import APIS, Api

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "create_selective_checkpoint_contexts",
]

aten = tg.ops.aten

# Questions about a tensor and changes of its history: no policy is asked about them.
SAC_IGNORED_OPS = {
    getattr(aten, name).default
    for name in ("detach", "dim", "is_contiguous", "numel", "size", "storage_offset", "stride")
}

MISMATCH = (
    "This can happen if the operations in the checkpointed region are nondeterministic or depend "
    "on global state that changed between forward and backward."
)


class CheckpointPolicy(enum.Enum):
    """What a policy answers. PREFER_ leaves the last word to a compiler, which there is none of."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


# To offload is to save: the CPU is where everything is.
SAVING = frozenset(
    {
        CheckpointPolicy.MUST_SAVE,
        CheckpointPolicy.PREFER_SAVE,
        CheckpointPolicy.MUST_CPU_OFFLOAD,
        CheckpointPolicy.PREFER_CPU_OFFLOAD,
    }
)


class SelectiveCheckpointContext:
    """What a policy is told besides the op and its arguments."""

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


# ---------------------------------------------------------------------- seeing every op


class _Active(threading.local):
    """The modes of this thread, innermost last."""

    modes: tuple[_Mode, ...] = ()


ACTIVE = _Active()


class _Mode:
    """A block in which ops go through `run`; inside `run` the next outer mode is the active one."""

    def __enter__(self) -> None:
        Diversion.install()
        ACTIVE.modes = (*ACTIVE.modes, self)
        count(1, 1)

    def __exit__(self, *error: object) -> None:
        count(-1, -1)
        ACTIVE.modes = ACTIVE.modes[:-1]

    def run(
        self, op: Op, tensors: tuple[Any, ...], attrs: tuple[Any, ...], watch: tuple[Any, ...]
    ) -> Any:
        raise NotImplementedError


class _Carrier(tg.Tensor):
    """Stands for the operands of a call, so that dispatch turns to `Diversion.divert`."""

    call: tuple[Any, ...]


class Diversion:
    """How a mode gets to see ops, with no cost to dispatch while there is none.

    Dispatch already asks two questions of what is registered with it: how autocast casts the
    operands, and what a special tensor among them wants to happen. While a mode is active the first
    answer is a special tensor of ours, and so the second question comes here.
    """

    lock = threading.Lock()
    installed = False
    cast_operands: Any = None
    overridden: Any = None

    @staticmethod
    def install() -> None:
        with Diversion.lock:
            if not Diversion.installed:
                Diversion.installed = True
                Diversion.cast_operands = AUTOCAST.operands
                Diversion.overridden = INTERPRETERS.run
                AUTOCAST.operands = Diversion.take_operands
                INTERPRETERS.run = Diversion.divert

    @staticmethod
    def take_operands(op: Op, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
        tensors = Diversion.cast_operands(op, tensors)
        # Subclasses, duals and batches come back as the plain tensors that they are made of.
        if not ACTIVE.modes or any([is_made_of_others(t) for t in tensors]):
            return tensors
        carrier: Any = blank(_Carrier)
        carrier.special = INTERPRETED
        carrier.call = tensors
        return (carrier,)

    @staticmethod
    def divert(op: Op, tensors: Any, attrs: tuple[Any, ...], watch: tuple[Any, ...]) -> Any:
        if not tensors or type(tensors[0]) is not _Carrier:
            return Diversion.overridden(op, tensors, attrs, watch)
        modes = ACTIVE.modes
        ACTIVE.modes = modes[:-1]
        try:
            return modes[-1].run(op, tensors[0].call, attrs, watch)
        finally:
            ACTIVE.modes = modes


def is_made_of_others(t: Any) -> bool:
    return isinstance(t, TensorBase) and t.special not in (0, ON_DEVICE)


# ---------------------------------------------------------------------- what policies see


def arguments(
    name: str, op: Op, tensors: tuple[Any, ...], attrs: tuple[Any, ...]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of an op in the order of the public function, without trailing defaults."""
    operands = [list(tensors)] if op.variadic else tensors
    values = dict(zip(op.tensors, operands, strict=False))
    values.update(zip(op.attrs, [shown(a) for a in attrs], strict=False))
    api = APIS.get(name) or APIS.get(f"nn.functional.{name}")
    if api is not None and set(values) <= set(api.parameters):
        return ordered(api, values)
    args = list(values.values())
    while args[-1] is None and len(args) > len(op.tensors):
        args.pop()
    return args, {}


def ordered(api: Api, values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments of a function, those left out that it would take anyway."""
    positional: dict[str, Any] = {}
    named: dict[str, Any] = {}
    for p in inspect.signature(api.call).parameters.values():
        if p.name != "run":
            kind = named if p.kind is inspect.Parameter.KEYWORD_ONLY else positional
            kind[p.name] = p.default
    args = [values.get(name, default) for name, default in positional.items()]
    for default in reversed(positional.values()):
        if not same(args[-1], default):
            break
        args.pop()
    kwargs = {n: values[n] for n, d in named.items() if n in values and not same(values[n], d)}
    return args, kwargs


def same(a: Any, b: Any) -> bool:
    """Equal, for values that are no tensors."""
    return a is b or (not isinstance(a, TensorBase) and type(a) is type(b) and bool(a == b))


def shown(value: Any) -> Any:
    """An attribute as PyTorch has it: shapes and dimensions are lists."""
    if isinstance(value, np.dtype):
        return dtypes.of(value)
    return list(value) if type(value) is tuple else value


def detached(result: Any) -> Any:
    return tuple([t.detach() for t in result]) if isinstance(result, tuple) else result.detach()


# ---------------------------------------------------------------------- the two modes

# What stands in the storage for a call whose result is not kept, or no longer.
RECOMPUTE = object()
CONSUMED = object()

Storage = dict[OpOverload, list[Any]]


class _Kept:
    """The results of one op: arrays, with the version that they had."""

    def __init__(self, result: Any) -> None:
        outs = result if isinstance(result, tuple) else (result,)
        self.arrays = tuple([t.array for t in outs])
        self.versions = [(t.version_cell(), t.version_cell().n) for t in outs]

    def check(self) -> None:
        for cell, n in self.versions:
            if cell.n != n:
                raise mutated(cell, n)


def mutated(cell: Any, n: int) -> RuntimeError:
    sentence = "Tensor cached during selective activation checkpoint has been mutated"
    writes = [evidence.Write(entry) for entry in cell.writers if entry[0] > n]
    for write in writes[:1]:
        if write.where is not None:
            sentence += f"\n  written {write.spell()} at {evidence.spell(write.where)}"
    return RuntimeError(sentence)


class _Keeping(_Mode):
    """Around forward: asks the policy, keeps what it wants kept."""

    def __init__(self, policy: Callable[..., Any], storage: Storage) -> None:
        self.policy = policy
        self.storage = storage
        self.owned: set[int] = set()  # ids of the arrays whose memory is kept

    def run(
        self, op: Op, tensors: tuple[Any, ...], attrs: tuple[Any, ...], watch: tuple[Any, ...]
    ) -> Any:
        result = apply(op, tensors, attrs, watch)
        if op.single and not op.view and id(evidence.memory(result.array)) in self.owned:
            # `unsafe_view` allows writes that no version cell shows; what is kept must not change.
            result.array = result.array.copy()
        name = overload_of(op, tensors, attrs)
        if name in SAC_IGNORED_OPS:
            return result
        context = SelectiveCheckpointContext(is_recompute=False, op_output=detached(result))
        args, kwargs = arguments(name._overloadpacket.__name__, op, tensors, attrs)
        answer = self.policy(context, name, *args, **kwargs)
        # A view is made again for nothing, and then looks at the right memory.
        keeps = (answer is True or answer in SAVING) and not op.view
        entry = _Kept(result) if keeps else RECOMPUTE
        if isinstance(entry, _Kept):
            self.owned.update([id(evidence.memory(array)) for array in entry.arrays])
        self.storage.setdefault(name, []).append(entry)
        return result


class _Reusing(_Mode):
    """Around recomputation: ops whose results were kept do not run."""

    def __init__(self, storage: Storage, allow_mutation: bool) -> None:
        self.storage = storage
        self.allow_mutation = allow_mutation
        self.counts: dict[OpOverload, int] = {}

    def __enter__(self) -> None:
        self.counts = {}
        super().__enter__()

    def run(
        self, op: Op, tensors: tuple[Any, ...], attrs: tuple[Any, ...], watch: tuple[Any, ...]
    ) -> Any:
        name = overload_of(op, tensors, attrs)
        if name in SAC_IGNORED_OPS:
            return apply(op, tensors, attrs, watch)
        index = self.counts.get(name, 0)
        self.counts[name] = index + 1
        calls = self.storage.get(name, [])
        entry = calls[index] if index < len(calls) else None
        mask = wanting(tensors)
        # PyTorch saves inputs before it asks for the result, and results after. Where the input is
        # the last tensor that is needed, recomputation stops and nothing has been asked for.
        asked_first = op.plan(mask).any_out
        if asked_first:
            self.take(name, index, entry)
        if isinstance(entry, _Kept):
            result = recorded(op, tensors, attrs, watch, mask, entry.arrays)
        else:
            result = apply(op, tensors, attrs, watch)
        if not asked_first:
            self.take(name, index, entry)
        return result

    def take(self, name: OpOverload, index: int, entry: Any) -> None:
        """Use up what the storage has for a call; raises if that cannot be."""
        if entry is None:
            which = f" invocation index {index}" if name in self.storage else ""
            sentence = f"{name}{which} encountered during backward but not found in storage."
            where = evidence.here()
            at = "" if where is None else f"\n  called at {evidence.spell(where)}"
            raise RuntimeError(f"{sentence} {MISMATCH}{at}")
        if entry is CONSUMED:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any "
                "region computed under selective activation checkpoint."
            )
        if isinstance(entry, _Kept):
            if not self.allow_mutation:
                entry.check()
            self.storage[name][index] = CONSUMED


def wanting(tensors: tuple[Any, ...]) -> int:
    """The mask of the operands that want a gradient, as dispatch has it."""
    mask = 0
    for i, t in enumerate(tensors):
        if isinstance(t, TensorBase):
            if t.view_of is not None:
                VIEWS.refresh(t)
            if t.wants_grad:
                mask |= 1 << i
    return mask


def recorded(
    op: Op,
    tensors: tuple[Any, ...],
    attrs: tuple[Any, ...],
    watch: tuple[Any, ...],
    mask: int,
    arrays: tuple[Any, ...],
) -> Any:
    """The result of a call whose arrays are known already, with its node."""
    results = finish(op, tensors, attrs, watch, mask, arrays)
    if op.single:
        return results[0]
    return results if op.result is None else op.result(results)


# ---------------------------------------------------------------------- what users call


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False
) -> tuple[_Mode, _Mode]:
    """The two contexts of a `context_fn`: results that the policy wants kept are not recomputed.

    The policy is a function of (ctx, op, *args, **kwargs), or a list of ops whose results are kept.

    >>> import functools
    >>> import tapegrad as torch
    >>> from tapegrad.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> keep = [torch.ops.aten.mm.default]
    >>> x = torch.eye(2, requires_grad=True)
    >>> context_fn = functools.partial(create_selective_checkpoint_contexts, keep)
    >>> y = checkpoint(lambda t: (t @ t).sin(), x, use_reentrant=False, context_fn=context_fn)
    """
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not isinstance(op, OpOverload):
                raise ValueError(not_an_overload(op))
        kept = frozenset(policy_fn_or_list)

        def policy(
            ctx: SelectiveCheckpointContext, op: OpOverload, *args: Any, **kwargs: Any
        ) -> Any:
            return op in kept

    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    storage: Storage = {}
    return _Keeping(policy, storage), _Reusing(storage, allow_cache_entry_mutation)


def not_an_overload(op: Any) -> str:
    text = f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}. "
    if isinstance(op, OpOverloadPacket):
        text += (
            "Please update the OpOverloadPacket to a specific OpOverload."
            "For example, if you have `torch.ops.aten.mm`, change it to "
            "`torch.ops.aten.mm.default`."
        )
    return text
