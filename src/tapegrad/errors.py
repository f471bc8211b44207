"""What our exceptions say: PyTorch's sentence first, then the facts that were recorded.

Every function here returns an exception, or raises it where its name begins with `check_`. The
facts follow the order of the catalogue in docs/errors: what, where it was caused, where it was
noticed, the tensor, the ways out, the id. The same facts are in `error.diagnosis`. Nothing here
runs unless something went wrong.
"""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from typing import Any

import numpy as np

from . import dtypes
from .core.base import Cut, TensorBase, Version
from .core.modes import ANOMALY, MODES
from .evidence import (
    Place,
    Write,
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
    other_output,
    place,
    public_name,
    reached_from,
    return_lines,
    shared_leaf,
    short_name,
    shorten,
    spell,
    spell_tensor,
    unreduced_loss,
    way_in,
)


def build(
    cls: type[Exception],
    sentence: str,
    identity: str,
    *,
    what: str = "",
    causes: list[tuple[str, str, Place | None]],
    tensor: Any = "",
    fixes: list[str],
    **facts: Any,
) -> Exception:
    """An exception with PyTorch's `sentence`, the facts below it, and `diagnosis`.

    `causes` are (label, what happened, place), the last one where it was noticed; those without a
    place are left out. `tensor` is what `describe` gives.
    """
    known = [(label, did, where) for label, did, where in causes if where is not None]
    page = f"docs/errors/{identity}.md"
    lines = [sentence]
    if what:
        lines.append(f"  {'what:':<9}{what}")
    lines += [f"  {label + ':':<9}{did} {spell(where)}" for label, did, where in known]
    if tensor:
        lines.append(f"  {'tensor:':<9}{spell_tensor(tensor)}")
    lines += [f"  {'fix:' if i == 0 else 'or:':<9}{fix}" for i, fix in enumerate(fixes)]
    lines.append(f"  [{identity}] {page}")
    error = cls("\n".join(lines))
    error.diagnosis = {  # type: ignore[attr-defined]
        "id": identity,
        "message": sentence,
        "what": what,
        "causes": [{"label": label, "did": did, **where} for label, did, where in known],
        "noticed": next((where for label, _, where in known if label == "noticed"), None),
        "tensor": tensor or None,
        "fixes": fixes,
        "page": page,
        **facts,
    }
    return error


def type_name(array: Any) -> str:
    """What PyTorch calls a tensor of this dtype in sentences: torch.FloatTensor."""
    kind = dtypes.of(array.dtype).scalar_type
    old = kind in ("Float", "Double", "Half", "Byte", "Char", "Short", "Int", "Long")
    return f"torch.{kind}Tensor" if old else f"CPU{kind}Type"


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
    causes: list[tuple[str, str, Place | None]] = []
    for write in shown:
        causes.append(("written", f"{write.spell()} at", write.where))
        if write is writes[0] and write.view is not None and write.view != write.where:
            causes.append(("view", "the view was made at", write.view))
    causes += [("saved", f"by {reader} at", of_node(node)), ("noticed", "at", here())]
    count = cell.n - expected
    more = f"; {count} writes since, the first known and the last shown" if count > 2 else ""
    return build(
        RuntimeError,
        sentence,
        "E01",
        what=f"{node_name(node)} needs {role} as it was when {reader} ran{more}",
        causes=causes,
        tensor=describe(kept, name_of(kept) or name_written(writes)),
        fixes=fixes_for_write(writes, reader),
        op=reader,
        node=node_name(node),
        role=role,
        version=cell.n,
        expected=expected,
        writers=[write.facts() for write in writes],
        saved=of_node(node),
    )


def name_written(writes: list[Write]) -> str | None:
    """What the writing line calls the tensor, where it names it: `h += x`, `h.relu_()`."""
    for write in writes:
        if write.where is not None and write.shape is None and not write.through:
            target = re.match(r"([A-Za-z_][\w.]*?)(?:\.\w+_\(|\s*[-+*/]=)", write.where["text"])
            if target:
                return target.group(1)
    return None


INPLACE_FLAGS = ("relu", "dropout", "silu", "hardtanh", "leaky_relu", "elu")
SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


def fixes_for_write(writes: list[Write], reader: str) -> list[str]:
    """The smallest change first, by who wrote and how the line reads."""
    if not writes:
        return [f"do not write to the tensor between {reader} and backward()"]
    write = writes[0]
    text = "" if write.where is None else write.where["text"]
    if ".step(" in text:
        return [
            "call every backward() before optimizer.step()",
            "run the forward pass again after optimizer.step()",
        ]
    plain = write.name.rstrip("_")
    copy = f"keep a copy for {reader}: .clone() before the write"
    if write.through:
        return [f"{write.through}() shares memory: write to .detach().clone() instead", copy]
    sign = SIGNS.get(plain)
    augmented = re.match(rf"(.+?)\s*\{sign}=\s*(.+)", text) if sign else None
    if augmented:
        left, right = augmented.groups()
        return [f"write {left} = {left} {sign} {right}", copy]
    if re.match(r"[^=(]+\[.*\]\s*=[^=]", text) or write.name in ("copy_", "index_put_", "fill_"):
        return ["build the new value without writing: torch.where, torch.cat or torch.stack", copy]
    if write.name == "zero_":
        return ["go on with torch.zeros_like(...) instead of zero_()", copy]
    if f"{plain}_" not in text and plain in INPLACE_FLAGS:
        return [f"leave out inplace=True of {plain}", copy]
    return [f"use the out-of-place form, {plain}(...), and go on with its result", copy]


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
    code, lasti, root, when = node.freed_by or (None, -1, 0, 0)
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
            tensor = describe(live.array, name)
        elif entry is node and hasattr(grad, "shape"):
            tensor = describe(getattr(grad, "array", grad), name)  # as large as what it is for
        else:
            tensor = {"name": name}
        if user.seq > when:
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
    cut: Cut | None = getattr(root, "cut", None)
    frozen: list[str] = []
    if cut is not None:
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
            ("noticed", "at", here()),
        ],
        tensor=describe(root.array, name_of(root.array)),
        fixes=fixes,
        cut_by=None if cut is None else cutter(cut),
        cut=of_cut(cut),
        frozen=frozen,
    )


def not_scalar(root: Any) -> Exception:
    """E04: backward without a gradient on something that is not a scalar."""
    shape = tuple(root.array.shape)
    where = of_node(root.node)
    fixes = [
        "did you mean .mean() or .sum() before .backward()?",
        f"pass gradient= a tensor of shape {shape}",
    ]
    unreduced, by = unreduced_loss(root.node)
    if unreduced is not None:
        fixes.insert(0, f"{by} keeps one loss per element: leave it out, or reduce the loss")
    causes = [("made", "at", where), ("noticed", "at", here())]
    if unreduced is not None and unreduced != where:
        causes.insert(0, ("loss", "with reduction='none' at", unreduced))
    return build(
        RuntimeError,
        "grad can be implicitly created only for scalar outputs",
        "E04",
        what=f"backward() starts from one number; this tensor has {root.array.size}",
        causes=causes,
        tensor=describe(root.array, name_of(root.array)),
        fixes=fixes,
        shape=list(shape),
        made=where,
        unreduced=unreduced,
    )


def unused_input(t: Any, index: int, roots: tuple[Any, ...]) -> Exception:
    """E05: autograd.grad for a tensor that the outputs do not depend on."""
    is_tensor = isinstance(t, TensorBase)
    name = name_of(t.array) if is_tensor else None
    tensor: dict[str, Any] = {"as": f"inputs[{index}]"}
    if is_tensor:
        tensor.update(describe(t.array, name))
    node = t.node
    made = None if node is None or node.is_leaf else of_node(node)
    graph = reached_from([r.node for r in roots])
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


# ---------------------------------------------------------------------- E06, E07


def leaf_written(target: Any, view: Any) -> Exception:
    """E06: an in-place write to a leaf that requires grad, or to a view of one."""
    leaf = target if view is None else view.base
    name = name_of(leaf.array)
    now = here()
    made = None if view is None else place(view.code, view.lasti)
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
        tensor=describe(leaf.array, name),
        fixes=[
            "to update a parameter by hand: with torch.no_grad(): around this line",
            f"to compute with a changed copy: {name or 'x'}.clone() first, or the out-of-place op",
        ],
        written=now,
        view=made,
    )


def warn_non_leaf_grad(t: Any) -> None:
    """E07: `.grad` of a tensor that is not a leaf, read by the user's code."""
    if is_probe(sys._getframe(2)):
        return
    name = name_of(t.array)
    made = of_node(t.node)
    op = short_name(t.node)
    fixes = [f"call {name or 't'}.retain_grad() before backward()"]
    if made is not None and "requires_grad" in made["text"]:
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
        what=f"it is the result of {op}; only leaves keep their gradient",
        causes=[("made", f"by {op} at", made), ("noticed", "at", here())],
        tensor=describe(t.array, name),
        fixes=fixes,
        made=made,
    )
    warnings.warn(warning, stacklevel=3)


# ---------------------------------------------------------------------- E12, E13


def wrong_gradient_count(node: Any, expected: int, found: tuple[Any, ...]) -> Exception:
    """E12: a Function's backward returned too few or too many gradients."""
    spelled = forward_arguments(node._forward_cls)
    returned = [spell_gradient(g) for g in found]
    return build(
        RuntimeError,
        f"function {node_name(node)} returned an incorrect number of gradients (expected "
        f"{expected}, got {len(found)})",
        "E12",
        what=f"forward takes ({', '.join(spelled)}), backward returned ({', '.join(returned)})",
        causes=[
            ("returns", "at", backward_result(node._forward_cls)),
            ("applied", "at", of_node(node)),
            ("noticed", "at", here()),
        ],
        fixes=[
            f"return {expected} values, one for each argument of forward; None where there is "
            "no gradient"
        ],
        expected=expected,
        got=len(found),
        arguments=spelled,
        returned=returned,
        applied=of_node(node),
    )


def wrong_gradient(node: Any, sentence: str, index: int, found: tuple[Any, ...]) -> Exception:
    """E12: what a Function's backward returned at `index` is no gradient of that argument."""
    arguments = forward_arguments(node._forward_cls)
    name = arguments[index] if index < len(arguments) else f"argument {index + 1}"
    meta = node._input_metas[index]
    cure = "None" if meta is None else f"a tensor of shape {tuple(meta[0])}, or None"
    return build(
        RuntimeError,
        sentence,
        "E12",
        what=f"value {index + 1} of backward, {spell_gradient(found[index])}, belongs to `{name}`",
        causes=[
            ("returns", "at", backward_result(node._forward_cls)),
            ("applied", "at", of_node(node)),
            ("noticed", "at", here()),
        ],
        fixes=[f"return {cure} at this position"],
        arguments=arguments,
        returned=[spell_gradient(g) for g in found],
        index=index,
        applied=of_node(node),
    )


def forward_arguments(cls: Any) -> list[str]:
    """The arguments of a Function's forward, without ctx."""
    names = list(inspect.signature(cls.forward).parameters.values())
    if "setup_context" not in vars(cls):
        names = names[1:]
    return [str(p).split(":")[0].split("=")[0].strip() for p in names]


def backward_result(cls: Any) -> Place | None:
    """The line of a Function's backward that returns, or where it begins if there are several."""
    code = getattr(inspect.unwrap(cls.backward), "__code__", None)
    ends = [] if code is None else return_lines(code)
    return ends[0] if len(ends) == 1 else place(code, -1)


def spell_gradient(g: Any) -> str:
    if not isinstance(g, TensorBase):
        return "None" if g is None else type(g).__name__
    return f"Tensor{list(g.array.shape)}"


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
        if target.node is not None and not target.node.is_leaf:
            name = short_name(target.node)
            subject = f"Output {target.slot} of {name} is a view of a view which was created"
        mode = "no_grad" if view.kind == "no_grad" else "inference"
        end = "with grad mode enabled" if view.kind == "no_grad" else "in normal mode"
        sentence = f"{subject} in {mode} mode and {done} {end}.{why}"
        if view.kind == "inference":
            sentence = sentence.replace("the no_grad block", "the inference_mode block")
    else:
        sentence = f"A view was created in no_grad mode and {done} with grad mode enabled."
        if target.node is not None and not target.node.is_leaf:
            sentence = f"Output {target.slot} of {short_name(target.node)} is a view and {done}."
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
    made = place(view.code, view.lasti)
    writer = Write(target.cell.writers[-1]) if indirect and target.cell.writers else None
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
        tensor=describe(target.array, name_of(target.array)),
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


# ---------------------------------------------------------------------- plain sentences


def check_broadcast(arrays: list[Any]) -> None:
    """Raise PyTorch's sentence if the shapes of the operands do not broadcast."""
    shapes = [x.shape for x in arrays if isinstance(x, np.ndarray)]
    full = shapes[0] if shapes else ()
    for shape in shapes[1:]:
        size = max(len(full), len(shape))
        a = (1,) * (size - len(full)) + full
        b = (1,) * (size - len(shape)) + shape
        for d in range(size - 1, -1, -1):
            if a[d] != b[d] and a[d] != 1 and b[d] != 1:
                raise RuntimeError(
                    f"The size of tensor a ({a[d]}) must match the size of tensor b ({b[d]}) at "
                    f"non-singleton dimension {d}"
                )
        full = tuple(n if m == 1 else m for m, n in zip(a, b, strict=True))


def inference_saved() -> Exception:
    return RuntimeError(
        "Inference tensors cannot be saved for backward. Please do not use Tensors created in "
        "inference mode in computation tracked by autograd. To work around this, you can make a "
        "clone to get a normal tensor and use it in autograd, or use `torch.no_grad()` instead of "
        "`torch.inference_mode()`."
    )


def inference_written() -> Exception:
    return RuntimeError(
        "Inplace update to inference tensor outside InferenceMode is not allowed."
        "You can make a clone to get a normal tensor before doing inplace update."
        "See https://github.com/pytorch/rfcs/pull/17 for more details."
    )


def must_be_tensor(function: str, argument: str, position: int, value: Any) -> TypeError:
    return TypeError(
        f"{function}(): argument '{argument}' (position {position}) must be Tensor, "
        f"not {type(value).__name__}"
    )
