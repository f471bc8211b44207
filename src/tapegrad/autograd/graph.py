"""Looking at the graph and at what it keeps: edges, hooks on saved tensors, versions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from ..core.base import Node, TensorBase, Version, shown
from ..core.locks import new_lock
from ..core.modes import MODES, SavedHooksBlock, grad_set_to
from ..core.per_thread import PerThread
from ..core.strides import address
from .edges import GradientEdge
from .function import BackwardFunction
from .hooks import RemovableHandle
from .starts import edge_of, leads_nowhere

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
    "set_warn_on_accumulate_grad_stream_mismatch",
]


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """The edge of `tensor`: it can be differentiated without keeping the tensor.

    >>> x = tensor([1.0], requires_grad=True)
    >>> edge = autograd.graph.get_gradient_edge(x * 2)
    >>> edge.node.name(), edge.output_nr
    ('MulBackward0', 0)
    """
    edge = edge_of(tensor) if tensor.requires_grad else None
    if edge is not None:
        check_accessible(edge[0])
    if edge is not None and leads_nowhere(edge[0]):
        raise AssertionError("Expected gradient function to be set")
    if edge is None:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require "
            "gradients"
        )
    node = edge[0]
    if not node._is_leaf:
        node._made = tensor._array.shape, tensor._array.dtype
    # Nodes keep what they need alive; PyTorch's need a second one to hold those of Functions.
    token = viewing(tensor) if isinstance(node, BackwardFunction) else None
    return GradientEdge(shown(node), edge[1], token)


def viewing(tensor: Any) -> Node:
    with grad_set_to(True):
        found: Node = tensor.view_as(tensor).grad_fn
        return found


def check_accessible(node: Node) -> None:
    """PyTorch finds the node of a leaf through a view of it, and inference mode records none."""
    if node._is_leaf and MODES.inference:
        raise AttributeError("'NoneType' object has no attribute 'next_functions'")


class saved_tensors_hooks(SavedHooksBlock):
    """Put every tensor saved in the block through `pack_hook`, and back through `unpack_hook`.

    >>> x = tensor([1.0, 2.0], requires_grad=True)
    >>> with autograd.graph.saved_tensors_hooks(lambda t: t.numpy(), torch.from_numpy):
    ...     y = x.exp().sum()
    >>> y.backward()
    >>> x.grad
    tensor([2.7183, 7.3891])
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        super().__init__(pack_hook, unpack_hook)


class save_on_cpu(saved_tensors_hooks):
    """Keep saved tensors in CPU memory until backward needs them.

    >>> x = tensor([1.0], requires_grad=True)
    >>> with autograd.graph.save_on_cpu():
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2.])
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: Any) -> Any:
            return tensor.device, tensor.detach().clone().cpu()

        def unpack(packed: Any) -> Any:
            device, tensor = packed
            return tensor.to(device)

        super().__init__(pack, unpack)


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """In a `with` block, entering saved_tensors_hooks raises `error_message`.

    >>> with autograd.graph.disable_saved_tensors_hooks("no hooks here"):
    ...     try:
    ...         with autograd.graph.save_on_cpu():
    ...             pass
    ...     except RuntimeError as error:
    ...         print(error)
    no hooks here
    """
    before = MODES.saved_hooks_error
    if MODES.saved_hooks:
        raise RuntimeError(error_message)
    MODES.saved_hooks_error = error_message
    try:
        yield
    finally:
        MODES.saved_hooks_error = before


class MultiHandle(RemovableHandle):
    """Removes several hooks at once."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


def register_multi_grad_hook(
    tensors: Sequence[Any], fn: Callable[..., Any], *, mode: str = "all"
) -> RemovableHandle:
    """Call `fn` once per backward: with all gradients ("all"), or with the first one ("any").

    >>> a, b = ones(1, requires_grad=True), ones(1, requires_grad=True)
    >>> handle = autograd.graph.register_multi_grad_hook((a, b), lambda grads: print(len(grads)))
    >>> (a * b).sum().backward()
    2
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    lock = new_lock()
    if mode == "any":
        done: dict[Any, bool] = {}

        def first(grad: Any) -> None:
            with lock:
                run = MODES.run
                seen = done.pop(run, False)
                done[run] = True
                for other in [r for r in done if r is not run]:
                    del done[other]
            if not seen:
                fn(grad)

        return MultiHandle([t.register_hook(first) for t in tensors if t.requires_grad])

    nodes = [edge_of(t) for t in tensors]
    for edge in nodes:
        if edge is not None:
            check_accessible(edge[0])
        if edge is None or leads_nowhere(edge[0]):
            raise AssertionError("Expected gradient function to be set")
    arrived: dict[Any, list[Any]] = {}
    counts: dict[Any, int] = {}

    def collector(index: int) -> Callable[[Any], None]:
        def collect(grad: Any) -> None:
            run = MODES.run
            with lock:
                if run not in arrived:
                    arrived.clear()
                    counts.clear()
                    arrived[run] = [None] * len(tensors)
                    counts[run] = sum(will_visit(run, edge[0]) for edge in nodes if edge)
                arrived[run][index] = grad
                counts[run] -= 1
                complete = counts[run] == 0
                grads = arrived.pop(run) if complete else None
            if grads is not None:
                fn(grads)

        return collect

    return MultiHandle([t.register_hook(collector(i)) for i, t in enumerate(tensors)])


def will_visit(run: Any, node: Node) -> bool:
    """Whether a pass gets to `node` and calls its hooks."""
    if node is run.only_root:
        return False
    pending = run.pending.get(node)
    found = pending is not None and pending.useful
    if found and node._is_leaf and run.captures is not None:
        raise RuntimeError(
            "A leaf node was passed to _will_engine_execute_node but we are currently running "
            "autograd.grad(). This is currently not supported."
        )
    return found


class SavedCopy:
    """Stands in for a saved tensor in a node: its version cell and version, to find a copy by."""

    def __init__(self, cell: Version) -> None:
        self.cell = cell
        self.version = cell.n


class MutationContext:
    """The copies that allow_mutation_on_saved_tensors keeps while a node refers to them."""

    def __init__(self) -> None:
        self.copies: WeakKeyDictionary[SavedCopy, Any] = WeakKeyDictionary()
        # By (tensor, address, version): what is saved twice is kept once.
        self.tid_to_weakhandle: WeakValueDictionary[Any, SavedCopy] = WeakValueDictionary()

        self.sid_to_tid: dict[Any, set[Any]] = {}  # the same keys by (address, version)

    def keep(self, tensor: Any) -> SavedCopy:
        array = tensor._array
        cell = tensor._version_cell()
        key = id(cell), address(array), array.shape, array.strides, cell.n
        found = self.tid_to_weakhandle.get(key)
        if found is None:
            found = self.tid_to_weakhandle[key] = SavedCopy(cell)
            self.sid_to_tid.setdefault((key[1], cell.n), set()).add(key)
            self.copies[found] = tensor.detach().clone()
        return found

    @property
    def cloned(self) -> dict[SavedCopy, Any]:
        """The tensors as they were saved, for those that were written to since."""
        return {k: v for k, v in self.copies.items() if k.cell.n != k.version}

    @property
    def original(self) -> dict[SavedCopy, Any]:
        """The saved tensors that nobody has written to."""
        return {k: v for k, v in self.copies.items() if k.cell.n == k.version}

    def clear(self) -> None:
        """Forget the copies: backward through what was recorded so far is no longer possible."""
        self.copies.clear()
        self.tid_to_weakhandle.clear()
        self.sid_to_tid.clear()


_mutation = PerThread()


@contextlib.contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[MutationContext]:
    """In a `with` block, saved tensors may be written to: backward sees the old values.

    >>> with autograd.graph.allow_mutation_on_saved_tensors():
    ...     a = tensor([2.0], requires_grad=True)
    ...     b = a.clone()
    ...     out = (b * b).sum()
    ...     _ = b.sin_()
    ...     out.backward()
    >>> a.grad
    tensor([4.])
    """
    if getattr(_mutation, "context", None) is not None:
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    context = MutationContext()

    def unpack(handle: SavedCopy) -> Any:
        if handle not in context.copies:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context"
                "in which the graph was originally recorded."
            )
        return context.copies[handle]

    _mutation.context = context
    try:
        with saved_tensors_hooks(context.keep, unpack):
            yield context
    finally:
        context.clear()
        _mutation.context = None


def increment_version(tensor: Any) -> None:
    """Count a write to `tensor` (or to each of several) that autograd did not see.

    >>> x = ones(1)
    >>> autograd.graph.increment_version(x)
    >>> x._version
    1
    """
    tensors = (tensor,) if isinstance(tensor, TensorBase) else tensor
    for t in tensors:
        t._version_cell().bump("increment_version")


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """CUDA streams only: nothing to do here.

    >>> autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)
    """
