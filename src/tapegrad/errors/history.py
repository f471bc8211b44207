"""No way back from a tensor, or none to it: E02 to E05, and E07."""

from __future__ import annotations

import re
import sys
from typing import Any

from ..core.base import Cut, TensorBase, node_of
from ..core.modes import MODES
from ..core.warned import warn
from .evidence import (
    Place,
    cut_towards,
    describe,
    frozen_modules,
    here,
    is_probe,
    name_of,
    name_of_node,
    node_name,
    of_cut,
    of_node,
    only_line,
    other_output,
    place,
    public_name,
    reached_from,
    shared_leaf,
    short_name,
    unreduced_loss,
    way_in,
)
from .report import build

# ---------------------------------------------------------------------- E02


def freed_graph(node: Any, grad: Any = None) -> Exception:
    """E02: backward through a graph whose saved values are gone; `grad` is what arrived there."""
    sentence = (
        "Trying to backward through the graph a second time (or directly access saved tensors "
        "after they have already been freed). Saved intermediate values of the graph are freed "
        "when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to "
        "backward through the graph a second time or if you need to access saved tensors after "
        "calling backward."
    )
    retain = "pass retain_graph=True to the first backward, if both passes are meant"
    code, lasti, root, when = node._freed_by or (None, -1, 0, 0)
    entry, user = way_in(node, root) if MODES.run is not None and code is not None else (None, None)
    made, tensor = entry or node, None
    if MODES.run is None:
        what = f"the values saved for {node_name(node)} are gone"
        fixes = ["read them before backward()", retain]
    elif entry is None:
        what = f"an earlier backward() through this graph freed what {node_name(node)} had saved"
        fixes = ["call backward() once, or compute the loss again before the second call", retain]
    else:
        name, live = name_of_node(entry)
        spelled = name or "state"
        if live is not None:
            tensor = describe(live._array, name)
        elif entry is node and hasattr(grad, "shape"):
            tensor = describe(getattr(grad, "_array", grad), name)  # as large as what it is for
        else:
            tensor = {"name": name}
        if user._seq > when:
            what = f"`{spelled}` was carried over from a graph that backward() has freed"
            fixes = [
                f"detach() what is carried over first: {spelled} = {spelled}.detach()",
                "add the losses up and call backward() once",
                retain,
            ]
        else:
            what = "two losses share a part of the graph, and the first backward() freed it"
            fixes = ["add the losses up and call backward() once", retain]
    return build(
        RuntimeError,
        sentence,
        "E02",
        what=what,
        causes=[
            ("freed", "by the first backward at", place(code, lasti)),
            ("made", f"the result of {short_name(made)} at", of_node(made)),
            ("reused", f"by {'' if user is None else short_name(user)} at", of_node(user)),
            ("noticed", "at", here()),
        ],
        tensor=tensor if tensor and any(tensor.values()) else "",
        fixes=fixes,
        node=node_name(node),
        freed=place(code, lasti),
        made=of_node(made),
        reused=of_node(user),
    )


# ---------------------------------------------------------------------- E03, E04, E05

CUTS = {
    "no_grad": "a torch.no_grad() block",
    "inference_mode": "a torch.inference_mode() block",
    "data": ".data",
    "detach": ".detach()",
    "detach_": ".detach_()",
    "tensor": "torch.tensor(...) of tensors: it copies values, not history",
    "cast": "a cast to a dtype without gradients",
    "view": "a view as another dtype",
}
INSTEAD = {
    "no_grad": "compute this line outside of torch.no_grad()",
    "inference_mode": "compute this line outside of torch.inference_mode()",
    "data": "use the tensor itself instead of .data",
    "detach": "leave out .detach() on this way",
    "detach_": "leave out .detach_() on this way",
    "tensor": "use torch.stack or torch.cat, which keep the history",
    "cast": "stay in a floating dtype on this way",
}


SPELLED = {
    "data": ".data",
    "detach": "detach()",
    "detach_": "detach_()",
    "cast": "the cast",
    "tensor": "torch.tensor()",
}


def cutter(cut: Cut) -> str:
    """The name of what cut a history off: a key of CUTS, or an op."""
    return cut.what if cut.what in CUTS else public_name(cut.what)


def cut_by(cut: Cut) -> str:
    return CUTS.get(cut.what, f"{cutter(cut)}, which has no gradient")


def instead_of(cut: Cut) -> str:
    return INSTEAD.get(cut.what, f"use a differentiable op in the place of {cutter(cut)}")


def no_history(root: Any, index: int) -> Exception:
    """E03: backward from a tensor with no history."""
    cut: Cut | None = getattr(root, "_cut", None)
    frozen: list[str] = []
    name = name_of(root._array)
    taken = None if cut is not None else taken_out(name)
    if taken is not None:
        what = f"`{name}` was made from a number, and a number has no history"
        fixes = [
            "call backward() on the tensor itself, before .item(); numbers are for printing",
            "several losses: add the tensors up, or torch.stack(losses).mean()",
        ]
    elif cut is not None:
        what = f"the way back ends at {cut_by(cut)}"
        fixes = [instead_of(cut)]
    else:
        frozen = frozen_modules()
        what = "nothing that it was computed from requires grad"
        fixes = ["make the inputs that you differentiate for require grad: requires_grad=True"]
        if frozen:
            what += f"; all parameters of `{frozen[0]}` are frozen"
            fixes.insert(0, f"unfreeze before the forward pass: {frozen[0]}.requires_grad_(True)")
    return build(
        RuntimeError,
        f"element {index} of tensors does not require grad and does not have a grad_fn",
        "E03",
        what=what,
        causes=[
            (
                "cut",
                f"by {'' if cut is None else SPELLED.get(cut.what, cutter(cut))} at",
                of_cut(cut),
            ),
            ("cut", "by taking the value out at", taken),
            ("noticed", "at", here()),
        ],
        tensor=describe(root._array, name),
        fixes=fixes,
        cut_by=("item" if taken else None) if cut is None else cutter(cut),
        cut=taken if cut is None else of_cut(cut),
        frozen=frozen,
    )


# torch.tensor(loss.item()), torch.tensor(float(loss)), torch.from_numpy(y.detach().numpy())
TAKEN_OUT = re.compile(
    r"=.*(?:[tT]ensor|from_numpy|Variable)\(.*(?:\.item\(\)|\.tolist\(\)|\.numpy\(\)|float\()"
)


def taken_out(name: str | None) -> Place | None:
    """The line that made a tensor from the value of another one, as the source tells it."""
    if name is None:
        return None
    last = only_line(rf"(?:^|[\s;]){re.escape(name)}\s*=(?!=)")
    return None if last is None or TAKEN_OUT.search(last["text"]) is None else last


def not_scalar(root: Any) -> Exception:
    """E04: backward without a gradient on something that is not a scalar."""
    shape = tuple(root._array.shape)
    where = of_node(root._node)
    fixes = [
        "did you mean .mean() or .sum() before .backward()?",
        f"pass gradient= a tensor of shape {shape}",
    ]
    unreduced, by = unreduced_loss(root._node)
    if unreduced is not None:
        fixes.insert(0, f"{by} keeps one loss per element: leave it out, or reduce the loss")
    causes = [("made", "at", where), ("noticed", "at", here())]
    if unreduced is not None and unreduced != where:
        causes.insert(0, ("loss", "with reduction='none' at", unreduced))
    return build(
        RuntimeError,
        "grad can be implicitly created only for scalar outputs",
        "E04",
        what=f"backward() starts from one number; this tensor has {root._array.size}",
        causes=causes,
        tensor=describe(root._array, name_of(root._array)),
        fixes=fixes,
        shape=list(shape),
        made=where,
        unreduced=unreduced,
    )


def born(t: Any) -> Any:
    """Where a leaf that requires grad was made."""
    cell = t._cell if isinstance(t, TensorBase) else None
    return None if cell is None or cell.born is None else place(*cell.born)


def unused_input(t: Any, index: int, roots: tuple[Any, ...]) -> Exception:
    """E05: autograd.grad for a tensor that the outputs do not depend on."""
    is_tensor = isinstance(t, TensorBase)
    name = name_of(t._array) if is_tensor else None
    tensor: dict[str, Any] = {"as": f"inputs[{index}]"}
    if is_tensor:
        tensor.update(describe(t._array, name))
    node = node_of(t)
    made = born(t) if node is None or node._is_leaf else of_node(node)
    graph = reached_from([node_of(r) for r in roots])
    cut, certain = cut_towards(node, graph, roots)
    other = None if certain else other_output(node, roots)
    related = None if certain or other is not None else shared_leaf(node, graph)
    if not certain and (other is not None or related is not None):
        cut = None
    allow = "pass allow_unused=True to get None for it"
    if cut is not None:
        why = "cut"
        what = f"the way from the output back to it is cut by {cut_by(cut)}"
        if not certain:
            what = f"the output uses a value, perhaps made from it, cut off by {cut_by(cut)}"
        fixes = [instead_of(cut), allow]
    elif other is not None:
        why = "another output"
        what = f"only `{other}` was computed from it, not the outputs that were passed"
        fixes = [f"pass `{other}` as the output, or use the tensor in the output", allow]
    elif related is not None:
        why = "not in the graph"
        what = f"the output was computed from `{related}` anew, not from this tensor"
        fixes = ["use this tensor in the computation of the output", allow]
    else:
        why = "not in the graph"
        what = "the outputs were not computed from this tensor"
        fixes = ["pass the tensor that was used: a copy, .to() or slice is another tensor", allow]
    return build(
        RuntimeError,
        f"The differentiated Tensor at index {index} appears to not have been used in the graph. "
        "Set allow_unused=True if this is the desired behavior.",
        "E05",
        what=what,
        causes=[("made", "at", made), ("cut", "at", of_cut(cut)), ("noticed", "at", here())],
        tensor=tensor,
        fixes=fixes,
        index=index,
        name=name,
        why=why,
        cut_by=None if cut is None else cutter(cut),
        cut=of_cut(cut),
        other=other,
        made=made,
    )


# ---------------------------------------------------------------------- E07


# w = w - lr * w.grad
LOST_LEAF = re.compile(r"\s*(\w+)\s*=\s*\1\s*([-+])\s*(.*\b\1\.grad\b.*?)\s*(?:#.*)?$")


def warn_non_leaf_grad(t: Any) -> None:
    """E07: `.grad` of a tensor that is not a leaf, read by the user's code."""
    asking = sys._getframe(2)
    if asking.f_globals.get("__name__") == "tapegrad.core.function_mode_attributes":
        asking = sys._getframe(3)
    if is_probe(asking):
        return
    name = name_of(t._array)
    made = of_node(t._node)
    op = short_name(t._node)
    what = f"it is the result of {op}; only leaves keep their gradient"
    fixes = [f"call {name or 't'}.retain_grad() before backward()"]
    lost = None if made is None else LOST_LEAF.match(made["text"])
    if lost is not None:
        what = f"`{lost[1]}` was a leaf; this update made a new tensor and gave it the leaf's name"
        fixes = [f"update it in place: with torch.no_grad(): {lost[1]} {lost[2]}= {lost[3]}"]
    elif made is not None and "requires_grad" in made["text"]:
        fixes.insert(0, f"{op} follows requires_grad: call .requires_grad_() last, on its result")
    sentence = (
        "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad "
        "attribute won't be populated during autograd.backward(). If you indeed want the .grad "
        "field to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. "
        "If you access the non-leaf Tensor by mistake, make sure you access the leaf Tensor "
        "instead. See github.com/pytorch/pytorch/pull/30531 for more information."
    )
    warning = build(
        UserWarning,
        sentence,
        "E07",
        what=what,
        causes=[("made", f"by {op} at", made), ("noticed", "at", here())],
        tensor=describe(t._array, name),
        fixes=fixes,
        made=made,
    )
    warn(warning)
