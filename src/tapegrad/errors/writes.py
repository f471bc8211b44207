"""Writes that must not be, or must not have been: E01, E06, E13."""

from __future__ import annotations

import inspect
import re
import sys
from typing import Any

from ..core.base import Version
from ..core.modes import ANOMALY
from ..core.op import REGISTRY
from .evidence import (
    OURS,
    Place,
    Write,
    describe,
    here,
    memory,
    name_of,
    node_name,
    of_node,
    place,
    public_name,
    reached_from,
    short_name,
    shorten,
)
from .report import build, type_name

# ---------------------------------------------------------------------- E01


def modified_in_place(
    node: Any,
    kept: Any,
    made_by: str,
    slot: int,
    role: str,
    reader: str,
    cell: Version,
    expected: int,
) -> Exception:
    """E01: a value that a rule needs was overwritten.

    `kept` is the saved array, `made_by` the name of its history now (empty for leaves), `role` what
    it is to the node that saved it, `reader` that op's name.
    """
    writes = [Write(w) for w in cell.writers if w[0] > expected]
    reader = public_name(reader)
    subject = f": [{type_name(kept)} {list(kept.shape)}]"
    if made_by:
        subject += f", which is output {slot} of {shorten(made_by)},"
    hint = (
        "Hint: enable anomaly detection to find the operation that failed to compute its gradient, "
        "with torch.autograd.set_detect_anomaly(True, check_nan=False)."
    )
    if ANOMALY.enabled:
        hint = (
            "Hint: the backtrace further above shows the operation that failed to compute its "
            "gradient. The variable in question was changed in there or anywhere later. Good luck!"
        )
    sentence = (
        "one of the variables needed for gradient computation has been modified by an inplace "
        f"operation{subject} is at version {cell.n}; expected version {expected} instead. {hint}"
    )
    shown = writes if len(writes) < 3 else [writes[0], writes[-1]]
    if len(shown) == 2 and shown[0].where == shown[1].where:
        shown = shown[:1]  # one line of the user's, such as `h[0] *= 2`
    causes: list[tuple[str, str, Place | None]] = []
    for write in shown:
        causes.append(("written", f"{write.spell()} at", write.where))
        if write is writes[0] and write.view is not None and write.view != write.where:
            causes.append(("view", "the view was made at", write.view))
    causes += [("saved", f"by {reader} at", of_node(node)), ("noticed", "at", here())]
    spoken = "its input" if role == "its input `input`" else role
    count = cell.n - expected
    more = f"; {count} writes since, the first known and the last shown" if count > 2 else ""
    return build(
        RuntimeError,
        sentence,
        "E01",
        what=f"{node_name(node)} needs {spoken} as it was when {reader} ran{more}",
        causes=causes,
        tensor=describe(kept, name_of(kept) or name_written(writes)),
        fixes=fixes_for_write(writes, reader, is_parameter(node, kept)),
        op=reader,
        node=node_name(node),
        role=role,
        version=cell.n,
        expected=expected,
        writers=[write.facts() for write in writes],
        saved=of_node(node),
    )


def name_written(writes: list[Write]) -> str | None:
    """The name of the tensor in the writing line, where it has one: `h += x`, `h.relu_()`."""
    for write in writes:
        if write.where is not None and write.shape is None and not write.through:
            target = re.match(r"([A-Za-z_][\w.]*?)(?:\.\w+_\(|\s*[-+*/]=)", write.where["text"])
            if target:
                return target.group(1)
    return None


def has_inplace_flag(name: str) -> bool:
    """Whether a function of nn.functional takes `inplace=True`."""
    function = getattr(sys.modules.get(f"{OURS}.nn.functional"), name, None)
    return callable(function) and "inplace" in inspect.signature(function).parameters


def is_parameter(node: Any, kept: Any) -> bool:
    """Whether a saved value is (a view of) a leaf that requires grad."""
    leaves = [e for e in reached_from([node]) if e._is_leaf]
    return any(memory(leaf.tensor()._array) is memory(kept) for leaf in leaves)


def fixes_for_write(writes: list[Write], reader: str, parameter: bool) -> list[str]:
    """The smallest change first, by who wrote and how the line reads."""
    if not writes:
        return [f"do not write to the tensor between {reader} and backward()"]
    write = writes[0]
    text = "" if write.where is None else re.sub(r"\s+#.*", "", write.where["text"])
    if ".step(" in text:
        return [
            "call every backward() before optimizer.step()",
            "run the forward pass again after optimizer.step()",
        ]
    plain = write.name.rstrip("_")
    copy = f"keep a copy for {reader}: .clone() before the write"
    if write.through:
        return [f"{write.through}() shares memory: write to .detach().clone() instead", copy]
    if parameter and not write.recorded:
        return [
            "do this after backward(): the graph still needs the old weights",
            "run the forward pass again after it",
        ]
    if "inplace=True" in text:
        return ["leave out inplace=True", copy]
    sign = REGISTRY[plain].sign if plain in REGISTRY else ""
    augmented = re.match(rf"(.+?)\s*{re.escape(sign)}=\s*(.+)", text) if sign else None
    if augmented and "[" not in augmented.group(1):
        left, right = augmented.groups()
        return [f"write {left} = {left} {sign} {right}", copy]
    if re.match(r"[^=(]+\[.*\]\s*[-+*/]?=[^=]", text) or write.name in (
        "copy_",
        "index_put_",
        "fill_",
    ):
        return ["build the new value without writing: torch.where, torch.cat or torch.stack", copy]
    if write.name == "zero_":
        return ["go on with torch.zeros_like(...) instead of zero_()", copy]
    if f"{plain}_" not in text and has_inplace_flag(plain):
        return [f"leave out inplace=True of {plain}", copy]
    return [f"use the out-of-place form, {plain}(...), and go on with its result", copy]


# ---------------------------------------------------------------------- E06


def leaf_written(target: Any, view: Any) -> Exception:
    """E06: an in-place write to a leaf that requires grad, or to a view of one."""
    leaf = target if view is None else view.base
    name = name_of(leaf._array)
    now = here()
    made = None if view is None else place(view._code, view._lasti)
    what = "a leaf Variable" if view is None else "a view of a leaf Variable"
    return build(
        RuntimeError,
        f"{what} that requires grad is being used in an in-place operation.",
        "E06",
        what="gradients are taken with respect to this value; nothing was written",
        causes=[
            ("view", "of the leaf, made at", None if made == now else made),
            ("noticed", "before the write at", now),
        ],
        tensor=describe(leaf._array, name),
        fixes=[
            "to update a parameter by hand: with torch.no_grad(): around this line",
            f"to compute with a changed copy: {name or 'x'}.clone() first, or the out-of-place op",
        ],
        written=now,
        view=made,
    )


# ---------------------------------------------------------------------- E13


def view_written(target: Any, view: Any, indirect: bool) -> Exception:
    """E13: writing a view (or its base) whose history cannot be re-made."""
    done = (
        "its base or another view of its base has been modified inplace"
        if indirect
        else "is being modified inplace"
    )
    why = (
        " Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify "
        "your code by moving both the view and the inplace either both inside the no_grad block "
        "(if you don't want the inplace to be tracked) or both outside (if you want the inplace to "
        "be tracked)."
    )
    fixes = ["make the view and write to it in the same mode"]
    if view.kind in ("no_grad", "inference"):
        subject = "A view was created"
        if target._node is not None and not target._node._is_leaf:
            name = short_name(target._node)
            subject = f"Output {target._slot} of {name} is a view of a view which was created"
        mode = "no_grad" if view.kind == "no_grad" else "inference"
        end = "with grad mode enabled" if view.kind == "no_grad" else "in normal mode"
        sentence = f"{subject} in {mode} mode and {done} {end}.{why}"
        if view.kind == "inference":
            sentence = sentence.replace("the no_grad block", "the inference_mode block")
    else:
        sentence = f"A view was created in no_grad mode and {done} with grad mode enabled."
        if target._node is not None and not target._node._is_leaf:
            sentence = f"Output {target._slot} of {short_name(target._node)} is a view and {done}."
        fixes = ["use the out-of-place form of the op", "clone() the view before writing to it"]
        if view.kind == "multi":
            sentence += (
                " This view is the output of a function that returns multiple views. Such "
                "functions do not allow the output views to be modified inplace. You should "
                "replace the inplace operation by an out-of-place one."
            )
        else:
            sentence += (
                " This view was created inside a custom Function (or because an input was returned "
                "as-is) and the autograd logic to handle view+inplace would override the custom "
                "backward associated with the custom Function, leading to incorrect gradients. "
                "This behavior is forbidden. You can fix this by cloning the output of the custom "
                "Function."
            )
    made = place(view._code, view._lasti)
    writer = Write(target._cell.writers[-1]) if indirect and target._cell.writers else None
    return build(
        RuntimeError,
        sentence,
        "E13",
        what=WHY_NOT[view.kind],
        causes=[
            ("made", "the view at", made),
            ("written", f"{writer.spell() if writer else ''} at", writer and writer.where),
            ("noticed", "at" if indirect else "before the write at", here()),
        ],
        tensor=describe(target._array, name_of(target._array)),
        fixes=fixes,
        kind=view.kind,
        made=made,
        written=writer.where if writer else here(),
    )


WHY_NOT = {
    "no_grad": "a view from a no_grad block has no history that a recorded write could continue",
    "inference": "a view from an inference_mode block has no history that a write could continue",
    "multi": "one node made several views at once; a write to one of them cannot be told apart",
    "custom": "the custom Function's backward would be bypassed for what is written",
}
