"""`leaks()`: graphs that are kept alive, who keeps them, and the line that stores them.

>>> import tapegrad as torch
>>> w = torch.tensor(1.0, requires_grad=True)
>>> losses = []
>>> with torch.diagnose.leaks() as watch:
...     for step in range(3):
...         loss = (w - step) ** 2
...         loss.backward()
...         losses.append(loss)
>>> watch.found[0].holder, watch.found[0].graphs
('losses', 3)

A tensor with history keeps every node behind it alive. `losses.append(loss)` therefore keeps one
graph per iteration, `losses.append(loss.item())` keeps numbers. Call `leaks()` once for everything
that lives now, use it around a loop for what the loop left behind, or call `check()` after each
iteration for what has grown.
"""

from __future__ import annotations

import dataclasses
import gc
import os
import re
from typing import Any

from ..core.base import next_seq
from ..errors import evidence
from . import _memory, alive, holders, words

# `total += loss` and `total = total + loss`; `losses.append(loss)` and `history[step] = loss`.
SUM = re.compile(r"([\w.\[\]]+)\s*(?:\+=|=\s*\1\s*\+)\s*(.+)")
STORE = re.compile(r"(.*?\.(?:append|add|appendleft)\()(.+)(\))")
ASSIGN = re.compile(r"(.*?\]\s*=\s*)(.+)()")


def taken(written: str, scalar: bool) -> str:
    """An expression with `.item()` or `.detach()` appended: its value without history."""
    simple = re.fullmatch(r"[\w.]+([.]\w+|\([^()]*\)|\[[^\[\]]*\])*", written) is not None
    return f"{written if simple else f'({written})'}.{'item' if scalar else 'detach'}()"


@dataclasses.dataclass
class Held:
    """Tensors with history that were made by one line and are held by one thing."""

    holder: str
    kind: str  # "list", "variable", "attribute", "dict" …; "" where no name leads to it
    stored: evidence.Place | None  # the line that puts them there, as far as it can be found
    made: evidence.Place | None  # the line that made them
    op: str
    tensors: int = 0
    graphs: int = 0  # how many do not share a node: passes that are kept
    nodes: int = 0
    bytes: int = 0  # of saved values and nodes
    passes: int = 0  # how many backward passes went through what is kept
    oldest: int = 0  # the number of the first node that is kept
    grown: int = 0  # how many nodes more than at the last look
    scalars: bool = False  # one number each

    @property
    def is_leak(self) -> bool:
        """Whether this looks like graphs of several iterations, not one that is in use."""
        return self.graphs > 1 or self.passes > 1

    @property
    def fix(self) -> str:
        if self.kind == "gradient":
            return "a gradient with history: backward(create_graph=True) made it; set .grad = None"
        text = "" if self.stored is None else self.stored["text"].partition("#")[0].strip()
        added = SUM.fullmatch(text)
        if added is not None:
            return f"add numbers, not tensors: {added[1]} += {taken(added[2], self.scalars)}"
        if self.kind == "variable":
            return f"what is carried over needs no history: {self.holder} = {self.holder}.detach()"
        put = STORE.fullmatch(text) or ASSIGN.fullmatch(text)
        if put is not None:
            kept = "numbers" if self.scalars else "values"
            return f"store {kept}: {put[1]}{taken(put[2], self.scalars)}{put[3]}"
        return "store numbers: .item() for a scalar, .detach() for a tensor"

    def data(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "is_leak": self.is_leak, "fix": self.fix}

    def __str__(self) -> str:
        what = words.counted(self.tensors, "tensor") + f" with history in `{self.holder}`"
        if self.kind == "variable":
            what = f"`{self.holder}`, a tensor with history"
        elif not self.kind:
            what = words.counted(self.tensors, "tensor") + f" with history, held by {self.holder}"
        size = f"{words.counted(self.nodes, 'node')}, {words.as_bytes(self.bytes)}"
        counts = [f"{words.counted(self.graphs, 'graph')}"] if self.graphs > 1 else []
        if self.passes > 1:
            counts.append(f"{self.passes} backward passes")
        if self.grown > 0:
            counts.append(f"{self.grown} nodes more than before")
        lines = [f"{what}: {', '.join([*counts, size])}"]
        if self.stored is not None:
            lines.append(f"  stored  {words.shown(self.stored)}")
        if self.made is not None:
            lines.append(f"  made    by {self.op} at {words.shown(self.made, 66)}")
        if self.is_leak or self.grown > 0:
            lines.append(f"  fix     {self.fix}")
        return "\n".join(lines)


class Leaks:
    """The result of `leaks`: `found` are the leaks, `held` everything that has history."""

    def __init__(self) -> None:
        self.since = 0  # nodes with a smaller number do not count
        self.held: list[Held] = []
        self.found: list[Held] = []
        self._look()

    def __enter__(self) -> Leaks:
        self.since = next_seq()
        return self

    def __exit__(self, *error: object) -> None:
        self._look()

    def check(self) -> list[Held]:
        """Look again: what has grown since the last look, and keeps what was there then."""
        before = {key_of(each): each for each in self.held}
        last = self._last
        self._look()
        for each in self.held:
            old = before.get(key_of(each))
            if old is not None and each.nodes > old.nodes and each.oldest < last:
                each.grown = each.nodes - old.nodes
        grown = [each for each in self.held if each.grown]
        self.found = [each for each in self.held if each.is_leak or each.grown]
        return grown

    def _look(self) -> None:
        self._last = next_seq()
        gc.collect()
        self.held = look(self.since)
        self.found = [each for each in self.held if each.is_leak]

    def data(self) -> list[dict[str, Any]]:
        """Everything that is held, as plain values."""
        return [each.data() for each in self.held]

    def __iter__(self) -> Any:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    def __repr__(self) -> str:
        count = sum(each.tensors for each in self.held)
        size = words.as_bytes(sum(each.bytes for each in self.held))
        if not self.found:
            return (
                f"No leak: {words.counted(count, 'tensor')} with history alive ({size}), "
                "none from several passes."
            )
        title = f"{words.counted(len(self.found), 'leak')}:"
        return "\n\n".join([title, *[str(each) for each in self.found]])


def leaks() -> Leaks:
    """Find graphs that are kept alive across iterations, with who holds them and where."""
    return Leaks()


def key_of(held: Held) -> tuple[Any, ...]:
    made = held.made
    return held.holder, held.kind, None if made is None else (made["file"], made["line"])


def look(since: int = 0) -> list[Held]:
    """All tensors with history newer than node number `since`, grouped, the largest first."""
    tensors = [t for t in alive.tensors() if not alive.without_history(t) and t._node._seq > since]
    tensors.sort(key=lambda t: t._node._seq)
    places = alive.Places()
    ways = holders.ways_to(tensors)
    groups: dict[tuple[Any, ...], list[int]] = {}
    for i, t in enumerate(tensors):
        way = ways[i]
        made = places.of(t._node)
        line = None if made is None else (made["file"], made["line"])
        holder = None if way is None else (way.holder, way.kind)
        groups.setdefault((holder, line), []).append(i)
    found = []
    for members in groups.values():
        group = [tensors[i] for i in members]
        way = ways[members[0]]
        unknown = holders.unnamed(group[0], (tensors, group)) if way is None else ""
        found.append(describe(group, way, unknown, places))
    return sorted(found, key=lambda each: (each.is_leak, each.bytes), reverse=True)


def describe(
    tensors: list[Any], way: holders.Way | None, unknown: str, places: alive.Places
) -> Held:
    """One group: what it keeps alive, and the line that stores it."""
    last = tensors[-1]._node
    made = places.of(last)
    graph = alive.nodes_from([t._node for t in tensors])
    seen: set[int] = set()
    size = 0
    for node in sorted(graph, key=lambda node: not node._is_leaf):  # the leaves' memory goes first
        arrays, own = _memory.contents(node, seen)
        if not node._is_leaf:
            size += own + sum(whole for _, whole, _ in arrays)
    kind = "" if way is None else way.kind
    stored = None
    if way is not None and kind != "gradient":
        stored = holders.storing_line(way.holder, files_near(made), evidence.assigned_name(made))
    return Held(
        holder=unknown if way is None else way.holder,
        kind=kind,
        stored=stored if stored is not None or kind != "variable" else made,
        made=made,
        op=evidence.node_name(last),
        tensors=len(tensors),
        scalars=all(t._array.size == 1 for t in tensors),
        graphs=separate([t._node for t in tensors]),
        nodes=len(graph),
        oldest=min(node._seq for node in graph if not node._is_leaf),
        bytes=size,
        passes=len({node._freed_by[3] for node in graph if node._freed_by is not None}),
    )


def files_near(made: evidence.Place | None) -> list[str]:
    """Where to look for the line that stores: the running functions' files, then the maker's."""
    files = [frame.f_code.co_filename for frame in evidence.user_frames()]
    if made is not None:
        files.append(made["file"])
    return [file for file in files if not file.startswith("<frozen") and os.path.basename(file)]


def separate(roots: list[Any]) -> int:
    """Into how many graphs the histories fall that have no node in common but leaves."""
    group: dict[Any, int] = {}  # node -> number of the root that came by first
    parent = list(range(len(roots)))

    def top(i: int) -> int:
        while parent[i] != i:
            i = parent[i]
        return i

    for i, root in enumerate(roots):
        stack = [root]
        while stack:
            node = stack.pop()
            other = group.get(node)
            if other is not None:
                parent[top(other)] = top(i)
                continue
            group[node] = i
            stack += [edge for edge in node._edges if edge is not None and not edge._is_leaf]
    return len({top(i) for i in range(len(roots))})
