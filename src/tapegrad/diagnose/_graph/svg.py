"""The graph as an SVG picture: data flows down, the output is at the bottom.

Modules are frames around what they computed, or single boxes where the graph is large; blocks that
repeat are drawn once, in a dashed frame that says how often. Every box has a tooltip with the
user's line, what was saved and the gradient rule.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from html import escape
from typing import Any

from ...errors import evidence
from .fold import CONTAINERS, Box, Outline, Run, auto_depth, boxes
from .frames import Placed, nested
from .layout import layers_of
from .text import span, spell_bytes, spell_grad, spell_shape, spell_value

ROOM = 45  # boxes up to which nothing is collapsed
APART = 4  # layers between the users of a leaf from which on each gets a copy of it
FAR = 30  # layers; a longer edge becomes a reference
MARGIN = 28.0
LINE = 15.0
LETTER = 6.7  # the width of a letter at 12 px, about
ENDS = ("leaf", "input", "cut", "copy")
COLOURS = {
    "op": ("#ffffff", "#9aa4b2"),
    "module": ("#f4f6fa", "#5b6b84"),
    "leaf": ("#e6f0fd", "#4a86d8"),
    "input": ("#e8f6ec", "#4a9e63"),
    "cut": ("#fff3dd", "#d18b1f"),
    "function": ("#f2eafc", "#8a5cc7"),
    "slices": ("#fdf7d8", "#b79f1c"),
    "copy": ("#f3f7fd", "#9bbbe6"),
    "failed": ("#ffe3e0", "#d0312d"),
}
STYLE = (
    "text{font:12px ui-sans-serif,system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;"
    "fill:#1d2530}.s{font-size:10.5px;fill:#5d6878}.t{font-weight:600}.bad{fill:#c3241f}"
    ".e{fill:none;stroke:#8793a5;stroke-width:1.2}.m{fill:#eef2f8;stroke:#c5cfde}"
    ".x{fill:none;stroke:#5b6b84;stroke-dasharray:6 4}.g{font-size:11px;fill:#55637a}"
)


@dataclass
class Shape:
    """One thing to draw."""

    kind: str
    lines: list[str]
    tooltip: str
    frames: list[str] = field(default_factory=list)  # the modules around it, outermost first
    run: int = -1  # the repeated block that it belongs to
    root: bool = False
    bad: bool = False


class Scene:
    """The boxes to draw: after folding, with copies of leaves that are used far apart."""

    def __init__(self, data: dict[str, Any], depth: int | None, fold: bool) -> None:
        self.data = data
        self.nodes = data["nodes"]
        self.outline = Outline(data, boxes(data, depth))
        self.runs: list[str] = []
        self.stands_for: dict[int, int] = {}  # folded boxes and who is drawn in their place
        self.in_run: dict[int, int] = {}
        self.depths: dict[int, int] = {}
        if fold:
            self.find_runs()
        drawn = [box for box in self.outline.boxes if box.id not in self.stands_for]
        self.shapes = [self.shape(box) for box in drawn]
        place = {box.id: i for i, box in enumerate(drawn)}
        self.edges: list[tuple[int, int]] = []
        found: dict[tuple[int, int], None] = {}
        for box in self.outline.boxes:
            a = place[self.stands_for.get(box.id, box.id)]
            for other in box.inputs:
                b = place[self.stands_for.get(other, other)]
                if a < b:  # an edge to the next repetition would go back up
                    found[a, b] = None
        self.link(list(found))
        self.members: Counter[str] = Counter()  # boxes per module, and leaves among them
        self.loose: Counter[str] = Counter()
        self.blocks: Counter[int] = Counter()  # boxes per repeated block, leaves not counted
        for shape in self.shapes:
            self.members.update(shape.frames)
            if shape.kind in ENDS:
                self.loose.update(shape.frames)
            else:
                self.blocks[shape.run] += 1

    def find_runs(self) -> None:
        outline = self.outline
        for box in outline.boxes:
            starts = outline.owner[box.id] < 0 or outline.main[outline.owner[box.id]] != box.id
            if not starts or box.id in self.stands_for or box.id in self.in_run:
                continue
            line = outline.line(box.id)
            for run in outline.runs(line):
                self.fold(line, run)

    def fold(self, line: list[int], run: Run) -> None:
        """Let the first of several equal blocks stand for all of them."""
        first = [b for i in range(run.period) for b in self.outline.subtree(line[run.start + i])]
        copies = []
        for r in range(1, run.count):
            at = run.start + r * run.period
            copies.append(
                [b for i in range(run.period) for b in self.outline.subtree(line[at + i])]
            )
        if any(len(copy) != len(first) for copy in copies):
            return
        here = self.home(line[run.start])
        there = self.home(line[run.start + run.period * (run.count - 1)])
        which = f"  {span(here, there)}" if here and there and here != there else ""
        for b in first:
            self.in_run.setdefault(b, len(self.runs))
        for copy in copies:
            self.stands_for |= dict(zip(copy, first, strict=True))
        self.runs.append(f"× {run.count}{which}")

    def home(self, b: int) -> str | None:
        box = self.outline.boxes[b]
        module: str | None = box.module or self.nodes[box.nodes[0]]["module"]
        return module

    def link(self, edges: list[tuple[int, int]]) -> None:
        """Edges, with a copy of what they lead to where that is far away."""
        layer = layers_of(len(self.shapes), edges)
        users: dict[int, list[int]] = {}
        for a, b in edges:
            users.setdefault(b, []).append(a)
        self.edges = []
        for a, b in edges:
            levels = [layer[u] for u in users[b]]
            end = self.shapes[b].kind in ("leaf", "input", "cut")
            if end and max(levels) - min(levels) > APART and a != min(users[b]):
                self.edges.append((a, self.copy(b, a, "")))
            elif not end and layer[b] - layer[a] > FAR:
                self.edges.append((a, self.copy(b, a, "from below: ")))
            else:
                self.edges.append((a, b))

    def copy(self, b: int, user: int, words: str) -> int:
        """A small box that refers to box `b`, next to one of its users."""
        source, at = self.shapes[b], self.shapes[user]
        made = Shape("copy", [words + source.lines[0]], source.tooltip, list(at.frames), at.run)
        self.shapes.append(made)
        return len(self.shapes) - 1

    # ------------------------------------------------------------------ frames

    def keys(self, shape: Shape) -> list[str]:
        """The frames around a box: modules, with the repeated block inside those that hold it."""
        at = self.common(shape.run) if shape.run >= 0 else -1
        keys: list[str] = []
        for level, path in enumerate(shape.frames):
            if level == at:
                keys.append(f"run {shape.run}")
            if self.members[path] > 1 and self.data["groups"][path]["type"] not in CONTAINERS:
                keys.append(f"module {path}")
        if at >= len(shape.frames):
            keys.append(f"run {shape.run}")
        run = f"run {shape.run}"
        if run in keys and self.is_whole(shape, at):
            del keys[keys.index(run) - 1]  # the block is all of that module and says its name
        return keys

    def is_whole(self, shape: Shape, at: int) -> bool:
        """Whether a repeated block is everything in the module around it."""
        if at < 1:
            return False
        around = shape.frames[at - 1]
        return self.blocks[shape.run] == self.members[around] - self.loose[around]

    def common(self, run: int) -> int:
        """How many modules are around all of a repeated block."""
        if run not in self.depths:
            inside = [s.frames for s in self.shapes if s.run == run and s.kind not in ENDS]
            same = 0
            while all(len(f) > same and f[same] == inside[0][same] for f in inside):
                same += 1
            self.depths[run] = same
        return self.depths[run]

    def all_keys(self) -> list[str]:
        return list(dict.fromkeys([key for shape in self.shapes for key in self.keys(shape)]))

    def words(self, key: str) -> str:
        """The caption of a frame."""
        kind, _, name = key.partition(" ")
        if kind == "run":
            return self.runs[int(name)]
        return f"{name}: {self.data['groups'][name]['type']}"

    # ------------------------------------------------------------------ words

    def shape(self, box: Box) -> Shape:
        node = self.nodes[box.nodes[0]]
        module = box.module
        frames = self.frames(module or node["module"])
        if module is not None and frames:
            frames = frames[:-1]
        kind = "module" if module is not None else node["kind"]
        if self.data["failed"] in box.nodes:
            kind = "failed"
        facts = [node["summary"], node["grad"]]
        made = Shape(kind, self.lines(box, node, frames), self.tooltip(box, node), frames)
        made.run = self.in_run.get(box.id, -1)
        made.root = bool(set(box.nodes) & set(self.data["root"]))
        made.bad = any(f and (f["nan"] or f["inf"]) for f in facts)
        return made

    def frames(self, path: str | None) -> list[str]:
        found: list[str] = []
        while path is not None:
            found.append(path)
            path = self.data["groups"][path]["parent"]
        return found[::-1]

    def lines(self, box: Box, node: dict[str, Any], frames: list[str]) -> list[str]:
        around = frames[-1] if frames else None
        if box.module is not None:
            what = next(
                (self.nodes[i]["module_type"] for i in box.nodes if self.is_in(i, box)), None
            )
            type_name = self.data["groups"][box.module]["type"]
            return [inside(box.module, around), what or type_name, spell_shape(node["shape"])]
        shape = spell_shape(node["shape"])
        value = spell_value(node)
        if value:
            shape = value if shape == "()" else f"{shape} {value}"
        if node["kind"] == "leaf":
            title = inside(node["name"], around) if node["name"] else "leaf"
            lines = [title, f"{shape} {'parameter' if node['param'] else 'leaf'}"]
        elif node["kind"] == "input":
            lines = [node["name"] or "input", f"{shape} input"]
        elif node["kind"] == "cut":
            lines = [f"{node['name']}" if node["name"] else "cut", f"cut by {node['op']}"]
        else:
            op = node["op"].replace("Backward0", "").replace("Backward", "")
            lines = [f"{node['name']} = {op}" if node["name"] else op, shape]
        if spell_grad(node):
            lines.append(spell_grad(node))
        elif node["file"] is not None:
            lines.append(evidence.short_spot(node["file"], node["line"]))
        return [line for line in lines if line]

    def is_in(self, i: int, box: Box) -> bool:
        return bool(self.nodes[i]["module"] == box.module)

    def tooltip(self, box: Box, node: dict[str, Any]) -> str:
        """All that is known, one fact per line."""
        lines = [node["op"]]
        if box.module is not None:
            lines = [f"{box.module}: {self.data['groups'][box.module]['type']}"]
            lines.append(f"{len(box.nodes)} nodes")
        if node["file"] is not None:
            lines.append(f"{evidence.spot(node['file'], node['line'])}  {node['text'] or ''}")
        if node["shape"] is not None:
            lines.append(f"shape {spell_shape(node['shape'])} {node['dtype'] or ''}")
        size = sum([self.nodes[i]["bytes"] for i in box.nodes])
        if size:
            lines.append(f"saves {spell_bytes(size)}")
        if node["summary"] and node["summary"]["mean"] is not None:
            s = node["summary"]
            lines.append(f"values {s['min']:.4g} … {s['max']:.4g}, mean {s['mean']:.4g}")
        if box.module is None and node["formula"]:
            lines.append(node["formula"])
        return "\n".join(lines)


def inside(name: str, around: str | None) -> str:
    """A path without what the frame around it says already."""
    return name.removeprefix(f"{around}.") if around else name


def svg(
    data: dict[str, Any], depth: int | None = None, fold: bool = True, collapse: bool = True
) -> str:
    """The picture. `depth` collapses modules at that level; None picks what can be looked at."""
    if depth is None and collapse:
        depth = auto_depth(data, ROOM, lambda level: len(Scene(data, level, fold).shapes))
    scene = Scene(data, depth, fold)
    sizes = [size_of(shape) for shape in scene.shapes]
    ends = [shape.kind in ENDS for shape in scene.shapes]
    words = {key: len(scene.words(key)) * LETTER * 0.92 for key in scene.all_keys()}
    placed = nested(sizes, scene.edges, [scene.keys(shape) for shape in scene.shapes], ends, words)
    return render(scene, placed, sizes)


def size_of(shape: Shape) -> tuple[float, float]:
    lines = [shortened(line) for line in shape.lines]
    longest = max(
        [len(line) * (LETTER * 1.16 if k == 0 else LETTER * 0.88) for k, line in enumerate(lines)]
    )
    return max(longest + 20, 60.0), LINE * len(lines) + 10


def shortened(line: str, most: int = 44) -> str:
    return line if len(line) <= most else line[: most - 1] + "…"


def render(scene: Scene, drawing: Placed, sizes: list[tuple[float, float]]) -> str:
    top = MARGIN + 30
    message = min(len(scene.data["error"] or "") * LETTER, 700.0)
    width = max(drawing.width + 2 * MARGIN + 40, message + 2 * MARGIN, 260.0)
    height = drawing.height + top + MARGIN + 24
    title = scene.data["title"]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" style="max-width:100%;height:auto">',
        f"<style>{STYLE}</style>",
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#8793a5"/></marker></defs>',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
        f'<text x="{MARGIN}" y="22" class="t">{escape(title)}</text>',
    ]
    if scene.data["error"]:
        words = escape(shortened(scene.data["error"], max(int(width / LETTER) - 8, 110)))
        parts.append(f'<text x="{MARGIN}" y="40" class="bad">{words}</text>')
    parts.append(f'<g transform="translate({MARGIN + 20:.0f} {top:.0f})">')
    parts += [frame_of(scene, *border) for border in drawing.frames]
    for route in drawing.routes:
        parts.append(f'<path class="e" marker-end="url(#a)" d="{curve(route)}"/>')
    for i, shape in enumerate(scene.shapes):
        parts.append(box_of(shape, drawing.x[i], drawing.y[i], *sizes[i]))
    return "\n".join([*parts, "</g></svg>"])


def curve(points: list[tuple[float, float]]) -> str:
    """A smooth way through the points, from above."""
    x, y = points[0]
    parts = [f"M{x:.1f} {y:.1f}"]
    for to_x, to_y in points[1:]:
        bend = (to_y - y) / 2
        parts.append(f"C{x:.1f} {y + bend:.1f} {to_x:.1f} {to_y - bend:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    return "".join(parts)


def box_of(shape: Shape, x: float, y: float, width: float, height: float) -> str:
    fill, stroke = COLOURS[shape.kind]
    round_by = height / 2 if shape.kind in ("leaf", "input", "copy") else 5
    line = 2.2 if shape.root or shape.kind == "failed" else 1.1
    dashes = ' stroke-dasharray="4 3"' if shape.kind in ("cut", "copy") else ""
    parts = [
        f"<g><title>{escape(shape.tooltip)}</title>"
        f'<rect x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" '
        f'height="{height:.1f}" rx="{min(round_by, 14):.0f}" fill="{fill}" stroke="{stroke}" '
        f'stroke-width="{line}"{dashes}/>'
    ]
    base = y - height / 2 + LINE + 1
    for k, words in enumerate(shape.lines):
        style = "bad" if shape.bad and k == 0 else "t" if k == 0 else "s"
        parts.append(
            f'<text x="{x:.1f}" y="{base + k * LINE:.1f}" text-anchor="middle" class="{style}">'
            f"{escape(shortened(words))}</text>"
        )
    return "".join(parts) + "</g>"


def frame_of(scene: Scene, key: str, left: float, up: float, width: float, height: float) -> str:
    """The frame around a module or around a repeated block."""
    style = "x" if key.startswith("run ") else "m"
    return (
        f'<rect class="{style}" x="{left:.1f}" y="{up:.1f}" width="{width:.1f}" '
        f'height="{height:.1f}" rx="8"/>'
        f'<text class="g" x="{left + 8:.1f}" y="{up + 14:.1f}">{escape(scene.words(key))}</text>'
    )
