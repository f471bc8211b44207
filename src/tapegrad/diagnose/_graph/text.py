"""The graph as lines of text, for terminals.

    loss: MeanBackward0 ()                              train.py:9   loss = (pred - y).pow(2).mean()
    ...

Read it from the top: the output first, below it the op that made its input, and so on; what else
goes into an op hangs on it as a branch. A result that several ops use is shown below the last of
them, and the others refer to it by number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...errors import evidence
from .fold import Box, Outline, Run, auto_depth, boxes

ROOM = 60  # rows up to which nothing is collapsed
FOLD_FROM = 24  # rows from which on repeated blocks are folded
GLYPHS = {"●": "*", "○": "o", "✗": "X", "├─": "|-", "└─": "`-", "│": "|", "→": "->"}
GLYPHS |= {"╭─": ",-", "╰─": "`-", "…": "...", "×": "x", "←": "<-"}


@dataclass
class Row:
    prefix: str
    body: str
    place: str = ""


def text(
    data: dict[str, Any],
    depth: int | None = None,
    width: int = 100,
    limit: int | None = 200,
    fold: bool = True,
    ascii: bool = False,
    collapse: bool = True,
) -> str:
    """The tree. `depth` collapses modules at that level; None picks what fits on a screen."""

    def rows_at(level: int | None) -> list[Row]:
        shown = boxes(data, level)
        return Tree(data, shown, fold and len(shown) > FOLD_FROM, width, limit).rows()

    if depth is None and collapse:
        depth = auto_depth(data, ROOM, lambda level: len(rows_at(level)))
    rows = rows_at(depth)
    head = [cut_off(line, width) for line in headline(data).splitlines()]
    made = "\n".join([*head, *layout(rows, width)])
    if ascii:
        for glyph, plain in GLYPHS.items():
            made = made.replace(glyph, plain)
    return made


def node_count(data: dict[str, Any]) -> int:
    """How many nodes the history has; a tensor without gradient is drawn, but is no node of it."""
    return sum([n["kind"] not in ("input", "cut") for n in data["nodes"]]) + int(data["more"])


def headline(data: dict[str, Any]) -> str:
    """One line that says what the graph is of, or the error that it shows."""
    nodes = data["nodes"]
    words = [plural(node_count(data), "node")]
    if not data["more"]:
        words.append(plural(sum([n["kind"] == "leaf" for n in nodes]), "leaf"))
    if data["bytes"]:
        words.append(f"{spell_bytes(data['bytes'])} saved for backward")
    head = f"{data['title']}: {', '.join(words)}"
    if data["error"]:
        head += f"\n{data['error']}"
    return head


def plural(count: int, word: str) -> str:
    many = {"leaf": "leaves"}.get(word, word + "s")
    return f"{count:,} {word if count == 1 else many}"


def spell_bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def spell_shape(shape: list[int] | None) -> str:
    return "" if shape is None else str(tuple(shape))


def spell_value(node: dict[str, Any]) -> str:
    """`= 0.25` for a result of one real element whose value is known."""
    facts = node["summary"]
    one = facts is not None and facts["size"] == 1 and facts["mean"] is not None
    return f"= {facts['mean']:.4g}" if one and "complex" not in str(node["dtype"]) else ""


def spell_grad(node: dict[str, Any]) -> str:
    """The gradient of one element with its sign, of several the norm."""
    facts = node["grad"]
    if not facts or facts["norm"] is None:
        return ""
    if facts["size"] == 1 and "complex" not in str(node["dtype"]):
        return f"grad {facts['mean']:.4g}"
    return f"|grad| {facts['norm']:.3g}"


def cut_off(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"


def layout(rows: list[Row], width: int) -> list[str]:
    """Rows as lines: the tree to the left, the user's lines in a column to the right."""
    before = ""
    places: list[str] = []
    for row in rows:
        places.append("" if row.place == before else row.place)  # a line is not said twice
        before = row.place or before
    lengths = [len(r.prefix) + len(r.body) for r, place in zip(rows, places, strict=True) if place]
    column = min(max(lengths, default=0), int(width * 0.6)) + 2
    made: list[str] = []
    for row, place in zip(rows, places, strict=True):
        left = cut_off(row.prefix + row.body, width)
        room = width - max(column, len(left) + 2)
        if place and room >= 12:
            left = f"{left:<{column - 2}}  {cut_off(place, room)}"
        made.append(left.rstrip())
    return made


class Tree:
    """The rows of one outline."""

    def __init__(
        self, data: dict[str, Any], shown: list[Box], fold: bool, width: int, limit: int | None
    ) -> None:
        self.data = data
        self.nodes = data["nodes"]
        self.outline = Outline(data, shown)
        self.fold = fold
        self.width = width
        self.limit = limit
        self.numbers: dict[int, int] = {}
        self.skipped: set[int] = set()  # boxes that stand behind a "x 12"
        for box in shown:
            named = self.nodes[box.nodes[0]]["name"] is not None
            if len(box.users) > 1 and not (named and self.is_end(box)):
                self.numbers[box.id] = len(self.numbers) + 1

    def is_end(self, box: Box) -> bool:
        """Leaves and inputs are known by their names."""
        return self.nodes[box.nodes[0]]["kind"] in ("leaf", "input", "cut")

    def rows(self) -> list[Row]:
        found: list[Row] = []
        # A stack of generators instead of recursion: branches of branches can be many.
        stack = [self.line(start, "") for start in self.outline.root][::-1]
        while stack:
            step = next(stack[-1], None)
            if step is None:
                stack.pop()
            elif isinstance(step, Row):
                if self.limit is not None and len(found) >= self.limit:
                    found.append(Row("", "… more: text(limit=None) shows all of it"))
                    return found
                found.append(step)
            else:
                stack.append(step)
        if self.data["more"]:
            found.append(Row("", f"… {self.data['more']:,} more nodes before these"))
        return found

    def line(self, start: int, prefix: str, first: str = "") -> Iterator[Any]:
        """The rows of a line and its branches; its first row may stand on a branch mark."""
        boxes_on = self.outline.line(start)
        runs = {run.start: run for run in self.outline.runs(boxes_on)} if self.fold else {}
        i = 0
        while i < len(boxes_on):
            run = runs.get(i)
            if run is None:
                last = i == len(boxes_on) - 1
                yield from self.box_rows(boxes_on[i], prefix, first, last)
                i += 1
            else:
                yield Row(first or prefix, self.run_head(boxes_on, run))
                inner = prefix + "│ "
                for k in range(run.period):
                    yield from self.box_rows(boxes_on[i + k], inner, "", False)
                yield Row(prefix, "╰─")
                i += run.period * run.count
            first = ""

    def run_head(self, on: list[int], run: Run) -> str:
        """`x 12`, and which modules they are where they have paths of their own."""
        first = self.home(on[run.start])
        last = self.home(on[run.start + run.period * (run.count - 1)])
        which = f"  {span(first, last)}" if first and last and first != last else ""
        return f"╭─ × {run.count}{which}"

    def home(self, box: int) -> str | None:
        found = self.outline.boxes[box]
        module: str | None = found.module or self.nodes[found.nodes[0]]["module"]
        return module

    def box_rows(self, i: int, prefix: str, first: str, last: bool) -> Iterator[Any]:
        box = self.outline.boxes[i]
        mark = "✗ " if self.failed(box) else "○ " if self.is_end(box) else "● "
        yield Row((first or prefix) + mark, self.label(box, ""), self.place(box))
        main = self.outline.main[i]
        others = [b for b in box.inputs if b != main]
        for k, b in enumerate(others):
            end = last and k == len(others) - 1
            branch, below = ("└─", "  ") if end else ("├─", "│ ")
            if self.outline.owner[b] != i:
                yield Row(prefix + branch, f" {self.reference(b)}")
                continue
            short = self.one_row(b, self.home(i))
            if short is not None:
                yield Row(prefix + branch, " " + short, self.place(self.outline.boxes[b]))
            else:
                yield self.line(b, prefix + below, prefix + branch)

    def one_row(self, start: int, module: str | None) -> str | None:
        """A short branch without branches of its own, on one row: `TBackward0 ← weight`."""
        on = self.outline.line(start)
        found = [self.outline.boxes[b] for b in on]
        if len(on) > 3 or any(len(box.inputs) > 1 or self.failed(box) for box in found):
            return None
        made = " ← ".join([self.label(box, module or "") for box in found])
        return made if len(on) == 1 or len(made) < self.width - 20 else None

    def failed(self, box: Box) -> bool:
        return self.data["failed"] in box.nodes

    def reference(self, b: int) -> str:
        number = self.numbers.get(b)
        return f"→ {'' if number is None else f'#{number} '}{self.title(self.outline.boxes[b])}"

    def title(self, box: Box) -> str:
        if box.module is not None:
            return box.module
        node = self.nodes[box.nodes[0]]
        title: str = node["name"] or ("leaf" if node["kind"] == "leaf" else node["op"])
        return title

    def label(self, box: Box, module: str) -> str:
        """Name, op and shape; the module, unless it is `module`, or what it is if it is a box."""
        node = self.nodes[box.nodes[0]]
        number = self.numbers.get(box.id)
        words = [] if number is None else [f"#{number}"]
        if box.module is not None:
            words += [f"{box.module}: {self.module_words(box)}", spell_shape(node["shape"])]
        elif node["kind"] == "leaf":
            kind = "parameter" if node["param"] else "leaf"
            words += [f"{node['name'] or 'leaf'}", spell_shape(node["shape"])]
            if node["name"]:
                words.append(kind)
        elif node["kind"] in ("input", "cut"):
            how = "input" if node["kind"] == "input" else f"cut by {node['op']}"
            words += [f"{node['name']}" if node["name"] else "", spell_shape(node["shape"]), how]
        else:
            name = f"{node['name']}: " if node["name"] else ""
            words += [f"{name}{node['op']}", spell_shape(node["shape"])]
            if node["module"] and node["module"] != module:
                words.append(f"in {node['module']}")
        if box.module is None:
            words.append(spell_value(node))
        words.append(spell_grad(node))
        words += warnings_of(node)
        return " ".join([w for w in words if w])

    def module_words(self, box: Box) -> str:
        """`Linear(in_features=4, out_features=8, bias=True)`, or `Block [52 nodes]`."""
        own = [self.nodes[i]["module_type"] for i in box.nodes if self.is_in(i, box)]
        path = str(box.module)
        if len(own) == len(box.nodes):
            return str(own[0])
        return f"{self.data['groups'][path]['type']} [{plural(len(box.nodes), 'node')}]"

    def is_in(self, i: int, box: Box) -> bool:
        return bool(self.nodes[i]["module"] == box.module)

    def place(self, box: Box) -> str:
        node = self.nodes[box.nodes[0]]
        if node["file"] is None:
            return ""
        return f"{evidence.short_spot(node['file'], node['line'])}  {node['text'] or ''}".rstrip()


def span(first: str, last: str) -> str:
    """`blocks.11 … blocks.0`: two paths as far as they differ."""
    a, b = first.split("."), last.split(".")
    differ = [i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y]
    end = differ[-1] + 1 if differ else len(a)
    return f"{'.'.join(a[:end])} … {'.'.join(b[:end])}"


def warnings_of(node: dict[str, Any]) -> list[str]:
    """Values that are no numbers are said on the spot."""
    words = []
    for facts, what in ((node["summary"], "value"), (node["grad"], "grad")):
        if facts and facts["nan"]:
            words.append(f"[{facts['nan']:,} NaN in {what}]")
        if facts and facts["inf"]:
            words.append(f"[{facts['inf']:,} Inf in {what}]")
    return words
