"""nll_loss of rows of classes, and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from .gather import is_index, succeeds
from .rows import dense, for_dtypes, is_dense, pick, zeros

HOW = {"none": 0, "sum": 1, "mean": 2}


def suits(shape: tuple[int, ...], dtype: Any, target: Any, weight: Any) -> bool:
    """Rows of classes, or one, and as many targets; a weight of the same dtype."""
    return (
        is_index(target)
        and len(shape) == target.ndim + 1 <= 2
        and shape[:-1] == target.shape
        and target.size > 0
        and shape[-1] > 0
        and (
            weight is None
            or (weight.dtype is dtype and weight.shape == shape[-1:] and is_dense(weight))
        )
    )


def sizes(shape: tuple[int, ...], target: Any, reduction: str, ignored: Any) -> tuple[int, ...]:
    passes = ignored is not None
    return target.size, shape[-1], passes, ignored if passes else 0, HOW[reduction]


def nll_loss(reference: Any) -> Any:
    kernels = for_dtypes("nll")

    def kernel(input: Any, target: Any, weight: Any, reduction: str, ignore_index: Any) -> Any:
        run = pick(kernels, input)
        if run is not None and is_dense(input):
            shape = input.shape
            if suits(shape, input.dtype, target, weight):
                out = np.empty(target.shape if reduction == "none" else (), input.dtype)
                given = sizes(shape, target, reduction, ignore_index)
                if succeeds(run, (input, dense(target), weight, out), given):
                    return out
        return reference(input, target, weight, reduction, ignore_index)

    return kernel


def nll_loss_backward(reference: Any) -> Any:
    kernels = for_dtypes("nll_back")

    def kernel(
        grad_output: Any,
        target: Any,
        weight: Any,
        shape: tuple[int, ...],
        reduction: str,
        ignore_index: Any,
    ) -> Any:
        run = pick(kernels, grad_output)
        wanted = target.shape if reduction == "none" else ()
        if (
            run is not None
            and grad_output.shape == wanted
            and suits(shape, grad_output.dtype, target, weight)
        ):
            grad = dense(grad_output)
            out = zeros((*shape,), grad)
            given = sizes(shape, target, reduction, ignore_index)
            if succeeds(run, (grad, dense(target), weight, out), given):
                return out
        return reference(grad_output, target, weight, shape, reduction, ignore_index)

    return kernel


OVERRIDES = {"nll_loss": nll_loss, "nll_loss_backward": nll_loss_backward}
