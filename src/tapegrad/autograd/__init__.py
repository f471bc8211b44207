"""Gradients: `backward`, `grad`, Variable, Function, and the rest of torch.autograd."""

from __future__ import annotations

import importlib
from typing import Any

from . import forward_ad, graph
from . import inspect as _inspect
from .anomaly_mode import detect_anomaly, set_detect_anomaly
from .api import backward, grad
from .function import Function
from .grad_mode import (
    _unsafe_preserve_version_counter,
    enable_grad,
    inference_mode,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from .gradcheck import gradcheck, gradgradcheck
from .variable import Variable

__all__ = [
    "Function",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
]

# Imported when they are asked for.
_LAZY = frozenset({"_functions", "functional", "profiler", "profiler_util"})


_ELSEWHERE = {
    "_profiler_enabled": "tapegrad.autograd.profiler",
    "ProfilerActivity": "tapegrad.profiler",
    "kineto_available": "tapegrad.profiler",
    "is_multithreading_enabled": "tapegrad.autograd.grad_mode",
    "is_view_replay_enabled": "tapegrad.autograd.grad_mode",
    "SavedTensor": "tapegrad.autograd.saved",
    "has_torch_function": "tapegrad.overrides",
}


def __getattr__(name: str) -> Any:
    if name in _ELSEWHERE:
        return getattr(importlib.import_module(_ELSEWHERE[name]), name)
    if name == "torch":
        return importlib.import_module(__package__.partition(".")[0])
    if name in _LAZY:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'torch.autograd' has no attribute '{name}'")
