"""`program(f)(x)`: what a function computes and how its gradients come back, as a short program.

>>> import tapegrad as torch
>>> w = torch.tensor([1.0, 2.0], requires_grad=True)
>>> def f(x):
...     h = torch.tanh(x * w)
...     return h.sum()
>>> found = torch.diagnose.program(f)(torch.tensor([3.0, 4.0]))
>>> print("\\n".join(found.backward))
g_t2 = 1
g_h = expand(g_t2, (2,))
g_t1 = g_h * (1 - h ** 2)
w.grad = g_t1 * x

The function runs once, with the arguments that it is given, and is watched; no backward pass runs
and no `.grad` changes. Each line is one op; a gradient is the rule of its op with the names put in.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

from ..autograd.view_history import CopySlices
from ..core.base import TensorBase, next_seq
from ..core.op import REGISTRY
from ..errors import evidence
from ..ops.products.addmm import Addmm
from ..ops.shape.dim_order import T
from ..utils import _pytree as pytree
from ..utils._python_dispatch import TorchDispatchMode
from . import formulas, words
from ._graph.data import attributes

QUIET = {"dtype", "device", "layout", "pin_memory", "memory_format", "generator"}
LONG = 56  # characters of arguments
MOST = 400  # ops; a longer program is cut off in the middle
COMMENT = 52  # the column of comments, at the most


class Value:
    """A tensor of the program."""

    def __init__(self, name: str, t: Any) -> None:
        self.name = name
        self.array = t._array  # held, so that its id stays its own
        self.shape = tuple(t.shape)
        self.nodes: list[Any] = []  # a write in place gives it a new one


class Step:
    """One op that ran."""

    def __init__(self, name: str, args: Any, kwargs: Any, where: evidence.Place | None) -> None:
        self.name = name
        self.args, self.kwargs = args, kwargs  # Values in the place of tensors
        self.where = where
        self.outs: list[Value] = []
        self.places: list[int] = []  # of the node that this op gives each of them, among its nodes
        self.writes = name.endswith("_") and not name.endswith("__")

    def tensors(self) -> list[Value]:
        found = pytree.tree_flatten((self.args, self.kwargs))[0]
        return [v for v in found if isinstance(v, Value)]


class Recorder(TorchDispatchMode):
    """Notes each op with the values that it takes and gives, known by their arrays."""

    def __init__(self, names: dict[int, str]) -> None:
        super().__init__()
        self.names = names  # of tensors that were there before, by the id of their array
        # By array and whether it has a history: detach() gives the same array without one.
        self.values: dict[tuple[int, bool], Value] = {}
        self.steps: list[Step] = []
        self.count = 0
        self.start = next_seq()
        self.caller = evidence.here()  # what runs in that line itself is the library's

    def value(self, t: Any, name: str | None = None) -> Value:
        key = id(t._array), t.requires_grad
        known = self.values.get(key)
        if known is None:
            if name is None:
                name = self.names.get(id(t._array)) or self.constant(t)
            known = self.values[key] = Value(name, t)
        if t._node is not None and t._node not in known.nodes:
            known.nodes.append(t._node)  # a result has one as soon as it is used
        return known

    def constant(self, t: Any) -> str:
        """Something that came from nowhere: a number, or a tensor that was made on the way."""
        if t._array.size == 1 and t._node is None:
            return words.digits(t.item())
        self.count += 1
        return f"c{self.count}"

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = str(func).removeprefix("aten.").removeprefix("tapegrad.").rpartition(".")[0]
        if name == "lift_fresh":
            self.rename(args[0], out)
            return out
        given = pytree.tree_map_only(TensorBase, self.value, (tuple(args), dict(kwargs or {})))
        where = evidence.here()
        step = Step(name, *given, None if where == self.caller else where)
        for t in pytree.tree_flatten(out)[0]:
            if isinstance(t, TensorBase):
                made = self.made(t, step)
                step.outs.append(made)
                step.places.append(len(made.nodes))
        self.steps.append(step)
        return out

    def made(self, t: Any, step: Step) -> Value:
        """A result: of a write the tensor that was written, of anything else a new one."""
        before = next((v for v in step.tensors() if v.array is t._array), None)
        if step.writes and before is not None:
            self.values[id(t._array), False] = self.values[id(t._array), True] = before
            return before
        if not t.requires_grad or before is None:
            for wants_grad in (False, True) if before is None else (False,):
                self.values.pop((id(t._array), wants_grad), None)
        made = self.value(t, "")
        if before is None:
            self.values[id(t._array), not t.requires_grad] = made  # its history is noted afterwards
        return made

    def rename(self, source: Any, t: Any) -> None:
        """Give the name of `source` to `t`, a tensor with the same numbers."""
        if id(source._array) in self.names:
            self.names[id(t._array)] = self.names[id(source._array)]


class Program:
    """The result of `program`: `forward` and `backward` are lists of lines, `result` is what f
    returned.
    """

    def __init__(self, head: str, result: Any, recorder: Recorder) -> None:
        self.result = result
        self.steps = recorder.steps
        name_results(self.steps)
        roots = [t for t in pytree.tree_flatten(result)[0] if isinstance(t, TensorBase)]
        self._roots = [recorder.value(t) for t in roots]
        self.forward: list[str] = [head, *self._forward()]
        self.backward: list[str] = Backward(recorder, self._roots).lines

    def _forward(self) -> list[str]:
        lines = []
        shown = self.steps
        if len(shown) > MOST:
            shown = [*shown[: MOST // 2], *shown[-MOST // 2 :]]
        last = None
        for i, step in enumerate(shown):
            if len(self.steps) > MOST and i == MOST // 2:
                lines.append(f"    # ... {len(self.steps) - MOST} more")
            where = None
            if step.where is not None:
                where = evidence.short_spot(step.where["file"], step.where["line"])
            shapes = ", ".join(spell_shape(v.shape) for v in step.outs)
            at = f"  {where}" if where is not None and where != last else ""
            last = where
            text = written(step)
            if not step.writes:
                text = f"{', '.join(v.name for v in step.outs) or '_'} = {text}"
            lines.append(commented(f"    {text}", f"{shapes}{at}"))
        returned = ", ".join(v.name for v in self._roots)
        return [*lines, f"    return {returned}".rstrip()]

    def data(self) -> dict[str, list[str]]:
        """The lines as plain values."""
        return {"forward": list(self.forward), "backward": list(self.backward)}

    def __repr__(self) -> str:
        lines = aligned(self.forward)
        if self.backward:
            title = "# backward: g_... is the gradient of the result with respect to ..."
            lines += ["", title, *aligned(self.backward)]
        else:
            lines += ["", "# no backward: nothing that the result was computed from requires grad"]
        return "\n".join(lines)


def program(f: Callable[..., Any]) -> Callable[..., Program]:
    """Call the result with f's arguments: forward and backward as a readable program."""
    if not callable(f):
        raise TypeError(
            f"program(): argument 'f' must be a function or a module, not {type(f).__name__}"
        )

    @functools.wraps(f, updated=())
    def run(*args: Any, **kwargs: Any) -> Program:
        names, head = names_around(f, args, kwargs)
        recorder = Recorder(names)
        with recorder:
            result = f(*args, **kwargs)
        return Program(head, result, recorder)

    return run


# ---------------------------------------------------------------------- names


def names_around(f: Any, args: Any, kwargs: Any) -> tuple[dict[int, str], str]:
    """Names of tensors that are there before the call, by the id of their array; and the head."""
    names: dict[int, str] = {}
    parts, told = [], []
    for name, value in given_arguments(f, args, kwargs):
        parts.append(name)
        flat = pytree.tree_flatten(value)[0]
        for i, t in enumerate(flat):
            if isinstance(t, TensorBase) and hasattr(t, "_array"):
                spelled = name if t is value else f"{name}[{i}]"
                names.setdefault(id(t._array), spelled)
                told.append(f"{spelled} {spell_shape(t.shape)}")
    if evidence.is_module(f):
        held = evidence.modules_held([*evidence.user_frames()])
        owner = next((name for name, module in held if module is f), "self")
        for path, p in (*f.named_parameters(), *f.named_buffers()):
            if hasattr(p, "_array"):
                names.setdefault(id(p._array), f"{owner}.{path}")
    inner = inspect.getclosurevars(f) if inspect.isfunction(f) else None
    for space in () if inner is None else (inner.nonlocals, inner.globals):
        for name, t in space.items():
            for spelled, each in ((name, t), *parts_of(name, t)):
                if isinstance(each, TensorBase) and hasattr(each, "_array"):
                    names.setdefault(id(each._array), spelled)
    for name, t in evidence.tensors_held():
        names.setdefault(id(t._array), name)
    kind = type(f).__name__ if evidence.is_module(f) else getattr(f, "__name__", "f")
    kind = "f" if kind == "<lambda>" else kind
    return names, commented(f"def {kind}({', '.join(parts)}):", "  ".join(told))


def parts_of(name: str, value: Any) -> list[tuple[str, Any]]:
    try:
        return list(evidence.parts(name, value))
    except Exception:  # an object with ideas of its own
        return []


def given_arguments(f: Any, args: Any, kwargs: Any) -> list[tuple[str, Any]]:
    try:
        called = f.forward if evidence.is_module(f) else f
        bound = inspect.signature(called).bind(*args, **kwargs)
    except (TypeError, ValueError):  # the call itself will say what is wrong with it
        return [*((f"x{i}", a) for i, a in enumerate(args)), *kwargs.items()]
    return list(bound.arguments.items())


def name_results(steps: list[Step]) -> None:
    """The last op of a line gets the name that the line assigns, others are t1, t2 …"""
    used = {v.name for step in steps for v in step.tensors() if v.name}
    fresh = 0
    for i, step in enumerate(steps):
        nameless = [v for v in step.outs if not v.name]
        if not nameless:
            continue
        after = steps[i + 1].where if i + 1 < len(steps) else None
        name = evidence.assigned_name(step.where) if step.where != after else None
        if name is None or len(nameless) > 1 or not name.isidentifier():
            name = None
        for v in nameless:
            if name is None:
                fresh += 1
                v.name = f"t{fresh}"
            else:
                v.name = name if name not in used else numbered(name, used)
            used.add(v.name)


def numbered(name: str, used: set[str]) -> str:
    return next(n for n in (f"{name}_{i}" for i in range(2, 1_000_000)) if n not in used)


# ---------------------------------------------------------------------- forward, as text


def written(step: Step) -> str:
    """A call as people write it."""
    name = step.name.lstrip("_").removeprefix("native_").removesuffix("_forward")
    name = name.removesuffix("_with_indices")
    args = [spell_argument(a) for a in trimmed(step.args)]
    shown = {k: v for k, v in step.kwargs.items() if k not in QUIET and v not in (None, False)}
    args += [f"{k}={spell_argument(v)}" for k, v in shown.items()]
    op = REGISTRY.get(step.name)
    if op is not None and op.sign and len(args) == len(op.tensors) and not shown:
        return f" {op.sign} ".join(args) if len(args) == 2 else f"{op.sign}{args[0]}"
    if op is Addmm and len(args) == 3 and not shown:
        return f"{args[0]} + {args[1]} @ {args[2]}"
    if op is T:
        return f"{args[0]}.T"
    if step.writes:
        return f"{args[0]}.{name}({', '.join(args[1:])})"
    if len(", ".join(args)) > LONG:  # strides, paddings and the like: what is computed with stays
        args = [*(v.name for v in step.tensors()), "..."]
    return f"{name}({', '.join(args)})"


def trimmed(args: Any) -> list[Any]:
    """Without the defaults at the end."""
    kept = list(args)
    while kept and (kept[-1] is None or kept[-1] is False):
        kept.pop()
    return kept


def spell_argument(value: Any) -> str:
    if isinstance(value, Value):
        return value.name
    if isinstance(value, (list, tuple)):
        inside = ", ".join(spell_argument(v) for v in value)
        return f"[{inside}]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def spell_shape(shape: Any) -> str:
    return str(tuple(int(n) for n in shape))


def commented(line: str, comment: str) -> str:
    return f"{line}\t# {comment}" if comment else line


def aligned(lines: list[str]) -> list[str]:
    """Comments in one column."""
    texts = [line.partition("\t") for line in lines]
    column = min(max([len(text) for text, tab, _ in texts if tab], default=0), COMMENT)
    return [f"{text:<{column}}  {comment}" if tab else text for text, tab, comment in texts]


# ---------------------------------------------------------------------- backward


class Backward:
    """The lines of the backward pass: a rule for each edge of the graph, from the last op on."""

    def __init__(self, recorder: Recorder, roots: list[Value]) -> None:
        self.lines: list[str] = []
        self.seen: set[str] = set()
        self.leaves = {id(v.array): v for v in recorder.values.values()}
        self.made: dict[Any, Step] = {}
        self.names: dict[Any, Value] = {}
        for step in recorder.steps:
            for v, place in zip(step.outs, step.places, strict=True):
                self.made.update((node, step) for node in v.nodes[place : place + 1])
                self.names.update((node, v) for node in v.nodes)
        for v in recorder.values.values():  # what was there before, which has a history too
            self.names.update((node, v) for node in v.nodes if node not in self.names)
        starts = [(v, v.nodes[-1]) for v in roots if v.nodes]
        for v, node in starts:
            start = "1" if v.shape == () else f"ones({spell_shape(v.shape)})"
            self.put(self.grad_name(node, 0), start)
        nodes = evidence.reached_from([node for _, node in starts])
        inside = [n for n in nodes if not n._is_leaf and n._seq > recorder.start]
        order = sorted(inside, key=lambda n: -n._seq)
        for node in order[:MOST]:
            self.step_back(node)
        if len(order) > MOST:
            self.lines.append(f"# ... {len(order) - MOST} more")

    def grad_name(self, node: Any, slot: int) -> str:
        if node._is_leaf:
            leaf = node.tensor()
            value = None if leaf is None else self.leaves.get(id(leaf._array))
            return f"{'leaf' if value is None else value.name}.grad"
        value = self.names.get(node)
        if value is None:
            return f"g{node._seq}"
        step = self.made.get(node)
        if step is not None and len(step.outs) > 1 and slot < len(step.outs):
            value = step.outs[slot]
        return f"g_{re.sub(r'[^0-9a-zA-Z_]+', '_', value.name).strip('_')}"

    def put(self, name: str, text: str) -> None:
        self.lines.append(f"{name} {'+=' if name in self.seen else '='} {text}")
        self.seen.add(name)

    def step_back(self, node: Any) -> None:
        grad = self.grad_name(node, 0)
        step = self.made.get(node)
        if step is not None and len(step.outs) > 1:  # those of its results that have one
            parts = [self.grad_name(node, i) for i in range(len(step.outs))]
            known = [part for part in parts if part in self.seen]
            grad = known[0] if len(known) == 1 else f"[{', '.join(known)}]"
        slots = node._edge_slots or (0,) * len(node._edges)
        for i, (edge, slot) in enumerate(zip(node._edges, slots, strict=True)):
            if edge is None:
                continue
            name = self.grad_name(edge, slot)
            if isinstance(node, CopySlices):
                part = "was not" if i == 0 else "was"
                text = f"the part of {grad} that {part} overwritten"
            else:
                text = self.summed(node, i, self.rule(node, i, grad))
            if name == grad:  # of the same tensor before it was written in place
                self.seen.discard(name)
            if name != text:
                self.put(name, text)

    def summed(self, node: Any, index: int, text: str) -> str:
        """With the sum that undoes broadcasting, where there was any."""
        fix = None if node._fixes is None else node._fixes[index]
        result = self.names.get(node)
        if fix is None or result is None or node._op is None or not node._op.broadcasts:
            return text
        if tuple(fix[0]) == result.shape or not (node._op.elementwise or index == 0):
            return text
        return f"sum_to({text}, {spell_shape(fix[0])})"

    def rule(self, node: Any, index: int, grad: str) -> str:
        op = node._op
        if op is None:
            return f"{evidence.short_name(node)}.backward({grad})"
        text = formulas.rule_text(op, index).partition(" = ")[2]
        if not text:
            return f"{op.name}_backward({grad})"
        return put_names(text, self.arguments(node, grad), self.shapes(node))

    def arguments(self, node: Any, grad: str) -> dict[str, str]:
        """The names of this program's variables for the parameters of a gradient rule."""
        op, step = node._op, self.made.get(node)
        found = {"grad": grad}
        for name, value in attributes(op, node._kept).items():
            found[name] = spell_argument(value)
        if step is not None:
            given: Any = step.tensors()
            if len(given) != len(op.tensors):
                given = step.args
            for name, value in zip(op.tensors, () if op.variadic else given, strict=False):
                found[name] = "" if value is None else spell_argument(value)
            for name, v in zip(op.outs, step.outs, strict=False):
                found[name] = v.name
        return found

    def shapes(self, node: Any) -> dict[str, str]:
        step = self.made.get(node)
        if step is None or node._op.variadic:
            return {}
        pairs = zip(node._op.tensors, step.tensors(), strict=False)
        found = {}
        for name, v in pairs:
            count = 1
            for n in v.shape:
                count *= n
            found[f"{name}.shape"] = spell_shape(v.shape)
            found[f"{name}_shape"] = spell_shape(v.shape)
            found[f"{name}.numel()"] = str(count)
        return found


def put_names(text: str, names: dict[str, str], shapes: dict[str, str]) -> str:
    """A rule in the names of a program, made as simple as its constants allow."""
    for written, shape in shapes.items():
        text = re.sub(rf"(?<![\w.]){re.escape(written)}(?!\w)", shape, text)
    number = re.search(r", n = (\d+)$", text)  # `… / n, n = 6`
    if number is not None:
        text = re.sub(r"\bn\b", number[1], text[: number.start()])
    for missing in [name for name, spelled in names.items() if not spelled]:
        text = re.sub(rf" \* {missing}\b", "", text)  # an optional tensor that was not given
        del names[missing]
    placed = re.compile(r"(?<![\w.])(" + "|".join(map(re.escape, names)) + r")\b(?!\()")
    text = placed.sub(lambda m: names[m[1]], text)
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:  # a rule that is told in words
        return text
    return ast.unparse(ast.fix_missing_locations(Simple().visit(tree)))


class Simple(ast.NodeTransformer):
    """Evaluates known parts of an expression: branches, and sums and products of numbers."""

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:  # noqa: N802
        self.generic_visit(node)
        known = constant_of(node.test)
        return node if known is None else node.body if known[0] else node.orelse

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:  # noqa: N802
        self.generic_visit(node)
        known = constant_of(node)
        if known is not None and isinstance(known[0], (int, float)):
            return ast.Constant(known[0])
        left, right = constant_of(node.left), constant_of(node.right)
        if isinstance(node.op, (ast.Mult, ast.Div, ast.Pow)) and right is not None:
            if right[0] == 1:
                return node.left
        if isinstance(node.op, ast.Mult) and left is not None and left[0] == 1:
            return node.right
        return node


def constant_of(node: ast.expr) -> tuple[Any] | None:
    """The value of an expression of numbers, in a tuple; None if it is none."""
    allowed = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.operator, ast.unaryop)
    if not all(isinstance(n, (*allowed, ast.cmpop)) for n in ast.walk(node)):
        return None
    if any(isinstance(n, ast.Pow) for n in ast.walk(node)):
        return None
    try:
        whole = ast.fix_missing_locations(ast.Expression(node))
        return (eval(compile(whole, "<rule>", "eval"), {"__builtins__": {}}),)
    except Exception:
        return None
