"""E08: NaN or infinity in backward, traced to the op that made the first one.

There are three cases. The gradient that arrives at a node is broken already: then it was broken
earlier in the pass, which anomaly mode has noted. Or a value that the node kept from the forward
pass is: then the op that made it is looked for among what was computed before. Or both are fine:
then the node itself did it, at these values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes
from ..autograd.anomaly_mode import WATCH, array_of
from ..core.array_kind import host
from ..core.base import STATE, Node, TensorBase, user_frame
from ..core.is_array import is_array
from ..core.modes import MODES
from .evidence import (
    Place,
    Write,
    describe,
    here,
    name_of,
    node_name,
    place,
    public_name,
    reached_from,
    spell_module,
    tensors_held,
)
from .functions import backward_result
from .nonfinite_patterns import Case, recognise
from .report import build

Finding = dict[str, Any]


def returned(node: Node, kind: str, index: int, first: Finding) -> Exception:
    """E08 itself; `first` is what `cause` found."""
    made, own = place(*first["at"]), place(node._code, node._lasti)
    module = None if first["module"] is None else first["module"]()
    details = [("inputs", first["ranges"])] if first["ranges"] else []
    if module is not None:
        details.insert(0, ("module", spell_module(module)))
    causes: list[tuple[str, str, Place | None]] = []
    if first["written"] is not None:
        causes.append(("written", f"last by {first['written'].name} at", first["written"].where))
    causes.append(("made", f"the first {first['kind']}, {first['by']}, at", made))
    causes.append(("failed", f"{node_name(node)}, of", None if own == made else own))
    causes.append(("noticed", "at", here()))
    return build(
        RuntimeError,
        f"Function '{node_name(node)}' returned {kind} values in its {index}th output.",
        "E08",
        what=first["what"],
        details=details,
        causes=causes,
        tensor=first["tensor"] or "",
        fixes=first["fixes"],
        node=node_name(node),
        kind=kind,
        op=first["op"],
        direction=first["direction"],
        pattern=first["pattern"],
        inputs=first["inputs"],
        made=made,
        module=None if module is None else spell_module(module),
    )


def finding(what: str, fixes: list[str], **more: Any) -> Finding:
    empty: Finding = {
        "op": None,
        "op_record": 0,
        "seq": 0,
        "kind": "nan",
        "direction": "forward",
        "by": "",
        "pattern": "",
        "at": (None, -1),
        "module": None,  # a weak reference
        "written": None,
        "tensor": None,
        "inputs": [],
        "ranges": "",
    }
    return {**empty, "what": what, "fixes": fixes, **more}


# ---------------------------------------------------------------------- the forward pass


def birth_of(op: Any, tensors: Any, attrs: Any, outs: Any) -> Finding | None:
    """The finding that an op made a NaN or infinity from inputs without one; else None."""
    kind = "nan" if any(has_nan(out) for out in outs) else "inf"
    arrays = [array_of(t) for t in tensors]
    for x in (*arrays, *attrs):
        if is_worse_than_finite(x) and (kind == "inf" or has_nan(x)):
            return None
    width = len(op.tensors)
    names = op.tensors if not op.variadic else [f"{op.tensors[0]}[{i}]" for i in range(len(arrays))]
    values = dict(zip(names, arrays, strict=False))
    values.update(zip(op.attrs, attrs, strict=False))
    values["out"] = outs[0]
    makers = {
        name: t._node
        for name, t in zip(names, tensors, strict=False)
        if isinstance(t, TensorBase) and t._wants_grad
    }
    frame = user_frame(1)
    case = case_of(op, kind, False, values, makers)
    found = from_case(case, names[: max(width, len(arrays))])
    found["at"] = (None, -1) if frame is None else (frame.f_code, frame.f_lasti)
    found["module"] = STATE.module
    found["op_record"] = id(op)
    return found


def case_of(op: Any, kind: str, backward: bool, values: Any, makers: Any) -> Case:
    names = {}
    for argument in op.tensors:
        x = values.get(argument)
        name = name_of(x) if is_array(x) else None
        if name is None:
            name = name_of_maker(makers.get(argument))
        if name is not None and not name.startswith("a view of"):
            names[argument] = name
    here = {name: host(x) for name, x in values.items()}
    return Case(public_name(op.name), op.nonfinite, kind, backward, here, makers, names)


def name_of_maker(node: Any) -> str | None:
    if node is None:
        return None
    if node._is_leaf:
        return name_of(node.tensor()._array)
    return next((name for name, t in tensors_held() if t._node is node), None)


def from_case(case: Case, arguments: Any) -> Finding:
    """The finding about an op, from the values it worked on."""
    pattern, what, fixes = recognise(case)
    way = "backward" if case.backward else "forward"
    inputs = []
    for name in [*arguments, *(["out"] if case.backward else [])]:
        x = case.values.get(name)
        if is_array(x) and x.dtype.kind in "fciuV" and x.size:
            inputs.append({"argument": name, **summary(x)})
        elif isinstance(x, (int, float)) and not isinstance(x, bool):
            inputs.append({"argument": name, "value": x if np.isfinite(x) else str(x)})
    tensor = None
    for name in arguments:
        x = case.values.get(name)
        if is_array(x):
            tensor = describe(x, case.names.get(name))
            break
    return finding(
        what,
        fixes,
        op=case.op,
        kind=case.kind,
        direction=way,
        by=f"made by {case.op} in the {way} pass",
        pattern=pattern,
        tensor=tensor,
        inputs=inputs,
        ranges=", ".join(spell_range(facts) for facts in inputs),
    )


# ---------------------------------------------------------------------- the backward pass


def cause(node: Any, total: Any, grads: Any) -> Finding:
    """Why a node returned something that is not finite; the first time in a pass."""
    kind = "nan" if any(has_nan(g) for g in grads) else "inf"
    parts = total if type(total) is list else [total]
    if any(is_worse_than_finite(g) for g in parts):
        return finding(
            f"the gradient that arrived at {node_name(node)} was not finite already",
            [
                "look at the gradient that was passed to backward(), and at what hooks return",
                "watch for infinities too: detect_anomaly(check_inf=True)",
            ],
            kind=kind,
            direction="backward",
        )
    values = kept_values(node)
    if any(is_worse_than_finite(x) for x in values.values()):
        return from_forward(node)
    if node._op is None:
        return from_function(node, kind)
    makers = {n: e for n, e in zip(node._op.tensors, node._edges, strict=False) if e is not None}
    found = from_case(case_of(node._op, kind, True, values, makers), node._op.tensors)
    found["at"] = node._code, node._lasti
    found["module"] = node._module
    if found["tensor"] is None:
        found["tensor"] = kept_result(node, values)
    birth = None if node._trace is None else node._trace.birth
    if birth is not None:  # the forward pass was the first to suffer
        for key in ("kind", "direction", "by", "inputs", "ranges", "tensor"):
            found[key] = birth[key]
    hide = hidden_by(node, parts, grads)
    if hide:
        behind_a_choice(found, hide)
    return found


def kept_values(node: Any) -> dict[str, Any]:
    """The values that a node kept of the forward pass, by the op's names."""
    op, kept = node._op, node._kept
    if op is None or kept is None:
        return {}
    names = (*op.tensors[: op.width], *op.outs, *op.attrs)
    pairs = zip(names, kept, strict=False)
    known = {n: array_of(x) for n, x in pairs if x is not None}
    if op.outs and op.outs[0] in known:
        known["out"] = known[op.outs[0]]
    return known


def kept_result(node: Any, values: dict[str, Any]) -> Any:
    out = values.get("out")
    return None if out is None else {"as": "its result", **describe(out, name_of(out))}


def from_function(node: Any, kind: str) -> Finding:
    """A custom Function, or a write to a view, that made it from a finite gradient."""
    cls = getattr(node, "_forward_cls", None)
    if cls is None:
        return finding(
            f"{node_name(node)} made {kind} of a finite gradient",
            ["look at the op that wrote to the view"],
            kind=kind,
            op=node_name(node),
            direction="backward",
            by="made in the backward pass",
            at=(node._code, node._lasti),
        )
    where = backward_result(cls)
    return finding(
        f"the backward of {cls.__name__} made {kind} of a finite gradient",
        [f"look at how {cls.__name__}.backward computes: {where['text'] if where else ''}".strip()],
        kind=kind,
        op=cls.__name__,
        direction="backward",
        pattern="custom Function",
        by=f"made by {cls.__name__}.backward",
        at=(node._code, node._lasti),
    )


def hidden_by(node: Any, parts: list[Any], grads: Any) -> str:
    """The op that threw the bad elements away: what arrives for them is exactly 0."""
    (total,) = parts if len(parts) == 1 else (None,)
    total = host(array_of(total))
    for g in grads:
        g = host(array_of(g))
        if g is not None and total is not None and g.shape == total.shape:
            bad = ~np.isfinite(g)
            if bad.any() and not np.any(total[bad]):
                return nearest_chooser(node)
    return ""


def nearest_chooser(node: Any) -> str:
    """The nearest user of a node, in the pass that runs, that can multiply by 0 or leave out."""
    users: dict[Any, list[Any]] = {}
    for user in MODES.run.pending:
        for edge in user._edges:
            if edge is not None:
                users.setdefault(edge, []).append(user)
    level = [node]
    for _ in range(6):
        level = [user for n in level for user in users.get(n, ())]
        for user in level:
            op = user._op
            if op is not None and (op.leaves_out or op.nonfinite == "product"):
                return public_name(op.name)
    return ""


def behind_a_choice(found: Finding, by: str) -> None:
    """Say what `where` does not do: the branch not taken is differentiated all the same."""
    name = (found["tensor"] or {}).get("name") or "x"
    pattern = found["pattern"] or found["op"]
    if by == "mul":
        found["what"] += "; its gradient is multiplied by 0, and 0 * inf is NaN"
        return
    found["pattern"] = f"{by} + {pattern}"
    found["what"] = (
        f"{pattern} in elements that {by} does not choose: they are differentiated all the same, "
        "and 0 * inf is NaN"
    )
    op = found["op"]
    safe = f"safe = torch.where(mask, {name}, 1.0); torch.where(mask, torch.{op}(safe), 0.0)"
    found["fixes"] = [f"choose before computing: {safe}", *found["fixes"][:1]]


# ---------------------------------------------------------------------- what came before


def from_forward(node: Any) -> Finding:
    """The first op before a node, or the node's own, that made a non-finite value."""
    earlier = sorted(reached_from([node]), key=lambda n: n._seq)
    births = []
    for n in earlier:
        if n._trace is not None and n._trace.birth is not None:
            births.append(n._trace.birth)
    broken = [x for x in kept_values(node).values() if is_worse_than_finite(x)]
    if any(has_nan(x) for x in broken):
        births = first_nan(births)
    found: Finding | None = births[0] if births else None
    return found or from_kept(earlier) or data_finding(node, broken[0], "a value that it kept")


def first_nan(births: list[Finding]) -> list[Finding]:
    """From the first NaN on; or from the infinity that it was made of, where that made it."""
    for i, birth in enumerate(births):
        if birth["kind"] == "nan":
            made_of_inf = birth["pattern"] in ("0 * inf", "inf - inf")
            return births[:1] if made_of_inf and i else births[i:]
    return births


def from_kept(earlier: list[Any]) -> Finding | None:
    """Find the first NaN in the forward pass from the values that nodes kept, if anomaly mode was
    off there.
    """
    for n in earlier:
        if n._is_leaf and is_worse_than_finite(n.tensor()):
            return data_finding(n, n.tensor()._array, "input")
        values = kept_values(n) if n._op is not None and not n._is_leaf else {}
        for i, name in enumerate(n._op.tensors[: n._op.width] if values else ()):
            x = values.get(name)
            if is_worse_than_finite(x):
                edge = n._edges[i]
                if edge is None or edge._is_leaf:
                    return data_finding(n, x, name)
                return made_by_node(edge, x)
        if is_worse_than_finite(values.get("out")):
            makers = {k: e for k, e in zip(n._op.tensors, n._edges, strict=False) if e is not None}
            kind = "nan" if has_nan(values["out"]) else "inf"
            found = from_case(case_of(n._op, kind, False, values, makers), n._op.tensors)
            found["tensor"] = found["tensor"] or kept_result(n, values)
            found["at"], found["module"] = (n._code, n._lasti), n._module
            return found
    return None


def made_by_node(node: Any, result: Any) -> Finding:
    """A node whose inputs are not known, by what it made."""
    values = {**kept_values(node), "out": result}
    kind = "nan" if has_nan(result) else "inf"
    if node._op is None:
        found = finding(f"{node_name(node)} made {kind}", ["look at what it was computed from"])
        found.update(kind=kind, op=node_name(node), by="made in the forward pass")
    else:
        makers = {
            k: e for k, e in zip(node._op.tensors, node._edges, strict=False) if e is not None
        }
        found = from_case(case_of(node._op, kind, False, values, makers), node._op.tensors)
    found["tensor"] = found["tensor"] or {"as": "its result", **describe(result, name_of(result))}
    found["at"], found["module"] = (node._code, node._lasti), node._module
    return found


def data_finding(node: Any, x: Any, argument: str) -> Finding:
    """Nothing recorded made it: data that was read, or a parameter that an update has broken."""
    for reference, birth in WATCH.births:
        if reference() is x:
            return birth  # type: ignore[no-any-return]
    kind = "nan" if has_nan(x) else "inf"
    name = name_of(x)
    facts = summary(x)
    writers = writes_to(node, x)
    spelled = f"`{name}`" if name else f"its input `{argument}`"
    if writers:
        what = f"{spelled} holds {kind} since it was last written"
        fixes = ["a smaller learning rate, or clip_grad_norm_ before the step"]
        if not writers[-1].where or ".step(" not in writers[-1].where["text"]:
            fixes = ["check what is written there"]
    else:
        what = f"{spelled} held {kind} before anything was computed from it"
        fixes = [f"check the data: torch.isfinite({name or argument}).all()"]
    return finding(
        what,
        fixes,
        kind=kind,
        direction="data",
        pattern="not finite to begin with",
        tensor=describe(x, name),
        inputs=[{"argument": argument, **facts}],
        ranges=spell_range({"argument": argument, **facts}),
        written=writers[-1] if writers else None,
    )


def writes_to(node: Any, x: Any) -> list[Write]:
    """Writes to the memory of a kept value, as far as they are known."""
    if node._is_leaf:
        return [Write(w) for w in node.tensor()._version_cell().writers]
    cells = node._cells
    for k in range(0, len(cells), 3):
        if type(cells[k]) is int and node._kept[cells[k]] is x:
            return [Write(w) for w in cells[k + 1].writers]
    return []


# ---------------------------------------------------------------------- values


def as_values(x: Any) -> Any:
    x = array_of(x)
    if isinstance(x, float):
        return np.asarray(x)
    return x if hasattr(x, "dtype") and x.dtype.kind in "fcV" else None


def has_nan(x: Any) -> bool:
    values = as_values(x)
    return values is not None and bool(np.isnan(values).any())


def is_worse_than_finite(x: Any) -> bool:
    values = as_values(x)
    return values is not None and not bool(np.isfinite(values).all())


def summary(x: Any) -> dict[str, Any]:
    """Range and counts of an array, as data."""
    facts: dict[str, Any] = {"shape": list(x.shape), "dtype": str(dtypes.of(x.dtype))}
    if x.dtype.kind == "c":
        return facts
    values = np.asarray(host(x), np.float64)
    finite = values[np.isfinite(values)]
    facts["range"] = [float(finite.min()), float(finite.max())] if finite.size else None
    facts["nan"] = int(np.isnan(values).sum())
    facts["inf"] = int(np.isinf(values).sum())
    facts["zero"] = int((values == 0).sum())
    facts["size"] = int(values.size)
    return facts


def spell_range(facts: dict[str, Any]) -> str:
    name = facts["argument"]
    if "value" in facts:
        return f"{name} = {facts['value']}"
    if "size" not in facts:
        return f"{name} {tuple(facts['shape'])}"
    span = facts["range"]
    of = f"of {facts['size']}"
    counts = [f"{facts[k]} {of} {k}" for k in ("nan", "inf") if facts[k]]
    if facts["zero"] and span != [0.0, 0.0]:
        counts.append(f"{facts['zero']} {of} exactly 0")
    if span is None:
        words = name
    elif span[0] == span[1]:
        words = f"{name} = {span[0]:.4g}"
    else:
        words = f"{name} from {span[0]:.4g} to {span[1]:.4g}"
    return f"{words} ({', '.join(counts)})" if counts else words
