"""docs/operators.md: every op with its rules, made from the registry."""

from __future__ import annotations

import ast
from typing import Any

from tapegrad.core.op import AS_IS, PROMOTE, Op
from tapegrad.core.op import REGISTRY as OPS
from tapegrad.ops.block.definition import APIS, Api
from tapegrad.ops.block.rule_source import rule_tree

HEAD = """# Operators

Made by `make generate` from the blocks in `src/tapegrad/ops`; each row is one op, which is what the
tape records. *Gradient* shows the rule for each tensor argument as it stands in the block; `F` are
the ops themselves, so that every rule can be differentiated again. *Forward* and *batch* say where
the forward-mode rule (jvp) and the batching rule (vmap) come from: derived, or written in the
block.

The functions that people call are listed with the ops of their module; a function that has no op of
its own is made of others, and gets every derivative from them.
"""


def rule_text(function: Any) -> str:
    """What a rule returns, if that is all it does; else only that it is there."""
    tree = rule_tree(function)
    body = tree.body if tree is not None else []
    if len(body) == 1 and isinstance(body[0], ast.Return) and body[0].value is not None:
        text = ast.unparse(body[0].value)
        return f"`{text}`" if len(text) < 90 else "written out"
    return "written out"


def gradients(op: Op) -> str:
    if op.joint is not None:
        return f"all at once: {rule_text(op.joint.function)}"
    parts = []
    for name, rule in zip(op.tensors, op.rules, strict=False):
        if rule is not None:
            parts.append(f"{name}: {rule_text(rule.function)}")
    return "; ".join(parts) or "–"


def forward(op: Op) -> str:
    if op.jvp is None:
        return "–"
    return {"linear_jvp": "linear", "elementwise_jvp": "elementwise"}.get(
        getattr(getattr(op.jvp, "func", None), "__name__", ""), "own"
    )


BATCH = {
    "aligned": "broadcast",
    "along_dims": "dims",
    "over_leading": "leading",
    "folded": "fold",
    "spelled_out": "own",
}


def batch(op: Op) -> str:
    return f"none: {op.unbatchable}" if op.batch is None else BATCH[op.batch.func.__name__]


def dtype_rule(op: Op) -> str:
    if op.dtype_rule == AS_IS:
        return "as is"
    return "promote" if op.dtype_rule == PROMOTE else "promote to float"


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def op_row(op: Op) -> str:
    node = f"`{op.node_name}`" if op.differentiable else "–"
    cells = (f"`{op.name}`", node, gradients(op), forward(op), batch(op), dtype_rule(op))
    return "| " + " | ".join(cell(c) for c in cells) + " |"


def function_line(api: Api) -> str:
    first = " ".join(api.doc.split("\n\n")[0].split())
    signature, _, rest = first.partition(" -> ")
    kinds = []
    if api.function:
        kinds.append("function")
    if api.method:
        kinds.append("method")
    if api.inplace:
        kinds.append("in-place")
    _, _, sentence = rest.partition(": ")
    return f"- `{api.name}`: {sentence} ({', '.join(kinds)})" if sentence else f"- `{api.name}`"


def page() -> str:
    lines = [HEAD, f"{len(OPS)} ops, {len(APIS)} public functions.\n"]
    homes = sorted({each.home for each in (*APIS.values(), *OPS.values())})
    for home in homes:
        ops = [op for op in OPS.values() if op.home == home]
        apis = [api for api in APIS.values() if api.home == home]
        path = home.removeprefix("tapegrad.").replace(".", "/")
        lines.append(f"\n## {path}.py\n")
        lines += [function_line(api) for api in sorted(apis, key=lambda a: a.name)]
        if ops:
            lines.append("\n| op | node | gradient | forward | batch | dtypes |")
            lines.append("|---|---|---|---|---|---|")
            lines += [op_row(op) for op in ops]
    return "\n".join(lines) + "\n"
