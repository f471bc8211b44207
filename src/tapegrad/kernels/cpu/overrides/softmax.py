"""softmax and log_softmax, and their gradients: along the last dimension, or on turned copies."""

from __future__ import annotations

from typing import Any

from .rows import contiguous, copied, empty, for_dtypes, is_dense, pick


def along_rows(name: str, is_safe: bool = False) -> Any:
    """Override of (input, dim) by a kernel for rows; a safe one handles empty rows."""
    kernels = for_dtypes(name)

    def make(reference: Any) -> Any:
        def kernel(input: Any, dim: int) -> Any:
            run = pick(kernels, input)
            if run is None or not input.ndim or not input.size or not is_dense(input):
                return reference(input, dim)
            if dim != input.ndim - 1:
                if input.dtype.itemsize == 2:  # there PyTorch rounds on the way, as the reference
                    return reference(input, dim)
                turned = kernel(copied(input.swapaxes(dim, -1)), input.ndim - 1)
                return copied(turned.swapaxes(dim, -1))
            out = empty(input.shape, input)
            width = input.shape[-1]
            run((input, out), (input.size // width, width, is_safe))
            return out

        return kernel

    return make


def back_along_rows(name: str) -> Any:
    """Override of (gradient, output, dim) by a kernel for rows."""
    kernels = for_dtypes(name)

    def make(reference: Any) -> Any:
        def kernel(input: Any, output: Any, dim: int) -> Any:
            run = pick(kernels, output)
            if (
                run is None
                or input.dtype is not output.dtype
                or input.shape != output.shape
                or dim != output.ndim - 1
                or not output.size
                or not is_dense(output)
            ):
                return reference(input, output, dim)
            gradient = contiguous(input)  # a broadcast one, mostly
            out = empty(output.shape, output)
            width = output.shape[-1]
            run((gradient, output, out), (output.size // width, width))
            return out

        return kernel

    return make


OVERRIDES = {
    "softmax": along_rows("softmax"),
    "safe_softmax": along_rows("softmax", True),
    "log_softmax": along_rows("log_softmax"),
    "softmax_backward_data": back_along_rows("softmax_back"),
    "log_softmax_backward_data": back_along_rows("log_softmax_back"),
}
