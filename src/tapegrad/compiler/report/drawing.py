"""A recorded program as a picture: `tapegrad.compile.explain(f).graph()`."""

from __future__ import annotations

from typing import Any

from ...core.strides import memory
from ...diagnose._graph.data import VERSION
from ...diagnose._graph.picture import Graph
from ...diagnose._graph.values import dtype_name
from ..plan.native_calls import Outline, Segment
from ..program.listing import names_before
from ..program.recording import Recording
from ..program.steps import GradientStep, WholeStep
from .explanation import spell_step


def picture(recording: Recording, title: str) -> Graph:
    """The steps of a call, last first, followed by its backward pass if that is separate."""
    outlines = outlines_of(recording.run_steps)
    if recording.outside is not None:
        whole = (True,) * len(recording.outside.slots)
        outlines += outlines_of(recording.outside.passes[whole].run_steps)
    names = names_in(recording)
    nodes: list[dict[str, Any]] = []
    edges: list[list[int]] = []
    last: dict[int, int] = {}  # who filled a piece of memory last
    for each in outlines:
        for owner in each.reads:
            if owner not in last and owner in names:
                label, array, kind = names[owner]
                last[owner] = len(nodes)
                nodes.append(node_for(kind, "leaf" if kind == "Parameter" else "input", array))
                nodes[-1]["name"] = label
        sources = dict.fromkeys([last[owner] for owner in each.reads if owner in last])
        edges += [[len(nodes), source, 0, i] for i, source in enumerate(sources)]
        for owner in each.made:
            last[owner] = len(nodes)
        nodes.append(node_for(each.name, "op", None))
        nodes[-1] |= {"shape": each.shape, "dtype": each.dtype and dtype_name(each.dtype)}
    count = len(nodes)
    nodes.reverse()
    for i, node in enumerate(nodes):
        node["id"] = i
    edges = [[count - 1 - i, count - 1 - j, slot, position] for i, j, slot, position in edges]
    read = {j for _, j, _, _ in edges}
    return Graph(
        {
            "version": VERSION,
            "title": title,
            "root": [i for i in range(count) if i not in read],
            "failed": None,
            "error": None,
            "nodes": nodes,
            "edges": sorted(edges),
            "groups": {},
            "trace": None,
            "more": 0,
            "bytes": sum([array.nbytes for array in recording.memory.values()]),
        }
    )


def node_for(name: str, kind: str, array: Any) -> dict[str, Any]:
    unknown = ("name", "summary", "grad", "formula", "file", "line", "text", "module")
    return {
        **dict.fromkeys((*unknown, "module_type")),
        "op": name,
        "kind": kind,
        "shape": None if array is None else list(array.shape),
        "dtype": None if array is None else dtype_name(array.dtype),
        "bytes": 0,
        "saved": [],
        "param": kind == "leaf",
        "attrs": {},
        "freed": False,
    }


def outlines_of(run_steps: list[Any]) -> list[Outline]:
    found: list[Outline] = []
    for run in run_steps:
        step = run.__self__
        if isinstance(step, Segment):
            found += step.outlines
            continue
        found.append(Outline(spell_step(step), [step]))
        owner = step.args[0] if isinstance(step, WholeStep) and step.args else None
        for group in getattr(owner, "param_groups", ()):
            for p in group["params"]:
                found[-1].made.append(id(memory(p._array)))
                if p._gradient is not None:
                    found[-1].reads.append(id(memory(p._gradient._array)))
        if isinstance(step, GradientStep):
            found[-1].made += found[-1].reads
    return found


def names_in(recording: Recording) -> dict[int, tuple[str, Any, str]]:
    """By memory: names, arrays and kinds of the tensors that existed before a call."""
    names = names_before(recording)
    found = [(array, "Parameter" if wants else "Tensor") for _, array, wants in recording.externals]
    found += [(t._array, "Input") for t in recording.inputs if t is not None]
    return {id(memory(x)): (names[id(memory(x))], x, kind) for x, kind in found}
