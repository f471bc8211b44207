"""Output sizes of windows, and memory orders: for the ops and for kernels of every device."""

from __future__ import annotations

from typing import Any

from ..core.devices import memory_order
from ..core.strides import channels_last

Ints = tuple[int, ...]


def out_size(size: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints) -> Ints:
    return tuple(
        [
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True)
        ]
    )


def transposed_size(
    size: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, more: Ints
) -> Ints:
    return tuple(
        [
            (n - 1) * s - 2 * p + d * (k - 1) + m + 1
            for n, k, s, p, d, m in zip(size, kernel, stride, padding, dilation, more, strict=True)
        ]
    )


def disjoint(kernel: Ints, stride: Ints, dilation: Ints) -> bool:
    """Whether windows do not overlap."""
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    return all([span <= s for span, s in zip(spans, stride, strict=True)])


def laid_out_like(xp: Any, input: Any, out: Any, n: int) -> Any:
    """`out` in channels-last order if the batch of images is, with or without gaps."""
    if out.ndim != n + 2 or input.ndim != n + 2 or input.flags.c_contiguous:
        return out
    if n == 1 or not channels_last(input):
        return out
    last = (0, *range(2, n + 2), 1)
    made = xp.ascontiguousarray(out.transpose(last))
    if 1 in made.shape:  # whose strides NumPy leaves as they are
        made = made.reshape(-1).reshape(made.shape)
    return made.transpose(0, n + 1, *range(1, n + 1))


def ordered(array: Any) -> tuple[Any, Any]:
    """A dense array transposed to C order, and the axes that undo that; others unchanged.

    PyTorch draws for elements in that order.
    """
    if not array.flags.c_contiguous:
        order, back = memory_order(array)
        turned = array.transpose(order)
        if turned.flags.c_contiguous:
            return turned, back
    return array, range(array.ndim)
