"""Which op of one run is which op of another: edit distance, not equal length.

Ops are matched in rounds. The first wants the same op, module and source line; what is left between
two matches is matched by op and module, then by op alone. So an op that exists on one side only is
the very one that was added, and not an equal one after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

MOST_EDITS = 2000  # beyond that, the middle of two sequences counts as different

Pair = tuple[int | None, int | None]


def align(a: Sequence[Any], b: Sequence[Any], keys: Sequence[Callable[[Any], Any]]) -> list[Pair]:
    """Pairs of indices in order; None where one side has no partner.

    >>> align("kitten", "sitting", [str])[:3]
    [(0, None), (None, 0), (1, 1)]
    """
    gaps = [(0, len(a), 0, len(b))]
    matches: list[tuple[int, int]] = []
    for key in keys:
        left: list[tuple[int, int, int, int]] = []
        for a0, a1, b0, b1 in gaps:
            known: dict[Any, int] = {}
            ours = [known.setdefault(key(x), len(known)) for x in a[a0:a1]]
            theirs = [known.setdefault(key(x), len(known)) for x in b[b0:b1]]
            found = common(ours, theirs)
            matches += [(a0 + i, b0 + j) for i, j in found]
            ends = [(-1, -1), *found, (a1 - a0, b1 - b0)]
            for (i0, j0), (i1, j1) in zip(ends, ends[1:], strict=False):
                if i1 - i0 > 1 and j1 - j0 > 1:
                    left.append((a0 + i0 + 1, a0 + i1, b0 + j0 + 1, b0 + j1))
        gaps = left
    matches.sort()
    pairs: list[Pair] = []
    i = j = 0
    for at, other in [*matches, (len(a), len(b))]:
        pairs += [(k, None) for k in range(i, at)]
        pairs += [(None, k) for k in range(j, other)]
        if at < len(a):
            pairs.append((at, other))
        i, j = at + 1, other + 1
    return pairs


def common(a: list[int], b: list[int]) -> list[tuple[int, int]]:
    """A longest common subsequence, as pairs of indices."""
    start = 0
    while start < len(a) and start < len(b) and a[start] == b[start]:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    middle = shortest_edits(a[start : len(a) - end], b[start : len(b) - end])
    return [
        *[(i, i) for i in range(start)],
        *[(start + i, start + j) for i, j in middle],
        *[(len(a) - end + i, len(b) - end + i) for i in range(end)],
    ]


def shortest_edits(a: list[int], b: list[int]) -> list[tuple[int, int]]:
    """Myers' algorithm: the common elements along a shortest way from `a` to `b`."""
    if not a or not b or not set(a) & set(b):
        return []
    furthest = {1: 0}  # by diagonal i - j: how far along `a` a way with so many edits gets
    history: list[dict[int, int]] = []
    for edits in range(min(len(a) + len(b), MOST_EDITS) + 1):
        history.append(dict(furthest))
        for diagonal in range(-edits, edits + 1, 2):
            down = diagonal == -edits or (
                diagonal != edits and furthest[diagonal - 1] < furthest[diagonal + 1]
            )
            i = furthest[diagonal + 1] if down else furthest[diagonal - 1] + 1
            j = i - diagonal
            while i < len(a) and j < len(b) and a[i] == b[j]:
                i, j = i + 1, j + 1
            furthest[diagonal] = i
            if i >= len(a) and j >= len(b):
                return walked_back(history, len(a), len(b))
    return []


def walked_back(history: list[dict[int, int]], i: int, j: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for edits in range(len(history) - 1, -1, -1):
        furthest = history[edits]
        diagonal = i - j
        down = diagonal == -edits or (
            diagonal != edits and furthest[diagonal - 1] < furthest[diagonal + 1]
        )
        before = diagonal + 1 if down else diagonal - 1
        i0 = furthest[before]
        j0 = i0 - before
        while i > i0 and j > j0:
            i, j = i - 1, j - 1
            found.append((i, j))
        if edits == 0:
            while i > 0 and j > 0:
                i, j = i - 1, j - 1
                found.append((i, j))
        i, j = i0, j0
    return found[::-1]
