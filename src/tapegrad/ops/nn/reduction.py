"""The `reduction` argument of losses, and the two flags that it replaced."""

from __future__ import annotations

from typing import Any

from ...core import warned
from ...core.arguments import REDUCTIONS
from ...errors.models import explain_loss_made_with_tensors


def known_reduction(reduction: str) -> str:
    """The reduction, if it is one."""
    if reduction == "elementwise_mean":
        warned.warn(
            "reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.",
        )
        return "mean"
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def from_flags(
    size_average: bool | None, reduce: bool | None, warn: bool = True, loss: Any = None
) -> str:
    """The reduction that the old flags `size_average` and `reduce` ask for."""
    average, total = size_average is None or size_average, reduce is None or reduce
    try:
        found = "mean" if average and total else "sum" if total else "none"
    except RuntimeError as error:  # a tensor of several elements is neither true nor false
        explain_loss_made_with_tensors(error, loss)
        raise
    if warn:
        warned.warn(
            "size_average and reduce args will be deprecated, please use "
            f"reduction='{found}' instead.",
        )
    return found


def chosen(reduction: str, size_average: bool | None, reduce: bool | None, loss: Any = None) -> str:
    """The reduction of a call that may still use the old flags; `loss` is the module's class."""
    if size_average is None and reduce is None:
        return reduction
    return from_flags(size_average, reduce, loss=loss)


def apply(loss: Any, reduction: str) -> Any:
    """Mean, sum, or the elements themselves."""
    if reduction == "mean":
        return loss.mean()
    return loss.sum() if reduction == "sum" else loss
