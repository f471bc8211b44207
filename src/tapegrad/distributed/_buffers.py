"""The memory of tensors as engines take it: contiguous, on the host, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.base import ORDINARY, TensorBase, wrap

Back = Callable[[], None]


def outgoing(tensor: Any) -> Any:
    """The values of a tensor as a flat array; its own memory where possible."""
    if tensor.special == ORDINARY:
        array = tensor.array
    else:
        array = tensor.detach().resolve_conj().resolve_neg().cpu().array
    return np.ascontiguousarray(array).reshape(-1)


def both_ways(tensor: Any) -> tuple[Any, Back | None]:
    """(a flat array of the values, what writes it back; None if it is the tensor's memory)."""
    if tensor.special == ORDINARY and tensor.array.flags.c_contiguous:
        return tensor.array.reshape(-1), None
    flat = outgoing(tensor)
    if np.may_share_memory(flat, tensor.array) if tensor.special == ORDINARY else True:
        flat = flat.copy()
    return flat, lambda: put(flat, tensor)


def put(flat: Any, tensor: Any) -> None:
    """Write values into a tensor, whatever its layout and device; no history is kept."""
    if tensor.special == ORDINARY:
        tensor.array[...] = flat.reshape(tensor.array.shape)
    else:
        # Not through the tensor itself: a leaf that requires grad may be written here.
        tensor.detach().copy_(wrap(flat.reshape(tuple(tensor.shape))))


def joined(tensors: Sequence[Any]) -> Any:
    """The values of several tensors, one behind the other."""
    return np.concatenate([outgoing(t) for t in tensors])


def dealt(flat: Any, tensors: Sequence[Any]) -> None:
    """Write the parts of an array into tensors, one behind the other."""
    start = 0
    for tensor in tensors:
        end = start + tensor.numel()
        put(flat[start:end], tensor)
        start = end


def check_tensor(value: Any, name: str) -> None:
    if not isinstance(value, TensorBase):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n"
            f"             but got {type(value)} instead."
        )


def check_tensors(values: Any, name: str) -> None:
    if not isinstance(values, list):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
            f"             but got {type(values)} instead."
        )
    if not all(isinstance(value, TensorBase) for value in values):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
            f"             but got {type(values)} with elements of type "
            f"{[type(value) for value in values]}."
        )


def same_dtype(*tensors: Any) -> None:
    flat = [t for item in tensors for t in (item if isinstance(item, list) else [item])]
    for tensor in flat[1:]:
        if tensor.dtype != flat[0].dtype:
            raise ValueError(
                "Invalid usage of tensors with different dtypes"
                f"Found {flat[0].dtype} and  {tensor.dtype}"
            )


def words(tensor: Any) -> str:
    """Shape and dtype, as a fingerprint has them."""
    return f"{tuple(tensor.array.shape)} {str(tensor.dtype)[6:]}"
