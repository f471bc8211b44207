"""`functionalize`: a function without writes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

OPTIONS = ("mutations", "mutations_and_views")


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """The function with its writes taken out, which matters to those who record it.

    Nothing is recorded as a program here, and results are the same: the function is run as it is.

    >>> func.functionalize(lambda x: x.clone().add_(1))(tensor([1.0]))
    tensor([2.])
    """
    if remove not in OPTIONS:
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}."
            " Valid options are:\n"
            "     remove='mutations': all inplace and out= operators will be removed from the "
            "program, and replaced with their out-of-place equivalents.\n"
            "     remove='mutations_and_views': In addition to the above, all aliasing operators "
            "{view} will be replaced with their non-aliasing counterparts, {view}_copy.\n"
        )

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return wrapped
