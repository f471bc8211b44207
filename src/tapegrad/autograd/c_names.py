"""The names that programs import from `torch._C._autograd` and `torch._C._functions`."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ..core.base import Node, next_seq, wrap
from ..core.modes import MODES, set_mode
from ..core.node import AccumulateGrad, OpNode
from ..core.op import REGISTRY
from .function import ErrorNode
from .grad_mode import is_inference_mode_enabled
from .inspect import InputMetadata, class_named
from .saved import SavedTensor
from .starts import edge_of
from .variable import _keeps_graph

# ---------------------------------------------------------------------- torch._C._autograd


def hooks_are_enabled() -> bool:
    return MODES.saved_hooks_error is None


def hooks_enable() -> None:
    MODES.saved_hooks_error = None


def hooks_disable(error_message: str, fail_if_non_empty: bool = True) -> None:
    if MODES.saved_hooks and fail_if_non_empty:
        raise RuntimeError(error_message)
    MODES.saved_hooks_error = error_message


def hooks_error() -> str | None:
    return MODES.saved_hooks_error


def push_hooks(pack: Any, unpack: Any) -> None:
    if MODES.saved_hooks_error is not None:
        raise RuntimeError(MODES.saved_hooks_error)
    set_mode("saved_hooks", (*MODES.saved_hooks, (pack, unpack)))


def pop_hooks() -> None:
    set_mode("saved_hooks", MODES.saved_hooks[:-1])


def top_hooks(ignore_is_tracing: bool) -> tuple[Any, Any] | None:
    found: tuple[Any, Any] | None = MODES.saved_hooks[-1] if MODES.saved_hooks else None
    return found


def module(name: str, names: dict[str, Any]) -> ModuleType:
    made = ModuleType(name)
    made.__dict__.update(names)
    return made


_autograd = module(
    "torch._C._autograd",
    {
        "SavedTensor": SavedTensor,
        "_InputMetadata": InputMetadata,
        "_pop_saved_tensors_default_hooks": pop_hooks,
        "_push_saved_tensors_default_hooks": push_hooks,
        "_saved_tensors_hooks_disable": hooks_disable,
        "_saved_tensors_hooks_enable": hooks_enable,
        "_saved_tensors_hooks_get_disabled_error_message": hooks_error,
        "_saved_tensors_hooks_is_enabled": hooks_are_enabled,
        "_top_saved_tensors_default_hooks": top_hooks,
        "_get_current_graph_task_keep_graph": _keeps_graph,
        "is_inference_mode_enabled": is_inference_mode_enabled,
    },
)

# ---------------------------------------------------------------------- torch._C._functions


class UndefinedGradBackward(Node):
    """A node that gives its inputs no gradient."""

    def name(self) -> str:
        return "torch::autograd::UndefinedGradBackward"

    def _pull(self, grad: Any, record: bool) -> Any:
        return [None]


def behind(node: Node, t: Any) -> Any:
    """The values of `t`, made by `node`."""
    out = wrap(t._array)
    out._cell = t._version_cell()
    edge = edge_of(t)
    if edge is not None:
        node._seq = next_seq()
        node._edges, node._edge_slots = (edge[0],), (edge[1],)
        out._node = node
        out._wants_grad = True
    return out


class UndefinedGrad:
    """`UndefinedGrad()(x)`: a tensor like `x` from which no gradient flows back to it."""

    def __call__(self, x: Any) -> Any:
        return behind(UndefinedGradBackward(), x)


class DelayedError:
    """`DelayedError(message, n)(*tensors)`: the tensors, which raise when backward gets to them."""

    def __init__(self, msg: str, num_inputs: int) -> None:
        self.msg = msg
        self.num_inputs = num_inputs

    def __call__(self, *tensors: Any) -> Any:
        made = [behind(ErrorNode(self.msg), t) for t in tensors]
        return made[0] if len(made) == 1 else tuple(made)


def node_class(name: str) -> type:
    """The class of nodes that has one of PyTorch's names."""
    if name == "AccumulateGrad":
        return class_named(name, AccumulateGrad)
    if any(op.node_name == name for op in REGISTRY.values()):
        return class_named(name, OpNode)
    raise AttributeError(f"module 'torch._C._functions' has no attribute '{name}'")


_functions = module(
    "torch._C._functions",
    {
        "DelayedError": DelayedError,
        "Error": ErrorNode,
        "UndefinedGrad": UndefinedGrad,
        "UndefinedGradBackward": UndefinedGradBackward,
        "__getattr__": node_class,
    },
)
