"""Lists of tensors by device and dtype, for optimizers that work on many at once."""

from __future__ import annotations

from typing import Any

Indices = list[int]


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Where a list of tensors can be worked on at once."""
    return ["cuda", "cpu"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """Where an optimizer has a kernel of its own."""
    return ["cuda", "cpu"]


def _group_tensors_by_device_and_dtype(
    tensorlistlist: list[list[Any]], with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[list[list[Any]], Indices]]:
    """Lists of the same length, cut by device and dtype of the tensors in the first."""
    groups: dict[tuple[Any, Any], Indices] = {}
    for i, tensor in enumerate(tensorlistlist[0]):
        groups.setdefault((tensor.device, tensor.dtype), []).append(i)
    return {
        key: (
            [[each[i] for i in where] if each else [] for each in tensorlistlist],
            where if with_indices else [],
        )
        for key, where in groups.items()
    }


def _device_has_foreach_support(device: Any) -> bool:
    return device.type in _get_foreach_kernels_supported_devices()


def _has_foreach_support(tensors: list[Any], device: Any) -> bool:
    same = all(t is None or t.device.type == device.type for t in tensors)
    return _device_has_foreach_support(device) and same
