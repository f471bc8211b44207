"""The few names that programs take from PyTorch's C++ module."""

from __future__ import annotations

import importlib
import sys
import weakref
from typing import Any

from tapegrad import Size, device, dtype, layout, memory_format  # noqa: F401
from tapegrad._library.schema import Argument, FunctionSchema, parse_schema
from tapegrad.core.function_modes import WATCHING, DisableTorchFunction
from tapegrad.core.modes import MODES, set_mode
from tapegrad.core.python_dispatch import ACTIVE
from tapegrad.core.python_dispatch import below_classes as _DisableTorchDispatch
from tapegrad.core.python_dispatch import disabled_torch_dispatch as _disabled_torch_dispatch_impl
from tapegrad.core.settings import Settings
from tapegrad.core.subclass import DisableTorchFunctionSubclass
from tapegrad.core.subclass import disabled_torch_function as _disabled_torch_function_impl
from tapegrad.core.transforms.levels import STACK
from tapegrad.ops.draws.generators import Generator
from tapegrad.random import default_generator  # noqa: F401

__all__ = [
    "Argument",
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "FunctionSchema",
    "Generator",
    "_DisableTorchDispatch",
    "_disabled_torch_dispatch_impl",
    "_disabled_torch_function_impl",
    "parse_schema",
]


def _get_tracing_state() -> Any:
    """The recording of `torch.jit._get_trace_graph`; None outside of it."""
    graphs = sys.modules.get(f"{__name__}.script_graphs")
    running = [] if graphs is None else graphs.RUNNING
    return running[-1] if running else None


def _log_api_usage_once(event: str, *facts: Any) -> None:
    """Tell PyTorch's makers that something is used; nobody is told here."""


class _EnableTorchFunction:
    """Inside, modes and classes are asked, whatever a block around it says."""

    def __enter__(self) -> None:
        self.before = WATCHING.off, MODES.subclasses_off
        WATCHING.off = MODES.subclasses_off = False

    def __exit__(self, *error: object) -> None:
        WATCHING.off, MODES.subclasses_off = self.before


def _is_torch_function_enabled() -> bool:
    return not MODES.subclasses_off


def _is_torch_function_all_disabled() -> bool:
    return bool(WATCHING.off and MODES.subclasses_off)


def _get_deterministic_fill_uninitialized_memory() -> bool:
    return Settings.fill_uninitialized_memory


def _set_deterministic_fill_uninitialized_memory(mode: bool) -> None:
    from tapegrad.utils import deterministic

    deterministic.fill_uninitialized_memory = mode


def _len_torch_function_stack() -> int:
    return len(WATCHING.modes)


def _len_torch_dispatch_stack() -> int:
    return len(ACTIVE.modes)


class _WeakTensorRef:
    """Says whether a tensor is still there."""

    def __init__(self, tensor: Any) -> None:
        self.ref = weakref.ref(tensor)

    def expired(self) -> bool:
        return self.ref() is None


def _set_grad_enabled(mode: bool) -> None:
    set_mode("grad", mode)


def _set_fwd_grad_enabled(mode: bool) -> None:
    STACK.forward = mode


def _is_multithreading_enabled() -> bool:
    return MODES.threads


def _set_multithreading_enabled(mode: bool) -> None:
    MODES.threads = mode


def _are_functorch_transforms_active() -> bool:
    return bool(STACK.transforms())


# The class of the class Tensor. PyTorch has one of its own, for isinstance checks in C++.
_TensorMeta = type


has_lapack = True


def _get_accelerator(check: Any = None) -> Any:
    """The device that computes: CUDA where there is one."""
    from tapegrad import cuda

    return device("cuda" if cuda.is_available() else "cpu")


def _get_default_device() -> str:
    """The kind of device that tensors are made on."""
    from tapegrad import get_default_device

    return str(get_default_device().type)


def _is_alias_of(a: Any, b: Any) -> bool:
    """Whether two tensors share memory."""
    return bool(a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr())


def _is_torch_function_mode_enabled() -> bool:
    from tapegrad.overrides import _is_torch_function_mode_enabled

    return _is_torch_function_mode_enabled()


def _cuda_isInBadFork() -> bool:
    """Whether this process was forked from one that used a GPU."""
    return False


# Switches of TorchScript's compilers: there are none, so they are off and stay off.
def _jit_switch(*values: Any) -> bool:
    """A switch of a compiler that is not here."""
    return False


_jit_can_fuse_on_cpu = _jit_can_fuse_on_gpu = _jit_switch
_jit_override_can_fuse_on_cpu = _jit_override_can_fuse_on_gpu = _jit_switch
_jit_set_nvfuser_enabled = _jit_set_nvfuser_guard_mode = _jit_switch
_jit_set_profiling_executor = _jit_set_profiling_mode = _jit_set_texpr_fuser_enabled = _jit_switch


ROOT = "tapegrad"

# Modules that PyTorch writes in C++, and names that other modules have.
_MODULES = frozenset(("_functorch", "_nn"))
_ELSEWHERE = {
    "DispatchKey": ("_C.dispatch_keys", "DispatchKey"),
    "DispatchKeySet": ("_C.dispatch_keys", "DispatchKeySet"),
    "Graph": ("_C.script_graphs", "Graph"),
    "Node": ("_C.script_graphs", "Node"),
    "Value": ("_C.script_graphs", "Value"),
    "_ExcludeDispatchKeyGuard": ("_C.dispatch_keys", "_ExcludeDispatchKeyGuard"),
    "_LinAlgError": ("linalg", "LinAlgError"),
    "Tag": ("_library.tags", "Tag"),
    "TensorBase": ("core.base", "TensorBase"),
    "_FunctionBase": ("autograd.function", "BackwardFunction"),
    "_TensorBase": ("core.base", "TensorBase"),
    "_autograd": ("autograd.c_names", "_autograd"),
    "_current_autograd_node": ("autograd.variable", "current_node"),
    "_current_graph_task_execution_order": ("autograd.variable", "_execution_order"),
    "_will_engine_execute_node": ("autograd.variable", "_will_engine_execute_node"),
    "_current_graph_task_id": ("autograd.variable", "current_pass"),
    "_functions": ("autograd.c_names", "_functions"),
    "_is_fwd_grad_enabled": ("autograd.forward_ad", "_is_fwd_grad_enabled"),
    "is_grad_enabled": ("autograd.grad_mode", "is_grad_enabled"),
    "is_inference_mode_enabled": ("autograd.grad_mode", "is_inference_mode_enabled"),
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"._C.{name}", ROOT)
    if name in _ELSEWHERE:
        module, found = _ELSEWHERE[name]
        return getattr(importlib.import_module(f".{module}", ROOT), found)
    raise AttributeError(f"module 'torch._C' has no attribute '{name}'")
