"""Helpers of the distributions: parameters of one shape, probabilities and log odds, triangles."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

import tapegrad as tg
import tapegrad.nn.functional as F

__all__ = [
    "broadcast_all",
    "logits_to_probs",
    "clamp_probs",
    "probs_to_logits",
    "lazy_property",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

EMPTY: Final = tg.Size()
euler_constant: Final[float] = 0.57721566490153286060


def is_tensor_like(value: Any) -> bool:
    return isinstance(value, tg.Tensor) or hasattr(value, "__torch_function__")


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """The values as tensors of one shape; numbers take dtype and device of the first tensor.

    >>> distributions.utils.broadcast_all(tensor([1.0, 2.0]), 3)
    (tensor([1., 2.]), tensor([3., 3.]))
    """
    if not all(is_tensor_like(v) or isinstance(v, (int, float)) for v in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing "
            "__torch_function__."
        )
    first = next((v for v in values if isinstance(v, tg.Tensor)), None)
    options: dict[str, Any] = {"dtype": tg.get_default_dtype()}
    if first is not None:
        options = {"dtype": first.dtype, "device": first.device}
    tensors = [v if is_tensor_like(v) else tg.tensor(v, **options) for v in values]
    return tuple(tg.broadcast_tensors(*tensors)) if tensors else ()


def only_one(probs: Any, logits: Any) -> bool:
    """True if `probs` is the one that was given; exactly one has to be."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return probs is not None


def _standard_normal(shape: Sequence[int], dtype: Any, device: Any) -> Any:
    return tg.empty(shape, dtype=dtype, device=device).normal_()


def _sum_rightmost(value: Any, dim: int) -> Any:
    """The sum over the last `dim` dimensions."""
    if dim == 0:
        return value
    return value.reshape(value.shape[:-dim] + (-1,)).sum(-1)


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """Probabilities from log odds, or, along the last dimension, from log weights.

    >>> distributions.utils.logits_to_probs(tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """
    return tg.sigmoid(logits) if is_binary else F.softmax(logits, dim=-1)


def clamp_probs(probs: Any) -> Any:
    """Probabilities kept away from 0 and 1 by one spacing of their dtype.

    >>> distributions.utils.clamp_probs(tensor([0.0, 0.5])) > 0
    tensor([True, True])
    """
    eps = tg.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    """The inverse of `logits_to_probs`, finite at 0 and 1.

    >>> distributions.utils.probs_to_logits(tensor([0.5]), is_binary=True)
    tensor([0.])
    """
    kept = clamp_probs(probs)
    return tg.log(kept) - tg.log1p(-kept) if is_binary else tg.log(kept)


class lazy_property:
    """A property that is worked out once and then is a plain attribute.

    It is worked out with gradients enabled, since nobody knows who will read it next.
    """

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        functools.update_wrapper(self, wrapped)

    def __get__(self, instance: Any, obj_type: Any = None) -> Any:
        if instance is None:
            return _lazy_property_and_property(self.wrapped)
        with tg.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class _lazy_property_and_property(lazy_property, property):
    """A property for documentation tools, in the place of the lazy one that instances have."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        property.__init__(self, wrapped)


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Any:
    """The lower triangle of each matrix, row by row.

    >>> distributions.utils.tril_matrix_to_vec(tensor([[1, 2], [3, 4]]))
    tensor([1, 3, 4])
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    return mat[..., triangle(n, diag, mat.device)]


def vec_to_tril_matrix(vec: Any, diag: int = 0) -> Any:
    """The inverse of `tril_matrix_to_vec`, with zeros above.

    >>> distributions.utils.vec_to_tril_matrix(tensor([1.0, 3.0, 4.0]))
    tensor([[1., 0.],
            [3., 4.]])
    """
    size = vec.shape[-1]
    k = 1 + 2 * diag
    root = (-k + (k * k + 8 * size + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    n = round(root)
    if n - root > tg.finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {size} which cannot be expressed as the lower "
            "triangular part of a square D x D matrix."
        )
    mat = vec.new_zeros(vec.shape[:-1] + (n, n))
    mat[..., triangle(n, diag, vec.device)] = vec
    return mat


def triangle(n: int, diag: int, device: Any) -> Any:
    """The mask of the lower triangle, up to the diagonal `diag`."""
    rows = tg.arange(n, device=device)
    return rows < rows.view(-1, 1) + (diag + 1)
