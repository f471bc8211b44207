"""Tensors on the device "meta": shape, dtype and strides, and no values.

Their arrays are of a class of their own around memory that is reserved and never used, so NumPy
itself makes views of them, with the right strides. Whatever else is done with them is done to small
arrays in their place: the kernel runs on those, and the shape of what it gives is carried over. How
it depends on the sizes is found by changing one of them at a time.
"""

from __future__ import annotations

import functools
import math
import mmap
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from .. import dtypes
from ..device import META as META_DEVICE
from .base import STATE, TensorBase, wrap
from .dispatch import operands_of, run_as
from .gradient_memory import ArrayMemory
from .host_arrays import host
from .late_bound import META_SIDE
from .op import Op
from .record import finish

NO_DATA: Final = "Cannot copy out of meta tensor; no data!"
NO_ITEM: Final = "Tensor.item() cannot be called on meta tensors"
NO_KERNEL: Final = (
    "aten::{}: attempted to run this operator with Meta tensors, but there was no fake impl or "
    "Meta kernel registered. You may have run into this message while using an operator with PT2 "
    "compilation APIs (torch.compile/torch.export); in order to use this operator with those APIs "
    "you'll need to add a fake impl. Please see the following for next steps:  "
    "https://pytorch.org/tutorials/advanced/custom_ops_landing_page.html"
)
NO_NONZERO: Final = (
    "The register_meta function for torch.nonzero() raises unimplemented by default, as a correct "
    "data-independent implementation does not exist. This implementation returns a fake value, "
    "assuming all elements of the tensor are non-zero. To enable this registration, please set "
    "'torch.fx.experimental._config.meta_nonzero_assume_all_nonzero' to True."
)
# Linux counts reserved memory as used, unless told not to.
NORESERVE: Final = 0x4000 if sys.platform == "linux" else 0

FEW: Final = 1024  # elements that may simply be computed with
MANY: Final = 1 << 24  # and those that are, where nothing else helps
MOST_STRIDE: Final = 64
PERIOD: Final = 12  # small sizes are used instead of larger ones that are a multiple of it apart


class MetaArray(np.ndarray):
    """An array whose values are never looked at."""

    __slots__ = ()

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def fill(self, value: Any) -> None:
        pass

    def copy(self, order: Any = "C") -> MetaArray:
        return like(self) if order == "K" else empty(self.shape, self.dtype)

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> MetaArray:
        return like(self, dtype)

    def item(self, *args: Any) -> Any:
        raise RuntimeError(NO_ITEM)

    __bool__ = __int__ = __float__ = __index__ = __complex__ = item

    def tolist(self) -> Any:
        raise NotImplementedError(NO_DATA)

    def nonzero(self) -> Any:
        raise NotImplementedError(NO_NONZERO)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        made = inferred(lambda *args: getattr(ufunc, method)(*args, **kwargs), inputs)
        return made if out is None else out[0]

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func in (np.may_share_memory, np.shares_memory):
            return func(*[plain(x) for x in args], **kwargs)
        names = list(kwargs)

        def call(*given: Any) -> Any:
            rest = given[len(args) :]
            return func(*given[: len(args)], **dict(zip(names, rest, strict=True)))

        return inferred(call, (*args, *kwargs.values()))


# ---------------------------------------------------------------------- making them


def reserved(size: int) -> Any:
    """Memory of so many bytes that costs nothing while nobody writes to it."""
    if sys.platform == "win32":
        return mmap.mmap(-1, max(size, 1), access=mmap.ACCESS_READ)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE
    return mmap.mmap(-1, max(size, 1), flags=flags, prot=mmap.PROT_READ)


def empty(shape: Any, dtype: Any = np.float64, **kwargs: Any) -> MetaArray:
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    dtype = np.dtype(dtype)
    return MetaArray(shape, dtype, reserved(math.prod(shape) * dtype.itemsize))


def in_order(shape: tuple[int, ...], order: list[int], dtype: Any) -> MetaArray:
    """A dense array whose dimensions are stored in the order `order`, slowest first."""
    array: MetaArray = empty([shape[d] for d in order], dtype).transpose(np.argsort(order))
    return array


def like(array: Any, dtype: Any = None) -> MetaArray:
    """A dense meta array with the shape and the memory order of another array."""
    return in_order(array.shape, memory_order(array), array.dtype if dtype is None else dtype)


def same_layout(array: Any) -> MetaArray:
    """A meta array with the strides of another array."""
    spans = zip(array.shape, array.strides, strict=True)
    size = sum([(n - 1) * s for n, s in spans]) + array.itemsize if array.size else 0
    return MetaArray(array.shape, array.dtype, reserved(size), 0, array.strides)


def with_layout(shape: Any, strides: Any, dtype: Any) -> MetaArray:
    """An array with these strides, in elements."""
    extent = 1 + sum([(n - 1) * s for n, s in zip(shape, strides, strict=True)])
    steps = tuple([s * dtype.itemsize for s in strides])
    return np.ndarray.__new__(MetaArray, shape, dtype, empty(extent, dtype), 0, steps)


def memory_order(array: Any) -> list[int]:
    strides = array.strides
    return sorted(range(array.ndim), key=lambda d: (-abs(strides[d]), d))


def plain(x: Any) -> Any:
    """A meta array as a plain NumPy array over its memory, which nobody may read."""
    return x.view(np.ndarray) if type(x) is MetaArray else x


class MetaModule:
    """The array module that creation functions use for tensors without values."""

    empty = zeros = ones = staticmethod(empty)
    like = staticmethod(like)
    ndarray = MetaArray

    def eye(self, rows: int, columns: int, dtype: Any) -> MetaArray:
        return empty((rows, columns), dtype)

    def __getattr__(self, name: str) -> Any:
        function = getattr(np, name)
        return lambda *args, **kwargs: carried_over(function(*args, **kwargs))


XP: Final = MetaModule()


class Draws:
    """The random stream of the device meta: makes tensors without drawing numbers."""

    def uniform(self, stream: Any, shape: Any, dtype: Any, *more: Any, **options: Any) -> MetaArray:
        return empty(shape, dtype)

    normal = integers = permutation = exponential = cauchy = log_normal = geometric = uniform

    def bernoulli(self, stream: Any, p: Any, shape: Any, dtype: Any) -> MetaArray:
        return empty(shape, dtype)

    def multinomial(self, stream: Any, probs: Any, n: int, replacement: bool = False) -> MetaArray:
        return empty((*probs.shape[:-1], n), np.int64)

    def standard_gamma(self, stream: Any, x: Any, *more: Any) -> MetaArray:
        return empty(x.shape, x.dtype)

    poisson = binomial = dirichlet = slopes = standard_gamma


class Stream:
    home = Draws()


STREAM: Final = Stream()


# ---------------------------------------------------------------------- running ops


def is_meta(t: Any) -> bool:
    return isinstance(t, TensorBase) and type(t._array) is MetaArray


def has_meta(tensors: Any) -> bool:
    return any([is_meta(t) for t in tensors])


def run(op: Op, tensors: tuple[Any, ...], attrs: tuple[Any, ...], watch: tuple[Any, ...]) -> Any:
    """An op on tensors some of which are on meta."""
    check_devices(op, tensors)
    arrays, mask = operands_of(op, tensors)
    out = execute(op, arrays, attrs)
    if op.single:
        return finish(op, tensors, attrs, watch, mask, (as_meta(out),))[0]
    made = finish(op, tensors, attrs, watch, mask, tuple([as_meta(o) for o in out]))
    return made if op.result is None else op.result(made)


# Ops of which PyTorch takes the indices from the CPU too.
INDICES_ANYWHERE: Final = frozenset(
    """
    index_select gather take scatter_src scatter_value scatter_add index_put embedding
    embedding_dense_backward
    """.split()
)


def check_devices(op: Op, tensors: tuple[Any, ...]) -> None:
    """One number of the CPU may be beside meta tensors; other CPU tensors may not."""
    first = next((t for t in tensors if isinstance(t, TensorBase)), None)
    if op.across_devices or (op.name in INDICES_ANYWHERE and is_meta(tensors[0])):
        return
    for t in tensors:
        if isinstance(t, TensorBase) and not is_meta(t) and t._array.ndim:
            odd = t if is_meta(first) else next(x for x in tensors if is_meta(x))
            raise RuntimeError(
                f"Tensor on device {odd.device} is not on the expected device {first.device}!"  # type: ignore[union-attr]
            )


def check_written(op: Op, tensors: tuple[Any, ...]) -> None:
    """`check_devices` for an op that writes to its first tensor."""
    if not is_meta(tensors[0]):
        raise NotImplementedError(NO_DATA)
    check_devices(op, tensors)


def execute(op: Op, arrays: list[Any], attrs: tuple[Any, ...]) -> Any:
    """The result of a kernel as an array without values: its shape, dtype and strides."""
    if op.name == "unsafe_view":  # copies, or shows the same memory
        return empty(attrs[0], arrays[0].dtype)
    if op.dynamic_shape:
        name = op.aten or op.name
        if name == "nonzero":
            raise NotImplementedError(NO_NONZERO)
        raise NotImplementedError(NO_KERNEL.format(name))
    if op.name == "index" and any([x.dtype.kind == "b" for x in flat(attrs) if is_array(x)]):
        raise NotImplementedError(NO_NONZERO)
    if op.name in INDICES_ANYWHERE:
        arrays = [like(x) if type(x) is np.ndarray else x for x in arrays]
    check_shapes(op, arrays)
    if op.view or op.name.startswith("unsafe_"):
        return remade(op.kernel(*[plain(x) for x in arrays], *attrs))
    count = len(arrays)

    # On NumPy: sizes that do not go together, which are tried below, are errors there. Kernels of
    # elementwise ops ask NumPy then, and lay out results as they do for arrays with values.
    reference = op.kernel if op.elementwise else functools.partial(op.forward, host)

    def call(*given: Any) -> Any:
        return run_as(reference, op, list(given[:count]), given[count:])

    given = (*arrays, *attrs)
    key = signature(op, given)
    known = None if key is None else KNOWN.get(key)
    if known is None:
        out = laid_out(op, inferred(call, given))
        if not op.single and not isinstance(out, (tuple, list)):
            out = (out,)
        known = described(out)
        if key is not None and len(KNOWN) < MOST_KNOWN:
            KNOWN[key] = known
        return out
    made = [None if facts is None else in_order(*facts) for facts in known]
    return made[0] if op.single else tuple(made)


# What is known of calls that were made before: shape, order in memory and dtype of the results.
KNOWN: Final[dict[Any, Any]] = {}
MOST_KNOWN: Final = 10_000


def signature(op: Op, given: tuple[Any, ...]) -> Any:
    """All that the result of a call depends on; None where that cannot be told."""
    key = op.name, dtypes.default_np(), tuple([facts_of(x) for x in given])
    try:
        hash(key)
    except TypeError:
        return None
    return key


def facts_of(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return (type(x).__name__, x.shape, x.strides, x.dtype) if is_array(x) or not x.ndim else []
    if type(x) is tuple:
        return tuple([facts_of(part) for part in x])
    return type(x), x


def described(out: Any) -> list[Any]:
    outs = out if isinstance(out, (tuple, list)) else [out]
    return [None if o is None else (o.shape, memory_order(o), o.dtype) for o in outs]


def laid_out(op: Op, out: Any) -> Any:
    if op.name == "nonzero_static":
        return in_order(out.shape, list(range(out.ndim))[::-1], out.dtype)
    if op.meta_by_rows is None:
        return out
    if op.single:
        return empty(out.shape, out.dtype)
    place = op.meta_by_rows
    return tuple([empty(o.shape, o.dtype) if i == place else o for i, o in enumerate(out)])


def check_shapes(op: Op, arrays: list[Any]) -> None:
    """Raise PyTorch's errors for shapes that do not match, whose words differ on meta."""
    if not op.elementwise:
        return
    shapes = [x.shape for x in arrays if isinstance(x, np.ndarray)]
    common: tuple[int, ...] = ()
    for i, shape in enumerate(shapes):
        for d in range(-1, -1 - min(len(shape), len(common)), -1):
            if shape[d] != common[d] and 1 not in (shape[d], common[d]):
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {shape[d]} at {d}! Mismatching "
                    f"argument at index {i} had torch.Size({list(shape)}); but expected shape "
                    f"should be broadcastable to {list(common)}"
                )
        common = np.broadcast_shapes(common, shape)


def is_array(x: Any) -> bool:
    return type(x) is MetaArray


def remade(out: Any) -> Any:
    """Results of a view op as meta arrays."""
    if isinstance(out, (tuple, list)):
        return [remade(o) for o in out]
    return out.view(MetaArray)


def as_meta(out: Any) -> Any:
    return out if type(out) is MetaArray else like(np.asarray(out))


# ---------------------------------------------------------------------- shapes without values


def inferred(call: Callable[..., Any], given: tuple[Any, ...]) -> Any:
    """The results of `call(*given)`, as meta arrays."""
    shapes = [x.shape for x in flat(given) if type(x) is MetaArray]
    total = sum([math.prod(shape) for shape in shapes])
    if total <= FEW:
        return computed(call, given, {})
    dims = {n for shape in shapes for n in shape}
    # Strides and groups divide what sizes are changed by.
    numbers = [x for x in flat(given) if type(x) is int and 1 < x <= MOST_STRIDE]
    step = math.lcm(PERIOD, *numbers)
    sizes = sorted([n for n in dims if n >= 2 * step])
    for chosen in (sizes, None):
        if chosen is None:  # some sizes go together: which can be changed alone?
            chosen = [n for n in sizes if can_change(call, given, shapes, n, step)]
        try:
            found = extrapolated(call, given, chosen, step)
            return found if len(found) > 1 else found[0]
        except Unclear:
            if chosen is not sizes and total > MANY:
                raise
    return computed(call, given, {})


def can_change(
    call: Callable[..., Any], given: tuple[Any, ...], shapes: list[Any], size: int, step: int
) -> bool:
    """Whether the call still succeeds when one size is replaced everywhere by another."""
    if sum([math.prod([1 if n == size else n for n in shape]) for shape in shapes]) > MANY // step:
        return False
    try:
        computed(call, given, {size: step + size % step})
    except (RuntimeError, ValueError, IndexError):
        return False
    return True


class Unclear(NotImplementedError):
    """How a shape depends on the sizes cannot be told."""


def computed(call: Callable[..., Any], given: tuple[Any, ...], instead: dict[int, int]) -> Any:
    """Run the call on small arrays of ones; `instead` maps sizes to others to use for them."""
    try:
        out = call(*[swapped(x, instead, np.ones) for x in given])
    except np.linalg.LinAlgError:
        out = call(*[swapped(x, instead, unit) for x in given])
    except RuntimeError as error:
        if not any([word in str(error) for word in ("singular", "definite", "ZeroDivision")]):
            raise
        out = call(*[swapped(x, instead, unit) for x in given])
    return out if instead else carried_over(out)


def unit(shape: tuple[int, ...], dtype: Any) -> Any:
    """An array whose matrices are identities: ops that invert them must not fail."""
    if len(shape) < 2:
        return np.ones(shape, dtype)
    return np.broadcast_to(np.eye(shape[-2], shape[-1], dtype=dtype), shape).copy()


def swapped(x: Any, instead: Mapping[int, int], filled: Any) -> Any:
    """An argument with arrays of ones (indices: zeros) for those without values."""
    if type(x) is MetaArray:
        shape: tuple[int, ...] = tuple([instead.get(n, n) for n in x.shape])
        if filled is unit:
            return unit(shape, x.dtype) if x.dtype.kind in "fcV" else np.ones(shape, x.dtype)
        values = filled if x.dtype.kind in "fcV" else np.zeros
        order = memory_order(x)
        # What is repeated (a stride of 0) stays so: results keep the strides of the input.
        inside = [1 if x.strides[d] == 0 else shape[d] for d in order]
        whole = values(tuple(inside), x.dtype).transpose(np.argsort(order).tolist())
        return np.broadcast_to(whole, shape) if whole.shape != shape else whole
    if type(x) is int:
        return instead.get(x, x)
    if type(x) is slice:
        return slice(*[swapped(part, instead, filled) for part in (x.start, x.stop, x.step)])
    if type(x) in (tuple, list):
        return type(x)([swapped(part, instead, filled) for part in x])
    return x


def flat(x: Any) -> list[Any]:
    if type(x) in (tuple, list):
        return [leaf for part in x for leaf in flat(part)]
    return [x]


def carried_over(out: Any) -> Any:
    if isinstance(out, (tuple, list)):
        return tuple([carried_over(o) for o in out])
    if type(out) is MetaArray or not isinstance(out, (np.ndarray, np.generic)):
        return out
    return like(np.asarray(out))


def extrapolated(
    call: Callable[..., Any], given: tuple[Any, ...], sizes: list[int], step: int
) -> tuple[Any, ...]:
    """The shapes for these sizes, from those for small ones that differ from them by steps."""
    if not sizes:
        raise Unclear("no shape can be told on meta: no size can be made smaller")
    small: dict[int, int] = {}
    for n in sizes:
        stand_in = step + n % step
        while stand_in in small.values():
            stand_in += step
        small[n] = stand_in

    def trial(instead: dict[int, int]) -> tuple[Any, ...]:
        out = computed(call, given, instead)
        return tuple(out) if isinstance(out, (tuple, list)) else (out,)

    try:
        trials = [trial(small)]
        trials += [trial({**small, n: small[n] + step}) for n in sizes]
        trials += [trial({**small, n: small[n] + 2 * step}) for n in sizes]
        trials.append(trial({n: p + 3 * step for n, p in small.items()}))
    except (RuntimeError, ValueError, IndexError) as error:
        raise Unclear(f"no shape can be told on meta: {error}") from error
    steps = [(n - small[n]) // step for n in sizes]
    made: list[Any] = []
    for outs in zip(*trials, strict=True):
        if outs[0] is None:
            made.append(None)
            continue
        arrays = [np.asarray(out) for out in outs]
        if len({array.ndim for array in arrays}) > 1:
            raise Unclear("no shape can be told on meta: the number of dimensions changes")
        columns = zip(*[array.shape for array in arrays], strict=True)
        shape = tuple([size_of(column, steps) for column in columns])
        made.append(in_order(shape, memory_order(arrays[0]), arrays[0].dtype))
    return tuple(made)


def size_of(column: tuple[int, ...], steps: list[int]) -> int:
    """One size of a result, from those of the trials: it follows each size as a polynomial does,
    and is the sum or the product of what it follows. The last trial, all of them three steps on,
    tells whether that is so."""
    first, last, count = column[0], column[-1], len(steps)
    pairs = list(zip(column[1 : 1 + count], column[1 + count : 1 + 2 * count], strict=True))

    def follow(one: int, two: int, step: int) -> int:
        return first + step * (one - first) + step * (step - 1) // 2 * (two - 2 * one + first)

    near = [follow(one, two, 3) for one, two in pairs]
    there = [follow(one, two, step) for (one, two), step in zip(pairs, steps, strict=True)]
    if first + sum([n - first for n in near]) == last:
        return first + sum([n - first for n in there])
    power = first ** (count - 1)
    if power and math.prod(near) == last * power:
        return int(math.prod(there) // power)
    raise Unclear("no shape can be told on meta: a size depends on others in an odd way")


# ---------------------------------------------------------------------- around


class MetaMemory(ArrayMemory):
    """How a backward pass treats gradients that have no values."""

    def may_add_into(self, target: Any, other: Any) -> bool:
        return False

    def accumulate(self, kept: Any, g: Any) -> None:
        pass

    def fits(self, g: Any, layout: Any) -> bool:
        if type(layout) is not MetaArray:
            raise NotImplementedError(NO_DATA)
        if layout.flags.c_contiguous or not layout.flags.forc:
            return bool(g.flags.c_contiguous)
        return bool(g.strides == layout.strides)

    def settled(self, g: Any, layout: Any) -> Any:
        return g

    def copy(self, g: Any, layout: Any) -> Any:
        if layout.flags.c_contiguous or not layout.flags.forc:
            return empty(g.shape, g.dtype)
        return like(layout, g.dtype)

    def zeros(self, like: Any, shape: Any, dtype: Any) -> Any:
        return empty(shape, dtype)


def moved(t: Any) -> Any:
    """A tensor moved to meta: it has no values, and its history continues."""
    if is_meta(t):
        return t
    from .op import REGISTRY

    array = like(t._array)
    return finish(REGISTRY["cast"], (t,), (array.dtype,), (), int(t._wants_grad), (array,))[0]


def created(api: Any, call: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The result of a creation function, on meta."""
    if api.direct:
        return call(*args, **{**kwargs, "device": META_DEVICE})
    from ..device import CPU

    if api.name in ("linspace", "logspace"):  # between any numbers: as many as they are
        args = [1.0 if is_meta(x) else x for x in args]
        kwargs = {name: 1.0 if is_meta(x) else x for name, x in kwargs.items()}
    t = call(*args, **{**kwargs, "device": CPU})
    if not isinstance(t, TensorBase):
        return t
    made = wrap(same_layout(t._array))
    made._wants_grad = t._wants_grad
    return made


STATE.meta_type = MetaArray
STATE.elsewhere = True
META_SIDE.memory = MetaMemory()
