"""Context managers that decorate functions too."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..autograd.grad_mode import DecoratorMode, Mode

__all__ = ["_DecoratorContextManager", "_NoParamDecoratorContextManager", "context_decorator"]

_DecoratorContextManager = Mode
_NoParamDecoratorContextManager = DecoratorMode


def context_decorator(ctx: Any, func: Callable[..., Any]) -> Callable[..., Any]:
    """The function inside a context that `ctx`, a manager or what makes one, gives each time."""
    if callable(ctx) and hasattr(ctx, "__enter__"):
        raise RuntimeError(
            f"Passed in {ctx} is both callable and also a valid context manager (has __enter__), "
            "making it ambiguous which interface to use.  If you intended to pass a context "
            "manager factory, rewrite your call as context_decorator(lambda: ctx()); if you "
            "intended to pass a context manager directly, rewrite your call as "
            "context_decorator(lambda: ctx)"
        )
    make = ctx if callable(ctx) else lambda: ctx

    @functools.wraps(func)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with make():
            return func(*args, **kwargs)

    return inside
