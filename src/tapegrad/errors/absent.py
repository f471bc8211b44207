"""Names that libraries import or ask for, whose use means nothing here.

A function or class that is made here says so when it is called, with what to do instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def absent_function(name: str, instead: str) -> Callable[..., Any]:
    """A function that cannot be called."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        from .missing import not_here

        raise not_here(name, instead)

    refuse.__name__ = refuse.__qualname__ = name.rpartition(".")[2]
    refuse.__module__ = name.rpartition(".")[0].replace("torch", "tapegrad", 1)
    refuse.__doc__ = f"Not available here. Instead: {instead}."
    refuse.absent = instead  # type: ignore[attr-defined]  # for `tapegrad check`
    return refuse


def absent_class(
    name: str, instead: str, base: type = object, methods: tuple[str, ...] = ()
) -> Any:
    """A class without objects: `isinstance` says no, making one raises, by `methods` too."""
    refuse = absent_function(name, instead)
    body: dict[str, Any] = {
        m: staticmethod(absent_function(f"{name}.{m}", instead)) for m in methods
    }
    body |= {
        "__new__": staticmethod(refuse),
        "__doc__": f"There are none here. Instead: {instead}.",
        "__module__": refuse.__module__,
        "absent": instead,
    }
    return type(refuse.__name__, (base,), body)
