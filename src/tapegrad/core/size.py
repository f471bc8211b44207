"""`Size`: the shape of a tensor, a tuple of ints that stays one under slicing, + and *."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, NoReturn, SupportsIndex, overload

import numpy as np


class Size(tuple[int, ...]):
    """The sizes of a tensor's dimensions.

    >>> Size([2, 3]) + (4,), Size([2, 3]).numel()
    (torch.Size([2, 3, 4]), 6)
    """

    __slots__ = ()

    def __new__(cls, *sizes: Iterable[Any]) -> Size:
        if len(sizes) > 1:
            raise TypeError(f"tuple expected at most 1 argument, got {len(sizes)}")
        items = tuple(sizes[0]) if sizes else ()
        for position, item in enumerate(items):
            if type(item) is not int:
                items = _as_ints(items, position)
                break
        return tuple.__new__(cls, items)

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("type 'torch.Size' is not an acceptable base type")

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    def __reduce__(self) -> tuple[Any, ...]:
        return Size, (tuple(self),)

    def numel(self) -> int:
        """The number of elements of a tensor of this size."""
        count = 1
        for n in self:
            count *= n
        return count

    @overload
    def __getitem__(self, key: SupportsIndex, /) -> int: ...
    @overload
    def __getitem__(self, key: slice, /) -> Size: ...
    def __getitem__(self, key: Any, /) -> Any:
        if type(key) is slice:
            return tuple.__new__(Size, tuple.__getitem__(self, key))
        return tuple.__getitem__(self, key)

    def __add__(self, other: object, /) -> Any:
        if isinstance(other, tuple):
            return Size(tuple.__add__(self, other))
        # Arrays and tensors know how to add a tuple. For the rest the sentence is not Python's.
        reflected = getattr(type(other), "__radd__", None)
        result = NotImplemented if reflected is None else reflected(other, self)
        if result is NotImplemented:
            raise TypeError(
                f"can only concatenate tuple (not {type(other).__name__}) to torch.Size"
            )
        return result

    def __radd__(self, other: object, /) -> Size:
        if isinstance(other, tuple):
            return Size((*other, *self))
        return NotImplemented

    def __mul__(self, count: SupportsIndex, /) -> Size:
        if not hasattr(type(count), "__index__"):
            raise TypeError(f"can't multiply sequence by non-int of type '{type(count).__name__}'")
        return tuple.__new__(Size, tuple.__mul__(self, count))

    def __rmul__(self, count: SupportsIndex, /) -> Size:
        return self * count if hasattr(type(count), "__index__") else NotImplemented


def _as_ints(items: tuple[Any, ...], start: int) -> tuple[int, ...]:
    """Check the sizes from `start` on; values that convert to int (0-d tensors) become ints."""
    checked = list(items)
    for position in range(start, len(items)):
        item = items[position]
        if isinstance(item, (int, np.integer)) and not isinstance(item, bool):
            continue
        try:
            checked[position] = operator.index(item)
        except Exception:
            kind = type(item)
            name = f"numpy.{kind.__name__}" if kind.__module__ == "numpy" else kind.__name__
            raise TypeError(
                f"torch.Size() takes an iterable of 'int' (item {position} is '{name}')"
            ) from None
    return tuple(checked)
