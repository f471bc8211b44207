"""E15: what is not there: an op for a dtype, a derivative, a rule for tangents, a name."""

from __future__ import annotations

import dis
import importlib.resources
import re
import sys
from typing import Any

from ..core.base import user_frame
from ..core.op import REGISTRY
from . import slips
from .calls import Advice, Call, Rule
from .evidence import here, node_name, of_node, public_name
from .report import attach

Match = re.Match[str]

# The dtype in which an op works that refuses another one.
INSTEAD_OF = {
    "Half": "float",
    "BFloat16": "float",
    "Bool": "long",
    "Byte": "float",
    "Char": "float",
    "Short": "float",
    "Int": "float",
    "Long": "float",
    "ComplexHalf": "to(torch.complex64)",
}


def nearest_to(name: str) -> str | None:
    """An op to use in place of one without a gradient, as its block suggests it."""
    for op in REGISTRY.values():
        if op.nearest:
            short = op.name.removeprefix("special_")
            if name in (op.name, op.aten_name(), public_name(op.name), short):
                return op.nearest
    return None


def wrong_dtype(call: Call, match: Match) -> Advice | None:
    """ "softmax_lastdim_kernel_impl" not implemented for 'Long'"""
    kind = match["kind"]
    method = INSTEAD_OF.get(kind, "float")
    method = method if "(" in method else f"{method}()"
    names = [n for n, t in call.tensors() if t.dtype.scalar_type == kind]
    if "dtype" in call.values and not names:  # a function that makes its result of this dtype
        return Advice(
            f"{call.name} draws or computes floats; PyTorch's has no other kind either",
            [
                "whole numbers at random: torch.randint(low, high, size)",
                f"leave out dtype=, and convert the result: {call.name}(...).to(...)",
            ],
            [],
            {"op": call.name, "dtype": kind, "nearest": "torch.randint"},
        )
    name = call.spell(names[0]) if names else "x"
    works = f"{call.name}({name}.{method})"
    dtype = call.get(names[0]).dtype if names else kind
    ending = "" if kind not in ("Half", "BFloat16") else f", and .{kind.lower()}() for the result"
    return Advice(
        f"{call.name} does not work on {dtype}; PyTorch's does not either",
        [f"convert first: {works}{ending}"],
        [],
        {"op": call.name, "dtype": kind, "nearest": works},
        names[0] if names else None,
    )


def no_tangent(call: Call, match: Match) -> Advice | None:
    """Trying to use forward AD with geqrf that does not support it …"""
    op = public_name(match["op"].lstrip("_"))
    nearest = nearest_to(op)
    return Advice(
        f"{op} has no rule for tangents, which jvp, jacfwd and forward_ad carry along",
        [
            "reverse mode: torch.autograd.grad, or torch.func.vjp and jacrev",
            *([f"the nearest with a derivative: {nearest}"] if nearest else []),
        ],
        [],
        {"op": op, "nearest": nearest},
        next((name for name, _ in call.tensors()), None),
    )


def refused(call: Call, match: Match) -> Advice | None:
    """the derivative for 'inplace version of embedding_renorm' is not implemented."""
    op = public_name(match["op"])
    return Advice(
        f"{op} has no derivative, and its input requires grad",
        instead(op),
        [],
        {"op": op, "nearest": nearest_to(op)},
        next((name for name, t in call.tensors() if t.requires_grad), None),
    )


def instead(op: str) -> list[str]:
    """Advice for an op without derivative."""
    nearest = nearest_to(op)
    return [
        *([f"the nearest with a derivative: {nearest}"] if nearest else []),
        f"if no gradient has to pass: {op}(x.detach())",
        "write the derivative: a torch.autograd.Function with a backward of its own",
    ]


# ---------------------------------------------------------------------- derivatives

NO_DERIVATIVE = (
    r"^(?:the )?derivative for '?(?:aten::|inplace version of )?(?P<op>[\w.]+?)(?:_\b)?"
    r"(?:: (?P<argument>\w+))?'? is not implemented"
)


def explain_backward(error: Exception, node: Any) -> None:
    """An op that has no derivative was met in a backward pass: its line, and what comes near."""
    if hasattr(error, "diagnosis"):
        return
    if str(error).startswith("You must implement either the backward or vjp method"):
        slips.explain_missing_backward(error, node)
    match = re.match(NO_DERIVATIVE, str(error))
    if match is None:
        return
    op, argument = public_name(match["op"]), match["argument"]
    what = f"{op} has no derivative"
    if argument:
        what += f" for its argument `{argument}`"
    attach(
        error,
        "E15",
        what=what,
        causes=[("used", f"{op} at", of_node(node)), ("noticed", "at", here())],
        fixes=instead(op),
        op=op,
        argument=argument,
        node=node_name(node),
        nearest=nearest_to(op),
        used=of_node(node),
    )


def no_such_argument(call: Call, match: Match) -> Advice | None:
    """sum() got an unexpected keyword argument 'dims'"""
    import difflib

    known = [p for p in call.parameters if p not in ("args", "kwargs", "run", "self")]
    given = match["argument"] or next((k for k in call.keywords if k not in known), None)
    if given is None or not known:
        return None
    near = INSTEAD_OF_ARGUMENT.get(given, "")
    if near not in known:
        near = next(iter(difflib.get_close_matches(given, known, 1, NEAR_ARGUMENT)), "")
    if not near:
        return None
    what = f"{call.name}() has no argument called `{given}`"
    return Advice(what, [f"did you mean {near}=?"], [], {"argument": given, "nearest": near})


NEAR_ARGUMENT = 0.6
# What other libraries call an argument.
INSTEAD_OF_ARGUMENT = {"axes": "dims", "keepdims": "keepdim", "type": "dtype", "p": "prob"}

RULES: dict[str, Rule] = {
    r"^\w+\(\) got an unexpected keyword argument '(?P<argument>\w+)'": no_such_argument,
    r"^\w+\(\) received an invalid combination of arguments(?P<argument>)": no_such_argument,
    r"^\"\w+\" not implemented for '(?P<kind>\w+)'": wrong_dtype,
    r"Low precision dtypes not supported. Got (?P<kind>\w+)": wrong_dtype,
    r"^Unsupported dtype (?P<kind>\w+)": wrong_dtype,
    r"Expected a floating point or complex tensor as input. Got (?P<kind>\w+)": wrong_dtype,
    r"^Trying to use forward AD with (?P<op>\w+) that does not support it": no_tangent,
    NO_DERIVATIVE: refused,
}


# ---------------------------------------------------------------------- names


def no_such_name(space: str, name: str, known: Any) -> AttributeError:
    """`torch.foo`: PyTorch's sentence, and the names that come near.

    Whoever only asks whether a name exists (hasattr, getattr with a default, inspect) gets the
    sentence alone: looking for similar names takes some milliseconds.
    """
    error = AttributeError(f"module '{space}' has no attribute '{name}'")
    frame = user_frame(2)
    if name.startswith("_") or frame is None or not reads_attribute(frame):
        return error
    import difflib

    why = why_absent(space, name)
    names = [] if why else [n for n in known() if not n.startswith("_")]
    lower = {n.lower(): n for n in names}
    spelt = [lower[name.lower()]] if name.lower() in lower else []
    near = spelt or [lower[n] for n in difflib.get_close_matches(name.lower(), lower, 3, 0.75)]
    fixes = [f"did you mean {' or '.join(f'{space}.{n}' for n in near)}?"] if near else []
    elsewhere = same_name(space, name)
    other = [f"{path} has this name" for path in elsewhere]
    fixes = [*fixes, *other] if spelt else [*other, *fixes]
    what = f"PyTorch has it, tapegrad has not ({why})" if why else "there is no such name"
    if why in INSTEAD:
        fixes.append(INSTEAD[why])
    if not fixes:
        fixes = ["python -m tapegrad check script.py lists every name that a script needs"]
    attach(
        error,
        "E15",
        what=what,
        causes=[("noticed", "at", here())],
        fixes=fixes[:3],
        name=name,
        space=space,
        nearest=[*elsewhere, *[f"{space}.{n}" for n in near]],
    )
    return error


# By the reasons of absent_names.txt.
INSTEAD = {
    "compilers": "torch.compile(f) records and replays a function, or torch.onnx.export",
    "complex32, which NumPy does not have": "torch.complex64",
    "nested tensors": "one padded tensor with a mask, or torch.nn.utils.rnn.pack_padded_sequence",
    "masked tensors": "torch.where(mask, x, 0), or the functions of torch.masked",
    "sparse tensors in blocks": "torch.sparse_csr_tensor",
    "data pipes": "a Dataset or IterableDataset with a DataLoader",
}


def why_absent(space: str, name: str) -> str:
    """Why a name of PyTorch's is not here; "" if it is no name of PyTorch's, as far as is known."""
    return reasons().get(f"{space}.{name}".removeprefix("torch."), "")


def reasons() -> dict[str, str]:
    """The names of PyTorch's that are not here, such as `Tensor.ipu`, each with the reason."""
    lines = importlib.resources.files(__package__).joinpath("absent_names.txt").read_text("utf-8")
    found = {}
    for line in lines.splitlines():
        why, _, listed = line.partition(": ")
        found.update(dict.fromkeys(listed.split(), why))
    return found


def not_here(name: str, instead: str) -> NotImplementedError:
    """A name that programs ask for, whose use means nothing here: what to do instead."""
    error = NotImplementedError(f"{name} is not available in tapegrad")
    attach(
        error,
        "E15",
        what=f"{name} can be imported, so that libraries load, but not used",
        causes=[("noticed", "at", here())],
        fixes=[instead],
        name=name,
    )
    return error


SPACES = ("torch", "torch.nn", "torch.nn.functional", "torch.linalg", "torch.optim", "torch.Tensor")


def same_name(space: str, name: str) -> list[str]:
    """Where else a name is public: `torch.cross_entropy` is torch.nn.functional's."""
    import importlib

    found = []
    for other in SPACES:
        if other == space:
            continue
        where = other.replace("torch", str(__package__).partition(".")[0], 1)
        if other == "torch.Tensor":
            holder = sys.modules[where.rpartition(".")[0]].Tensor
        else:
            holder = importlib.import_module(where)
        if name in dir(holder):
            found.append(f"{other}.{name}")
    return found[:1]


def reads_attribute(frame: Any) -> bool:
    """Whether a frame is at a plain `a.b`, not in a call of getattr or hasattr."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]] in ("LOAD_ATTR", "LOAD_METHOD")
