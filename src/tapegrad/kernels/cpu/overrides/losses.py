"""Losses of elements, added up; nll_loss of rows of classes, and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....core.op import REGISTRY
from ..formulas import formula
from .gather import is_index, succeeds
from .reduce import sum_over
from .rows import F32, F64, dense, for_dtypes, is_dense, is_half, narrowed, pick, zeros

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


# ---------------------------------------------------------------------- of elements


def added_up(losses: Any, reduction: str) -> Any:
    """Sum or mean of losses by the C kernel, whatever their number: the bits of compiled steps."""
    x = losses if is_dense(losses) else losses.T if losses.flags.f_contiguous else dense(losses)
    return narrowed(sum_over(x, None, False, x.size if reduction == "mean" else 1.0), x)


def are_plain(tensors: tuple[Any, ...]) -> bool:
    """Whether all tensors that are not None have one dtype that the kernels take."""
    dtype = tensors[0].dtype
    if (dtype is not F32 and dtype is not F64 and not is_half(tensors[0])) or not tensors[0].size:
        return False
    return all([t is None or (type(t) is np.ndarray and t.dtype is dtype) for t in tensors])


def of_elements(name: str) -> Any:
    """Override of a loss: the program of its formula without reduction, then a sum."""

    def make(reference: Any) -> Any:
        known: dict[str, Any] = {}

        def kernel(*args: Any) -> Any:
            if not known:
                op = REGISTRY[name]
                known["losses"] = formula(op, reference)
                known["place"] = op.width + op.attrs.index("reduction")
                known["width"] = op.width
                if "result" in op.attrs:
                    known["result"] = op.width + op.attrs.index("result")
            if "result" in known and args[known["result"]] != args[0].dtype:
                return reference(*args)  # of mixed dtypes: the formula knows of no cast
            if not are_plain(args[: known["width"]]):
                return reference(*args)
            place = known["place"]
            losses = known["losses"](*args[:place], "none", *args[place + 1 :])
            how = args[place]
            return losses if how == "none" else added_up(np.asarray(losses), how)

        return kernel

    return make


OF_ELEMENTS = (
    *("mse_loss", "mse_loss_mixed", "huber_loss", "smooth_l1_loss", "soft_margin_loss"),
    *("binary_cross_entropy", "binary_cross_entropy_with_logits"),
)
OVERRIDES = {
    "nll_loss": nll_loss,
    "nll_loss_backward": nll_loss_backward,
    **{name: of_elements(name) for name in OF_ELEMENTS},
}
