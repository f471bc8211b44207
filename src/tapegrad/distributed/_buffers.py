"""The memory of tensors as engines take it: contiguous vectors, and the way back.

`Host` is memory of the host, which MPI carries; `_nccl.OnGPU` has the same methods for arrays that
stay on a GPU. A collective asks its group which of the two serves a tensor and is written once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core import devices
from ..core.base import ON_DEVICE, ORDINARY, TensorBase, wrap
from ._reduce_op import RedOpType, prepared

Back = Callable[[], None]


class Host:
    """Arrays of NumPy; tensors of other kinds are copied to them and back."""

    on_gpu = False

    def __init__(self, engine: Any) -> None:
        self.engine = engine

    def empty(self, size: int, dtype: Any) -> Any:
        return np.empty(size, dtype)

    def outgoing(self, tensor: Any) -> Any:
        """The values of a tensor as a vector; its own memory where possible."""
        if tensor._special == ORDINARY:
            array = tensor._array
        elif tensor._special == ON_DEVICE:
            array = in_pinned_memory(tensor)
        else:
            array = tensor.detach().resolve_conj().resolve_neg().cpu()._array
        return np.ascontiguousarray(array).reshape(-1)

    def both_ways(self, tensor: Any) -> tuple[Any, Back | None]:
        """(a vector of the values, what writes it back; None if it is the tensor's memory)."""
        if tensor._special == ORDINARY and tensor._array.flags.c_contiguous:
            return tensor._array.reshape(-1), None
        flat = self.outgoing(tensor)
        if tensor._special != ON_DEVICE and self.shared(flat, tensor):
            flat = flat.copy()
        return flat, lambda: self.put(flat, tensor)

    def shared(self, flat: Any, tensor: Any) -> bool:
        return tensor._special != ORDINARY or bool(np.may_share_memory(flat, tensor._array))

    def put(self, flat: Any, tensor: Any) -> None:
        """Write values into a tensor, whatever its layout and device; no history is kept."""
        if tensor._special == ORDINARY:
            tensor._array[...] = flat.reshape(tensor._array.shape)
        elif tensor._special == ON_DEVICE:
            tensor._array[...] = devices.DEVICE.xp.asarray(flat.reshape(tensor._array.shape))
        else:
            # Not through the tensor itself: a leaf that requires grad may be written here.
            tensor.detach().copy_(wrap(flat.reshape(tuple(tensor.shape))))

    def joined(self, tensors: Sequence[Any]) -> Any:
        """The values of several tensors, one behind the other."""
        return np.concatenate([self.outgoing(t) for t in tensors])

    def dealt(self, flat: Any, tensors: Sequence[Any]) -> None:
        """Write the parts of a vector into tensors, one behind the other."""
        start = 0
        for tensor in tensors:
            end = start + tensor.numel()
            self.put(flat[start:end], tensor)
            start = end

    def apart(self, flat: Any, out: Any) -> Any:
        """A vector to be sent that shares nothing with the one received."""
        return flat.copy() if np.may_share_memory(out, flat) else flat

    def prepared(self, flat: Any, op: RedOpType) -> tuple[Any, RedOpType, Any]:
        """(the vector to reduce, by which op, what puts the result where it was asked for)."""
        return prepared(flat, op, self.engine.size)


def in_pinned_memory(tensor: Any) -> Any:
    """The values of a CUDA tensor on the host, where the GPU writes and reads at full speed."""
    from ..cuda.memory import pinned_array

    copy: Any = wrap(pinned_array(tuple(tensor.shape), tensor._array.dtype))
    copy.copy_(tensor.detach())
    return copy._array


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
    return f"{tuple(tensor._array.shape)} {str(tensor.dtype)[6:]}"
