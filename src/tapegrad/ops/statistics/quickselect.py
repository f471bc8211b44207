"""Which of several equal elements a selection finds: the one that PyTorch's CPU code finds.

`mode` stands on the C++ library's `sort`, `kthvalue` on a quickselect of its own. Neither is
stable, so the place that they report depends on how they move elements about. A pass over a range
is done here at once: which pairs the two pointers of the pass would exchange is known beforehand.
"""

from __future__ import annotations

from collections.abc import Callable
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


def mode_with_nan(values: list[float]) -> int:
    """The place of the mode of a row that has NaN in it, as PyTorch finds it.

    PyTorch sorts with `<`, which is false for NaN: what counts as a run of equal elements depends
    on the steps of the C++ library's sort, so these are repeated here.
    """
    order = sorted_by(len(values), lambda a, b: values[a] < values[b])
    best, most, run = 0, 0, 0
    for i, place in enumerate(order):
        run += 1
        if i + 1 == len(order) or values[place] != values[order[i + 1]]:
            if run > most:
                best, most = place, run
            run = 0
    return best


def sorted_by(count: int, less: Callable[[int, int], bool]) -> list[int]:
    """The places 0 … count - 1 as the C++ library's `sort` orders them, whatever `less` says.

    With NaN among the values `less` is no order, and the result depends on the algorithm:
    quicksort down to parts of 16, then one pass of insertion sort.
    """
    order = list(range(count))
    waiting = [(0, count)]
    while waiting:
        first, last = waiting.pop()
        while last - first > SMALL:
            cut = quicksort_step(order, first, last, less)
            waiting.append((cut, last))
            last = cut
    for i in range(1, count):
        taken = order[i]
        if i < SMALL and less(taken, order[0]):
            order[1 : i + 1] = order[:i]
            order[0] = taken
            continue
        place = i
        while place and less(taken, order[place - 1]):
            order[place] = order[place - 1]
            place -= 1
        order[place] = taken
    return order


def quicksort_step(
    order: list[int], first: int, last: int, less: Callable[[int, int], bool]
) -> int:
    """Move the median of three to the front and split the rest around it."""
    a, b, c = first + 1, first + (last - first) // 2, last - 1
    if less(order[a], order[b]):
        median = b if less(order[b], order[c]) else c if less(order[a], order[c]) else a
    else:
        median = a if less(order[a], order[c]) else c if less(order[b], order[c]) else b
    order[first], order[median] = order[median], order[first]
    pivot = order[first]
    low, high = first + 1, last
    while True:
        while low < last - 1 and less(order[low], pivot):
            low += 1
        high -= 1
        while high > first and less(pivot, order[high]):
            high -= 1
        if not low < high:
            return low
        order[low], order[high] = order[high], order[low]
        low += 1
