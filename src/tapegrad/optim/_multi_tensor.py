"""Many small tensors updated as one: gathered into flat buffers, updated, scattered back.

An optimizer that treats every element by itself does not care which tensor an element is in. So
parameters that are alike (same dtype, same step count) are laid end to end, the optimizer's own
`update` runs once on the long tensors, and the results go back to where they came from. There is
no second formula: the results are bit-equal to those of the loop over tensors. What that saves is
the cost of starting some ten operations for each tensor, which is all the time that a small one
takes.

The parameters and their state stay ordinary tensors with memory of their own; only the values are
copied out and in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..core.base import ndarray, wrap
from ..core.modes import MODES
from ..core.tensor_lists import note_writes
from ..core.transforms.levels import TANGENTS

Update = Callable[[Any, Any, dict[str, Any], dict[str, Any]], None]

FEWEST = 4  # tensors; fewer are not worth the copies
LARGEST = 1 << 12  # elements; copying a larger tensor costs more than starting its operations
CHUNK = 1 << 16  # elements updated at once: few enough to stay in the processor's cache


def update_many(
    params: list[Any],
    states: Any,
    group: dict[str, Any],
    update: Update,
    scalars: tuple[str, ...],
) -> list[Any]:
    """Update the parameters that can be gathered; the others are returned.

    `scalars` names the entries of the state that are one number for the whole parameter.
    """
    if MODES.records or TANGENTS or any(type(v) not in PLAIN for v in group.values()):
        return params
    rest: list[Any] = []
    alike: dict[Any, list[Any]] = {}
    for p in params:
        key = gathers_with(p, states[p], scalars)
        if key is None:
            rest.append(p)
        elif key in alike:
            alike[key].append(p)
        else:
            alike[key] = [p]
    for found in alike.values():
        for some in chunks(found):
            own = [states[p] for p in some]
            if len(some) < FEWEST or share_memory(some, own):
                rest.extend(some)
            else:
                update_gathered(some, own, group, update, scalars)
    return rest


# The options of a group that make no difference between one tensor and many: no tensors.
PLAIN = (bool, float, int, list, str, tuple, type(None))


def gathers_with(p: Any, own: dict[str, Any], scalars: tuple[str, ...]) -> Any:
    """A key that is equal for parameters that can be updated together; None for one that cannot."""
    array, grad = p._array, p._gradient
    values = grad._array
    dtype, shape = array.dtype, array.shape
    if (
        dtype.kind != "f"
        or type(array) is not ndarray
        or array.size > LARGEST
        or p._special
        or p._view_of is not None
        or grad._special
        or values.dtype is not dtype
        or values.shape != shape
        or not owns_memory(array, p._cell)
    ):
        return None
    key = [dtype]
    for name, t in own.items():
        key.append(name)
        if name in scalars:
            key.append(t._array.item())
            continue
        if t is None or t._special:
            return None
        array = t._array
        if array.dtype is not dtype or array.shape != shape or not owns_memory(array, t._cell):
            return None
    return tuple(key)


def owns_memory(array: Any, cell: Any) -> bool:
    """Whether a tensor can be written through its array, apart from counting the write."""
    if array.base is not None and not array.flags.c_contiguous:
        return False  # perhaps expanded: several elements in one place
    return cell is None or not cell.inference


def chunks(params: list[Any]) -> Iterator[list[Any]]:
    """The parameters in lists of about CHUNK elements."""
    some: list[Any] = []
    size = 0
    for p in params:
        some.append(p)
        size += p._array.size
        if size >= CHUNK:
            yield some
            some, size = [], 0
    if some:
        yield some


def share_memory(params: list[Any], states: list[dict[str, Any]]) -> bool:
    """Whether a write to one tensor may be seen in another: then the order of updates matters."""
    written = owners([p._array for p in params])
    for name in states[0]:
        written += owners([own[name]._array for own in states])
    distinct = set(written)
    if len(distinct) != len(written):
        return True
    return not distinct.isdisjoint(owners([p._gradient._array for p in params]))


def owners(arrays: list[Any]) -> list[int]:
    """Which memory each array looks at; NumPy's views name the array that owns it."""
    return [id(a if a.base is None else a.base) for a in arrays]


def update_gathered(
    params: list[Any],
    states: list[dict[str, Any]],
    group: dict[str, Any],
    update: Update,
    scalars: tuple[str, ...],
) -> None:
    """One update of tensors laid end to end; the scalars of their states are equal."""
    flat = gather(params)
    grad = gather([p._gradient for p in params])
    columns = {name: [own[name] for own in states] for name in states[0]}
    state = {
        name: wrap(tensors[0]._array.copy()) if name in scalars else gather(tensors)
        for name, tensors in columns.items()
    }
    update(flat, grad, state, group)
    scatter(flat, params)
    note_writes(flat._cell, params)
    for name, value in state.items():
        if name not in columns:
            divide(name, value, params, states)
        elif name in scalars:
            fill_all(value, columns[name])
        else:
            scatter(value, columns[name])


def gather(tensors: list[Any]) -> Any:
    """Tensors laid end to end, as one."""
    return wrap(np.concatenate([t._array for t in tensors], axis=None))


def scatter(flat: Any, tensors: list[Any]) -> None:
    """The pieces of `flat` back into the tensors, where it was written to."""
    writes = count_writes(flat)
    if not writes:
        return
    values = flat._array
    start = 0
    for t in tensors:
        array = t._array
        stop = start + array.size
        piece = values[start:stop]
        array[...] = piece if array.ndim == 1 else piece.reshape(array.shape)
        start = stop
        (t._cell or t._version_cell()).n += writes


def divide(name: str, flat: Any, params: list[Any], states: list[dict[str, Any]]) -> None:
    """A new entry of the state, made by the update: the pieces become tensors of their own."""
    start = 0
    for p, own in zip(params, states, strict=True):
        stop = start + p._array.size
        own[name] = wrap(flat._array[start:stop].reshape(p._array.shape).copy())
        start = stop


def fill_all(number: Any, tensors: list[Any]) -> None:
    """One new value into the tensors that all held the old one."""
    writes = count_writes(number)
    if writes:
        value = number._array.item()
        for t in tensors:
            t._array.fill(value)
            (t._cell or t._version_cell()).n += writes


def count_writes(t: Any) -> int:
    return 0 if t._cell is None else int(t._cell.n)
