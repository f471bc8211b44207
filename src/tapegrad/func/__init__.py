"""Functions of functions, and modules called as functions of their parameters."""

from __future__ import annotations

from .module_state import functional_call, stack_module_state

__all__ = ["functional_call", "stack_module_state"]
