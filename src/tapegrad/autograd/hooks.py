"""Hooks on a node: what runs before and after it, and what watches the tensors that it made."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ..core.base import INTERPRETED, Node, TensorBase, as_array, ndarray, wrap
from ..core.lazy_conj import plain
from ..core.modes import grad_set_to
from ..core.references import references
from ..device import contiguous_format, strided
from ..errors import slips


class RemovableHandle:
    """Undoes one registration: `remove()`, or the end of a `with` block."""

    next_id = 0

    def __init__(self, hooks: Any, *, extra_dict: Any = None) -> None:
        self.hooks_dict_ref = weakref.ref(hooks)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        extra = extra_dict if isinstance(extra_dict, list) else [extra_dict]
        self.extra_dict_ref: tuple[Any, ...] = tuple(
            [weakref.ref(d) for d in extra if d is not None]
        )

    def remove(self) -> None:
        for ref in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = ref()
            if hooks is not None and self.id in hooks:
                del hooks[self.id]

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()

    def __getstate__(self) -> Any:
        return self.hooks_dict_ref(), self.id

    def __setstate__(self, state: Any) -> None:
        self.hooks_dict_ref = weakref.ref(OrderedDict() if state[0] is None else state[0])
        self.id = state[1]
        self.extra_dict_ref = ()
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)


class HookDict(OrderedDict[int, Callable[..., Any]]):
    """Hooks by id, in order of registration; a class because handles refer to it weakly."""


def add_hook(hooks: HookDict, function: Callable[..., Any]) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = function
    return handle


class NodeHooks:
    """All hooks of one node, in the order in which they run."""

    def __init__(self) -> None:
        self.tensor: dict[int, HookDict] = {}  # per output: Tensor.register_hook
        self.retained: dict[int, Any] = {}  # per output: a weak reference, for retain_grad
        self.before_node = HookDict()  # Node.register_prehook
        self.after_node = HookDict()  # Node.register_hook
        self.accumulated_hooks = HookDict()  # Tensor.register_post_accumulate_grad_hook

    def on_leaf(self, node: Node, total: Any, record: bool, owned: int) -> tuple[Any, int]:
        """Tensor hooks and prehooks of a leaf: the gradient, and `owned` for what they return.

        `.grad` takes the array over if no hook kept it, as PyTorch does: post hooks then see what
        is written to `.grad`. A view is copied, because references to its base are not counted.
        """
        if not self.tensor and not self.before_node:
            return total, owned
        held = 0 if total is None else references(total)
        # In another variable: arguments may be borrowed from Python 3.14 on, and do not count then.
        answer = self.before(node, self.on_tensors(node, total, record), record)
        if type(answer) is not ndarray or answer.base is not None:
            return answer, 0
        if answer is total:
            held += 1
        else:
            held = owned = 1
        if references(answer) != held:
            owned = 0
        return answer, owned

    def on_tensors(self, node: Node, total: Any, record: bool) -> Any:
        """Tensor hooks, then retain_grad, on the complete gradient of each output."""
        if not self.tensor and not self.retained:
            return total
        several = node._outputs is not None
        parts = parts_of(node, total)
        for slot, hooks in self.tensor.items():
            for hook in list(hooks.values()):
                with grad_set_to(record):
                    answer = call_tensor_hook(hook, wrapped(parts[slot]))
                parts[slot] = unwrapped(answer, record)
        for slot, ref in self.retained.items():
            tensor = ref()
            if tensor is not None and parts[slot] is not None:
                keep_gradient(tensor, wrapped(parts[slot]))
        if several and all(part is None for part in parts):
            return None
        return parts if several else parts[0]

    def before(self, node: Node, total: Any, record: bool) -> Any:
        if not self.before_node:
            return total
        several = node._outputs is not None
        bare = parts_of(node, total)
        places = shown_outputs(node, bare)
        parts = tuple(wrapped(bare[i]) for i in places)
        for hook in list(self.before_node.values()):
            with grad_set_to(record):
                answer = hook(parts)
            if answer is not None:
                parts = checked_parts(hook, answer, parts)
        for i, g in zip(places, parts, strict=True):
            bare[i] = unwrapped(g, record)
        if several and all(part is None for part in bare):
            return None
        return bare if several else bare[0]

    def after(self, node: Node, grads: Any, total: Any, record: bool) -> Any:
        if not self.after_node:
            return grads
        arrived = parts_of(node, total)
        outgoing = tuple(wrapped(arrived[i]) for i in shown_outputs(node, arrived))
        if node._is_leaf and type(total) is ndarray:
            leaf: Any = node
            grad = leaf.tensor()._gradient
            if grad is not None and grad._array is total:
                outgoing = (grad.detach(),)
        places = differentiable_places(node)
        if grads is None:
            grads = [None] * len(node._edges)
        parts = tuple(wrapped(grads[i]) for i in places)
        for hook in list(self.after_node.values()):
            with grad_set_to(record):
                answer = hook(parts, outgoing)
            if answer is not None:
                parts = checked_parts(hook, answer, parts)
        result = list(grads)
        for i, g in zip(places, parts, strict=True):
            result[i] = unwrapped(g, record)
        return result

    def accumulated(self, tensor: TensorBase, record: bool) -> None:
        for hook in list(self.accumulated_hooks.values()):
            with grad_set_to(record):
                answer = hook(tensor)
            if answer is not None and not isinstance(answer, TensorBase):
                raise TypeError(f"expected Variable, but hook returned '{type(answer).__name__}'")
            if answer is not None:
                raise RuntimeError("Tensor post accumulate grad hooks should return None.")


def parts_of(node: Node, total: Any) -> list[Any]:
    """The gradients that arrived, per output; None for outputs that got none.

    Nothing for (), which stands for gradients that are gone.
    """
    if type(total) is tuple:
        return []
    if node._outputs is None:
        return [total]
    return [None] * len(node._outputs) if total is None else list(total)


def shown_outputs(node: Node, parts: list[Any]) -> list[int]:
    """The outputs that PyTorch counts: indices and sizes among the results get no gradient."""
    op = node._op
    plain = () if op is None or node._outputs is None else op.plain_outs
    return [i for i in range(len(parts)) if i not in plain]


def differentiable_places(node: Node) -> list[int]:
    """The edges that PyTorch counts: those of arguments that can have a gradient."""
    if node._is_leaf:
        return []
    op = node._op
    inner = getattr(node, "inner", None)
    if (
        inner is not None and inner._op is not None
    ):  # the edges of CopySlices are those of its write
        return differentiable_places(inner)
    if op is None or op.joint is not None or len(op.rules) != len(node._edges):
        return list(range(len(node._edges)))
    return [i for i, rule in enumerate(op.rules) if rule is not None]


def hooks_of(node: Node) -> NodeHooks:
    if node._hooks is None:
        node._hooks = NodeHooks()
    found: NodeHooks = node._hooks
    return found


def wrapped(g: Any) -> Any:
    return g if g is None or isinstance(g, TensorBase) else wrap(as_array(g))


def unwrapped(g: Any, record: bool) -> Any:
    if g is None or record or (g._special == INTERPRETED and g.is_sparse):
        return g
    return plain(g._array)


def call_tensor_hook(hook: Callable[..., Any], grad: Any) -> Any:
    answer = hook(grad)
    if answer is None:
        return grad
    check_answer(hook, grad, answer)
    return answer


def check_answer(hook: Any, before: Any, answer: Any) -> None:
    """A hook may change the values of a gradient, not what kind of tensor it is.

    `hook` is the function, or its name where PyTorch has another one there.
    """
    if not isinstance(answer, TensorBase):
        raise TypeError(f"expected Variable, but hook returned '{type(answer).__name__}'")
    if before is None:
        return
    after: Any = answer
    name = hook if isinstance(hook, str) else getattr(hook, "__name__", type(hook).__name__)
    if before._array.dtype != after._array.dtype or before.is_sparse is not after.is_sparse:
        was, got = before.type(), after.type()
        sentence = f"hook '{name}' has changed the type of value (was {was} got {got})"
    elif before._array.shape != after._array.shape:
        sentence = f"hook '{name}' has changed the size of value"
    else:
        return
    raise slips.hook_changed(sentence, hook, before, after)


def checked_parts(hook: Any, answer: Any, before: tuple[Any, ...]) -> tuple[Any, ...]:
    if isinstance(answer, TensorBase):
        answer = (answer,)
    if not isinstance(answer, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(answer).__name__}'")
    if len(answer) != len(before):
        name = getattr(hook, "__name__", type(hook).__name__)
        raise RuntimeError(
            f"hook '{name}' has returned an incorrect number of values (got {len(answer)}, but "
            f"expected {len(before)})"
        )
    return tuple(b if a is None else a for a, b in zip(answer, before, strict=True))


def keep_gradient(tensor: Any, grad: Any) -> None:
    """retain_grad: add to `.grad` of a tensor that is not a leaf."""
    with grad_set_to(grad._wants_grad):
        if tensor._gradient is None:
            # PyTorch's is contiguous, whatever the order of the tensor and of what came.
            dense = grad.layout is strided
            tensor._gradient = (
                grad.clone(memory_format=contiguous_format) if dense else grad.clone()
            )
        else:
            tensor._gradient = tensor._gradient + grad
