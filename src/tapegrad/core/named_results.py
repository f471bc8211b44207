"""Results of several tensors: tuples whose parts have names, as `torch.return_types`."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Any

RETURN_TYPES: dict[str, type] = {}


class ReturnType(tuple[Any, ...]):
    """A named tuple that, as PyTorch's, is constructed from one sequence of its parts."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()

    def __new__(cls, parts: Iterable[Any], extra: Any = None) -> ReturnType:
        # Pickles of PyTorch's pass a dict of further parts, which is always empty.
        return tuple.__new__(cls, parts)

    @classmethod
    def _make(cls, parts: Iterable[Any]) -> ReturnType:
        return tuple.__new__(cls, parts)

    def __repr__(self) -> str:
        shown = [f"{name}={part!r}" for name, part in zip(self._fields, self, strict=True)]
        return f"torch.return_types.{type(self).__name__}(\n" + ",\n".join(shown) + ")"

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild, (type(self).__name__, tuple(self))


def rebuild(name: str, parts: tuple[Any, ...]) -> Any:
    return RETURN_TYPES[name](parts)


def return_type(name: str, fields: tuple[str, ...]) -> Any:
    """The class of results called `name`, made on first use."""
    found = RETURN_TYPES.get(name)
    if found is None:
        body: dict[str, Any] = {"__slots__": (), "_fields": fields}
        body["__module__"] = "torch.return_types"
        body |= {"n_fields": len(fields), "n_sequence_fields": len(fields), "n_unnamed_fields": 0}
        for i, field in enumerate(fields):
            body[field] = property(itemgetter(i))
        found = RETURN_TYPES[name] = type(name, (ReturnType,), body)
    return found
