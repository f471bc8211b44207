"""Selective checkpointing: a policy decides, op by op, what is kept instead of computed again.

Around forward, `_Keeping` asks the policy about every op and keeps the results that it wants kept.
Around recomputation, `_Reusing` hands these out in the same order: such an op does not run again,
its node is recorded around the kept result.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import tapegrad as tg

from .._library.calls import present
from .._ops import OpOverload, OpOverloadPacket, overload_of
from ..autograd.dispatched import wanting
from ..core.dispatch import apply
from ..core.op import Op
from ..core.python_dispatch import OpMode
from ..core.record import finish
from ..errors import evidence

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
    """Answers of a policy. PREFER_ leaves the last word to a compiler, which there is none of.

    >>> utils.checkpoint.CheckpointPolicy.MUST_SAVE
    <CheckpointPolicy.MUST_SAVE: 0>
    """

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
    """Facts for a policy besides the op and its arguments.

    >>> def policy(context, op, *args, **kwargs):
    ...     assert isinstance(context, utils.checkpoint.SelectiveCheckpointContext)
    ...     return utils.checkpoint.CheckpointPolicy.MUST_SAVE
    >>> context_fn = lambda: utils.checkpoint.create_selective_checkpoint_contexts(policy)
    >>> x = tensor([1.0], requires_grad=True)
    >>> y = utils.checkpoint.checkpoint(torch.exp, x, use_reentrant=False, context_fn=context_fn)
    >>> y.backward()
    >>> x.grad
    tensor([2.7183])
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


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
        self.arrays = tuple([t._array for t in outs])
        self.versions = [(t._version_cell(), t._version_cell().n) for t in outs]

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


class _Keeping(OpMode):
    """Around forward: asks the policy, keeps what it wants kept."""

    def __init__(self, policy: Callable[..., Any], storage: Storage) -> None:
        self.policy = policy
        self.storage = storage
        self.owned: set[int] = set()  # ids of the arrays whose memory is kept

    def run(
        self, op: Op, tensors: tuple[Any, ...], attrs: tuple[Any, ...], watch: tuple[Any, ...]
    ) -> Any:
        result = apply(op, tensors, attrs, watch)
        if op.single and not op.view and id(evidence.memory(result._array)) in self.owned:
            # `unsafe_view` allows writes that no version cell shows; what is kept must not change.
            result._array = result._array.copy()
        name, args, kwargs = present(op, tensors, attrs, watch)
        if name in SAC_IGNORED_OPS:
            return result
        context = SelectiveCheckpointContext(is_recompute=False, op_output=detached(result))
        answer = self.policy(context, name, *args, **kwargs)
        # A view is made again for nothing, and then looks at the right memory.
        keeps = (answer is True or answer in SAVING) and not op.view
        entry = _Kept(result) if keeps else RECOMPUTE
        if isinstance(entry, _Kept):
            self.owned.update([id(evidence.memory(array)) for array in entry.arrays])
        self.storage.setdefault(name, []).append(entry)
        return result


class _Reusing(OpMode):
    """Around recomputation: ops whose results were kept do not run."""

    def __init__(self, storage: Storage, allow_mutation: bool) -> None:
        self.storage = storage
        self.allow_mutation = allow_mutation
        self.counts: dict[OpOverload, int] = {}

    def __enter__(self) -> Any:
        self.counts = {}
        return super().__enter__()

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
) -> tuple[OpMode, OpMode]:
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
