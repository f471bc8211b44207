"""Boxes inside frames inside frames: every module is laid out by itself, then used as one box.

What a module computed in one call is one stretch in time, so a frame around it never has to be
crossed by others. Edges that leave a frame do so through a point on its lower border, those that
enter through a point on the upper one; inside and outside are then two drawings that meet there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .layout import Drawing, Edge, Point, layout

PAD = 12.0
HEAD = 20.0  # room for the words of a frame
PORT = 6.0

Key = str  # what a frame is: "module model.fc1", "run 3"


@dataclass
class Frame:
    """A frame and what is in it; the outermost has no key."""

    key: Key
    parent: Frame | None
    level: int
    words: float = 0.0  # the width that its words need
    items: list[int] = field(default_factory=list)  # boxes
    frames: list[Frame] = field(default_factory=list)
    drawing: Drawing | None = None
    x: float = 0.0  # the left upper corner of the inside
    y: float = 0.0
    ports: dict[tuple[str, int], int] = field(default_factory=dict)
    routes: dict[Edge, int] = field(default_factory=dict)  # local edge -> its route
    places: dict[int, int] = field(default_factory=dict)  # box or -1 - frame -> local number

    @property
    def size(self) -> Point:
        inner = self.drawing
        assert inner is not None
        return max(inner.width, self.words) + 2 * PAD, inner.height + PAD + HEAD


@dataclass
class Placed:
    """Centres of all boxes, ways of all edges, and the frames with their corners."""

    x: list[float]
    y: list[float]
    routes: list[list[Point]]
    frames: list[tuple[Key, float, float, float, float]]  # key, left, top, width, height
    width: float
    height: float


def nested(
    sizes: Sequence[Point],
    edges: Sequence[Edge],
    keys: Sequence[Sequence[Key]],
    ends: Sequence[bool],
    words: dict[Key, float],
) -> Placed:
    """Lay boxes out inside their frames.

    keys: per box the frames around it, outermost first; boxes are in the order of time
    ends: whether a box is a leaf or the like, which goes to where it is used
    words: how wide the words of a frame are
    """
    tree = Tree(sizes, edges, keys, ends, words)
    tree.lay_out()
    return tree.placed()


class Tree:
    """All frames of one picture."""

    def __init__(
        self,
        sizes: Sequence[Point],
        edges: Sequence[Edge],
        keys: Sequence[Sequence[Key]],
        ends: Sequence[bool],
        words: dict[Key, float],
    ) -> None:
        self.sizes = sizes
        self.edges = edges
        self.ends = ends
        self.words = words
        self.root = Frame("", None, 0)
        self.frames = [self.root]
        self.home: list[Frame] = [self.root] * len(sizes)
        running = self.root
        for i, around in enumerate(keys):
            if not ends[i]:
                running = self.enter(running, around)
                self.put(i, running)
        users: dict[int, list[int]] = {}
        for a, b in edges:
            users.setdefault(b, []).append(a)
        for i, around in enumerate(keys):
            if ends[i]:
                self.put(i, self.shared(users.get(i, []), around))

    def enter(self, running: Frame, around: Sequence[Key]) -> Frame:
        """The frame for the next box in time: the running ones as far as they agree, new below."""
        path = path_of(running)
        same = 0
        while same < min(len(path), len(around)) and path[same].key == around[same]:
            same += 1
        frame = path[same - 1] if same else self.root
        for key in around[same:]:
            made = Frame(key, frame, frame.level + 1, self.words.get(key, 0.0))
            frame.frames.append(made)
            self.frames.append(made)
            frame = made
        return frame

    def put(self, i: int, frame: Frame) -> None:
        self.home[i] = frame
        frame.items.append(i)

    def shared(self, users: list[int], around: Sequence[Key]) -> Frame:
        """The innermost frame that holds all users of a leaf and that the leaf belongs to."""
        paths = [path_of(self.home[u]) for u in users]
        frame = self.root
        for level in range(min([len(p) for p in paths], default=0)):
            step = paths[0][level]
            if step.key not in around or any(p[level] is not step for p in paths):
                break
            frame = step
        return frame

    # ------------------------------------------------------------------ layout

    def lay_out(self) -> None:
        """Innermost first; a frame in which the edges would go in circles loses those inside it."""
        crossing = self.crossings()
        for frame in sorted(self.frames, key=lambda f: -f.level):
            try:
                self.draw(frame, crossing.get(id(frame), []))
            except ValueError:
                self.dissolve(frame)
                crossing = self.crossings()
                self.draw(frame, crossing.get(id(frame), []))

    def crossings(self) -> dict[int, list[tuple[str, int, int]]]:
        """Per frame the edges that pass through it, and how: out of it, into it, or inside it."""
        found: dict[int, list[tuple[str, int, int]]] = {}
        for a, b in self.edges:
            out, middle, into = self.way(a, b)
            for frame in out:
                found.setdefault(id(frame), []).append(("out", a, b))
            for frame in into:
                found.setdefault(id(frame), []).append(("in", a, b))
            found.setdefault(id(middle), []).append(("inside", a, b))
        return found

    def way(self, a: int, b: int) -> tuple[list[Frame], Frame, list[Frame]]:
        """The frames that an edge leaves (inner first), the one it crosses, those it enters."""
        out, into = path_of(self.home[b]), path_of(self.home[a])
        same = 0
        while same < min(len(out), len(into)) and out[same] is into[same]:
            same += 1
        middle = out[same - 1] if same else self.root
        return out[same:][::-1], middle, into[same:]

    def child(self, frame: Frame, i: int) -> int:
        """The local number, in `frame`, of box `i` or of the frame around it."""
        inner = self.home[i]
        if inner is frame:
            return frame.places[i]
        while inner.parent is not frame:
            assert inner.parent is not None
            inner = inner.parent
        return frame.places[-1 - id(inner)]

    def draw(self, frame: Frame, crossing: list[tuple[str, int, int]]) -> None:
        frame.places = {i: k for k, i in enumerate(frame.items)}
        sizes = [self.sizes[i] for i in frame.items]
        light = [self.ends[i] for i in frame.items]
        for inner in frame.frames:
            frame.places[-1 - id(inner)] = len(sizes)
            sizes.append(inner.size)
            light.append(False)
        frame.ports = {}
        local: dict[Edge, int] = {}
        for how, a, b in crossing:
            if how == "inside":
                edge = self.child(frame, a), self.child(frame, b)
            elif how == "out":
                edge = self.port(frame, "out", b, sizes, light), self.child(frame, b)
            else:
                edge = self.child(frame, a), self.port(frame, "in", b, sizes, light)
            local.setdefault(edge, len(local))
        frame.routes = local
        top = [port for (side, _), port in frame.ports.items() if side == "in"]
        frame.drawing = layout(sizes, list(local), light, top)

    def port(self, frame: Frame, side: str, b: int, sizes: list[Point], light: list[bool]) -> int:
        """The point on the border through which what box `b` made leaves or enters."""
        if (side, b) not in frame.ports:
            frame.ports[side, b] = len(sizes)
            sizes.append((PORT, 0.0))
            light.append(side == "in" and self.ends[b])
        return frame.ports[side, b]

    def dissolve(self, frame: Frame) -> None:
        """Take everything out of the frames inside `frame`."""
        gone: list[Frame] = []
        stack = list(frame.frames)
        while stack:
            inner = stack.pop()
            gone.append(inner)
            stack += inner.frames
            for i in inner.items:
                self.put(i, frame)
        frame.frames = []
        lost = {id(f) for f in gone}
        self.frames = [f for f in self.frames if id(f) not in lost]

    # ------------------------------------------------------------------ from local to global

    def placed(self) -> Placed:
        x = [0.0] * len(self.sizes)
        y = [0.0] * len(self.sizes)
        borders: list[tuple[Key, float, float, float, float]] = []
        for frame in sorted(self.frames, key=lambda f: f.level):
            inner = frame.drawing
            assert inner is not None
            for i in frame.items:
                k = frame.places[i]
                x[i], y[i] = frame.x + inner.x[k], frame.y + inner.y[k]
            for below in frame.frames:
                k = frame.places[-1 - id(below)]
                width, height = below.size
                left, up = frame.x + inner.x[k] - width / 2, frame.y + inner.y[k] - height / 2
                assert below.drawing is not None
                below.x = left + (width - below.drawing.width) / 2
                below.y = up + HEAD
                borders.append((below.key, left, up, width, height))
        routes = [self.route(a, b, x, y) for a, b in self.edges]
        outer = self.root.drawing
        assert outer is not None
        return Placed(x, y, routes, borders, outer.width, outer.height)

    def route(self, a: int, b: int, x: list[float], y: list[float]) -> list[Point]:
        """The points of an edge through all borders, from the producer down to the consumer."""
        out, middle, into = self.way(a, b)
        points = [(x[b], y[b] + self.sizes[b][1] / 2)]
        for frame in out:
            port = frame.ports["out", b]
            points += self.between(frame, (port, self.child(frame, b)))
            points.append(self.at(frame, port, PAD))
        points += self.between(middle, (self.child(middle, a), self.child(middle, b)))
        for frame in into:
            port = frame.ports["in", b]
            points.append(self.at(frame, port, -HEAD))
            points += self.between(frame, (self.child(frame, a), port))
        return [*points, (x[a], y[a] - self.sizes[a][1] / 2)]

    def between(self, frame: Frame, edge: Edge) -> list[Point]:
        assert frame.drawing is not None
        inner = frame.drawing.routes[frame.routes[edge]][1:-1]
        return [(frame.x + px, frame.y + py) for px, py in inner]

    def at(self, frame: Frame, port: int, shift: float) -> Point:
        """Where a port is on the border: below the lowest row, or above the highest."""
        assert frame.drawing is not None
        low = frame.y + (frame.drawing.height if shift > 0 else 0.0)
        return frame.x + frame.drawing.x[port], low + shift


def path_of(frame: Frame) -> list[Frame]:
    """The frames from the outermost (the picture itself not counted) to this one."""
    found: list[Frame] = []
    inner: Frame | None = frame
    while inner is not None and inner.parent is not None:
        found.append(inner)
        inner = inner.parent
    return found[::-1]
