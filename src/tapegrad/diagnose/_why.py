"""`why(x)`: one paragraph on why `x.grad` is or is not filled.

>>> import tapegrad as torch
>>> x = torch.tensor([1.0, 2.0], requires_grad=True)
>>> torch.diagnose.why(x)
`x` has never been used in a recorded computation: no loss depends on it.
>>> loss = (x.detach() * 3).sum()
>>> torch.diagnose.why(loss).facts["cut_by"]
'detach'

Nothing is recorded for it: the answer is read from the tensors, nodes and lines that are there.
What is only likely, because the graph is gone, is said to be so.
"""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np

from .. import dtypes
from ..core.array_kind import host
from ..core.is_array import is_array
from ..core.modes import MODES
from ..core.node import only_follows
from ..errors import evidence, history
from . import alive, words

Facts = dict[str, Any]


class Reason:
    """The answer: prints as a paragraph; `facts` holds the same as data, `cause` its short name."""

    def __init__(self, text: str, facts: Facts) -> None:
        self.text = text
        self.facts = facts

    @property
    def cause(self) -> str:
        return self.facts["cause"]  # type: ignore[no-any-return]

    def data(self) -> Facts:
        return {**self.facts, "text": self.text}

    def __repr__(self) -> str:
        return words.paragraph(self.text)


def why(x: Any) -> Reason:
    """Say why `x.grad` is or is not filled."""
    given = words.tensors_of([x], "why", "x")[0]
    name = words.name_of(given)
    t = words.behind(given)
    lazy = words.is_lazy(t)
    facts: Facts = {
        "name": name,
        "shape": None if lazy else list(t.shape),
        "dtype": str(t.dtype),
        "requires_grad": t.requires_grad,
        "is_leaf": t.is_leaf,
        "has_grad": t._gradient is not None,
    }
    spelled = "This tensor" if name is None else f"`{name}`"
    if lazy:
        facts["cause"] = "uninitialized"
        text = f"{spelled} belongs to a lazy layer that has not seen an input yet: it has no shape"
        return Reason(f"{text} before the first forward pass, and no gradient before that.", facts)
    for question in (filled, without_grad, inner_tensor, leaf_without):
        text = question(t, spelled, facts)
        if text:
            return Reason(text, facts)
    raise AssertionError("a tensor is a leaf or is not")


# ---------------------------------------------------------------------- it is there


def filled(t: Any, name: str, facts: Facts) -> str:
    grad = t._gradient
    if grad is None:
        return ""
    facts["cause"] = "filled"
    array = host(grad._array if is_array(grad._array) else grad.to_dense()._array)
    size = float(np.sqrt(np.sum(np.abs(array.astype(np.complex128)) ** 2)))
    facts["norm"] = size
    writes = [] if grad._cell is None else [evidence.Write(w) for w in grad._cell.writers]
    added = [w for w in writes if w.name == "accumulate_grad"]
    lines = [w.where for w in added if w.where is not None]
    first = first_backward(t)
    facts["accumulated"] = len(added) + 1
    if lines and first == lines[-1]:
        first = None  # the graph knows the last pass only
    facts["backward"] = ([] if first is None else [first]) + lines
    text = [f"{with_grad(name)} is filled (norm {words.digits(size)}):"]
    if t._retained:
        facts["cause"] = "filled, retained"
        text.append(f"{name} is no leaf, but retain_grad() was called before backward().")
    elif t.is_leaf:
        leaf = "a leaf that requires grad" if t.requires_grad else "a leaf that required grad"
        text.append(f"{name} is {leaf}" + at_line(", and backward() ran", first))
    else:
        text.append("it was assigned by hand, for the tensor is no leaf.")
    if added:
        more = f"and {len(added)} more backward passes" if len(added) > 1 else "and one more pass"
        last = lines[-1] if lines else None
        text.append(f"A first pass {more} are added up in it" + at_line(", the last", last))
        text.append("Call zero_grad() before each backward() if they should not add up.")
    if not t.requires_grad:
        text.append("It is from before: the tensor does not require grad now.")
    if not np.isfinite(array).all():
        facts["finite"] = False
        text.append("It has NaN or infinite values: see torch.autograd.detect_anomaly().")
    elif array.size and not array.any():
        facts["zero"] = True
        text.append("All of it is zero: the loss does not change with this tensor here.")
    return " ".join(text)


def first_backward(t: Any) -> evidence.Place | None:
    """The line of the backward pass that reached a tensor, as long as its graph is alive."""
    passes = [node._freed_by for node in above(t) if node._freed_by is not None]
    if passes:
        code, lasti, _, _ = min(passes, key=lambda found: found[3])
        return evidence.place(code, lasti)
    return evidence.only_line(r"\.backward\(")


# ---------------------------------------------------------------------- it cannot be there


def without_grad(t: Any, name: str, facts: Facts) -> str:
    """For tensors that do not require grad: a dtype, a cut, a frozen parameter, never asked for."""
    if t.requires_grad:
        return ""
    kind = dtypes.of(t._array.dtype)
    if not (kind.is_floating_point or kind.is_complex):
        facts["cause"] = "dtype"
        text = f"{name} holds {kind} values, and only floating and complex dtypes have gradients."
        if t._cut is not None:
            facts["cut"] = evidence.of_cut(t._cut)
            text += at_line(" The history ended", facts["cut"])
        return text
    if t.is_inference():
        facts["cause"] = "inference_mode"
        return f"{name} was made under torch.inference_mode(), where nothing is recorded."
    if t._cut is not None:
        where = evidence.of_cut(t._cut)
        facts.update(cause="cut", cut_by=history.cutter(t._cut), cut=where)
        text = f"{name} does not require grad: its history was cut off by {history.cut_by(t._cut)}"
        return f"{text}{at_line('', where)} {sentence(history.instead_of(t._cut))}"
    if is_parameter(t):
        facts["cause"] = "frozen"
        where = evidence.only_line(r"requires_grad(_\(\s*False|\s*=\s*False)")
        facts["frozen_at"] = where
        return (
            f"{name} is a frozen parameter: its requires_grad is False"
            + at_line(", most likely set", where)
            + " Call .requires_grad_(True) on it before the forward pass."
        )
    facts["cause"] = "requires_grad is False"
    text = f"{name} does not require grad, so no operation on it is recorded."
    if not MODES.grad:
        facts["no_grad_now"] = True
        text += " (Besides, this line runs under torch.no_grad().)"
    return f"{text} Make it with requires_grad=True, or call .requires_grad_() before it is used."


# ---------------------------------------------------------------------- it is no leaf


def inner_tensor(t: Any, name: str, facts: Facts) -> str:
    """For results of operations: their gradient is passed on, and kept only if asked for."""
    if t.is_leaf:
        return ""
    made = evidence.of_node(t._node)
    op = evidence.short_name(t._node)
    facts.update(made=made, op=op)
    if t._retained:
        facts["cause"] = "no backward yet"
        text = f"{name} retains its gradient, but no backward() has reached it yet."
        if t._node._freed_by is not None:
            facts["cause"] = "retained too late"
            text = f"{name} retains its gradient, but retain_grad() came after the backward() that"
            text += at_line(" ran", evidence.place(*t._node._freed_by[:2]))
        return text
    lost = None if made is None else history.LOST_LEAF.match(made["text"])
    if lost is not None:
        facts["cause"] = "lost leaf"
        text = f"{name} was a leaf, until an update made a new tensor and gave it the leaf's name"
        text += at_line("", made) + " backward() fills leaves only. Update it in place: "
        return f"{text}with torch.no_grad(): {lost[1]} {lost[2]}= {lost[3]}."
    facts["cause"] = "not a leaf"
    how = {"ToCopy": "ToCopy, a .to() to another dtype,"}.get(op, op)
    text = f"{name} is not a leaf: it is the result of {how}" + at_line("", made)
    source = [n for n in leaves_of(t) if n]
    facts["leaves"] = source
    if made is not None and "requires_grad" in made["text"]:
        facts["cause"] = "not a leaf: made from one"
        text += (
            f" requires_grad was set first, then {op} made a new tensor of it: the gradient goes "
            "to the tensor before, which has no name. Call .requires_grad_() last, on the result."
        )
        return text
    text += " Its gradient is computed and passed on, not kept."
    if source:
        text += f" backward() fills the leaves behind it: {listed(source)}."
    return f"{text} To see it here, call {bare(name)}.retain_grad() before backward()."


def leaves_of(t: Any) -> list[str | None]:
    """The names of the leaves behind a tensor."""
    names = {id(held._node): name for name, held in words.tensors_held() if held._node is not None}
    nodes = evidence.reached_from([t._node])
    return [names.get(id(node)) for node in nodes if node._is_leaf]


# ---------------------------------------------------------------------- a leaf, still empty


def leaf_without(t: Any, name: str, facts: Facts) -> str:
    """For leaves that require grad and have none: cut, unused, not yet, or set to None since."""
    node = t._node
    if only_follows(t):
        facts["cause"] = "view under no_grad"
        made = evidence.place(t._view_of._code, t._view_of._lasti)
        facts["made"] = made
        text = f"{name} is a view that was made under no_grad: it only says that its base requires"
        return at_line(f"{text} grad, and no gradient gets to it; it was made", made)
    users = above(t)
    facts["used"] = node is not None
    roots = [held for _, held in words.tensors_held() if not alive.without_history(held)]
    others = [held for _, held in words.tensors_held() if held._cut is not None and held is not t]
    cut, certain = None, False
    if node is not None:
        graph = evidence.reached_from([r._node for r in roots])
        cut, certain = evidence.cut_towards(node, graph, (*roots, *others))
    passes = [n._freed_by for n in users if n._freed_by is not None]
    stepped = was_stepped(t)
    if passes or stepped:
        return was_cleared(name, passes, stepped, facts)
    if cut is not None and certain:
        where = evidence.of_cut(cut)
        facts.update(cause="cut", cut_by=history.cutter(cut), cut=where)
        return (
            f"{name} was used, but what was computed from it is cut off by {history.cut_by(cut)}"
            + at_line("", where)
            + f" No gradient passes that line. {sentence(history.instead_of(cut))}"
        )
    ran = other_pass(roots)
    cleared = evidence.only_line(r"\.zero_grad\(|\.grad\s*=\s*None")
    if users and cleared is not None and not any(node._frees for node in users):
        # Sums and means keep nothing that a pass would free: it leaves no trace in them.
        facts.update(cause="set to None", zero_grad=cleared)
        text = f"{with_grad(name)} was most likely filled, and set to None since then"
        return at_line(text, cleared) + " If no backward() has run, call it on the loss."
    if users:
        facts["cause"] = "no backward yet"
        text = f"{name} is part of a graph, but no backward() has been through it"
        ends = [n for n, held in words.tensors_held() if held._node in users and held._node]
        facts["part_of"] = ends
        if ends:
            text += f": it leads to {listed(ends[:4])}"
        if ran is not None:
            facts.update(cause="not in the loss", backward=ran[1])
            loss = f"`{ran[0]}`" if ran[0] else "another tensor"
            text += f". backward() was called on {loss}, which was not computed from it"
            return text + at_line("", ran[1])
        return text + ". Call backward() on the loss."
    if node is None:
        facts["cause"] = "never used"
        text = f"{name} has never been used in a recorded computation"
        if not MODES.grad:
            facts["no_grad_now"] = True
            text += " (and this line runs under torch.no_grad(), where nothing is recorded)"
        text += ": no loss depends on it."
        if is_parameter(t):
            text += " Is the layer that holds it called in forward()?"
        return text
    taken = evidence.only_line(history.TAKEN_OUT.pattern)
    if taken is not None:
        facts.update(cause="taken out as a number", cut=taken)
        return (
            f"{name} was used, but its graph is gone, most likely"
            + at_line(" because the result was taken out as a number", taken)
            + " A tensor made from a number has no history, requires_grad=True or not: call "
            "backward() on the tensor itself."
        )
    facts["cause"] = "graph is gone"
    facts["zero_grad"] = cleared
    text = f"{name} was used, but its graph is gone: either no backward() ran before that, or .grad"
    return text + at_line(" was set to None afterwards" + ", perhaps" * bool(cleared), cleared)


def was_cleared(name: str, passes: list[Any], stepped: bool, facts: Facts) -> str:
    """A backward pass went through, but there is no gradient: set to None, or only returned."""
    ran = None
    if passes:
        code, lasti, _, _ = max(passes, key=lambda found: found[3])
        ran = evidence.place(code, lasti)
    facts["backward"] = ran
    if ran is not None and re.search(r"\bgrad\(", ran["text"]) and "backward(" not in ran["text"]:
        facts["cause"] = "autograd.grad"
        return (
            f"{name} was differentiated by autograd.grad, which returns the gradients and fills no "
            ".grad" + at_line("", ran)
        )
    facts["cause"] = "set to None"
    cleared = evidence.only_line(r"\.zero_grad\(|\.grad\s*=\s*None")
    facts["zero_grad"] = cleared
    had = " and optimizer.step() has used it" if stepped else ""
    return (
        at_line(f"{with_grad(name)} was filled{had}: a backward() has been through it", ran)
        + at_line(" Since then it was set to None, as zero_grad() does,", cleared)
        + " Look at it between backward() and zero_grad()."
    ).replace("does,.", "does.")


def above(t: Any) -> list[Any]:
    """The live nodes of the process whose gradients flow to this tensor."""
    if t._node is None:
        return []
    users: dict[Any, list[Any]] = {}
    for node in alive.nodes():
        for edge in node._edges:
            if edge is not None:
                users.setdefault(edge, []).append(node)
    found: dict[Any, None] = {}
    stack = [t._node]
    while stack:
        for user in users.get(stack.pop(), ()):
            if user not in found:
                found[user] = None
                stack.append(user)
    return list(found)


def other_pass(roots: list[Any]) -> tuple[str | None, evidence.Place | None] | None:
    """The last backward pass known to the user's tensors: from which it started, and its line."""
    passes = [
        node._freed_by
        for node in evidence.reached_from([t._node for t in roots])
        if node._freed_by is not None
    ]
    if not passes:
        return None
    code, lasti, start, _ = max(passes, key=lambda found: found[3])
    root = next((t for t in roots if t._node._seq == start), None)
    return None if root is None else words.name_of(root), evidence.place(code, lasti)


def was_stepped(t: Any) -> bool:
    """Whether an optimizer has written a parameter, for which it needs a gradient."""
    writes = [] if t._cell is None else [evidence.Write(entry) for entry in t._cell.writers]
    return any(w.where is not None and ".step(" in w.where["text"] for w in writes)


# ---------------------------------------------------------------------- words


def at_line(start: str, where: evidence.Place | None) -> str:
    """`start at train.py:12 (the line).`, and only `start.` where no line is known."""
    if where is None:
        return f"{start}."
    text = f" (`{words.clipped(where['text'], 60)}`)" if where["text"] else ""
    return f"{start} at {evidence.short_spot(where['file'], where['line'])}{text}."


def sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def bare(name: str) -> str:
    return name.strip("`") if name.startswith("`") else "t"


def with_grad(name: str) -> str:
    return f"`{bare(name)}.grad`" if name.startswith("`") else "The .grad of this tensor"


def listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names[:6]) + (" ..." if len(names) > 6 else "")


def is_parameter(t: Any) -> bool:
    nn = sys.modules.get("tapegrad.nn.parameter")
    return nn is not None and isinstance(t, nn.Parameter)
