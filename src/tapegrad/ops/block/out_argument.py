"""`out=`: compute, then store into tensors that the caller owns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import dtypes
from ...core.base import STATE, TensorBase, quiet, wrap
from ...core.devices import two_devices, xp_of
from ...core.dispatch import apply, is_plain_output, write_plain
from ...core.late_bound import ON_DEMAND
from ...core.lazy_conj import memory_behind, plain
from ...core.modes import MODES, neither_recorded_nor_cast
from ...core.python_dispatch import dispatches
from ...core.rounding import before_rounding_to
from ...core.strides import is_dense, strided
from ...core.transforms.batched import has_batched
from ...core.transforms.levels import BATCHES, TANGENTS
from ...core.warned import warn
from ...errors import inference_written


def write_outputs(
    name: str,
    out: Any,
    call: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    api: Any = None,
) -> Any:
    """`call(*args, **kwargs)` with the result stored in `out`, a tensor or a tuple of them.

    What `out` has to be is said by `api`, the record of the function.
    """
    if is_plain(out, args, kwargs, api):
        if api.out_decides and kwargs.get("dtype") is None:
            kwargs = {**kwargs, "dtype": dtypes.of(out._array.dtype)}
        if api.inplace:
            result = write_or_compute(name, out, call, args, kwargs)
            if result is WRITTEN:
                return out
        else:
            result = call(*args, **kwargs)
        array = result._array if isinstance(result, TensorBase) else None
        if type(array) is np.ndarray and array.dtype is out._array.dtype:
            if array.shape == out._array.shape:
                out._array[...] = array
                out._version_cell().bump(name)
                return out
        given = flatten((*args, *kwargs.values())) if api.out_apart else ()
        return store_all(name, out, result, api, [t._array for t in given])
    from ...core.transforms.dual import has_dual

    targets = out if isinstance(out, (tuple, list)) else (out,)
    for t in targets:
        if not isinstance(t, TensorBase):
            raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(t).__name__}")
    if has_batched((*targets, *flatten(args), *flatten(kwargs.values()))):
        raise RuntimeError(
            f"Batching rule not implemented for aten::{name}.out; the fallback path doesn't work "
            "on out= or view ops."
        )
    if TANGENTS and has_dual((*targets, *flatten(args), *flatten(kwargs.values()))):
        raise NotImplementedError(
            f"Trying to use forward AD with {name}_out that does not support it because it is an "
            "out= function"
        )
    if MODES.grad:
        for t in (*targets, *flatten(args), *flatten(kwargs.values())):
            if t._wants_grad:
                raise RuntimeError(
                    f"{name}(): functions with out=... arguments don't support automatic "
                    "differentiation, but one of the arguments requires grad."
                )
    for t in targets:
        refuse_inference(t)
    if api is not None and api.out_decides and kwargs.get("dtype") is None:
        kwargs = {**kwargs, "dtype": targets[0].dtype}
    if targets[0]._special and targets[0].is_sparse:
        with neither_recorded_nor_cast():
            return ON_DEMAND.sparse_output(targets[0], call(*args, **kwargs))
    apart = api is not None and api.out_apart
    sources = [x._array for x in (*flatten(args), *flatten(kwargs.values()))]
    for t in targets:
        check_memory(t._array, sources, apart)
    with neither_recorded_nor_cast():  # autocast leaves the caller's tensors alone
        result = call(*args, **kwargs)
        return store_all(name, out, result, api, sources if apart else ())


def store_all(name: str, out: Any, result: Any, api: Any, apart: Any = ()) -> Any:
    """Store what a call gave into its outputs, which grow apart from the arrays `apart`."""
    targets = out if isinstance(out, (tuple, list)) else (out,)
    parts = result if isinstance(result, tuple) else (result,)
    refusal = "" if api is None else api.out_dtype
    for target, part in zip(targets, parts, strict=True):  # all of them, before one is written
        if not (dispatches(target) or dispatches(part)):
            check_stored(name, target, plain(part._array), refusal)
    for target, part in zip(targets, parts, strict=True):
        if apart and target._array.shape != part._array.shape:
            # Resizing it writes to more of the storage that it is a view of.
            refuse_shared([x for x in apart if x.base is not None], target._array.base)
        if dispatches(target) or dispatches(part):
            target.copy_(part)  # what there is of memory, the class knows
        else:
            store(name, target, plain(part._array))
    return type(result)(targets) if isinstance(result, tuple) else out


# ---------------------------------------------------------------------- the short way


def is_plain(out: Any, args: tuple[Any, ...], kwargs: dict[str, Any], api: Any) -> bool:
    """Whether nothing about the arguments and modes of a call with `out=` has to be looked at.

    That is: one tensor of the host, no history, no transform, and no memory in common with the
    arguments, unless `out` is one of them.
    """
    if BATCHES or TANGENTS or api is None:
        return False
    return is_plain_output(out, args, tuple(kwargs.values()), api.out_apart)


WRITTEN = object()  # a result that is in `out` already


def write_or_compute(
    name: str, out: TensorBase, call: Callable[..., Any], args: Any, kwargs: dict[str, Any]
) -> Any:
    """Call a function that has an in-place form: its last op writes into `out`, if it can."""

    def run(op: Any, tensors: Any, attrs: Any = (), watch: Any = ()) -> Any:
        for t in tensors:
            if type(t) is int:
                dtypes.scalar_dtype(t)  # refuses what no integer dtype holds
        if not watch and write_plain(op, out, tensors, attrs, True, name):
            return WRITTEN
        return apply(op, tensors, attrs, watch)

    try:
        return call(*args, **kwargs, run=run)
    except Exception:  # it may be in the words of the in-place form
        return call(*args, **kwargs)


def refuse_inference(t: TensorBase) -> None:
    """Raise for an inference tensor as `out` outside of inference mode."""
    cell = t._cell
    if cell is not None and cell.inference and not cell.counts and not MODES.inference:
        raise inference_written()


def check_memory(destination: Any, sources: list[Any], apart: bool = False) -> None:
    """Refuse outputs that overlap themselves, each other or the inputs.

    Functions that read their input after they began to write want the two wholly `apart`.
    """
    from ...autograd.inplace import check_overlap

    check_overlap(destination, sources)
    destination = memory_behind(destination)
    if apart:
        refuse_shared(sources, destination)


def refuse_shared(sources: list[Any], destination: Any) -> None:
    if isinstance(destination, np.ndarray) or type(destination) is STATE.device_type:
        if any([type(x) is type(destination) and shares(destination, x) for x in sources]):
            raise RuntimeError(
                "unsupported operation: some elements of the input tensor and the written-to "
                "tensor refer to a single memory location. Please clone() the tensor before "
                "performing the operation."
            )


def shares(a: Any, b: Any) -> bool:
    """Whether two arrays may have memory in common."""
    return bool(xp_of(a).may_share_memory(a, b))


def flatten(values: Any) -> list[TensorBase]:
    found = []
    for v in values:
        if isinstance(v, TensorBase):
            found.append(v)
        elif isinstance(v, (tuple, list)):
            found.extend(flatten(v))
    return found


def lay_out_like(target: TensorBase, array: Any) -> None:
    """Let an output that was resized have the strides of the result."""
    if type(array) is not np.ndarray or array.flags.c_contiguous or not is_dense(array):
        return
    item = target._array.itemsize
    strides = tuple([s // array.itemsize * item for s in array.strides])
    target._array = strided(np, target._array, array.shape, strides)


def check_stored(name: str, target: TensorBase, array: Any, refusal: str) -> None:
    """Raise where `array` may not be copied into `target`.

    `refusal` is what another dtype hears, with names in braces; empty where it is cast.
    """
    if type(array) is not type(memory_behind(target._array)) and STATE.elsewhere:
        made = wrap(array)
        if STATE.meta_type in (type(array), type(target._array)):
            raise RuntimeError(
                f"Attempting to copy from device {made.device} to device {target.device}, but "  # type: ignore[attr-defined]
                "cross-device copies are not allowed!"
            )
        raise two_devices((target, made))
    have, want = dtypes.of(array.dtype), dtypes.of(target._array.dtype)
    only_cast = "safely castable" in refusal
    if have is not want and refusal and (not only_cast or have.category > want.category):
        expected, got = have.scalar_type, want.scalar_type
        raise RuntimeError(
            refusal.format(
                name=name,
                torch_name=name.replace("_", ".", 1),
                want=expected,
                got=got,
                want_c=dtypes.cpp_name(have),
                got_c=dtypes.cpp_name(want),
            )
        )
    if have.category > want.category:
        raise RuntimeError(
            f"result type {have.scalar_type} can't be cast to the desired output type "
            f"{want.scalar_type}"
        )


def store(name: str, target: TensorBase, array: Any) -> None:
    """Copy `array` into `target`, resizing it if need be."""
    if target._array.shape != array.shape:
        if target._array.size:
            warn(
                "An output with one or more elements was resized since it had shape "
                f"{list(target._array.shape)}, which does not match the required output shape "
                f"{list(array.shape)}. This behavior is deprecated, and in a future PyTorch "
                "release outputs will not be resized unless they have zero elements. You can "
                "explicitly reuse an out tensor t by resizing it, inplace, to zero elements with "
                "t.resize_(0).",
                UserWarning,
            )
        from ..copying.resize import resize_in_place

        resize_in_place(target, array.shape)
        lay_out_like(target, array)
    quiet(target._array.__setitem__, ..., before_rounding_to(target._array.dtype, array))
    target._version_cell().bump(name)
