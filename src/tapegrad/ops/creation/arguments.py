"""Arguments that creation functions share, and what stands in for those not given."""

from __future__ import annotations

import importlib
from typing import Any, NoReturn

import numpy as np

from ... import dtypes
from ...core.base import STATE, TensorBase
from ...core.devices import default_device
from ...core.python_dispatch import read_values
from ...core.settings import Default
from ...device import CPU, entered
from ...device import device as device_type
from ...errors import slips
from ..block.checks import invalid_call, kind_of, no_size

PYTHON_DTYPES = {
    float: dtypes.float64,
    int: dtypes.int64,
    bool: dtypes.bool_,
    complex: dtypes.complex128,
}


def np_dtype(value: Any, function: str) -> Any:
    """The NumPy dtype of a `dtype` argument; None stays None."""
    if value is None:
        return None
    if type(value) is type:
        value = PYTHON_DTYPES.get(value, value)
    return dtypes.as_dtype(value, function).np


def no_cuda(
    sentence: str = "Torch not compiled with CUDA enabled", kind: type[Exception] = AssertionError
) -> Exception:
    return slips.no_cuda(sentence, kind)


def refuse_device(device: device_type) -> NoReturn:
    kind = device.type
    if kind == "cuda":
        raise no_cuda()
    if kind == "xpu":
        raise AssertionError("Torch not compiled with XPU enabled")
    raise NotImplementedError(
        f"Could not run 'aten::empty.memory_format' with arguments from the '{kind.upper()}' "
        f"backend.\n  tapegrad has no device of the type {kind!r}; tensors live on the cpu (or on "
        "cuda)"
    )


def checked_device(device: Any, function: str) -> device_type:
    """The device that a new tensor goes to: as asked, of the `with` block, or the default."""
    if device is None:
        device = entered() or Default.device
        # With a GPU in use core/devices.py names it to public functions; what asks without a name
        # is the library itself, which wants the CPU.
        elsewhere = device is not None and device.type == "cuda" and STATE.device_type is not None
        if device is None or elsewhere or device.type == "meta":
            return CPU
    elif not isinstance(device, device_type):
        if isinstance(device, (str, int)) and not isinstance(device, bool):
            device = device_type(device)
        else:
            raise TypeError(
                f"{function}(): argument 'device' must be torch.device, not {type(device).__name__}"
            )
    if device.type not in ("cpu", "meta") and (device.type != "cuda" or STATE.device_type is None):
        refuse_device(device)
    return device  # type: ignore[no-any-return]


def get_default_device() -> device_type:
    """The device that new tensors go to.

    >>> get_default_device()
    device(type='cpu')
    """
    return default_device()  # type: ignore[no-any-return]


def set_default_device(device: Any) -> None:
    """Make `device` the one that new tensors go to; None for the CPU again.

    >>> torch.set_default_device("meta")
    >>> zeros(2).device
    device(type='meta')
    >>> torch.set_default_device(None)
    """
    Default.device = None if device is None else device_type(device)
    if Default.device is not None and Default.device.type == "cuda":
        from ...cuda import runtime

        runtime.start_if_any()
    elif Default.device is not None and Default.device.type == "meta":
        importlib.import_module("tapegrad.core.meta")


def set_default_tensor_type(t: Any) -> None:
    """Make the dtype of a tensor type the default one (deprecated).

    >>> torch.set_default_tensor_type(torch.DoubleTensor)
    >>> tensor([1.5]).dtype
    torch.float64
    >>> torch.set_default_tensor_type(torch.FloatTensor)
    """
    from ...core.warned import warn_once
    from .legacy_constructors import CUDA_TYPES, TYPES

    warn_once(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use "
        "torch.set_default_dtype() and torch.set_default_device() as alternatives.",
    )

    if isinstance(t, str):
        module, _, name = t.rpartition(".")
        known: Any = {"torch": TYPES, "torch.cuda": CUDA_TYPES}.get(module, {})
        if name not in known:
            raise ModuleNotFoundError(f"No module named '{module or t}'")
        t = known[name]
    dtype = getattr(t, "dtype", None)
    on_gpu = getattr(t, "is_cuda", False)
    if on_gpu:
        from ...cuda import runtime

        if not runtime.look():
            raise TypeError(
                f"type torch.cuda.{t.__name__} not available. Torch not compiled with CUDA enabled."
            )
    if type(dtype) is not dtypes.dtype:
        raise TypeError(
            "invalid type object: only floating-point types are supported as the default type"
        )
    if not dtype.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    dtypes.set_default_dtype(dtype)
    set_default_device("cuda" if on_gpu else None)


def is_whole(value: Any) -> bool:
    if isinstance(value, TensorBase):
        return value._array.size == 1 and value._array.dtype.kind in "iu"
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in "iu"
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def whole(value: Any) -> int:
    return int(read_values(value).item()) if isinstance(value, TensorBase) else int(value)


def sizes(function: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, ...]:
    """The `*size` of a creation function: ints one by one, or one sequence of them."""
    if args and not kwargs and all([type(n) is int and 0 <= n < 1 << 62 for n in args]):
        return args
    if kwargs:
        name = next((k for k in kwargs if k != "size"), None)
        if name is not None:
            raise TypeError(f"{function}() got an unexpected keyword argument '{name}'")
        args = (kwargs["size"],)
    if not args:
        raise TypeError(f'{function}() missing 1 required positional arguments: "size"')
    first = args[0]
    is_list = isinstance(first, (tuple, list))
    if len(args) > 1 and not is_whole(first):
        if function in ("rand", "randn"):  # which have two signatures, one with a generator
            raise invalid_call(function, *args)
        raise TypeError(f"{function}() takes 1 positional argument but {len(args)} were given")
    place = "" if kwargs else " (position 1)"
    start = f"{function}(): argument 'size'"
    if not is_list and not is_whole(first):
        raise no_size(first, f"{start}{place} must be tuple of ints, not {kind_of(first)}")
    shape = tuple(first) if is_list else args
    for i, value in enumerate(shape):
        if is_whole(value):
            continue
        reason = (
            f"{place} must be tuple of ints, but found element of type {kind_of(value)} at pos 0"
            if i == 0
            else f" failed to unpack the object at pos {i + 1} with "
            f'error "type must be tuple of ints,but got {type(value).__name__}"'
        )
        raise no_size(value, start + reason)
    shape = tuple([whole(v) for v in shape])
    for i, n in enumerate(shape, 1):
        if n >= 1 << 63:
            raise TypeError(
                f"{function}(): argument 'size' failed to unpack the object at pos {i} with error "
                '"Overflow when unpacking long long"'
            )
        if n < 0:
            if function == "zeros":
                raise RuntimeError("zeros: Dimension size must be non-negative.")
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {n}: {list(shape)}"
            )
    return shape
