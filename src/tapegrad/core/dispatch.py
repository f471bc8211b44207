"""From a call to a result: unwrap, run the kernel, wrap, record a node if a gradient is wanted.

`unary` and `binary` are fast paths for elementwise ops on float tensors; everything else goes
through `apply`. Tensors on a GPU take the same paths with another kernel; what is peculiar to them
is in devices.py.
docs/notes/call-to-node.md follows one call through.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from .. import dtypes
from ..errors import must_be_tensor
from . import promote
from .base import (
    COMPILED,
    F32,
    F64,
    ON_DEVICE,
    STATE,
    Cut,
    TensorBase,
    View,
    alike,
    as_array,
    cell_of,
    enter,
    ndarray,
    quiet,
    wrap,
)
from .late_bound import AUTOCAST, GPU, INTERPRETERS, PROFILER, VIEWS
from .modes import MODES
from .node import OpNode
from .op import PROMOTE_FLOAT, Op
from .record import (
    FLOATS,
    adapt,
    finish,
    fix_of,
    note_cut,
    record_one,
    record_two,
    without_counter,
)
from .rounding import before_rounding_to, half_as_single, rounded_to
from .strides import meet, overlaps_itself

NUMBERS: Final = (int, float, complex, np.generic)
REALS: Final = "fV"  # NumPy kinds of real floats (bfloat16 is a void kind)
LARGE: Final = (1 << 62) - 1  # ints below it are checked without allocating
PLAIN_ATTRS: Final[set[tuple[Any, ...]]] = set()  # attributes without an array of the host
MOST_ATTRS: Final = 4096


def is_stale(t: TensorBase) -> bool:
    """Whether a tensor is a view whose memory was written since its history was made."""
    view = t._view_of
    return view is not None and cell_of(t).n != view.seen


def is_unrecorded(modes_on: int) -> bool:
    """Whether no_grad is the only mode that is on in this thread; `modes_on` counts all of them."""
    return modes_on == STATE.only_unrecorded and not MODES.records


def unary(op: Op, a: Any) -> Any:
    """An elementwise op of one float tensor."""
    modes_on = STATE.modes_on
    if not isinstance(a, TensorBase) or (modes_on and not is_unrecorded(modes_on)):
        return apply(op, (a,))
    return unary_plain(op, a, not modes_on)


def unary_plain(op: Op, a: TensorBase, records: bool = True) -> Any:
    """`unary` where no mode is on. Its argument has a type: compiled code checks it once."""
    x = a._array
    if alike(x, x) == 0 or (a._view_of is not None and is_stale(a)):
        return apply(op, (a,))
    if a._special:
        out = device_result(op, a._special, (x,))
        if out is None:
            return apply(op, (a,))
    else:
        try:
            out = op.kernel(x) if op.native else enter(op.kernel, x)
        except RuntimeError:
            return apply(op, (a,))  # another thread is in the quiet context
        if type(out) is not ndarray:
            out = np.asarray(out)
    t = wrap(out)
    if not a._wants_grad:
        t._cut = a._cut
    elif not op.differentiable:
        t._cut = Cut(op.name, a)
    elif records:
        record_one(op, a, (), t)
    else:
        t._cut = Cut("no_grad", a)
    return t


def binary(op: Op, a: Any, b: Any) -> Any:
    """An elementwise op of two float tensors of one dtype, or of a float tensor and a number.

    On a GPU of half precision too, and of two dtypes. Autocast may be on where it leaves ops alone.
    """
    modes_on = STATE.modes_on
    if not isinstance(a, TensorBase):
        if op.differentiable and isinstance(a, NUMBERS) and isinstance(b, NUMBERS):
            a = number_tensor(a)
        return apply(op, (a, b))
    if modes_on and (op.autocast is not None or modes_on != STATE.only_casting):
        if is_unrecorded(modes_on):
            return binary_plain(op, a, b, False)
        return apply(op, (a, b))
    return binary_plain(op, a, b)


def number_tensor(value: Any) -> TensorBase:
    """A number as a 0-d tensor of the dtype that PyTorch gives it: floats have the default one."""
    if type(value) is int:
        dtypes.scalar_dtype(value)  # refuses what neither int64 nor uint64 holds
    array = np.asarray(value)
    if array.dtype.kind == "f":
        array = array.astype(dtypes.default_np())
    elif array.dtype.kind == "c":
        array = array.astype(dtypes.default_complex().np)
    return wrap(array)


def binary_plain(op: Op, a: TensorBase, b: Any, records: bool = True) -> Any:
    """`binary` where no mode has a say. Its argument has a type, as in `unary_plain`."""
    x = a._array
    y: Any = b
    other: TensorBase | None = None
    fit = 0
    if isinstance(b, TensorBase):
        other = b
        if other._special == a._special and (other._view_of is None or not is_stale(other)):
            y = other._array
            fit = alike(x, y)
            if fit == 0 and a._special == ON_DEVICE and x.dtype.kind in REALS:
                if y.dtype is not x.dtype:
                    return of_two_dtypes(op, a, other) if records else apply(op, (a, b))
                fit = 2
    elif type(b) is float:
        fit = alike(x, x)
    elif type(b) is int:
        number: int = b
        if -LARGE < number < LARGE:
            fit = alike(x, x)
    if fit == 0 or (a._view_of is not None and is_stale(a)):
        return apply(op, (a, b))
    if a._special:
        out = device_result(op, a._special, (x, y))
        if out is None:
            return apply(op, (a, b))
    else:
        try:
            if op.native:
                out = op.kernel(x, y)
            elif x.flags.c_contiguous and (other is None or y.flags.c_contiguous):
                out = enter(op.by_rows, x, y)
            else:
                out = enter(op.kernel, x, y)
        except (ValueError, RuntimeError):
            return apply(op, (a, b))  # which complains, or another thread is in the quiet context
        if type(out) is not ndarray:
            out = np.asarray(out)
    t = wrap(out)
    a_grad = a._wants_grad
    if not a_grad and (other is None or not other._wants_grad):
        if a._cut is not None:
            t._cut = a._cut
        elif other is not None:
            t._cut = other._cut
        return t
    if not op.differentiable:
        t._cut = Cut(op.name, a if a_grad else other)
        return t
    if not records:
        t._cut = Cut("no_grad", a if a_grad else other)
        return t
    return record_two(op, a, other, y, t, (), fit == 1)


def of_two_dtypes(op: Op, a: TensorBase, b: TensorBase) -> Any:
    """`binary` for a kernel of the GPU that takes both dtypes as they are."""
    kernel = op.device.mixed
    if kernel is None or STATE.several or is_stale(a):
        return apply(op, (a, b))
    out = kernel(a._array, b._array)
    if out is None:
        return apply(op, (a, b))
    t = wrap(out)
    if not a._wants_grad and not b._wants_grad:
        t._cut = b._cut if a._cut is None else a._cut
        return t
    made = record_two(op, a, b, b._array, t, ())
    node: OpNode = made._node
    node.mixed = True
    node._fixes = (fix_of(a) if a._wants_grad else None, fix_of(b) if b._wants_grad else None)
    return made


def apply(
    op: Op, tensors: tuple[Any, ...], attrs: tuple[Any, ...] = (), watch: tuple[Any, ...] = ()
) -> Any:
    """Run `op`. `tensors` may hold numbers and None; `watch`: tensors whose arrays `attrs` use."""
    modes_on = STATE.modes_on
    if modes_on and STATE.casting:
        tensors = AUTOCAST.operands(op, tensors)  # for every op: python_dispatch.py diverts it
        modes_on -= STATE.only_casting
    records = True
    if modes_on and not op.view and is_unrecorded(modes_on):
        modes_on = 0
        records = False
    if not modes_on and not watch:
        if op.simple:
            return apply_to_one(op, tensors[0], attrs, records)
        if op.paired:
            found = pair(op, tensors[0], tensors[1], attrs, records)
            if found is not None:
                return found
    special = 0
    common = ON_DEVICE
    for t in tensors:
        if isinstance(t, TensorBase):
            if t._view_of is not None and is_stale(t) and op.differentiable:
                VIEWS.refresh(t)
            special |= t._special
            common &= t._special
    if special and special != ON_DEVICE:
        return INTERPRETERS.run(op, tensors, attrs, watch)
    return run_on_arrays(op, tensors, attrs, watch, special == ON_DEVICE, common != 0)


def run_on_arrays(
    op: Op,
    tensors: tuple[Any, ...],
    attrs: tuple[Any, ...],
    watch: tuple[Any, ...],
    on_gpu: bool,
    together: bool = False,
) -> Any:
    """`apply` for tensors that are nothing but arrays with a history, on the CPU or on a GPU.

    `together`: all tensors are known to be `on_gpu`.
    """
    if on_gpu:
        if STATE.several or not (together or all_on_gpu(tensors)) or brings_array(attrs):
            tensors, attrs = GPU.arguments(op, tensors, attrs)
    arrays: list[Any] = []
    mask = 0
    bit = 1
    for t in tensors:
        if isinstance(t, TensorBase):
            if t._wants_grad:
                mask |= bit
            arrays.append(t._array)
        else:
            missing = t is None and op.width != 1
            if not missing and not (op.numbers and isinstance(t, NUMBERS)):
                at = 0 if op.variadic else len(arrays)
                raise must_be_tensor(op.name, op.tensors[at], at + 1, t)
            if type(t) is int and arrays:
                dtypes.scalar_dtype(t)  # refuses what neither int64 nor uint64 holds
            arrays.append(t)
        bit <<= 1
    if STATE.timing:
        PROFILER.start(op.aten_name(), tensors)
    out = GPU.run_kernel(op, arrays, attrs) if on_gpu else run_kernel(op, arrays, attrs)
    result: Any
    made: tuple[Any, ...]
    if op.single:
        made = (out,) if type(out) is STATE.device_type else (as_array(out),)
        result = finish(op, tensors, attrs, watch, mask, made)[0]
    else:
        kind = STATE.device_type
        made = tuple([o if type(o) is kind else as_array(o) for o in out])
        result = finish(op, tensors, attrs, watch, mask, made)
        if op.result is not None:
            result = op.result(result)
    if STATE.timing:
        PROFILER.stop(op.aten_name())
    return result


def all_on_gpu(tensors: tuple[Any, ...]) -> bool:
    for t in tensors:  # noqa: SIM110 - once per op
        if isinstance(t, TensorBase) and t._special != ON_DEVICE:
            return False
    return True


def operands_of(op: Op, tensors: tuple[Any, ...]) -> tuple[list[Any], int]:
    """The arrays and numbers of a call, and the mask of those that want a gradient.

    For kinds of arrays that are not NumPy's own (bits.py, meta.py): `run_on_arrays` has no time.
    """
    arrays: list[Any] = []
    mask = 0
    for i, t in enumerate(tensors):
        if isinstance(t, TensorBase):
            if t._wants_grad:
                mask |= 1 << i
            arrays.append(t._array)
        elif t is None or isinstance(t, NUMBERS):
            arrays.append(t)
        else:
            raise must_be_tensor(op.name, op.tensors[0 if op.variadic else i], i + 1, t)
    return arrays, mask


def apply_to_one(op: Op, a: Any, attrs: tuple[Any, ...], records: bool = True) -> Any:
    """`apply` for the many ops of one tensor with one output: reductions, views, softmax …"""
    if not isinstance(a, TensorBase):
        raise must_be_tensor(op.name, op.tensors[0], 1, a)
    if a._view_of is not None and is_stale(a) and op.differentiable:
        VIEWS.refresh(a)
    x = a._array
    if a._special:
        out = device_result(op, a._special, (x, *attrs))
        if out is None:
            if a._special == ON_DEVICE:
                return run_on_arrays(op, (a,), attrs, (), True)
            return INTERPRETERS.run(op, (a,), attrs, ())
    # Looking at memory another way computes nothing that could warn.
    elif op.view or op.native:  # nor does a program in C
        out = op.kernel(x, *attrs)
    elif attrs:
        out = quiet(op.kernel, x, *attrs)
    else:
        out = quiet(op.kernel, x)
    if type(out) is not ndarray and type(out) is not STATE.device_type:
        out = as_array(out)
    t = wrap(out)
    node: OpNode | None = None
    if not a._wants_grad:
        t._cut = a._cut
    elif op.differentiable and not records:
        t._cut = Cut("no_grad", a)
    elif op.differentiable and out.dtype.kind in FLOATS:
        node = record_one(op, a, attrs, t)
        if x.dtype is not out.dtype or out.dtype.kind != "f":
            adapt(node, x, out)
    else:
        t._cut = Cut(op.name, a)
    if op.view:
        cell = cell_of(a)
        if cell.inference:
            t._cell = without_counter(cell)
            t._node, t._slot, t._wants_grad = None, 0, False
            return t
        parent = a._view_of
        steps: tuple[Any, ...] = ()
        kind = ""
        base = a
        if parent is not None:
            base = parent.base
            steps = parent.steps
            kind = parent.kind
        if op.replays or steps:
            steps = (*steps, (x, op, attrs))
        view = View(base, kind, cell.n, steps)
        if node is not None:
            view._code = node._code
            view._lasti = node._lasti
        t._cell = cell
        t._view_of = view
    return t


def is_written_plainly(t: TensorBase, records: bool) -> bool:
    """Whether a write into a tensor needs no node, no refusal and no report to a mode."""
    view = t._view_of
    if records and (t._wants_grad or (view is not None and view.base._wants_grad)):
        return False
    return not (cell_of(t).inference or STATE.anomaly or STATE.timing)


def write_plain(
    op: Op,
    t: Any,
    tensors: tuple[Any, ...],
    attrs: tuple[Any, ...],
    records: bool,
    name: str = "",
) -> bool:
    """Compute `op` into the memory of `t`; False, and nothing done, where that is not possible.

    Fast path of `autograd.inplace.write`, where `t` is the first of `tensors`, and of `out=`, which
    passes the name under which the write is counted. For float32 and float64 without history.
    """
    if not isinstance(t, TensorBase) or op.silent or op.view:
        return False
    if t._special:
        return write_on_device(op, t, tensors, attrs, records, name)
    x = t._array
    dtype = x.dtype
    if type(x) is not ndarray or (dtype is not F32 and dtype is not F64):
        return False
    into = getattr(op.kernel, "into", None) if op.native else None
    stores = into is None and (op.into is None or tensors[0] is not t)
    if stores and (not op.elementwise or op.guard is not None or attrs):
        return False
    if not is_written_plainly(t, records):
        return False
    arrays: list[Any] = []
    for other in tensors:
        if other is t:
            arrays.append(x)
        elif isinstance(other, TensorBase):
            y = other._array
            if other._special or type(y) is not ndarray:
                return False
            if y.dtype is not dtype and (not op.apart or y.dtype.kind != "i"):
                return False
            if (records and other._wants_grad) or is_stale(other):
                return False
            # What shares memory may have to be refused, or to be read before it is written.
            if meets(x, y):
                return False
            arrays.append(y)
        elif type(other) is float or type(other) is int:
            arrays.append(other)
        else:
            return False
    if into is not None:
        if not into(x, *arrays, *attrs):
            return False
    elif stores:
        if not store_plain(op, x, arrays):
            return False
    elif op.apart:
        if not is_apart(x, [*arrays[1:], *attrs]) or (not x.flags.forc and overlaps_itself(x)):
            return False
        quiet(op.into, *arrays, *attrs)
    elif not change_plainly(op.into, x, arrays, attrs):
        return False
    if name:
        cell_of(t).bump(name)
    else:
        count_write(t, op.name + "_")
    return True


def store_plain(op: Op, x: Any, arrays: list[Any]) -> bool:
    """Copy what an elementwise kernel makes of arrays of one shape and dtype into `x`, such as the
    ones and zeros of a comparison; False where it is not as simple as that."""
    for y in arrays:
        if type(y) is ndarray:
            if y.dtype is not x.dtype or y.shape != x.shape:
                return False
        elif type(y) is not float:
            return False
    if not x.flags.forc and overlaps_itself(x):
        return False
    out = quiet(op.kernel, *arrays)
    if type(out) is not ndarray or out.shape != x.shape:
        return False
    if out.dtype is not x.dtype and out.dtype.kind != "b":
        return False
    x[...] = out
    return True


def is_plain_output(out: Any, args: tuple[Any, ...], named: tuple[Any, ...], apart: bool) -> bool:
    """Whether nothing about the modes and the arguments of a call with `out=` has to be looked at.

    With `apart`, `out` may not be one of the arguments.
    """
    modes_on = STATE.modes_on
    if not isinstance(out, TensorBase) or out._special:
        return False
    if modes_on and not is_unrecorded(modes_on):
        return False
    target = out._array
    if type(target) is not ndarray or not target.flags.forc or not is_written_plainly(out, True):
        return False
    for value in args + named:
        if type(value) is list or type(value) is tuple:
            for t in value:
                if type(t) is list or type(t) is tuple or not is_plain_source(t, target, apart):
                    return False
        elif not is_plain_source(value, target, apart):
            return False
    return True


def is_plain_source(value: Any, target: Any, apart: bool) -> bool:
    """Whether an argument is no tensor, or one without history whose memory is not the target's."""
    if not isinstance(value, TensorBase):
        return True
    x = value._array
    if value._special or value._wants_grad or (apart and x is target):
        return False
    if x is target or (x.base is None and target.base is None):
        return True
    return type(x) is ndarray and not meet(x, target)


def is_apart(x: Any, values: Any) -> bool:
    """Whether no array among the sources and attributes can have memory in common with an array."""
    for value in values:
        if type(value) is tuple:
            if not is_apart(x, value):
                return False
        elif type(value) is ndarray and meets(x, value):
            return False
    return True


def meets(x: Any, y: Any) -> bool:
    """Whether two arrays may have memory in common."""
    return x is y or ((x.base is not None or y.base is not None) and meet(x, y))


def overwrite_plain(t: Any, value: Any, name: str) -> bool:
    """A number written to every element; False where it is not as simple as that.

    Short way of `autograd.inplace.overwrite`, where no mode is on.
    """
    if not isinstance(t, TensorBase) or t._special:
        return False
    x = t._array
    if type(x) is not ndarray or x.dtype.kind not in "fiub":
        return False
    if not isinstance(value, (int, float, np.generic)) or not is_written_plainly(t, True):
        return False
    x.fill(value)
    count_write(t, name)
    return True


def change_plainly(change: Any, x: Any, arrays: list[Any], attrs: tuple[Any, ...]) -> bool:
    """Run the `into` of an op; False where it raises: the general path has better errors."""
    if not x.flags.forc and overlaps_itself(x):
        return False  # elements that share memory are written in turn
    try:
        change(*arrays, *attrs)
    except (ValueError, IndexError, TypeError):
        return False
    return True


def count_write(t: TensorBase, name: str) -> None:
    """Count a write that is not recorded, with what E01 wants to know about it."""
    view = t._view_of
    if view is None:
        cell_of(t).bump(name, (False, None, None, -1, t._cut))
    else:
        cell_of(t).bump(name, (False, t._array.shape, view._code, view._lasti, t._cut))


def write_on_device(
    op: Op,
    t: TensorBase,
    tensors: tuple[Any, ...],
    attrs: tuple[Any, ...],
    records: bool,
    name: str,
) -> bool:
    """`write_plain` on a GPU, for two operands: its kernels take care of overlapping memory."""
    if (
        t._special != ON_DEVICE
        or STATE.several
        or len(tensors) != 2
        or attrs
        or tensors[0] is not t
    ):
        return False
    if t._view_of is not None or not is_written_plainly(t, records):
        return False
    other: Any = tensors[1]
    y = other
    if isinstance(other, TensorBase):
        if other._special != ON_DEVICE or other._view_of is not None:
            return False
        y = other._array
        if (records and other._wants_grad) or y.dtype is not t._array.dtype:
            return False
    elif type(other) is not float and type(other) is not int:
        return False
    into = getattr(op.device.kernel, "into", None)
    if into is None or not into(t._array, t._array, y):
        return False
    count_write(t, name or op.name + "_")
    return True


def recorded(op: Op, a: TensorBase, attrs: tuple[Any, ...], out: Any) -> Any:
    """The end of `apply_to_one`, for a result that a kernel for several tensors has computed."""
    t = wrap(out)
    if a._wants_grad:
        adapt(record_one(op, a, attrs, t), a._array, out)
    else:
        t._cut = a._cut
    return t


def pair(op: Op, a: Any, b: Any, attrs: tuple[Any, ...], records: bool = True) -> Any:
    """Fast path of `apply` for two float tensors of one dtype, mostly products; else None."""
    if not isinstance(a, TensorBase) or not isinstance(b, TensorBase):
        return None
    if a._special != b._special or is_stale(a) or is_stale(b):
        return None
    x = a._array
    y = b._array
    dtype = x.dtype
    if y.dtype is not dtype:
        return None
    if a._special:
        out = device_result(op, a._special, (x, y, *attrs)) if dtype.kind in REALS else None
        if out is None:
            return None
    elif dtype is F32 or dtype is F64:
        out = quiet(op.kernel, x, y, *attrs)
        if type(out) is not ndarray:
            out = np.asarray(out)
    else:
        return None
    t = wrap(out)
    if not a._wants_grad and not b._wants_grad:
        t._cut = a._cut if a._cut is not None else b._cut
        return t
    if not op.differentiable:
        note_cut([t], op.name, (a, b))
        return t
    if not records:
        note_cut([t], "no_grad", (a, b))
        return t
    if out.dtype is not dtype:
        return None  # complex numbers from two real parts
    return record_two(op, a, b, y, t, attrs)


def device_result(op: Op, special: int, args: tuple[Any, ...]) -> Any:
    """The result of a GPU kernel on device arrays and attributes; None: `apply` computes it."""
    kernel = op.device.kernel
    if kernel is None or special != ON_DEVICE or STATE.several:
        return None
    if not op.view and holds_array(args):
        return None
    try:
        return kernel(*args)
    except (MemoryError, ValueError):
        return None  # `apply` says what is wrong


def holds_array(args: tuple[Any, ...]) -> bool:
    """Whether an array of the host is among the arguments: it has to be brought to the device."""
    if not COMPILED:  # a loop in C, where ours is none
        kinds = [*map(type, args)]
        if ndarray in kinds or tuple not in kinds:
            return ndarray in kinds
    for x in args:  # noqa: SIM110 - once per op
        if type(x) is ndarray or (type(x) is tuple and holds_array(x)):
            return True
    return False


def brings_array(attrs: tuple[Any, ...]) -> bool:
    """`holds_array` with a cache: an op is called with equal attributes again and again."""
    try:
        if attrs in PLAIN_ATTRS:
            return False
    except TypeError:  # slices, arrays
        return holds_array(attrs)
    if holds_array(attrs):
        return True
    if len(PLAIN_ATTRS) < MOST_ATTRS and is_immutable(attrs):
        PLAIN_ATTRS.add(attrs)
    return False


def is_immutable(value: Any) -> bool:
    """Whether a value consists of numbers and strings alone, so that a cache may keep it."""
    if type(value) is tuple:
        return all([is_immutable(x) for x in value])
    return value is None or type(value) in (bool, float, int, str)


def run_kernel(op: Op, arrays: list[Any], attrs: tuple[Any, ...]) -> Any:
    """The kernel on arrays brought to one dtype; shape errors in PyTorch's words."""
    return run_as(op.kernel, op, arrays, attrs)


def run_as(kernel: Any, op: Op, arrays: list[Any], attrs: tuple[Any, ...]) -> Any:
    """`run_kernel` with another kernel than the op's own."""
    down = None
    if op.guard is not None:
        op.guard(*arrays)
    if op.dtype_rule:
        if op.wide_numbers and len(arrays) == 2 and is_wide_beside_half(op, arrays):
            half = arrays[0].dtype
            arrays = [half_as_single(arrays[0]), arrays[1].astype(F32)]
            return quiet(rounded_to, quiet(kernel, *arrays, *attrs), half)
        down = unify(op, arrays)
        if down is not None:
            # A number keeps single precision next to a half tensor; only the result is rounded.
            attempt = getattr(kernel, "attempt", None)
            if attempt is not None:
                done = attempt(*arrays, *attrs)
                if done is not None:
                    return done
            for i, x in enumerate(arrays):
                if type(x) is ndarray:
                    arrays[i] = half_as_single(x)
    try:
        out = quiet(kernel, arrays, *attrs) if op.variadic else quiet(kernel, *arrays, *attrs)
    except ValueError:
        if op.broadcasts:
            from ..errors import check_broadcast

            check_broadcast(arrays)
        raise
    if down is None or out.dtype.kind not in FLOATS:
        return out
    return quiet(rounded_to, out, down)  # it may overflow


def unify(op: Op, arrays: list[Any]) -> Any:
    """Cast the items of a list to one dtype; returns the half dtype to round the result to."""
    dtype = common_dtype(op, arrays)
    down = None
    if dtype.itemsize == 2 and dtype.kind in FLOATS and not all_arrays(arrays):
        down = dtype
    for i in range(len(arrays)):
        x = arrays[i]
        if type(x) is ndarray:
            if x.dtype is not dtype:
                arrays[i] = before_rounding_to(dtype, x).astype(dtype, copy=False)
        elif x is not None:
            if down is None:
                arrays[i] = number_as(x, dtype)
            else:
                arrays[i] = float(x if i and op.wide_numbers else number_as(x, dtype))
    return down


def is_wide_beside_half(op: Op, arrays: list[Any]) -> bool:
    """Whether half precision is multiplied or divided by one element of another dtype.

    Like a number of Python's, PyTorch does not round it to half precision.
    """
    x = arrays[0]
    y = arrays[1]
    if type(x) is not ndarray or type(y) is not ndarray or y.size != 1:
        return False
    dtype = x.dtype
    if dtype.itemsize != 2 or dtype.kind not in FLOATS or y.dtype is dtype:
        return False
    return common_dtype(op, arrays) is dtype


def all_arrays(arrays: list[Any]) -> bool:
    return all([type(x) is ndarray for x in arrays])


def common_dtype(op: Op, arrays: list[Any]) -> Any:
    """The NumPy dtype in which an op with a dtype rule computes."""
    if len(arrays) == 1:
        dtype = arrays[0].dtype
    else:
        x = arrays[0]
        y = arrays[1]
        if len(arrays) == 2 and type(x) is ndarray:
            if type(y) is ndarray:
                dtype = promote.binary_result(x, y)
            else:
                dtype = promote.scalar_result(x, y)
        else:
            dtype = promote.result_dtype([x for x in arrays if x is not None]).np
    if op.dtype_rule == PROMOTE_FLOAT and dtype.kind not in FLOATS:
        dtype = dtypes.default_np()
    return dtype


def number_as(value: Any, dtype: Any) -> Any:
    """A Python number for an array of `dtype`: integers wrap around, as in C."""
    kind = dtype.kind
    if kind == "c":
        return quiet(dtype.type, value)  # it may overflow
    if kind in FLOATS:
        if dtype.itemsize >= 4:
            return float(value)
        return quiet(dtype.type, quiet(np.float32, value))  # rounded twice, as in PyTorch
    if kind == "b":
        return bool(value)
    return np.asarray(int(value) & (1 << 64) - 1, np.uint64).astype(dtype)[()]
