"""``python -m tapegrad graph train.py -o graph.html``: run a program, draw its last backward pass.

What a pass is about to free is remembered by reference, so the picture shows shapes, values and
saved bytes although the graph is gone by the end. Nothing is copied and nothing is described before
the program ends. If it fails, the picture is of what there was, with the failing place marked.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import Any

from ...autograd import api
from ...autograd.starts import TOOLS
from ...compat import run as runner
from ...core.base import Node, TensorBase
from ...core.modes import MODES
from ...errors import evidence
from .data import Collector, Root, Saved
from .names import Names
from .picture import SUFFIXES, Graph, graph
from .text import node_count
from .values import inner_of

USAGE = "tapegrad graph [-h] [-o FILE] (SCRIPT | -m MODULE) [-o FILE] [ARG ...]"


class Taken:
    """The graph of one backward pass, held by reference."""

    def __init__(self, starts: list[Any]) -> None:
        self.roots: list[Root] = [(node, slot, None) for node, slot, _, _ in starts]
        self.frames = list(evidence.user_frames())
        self.saved: Saved = {}
        self.leaves: list[Any] = []
        self.gradients: dict[Node, Any] = {}
        stack: list[Any] = [node for node, _, _ in self.roots]
        seen = set(stack)
        while stack:
            node = stack.pop()
            inner = inner_of(node)
            self.saved[inner] = inner._kept, inner._cells
            if node._is_leaf:
                self.leaves.append(node)
            for edge in node._edges:
                if edge is not None and edge not in seen:
                    seen.add(edge)
                    stack.append(edge)

    def finished(self) -> None:
        """After the pass: the gradients, before somebody clears them."""
        self.gradients = {leaf: leaf.tensor()._gradient for leaf in self.leaves}

    def graph(self, title: str) -> Graph:
        names = Names(None, self.frames)
        collector = Collector(self.roots, names, saved=self.saved, gradients=self.gradients)
        return Graph(collector.data(title), collector.ids)


class Watch:
    """Remembers the last backward pass while it is on."""

    def __init__(self) -> None:
        self.last: Taken | None = None
        self.launch = api.launch

    def __enter__(self) -> Watch:
        def watched(run: Any, starts: list[Any], graph: bool = False) -> None:
            if MODES.run is not None:  # a pass inside a pass, as checkpoint makes them
                self.launch(run, starts, graph)
                return
            taken = Taken(starts)
            self.launch(run, starts, graph)
            taken.finished()
            self.last = taken

        api.launch = watched
        TOOLS.watching += 1
        return self

    def __exit__(self, *error: object) -> None:
        api.launch = self.launch
        TOOLS.watching -= 1


class Globals:
    """The variables of the finished program, as if a frame still held them."""

    def __init__(self) -> None:
        self.f_locals = dict(vars(sys.modules["__main__"]))


def last_result() -> Graph | None:
    """Where no backward ran: the graph of the newest scalar with history, or of any such tensor."""
    found = [t for t in gc.get_objects() if isinstance(t, TensorBase) and has_history(t)]
    scalars = [t for t in found if t._array.size == 1]
    if not found:
        return None
    newest = max(scalars or found, key=lambda t: t._node._seq)  # type: ignore[union-attr]
    names = Names(None, [Globals()])
    collector = Collector([(newest._node, newest._slot, newest)], names)
    return Graph(collector.data(names.of_tensor(newest) or "graph"), collector.ids)


def has_history(t: TensorBase) -> bool:
    return hasattr(t, "_array") and t._node is not None and not t._node._is_leaf


def main(args: Sequence[str]) -> int:
    """Run what the command line names and write its graph."""
    try:
        output, program = parsed(list(args))
    except ValueError as error:
        print(f"usage: {USAGE}\n{error}", file=sys.stderr)
        return 2
    made = output or default_output(program)
    if os.path.splitext(made)[1].lower() not in SUFFIXES:
        print(f"usage: {USAGE}\nFILE must end in one of {', '.join(SUFFIXES)}", file=sys.stderr)
        return 2
    with Watch() as watch:
        try:
            start(program)
        except SystemExit:
            write(found_by(watch), made)
            raise
        except BaseException as error:
            failed = graph(error)
            # An error before anything was computed has no picture.
            if any(n["kind"] in ("leaf", "cut", "input") for n in failed.nodes):
                write(failed, made)
            elif watch.last is not None:
                write(found_by(watch), made)
            raise
        return 0 if write(found_by(watch), made) else 1


def start(program: list[str]) -> None:
    if program[0] == "-m":
        runner.run_module(program[1], program[2:])
    else:
        runner.run_script(program[0], program[1:])


def found_by(watch: Watch) -> Graph | None:
    return last_result() if watch.last is None else watch.last.graph("the last backward pass")


def write(found: Graph | None, path: str) -> bool:
    """Save a graph; what was done is said on stderr, stdout being the program's."""
    if found is None:
        print("graph: the program left no tensor with a history to draw", file=sys.stderr)
        return False
    count = node_count(found.data)
    print(f"graph: wrote {found.save(path)} ({count} nodes)", file=sys.stderr)
    return True


def default_output(program: list[str]) -> str:
    name = program[1].rpartition(".")[2] if program[0] == "-m" else program[0]
    return os.path.splitext(os.path.basename(name))[0] + ".graph.html"


def parsed(args: list[str]) -> tuple[str | None, list[str]]:
    """(file to write, program with its arguments); -o may stand on either side of the program."""
    output, args = option(args)
    if not args or args[0][:1] == "-" and args[0] != "-m":
        raise ValueError(f"unknown option {args[0]!r}" if args else "a SCRIPT is missing")
    size = 2 if args[0] == "-m" else 1
    if len(args) < size:
        raise ValueError("Argument expected for the -m option")
    after, rest = option(args[size:])
    return after or output, [*args[:size], *rest]


def option(args: list[str]) -> tuple[str | None, list[str]]:
    """An -o at the front of `args`, and what is left."""
    if args[:1] in (["-o"], ["--output"]):
        if len(args) < 2:
            raise ValueError("a FILE is missing after -o")
        return args[1], args[2:]
    if args and args[0].startswith("--output="):
        return args[0].partition("=")[2], args[1:]
    return None, args
