"""Tools that say why: pictures of the graph, a doctor for training loops, memory, single steps.

Nothing here is imported until it is used, and nothing costs anything while it is not.
"""

from __future__ import annotations

import importlib
from typing import Any

# Public name -> the module that has it.
_HOMES: dict[str, str] = {
    "distributed": "_ranks",
    "doctor": "_doctor.doctor",
    "explain": "_explain",
    "fingerprint": "_fingerprint",
    "first_nonfinite": "_runs.nonfinite",
    "gradient_flow": "flow",
    "graph": "_graph.picture",
    "leaks": "_leaks",
    "live": "_live",
    "memory": "_memory",
    "program": "_program",
    "record": "_runs.recorder",
    "same": "_runs.same",
    "summary": "_summary",
    "trace_backward": "trace",
    "trace_ops": "_ops",
    "why": "_why",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        found = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
        globals()[name] = found  # in the place of a module of that name, which the import put there
        return found
    raise AttributeError(f"module 'tapegrad.diagnose' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(_HOMES)
