"""Making tensors: from data, from sizes, like others."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from . import dtypes, from_data
from .core import promote
from .core.base import TensorBase, wrap
from .core.modes import MODES
from .defaults import (
    checked_device,
    get_default_device,
    np_dtype,
    set_default_device,
    set_default_tensor_type,
    sizes,
)
from .device import channels_last, channels_last_3d, contiguous_format, preserve_format, strided
from .errors import must_be_tensor
from .legacy import TYPES, legacy_tensor
from .ops.block import api

# The functions below reach the public namespace through `api`; these do through `import *`.
__all__ = ["get_default_device", "legacy_tensor", "set_default_device", "set_default_tensor_type", *TYPES]
globals().update(TYPES)

GRAD_DTYPE = "Only Tensors of floating point and complex dtype can require gradients"
COPY_WARNING = (
    "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
    "sourceTensor.detach().clone().requires_grad_(True), rather than {}(sourceTensor)."
)
READ_ONLY = (
    "The given {0} is not writable, and PyTorch does not support non-writable tensors. This means {1}. "
    "You may want to copy the {2} to protect its data or make it writable before converting it to a "
    "tensor. This type of warning will be suppressed for the rest of this program."
)
MISSING: Any = object()


def made(array: Any, requires_grad: bool = False) -> Any:
    """A new leaf around `array`."""
    if requires_grad and array.dtype.kind not in "fcV":
        raise RuntimeError(GRAD_DTYPE)
    t = wrap(array if array.size else restrided(array))
    t.wants_grad = bool(requires_grad)
    if MODES.inference:
        t.version_cell().inference = True
    return t


def restrided(array: Any) -> Any:
    """An empty array with the strides that PyTorch gives it: sizes of 0 count as 1."""
    steps: list[int] = []
    step = 1
    for n in reversed(array.shape):
        steps.insert(0, step)
        step *= max(n, 1)
    return with_strides(array.shape, tuple(steps), array.dtype)


def checked_tensor(value: Any, function: str, argument: str = "input", position: int = 1) -> Any:
    if not isinstance(value, TensorBase):
        raise must_be_tensor(function, argument, position, value)
    return value


def check_options(function: str, device: Any, layout: Any, pin_memory: bool) -> None:
    """Refuse what no tensor here can have."""
    checked_device(device, function)
    if layout is not None and layout is not strided:
        raise RuntimeError(f"{function}(...) is not implemented for {layout} layout")
    if pin_memory:
        raise RuntimeError(
            "pin_memory=True requires a CUDA or other accelerator backend; no pinned memory allocator "
            "is available on this system."
        )


# ---------------------------------------------------------------------- from data


@api(method=False)
def tensor(*data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False,
           pin_memory: bool = False, **kwargs: Any) -> Any:
    """tensor(data, *, dtype=None, device=None, requires_grad=False) -> Tensor: a copy of `data`.

    >>> tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    if not data and "data" in kwargs:
        data = (kwargs.pop("data"),)
    for name in kwargs:
        raise TypeError(f"tensor() got an unexpected keyword argument '{name}'")
    if len(data) != 1:
        if data:
            raise TypeError(f"tensor() takes 1 positional argument but {len(data)} were given")
        raise TypeError('tensor() missing 1 required positional arguments: "data"')
    return from_any(data[0], "tensor", "torch.tensor", dtype, device, requires_grad, pin_memory)


def from_any(data: Any, function: str, spelled: str, dtype: Any, device: Any, requires_grad: bool,
             pin_memory: bool) -> Any:
    """A leaf with a copy of `data`."""
    wanted = np_dtype(dtype, function)
    check_options(function, device, None, pin_memory)
    if isinstance(data, TensorBase):
        warnings.warn(COPY_WARNING.format(spelled), UserWarning, stacklevel=4)
    t = made(from_data.to_array(data, wanted), requires_grad)
    if not requires_grad:
        t.cut = lost_history(data)
    return t


def lost_history(data: Any, depth: int = 0) -> Any:
    """A tombstone where the data held tensors with a history that the copy does not have."""
    from .core.base import Cut

    if isinstance(data, TensorBase):
        return Cut("tensor") if data.wants_grad else data.cut
    if type(data) not in (list, tuple) or depth > 8:
        return None
    # Tensors among the data come early: numbers first means numbers everywhere, nearly always.
    for value in data[:64]:
        found = lost_history(value, depth + 1)
        if found is not None:
            return found
    return None


@api(method=False)
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Any:
    """as_tensor(data, dtype=None, device=None) -> Tensor: `data` as a tensor, shared where it can be.

    >>> a = tensor([1.0])
    >>> as_tensor(a) is a
    True
    """
    wanted = np_dtype(dtype, "as_tensor")
    checked_device(device, "as_tensor")
    if isinstance(data, TensorBase):
        return data if dtype is None else data.to(dtype)  # type: ignore[attr-defined]
    if isinstance(data, np.ndarray):
        return made(from_data.cast(shareable(data), wanted, copy=False))
    return made(from_data.to_array(data, wanted))


@api(method=False)
def asarray(obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None,
            requires_grad: bool = False) -> Any:
    """asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False) -> Tensor: `obj` as a tensor.

    >>> asarray([1, 2])
    tensor([1, 2])
    """
    wanted = np_dtype(dtype, "asarray")
    checked_device(device, "asarray")
    source: Any = None
    if isinstance(obj, TensorBase):
        source = obj
    elif isinstance(obj, (np.ndarray, np.generic)):
        source = made(shareable(np.asarray(obj)))
    elif hasattr(obj, "__dlpack__"):
        source = made(np.from_dlpack(obj))
    elif isinstance(obj, (bytes, bytearray, memoryview)):
        source = frombuffer(obj, dtype=dtype or dtypes.get_default_dtype())
    if source is None:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        return made(from_data.to_array(obj, wanted), requires_grad)
    if wanted is not None and wanted != source.array.dtype:
        if copy is False:
            have, want = dtypes.of(source.array.dtype), dtypes.of(wanted)
            raise ValueError(
                f"can't alias tensor with dtype '{have.scalar_type}' into dtype '{want.scalar_type}'."
            )
        source = source.to(dtypes.of(wanted))
    elif copy:
        source = source.clone()
    if source.requires_grad and not requires_grad:
        source = source.detach()
    elif requires_grad and not source.requires_grad:
        source = made(source.array, True)
    return source


def shareable(array: Any) -> Any:
    """`array` if a tensor can share its memory; a warning if it is read-only."""
    from_data.checked_array(array)
    if not array.flags.writeable:
        from_data.warn_once(
            READ_ONLY.format(
                "NumPy array",
                "writing to this tensor will result in undefined behavior",
                "array",
            ),
            4,
        )
        array = array.copy()
    return array


@api(method=False)
def from_numpy(array: Any) -> Any:
    """from_numpy(ndarray) -> Tensor: a tensor that shares the memory of a NumPy array.

    >>> import numpy
    >>> from_numpy(numpy.array([1, 2]))
    tensor([1, 2])
    """
    if not isinstance(array, np.ndarray):
        kind = type(array)
        spelled = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
        raise TypeError(f"expected np.ndarray (got {spelled})")
    return made(shareable(array))


@api(method=False)
def frombuffer(buffer: Any, *, dtype: Any = MISSING, count: int = -1, offset: int = 0,
               requires_grad: bool = False) -> Any:
    """frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False) -> Tensor: shares a buffer.

    >>> frombuffer(bytearray(b"abc"), dtype=uint8)
    tensor([97, 98, 99], dtype=torch.uint8)
    """
    if dtype is MISSING:
        raise TypeError('frombuffer() missing 1 required positional arguments: "dtype"')
    wanted = np_dtype(dtype, "frombuffer")
    try:
        view = memoryview(buffer)
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    length, item = view.nbytes, wanted.itemsize
    if length == 0 or count == 0:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length "
            f"({length} bytes) minus 1"
        )
    if count < 0 and (length - offset) % item:
        raise ValueError(
            f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a multiple "
            f"of element size ({item})"
        )
    if count > 0 and offset + count * item > length:
        raise ValueError(
            f"requested buffer length ({count} * {item} bytes) after offset ({offset} bytes) must not "
            f"be greater than actual buffer length ({length} bytes)"
        )
    array = np.frombuffer(buffer, wanted, count, offset)
    if view.readonly:
        from_data.warn_once(
            READ_ONLY.format(
                "buffer",
                "you can write to the underlying (supposedly non-writable) buffer using the tensor",
                "buffer",
            ),
            3,
        )
        array = array.copy()
    return made(array, requires_grad)


# ---------------------------------------------------------------------- from sizes


def fresh(function: str, size: tuple[Any, ...], keyword: Any, value: Any, dtype: Any, device: Any,
          layout: Any, pin_memory: bool, requires_grad: bool, out: Any = None,
          default: Any = None) -> Any:
    """A tensor of a size, filled with one value (None: not filled)."""
    shape = sizes(function, size, keyword)
    wanted = np_dtype(dtype, function)
    check_options(function, device, layout, pin_memory)
    if out is not None:
        return fill_out(function, out, shape, value, wanted)
    return made(filled(shape, value, wanted or default or dtypes.default_np()), requires_grad)


def filled(shape: tuple[int, ...], value: Any, dtype: Any) -> Any:
    if value is None:
        return np.empty(shape, dtype)
    if type(value) is int and value == 0:
        return np.zeros(shape, dtype)
    array = np.empty(shape, dtype)
    array.fill(value)
    return array


def fill_out(function: str, out: Any, shape: tuple[int, ...], value: Any, wanted: Any) -> Any:
    """The `out=` of a creation function: resized, filled, never recorded."""
    checked_out(function, out, wanted)
    resize_out(out, shape)
    if value is not None:
        out.array[...] = from_data.fill_value(value, out.array.dtype)
    out.version_cell().bump(function)
    return out


def checked_out(function: str, out: Any, wanted: Any) -> None:
    if not isinstance(out, TensorBase):
        raise TypeError(f"{function}(): argument 'out' must be Tensor, not {type(out).__name__}")
    if wanted is not None and wanted != out.array.dtype:
        have, want = dtypes.of(out.array.dtype), dtypes.of(wanted)
        raise RuntimeError(
            f"dtype {want.scalar_type} does not match dtype of out parameter ({have.scalar_type})"
        )
    if out.wants_grad and MODES.grad:
        raise RuntimeError(
            f"aten::{function}(): functions with out=... arguments don't support automatic "
            "differentiation, but one of the arguments requires grad."
        )


def resize_out(out: Any, shape: tuple[int, ...]) -> None:
    if out.array.shape != shape:
        out.array = np.empty(shape, out.array.dtype)


@api(method=False)
def zeros(*size: Any, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
          pin_memory: bool = False, requires_grad: bool = False, **kwargs: Any) -> Any:
    """zeros(*size, out=None, dtype=None, device=None, requires_grad=False) -> Tensor: all zeros.

    >>> zeros(2, 2)
    tensor([[0., 0.],
            [0., 0.]])
    """
    return fresh("zeros", size, kwargs, 0, dtype, device, layout, pin_memory, requires_grad, out)


@api(method=False)
def ones(*size: Any, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
         pin_memory: bool = False, requires_grad: bool = False, **kwargs: Any) -> Any:
    """ones(*size, out=None, dtype=None, device=None, requires_grad=False) -> Tensor: all ones.

    >>> ones((3,), dtype=int64)
    tensor([1, 1, 1])
    """
    return fresh("ones", size, kwargs, 1, dtype, device, layout, pin_memory, requires_grad, out)


@api(method=False)
def empty(*size: Any, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
          pin_memory: bool = False, requires_grad: bool = False, memory_format: Any = None,
          **kwargs: Any) -> Any:
    """empty(*size, out=None, dtype=None, device=None, requires_grad=False) -> Tensor: not initialised.

    >>> empty(2, 3).shape
    torch.Size([2, 3])
    """
    t = fresh("empty", size, kwargs, None, dtype, device, layout, pin_memory, requires_grad, out)
    if memory_format not in (None, contiguous_format, preserve_format):
        t.array = in_format(t.array.shape, t.array.dtype, memory_format)
    return t


@api(method=False)
def full(size: Any, fill_value: Any = MISSING, *, out: Any = None, dtype: Any = None, layout: Any = None,
         device: Any = None, pin_memory: bool = False, requires_grad: bool = False) -> Any:
    """full(size, fill_value, *, dtype=None, device=None, requires_grad=False) -> Tensor: one value.

    >>> full((2,), 7)
    tensor([7, 7])
    """
    if fill_value is MISSING:
        raise TypeError('full() missing 1 required positional arguments: "fill_value"')
    value = number(fill_value, "full", "fill_value", 2)
    if isinstance(size, int):
        raise TypeError("full(): argument 'size' (position 1) must be tuple of ints, not int")
    shape = sizes("full", (size,), {})
    wanted = np_dtype(dtype, "full")
    check_options("full", device, layout, pin_memory)
    if out is not None:
        return fill_out("full", out, shape, value, wanted)
    if wanted is None:
        wanted = value_dtype(value, fill_value)
    return made(filled(shape, from_data.fill_value(value, wanted), wanted), requires_grad)


def value_dtype(value: Any, given: Any) -> Any:
    """The dtype of a tensor full of a number; a tensor's own counts by its category only."""
    if isinstance(value, bool):
        return dtypes.bool_.np
    if isinstance(value, int):
        return dtypes.int64.np
    return dtypes.default_complex().np if isinstance(value, complex) else dtypes.default_np()


def number(value: Any, function: str, argument: str, position: int) -> Any:
    """A Python number from a number, a NumPy scalar or a 0-d tensor without a gradient."""
    if isinstance(value, (bool, int, float, complex)):
        return value
    if isinstance(value, np.generic) and value.dtype.kind in "biufc":
        return value.item()
    if isinstance(value, TensorBase) and value.array.ndim == 0 and not value.wants_grad:
        return from_data.one_element(value, "c")
    name = "Tensor" if isinstance(value, TensorBase) else type(value).__name__
    raise TypeError(f"{function}(): argument '{argument}' (position {position}) must be Number, not {name}")


@api(method=False)
def scalar_tensor(s: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
                  pin_memory: bool = False, requires_grad: bool = False) -> Any:
    """scalar_tensor(s, *, dtype=None, device=None) -> Tensor: a 0-d tensor of the default dtype.

    >>> scalar_tensor(3)
    tensor(3.)
    """
    wanted = np_dtype(dtype, "scalar_tensor") or dtypes.default_np()
    check_options("scalar_tensor", device, layout, pin_memory)
    value = from_data.fill_value(number(s, "scalar_tensor", "s", 1), wanted)
    return made(filled((), value, wanted), requires_grad)


CREATION_OPTIONS = (
    "*, Tensor out = None, torch.dtype dtype = None, torch.layout layout = None, "
    "torch.device device = None, bool pin_memory = False, bool requires_grad = False"
)
EYE_USAGE = (
    "eye() received an invalid combination of arguments - got (), but expected one of:\n"
    f" * (int n, {CREATION_OPTIONS})\n * (int n, int m, {CREATION_OPTIONS})\n"
)


@api(method=False)
def eye(n: Any = MISSING, m: Any = None, *, out: Any = None, dtype: Any = None, layout: Any = None,
        device: Any = None, pin_memory: bool = False, requires_grad: bool = False) -> Any:
    """eye(n, m=None, *, dtype=None, device=None, requires_grad=False) -> Tensor: ones on the diagonal.

    >>> eye(2, dtype=int64)
    tensor([[1, 0],
            [0, 1]])
    """
    if n is MISSING:
        raise TypeError(EYE_USAGE)
    for name, value, position in (("n", n, 1), ("m", m, 2)):
        if value is not None and not hasattr(value, "__index__"):
            raise TypeError(
                f"eye(): argument '{name}' (position {position}) must be int, not {type(value).__name__}"
            )
    rows = int(n)
    columns = rows if m is None else int(m)
    for name, count in (("n", rows), ("m", columns)):
        if count < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {count}")
    wanted = np_dtype(dtype, "eye")
    check_options("eye", device, layout, pin_memory)
    if out is None:
        return made(np.eye(rows, columns, dtype=wanted or dtypes.default_np()), requires_grad)
    return store_out("eye", out, np.eye(rows, columns, dtype=out.array.dtype), wanted)


def store_out(function: str, out: Any, array: Any, wanted: Any) -> Any:
    checked_out(function, out, wanted)
    resize_out(out, array.shape)
    out.array[...] = array
    out.version_cell().bump(function)
    return out


@api(method=False)
def empty_strided(size: Any, stride: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
                  requires_grad: bool = False, pin_memory: bool = False) -> Any:
    """empty_strided(size, stride, *, dtype=None, device=None) -> Tensor: a given memory layout.

    >>> empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    shape = sizes("empty_strided", (size,), {})
    steps = tuple(int(s) for s in stride)
    wanted = np_dtype(dtype, "empty_strided") or dtypes.default_np()
    check_options("empty_strided", device, layout, pin_memory)
    return made(with_strides(shape, steps, wanted), requires_grad)


def with_strides(shape: tuple[int, ...], steps: tuple[int, ...], dtype: Any) -> Any:
    """An array with these strides (in elements), on memory of just the size that they need."""
    if len(shape) != len(steps):
        raise RuntimeError(
            f"dimensionality of sizes ({len(shape)}) must match dimensionality of strides ({len(steps)})"
        )
    if any([s < 0 for s in steps]):
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={list(shape)} and strides={list(steps)}"
        )
    extent = 0 if 0 in shape else 1 + sum([(n - 1) * s for n, s in zip(shape, steps, strict=True)])
    memory = np.empty(extent, dtype)
    return np.lib.stride_tricks.as_strided(memory, shape, [s * memory.itemsize for s in steps])


# ---------------------------------------------------------------------- ranges

RANGE_USAGE = (
    "{0}() received an invalid combination of arguments - got ({1}), but expected one of:\n"
    " * (Number end, *, Tensor out = None, torch.dtype dtype = None, torch.layout layout = None, "
    "torch.device device = None, bool pin_memory = False, bool requires_grad = False)\n"
    " * (Number start, Number end, *, torch.dtype dtype = None, torch.layout layout = None, "
    "torch.device device = None, bool pin_memory = False, bool requires_grad = False)\n"
    " * (Number start, Number end, Number step = 1, *, Tensor out = None, torch.dtype dtype = None, "
    "torch.layout layout = None, torch.device device = None, bool pin_memory = False, "
    "bool requires_grad = False)\n"
)


@api(method=False)
def arange(*args: Any, start: Any = None, end: Any = None, step: Any = None, out: Any = None,
           dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
           requires_grad: bool = False) -> Any:
    """arange(start=0, end, step=1, *, dtype=None, device=None, requires_grad=False) -> Tensor: a range.

    >>> arange(1, 8, 3)
    tensor([1, 4, 7])
    """
    if not args and end is None or len(args) > 3 or (len(args) == 1 and step is not None and end is None):
        got = [type(a).__name__ for a in args] + ([f"step={type(step).__name__}"] if step else [])
        raise TypeError(RANGE_USAGE.format("arange", ", ".join(got)))
    if len(args) == 1 and end is None:
        end = args[0]
    elif args:
        start, end, step = (*args, *(end, step)[len(args) - 1:])[:3]
    given = (0 if start is None else start, end, 1 if step is None else step)
    names = (("end", 1),) * 3 if len(args) == 1 else (("start", 1), ("end", 2), ("step", 3))
    low, high, by = (number(v, "arange", *n) for v, n in zip(given, names, strict=True))
    wanted = np_dtype(dtype, "arange")
    check_options("arange", device, layout, pin_memory)
    target = out.array.dtype if isinstance(out, TensorBase) else wanted
    if target is None:
        whole = all([isinstance(v, int) for v in (low, high, by)])
        target = dtypes.int64.np if whole else range_dtype(given)
    array = range_values(low, high, by, target, "arange_cpu")
    if out is None:
        return made(array, requires_grad)
    if out.array.size and out.array.size != array.size:
        warnings.warn(
            f"The number of elements in the out tensor of shape {list(out.array.shape)} is "
            f"{out.array.size} which does not match the computed number of elements {array.size}. Note "
            "that this may occur as a result of rounding error. The out tensor will be resized to a "
            f"tensor of shape ({array.size},).",
            UserWarning,
            stacklevel=3,
        )
    return store_out("arange", out, array, wanted)


def range_dtype(given: tuple[Any, ...]) -> Any:
    """The default float dtype, or that of the float tensors among the bounds."""
    found = [dtypes.of(v.array.dtype) for v in given
             if isinstance(v, TensorBase) and v.array.dtype.kind in "fV"]
    return found[0].np if found and found[0] is dtypes.float64 else dtypes.default_np()


def check_range(low: Any, high: Any, by: Any) -> None:
    for value in (low, high, by):
        if isinstance(value, complex):
            from_data.overflow("double")
    if by == 0:
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"unsupported range: {low:g} -> {high:g}")
    if (by > 0) != (high >= low) and high != low:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")


def range_values(low: Any, high: Any, by: Any, dtype: Any, kernel: str) -> Any:
    """low, low + by, … below `high`, rounded as PyTorch's vector loop rounds."""
    if dtype.kind in "bc":
        raise NotImplementedError(f'"{kernel}" not implemented for \'{dtypes.of(dtype).scalar_type}\'')
    check_range(low, high, by)
    if dtype.kind in "iu":
        if int(by) == 0:
            raise ValueError("step must be nonzero")
        count = math.ceil((high - low) / by) if isinstance(low + high + by, float) else -((low - high) // by)
        values = int(low) + int(by) * np.arange(count, dtype=np.int64)
        return values.astype(dtype, copy=False)
    count = math.ceil((float(high) - float(low)) / float(by))
    return steps_from(float(low), float(by), count, dtype)


def steps_from(start: float, step: float, count: int, dtype: Any) -> Any:
    """start + i * step. Whole blocks of two vectors start again from a rounded base."""
    width = 32 // dtype.itemsize
    small = dtype.itemsize == 2
    if small:  # half precision is computed in single
        start, step = float(np.float32(start)), float(np.float32(step))
    exact = fused(np.arange(count, dtype=np.float64), step, start)
    out = exact.astype(np.float32).astype(dtype) if small else exact.astype(dtype)
    whole_blocks = count - count % (2 * width)
    if whole_blocks:
        base = out[:whole_blocks:width].astype(np.float64)[:, None]
        lanes = fused(np.arange(width, dtype=np.float64), step, base).reshape(-1)
        out[:whole_blocks] = lanes.astype(np.float32).astype(dtype) if small else lanes.astype(dtype)
    return out


def fused(a: Any, b: float, c: Any) -> Any:
    """a * b + c in float64 with one rounding: the errors of both steps are added back."""
    product = a * b
    a_high, a_low = halves(a)
    b_high, b_low = halves(np.float64(b))
    error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    total = product + c
    back = total - product
    rest = (product - (total - back)) + (c - back)
    return total + (rest + error)


def halves(a: Any) -> tuple[Any, Any]:
    """Two parts of 26 bits, whose products are exact."""
    scaled = a * 134217729.0
    high = scaled - (scaled - a)
    return high, a - high


@api(name="range", method=False)
def range_(start: Any = 0, end: Any = None, step: Any = 1, *, out: Any = None, dtype: Any = None,
           layout: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """range(start=0, end, step=1, *, dtype=None) -> Tensor: a range with its end (deprecated).

    >>> range(0, 2)
    tensor([0., 1., 2.])
    """
    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is "
        "inconsistent with Python's range builtin. Instead, use torch.arange, which produces values in "
        "[start, end).",
        UserWarning,
        stacklevel=3,
    )
    if end is None:
        start, end = 0, start
    check_range(start, end, step)
    target = np_dtype(dtype, "range") or dtypes.default_np()
    checked_device(device, "range")
    count = int((end - start) / step) + 1
    array = steps_from(float(start), float(step), count, target) if target.kind in "fV" else (
        start + step * np.arange(count)).astype(target)
    return made(array, requires_grad) if out is None else store_out("range", out, array, None)


def space_bounds(function: str, start: Any, end: Any, steps: Any, dtype: Any) -> tuple[Any, ...]:
    """Bounds, count and dtype of linspace and logspace, checked."""
    tensors = [isinstance(v, TensorBase) for v in (start, end)]
    if any(tensors) and any([v.array.ndim for v in (start, end) if isinstance(v, TensorBase)]):
        dims = [v.array.ndim if isinstance(v, TensorBase) else 0 for v in (start, end)]
        raise RuntimeError(
            f"{function} only supports 0-dimensional start and end tensors, but got start with "
            f"{dims[0]} dimension(s) and end with {dims[1]} dimension(s)."
        )
    if isinstance(steps, bool) or not hasattr(steps, "__index__"):
        given = [type(v).__name__ for v in (start, end, steps) if v is not None]
        raise TypeError(
            f"{function}() received an invalid combination of arguments - got ({', '.join(given)}), but "
            f"expected one of:\n * (Number or Tensor start, Number or Tensor end, int steps, "
            f"{CREATION_OPTIONS})\n"
        )
    low, high = number(start, function, "start", 1), number(end, function, "end", 2)
    count = int(steps)
    if count < 0:
        raise RuntimeError("number of steps must be non-negative")
    is_complex = isinstance(low, complex) or isinstance(high, complex)
    if dtype is None:
        dtype = dtypes.default_complex().np if is_complex else dtypes.default_np()
    elif is_complex and dtype.kind != "c":
        want = dtypes.of(dtype)
        raise RuntimeError(
            f"torch.{function}(): inferred dtype {from_data.C_NAMES[dtypes.default_complex().name]} "
            f"can't be safely cast to passed dtype {want.scalar_type}"
        )
    if dtype.kind == "b":
        raise NotImplementedError(f'"{function}_cpu" not implemented for \'Bool\'')
    return low, high, count, dtype


def evenly(low: Any, high: Any, count: int, dtype: Any) -> Any:
    """`count` values from both ends towards the middle, each with one rounding."""
    if count == 1:
        return np.asarray([low]).astype(dtype)
    index = np.arange(count)
    back = count - 1 - index
    if dtype.kind == "c":
        part = np.float64 if dtype.itemsize == 16 else np.float32
        step = dtype.type((dtype.type(high) - dtype.type(low)) / part(max(count - 1, 1)))
        return np.where(index < count // 2, dtype.type(low) + step * index.astype(part),
                        dtype.type(high) - step * back.astype(part)).astype(dtype)
    if dtype.itemsize == 2 and dtype.kind in "fV":
        return evenly_half(low, high, index, back, dtype)
    work = dtype if dtype.kind == "f" else np.dtype(np.float64)
    if dtype.kind in "iu":
        low, high = from_data.fill_value(low, dtype), from_data.fill_value(high, dtype)
    first, last = work.type(low), work.type(high)
    step = float(work.type((last - first) / work.type(max(count - 1, 1))))
    up = fused(index.astype(np.float64), step, float(first))
    down = fused(back.astype(np.float64), -step, float(last))
    return np.where(index < count // 2, up, down).astype(dtype)


def evenly_half(low: Any, high: Any, index: Any, back: Any, dtype: Any) -> Any:
    """`evenly` for half precision, where every step is rounded."""

    def rounded(x: Any) -> Any:
        return np.asarray(x).astype(np.float32).astype(dtype).astype(np.float32)

    first, last = rounded(low), rounded(high)
    step = rounded(rounded(last - first) / rounded(max(len(index) - 1, 1)))
    up = first + rounded(step * rounded(index))
    down = last - rounded(step * rounded(back))
    return np.where(index < len(index) // 2, up, down).astype(dtype)


@api(method=False)
def linspace(start: Any, end: Any, steps: Any = None, *, out: Any = None, dtype: Any = None,
             layout: Any = None, device: Any = None, pin_memory: bool = False,
             requires_grad: bool = False) -> Any:
    """linspace(start, end, steps, *, dtype=None, device=None) -> Tensor: evenly spaced, both ends in.

    >>> linspace(0, 1, 5)
    tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    wanted = np_dtype(dtype, "linspace")
    check_options("linspace", device, layout, pin_memory)
    target = out.array.dtype if out is not None else wanted
    array = evenly(*space_bounds("linspace", start, end, steps, target))
    return made(array, requires_grad) if out is None else store_out("linspace", out, array, wanted)


@api(method=False)
def logspace(start: Any, end: Any, steps: Any = None, base: float = 10.0, *, out: Any = None,
             dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
             requires_grad: bool = False) -> Any:
    """logspace(start, end, steps, base=10.0, *, dtype=None) -> Tensor: powers with even exponents.

    >>> logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    wanted = np_dtype(dtype, "logspace")
    check_options("logspace", device, layout, pin_memory)
    target = out.array.dtype if out is not None else wanted
    low, high, count, target = space_bounds("logspace", start, end, steps, target)
    work = target if target.kind in "fc" else np.dtype(np.float64)
    exponents = evenly(low, high, count, work)
    wide = np.complex128 if target.kind == "c" else np.float64
    array = np.power(wide(base), exponents.astype(wide)).astype(target)
    return made(array, requires_grad) if out is None else store_out("logspace", out, array, wanted)


# ---------------------------------------------------------------------- like others


def in_format(shape: tuple[int, ...], dtype: Any, memory_format: Any) -> Any:
    """An array whose channels vary fastest."""
    rank = 4 if memory_format is channels_last else 5
    if len(shape) != rank:
        name = "channels_last" if rank == 4 else "channels_last_3d"
        raise RuntimeError(f"required rank {rank} tensor to use {name} format")
    order = (0, *range(2, rank), 1)
    memory = np.empty([shape[i] for i in order], dtype)
    return memory.transpose((0, rank - 1, *range(1, rank - 1)))


def like(input: Any, dtype: Any, memory_format: Any = None) -> Any:
    """An array with the shape and, if it is dense, the memory order of a tensor's."""
    array = input.array
    if dtype is None:
        dtype = array.dtype
    if memory_format in (channels_last, channels_last_3d):
        return in_format(array.shape, dtype, memory_format)
    if memory_format is contiguous_format or not array.ndim:
        return np.empty(array.shape, dtype)
    return with_strides(array.shape, like_strides(array), dtype)


def like_strides(array: Any) -> tuple[int, ...]:
    """Strides (in elements) for a dense tensor in the order of another: its own, if it is dense."""
    shape, strides = array.shape, [s // array.itemsize for s in array.strides]
    order = stride_order(shape, strides)
    out = [0] * array.ndim
    step = 1
    dense = True
    for i in order:
        dense = dense and (shape[i] == 1 or strides[i] == step)
        out[i] = step
        step *= max(shape[i], 1)
    return tuple(strides if dense else out)


def stride_order(shape: tuple[int, ...], strides: list[int]) -> list[int]:
    """Dimensions from the fastest to the slowest; those that repeat (stride 0) stay where they are."""
    order = list(range(len(shape) - 1, -1, -1))
    for i in range(1, len(order)):
        low = i
        for j in range(i - 1, -1, -1):
            a, b = order[j], order[low]
            if strides[a] == 0 or strides[b] == 0:
                continue
            if (strides[a], shape[a]) > (strides[b], shape[b]):
                order[j], order[low] = b, a
                low = j
            elif strides[a] < strides[b]:
                break
    return order


def like_tensor(function: str, input: Any, value: Any, dtype: Any, layout: Any, device: Any,
                pin_memory: bool, requires_grad: bool, memory_format: Any) -> Any:
    checked_tensor(input, function)
    wanted = np_dtype(dtype, function)
    if device is not None or layout is not None or pin_memory:
        check_options(function, device, layout, pin_memory)
    array = like(input, wanted, memory_format)
    if value is not None:
        array.fill(from_data.fill_value(value, array.dtype))
    return made(array, requires_grad)


@api(method=False)
def zeros_like(input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
               pin_memory: bool = False, requires_grad: bool = False, memory_format: Any = None) -> Any:
    """zeros_like(input, *, dtype=None, device=None, requires_grad=False) -> Tensor: zeros of its shape.

    >>> zeros_like(tensor([1, 2]))
    tensor([0, 0])
    """
    return like_tensor("zeros_like", input, 0, dtype, layout, device, pin_memory, requires_grad,
                       memory_format)


@api(method=False)
def ones_like(input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
              pin_memory: bool = False, requires_grad: bool = False, memory_format: Any = None) -> Any:
    """ones_like(input, *, dtype=None, device=None, requires_grad=False) -> Tensor: ones of its shape.

    >>> ones_like(tensor([5.0, 6.0]))
    tensor([1., 1.])
    """
    return like_tensor("ones_like", input, 1, dtype, layout, device, pin_memory, requires_grad,
                       memory_format)


@api(method=False)
def empty_like(input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
               pin_memory: bool = False, requires_grad: bool = False, memory_format: Any = None) -> Any:
    """empty_like(input, *, dtype=None, device=None, requires_grad=False) -> Tensor: not initialised.

    >>> empty_like(zeros(2, 3)).shape
    torch.Size([2, 3])
    """
    return like_tensor("empty_like", input, None, dtype, layout, device, pin_memory, requires_grad,
                       memory_format)


@api(method=False)
def full_like(input: Any, fill_value: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
              pin_memory: bool = False, requires_grad: bool = False, memory_format: Any = None) -> Any:
    """full_like(input, fill_value, *, dtype=None, device=None) -> Tensor: one value, of its shape.

    >>> full_like(tensor([1, 2]), 2.75)
    tensor([2, 2])
    """
    value = number(fill_value, "full_like", "fill_value", 2)
    return like_tensor("full_like", input, value, dtype, layout, device, pin_memory, requires_grad,
                       memory_format)


@api(function=False)
def new_tensor(self: Any, data: Any, *, dtype: Any = None, device: Any = None,
               requires_grad: bool = False, layout: Any = None, pin_memory: bool = False) -> Any:
    """new_tensor(data, *, dtype=None, device=None, requires_grad=False) -> Tensor: a copy in self's dtype.

    >>> tensor([1.0]).new_tensor([1, 2])
    tensor([1., 2.])
    """
    return from_any(data, "new_tensor", "tensor.new_tensor", dtype or dtypes.of(self.array.dtype), device,
                    requires_grad, pin_memory)


@api(function=False)
def new_zeros(self: Any, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False,
              layout: Any = None, pin_memory: bool = False, **kwargs: Any) -> Any:
    """new_zeros(*size, dtype=None, device=None, requires_grad=False) -> Tensor: zeros of self's dtype.

    >>> tensor([1]).new_zeros(2)
    tensor([0, 0])
    """
    return fresh("new_zeros", size, kwargs, 0, dtype, device, layout, pin_memory, requires_grad,
                 default=self.array.dtype)


@api(function=False)
def new_ones(self: Any, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False,
             layout: Any = None, pin_memory: bool = False, **kwargs: Any) -> Any:
    """new_ones(*size, dtype=None, device=None, requires_grad=False) -> Tensor: ones of self's dtype.

    >>> tensor([1]).new_ones((2,))
    tensor([1, 1])
    """
    return fresh("new_ones", size, kwargs, 1, dtype, device, layout, pin_memory, requires_grad,
                 default=self.array.dtype)


@api(function=False)
def new_empty(self: Any, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False,
              layout: Any = None, pin_memory: bool = False, **kwargs: Any) -> Any:
    """new_empty(*size, dtype=None, device=None, requires_grad=False) -> Tensor: not initialised.

    >>> tensor([1]).new_empty(2).dtype
    torch.int64
    """
    return fresh("new_empty", size, kwargs, None, dtype, device, layout, pin_memory, requires_grad,
                 default=self.array.dtype)


@api(function=False)
def new_empty_strided(self: Any, size: Any, stride: Any, dtype: Any = None, layout: Any = None,
                      device: Any = None, pin_memory: bool = False, requires_grad: bool = False) -> Any:
    """new_empty_strided(size, stride, dtype=None) -> Tensor: a given memory layout, self's dtype.

    >>> tensor([1]).new_empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    return empty_strided(size, stride, dtype=dtype or dtypes.of(self.array.dtype), layout=layout,
                         device=device, requires_grad=requires_grad, pin_memory=pin_memory)


@api(function=False)
def new_full(self: Any, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None,
             requires_grad: bool = False, layout: Any = None, pin_memory: bool = False) -> Any:
    """new_full(size, fill_value, *, dtype=None, device=None) -> Tensor: one value, self's dtype.

    >>> tensor([1.0]).new_full((2,), 5)
    tensor([5., 5.])
    """
    return full(size, fill_value, dtype=dtype or dtypes.of(self.array.dtype), layout=layout,
                device=device, requires_grad=requires_grad, pin_memory=pin_memory)


# ---------------------------------------------------------------------- questions


@api(method=False)
def is_tensor(obj: Any) -> bool:
    """is_tensor(obj) -> bool: whether `obj` is a tensor.

    >>> is_tensor([1]), is_tensor(tensor([1]))
    (False, True)
    """
    return isinstance(obj, TensorBase)


@api(method=False)
def numel(input: Any) -> int:
    """numel(input) -> int: how many elements it has.

    >>> numel(zeros(2, 3))
    6
    """
    return checked_tensor(input, "numel").array.size  # type: ignore[no-any-return]


@api(method=False)
def is_floating_point(input: Any) -> bool:
    """is_floating_point(input) -> bool: whether its dtype is a float.

    >>> is_floating_point(tensor([1]))
    False
    """
    return dtypes.of(checked_tensor(input, "is_floating_point").array.dtype).is_floating_point


@api(method=False)
def is_complex(input: Any) -> bool:
    """is_complex(input) -> bool: whether its dtype is complex.

    >>> is_complex(tensor([1j]))
    True
    """
    return dtypes.of(checked_tensor(input, "is_complex").array.dtype).is_complex


@api()
def is_nonzero(input: Any) -> bool:
    """is_nonzero(input) -> bool: the truth of a one-element tensor.

    >>> is_nonzero(tensor([2.0]))
    True
    """
    array = checked_tensor(input, "is_nonzero").array
    if array.size != 1:
        many = "more than one value" if array.size else "no values"
        raise RuntimeError(f"Boolean value of Tensor with {many} is ambiguous")
    return bool(array.astype(bool).item())


RESULT_TYPE = (
    "result_type() received an invalid combination of arguments - got ({}), but expected one of:\n"
    " * (Tensor tensor, Tensor other)\n * (Number scalar, Tensor tensor)\n"
    " * (Tensor tensor, Number other)\n * (Number scalar1, Number scalar2)\n"
)


@api(method=False)
def result_type(*args: Any, **kwargs: Any) -> dtypes.dtype:
    """result_type(tensor1, tensor2) -> dtype: what arithmetic on the two would have.

    >>> result_type(tensor([1]), 1.5)
    torch.float32
    """
    values = [*args, *kwargs.values()]
    kinds = (TensorBase, bool, int, float, complex, np.generic)
    if len(values) != 2 or not all([isinstance(v, kinds) for v in values]):
        raise TypeError(RESULT_TYPE.format(", ".join([type(v).__name__ for v in values])))
    return promote.result_dtype([v.array if isinstance(v, TensorBase) else v for v in values])
