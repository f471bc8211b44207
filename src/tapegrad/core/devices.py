"""Tensors on a GPU: their arrays are CuPy's, and everything peculiar to them is here.

A tensor around a device array is `_special`, so the fast paths of dispatch.py pay nothing for it:
where only the kernel differs, they run that kernel. `apply` there asks here for arguments
on one device and for the kernel with its dtypes. A kernel is the block's own forward with CuPy for
`xp`, or an override of `backends/`.

Nothing here is used, and CuPy is not imported, before `cuda.runtime` finds a GPU to use.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..device import CPU
from .base import STATE, TensorBase, ndarray, wrap
from .dispatch import REALS, common_dtype, holds_array, number_as
from .gradient_memory import ArrayMemory
from .host_arrays import host
from .late_bound import GPU, ON_DEMAND
from .lazy_conj import plain
from .op import REGISTRY, Op
from .python_dispatch import same_always
from .record import FLOATS
from .rule_functions import RAW, DeviceSpace
from .transforms.batched import physical_array

F32 = np.dtype(np.float32)


class Device:
    """The state of the process once a GPU is used."""

    xp: Any = None  # CuPy, or what a test puts in its place
    backend: Any = None
    space: Any = None  # F for device arrays
    capture: Any = None  # cuda/graphs.py, once it is used
    ranges: Any = None  # kernels/cuda/launchers/ranges.py, where there are kernels

    def capturing(self) -> bool:
        """Whether work is being recorded into a CUDA graph instead of run."""
        return self.capture is not None and bool(self.capture.capturing())

    def waited(self) -> None:
        """Raise if a kernel found an index out of range; called whenever the host has waited."""
        if self.ranges is not None:
            self.ranges.tell()

    def refuse_in_graph(self, what: str) -> None:
        """Raise if work is being recorded: `what` cannot be part of a graph."""
        if self.capture is not None:
            self.capture.refuse(what)


DEVICE = Device()


def meaning(name: str) -> Any:
    """The function that `F.<name>` means for device arrays; looked up on first use by a rule."""
    record = REGISTRY.get(name)
    if record is not None:
        return kernel_of(record)
    return DEVICE.backend.overrides.get(name) or getattr(RAW, name)  # a helper of rules


def use(xp: Any, backend: Any) -> None:
    """From now on arrays of `xp` are arrays on a device."""
    DEVICE.xp = backend.xp
    DEVICE.backend = backend
    DEVICE.space = GPU.raw = DeviceSpace(meaning)
    STATE.device_type = xp.ndarray
    STATE.elsewhere = True
    GPU.memory = DeviceMemory()
    DEVICE.ranges = backend.ranges
    GPU.watch_range = None if backend.ranges is None else backend.ranges.look
    for record in REGISTRY.values():
        record.device.clear()


def kernel_of(record: Op) -> Any:
    """The kernel that an op runs on the device."""
    side = record.device
    if side.kernel is None:
        side.kernel = DEVICE.backend.kernel(record)
        side.pull = DEVICE.backend.pull(record)
        side.mixed = DEVICE.backend.mixed.get(record.name)
    return side.kernel


def raw_space(grad: Any) -> Any:
    """F for a gradient: the functions for bare arrays of the device that it is on."""
    if type(grad) is list:
        parts: list[Any] = grad
        grad = None
        for g in parts:
            if g is not None:
                grad = g
                break
    return DEVICE.space if type(grad) is STATE.device_type else RAW


class DeviceMemory(ArrayMemory):
    """How a backward pass adds, copies and compares arrays on a GPU."""

    def may_add_into(self, target: Any, other: Any) -> bool:
        return (
            target.base is None
            and target.dtype is other.dtype
            and target.shape == other.shape
            and bool(target._c_contiguous)  # faster than by its flags
        )

    def add_into(self, target: Any, other: Any) -> None:
        DEVICE.backend.add_into(target, other)

    def sum_of(self, first: Any, second: Any) -> Any:
        if first.dtype is second.dtype:
            return DEVICE.space.add(first, second)
        return first + second

    def accumulate(self, kept: Any, g: Any) -> None:
        if self.may_add_into(kept, g):
            self.add_into(kept, g)
        else:
            np.add(kept, g, kept, casting="unsafe")

    def share(self, g: Any, total: Any) -> bool:
        return type(total) is STATE.device_type and g.data.mem is total.data.mem

    def fits(self, g: Any, layout: Any) -> bool:
        return bool(g._c_contiguous)

    def settled(self, g: Any, layout: Any) -> Any:
        return g

    def copy(self, g: Any, layout: Any) -> Any:
        if layout.flags.c_contiguous or not layout.flags.forc:
            return DEVICE.backend.copied(g)
        return super().copy(g, layout)

    def zeros(self, like: Any, shape: Any, dtype: Any) -> Any:
        return np.zeros(shape, dtype, like=like)

    def cast_together(self, arrays: list[Any], dtype: Any) -> Any:
        """Cast several arrays to another dtype by one kernel; None where no kernel takes them."""
        return DEVICE.backend.casts(arrays, dtype, False)


def is_device(t: Any) -> bool:
    """Whether a tensor is on a device. A batched one has no array of its own: ask its memory."""
    return isinstance(t, TensorBase) and type(t._array) is STATE.device_type


def xp_of(array: Any) -> Any:
    """The module that computes with an array."""
    kind = type(array)
    if kind is STATE.meta_type and kind is not None:
        from . import meta

        return meta.XP
    return DEVICE.xp if kind is STATE.device_type and DEVICE.xp is not None else host


def uploaded(array: Any) -> Any:
    """A copy of a NumPy array on the device, with the same order in memory."""
    DEVICE.refuse_in_graph("a copy from the host")
    if array.flags.c_contiguous:
        return DEVICE.xp.asarray(array)
    order, back = memory_order(array)
    return DEVICE.xp.asarray(np.ascontiguousarray(array.transpose(order))).transpose(back)


def to_host(array: Any) -> Any:
    """A NumPy array with the values, in the same order in memory; NumPy's own as they are."""
    if type(array) is not STATE.device_type:
        return array
    DEVICE.refuse_in_graph("a copy to the host")
    if array.flags.c_contiguous:
        values = array.get()
    else:
        order, back = memory_order(array)
        values = array.transpose(order).get().transpose(back)
    DEVICE.waited()
    return values


def memory_order(array: Any) -> tuple[list[int], list[int]]:
    """The dimensions from the slowest in memory to the fastest, and the way back."""
    strides = array.strides
    order = sorted(range(array.ndim), key=lambda d: (-strides[d], d))
    return order, [order.index(d) for d in range(array.ndim)]


def where_is(like: Any, array: Any) -> Any:
    """Copy a NumPy array to the device of `like`, an array or a tensor."""
    if STATE.device_type is None and STATE.meta_type is None:
        return array
    found = physical_array(like) if isinstance(like, TensorBase) else like
    if type(found) is STATE.meta_type:
        return xp_of(found).asarray(array)
    return placed(array, found.device.id) if type(found) is STATE.device_type else array


def on_device_of(like: Any, array: Any) -> Any:
    """A tensor with the values of a NumPy array, which depend on no tensor's, where `like` is."""
    return same_always(wrap(where_is(like, array)))


def has_device(tensors: Any) -> bool:
    return any([is_device(t) for t in tensors])


def on_one_device(
    op: Op, tensors: tuple[Any, ...], attrs: tuple[Any, ...], written: bool = False
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Bring arguments to one device where PyTorch allows it; its error for all others.

    A 0-d tensor on the CPU may be an argument wherever a number may. The first argument stays on
    its device if it is `written`.
    """
    device_type = STATE.device_type
    if not op.view and holds_array(attrs):
        attrs = tuple([on_device(a) for a in attrs])
    if STATE.several and not op.across_devices:
        check_same_gpu(tensors, attrs)
    for i, t in enumerate(tensors):
        if isinstance(t, TensorBase) and type(t._array) is not device_type:
            if t._array.ndim or (written and i == 0):
                raise two_devices(tensors)
            if not op.numbers and not op.host_number:
                raise two_devices(tensors)
            tensors = (*tensors[:i], number_beside(t), *tensors[i + 1 :])
    return tensors, attrs


def check_same_gpu(tensors: tuple[Any, ...], attrs: tuple[Any, ...]) -> None:
    """PyTorch's error for tensors on two GPUs; `attrs` may hold indices."""
    device_type = STATE.device_type
    given = list(tensors)
    for value in attrs:
        for x in value if type(value) is tuple else (value,):
            if type(x) is device_type:
                given.append(wrap(x))
    if len({t._array.device.id for t in given if is_device(t)}) > 1:
        raise two_devices(given)


def number_beside(t: Any) -> Any:
    """Copy a 0-d tensor to the current GPU; the copy is recorded if it needs a gradient."""
    if t._wants_grad:
        runtime = ON_DEMAND.cuda_runtime()
        return runtime.move(t, runtime.index_of(None))
    return wrap(DEVICE.xp.full((), plain(t._array)[()], t._array.dtype))


def storable(destination: Any, value: Any) -> Any:
    """A value that can be assigned to a device array: an array of its device, or a number."""
    if type(value) is ndarray:
        return where_is(destination, value) if value.ndim else value[()]
    return value


def run_kernel(op: Op, arrays: list[Any], attrs: tuple[Any, ...]) -> Any:
    """The kernel on device arrays of one dtype."""
    down = None
    if op.guard is not None:
        op.guard(*[stand_in(x) for x in arrays])
    kernel = kernel_of(op)
    try:
        if op.dtype_rule:
            if op.device.mixed is not None and not attrs:
                out = op.device.mixed(*arrays)
                if out is not None:
                    return out
            down = unify(op, arrays)
        out = kernel(arrays, *attrs) if op.variadic else kernel(*arrays, *attrs)
    except MemoryError as error:
        raise no_memory(error) from None
    except ValueError:
        if op.broadcasts:
            from ..errors import check_broadcast

            check_broadcast([stand_in(x) for x in arrays])
        raise
    if down is not None and out.dtype.kind in FLOATS:
        return DEVICE.space.cast(out, down)
    return out


def unify(op: Op, arrays: list[Any]) -> Any:
    """`dispatch.unify` for device arrays: cast the items of the list; the dtype to go back to."""
    dtype = quick_dtype(op, arrays)
    if dtype is None:
        dtype = common_dtype(op, [stand_in(x) for x in arrays])
    down = None
    device_type = STATE.device_type
    if dtype.itemsize == 2 and dtype.kind in FLOATS:
        if not all([type(x) is device_type for x in arrays]):
            down = dtype
            dtype = F32
    for i, x in enumerate(arrays):
        if type(x) is device_type:
            if x.dtype is not dtype and x.dtype != dtype:
                arrays[i] = DEVICE.space.cast(x, dtype)
        elif type(x) is ndarray:
            arrays[i] = x.astype(dtype)[()]  # one number of the host
        elif x is not None:
            arrays[i] = number_as(x, dtype)
    return down


def quick_dtype(op: Op, arrays: list[Any]) -> Any:
    """The widest dtype of real floats (numbers do not count); None: use the general promotion."""
    found = None
    ranked = False
    for x in arrays:
        if type(x) is STATE.device_type:
            dtype = x.dtype
            if dtype.kind not in REALS:
                return None
            if found is None:
                found = dtype
                ranked = x.ndim != 0
            elif found is not dtype and found != dtype:
                if ranked != (x.ndim != 0):
                    return None  # the one without dimensions does not count
                if dtype.itemsize == found.itemsize:
                    found = F32  # the two kinds of half precision
                elif dtype.itemsize > found.itemsize:
                    found = dtype
        elif type(x) is not float and type(x) is not int:
            return None
    return found


def stand_in(x: Any) -> Any:
    """A NumPy array of the shape and dtype of a device array; it has no memory of its own."""
    if type(x) is STATE.device_type:
        return np.broadcast_to(np.zeros((), x.dtype), x.shape)
    return x


def on_device(value: Any) -> Any:
    """An attribute with the index arrays in it on the device."""
    if type(value) is ndarray:
        return DEVICE.xp.asarray(value)
    if type(value) is tuple and any([type(v) is ndarray for v in value]):
        return tuple([on_device(v) for v in value])
    return value


def created(api: Any, call: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Call a function that makes a tensor, with the device that was asked for or is the default."""
    device = kwargs.get("device")
    if goes_to_meta(api, device, args, kwargs):
        from . import meta

        return meta.created(api, call, args, kwargs)
    if STATE.device_type is None and (device is None or device == "cpu" or device == CPU):
        return call(*args, **kwargs)
    runtime = ON_DEMAND.cuda_runtime()
    first = args[0] if args else kwargs.get("input")
    place: int | None
    if device is not None:
        place = runtime.target(device)
    elif api.name.startswith("new_"):
        place = runtime.place_of(first)
        place = None if place < 0 else place
    elif api.name.endswith("_like") or kwargs.get("out") is not None:
        place = None
    else:
        place = None if api.follows and is_device(first) else runtime.target(None)
    if place is None:
        return call(*args, **kwargs)
    if api.direct:
        try:
            with DEVICE.xp.cuda.Device(place):
                return call(*args, **{**kwargs, "device": runtime.device_at(place)})
        except MemoryError as error:
            raise no_memory(error) from None
    t = call(*args, **{**kwargs, "device": CPU})
    if not isinstance(t, TensorBase):
        return t
    made = wrap(placed(t._array, place))
    made._wants_grad = t._wants_grad
    return made


def goes_to_meta(api: Any, device: Any, args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether a new tensor is on meta: by `device=`, as the tensor it is like, or by default."""
    if api.name in ("linspace", "logspace"):
        given = (*args, kwargs.get("start"), kwargs.get("end"))
        if any([isinstance(t, TensorBase) and type(t._array) is STATE.meta_type for t in given]):
            return True
    if device is not None:
        return str(device).partition(":")[0] == "meta"
    first = args[0] if args else kwargs.get("input")
    if api.name.startswith("new_"):
        return isinstance(first, TensorBase) and type(first._array) is STATE.meta_type
    if api.name.endswith("_like") or kwargs.get("out") is not None:
        return False
    from ..core.settings import Default
    from ..device import entered

    device = entered() or Default.device
    return device is not None and device.type == "meta"


def default_device() -> Any:
    """The device that new tensors go to: that of `with torch.device(…)`, or the default."""
    from ..core.settings import Default
    from ..device import device, entered

    found = entered() or Default.device or CPU
    if found.type == "cuda" and found.index is None:
        return device("cuda", ON_DEMAND.cuda_runtime().index_of(found))
    return found


def no_memory(error: MemoryError) -> Exception:
    """PyTorch's error where CuPy's says that the GPU is full; an error of NumPy's unchanged."""
    explained: Exception = ON_DEMAND.out_of_memory(error)
    return explained


def placed(array: Any, place: int) -> Any:
    """A NumPy array on a GPU."""
    with DEVICE.xp.cuda.Device(place):
        return uploaded(array)


def sent(array: Any, xp: Any) -> Any:
    """An array copied to where `xp` computes: the host, or the current GPU."""
    if xp is host:
        return to_host(array)
    if xp is not DEVICE.xp:
        return xp.asarray(array)
    return array if type(array) is STATE.device_type else uploaded(array)


def two_devices(tensors: Any) -> Exception:
    found = dict.fromkeys([str(t.device) for t in tensors if isinstance(t, TensorBase)])  # type: ignore[attr-defined]
    first, second = sorted(found, key=lambda name: name == "cpu")[:2]
    return RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{first} and {second}!"
    )


GPU.space = raw_space
GPU.arguments = on_one_device
GPU.run_kernel = run_kernel
GPU.created = created
