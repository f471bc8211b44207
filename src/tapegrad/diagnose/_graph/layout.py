"""Where boxes and edges go: a layered drawing.

Layers are the longest way from an output; long edges get a point in each layer they pass; the order
within layers is improved by sweeps that put every box at the mean of its neighbours; coordinates
come from the same idea, with the gaps between boxes kept (isotonic regression per layer). About
linear in the size of the graph, and without recursion.

>>> at = layout([(60, 30), (60, 30), (60, 30)], [(0, 1), (0, 2)])
>>> at.layer, at.y[0] > at.y[1] == at.y[2]
([0, 1, 1], True)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

GAP = 24.0  # between boxes of one layer
RISE = 34.0  # between layers
LONG = 60  # layers; a longer edge is drawn as one curve
POINT = 8.0  # the width of a point on a long edge
SWEEPS = 8
LARGE = 12_000  # boxes and points from which on half as many sweeps have to do

Edge = tuple[int, int]  # from the consumer to the producer
Point = tuple[float, float]


@dataclass
class Drawing:
    """Centres of boxes, points of edges; outputs are at the bottom."""

    x: list[float]
    y: list[float]
    layer: list[int]
    routes: list[list[Point]]  # per edge, from the producer to the consumer, ends included
    width: float
    height: float


def layers_of(count: int, edges: Sequence[Edge]) -> list[int]:
    """The longest way to each box from an output; ValueError if the edges go in circles."""
    layer = [0] * count
    waiting = [0] * count
    producers: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        producers[a].append(b)
        waiting[b] += 1
    ready = [i for i in range(count) if not waiting[i]]
    for a in ready:  # grows while it is read
        for b in producers[a]:
            layer[b] = max(layer[b], layer[a] + 1)
            waiting[b] -= 1
            if not waiting[b]:
                ready.append(b)
    if len(ready) < count:
        raise ValueError("the edges go in circles")
    return layer


def layout(
    sizes: Sequence[tuple[float, float]],
    edges: Sequence[Edge],
    light: Sequence[bool] | None = None,
    top: Sequence[int] = (),
) -> Drawing:
    """Place boxes of the given sizes.

    Those that are `light` (leaves) follow the others and do not pull at them; those in `top` go
    to the first row.
    """
    plan = Plan(sizes, edges, light, top)
    plan.order()
    plan.coordinates()
    return plan.drawing()


class Plan:
    """The boxes and the points of long edges, in layers."""

    def __init__(
        self,
        sizes: Sequence[tuple[float, float]],
        edges: Sequence[Edge],
        light: Sequence[bool] | None,
        top: Sequence[int],
    ) -> None:
        count = len(sizes)
        self.sizes = list(sizes)
        self.edges = edges
        self.layer = layers_of(count, edges)
        for i in top:
            self.layer[i] = max(self.layer)
        self.widths = [w for w, _ in sizes]
        self.light = list(light) if light is not None else [False] * count
        self.up: list[list[int]] = [[] for _ in range(count)]  # producers
        self.down: list[list[int]] = [[] for _ in range(count)]  # consumers
        self.points: list[list[int]] = []  # per edge
        for a, b in edges:
            self.points.append(self.stretch(a, b))
        self.rows: list[list[int]] = [[] for _ in range(max(self.layer, default=0) + 1)]
        for i in self.found_order():
            self.rows[self.layer[i]].append(i)
        self.x = [0.0] * len(self.widths)
        self.sweeps = SWEEPS if len(self.x) < LARGE else SWEEPS // 2

    def stretch(self, a: int, b: int) -> list[int]:
        """The points between the ends of an edge, one per layer; none where it is too long."""
        span = range(self.layer[a] + 1, self.layer[b])
        if len(span) > LONG:
            return []
        made: list[int] = []
        before = a
        for level in span:
            i = len(self.widths)
            self.widths.append(POINT)
            self.layer.append(level)
            self.light.append(self.light[b])
            self.up.append([])
            self.down.append([])
            self.join(before, i)
            made.append(i)
            before = i
        self.join(before, b)
        return made

    def join(self, consumer: int, producer: int) -> None:
        self.up[consumer].append(producer)
        self.down[producer].append(consumer)

    def found_order(self) -> list[int]:
        """Depth first from the outputs: what belongs together starts side by side."""
        seen = [False] * len(self.widths)
        found: list[int] = []
        for start in sorted(range(len(self.sizes)), key=lambda i: self.layer[i]):
            stack = [start]
            while stack:
                i = stack.pop()
                if not seen[i]:
                    seen[i] = True
                    found.append(i)
                    stack += self.up[i][::-1]
        return found

    # ------------------------------------------------------------------ order

    def order(self) -> None:
        place = [0.0] * len(self.widths)
        for row in self.rows:
            for k, i in enumerate(row):
                place[i] = float(k)
        best, fewest = [list(row) for row in self.rows], self.crossings(place)
        for sweep in range(self.sweeps):
            if not fewest:
                break
            downwards = sweep % 2 == 0
            rows = self.rows[1:] if downwards else self.rows[-2::-1]
            for row in rows:
                self.sort(row, self.down if downwards else self.up, place)
            crossed = self.crossings(place)
            if crossed < fewest:
                best, fewest = [list(row) for row in self.rows], crossed
        self.rows = best

    def sort(self, row: list[int], near: list[list[int]], place: list[float]) -> None:
        """Order a row by the mean place of the neighbours."""
        if len(row) < 2:
            return
        mean: dict[int, float] = {}
        for i in row:
            around = near[i]
            mean[i] = sum([place[n] for n in around]) / len(around) if around else place[i]
        row.sort(key=mean.__getitem__)
        for k, i in enumerate(row):
            place[i] = float(k)

    def crossings(self, place: list[float]) -> int:
        """How many pairs of edges cross, counted with a tree of partial sums per layer."""
        total = 0
        for row in self.rows[:-1]:
            ends: list[int] = []
            for i in row:
                ends += sorted([int(place[j]) for j in self.up[i]])
            if len(ends) < 2:
                continue
            size = max(ends) + 1
            tree = [0] * (size + 1)
            for seen, end in enumerate(ends):
                k, before = end + 1, 0
                while k:
                    before += tree[k]
                    k -= k & -k
                total += seen - before
                k = end + 1
                while k <= size:
                    tree[k] += 1
                    k += k & -k
        return total

    # ------------------------------------------------------------------ coordinates

    def coordinates(self) -> None:
        for row in self.rows:
            at = 0.0
            for i in row:
                self.x[i] = at + self.widths[i] / 2
                at += self.widths[i] + GAP
        for sweep in range(self.sweeps):
            both = sweep >= self.sweeps - 2
            rows = self.rows if sweep % 2 == 0 else self.rows[::-1]
            for row in rows:
                self.place_row(row, sweep % 2 == 0, both)
        left = min([self.x[i] - self.widths[i] / 2 for i in range(len(self.x))], default=0.0)
        self.x = [x - left for x in self.x]

    def place_row(self, row: list[int], downwards: bool, both: bool) -> None:
        """Move a row to where its neighbours want it, without letting boxes overlap."""
        wanted: list[float] = []
        weights: list[float] = []
        for i in row:
            near = self.up[i] + self.down[i] if both else self.down[i] if downwards else self.up[i]
            total = pull = 0.0
            for n in near:
                weight = 0.05 if self.light[n] else 4.0 if n >= len(self.sizes) else 1.0
                total += weight
                pull += weight * self.x[n]
            wanted.append(pull / total if total else self.x[i])
            weights.append((0.1 if self.light[i] else 1.0) * (total or 0.01))
        gaps = [
            (self.widths[a] + self.widths[b]) / 2 + GAP for a, b in zip(row, row[1:], strict=False)
        ]
        for i, x in zip(row, spaced(wanted, weights, gaps), strict=True):
            self.x[i] = x

    def drawing(self) -> Drawing:
        count = len(self.sizes)
        tall = [max([self.sizes[i][1] for i in row if i < count], default=0.0) for row in self.rows]
        # A row of points only takes little room.
        rises = [RISE if min(a, b) else RISE / 3 for a, b in zip(tall, tall[1:], strict=False)]
        height = sum(tall) + sum(rises)
        floor: list[float] = []
        at = height
        for size, rise in zip(tall, [*rises, 0.0], strict=False):
            floor.append(at)
            at -= size + rise
        # All boxes of a row stand on one line: near to those that use them.
        y = [floor[self.layer[i]] - h / 2 for i, (_, h) in enumerate(self.sizes)]
        y += [floor[level] - tall[level] / 2 for level in self.layer[count:]]
        routes: list[list[Point]] = []
        for (a, b), points in zip(self.edges, self.points, strict=True):
            ends = [
                (self.x[b], y[b] + self.sizes[b][1] / 2),
                *[(self.x[p], y[p]) for p in reversed(points)],
                (self.x[a], y[a] - self.sizes[a][1] / 2),
            ]
            routes.append(ends)
        right = max([self.x[i] + self.widths[i] / 2 for i in range(len(self.x))], default=0.0)
        return Drawing(self.x[:count], y[:count], self.layer[:count], routes, right, height)


def spaced(wanted: list[float], weights: list[float], gaps: list[float]) -> list[float]:
    """The places nearest to `wanted` (least squares) that are at least `gaps` apart.

    >>> spaced([0.0, 0.0, 50.0], [1.0, 1.0, 1.0], [10.0, 10.0])
    [-5.0, 5.0, 50.0]
    """
    shift = [0.0]
    for gap in gaps:
        shift.append(shift[-1] + gap)
    blocks: list[list[float]] = []  # sum of weighted wishes, sum of weights, how many
    for want, weight, by in zip(wanted, weights, shift, strict=False):
        blocks.append([(want - by) * weight, weight, 1.0])
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] > blocks[-1][0] * blocks[-2][1]:
            total, weight_sum, count = blocks.pop()
            blocks[-1][0] += total
            blocks[-1][1] += weight_sum
            blocks[-1][2] += count
    places: list[float] = []
    for total, weight_sum, count in blocks:
        places += [total / weight_sum] * int(count)
    return [place + by for place, by in zip(places, shift, strict=False)]
