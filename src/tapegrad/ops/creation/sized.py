"""Making tensors of given sizes. (Like others: like.py.)"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtypes
from ...core.arguments import is_index
from ...core.base import STATE, TensorBase, note_birth, wrap
from ...core.devices import DEVICE, is_device, sent, xp_of
from ...core.host_arrays import host
from ...core.modes import MODES
from ...core.strides import strided as strided_view
from ...device import channels_last, contiguous_format, preserve_format, strided
from ...device import device as device_type
from ...errors import must_be_tensor
from ..block.definition import api
from . import arrays as from_data
from .arguments import (
    checked_device,
    get_default_device,
    np_dtype,
    set_default_device,
    set_default_tensor_type,
    sizes,
)
from .arrays import deterministic, is_warn_always_enabled, set_warn_always, unwritten
from .legacy_constructors import TYPES, legacy_tensor

# The functions below reach the public namespace through `api`; these do through `import *`.
__all__ = [
    "get_default_device",
    "is_warn_always_enabled",
    "legacy_tensor",
    "set_default_device",
    "set_default_tensor_type",
    "set_warn_always",
    *TYPES,
]
globals().update(TYPES)

GRAD_DTYPE = "Only Tensors of floating point and complex dtype can require gradients"
MISSING: Any = object()


def made(array: Any, requires_grad: bool = False) -> Any:
    """A new leaf around `array`."""
    if requires_grad and array.dtype.kind not in "fcV":
        raise RuntimeError(GRAD_DTYPE)
    t = wrap(array if array.size else restrided(array))
    t._wants_grad = bool(requires_grad)
    if requires_grad:
        note_birth(t)
    if MODES.inference:
        t._version_cell().inference = True
    return t


def home(device: Any, beside: Any = None) -> Any:
    """The module that makes arrays on a device; on that of a tensor where none is named."""
    if device is not None and device_type(device).type == "meta":
        from ...core import meta

        return meta.XP
    if device is None and beside is not None and STATE.meta_type is not None:
        return xp_of(beside._array)
    if STATE.device_type is None:
        return host
    if device is None:
        return DEVICE.xp if beside is not None and is_device(beside) else host
    return DEVICE.xp if device_type(device).type == "cuda" else host


def restrided(array: Any) -> Any:
    """An empty array with the strides that PyTorch gives it: sizes of 0 count as 1."""
    steps: list[int] = []
    step = 1
    for n in reversed(array.shape):
        steps.insert(0, step)
        step *= max(n, 1)
    return with_strides(array.shape, tuple(steps), array.dtype, xp_of(array))


def checked_tensor(value: Any, function: str, argument: str = "input", position: int = 1) -> Any:
    if not isinstance(value, TensorBase):
        raise must_be_tensor(function, argument, position, value)
    return value


def check_options(function: str, device: Any, layout: Any, pin_memory: bool) -> None:
    """Refuse what no tensor here can have."""
    checked_device(device, function)
    if layout is not None and layout is not strided:
        raise RuntimeError(f"{function}(...) is not implemented for {layout} layout")
    if pin_memory and not can_pin(device):
        raise RuntimeError(
            "pin_memory=True requires a CUDA or other accelerator backend; no pinned memory "
            "allocator is available on this system."
        )


def can_pin(device: Any) -> bool:
    """Whether there is a GPU that memory can be pinned for; tensors on one cannot be pinned."""
    from ...cuda import runtime

    if not runtime.look():
        return False
    if device is not None and device_type(device).type == "cuda":
        raise RuntimeError("Only dense CPU tensors can be pinned")
    runtime.start()
    return True


# ---------------------------------------------------------------------- from sizes


def fresh(
    function: str,
    size: tuple[Any, ...],
    keyword: Any,
    value: Any,
    dtype: Any,
    device: Any,
    layout: Any,
    pin_memory: bool,
    requires_grad: bool,
    out: Any = None,
    default: Any = None,
) -> Any:
    """A tensor of a size, filled with one value (None: not filled)."""
    shape = sizes(function, size, keyword)
    wanted = np_dtype(dtype, function)
    check_options(function, device, layout, pin_memory)
    if out is not None:
        return fill_out(function, out, shape, value, wanted)
    kind = wanted or default or dtypes.default_np()
    if value is None:
        value = unwritten(kind)
    if pin_memory:
        return made(pinned(shape, value, kind), requires_grad)
    return made(filled(shape, value, kind, home(device)), requires_grad)


def filled(shape: tuple[int, ...], value: Any, dtype: Any, xp: Any = np) -> Any:
    if value is None:
        return xp.empty(shape, dtype)
    if type(value) is int and value == 0:
        return xp.zeros(shape, dtype)
    array = xp.empty(shape, dtype)
    array.fill(value)
    return array


def pinned(shape: tuple[int, ...], value: Any, dtype: Any) -> Any:
    """A filled array in memory of the host that a GPU reads directly."""
    from ...cuda.memory import pinned_array

    array = pinned_array(shape, dtype)
    if value is not None:
        array.fill(value)
    return array


def fill_out(function: str, out: Any, shape: tuple[int, ...], value: Any, wanted: Any) -> Any:
    """The `out=` of a creation function: resized, filled, never recorded."""
    checked_out(function, out, wanted)
    resize_out(out, shape)
    if value is None:
        value = unwritten(out._array.dtype)
    if value is not None:
        out._array[...] = from_data.fill_value(value, out._array.dtype)
    out._version_cell().bump(function)
    return out


def checked_out(function: str, out: Any, wanted: Any) -> None:
    if not isinstance(out, TensorBase):
        raise TypeError(f"{function}(): argument 'out' must be Tensor, not {type(out).__name__}")
    if wanted is not None and wanted != out._array.dtype:
        have, want = dtypes.of(out._array.dtype), dtypes.of(wanted)
        raise RuntimeError(
            f"dtype {want.scalar_type} does not match dtype of out parameter ({have.scalar_type})"
        )
    if out._wants_grad and MODES.grad:
        raise RuntimeError(
            f"aten::{function}(): functions with out=... arguments don't support automatic "
            "differentiation, but one of the arguments requires grad."
        )


def resize_out(out: Any, shape: tuple[int, ...]) -> None:
    """Give an `out=` tensor a shape; a view stays in the memory of its base if there is room."""
    if out._array.shape != shape:
        from ..copying.resize import resize_in_place

        resize_in_place(out, shape)


@api(method=False, direct=True)
def zeros(
    *size: Any,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    **kwargs: Any,
) -> Any:
    """zeros(*size, out=None, dtype=None, device=None, requires_grad=False) -> Tensor: a tensor of
    this size filled with zeros.

    >>> zeros(2, 2)
    tensor([[0., 0.],
            [0., 0.]])
    """
    return fresh("zeros", size, kwargs, 0, dtype, device, layout, pin_memory, requires_grad, out)


@api(method=False, direct=True)
def ones(
    *size: Any,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    **kwargs: Any,
) -> Any:
    """ones(*size, out=None, dtype=None, device=None, requires_grad=False) -> Tensor: a tensor of
    this size filled with ones.

    >>> ones((3,), dtype=int64)
    tensor([1, 1, 1])
    """
    return fresh("ones", size, kwargs, 1, dtype, device, layout, pin_memory, requires_grad, out)


@api(method=False, direct=True)
def empty(
    *size: Any,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: Any = None,
    **kwargs: Any,
) -> Any:
    """empty(*size, out=None, dtype=None, requires_grad=False) -> Tensor: memory as it is found:
    write before you read.

    >>> empty(2, 3).shape
    torch.Size([2, 3])
    """
    t = fresh("empty", size, kwargs, None, dtype, device, layout, pin_memory, requires_grad, out)
    if memory_format not in (None, contiguous_format, preserve_format):
        array = in_format(t._array.shape, t._array.dtype, memory_format, xp_of(t._array))
        t._array = deterministic(array)
    return t


@api(method=False, direct=True)
def full(
    size: Any,
    fill_value: Any = MISSING,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """full(size, fill_value, *, dtype=None, device=None, requires_grad=False) -> Tensor: a tensor
    filled with one value.

    >>> full((2,), 7)
    tensor([7, 7])
    """
    if fill_value is MISSING:
        raise TypeError('full() missing 1 required positional arguments: "fill_value"')
    value = number_argument(fill_value, "full", "fill_value", 2)
    if isinstance(size, int):
        raise TypeError("full(): argument 'size' (position 1) must be tuple of ints, not int")
    shape = sizes("full", (size,), {})
    wanted = np_dtype(dtype, "full")
    check_options("full", device, layout, pin_memory)
    if out is not None:
        return fill_out("full", out, shape, value, wanted)
    if wanted is None:
        wanted = value_dtype(value, fill_value)
    value = from_data.fill_value(value, wanted)
    return made(filled(shape, value, wanted, home(device)), requires_grad)


def value_dtype(value: Any, given: Any) -> Any:
    """The dtype of a tensor full of a number; a tensor's own counts by its category only."""
    if isinstance(value, bool):
        return dtypes.bool_.np
    if isinstance(value, int):
        return dtypes.int64.np
    return dtypes.default_complex().np if isinstance(value, complex) else dtypes.default_np()


def number_argument(value: Any, function: str, argument: str, position: int) -> Any:
    """A Python number from a number, a NumPy scalar or a 0-d tensor without a gradient."""
    if isinstance(value, (bool, int, float, complex)):
        return value
    if isinstance(value, np.generic) and value.dtype.kind in "biufc":
        return value.item()
    if isinstance(value, TensorBase) and value._array.ndim == 0 and not value._wants_grad:
        return from_data.one_element(value, "c")
    name = "Tensor" if isinstance(value, TensorBase) else type(value).__name__
    raise TypeError(
        f"{function}(): argument '{argument}' (position {position}) must be Number, not {name}"
    )


@api(method=False, direct=True)
def scalar_tensor(
    s: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """scalar_tensor(s, *, dtype=None, device=None) -> Tensor: a 0-d tensor of the default dtype.

    >>> scalar_tensor(3)
    tensor(3.)
    """
    wanted = np_dtype(dtype, "scalar_tensor") or dtypes.default_np()
    check_options("scalar_tensor", device, layout, pin_memory)
    value = from_data.fill_value(number_argument(s, "scalar_tensor", "s", 1), wanted)
    return made(filled((), value, wanted, home(device)), requires_grad)


CREATION_OPTIONS = (
    "*, Tensor out = None, torch.dtype dtype = None, torch.layout layout = None, "
    "torch.device device = None, bool pin_memory = False, bool requires_grad = False"
)
EYE_USAGE = (
    "eye() received an invalid combination of arguments - got (), but expected one of:\n"
    f" * (int n, {CREATION_OPTIONS})\n * (int n, int m, {CREATION_OPTIONS})\n"
)


@api(method=False, direct=True)
def eye(
    n: Any = MISSING,
    m: Any = None,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """eye(n, m=None, *, dtype=None, requires_grad=False) -> Tensor: an n x m matrix with ones on
    the diagonal.

    >>> eye(2, dtype=int64)
    tensor([[1, 0],
            [0, 1]])
    """
    if n is MISSING:
        raise TypeError(EYE_USAGE)
    for name, value, position in (("n", n, 1), ("m", m, 2)):
        if value is not None and not is_index(value):
            raise TypeError(
                f"eye(): argument '{name}' (position {position}) must be int, not "
                f"{type(value).__name__}"
            )
    rows = int(n)
    columns = rows if m is None else int(m)
    for name, count in (("n", rows), ("m", columns)):
        if count < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {count}")
    wanted = np_dtype(dtype, "eye")
    check_options("eye", device, layout, pin_memory)
    if out is None:
        kind = wanted or dtypes.default_np()
        xp = home(device)
        if xp is not host or not columns:
            return made(xp.eye(rows, columns, dtype=kind), requires_grad)
        array = np.zeros((rows, columns), kind)
        array.reshape(-1)[: min(rows, columns) * columns : columns + 1] = 1
        return made(array, requires_grad)
    kind = out._array.dtype
    return store_out("eye", out, xp_of(out._array).eye(rows, columns, dtype=kind), wanted)


def store_out(function: str, out: Any, array: Any, wanted: Any) -> Any:
    checked_out(function, out, wanted)
    resize_out(out, array.shape)
    out._array[...] = sent(array, xp_of(out._array))
    out._version_cell().bump(function)
    return out


@api(method=False, direct=True)
def empty_strided(
    size: Any,
    stride: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """empty_strided(size, stride, *, dtype=None, device=None) -> Tensor: an uninitialized tensor
    with these strides.

    >>> empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    shape = sizes("empty_strided", (size,), {})
    steps = tuple(int(s) for s in stride)
    wanted = np_dtype(dtype, "empty_strided") or dtypes.default_np()
    check_options("empty_strided", device, layout, pin_memory)
    array = with_strides(shape, steps, wanted, home(device))
    return made(deterministic(array), requires_grad)


def with_strides(shape: tuple[int, ...], steps: tuple[int, ...], dtype: Any, xp: Any = np) -> Any:
    """An array with these strides (in elements), on memory of just the size that they need."""
    if len(shape) != len(steps):
        raise RuntimeError(
            f"dimensionality of sizes ({len(shape)}) must match dimensionality of strides "
            f"({len(steps)})"
        )
    if any([s < 0 for s in steps]):
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={list(shape)} and "
            f"strides={list(steps)}"
        )
    extent = 0 if 0 in shape else 1 + sum([(n - 1) * s for n, s in zip(shape, steps, strict=True)])
    memory = xp.empty(extent, dtype)
    item = memory.itemsize
    if not isinstance(memory, np.ndarray):
        return strided_view(xp, memory, shape, tuple([s * item for s in steps]))
    strides = tuple([s * item for s in steps])
    return np.ndarray.__new__(type(memory), shape, memory.dtype, memory, 0, strides)


def in_format(shape: tuple[int, ...], dtype: Any, memory_format: Any, xp: Any = np) -> Any:
    """An array whose channels vary fastest."""
    rank = 4 if memory_format is channels_last else 5
    if len(shape) != rank:
        name = "channels_last" if rank == 4 else "channels_last_3d"
        raise RuntimeError(f"required rank {rank} tensor to use {name} format")
    order = (0, *range(2, rank), 1)
    memory = xp.empty([shape[i] for i in order], dtype)
    return memory.transpose((0, rank - 1, *range(1, rank - 1)))
