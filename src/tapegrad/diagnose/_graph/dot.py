"""The graph in DOT, for those who have Graphviz or a viewer for it."""

from __future__ import annotations

from typing import Any

from ...errors import evidence
from .text import spell_grad, spell_shape, spell_value

FILLS = {"leaf": "#e6f0fd", "input": "#e8f6ec", "cut": "#fff3dd", "function": "#f2eafc"}
FILLS |= {"slices": "#fdf7d8", "op": "#ffffff"}


def dot(data: dict[str, Any]) -> str:
    """Every node and edge, modules as nested clusters."""
    lines = [
        "digraph tapegrad {",
        f"  label={quoted(data['title'])}; labelloc=t; rankdir=TB;",
        '  node [shape=box, style="filled,rounded", fontname="Helvetica", fontsize=10];',
        '  edge [color="#8793a5"];',
    ]
    inside: dict[str | None, list[dict[str, Any]]] = {}
    for node in data["nodes"]:
        inside.setdefault(node["module"], []).append(node)
    parts: dict[str | None, list[str]] = {}
    for path, group in data["groups"].items():
        parts.setdefault(group["parent"], []).append(path)
    # A stack instead of recursion: (what to write, how deep).
    stack: list[tuple[str | None, str, int]] = [(None, "open", 0)]
    while stack:
        path, step, level = stack.pop()
        pad = "  " * (level + 1)
        if step == "close":
            lines.append(f"{pad}}}")
            continue
        if path is not None:
            words = f"{path}: {data['groups'][path]['type']}"
            lines.append(f"{pad}subgraph {quoted(f'cluster_{path}')} {{ label={quoted(words)};")
            stack.append((path, "close", level))
        lines += [f"{pad}  {statement(node, data)}" for node in inside.get(path, ())]
        stack += [(inner, "open", level + 1) for inner in reversed(parts.get(path, []))]
    lines += [f"  n{producer} -> n{consumer};" for consumer, producer, _, _ in data["edges"]]
    return "\n".join([*lines, "}"]) + "\n"


def statement(node: dict[str, Any], data: dict[str, Any]) -> str:
    title = node["op"] if node["kind"] != "leaf" else node["name"] or "leaf"
    if node["name"] and node["kind"] != "leaf":
        title = f"{node['name']} = {node['op']}"
    words = [title, f"{spell_shape(node['shape'])} {spell_value(node)}".strip(), spell_grad(node)]
    if node["file"] is not None:
        words.append(evidence.short_spot(node["file"], node["line"]))
    style = f"fillcolor={quoted(FILLS[node['kind']])}"
    if node["id"] == data["failed"]:
        style = 'fillcolor="#ffe3e0", color="#d0312d", penwidth=2'
    label = quoted("\n".join([w for w in words if w]))
    return f"n{node['id']} [label={label}, tooltip={quoted(node['text'] or '')}, {style}];"


def quoted(words: str) -> str:
    text = words.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'
