"""Graphs as `diagnose.graph(loss).data` gives them, made up: what the page is tested with."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


class Sketch:
    """Builds the graph's JSON forwards, as a program would, and numbers it outputs first."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.nodes: list[dict[str, Any]] = []
        self.edges: list[tuple[int, int, int, int]] = []
        self.groups: dict[str, dict[str, Any]] = {}

    def add(self, op: str, *inputs: int, shape: tuple[int, ...] = (32, 64), **more: Any) -> int:
        node = {
            "op": op, "kind": "op", "name": None, "shape": list(shape), "dtype": "float32",
            "bytes": 4 * math.prod(shape) if inputs else 0, "saved": [], "summary": None,
            "grad": {"norm": 1 / (1 + len(self.nodes) % 7)}, "formula": None, "file": "train.py",
            "line": 10 + len(inputs), "text": f"y = {op.lower()}(x)", "module": None,
            "module_type": None, "param": False, "attrs": {},
        }  # fmt: skip
        if node["bytes"]:
            saved = {"name": "self", "shape": list(shape), "dtype": "float32"}
            node["saved"] = [{**saved, "bytes": node["bytes"]}]
        node.update(more)
        self.nodes.append(node)
        added = len(self.nodes) - 1
        self.edges += [(added, other, 0, place) for place, other in enumerate(inputs)]
        return added

    def leaf(self, name: str, shape: tuple[int, ...], param: bool = True, **more: Any) -> int:
        more = {"kind": "leaf", "name": name, "param": param, **more}
        return self.add("AccumulateGrad", shape=shape, **more)

    def group(self, path: str, type_name: str) -> str:
        parent = path.rpartition(".")[0] or None
        self.groups[path] = {"type": type_name, "parent": parent}
        return path

    def linear(self, x: int, path: str, width: int = 64) -> int:
        self.group(path, "Linear")
        inside = {"module": path, "module_type": f"Linear(in_features={width})"}
        weight = self.leaf(f"{path}.weight", (width, width), **inside)
        bias = self.leaf(f"{path}.bias", (width,), **inside)
        turned = self.add("TBackward0", weight, shape=(width, width), **inside)
        formula = "d(b + x @ w.T)/dx = g @ w"
        return self.add("AddmmBackward0", bias, x, turned, formula=formula, **inside)

    def data(self, **more: Any) -> dict[str, Any]:
        last = len(self.nodes) - 1
        nodes = [{"id": i, **node} for i, node in enumerate(reversed(self.nodes))]
        edges = [[last - a, last - b, slot, place] for a, b, slot, place in self.edges]
        return {
            "version": 1, "title": self.title, "root": [0], "failed": None, "error": None,
            "nodes": nodes, "edges": edges, "groups": self.groups, "trace": None, **more,
        }  # fmt: skip


def mlp(**more: Any) -> dict[str, Any]:
    """About 20 nodes: three linear layers and a loss."""
    s = Sketch("loss of an MLP")
    s.group("model", "MLP")
    x = s.leaf("x", (32, 64), param=False)
    for i in (1, 2, 3):
        x = s.linear(x, f"model.fc{i}")
        if i < 3:
            x = s.add(
                "ReluBackward0", x, name=f"h{i}", module="model", file="model.py", line=20 + i
            )
    logs = s.add("LogSoftmaxBackward0", x, attrs={"dim": "1"})
    s.add("NllLossBackward0", logs, shape=(), name="loss")
    return s.data(**more)


def attention(s: Sketch, x: int, path: str) -> int:
    s.group(path, "Attention")
    q, k, v = (s.linear(x, f"{path}.{name}") for name in ("q", "k", "v"))
    turned = s.add("TransposeBackward0", k, module=path)
    scores = s.add("BmmBackward0", q, turned, shape=(32, 32), module=path, name="scores")
    scaled = s.add("DivBackward0", scores, shape=(32, 32), module=path)
    weights = s.add("SoftmaxBackward0", scaled, shape=(32, 32), module=path, name="weights")
    mixed = s.add("BmmBackward0", weights, v, module=path)
    return s.linear(mixed, f"{path}.proj")


def norm(s: Sketch, x: int, path: str) -> int:
    s.group(path, "LayerNorm")
    scale = s.leaf(f"{path}.weight", (64,), module=path)
    shift = s.leaf(f"{path}.bias", (64,), module=path)
    return s.add("NativeLayerNormBackward0", x, scale, shift, module=path)


def transformer(blocks: int) -> dict[str, Any]:
    """Blocks of attention and MLP, 41 nodes each, in a list; 12 give about 500 nodes."""
    s = Sketch(f"a transformer of {blocks} blocks")
    s.group("model", "GPT")
    s.group("model.embed", "Embedding")
    table = s.leaf("model.embed.weight", (1000, 64), module="model.embed")
    x = s.add("EmbeddingBackward0", table, module="model.embed")
    s.group("model.blocks", "ModuleList")
    for i in range(blocks):
        path = s.group(f"model.blocks.{i}", "Block")
        mixed = attention(s, norm(s, x, f"{path}.norm1"), f"{path}.attn")
        x = s.add("AddBackward0", x, mixed, module=path, line=50)
        s.group(f"{path}.mlp", "MLP")
        hidden = s.linear(norm(s, x, f"{path}.norm2"), f"{path}.mlp.fc1")
        hidden = s.add("GeluBackward0", hidden, module=f"{path}.mlp", line=61)
        x = s.add("AddBackward0", x, s.linear(hidden, f"{path}.mlp.fc2"), module=path, line=51)
    x = norm(s, x, "model.norm")
    x = s.linear(x, "model.head")
    s.add("CrossEntropyLossBackward0", x, shape=(), name="loss")
    return s.data()


def flat(count: int) -> dict[str, Any]:
    """No modules and no repetition: a long program with skips of many lengths."""
    s = Sketch(f"{count} nodes without modules")
    rng = np.random.default_rng(0)
    x = s.leaf("x", (8,), param=False)
    ops = ("Mul", "Add", "Sin", "Exp", "Sub", "Div")
    while len(s.nodes) < count:
        op = ops[rng.integers(len(ops))]
        others = []
        if rng.random() < 0.3:
            others.append(s.leaf(f"w{len(s.nodes)}", (8,)))
        if rng.random() < 0.2:
            others.append(max(0, x - int(rng.integers(2, 60))))
        x = s.add(f"{op}Backward0", x, *others, shape=(8,), line=len(s.nodes))
    return s.data()


def unrolled(turns: int) -> dict[str, Any]:
    """A recurrent net written as a loop without modules: five ops a turn."""
    s = Sketch(f"an unrolled loop of {turns} turns")
    w, u, b = (s.leaf(name, (8, 8)) for name in "wub")
    h = s.leaf("h0", (8,), param=False)
    for t in range(turns):
        x = s.leaf(f"x{t}", (8,), param=False)
        seen = s.add("MvBackward0", u, x, shape=(8,), line=30)
        kept = s.add("MvBackward0", w, h, shape=(8,), line=31)
        both = s.add("AddBackward0", seen, kept, shape=(8,), line=32)
        moved = s.add("AddBackward0", both, b, shape=(8,), line=32)
        h = s.add("TanhBackward0", moved, shape=(8,), line=33, name="h")
    s.add("SumBackward0", h, shape=(), line=35, name="loss")
    return s.data()


def traced() -> dict[str, Any]:
    """loss = sum((a * a) @ b) with a 2 by 2, and its four backward steps by hand.

    a = [[1, 2], [3, 4]], b = [1, 10]: the gradient at a * a is the outer product of ones and b,
    and a gets it twice, once for each place in a * a.
    """
    s = Sketch("backward, step by step")
    a = s.leaf("a", (2, 2), param=False)
    b = s.leaf("b", (2,), param=False)
    square = s.add("MulBackward0", a, a, shape=(2, 2), name="square", line=3, text="square = a * a")
    product = s.add("MvBackward0", square, b, shape=(2,), line=4, text="y = square @ b")
    s.add("SumBackward0", product, shape=(), line=5, text="loss = y.sum()", name="loss")
    graph = s.data()
    ids = {i: len(s.nodes) - 1 - i for i in range(len(s.nodes))}

    def grad(values: Any) -> dict[str, Any]:
        array = np.array(values, dtype=float)
        return {"shape": list(array.shape), "norm": float(np.linalg.norm(array)), "values": values}

    outer, once = [[1.0, 10.0], [1.0, 10.0]], [[1.0, 20.0], [3.0, 40.0]]
    graph["trace"] = [
        {
            "node": 0, "op": "SumBackward0", "rule": "d(sum(x))/dx = g, repeated",
            "incoming": grad(1.0),
            "outgoing": [{"to": ids[product], "input": "self", "rule": "g", **grad([1.0, 1.0])}],
        },
        {
            "node": ids[product], "op": "MvBackward0", "rule": "d(A @ v)/dA = outer(g, v)",
            "incoming": grad([1.0, 1.0]),
            "outgoing": [
                {"to": ids[square], "input": "self", "rule": "outer(g, vec)", **grad(outer)},
                {"to": ids[b], "input": "vec", "rule": "self.T @ g", **grad([10.0, 20.0])},
            ],
            "accumulated": [{"node": ids[b], "count": 1, **grad([10.0, 20.0])}],
        },
        {
            "node": ids[square], "op": "MulBackward0", "rule": "d(a * b)/da = g * b",
            "incoming": grad(outer),
            "outgoing": [
                {"to": ids[a], "input": "self", "rule": "g * other", **grad(once)},
                {"to": ids[a], "input": "other", "rule": "g * self", **grad(once)},
            ],
            "accumulated": [
                {"node": ids[a], "count": 2, **grad([[2.0, 40.0], [6.0, 80.0]])},
            ],
        },
        {
            "node": ids[a], "op": "AccumulateGrad", "rule": "a.grad += g",
            "incoming": grad([[2.0, 40.0], [6.0, 80.0]]), "outgoing": [], "accumulated": [],
        },
    ]  # fmt: skip
    for index, step in enumerate(graph["trace"]):
        step["index"] = index
    return graph


def recurrent(turns: int) -> dict[str, Any]:
    """A layer that a loop calls again and again, with a tanh in between."""
    s = Sketch("the same layer again and again")
    s.group("cell", "Linear")
    h = s.leaf("x", (8,), param=False)
    weight = s.leaf("cell.weight", (8, 8), module="cell")
    for _ in range(turns):
        turned = s.add("TBackward0", weight, module="cell")
        h = s.add("MvBackward0", turned, h, module="cell")
        h = s.add("TanhBackward0", h)
    return s.data()
