"""`__version__` as PyTorch gives it: a string that compares as a version."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

__all__ = ["TorchVersion"]

_PARTS = re.compile(r"v?(?P<release>\d+(?:\.\d+)*)(?P<rest>[^+]*)")


def _key(version: str) -> tuple[tuple[int, ...], str] | None:
    """Something that orders versions: the numbers, then what kind of release it is."""
    found = _PARTS.match(version.strip())
    if found is None:
        return None
    numbers = [int(n) for n in found["release"].split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()  # 2.0 is 2.0.0
    # "a0", "rc1", ".dev3" come before the release itself, which gets a character after letters.
    rest = found["rest"].strip(".-_") or "~"
    return tuple(numbers), rest


class TorchVersion(str):
    """A version string; comparisons take strings, tuples of numbers and other versions.

    >>> from tapegrad.torch_version import TorchVersion
    >>> TorchVersion("2.13.0") > "2.9", TorchVersion("2.13.0") >= (2, 13)
    (True, True)
    """

    __slots__ = ()

    def _keys(self, other: Any) -> tuple[Any, Any] | None:
        if not isinstance(other, str):
            if not isinstance(other, Iterable):
                return None
            other = ".".join(str(part) for part in other)
        ours, theirs = _key(self), _key(other)
        return None if ours is None or theirs is None else (ours, theirs)

    def __lt__(self, other: Any) -> bool:
        keys = self._keys(other)
        return str.__lt__(self, other) if keys is None else keys[0] < keys[1]

    def __le__(self, other: Any) -> bool:
        keys = self._keys(other)
        return str.__le__(self, other) if keys is None else keys[0] <= keys[1]

    def __gt__(self, other: Any) -> bool:
        keys = self._keys(other)
        return str.__gt__(self, other) if keys is None else keys[0] > keys[1]

    def __ge__(self, other: Any) -> bool:
        keys = self._keys(other)
        return str.__ge__(self, other) if keys is None else keys[0] >= keys[1]

    def __eq__(self, other: Any) -> bool:
        if isinstance(other, str) and str.__eq__(self, other):
            return True
        keys = self._keys(other)
        return keys is not None and keys[0] == keys[1]

    def __ne__(self, other: Any) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return str.__hash__(self)

    def __reduce__(self) -> Any:
        return TorchVersion, (str(self),)
