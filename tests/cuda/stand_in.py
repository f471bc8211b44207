"""A stand-in for CuPy on NumPy, so that the CUDA side is tested where there is no GPU.

It is stricter than it is complete: an array is no NumPy array and does not turn into one by itself,
functions refuse NumPy arrays, only names that CuPy has exist, reductions give arrays without
dimensions, and every copy to the host is counted. Values are computed by NumPy, so a test that
passes here shows that a computation stays on the device, not that CuPy computes right;
`make test-cuda` shows that on a real one.
"""

from __future__ import annotations

import functools
import operator
import sys
import types
import weakref
from typing import Any

import numpy as np
import stand_in_cuda
import stand_in_graphs
from signatures import ACCUMULATE, AT, FLAGS, REDUCE, REDUCEAT, SIGNATURES, UFUNC_OPTIONS

# What CuPy 14 has, besides dtypes: read off an installed one.
FUNCTIONS = """
abs absolute add all allclose amax amin angle any append arange arccos arccosh arcsin arcsinh arctan
arctan2 arctanh argmax argmin argpartition argsort argwhere around array array_equal array_split
asanyarray asarray ascontiguousarray asfortranarray atleast_1d atleast_2d atleast_3d average
bincount bitwise_and bitwise_count bitwise_invert bitwise_left_shift bitwise_not bitwise_or
bitwise_right_shift bitwise_xor broadcast_arrays broadcast_to cbrt ceil choose clip column_stack
compress concat concatenate conj conjugate convolve copy copysign copyto corrcoef correlate cos cosh
count_nonzero cov cross cumprod cumsum deg2rad degrees delete diag diag_indices diagflat diagonal
diff digitize divide divmod dot dsplit dstack ediff1d einsum empty empty_like equal exp exp2
expand_dims expm1 extract eye fabs fill_diagonal flatnonzero flip fliplr flipud float_power floor
floor_divide fmax fmin fmod frexp full full_like gcd gradient greater greater_equal heaviside
histogram hsplit hstack hypot i0 identity imag indices inner interp invert isclose iscomplex
isfinite isin isinf isnan isneginf isposinf isreal kron lcm ldexp left_shift less less_equal lexsort
linspace log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or logical_xor
logspace matmul max maximum may_share_memory mean median meshgrid min minimum mod modf moveaxis
multiply nan_to_num nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmedian nanmin nanprod
nanstd nansum nanvar negative nextafter nonzero not_equal ones ones_like outer pad partition
percentile permute_dims place positive pow power prod ptp put put_along_axis putmask quantile
rad2deg radians ravel real reciprocal remainder repeat reshape resize right_shift rint roll rollaxis
roots rot90 round searchsorted select shares_memory sign signbit sin sinc sinh sort split sqrt
square squeeze stack std subtract sum swapaxes take take_along_axis tan tanh tensordot tile trace
transpose trapezoid tri tril tril_indices triu triu_indices true_divide trunc union1d unique
unravel_index unwrap vander var vdot vsplit vstack where zeros zeros_like
""".split()
# These work on shapes and dtypes alone and give plain Python.
PLAIN = "broadcast_shapes can_cast finfo iinfo issubdtype ndim promote_types result_type shape size"
LINALG = """
cholesky det eig eigh eigvals eigvalsh inv lstsq matmul matrix_power matrix_rank norm pinv qr
slogdet solve svd tensorinv tensorsolve
""".split()
FFT = """
fft fft2 fftfreq fftn fftshift hfft ifft ifft2 ifftn ifftshift ihfft irfft irfft2 irfftn rfft rfft2
rfftfreq rfftn
""".split()
DTYPES = """
bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128
intp generic number floating integer complexfloating inexact dtype pi e inf nan newaxis
""".split()


# The shapes of these depend on values: the host waits for them.
WAITING = "nonzero flatnonzero argwhere unique bincount union1d extract compress".split()

# These know no bfloat16: such numbers come back in single precision, or are refused.
WIDENING = "where tril triu clip round around".split()
SORTING = "sort argsort partition argpartition unique lexsort median".split()
REDUCTIONS = """
all any amax amin argmax argmin max mean min nanargmax nanargmin nanmax nanmean nanmin nanprod
nanstd nansum nanvar prod std sum var
""".split()
# These take no numbers, which NumPy takes for arrays without dimensions.
ARRAYS_ONLY = {"broadcast_to": 1, "isin": 2}
# These write to their first argument; `sort` and `partition` do as methods.
WRITING = "copyto put place putmask put_along_axis fill_diagonal".split()


class Copies:
    """How often values went from the device to the host."""

    count = 0


def count_copy() -> None:
    """The host asks for values: counted, and refused while a graph is recorded."""
    stand_in_graphs.refuse()
    Copies.count += 1


def refuse_implicit() -> TypeError:
    return TypeError(
        "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a "
        "NumPy array explicitly."
    )


def lower(value: Any) -> Any:
    """Device arrays as NumPy's, anywhere in the arguments; NumPy arrays are refused."""
    if isinstance(value, ndarray):
        return value.inner
    if isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {type(value)}")
    if isinstance(value, (tuple, list)):
        return type(value)([lower(v) for v in value])
    return value


def raise_up(value: Any, sources: Any = ()) -> Any:
    """NumPy's results as device arrays; scalars become arrays without dimensions."""
    if isinstance(value, (np.ndarray, np.generic)):
        return ndarray.around(np.asarray(value), sources)
    if type(value) in (tuple, list):
        return type(value)([raise_up(v, sources) for v in value])
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[raise_up(v, sources) for v in value])
    return value


def on_device(function: Any, name: str = "", space: str = "") -> Any:
    name = name or function.__name__
    signature = SIGNATURES[space].get(name)
    skip = 1 if space == "ndarray" else 0

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("like", None)
        if signature is not None:
            signature.check(name, args[skip:], kwargs)
        if kwargs.get("kind") not in (None, "stable"):
            raise ValueError("only the stable sort is there")
        if name in WAITING:
            count_copy()
        refuse_arguments(name, args, kwargs)
        if name == "repeat" and isinstance(args[1], (ndarray, np.ndarray)):
            raise TypeError("repeats must be int, list or tuple")
        out = kwargs.get("out")
        lowered = {name: lower(v) for name, v in kwargs.items()}
        given = [lower(a) for a in args]

        def run() -> Any:
            with np.errstate(all="ignore"):  # a GPU does not warn
                return function(*given, **lowered)

        if isinstance(out, ndarray):
            result = stand_in_graphs.written(out.inner, run)
        elif name in WRITING or (skip and name in ("sort", "partition")):
            result = stand_in_graphs.written(given[0], run)
        else:
            result = stand_in_graphs.computed(run, (*given, *lowered.values()))
        if name == "count_nonzero":
            result = np.asarray(result)
        if name in WIDENING and has_bfloat16(args):
            result = result.astype(np.float32)
        return out if isinstance(out, ndarray) else raise_up(result, args)

    return call


def has_bfloat16(args: Any) -> bool:
    # The builtin `any` is hidden by the array function of that name.
    return True in [isinstance(a, ndarray) and a.dtype.kind == "V" for a in args]


def refuse_arguments(name: str, args: Any, kwargs: Any) -> None:
    """What NumPy takes and CuPy does not."""
    for a in args[: ARRAYS_ONLY.get(name, 0)]:
        if not isinstance(a, ndarray):
            raise TypeError(f"Argument 'array' has incorrect type (got {type(a).__name__})")
    if name in SORTING and has_bfloat16(args):
        raise NotImplementedError("Sorting arrays with dtype 'bfloat16' is not supported")
    if name in REDUCTIONS:
        axis = kwargs.get("axis", args[1] if len(args) > 1 else None)
        refuse_axis(args[0], axis)


def refuse_axis(array: Any, axis: Any) -> None:
    if axis is not None and axis != () and not array.ndim:
        raise np.exceptions.AxisError("axis 0 is out of bounds for array of dimension 0")


class Block:
    """What owns memory of the device: one for each NumPy array that owns it here."""

    known: dict[int, Block] = {}

    def __init__(self, root: np.ndarray[Any, Any]) -> None:
        self.ptr = int(root.__array_interface__["data"][0])
        self.asked = root.nbytes
        self.size = -(-root.nbytes // 512) * 512  # a pool rounds up
        key = id(root)
        self.root = weakref.ref(root, lambda _: Block.known.pop(key, None))

    @classmethod
    def of(cls, root: np.ndarray[Any, Any]) -> Block:
        found = cls.known.get(id(root))
        if found is None or found.root() is not root:
            found = cls.known[id(root)] = cls(root)
        return found


class Memory:
    """`array.data`: a pointer."""

    def __init__(self, inner: np.ndarray[Any, Any], offset: int = 0) -> None:
        self.inner = inner
        self.offset = offset

    @property
    def ptr(self) -> int:
        return int(self.inner.__array_interface__["data"][0]) + self.offset

    @property
    def mem(self) -> Any:
        """What owns the memory."""
        found: Any = self.inner
        while True:
            below = found.owner if hasattr(found, "owner") else found.base
            if not hasattr(below, "__array_interface__"):
                return Block.of(found)
            found = below

    def __add__(self, offset: int) -> Memory:
        return Memory(self.inner, self.offset + offset)


class Flags:
    """The few that CuPy has."""

    def __init__(self, inner: Any) -> None:
        for name in FLAGS:
            setattr(self, name, getattr(inner, name))


class ndarray:
    """An array on the device."""

    __array_priority__ = 100
    base: Any = None  # what it is a view of

    def __init__(
        self,
        shape: Any,
        dtype: Any = float,
        memptr: Any = None,
        strides: Any = None,
        order: str = "C",
    ) -> None:
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        if memptr is None:
            self.inner = np.empty(shape, dtype, order)  # type: ignore[call-overload]
            return
        if strides is None:
            strides = np.empty(shape, np.dtype(dtype), order).strides  # type: ignore[call-overload]
        from tapegrad.core.strides import Interface

        place = (memptr.ptr, False)
        made = Interface(memptr.inner, place, shape, tuple(strides))
        made.__array_interface__["typestr"] = np.dtype(dtype).str
        self.inner = np.asarray(made)
        if self.inner.dtype != dtype:
            self.inner = self.inner.view(dtype)  # bfloat16, which is a void in this protocol
        self.owner = memptr.inner

    @classmethod
    def around(cls, inner: Any, sources: Any = ()) -> ndarray:
        made = object.__new__(cls)
        made.inner = inner
        below = inner.base
        for x in sources if below is not None else ():
            if isinstance(x, ndarray) and (below is x.inner or below is x.inner.base):
                made.base = x if x.base is None else x.base
        return made

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise refuse_implicit()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        own = getattr(sys.modules[__name__], ufunc.__name__, None)
        if own is None:
            return NotImplemented
        out = kwargs.pop("out", None)
        target = out[0] if isinstance(out, tuple) else out
        if target is not None:
            if not isinstance(target, ndarray):
                raise TypeError("return arrays must be device arrays")
            kwargs["out"] = target
        return getattr(own, method)(*inputs, **kwargs)

    def __array_function__(self, function: Any, kinds: Any, args: Any, kwargs: Any) -> Any:
        own: Any = sys.modules[__name__]
        module = function.__module__.removeprefix("numpy").removeprefix(".")
        for part in module.split("."):
            if part:
                own = getattr(own, part, None)
        found = getattr(own, function.__name__, None)
        if found is None:
            return NotImplemented
        return found(*args, **kwargs)

    # Facts, which cost nothing.
    shape = property(lambda self: self.inner.shape, lambda self, v: setattr(self.inner, "shape", v))
    dtype = property(lambda self: self.inner.dtype)
    ndim = property(lambda self: self.inner.ndim)
    size = property(lambda self: self.inner.size)
    strides = property(lambda self: self.inner.strides)
    itemsize = property(lambda self: self.inner.itemsize)
    nbytes = property(lambda self: self.inner.nbytes)
    flags = property(lambda self: Flags(self.inner.flags))
    _c_contiguous = property(lambda self: self.inner.flags.c_contiguous)  # CuPy's, too
    data = property(lambda self: Memory(self.inner))
    device = property(lambda self: stand_in_cuda.Device(0))
    T = property(lambda self: raise_up(self.inner.T, (self,)))
    mT = property(lambda self: raise_up(self.inner.mT, (self,)))
    real = property(
        lambda self: raise_up(self.inner.real, (self,)),
        lambda self, v: self.set_part("real", lower(v)),
    )
    imag = property(
        lambda self: raise_up(self.inner.imag, (self,)),
        lambda self, v: self.set_part("imag", lower(v)),
    )

    def set_part(self, name: str, value: Any) -> None:
        stand_in_graphs.written(self.inner, lambda: setattr(self.inner, name, value))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        own = dict(self.inner.__array_interface__)
        return {**own, "version": 3, "stream": 1}

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.inner.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __len__(self) -> int:
        return len(self.inner)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        for i in index if isinstance(index, tuple) else (index,):
            if isinstance(i, ndarray) and i.dtype.kind == "b":
                count_copy()  # how many there are is asked
        inner, where = self.inner, self.index(index)
        return raise_up(stand_in_graphs.computed(lambda: inner[where], (inner,)), (self,))

    def __setitem__(self, index: Any, value: Any) -> None:
        where, new = self.index(index), lower(value)
        stand_in_graphs.written(self.inner, lambda: operator.setitem(self.inner, where, new))

    def index(self, index: Any) -> Any:
        """CuPy takes NumPy arrays of integers as an index only by copying them: not here."""
        return tuple([lower(i) for i in index]) if isinstance(index, tuple) else lower(index)

    # To the host: counted.
    def get(self, stream: Any = None, order: str = "C", out: Any = None) -> Any:
        count_copy()
        return self.inner.copy(order=order)  # type: ignore[call-overload]

    def item(self, *args: Any) -> Any:
        count_copy()
        return self.inner.item(*args)

    def tolist(self) -> Any:
        count_copy()
        return self.inner.tolist()

    def tobytes(self, *args: Any) -> Any:
        count_copy()
        return self.inner.tobytes(*args)

    def __bool__(self) -> bool:
        count_copy()
        return bool(self.inner)

    def __float__(self) -> float:
        count_copy()
        return float(self.inner)

    def __int__(self) -> int:
        count_copy()
        return int(self.inner)

    def __index__(self) -> int:
        count_copy()
        return operator.index(self.inner)

    def __complex__(self) -> complex:
        count_copy()
        return complex(self.inner)

    def set(self, array: Any, stream: Any = None) -> None:
        stand_in_graphs.refuse()
        self.inner[...] = array

    def fill(self, value: Any) -> None:
        new = value.inner if isinstance(value, ndarray) else value
        stand_in_graphs.written(self.inner, lambda: self.inner.fill(new))

    def scatter_add(self, slices: Any, value: Any) -> None:
        where, new = self.index(slices), lower(value)
        stand_in_graphs.written(self.inner, lambda: np.add.at(self.inner, where, new))

    def __repr__(self) -> str:
        return f"device {self.inner!r}"


METHODS = """
all any argmax argmin argpartition argsort astype choose clip compress conj conjugate copy cumprod
cumsum diagonal dot flatten max mean min nonzero partition prod ravel repeat reshape round
searchsorted sort squeeze std sum swapaxes take trace transpose var view
""".split()
BINARY = """
add sub mul truediv floordiv mod pow matmul and or xor lshift rshift lt le gt ge eq ne
""".split()
REFLECTED = "radd rsub rmul rtruediv rfloordiv rmod rpow rmatmul rand ror rxor rlshift rrshift"
INPLACE = "iadd isub imul itruediv ifloordiv imod ipow iand ior ixor ilshift irshift"


def give_methods() -> None:
    for name in METHODS:
        setattr(ndarray, name, on_device(getattr(np.ndarray, name), name, "ndarray"))
    for name in (*BINARY, *REFLECTED.split()):
        setattr(ndarray, f"__{name}__", on_device(getattr(np.ndarray, f"__{name}__")))
    for name in ("neg", "pos", "abs", "invert"):
        setattr(ndarray, f"__{name}__", on_device(getattr(np.ndarray, f"__{name}__")))
    for name in INPLACE.split():
        setattr(ndarray, f"__{name}__", in_place(getattr(np.ndarray, f"__{name}__")))
    ndarray.__hash__ = None  # type: ignore[assignment]


def in_place(function: Any) -> Any:
    def call(self: ndarray, other: Any) -> ndarray:
        new = lower(other)

        def run() -> Any:
            with np.errstate(all="ignore"):  # a GPU does not warn
                return function(self.inner, new)

        stand_in_graphs.written(self.inner, run)
        return self

    return call


give_methods()


def asnumpy(array: Any, *args: Any, **kwargs: Any) -> Any:
    return array.get() if isinstance(array, ndarray) else np.asarray(array)


def get_array_module(*args: Any) -> Any:
    device = any([isinstance(a, ndarray) for a in args])
    return sys.modules[__name__] if device else np


class ufunc_like:
    """A ufunc of the device: called, or reduced."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.__name__ = inner.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # A third positional argument is where the result goes.
        spare = args[self.inner.nin :]
        if spare:
            kwargs["out"] = spare[0]
        if not UFUNC_OPTIONS.issuperset(kwargs):
            raise TypeError(f"Wrong arguments {kwargs}")
        return on_device(self.inner)(*args[: self.inner.nin], **kwargs)

    def known(self, names: tuple[str, ...], method: str) -> None:
        if self.__name__ not in names:
            raise NotImplementedError(f"`cupy_{self.__name__}.{method}` is not supported yet")

    def reduce(
        self, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: Any = False
    ) -> Any:
        self.known(REDUCE, "reduce")
        refuse_axis(array, axis)
        return on_device(self.inner.reduce)(array, axis, dtype, out, keepdims)

    def accumulate(self, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        self.known(ACCUMULATE, "accumulate")
        return on_device(self.inner.accumulate)(array, axis, dtype, out)

    def reduceat(self, array: Any, indices: Any, axis: int = 0) -> Any:
        self.known(REDUCEAT, "reduceat")
        return on_device(self.inner.reduceat)(array, indices, axis)

    def at(self, target: Any, index: Any, *values: Any) -> None:
        self.known(AT, "at")
        inner, where = target.inner, target.index(index)
        given = [lower(v) for v in values]
        stand_in_graphs.written(inner, lambda: self.write_at(inner, where, given))

    def write_at(self, inner: Any, where: Any, values: list[Any]) -> None:
        if self.__name__ not in ("maximum", "minimum") or inner.dtype.kind != "f":
            self.inner.at(inner, where, *values)
            return
        # CuPy's go through single precision, and pass over NaN.
        single = inner.astype(np.float32)
        extreme = np.fmax if self.__name__ == "maximum" else np.fmin
        extreme.at(single, where, values[0].astype(np.float32))
        inner[where] = single[where]


HOST_DATA = ("array", "asarray", "ascontiguousarray", "asfortranarray", "asanyarray")


def make_functions() -> None:
    own = sys.modules[__name__]
    for name in FUNCTIONS:
        inner = getattr(np, name, None)
        if inner is None:
            continue
        if isinstance(inner, np.ufunc):
            setattr(own, name, ufunc_like(inner))
        elif name in HOST_DATA:
            setattr(own, name, from_host(inner))
        else:
            setattr(own, name, on_device(inner, name))
    for name in (*PLAIN.split(), *DTYPES):
        setattr(own, name, getattr(np, name))
    for module, names in (("linalg", LINALG), ("fft", FFT)):
        made = types.SimpleNamespace()
        for name in names:
            setattr(made, name, on_device(getattr(getattr(np, module), name), name, module))
        setattr(own, module, made)
    own.linalg.LinAlgError = np.linalg.LinAlgError  # type: ignore[attr-defined]
    for name in ("solve", "eigh", "svd"):
        inner = globals()[f"own_{name}"]
        setattr(own.linalg, name, on_device(inner, name, "linalg"))  # type: ignore[attr-defined]
    tricks = types.SimpleNamespace(as_strided=on_device(np.lib.stride_tricks.as_strided))
    own.lib = types.SimpleNamespace(stride_tricks=tricks)  # type: ignore[attr-defined]
    random = types.SimpleNamespace()
    own.random = random  # type: ignore[attr-defined]


def own_solve(a: Any, b: Any) -> Any:
    """Nothing is broadcast but a vector."""
    fits = a.shape[-1:] == b.shape if b.ndim == 1 else a.shape[:-1] == b.shape[:-1]
    if not fits:
        raise ValueError(
            "a must have (..., M, M) shape and b must have (..., M, K) for multidimensional b"
        )
    return np.linalg.solve(a, b)


# Another library may give every vector with the other sign.


def own_eigh(a: Any, UPLO: str = "L") -> Any:  # noqa: N803
    values, vectors = np.linalg.eigh(a, UPLO)
    return values, -vectors


def own_svd(a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    if not compute_uv:
        return np.linalg.svd(a, full_matrices, False)
    u, s, vh = np.linalg.svd(a, full_matrices)
    return -u, s, -vh


def from_host(function: Any) -> Any:
    """These copy from the host, which is allowed."""

    def call(value: Any, *args: Any, **kwargs: Any) -> Any:
        copies = lower_any(value)
        shared = isinstance(value, ndarray) or hasattr(value, "__cuda_array_interface__")
        if shared and function is not np.array and not args and not kwargs:
            return raise_up(stand_in_graphs.computed(lambda: function(copies), (copies,)))

        def run() -> Any:
            # Of other orders than C and Fortran CuPy makes C.
            return np.array(function(copies, *args, **kwargs), order="A")

        return raise_up(stand_in_graphs.computed(run, ()))

    return call


class Described:
    """Memory that another library describes in the way of CUDA, seen by NumPy."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.__array_interface__ = {**owner.__cuda_array_interface__, "version": 3}


def lower_any(value: Any) -> Any:
    if isinstance(value, ndarray):
        return value.inner
    if hasattr(value, "__cuda_array_interface__"):
        return np.asarray(Described(value))
    if isinstance(value, (tuple, list)):
        return [lower_any(v) for v in value]
    return value


make_functions()


def get_default_memory_pool() -> Any:
    return stand_in_cuda.POOL


get_default_pinned_memory_pool = get_default_memory_pool


def from_dlpack(value: Any, *, device: Any = None, copy: bool | None = None) -> ndarray:
    return ndarray.around(np.from_dlpack(value))


cuda = stand_in_cuda.cuda
__version__ = "0"
