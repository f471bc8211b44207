"""Where a NaN began: read from the values that the graph has saved, without a second run."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.array_kind import host
from ...errors import evidence
from ...errors.evidence import Place
from ...ops.nn.loss_likelihood import BinaryCrossEntropy
from ...ops.pointwise.arithmetic import Div, Reciprocal
from ...ops.pointwise.power import PowScalar
from ...ops.pointwise.transcendental import Log, Log2, Log10, Sqrt
from .values import finite, name_of_array, wide
from .walk import Walk, op_name, op_of, saved_inputs, saved_outputs

NO_CLUE = "run it once under torch.autograd.detect_anomaly() to see the op that made it"
# What makes NaN or infinity of good numbers and what to write instead, by the way in which an op
# does it (`nonfinite` in its block).
FORWARD = {
    "logarithm": ("{op} of zero or of a negative number", "{op}(x.clamp(min=1e-8))"),
    "division": ("a division by zero", "add a small eps to the denominator"),
    "square_root": ("the square root of a negative number", "{op}(x.clamp(min=0) + eps)"),
    "exponential": (
        "{op} of a large number",
        "subtract the maximum first, or use logsumexp or softmax",
    ),
    "power": ("a power that is not defined", "clamp the base first"),
}
NO_PROBABILITY = ("a probability of exactly 0 or 1", "the version with logits")


class Danger:
    """An op whose gradient is infinite where a saved value is zero, and who has that value."""

    def __init__(self, node: Any, value: Any, reason: str, fix: str) -> None:
        self.node = node
        self.value = value  # kept from here to the end of this backward
        self.reason = reason
        self.fix = fix

    def bad(self) -> bool:
        return bool((wide(self.value) == 0).any())

    def told(self) -> tuple[Place | None, str, str]:
        where = evidence.of_node(self.node)
        return where, self.reason, self.fix


def suspects(graph: Walk) -> list[Any]:
    """The ops of a graph whose gradient may be infinite."""
    found = []
    for node in graph.nodes:
        op, name = op_of(node), op_name(node)
        inputs = saved_inputs(node)
        outputs = saved_outputs(node)
        if op is Sqrt and outputs:
            found.append(
                Danger(node, outputs[0], "the gradient of sqrt at 0 is infinite", "sqrt(x + eps)")
            )
        elif op in (Log, Log2, Log10, Reciprocal) and (inputs or outputs):
            value = inputs.get(0, outputs[0] if outputs else None)
            found.append(Danger(node, value, f"{name} of 0", f"{name}(x + eps)"))
        elif op is PowScalar and 0 in inputs and fractional(node):
            reason = "the gradient of a power below 1 at 0 is infinite"
            found.append(Danger(node, inputs[0], reason, "(x + eps) ** p"))
        elif op is Div and 1 in inputs:
            fix = "add a small eps to the denominator (before where(), not after it)"
            found.append(Danger(node, inputs[1], "a division by zero", fix))
        elif "norm" in name and "batch" not in name and outputs:
            reason = "the gradient of a norm at 0 is not defined"
            found.append(Danger(node, outputs[-1], reason, "(x.square().sum() + eps).sqrt()"))
    return found


def fractional(node: Any) -> bool:
    exponent = node._op.named(node._kept).exponent if node._kept else None
    return isinstance(exponent, float) and exponent < 1


def where_nan_began(graph: Walk) -> tuple[Place | None, str, str]:
    """(line, what happened, cure) of the earliest value that is not finite."""
    first: Any = None
    data: Any = None
    for node in graph.nodes:
        for i, value in saved_inputs(node).items():
            if finite(value):
                continue
            maker = node._edges[i]
            if maker is None or maker._is_leaf:
                if data is None or node._seq < data[0]._seq:
                    data = (node, i, maker, value)
            elif first is None or maker._seq < first._seq:
                first = maker
        if any(not finite(value) for value in saved_outputs(node)):
            if first is None or node._seq < first._seq:
                first = node
    if data is not None and (first is None or data[0]._seq <= first._seq):
        return from_data(*data)
    if first is None:
        first = min((n for n in graph.nodes if undefined(n)), key=lambda n: n._seq, default=None)
    if first is None:
        return None, "no saved value shows where it began", NO_CLUE
    where = evidence.of_node(first)
    op, name = op_of(first), op_name(first) or evidence.node_name(first)
    usual = FORWARD.get("" if op is None else op.nonfinite)
    if op is BinaryCrossEntropy:
        usual = NO_PROBABILITY
    reason, fix = (f"the result of {name}", NO_CLUE)
    if usual is not None:
        reason, fix = (text.format(op=name) for text in usual)
    known = [wide(host(v)) for v in saved_inputs(first).values() if finite(v) and v.size]
    reach = ""
    if known and usual is not None:
        low, high = min(v.min() for v in known), max(v.max() for v in known)
        reach = f" (its inputs reach from {low:.4g} to {high:.4g})"
    return where, f"it began with {reason}{reach}", fix


def undefined(node: Any) -> bool:
    """Whether what an op has saved says that its result cannot be finite."""
    inputs = {i: wide(value) for i, value in saved_inputs(node).items()}
    op = op_of(node)
    if op in (Log, Log2, Log10) and 0 in inputs:
        return bool((inputs[0] <= 0).any())
    if op is Reciprocal and 0 in inputs:
        return bool((inputs[0] == 0).any())
    return op is Div and 1 in inputs and bool((inputs[1] == 0).any())


def from_data(node: Any, i: int, maker: Any, value: Any) -> tuple[Place | None, str, str]:
    """A number that is none came in from outside, or sits in a parameter."""
    count = int(np.count_nonzero(~np.isfinite(wide(value))))
    name = name_of_array(value) or f"input {i} of {op_name(node)}"
    where = evidence.of_node(node)
    if maker is None:
        return (
            where,
            f"`{name}` came in with {count} of {value.size} values NaN or infinite",
            "clean the data: torch.isfinite(x).all() after loading",
        )
    return (
        where,
        f"the parameter `{name}` has {count} of {value.size} values NaN or infinite",
        "the steps before made it so: a smaller learning rate, or clip_grad_norm_() before step()",
    )
