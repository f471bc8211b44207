"""The state of PyTorch's tracer: none, it is not here."""

from __future__ import annotations

from typing import Any


def detect_fake_mode(inputs: Any = None) -> None:
    """The mode in which tensors have no values: there is none."""


class TracingContext:
    """The state of a trace."""

    @staticmethod
    def try_get() -> None:
        """The trace that is running: there is none."""


class CompileContext:
    """Which function is being compiled."""

    @staticmethod
    def current_compile_id() -> None:
        """None: PyTorch's compiler is not here."""
