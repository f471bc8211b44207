"""Which of several equal elements a selection finds: the one that PyTorch's CPU code finds.

`mode` stands on the C++ library's `sort`, `kthvalue` on a quickselect of its own. Neither is
stable, so the place that they report depends on how they move elements about. A pass over a range
is done here at once: which pairs the two pointers of the pass would exchange is known beforehand.
"""

from __future__ import annotations

from typing import Any

SMALL = 16  # what the C++ library leaves to its insertion sort, which is stable


class Row:
    """The elements of a row as numbers that order them, and the places where they stood."""

    def __init__(self, xp: Any, values: Any) -> None:
        self.xp = xp
        self.codes = xp.unique(values, return_inverse=True)[1].reshape(-1)
        self.places = xp.arange(len(self.codes))

    def swap(self, a: Any, b: Any) -> None:
        for row in (self.codes, self.places):
            row[a], row[b] = row[b], row[a].copy()

    def swap_unless_ordered(self, a: int, b: int) -> None:
        if self.codes[a] > self.codes[b]:
            self.swap(a, b)

    def partition(self, start: int, stop: int, pivot: int, meet: bool) -> tuple[int, int]:
        """Exchange what is on the wrong side of `pivot`; gives where the two pointers stop.

        With `meet`, they go on when they meet.
        """
        xp = self.xp
        part = self.codes[start:stop]
        left = start + xp.flatnonzero(part >= pivot)
        right = start + xp.flatnonzero(part <= pivot)[::-1]
        count = min(len(left), len(right))
        apart = right[:count] - left[:count] >= (0 if meet else 1)
        count = int(apart.sum())
        self.swap(left[:count], right[:count])
        low, high = start, stop
        if count:
            low, high = int(left[count - 1]) + 1, int(right[count - 1])
        up = low + int(xp.argmax(self.codes[low:] >= pivot))
        down = high - 1 - int(xp.argmax(self.codes[:high][::-1] <= pivot))
        return up, down

    def median_of(self, a: int, b: int, c: int) -> int:
        """The one of three places that the C++ library takes for their median."""
        x, y, z = (int(self.codes[i]) for i in (a, b, c))
        if x < y:
            return b if y < z else c if x < z else a
        return a if x < z else c if y < z else b

    def split(self, first: int, last: int) -> int:
        """One step of the C++ library's quicksort; gives where the upper part begins."""
        self.swap(first, self.median_of(first + 1, first + (last - first) // 2, last - 1))
        return self.partition(first + 1, last, int(self.codes[first]), False)[0]


def by_quickselect(xp: Any, values: Any, k: int) -> Any:
    """The place of what `kthvalue` puts at `k`."""
    row = Row(xp, values)
    low, high = 0, len(row.codes) - 1
    while high > low + 1:
        row.swap(low + (high - low) // 2, low + 1)
        row.swap_unless_ordered(low + 1, high)
        row.swap_unless_ordered(low, high)
        row.swap_unless_ordered(low + 1, low)
        up, down = row.partition(low + 2, high, int(row.codes[low]), True)
        row.swap(low, down)
        if down <= k:
            low = up
        if down >= k:
            high = down - 1
    if high == low + 1:
        row.swap_unless_ordered(low, high)
    return row.places[k]


def last_by_sort(xp: Any, values: Any, place: int) -> Any:
    """The place of the last of the elements equal to the one at `place`, after `sort`."""
    row = Row(xp, values)
    wanted = int(row.codes[place])
    first, last = 0, len(row.codes)
    while last - first > SMALL:
        cut = row.split(first, last)
        if (row.codes[cut:last] == wanted).any():
            first = cut
        else:
            last = cut
    return row.places[first + int(xp.flatnonzero(row.codes[first:last] == wanted)[-1])]
