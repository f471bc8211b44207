"""`cond` and `while_loop`: choices and loops as functions, which run as Python runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.base import TensorBase


def truth(pred: Any) -> bool:
    if isinstance(pred, TensorBase) and pred._array.size != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    return bool(pred)


def cond(
    pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()
) -> Any:
    """cond(pred, true_fn, false_fn, operands=()): one of two functions of the operands.

    >>> cond(tensor(True), lambda x: x + 1, lambda x: x - 1, (tensor(1),))
    tensor(2)
    """
    return (true_fn if truth(pred) else false_fn)(*operands)


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]
) -> tuple[Any, ...]:
    """while_loop(cond_fn, body_fn, carried_inputs) -> tuple: the body again and again, as long as.

    >>> while_loop(lambda i: i < 3, lambda i: (i + 1,), (tensor(0),))
    (tensor(3),)
    """
    carried = tuple(carried_inputs)
    while truth(cond_fn(*carried)):
        found = body_fn(*carried)
        carried = tuple(found) if isinstance(found, (tuple, list)) else (found,)
    return carried
