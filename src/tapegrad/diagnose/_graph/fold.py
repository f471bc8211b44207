"""Making a large graph small: modules as one box each, and blocks that repeat shown once.

`boxes` puts the nodes that one call of a module made into one box. `Outline` then finds the line
that leads through the boxes: from the output always to the input that has the longest way behind
it; everything else hangs on that line as a branch. Stretches of a line that repeat (layers of a
network, steps of a loop) are found by comparing what the boxes are, not what they are called.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

CONTAINERS = ("ModuleList", "ModuleDict")  # they hold modules, but never run
MAX_PERIOD = 300
WORTH = 6  # boxes that a repetition has at least, to be folded


@dataclass
class Box:
    """One node, or all nodes that one call of a module made."""

    id: int
    nodes: list[int]
    module: str | None = None  # the path, for the box of a module
    inputs: list[int] = field(default_factory=list)  # boxes, in the order of the arguments
    users: list[int] = field(default_factory=list)


def level_of(path: str, groups: dict[str, Any]) -> int:
    """How many running modules are around the inside of `path`: 1 for the outermost."""
    level = 0
    inner: str | None = path
    while inner is not None:
        level += groups[inner]["type"] not in CONTAINERS
        inner = groups[inner]["parent"]
    return level


def deepest(data: dict[str, Any]) -> int:
    return max([level_of(path, data["groups"]) for path in data["groups"]], default=0)


def boxes(data: dict[str, Any], depth: int | None = None) -> list[Box]:
    """The graph with modules as boxes; None: every node is a box of its own.

    Modules at `depth` become one box each, and so do those above that have no modules inside.
    """
    nodes = data["nodes"]
    groups = data["groups"]
    inner = {group["parent"] for group in groups.values()}
    shown: dict[str | None, str | None] = {None: None}
    for path in groups:
        found = None if depth is None else collapsed(path, depth, groups)
        plain = depth is not None and found is None and path not in inner
        shown[path] = path if plain else found
    of_node: list[int] = [-1] * len(nodes)
    made: list[Box] = []
    running: str | None = None
    for node in nodes:
        module = shown[node["module"]]
        if node["kind"] in ("leaf", "input", "cut") and node["id"] not in data["root"]:
            continue
        # What a module does is one stretch in time, and ids are in the order of time.
        if module is None or module != running:
            made.append(Box(len(made), [], module))
        made[-1].nodes.append(node["id"])
        of_node[node["id"]] = len(made) - 1
        running = module
    users: dict[int, list[int]] = {}
    for consumer, producer, _, _ in data["edges"]:
        users.setdefault(producer, []).append(consumer)
    for node in nodes:
        if of_node[node["id"]] >= 0:
            continue
        around = {of_node[u] for u in users.get(node["id"], ())}
        module = shown[node["module"]]
        if module is not None and len(around) == 1 and made[min(around)].module == module:
            box = made[min(around)]
        else:
            box = Box(len(made), [])
            made.append(box)
        box.nodes.append(node["id"])
        of_node[node["id"]] = box.id
    return connected(made, data, of_node)


def collapsed(path: str, depth: int, groups: dict[str, Any]) -> str | None:
    """The module at `depth` around `path`, or that itself."""
    inner: str | None = path
    while inner is not None:
        if level_of(inner, groups) == depth and groups[inner]["type"] not in CONTAINERS:
            return inner
        inner = groups[inner]["parent"]
    return None


def connected(made: list[Box], data: dict[str, Any], of_node: list[int]) -> list[Box]:
    """Boxes in topological order, with their edges."""
    made.sort(key=lambda box: min(box.nodes))
    place = {box.id: i for i, box in enumerate(made)}
    for i, box in enumerate(made):
        box.id = i
    order = sorted(data["edges"], key=lambda edge: (edge[0], edge[3]))
    for consumer, producer, _, _ in order:
        a, b = place[of_node[consumer]], place[of_node[producer]]
        if a != b and b not in made[a].inputs:
            made[a].inputs.append(b)
            made[b].users.append(a)
    return made


@dataclass
class Run:
    """`count` times the same `period` boxes, one after the other on a line."""

    start: int
    period: int
    count: int


class Outline:
    """Boxes as lines with branches."""

    def __init__(self, data: dict[str, Any], shown: list[Box]) -> None:
        self.data = data
        self.boxes = shown
        self.root = [box.id for box in shown if not box.users]
        count = len(shown)
        layer = [0] * count
        self.owner = [-1] * count
        for box in shown:
            for b in box.inputs:
                # Shown below the last of its users: the others come before it and refer to it.
                if layer[box.id] + 1 > layer[b] or self.owner[b] < 0:
                    layer[b] = max(layer[b], layer[box.id] + 1)
                    self.owner[b] = box.id
        self.height = [1] * count
        self.main: list[int] = [-1] * count
        self.own: list[int] = [0] * count  # what a box with its branches is, as a number
        whole: list[int] = [0] * count  # the same with all that follows on its line
        known: dict[tuple[Any, ...], int] = {}
        self.labels = [label_of(data, box) for box in shown]
        for i in range(count - 1, -1, -1):
            owned = self.owned(i)
            if owned:
                main = max(owned, key=lambda b: self.height[b])
                self.main[i] = main
                self.height[i] = self.height[main] + 1
            parts = [
                (whole[b],) if b in owned else (known.get(self.labels[b], -1), "refers")
                for b in shown[i].inputs
                if b != self.main[i]
            ]
            key = (self.labels[i], *parts)
            self.own[i] = known.setdefault(key, len(known))
            following = whole[self.main[i]] if self.main[i] >= 0 else -1
            whole[i] = known.setdefault((self.own[i], following), len(known))

    def owned(self, i: int) -> list[int]:
        """The inputs that are shown here, not only referred to."""
        return [b for b in self.boxes[i].inputs if self.owner[b] == i]

    def line(self, start: int) -> list[int]:
        """The boxes from `start` on, always to the input with the longest way behind it."""
        found = []
        while start >= 0:
            found.append(start)
            start = self.main[start]
        return found

    def subtree(self, i: int) -> list[int]:
        """A box and all of its branches, without what follows on its line; in a fixed order."""
        found = [i]
        stack = [b for b in self.owned(i) if b != self.main[i]][::-1]
        while stack:
            b = stack.pop()
            found.append(b)
            stack += self.owned(b)[::-1]
        return found

    def runs(self, line: list[int]) -> list[Run]:
        """The stretches of a line that repeat, longest first come first served."""
        return repeats([self.own[b] for b in line])


def repeats(values: list[int]) -> list[Run]:
    """Stretches that repeat at once.

    >>> repeats([7, 1, 2, 1, 2, 1, 2, 9])
    [Run(start=1, period=2, count=3)]
    """
    positions: dict[int, list[int]] = {}
    for i, value in enumerate(values):
        positions.setdefault(value, []).append(i)
    seen: dict[int, int] = {}
    found: list[Run] = []
    i = 0
    while i < len(values):
        same = positions[values[i]]
        at = seen.get(values[i], 0)
        while same[at] <= i and at + 1 < len(same):
            at += 1
        seen[values[i]] = at
        best = Run(i, 1, 1)
        for k in range(at, len(same)):
            period = same[k] - i
            if period > MAX_PERIOD:
                break
            middle = i + period // 2  # a quick look before the comparison
            if period > 0 and same_at(values, middle, period):
                count = times(values, i, period)
                if count > 1 and count * period > best.count * best.period:
                    best = Run(i, period, count)
        if best.count * best.period >= WORTH and (best.count > 2 or best.period > 2):
            found.append(best)
            i += best.count * best.period
        else:
            i += 1
    return found


def same_at(values: list[int], i: int, period: int) -> bool:
    return i + period < len(values) and values[i] == values[i + period]


def times(values: list[int], start: int, period: int) -> int:
    """How often the `period` values at `start` follow each other."""
    block = values[start : start + period]
    count = 1
    while values[start + count * period : start + (count + 1) * period] == block:
        count += 1
    return count


def label_of(data: dict[str, Any], box: Box) -> tuple[Any, ...]:
    """The label of a box without the number of its layer or step."""
    first = data["nodes"][box.nodes[0]]
    shape = None if first["shape"] is None else tuple(first["shape"])
    if box.module is not None:
        kind = data["groups"][box.module]["type"]
        return "module", kind, numberless(box.module), len(box.nodes), shape
    label = (first["op"], first["kind"], shape, first["file"], first["line"])
    name = first["name"] if first["kind"] in ("leaf", "input") else None
    failed = data["failed"] == first["id"]
    return *label, numberless(name or ""), numberless(first["module"] or ""), failed


def numberless(name: str) -> str:
    return re.sub(r"\d+", "#", name)


def auto_depth(data: dict[str, Any], most: int, count: Any) -> int | None:
    """The greatest depth at which `count(depth)` stays within `most`; None: nothing collapsed."""
    if count(None) <= most:
        return None
    best = None
    fewest = count(None)
    for depth in range(deepest(data), 0, -1):
        size = count(depth)
        if size <= most:
            return depth
        if size < fewest:
            best, fewest = depth, size
    return best
