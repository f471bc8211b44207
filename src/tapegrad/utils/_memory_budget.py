"""A limit for the bytes of saved values: the excess is dropped, and computed again in backward.

While the block runs, every op that autograd records reports its call here. A *value* is the memory
of a result; its *recipe* is the call that made it. When the values that are alive exceed the limit,
those are dropped whose recomputation costs least for the bytes and the time that it frees (Kirisame
et al., "Dynamic Tensor Rematerialization", 2021); a saved view is an offset and strides in its
value. A recipe runs the same kernel on the same inputs, so a recomputed value has the same bits;
draws of random numbers, updates of buffers and other writes are in no recipe, and never repeated.

What a value needs in order to be computed again stays: a dropped value has a claim on its inputs,
and one of them that is not in memory has claims in turn, up to values that are.
"""

from __future__ import annotations

import heapq
import math
import re
import sys
import time
import weakref
from typing import Any

import numpy as np

from ..core.base import ORDINARY, TensorBase, as_array, cell_of, user_frame, wrap
from ..core.dispatch import run_kernel
from ..core.modes import MODES, BudgetBlock
from ..core.node import Packed
from ..core.strides import address, memory
from ..core.warned import warn

UNITS = {"": 1}
for power, unit in enumerate("kmgt", 1):
    UNITS |= {unit: 1000**power, f"{unit}i": 1024**power}
SIZE = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)\s*([kmgt]?i?)b?")
MOST_SITES = 64
# The sizes of the values that the last block of a `with` statement made, by its code and place, and
# the times of ops: what the next op will need, and what is cheap, is known from the second step on.
_BEFORE: dict[Any, tuple[list[int], dict[Any, float]]] = {}
SMALL = 4096  # dropping smaller values frees next to nothing


def as_bytes(size: Any) -> int:
    """A number of bytes, or a text such as "200 MB" or "1.5 GiB", as a number."""
    if isinstance(size, str):
        found = SIZE.fullmatch(size.strip().lower())
        if found is not None and found[2] in UNITS:
            size = int(float(found[1]) * UNITS[found[2]])
    if isinstance(size, bool) or not isinstance(size, (int, float)) or not 0 < size < 2**63:
        raise ValueError(
            f'budget(): the size must be a positive number of bytes or a text such as "200 MB" or '
            f'"1.5 GiB", got {size!r}'
        )
    return int(size)


def shown(size: int) -> str:
    """A number of bytes for people, in the units that `budget` takes."""
    for unit, power in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= power:
            return f"{size / power:.1f} {unit}"
    return f"{size} bytes"


class Recipe:
    """The call of an op that made some values, and what it read."""

    __slots__ = ("__weakref__", "attrs", "checks", "cost", "inputs", "made", "op", "values")

    def __init__(self, op: Any, attrs: Any, inputs: list[Any], checks: list[Any]) -> None:
        self.op = op
        self.attrs = attrs
        self.inputs = inputs  # (Value, view) pairs; arrays and numbers that are no values
        self.values: list[Value] = [given[0] for given in inputs if type(given) is tuple]
        self.checks = checks  # (version cell, its count) of every tensor that the call read
        self.cost = 0.0
        self.made: list[Any] = []  # (output, weak reference to the Value)

    def is_valid(self) -> bool:
        """Whether nothing was written into the inputs since the call."""
        for cell, n in self.checks:  # noqa: SIM110
            if cell.n != n:
                return False
        return True


class Value:
    """The memory of a result: kept, alive only because somebody else holds it, or dropped."""

    __slots__ = (
        "__weakref__", "alive", "budget", "busy", "cell", "claims", "handles", "layout", "nbytes",
        "needed", "number", "owner", "recipe",
    )  # fmt: skip

    def __init__(self, budget: budget, owner: Any, number: int) -> None:
        self.budget = budget
        self.number = number  # in the order in which values were made
        self.nbytes: int = owner.nbytes
        self.layout = (owner.shape, owner.strides, owner.dtype)
        self.cell: Any = None  # the version cell of the tensor that was saved
        self.recipe: Recipe | None = None
        self.owner: Any = None  # the array, while this object keeps it
        self.alive: Any = lambda: None
        self.handles = 0  # saved values of nodes that look at it
        self.needed = 0  # dropped values that are computed from it
        self.claims = False  # whether it is dropped, and its inputs are needed for that
        self.busy = False  # it may not be dropped now

    def array(self) -> Any:
        """The memory, if it exists."""
        return self.alive() if self.owner is None else self.owner


class Saved:
    """Takes the place of a saved array in a node: a value, and where the array is in it."""

    __slots__ = ("part", "value")

    def __init__(self, value: Value, part: Any) -> None:
        self.value = value
        self.part = part
        value.handles += 1

    def __del__(self) -> None:
        self.value.handles -= 1
        if self.value.handles == 0:
            self.value.budget.settle(self.value)

    @property
    def kept(self) -> Any:
        """The memory, if the graph keeps it; for diagnose.memory."""
        return self.value.owner

    @property
    def _array(self) -> Any:
        return seen(self.value.budget.fetch(self.value), self.part)


def unpack(saved: Saved) -> Any:
    t = wrap(saved._array)
    t._cell = saved.value.cell
    return t


def view_of(array: Any, owner: Any) -> Any:
    """The arguments with which `seen` makes `array` from the memory that owns it."""
    if array is owner:
        return None
    return array.shape, array.strides, array.dtype, address(array) - address(owner)


def seen(owner: Any, view: Any) -> Any:
    """The array that `view_of` described."""
    if view is None:
        return owner
    shape, strides, dtype, offset = view
    order = sorted(range(owner.ndim), key=lambda d: (-owner.strides[d], d))
    return np.ndarray(shape, dtype, owner.transpose(order), offset, strides)


class budget(BudgetBlock):
    """Limit the memory of the values that autograd saves in a `with` block, as in `"200 MB"`.

    What exceeds the limit is dropped during forward and computed again during backward, with the
    same bits. The `with` statement gives an object that says what happened, and can be printed:
    `peak` (bytes), `dropped` and `recomputed` (how many values), `seconds` (of recomputation).

    >>> model = nn.Sequential(*[nn.Linear(64, 64) if i % 2 else nn.GELU() for i in range(12)])
    >>> x = ones(32, 64)
    >>> with utils.checkpoint.budget("64 kB") as report:
    ...     model(x).sum().backward()
    >>> report.dropped > 0, report.peak <= 64_000
    (True, True)
    """

    def __init__(self, size: Any) -> None:
        self.size = as_bytes(size)
        self.live = 0  # bytes of all values that are alive
        self.peak = 0
        self.dropped = 0
        self.recomputed = 0
        self.seconds = 0.0
        self._last = 0.0  # when the previous op was done, by the clock of this thread
        self._position = 0  # the number of the newest value, or of the one that backward is at
        self._made = 0
        self._sizes: list[int] = []  # of the values, by number
        self._expected: list[int] = []  # the same in the block before
        self._largest = 0
        self._site: Any = None
        self._costs: dict[Any, float] = {}
        # By the id of the memory: a weak reference that counts its end, and the Value.
        self._of: dict[int, tuple[Any, Value]] = {}
        self._held: dict[int, Value] = {}  # by number: those that this object keeps
        self._missing: dict[int, Value] = {}  # by number: dropped ones that somebody needs
        self._warned = False

    def begin(self) -> None:
        frame = user_frame(1)
        self._site = None if frame is None else (frame.f_code, frame.f_lasti)
        self._expected, self._costs = _BEFORE.get(self._site, ([], {}))
        self._last = time.thread_time()

    def end(self, failed: bool) -> None:
        if self._site in _BEFORE or len(_BEFORE) < MOST_SITES:
            _BEFORE[self._site] = self._sizes, self._costs
        if not failed and self.peak > self.size * 1.05 and not self._warned:
            self._warned = True
            warn(
                f"utils.checkpoint.budget: the limit of {shown(self.size)} could not be met: "
                f"{shown(self.peak)} were alive at once, and the rest had been dropped. "
                f'This program needs budget("{shown(int(self.peak * 1.01) + 1)}"), smaller '
                "batches, or a checkpoint around the part whose results are held by variables.",
            )

    def __repr__(self) -> str:
        return (
            f"<budget of {shown(self.size)}: peak {shown(self.peak)}, {self.dropped} values "
            f"dropped, {self.recomputed} computed again in {self.seconds:.3f} s>"
        )

    # ------------------------------------------------------------------ while ops are recorded

    def recorded(
        self, op: Any, tensors: tuple[Any, ...], attrs: Any, node: Any, outs: tuple[Any, ...]
    ) -> None:
        """Take note of an op that has just run, and drop values if too many are alive."""
        if MODES.saved_hooks:
            return
        spent = time.thread_time() - self._last
        if not op.view:
            self._note(op, tensors, attrs, node, outs, spent)
        self._take_over(node)
        done = len(self._sizes)
        coming = self._expected[done : done + 2]
        self._make_room(max(coming, default=0) if self._expected else self._largest)
        self._last = time.thread_time()

    def _note(
        self, op: Any, tensors: Any, attrs: Any, node: Any, outs: tuple[Any, ...], spent: float
    ) -> None:
        """Make values of the new memory among the outputs of an op."""
        fresh: list[tuple[int, Any]] = []
        for i, out in enumerate(outs):
            if type(out) is np.ndarray:
                owner = memory(out)
                if id(owner) not in self._of and owner.nbytes >= out.nbytes > 0:
                    fresh.append((i, owner))
        if not fresh:
            return
        read = {id(memory(t._array)) for t in tensors if is_plain(t)}
        recipe = self._recipe(op, tensors, attrs, node)
        for i, owner in fresh:
            if id(owner) in read or id(owner) in self._of:
                continue  # the op returned memory of an argument, or two views of one memory
            value = Value(self, owner, self._made)
            self._made += 1
            self._position = self._made
            self._watch(value, owner)
            self._sizes.append(value.nbytes)
            self._largest = max(self._largest, value.nbytes)
            if recipe is not None:
                value.recipe = recipe
                recipe.made.append((i, weakref.ref(value)))
        if recipe is not None:
            key = (op.name, *[(out.shape, out.dtype) for out in outs])
            best = self._costs.get(key)
            recipe.cost = self._costs[key] = spent if best is None else min(spent, best)
        self.peak = max(self.peak, self.live)

    def _recipe(self, op: Any, tensors: Any, attrs: Any, node: Any) -> Recipe | None:
        """How to run the op again; None where its inputs are more than arrays of the host."""
        inputs: list[Any] = []
        checks: list[Any] = []
        for t in tensors:
            if not isinstance(t, TensorBase):
                inputs.append(t)
                continue
            if not is_plain(t) or cell_of(t).inference:
                return None
            owner = memory(t._array)
            found = self._of.get(id(owner))
            inputs.append(t._array if found is None else (found[1], view_of(t._array, owner)))
            checks.append((t._cell, t._cell.n))
        cells = node._cells  # of the tensors whose arrays are among the attributes
        for k in range(0, len(cells), 3):
            if type(cells[k]) is not int:
                checks.append((cells[k + 1], cells[k + 2]))
        return Recipe(op, attrs, inputs, checks)

    def _take_over(self, node: Any) -> None:
        """Replace the saved arrays of a node by references to values."""
        kept: list[Any] | None = None
        cells = node._cells
        for k in range(0, len(cells), 3):
            place = cells[k]
            array = node._kept[place] if type(place) is int else None
            if type(array) is not np.ndarray:
                continue
            owner = memory(array)
            found = self._of.get(id(owner))
            if found is None:
                continue
            value = found[1]
            value.cell = cells[k + 1]
            if kept is None:
                kept = list(node._kept)
            kept[place] = Packed(Saved(value, view_of(array, owner)), unpack)
            self._keep(value, owner)
        if kept is not None:
            node._kept = tuple(kept)
            node._packed = True

    def before_write(self, target: Any) -> None:
        """Compute what is missing and reads the memory that is about to be written."""
        if type(target._array) is not np.ndarray:
            return
        owner = memory(target._array)
        found = self._of.get(id(owner))
        for value in list(self._missing.values()):
            recipe = value.recipe
            if recipe is not None and value.claims and reads(recipe, owner):
                self._keep(value, self.fetch(value))
                value.recipe = None  # it cannot be made again after the write
        if found is not None:
            if found[1].claims:
                self._keep(found[1], owner)
            found[1].recipe = None

    # ------------------------------------------------------------------ keeping and dropping

    def _keep(self, value: Value, owner: Any) -> None:
        if value.owner is None:
            value.owner = owner
            self._held[value.number] = value
            self.settle(value)

    def settle(self, value: Value) -> None:
        """Note whether a value is needed, and free it, or claim what it is computed from."""
        waiting = [value]
        while waiting:
            v = waiting.pop()
            wanted = v.handles > 0 or v.needed > 0
            if not wanted and v.owner is not None:
                v.owner = None
                self._held.pop(v.number, None)
            claims = wanted and v.owner is None and v.recipe is not None
            if claims == v.claims:
                continue
            v.claims = claims
            if claims:
                self._missing[v.number] = v
            else:
                self._missing.pop(v.number, None)
            for given in v.recipe.values if v.recipe is not None else ():
                given.needed += 1 if claims else -1
                if given.needed == (1 if claims else 0):
                    # Memory that nothing can compute again is kept while it is needed.
                    array = given.array()
                    if claims and array is not None and self._cost(given) == math.inf:
                        self._keep(given, array)
                    waiting.append(given)

    def _make_room(self, extra: int) -> None:
        """Drop values until `extra` more bytes fit into the limit, or nothing else can go."""
        limit = self.size - min(extra, self.size // 4)
        if self.live <= limit:
            return
        limit -= self.size // 50  # so that the next op does not have to choose again
        heap: list[tuple[float, int]] = []
        for number, value in list(self._held.items()):
            if self._may_go(value) and (score := self._score(value)) < math.inf:
                heap.append((score, number))
        heapq.heapify(heap)
        while heap and self.live > limit:
            score, number = heapq.heappop(heap)
            value = self._held.get(number)
            if value is None:  # freed meanwhile
                continue
            now = self._score(value)  # more, once inputs of it were dropped
            if now > score * 1.01:
                if now < math.inf:
                    heapq.heappush(heap, (now, number))
                continue
            self._held.pop(number)
            value.owner = None
            self.dropped += 1
            self.settle(value)

    def _may_go(self, value: Value) -> bool:
        return not value.busy and value.nbytes >= SMALL and sys.getrefcount(value.owner) <= ALONE

    def _score(self, value: Value) -> float:
        """The cost of computing a value again, per byte and distance to its next use."""
        distance = abs(self._position - value.number) + self._made / 4 + 1
        return (self._cost(value) + 1e-6) / (value.nbytes * distance)

    def _cost(self, value: Value) -> float:
        """Seconds to compute a value, and what is missing for that; infinite if that is lost."""
        recipe = value.recipe
        if recipe is None or not recipe.is_valid():
            return math.inf
        stack = [given for given in recipe.values if given.owner is None and given.alive() is None]
        if not stack:
            return recipe.cost
        cost = recipe.cost
        counted = {recipe}
        while stack:
            recipe = stack.pop().recipe
            if recipe is None or not recipe.is_valid():
                return math.inf
            if recipe not in counted:
                counted.add(recipe)
                cost += recipe.cost
                stack += [given for given in recipe.values if given.array() is None]
        return cost

    # ------------------------------------------------------------------ computing again

    def fetch(self, value: Value) -> Any:
        """The memory of a value, computed again if it was dropped."""
        owner = value.array()
        if owner is not None:
            return owner
        if MODES.run is not None:
            self._position = value.number
        steps: dict[int, Value] = {}
        stack = [value]
        while stack:
            v = stack.pop()
            if v.number not in steps and v.array() is None:
                steps[v.number] = v
                stack += v.recipe.values if v.recipe is not None else []
        uses: dict[int, int] = {}  # of results that only other results are made of
        for v in steps.values():
            for given in v.recipe.values if v.recipe is not None else ():
                uses[given.number] = uses.get(given.number, 0) + 1
                given.busy = True
        arrays: dict[int, Any] = {}
        start = time.perf_counter()
        try:
            for number in sorted(steps):
                v = steps[number]
                if number not in arrays:
                    self._run_again(v, arrays, steps)
                for given in v.recipe.values if v.recipe is not None else ():
                    uses[given.number] -= 1
                    if not uses[given.number] and given is not value:
                        arrays.pop(given.number, None)
                        given.busy = False
        finally:
            for v in steps.values():
                for given in v.recipe.values if v.recipe is not None else ():
                    given.busy = False
            self.seconds += time.perf_counter() - start
        return arrays[value.number]

    def _run_again(self, value: Value, arrays: dict[int, Any], steps: dict[int, Value]) -> None:
        """Run the op that made a value; its other results are taken too where they are missing."""
        recipe = value.recipe
        if recipe is None or not recipe.is_valid():
            name = "" if recipe is None else f" of {recipe.op.name}"
            raise RuntimeError(
                f"utils.checkpoint.budget: a dropped result{name} has to be computed again, but "
                "one of its inputs was modified in place outside the block since. Keep the "
                "backward pass and what precedes it inside the block, or clone() the input first."
            )
        self._make_room(sum([v.nbytes for _, ref in recipe.made if (v := ref()) is not None]))
        given: list[Any] = []
        for x in recipe.inputs:
            if type(x) is tuple:
                owner = arrays.get(x[0].number)
                x = seen(x[0].array() if owner is None else owner, x[1])
            given.append(x)
        found = run_kernel(recipe.op, given, recipe.attrs)
        results = (found,) if recipe.op.single else tuple(found)
        for i, ref in recipe.made:
            v = ref()
            if v is None or v.array() is not None:
                continue
            owner = memory(as_array(results[i]))
            if (owner.shape, owner.strides, owner.dtype) != v.layout:
                raise RuntimeError(
                    f"utils.checkpoint.budget: {recipe.op.name} gave another layout when it was "
                    "run again"
                )
            self._watch(v, owner)
            self.recomputed += 1
            if v.handles > 0:
                self._keep(v, owner)
            if v.number in steps:
                arrays[v.number] = owner
        self.peak = max(self.peak, self.live)

    def _watch(self, value: Value, owner: Any) -> None:
        """Count memory that a value has from now on, until it is freed."""
        key, nbytes = id(owner), value.nbytes

        def end(_: Any) -> None:
            self._of.pop(key, None)
            self.live -= nbytes

        value.alive = weakref.ref(owner, end)
        self._of[key] = (value.alive, value)
        self.live += nbytes


def is_plain(t: Any) -> bool:
    return isinstance(t, TensorBase) and t._special == ORDINARY and type(t._array) is np.ndarray


def reads(recipe: Recipe, owner: Any) -> bool:
    """Whether a call read the memory `owner`."""
    for given in recipe.inputs:
        if type(given) is tuple:
            if given[0].array() is owner:
                return True
        elif type(given) is np.ndarray and memory(given) is owner:
            return True
    return False


class _Probe:
    __slots__ = ("owner",)


_probe: Any = _Probe()
_probe.owner = np.empty(1)
ALONE = sys.getrefcount(_probe.owner)  # of an array that one attribute holds
