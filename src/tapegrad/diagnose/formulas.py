"""What an op computes and how a gradient comes back through it, as text.

A gradient rule is a short Python function (`def d_input(F, grad, other): return grad * other`), so
its text is read off its own source: local variables are put in place, `F.exp(x)` becomes `exp(x)`,
and the few rules that end in a kernel are spelled out by the table below.

>>> from tapegrad.core.op import REGISTRY
>>> rule_text(REGISTRY["mul"], 0)
'd/d input = grad * other'
>>> rule_text(REGISTRY["mm"], 1)
'd/d mat2 = input.T @ grad'
"""

from __future__ import annotations

import ast
import functools
import inspect
from typing import Any

from ..ops.block.rule_source import rule_tree

LIMIT = 160  # a longer rule is named, not shown

# Calls inside rules as formulas: _0 is the first argument, _1 the second …
SPELLED = {
    "t": "_0.T",
    "mm": "_0 @ _1",
    "mv": "_0 @ _1",
    "bmm": "_0 @ _1",
    "matmul": "_0 @ _1",
    "left_grad": "_0 @ _1.T",
    "right_grad": "_1.T @ _0",
    "pow_scalar": "_0 ** _1",
    "scaled": "_0 * _1",
    "sum": "sum(_0, _1)",
    "half_over": "_0 / (2 * _1)",
    "masked_by": "where(_1 <= 0, 0, _0)",
    "cast": "cast(_0, _1)",
    "unbroadcast": "sum_to(_0, _1)",
    "blank": "zeros(_1)",
    "unreduce": "unsqueeze(_0, _1)",
    "put_back": "reshape(_0, _2)",
    "tanh_backward": "_0 * (1 - _1 ** 2)",
    "sigmoid_backward": "_0 * _1 * (1 - _1)",
    "silu_backward": "_0 * sigmoid(_1) * (1 + _1 * (1 - sigmoid(_1)))",
    "gelu_backward": "_0 * (cdf(_1) + _1 * pdf(_1))",
    "elu_backward": "where(_1 > 0, _0, _0 * _2 * exp(_1))",
    "softplus_backward": "_0 * sigmoid(_1 * _2)",
    "log_sigmoid_backward": "_0 * sigmoid(-_1)",
    "hardtanh_backward": "where((_1 > _2) & (_1 < _3), _0, 0)",
    "leaky_relu_backward": "where(_1 > 0, _0, _0 * _2)",
    "threshold_backward": "where(_1 <= _2, 0, _0)",
    "native_dropout_backward": "_0 * _1 * _2",
    "softmax_backward_data": "_1 * (_0 - sum(_0 * _1, _2))",
    "log_softmax_backward_data": "_0 - exp(_1) * sum(_0, _2)",
    "conv_input_grad": "transposed_convolution(_0, _1)",
    "conv_weight_grad": "convolution(_1, _0)",
}
CONSTANTS = {"LN2": "log(2)", "LN10": "log(10)"}

# Rules that are loops or kernels: (op, input) or (op, None) for all inputs.
KNOWN = {
    ("sum_all", 0): "expand(grad, input.shape)",
    ("sum", 0): "expand(grad, input.shape)",
    ("mean_all", 0): "expand(grad, input.shape) / n, n = input.numel()",
    ("mean", 0): "expand(grad, input.shape) / n, n = how many were averaged",
    ("max_all", 0): "grad where input is the maximum (shared by ties), else 0",
    ("min_all", 0): "grad where input is the minimum (shared by ties), else 0",
    ("max", 0): "grad at the maximum along dim, else 0",
    ("min", 0): "grad at the minimum along dim, else 0",
    ("var", 0): "grad * 2 * (input - mean) / (n - correction)",
    ("std", 0): "grad * (input - mean) / ((n - correction) * out)",
    ("linalg_vector_norm", 0): "grad * input / out, for the 2-norm",
    ("nll_loss", 0): "-grad * weight / n at [target], else 0",
    ("binary_cross_entropy_with_logits", 0): "grad * (sigmoid(input) - target) * weight / n",
    ("max_pool2d", 0): "grad at the maximum of each window, else 0",
    ("max_pool2d_with_indices", 0): "grad at the maximum of each window, else 0",
    ("select", 0): "zeros(input.shape) with grad at [index]",
    ("slice", 0): "zeros(input.shape) with grad at [start:end:step]",
    ("index", 0): "zeros(input.shape) with grad added at [index]",
    ("embedding", 0): "zeros(weight.shape) with grad added at [index]",
    ("convolution", 2): "sum(grad, every dim but the channels)",
    ("permute", 0): "permute(grad, the inverse of dims)",
    ("cat", None): "the part of grad that this tensor filled",
    ("stack", None): "grad[i] along dim: the slice that this tensor filled",
    ("repeat", 0): "sum of the repeated parts of grad",
    ("native_layer_norm", 0): "rstd * (g - mean(g) - x_hat * mean(g * x_hat)), g = grad * weight",
    ("native_layer_norm", 1): "sum(grad * x_hat)",
    ("native_layer_norm", 2): "sum(grad)",
    ("native_batch_norm", 0): "rstd * (g - mean(g) - x_hat * mean(g * x_hat)), g = grad * weight",
    ("native_batch_norm", 1): "sum(grad * x_hat)",
    ("native_batch_norm", 2): "sum(grad)",
    ("native_group_norm", 0): "rstd * (g - mean(g) - x_hat * mean(g * x_hat)), g = grad * weight",
    ("native_group_norm", 1): "sum(grad * x_hat)",
    ("native_group_norm", 2): "sum(grad)",
    ("scaled_dot_product_flash_attention_for_cpu", 0): "scale * dS @ key",
    ("scaled_dot_product_flash_attention_for_cpu", 1): "scale * dS.T @ query",
    ("scaled_dot_product_flash_attention_for_cpu", 2): "softmax(query @ key.T * scale).T @ grad",
}


class Unreadable(Exception):
    """A rule whose text says less than its name."""


@functools.cache
def formula(op: Any) -> str:
    """The first paragraph of an op's documentation, on one line; empty if it has none."""
    first = inspect.cleandoc(op.doc or "").partition("\n\n")[0]
    return " ".join(first.split())


@functools.cache
def rule_text(op: Any, index: int) -> str:
    """The gradient rule for input `index`: `d/d input = grad * other`; empty if there is none."""
    name = input_name(op, index)
    text = KNOWN.get((op.name, index)) or KNOWN.get((op.name, None))
    if text is None:
        rule = op.joint or (op.rules[index] if index < len(op.rules) else None)
        if rule is None:
            return ""
        try:
            text = read_rule(rule.function, index if op.joint is not None else None)
        except Unreadable:
            text = f"{op.name}_backward({', '.join(['grad', *op.needed_by[index]])})"
    return "" if text == "None" else f"d/d {name} = {text}"


def input_name(op: Any, index: int) -> str:
    """What input `index` is called."""
    if op.variadic:
        return f"{op.tensors[0]}[{index}]"
    return op.tensors[index] if index < len(op.tensors) else f"input {index}"


def read_rule(function: Any, index: int | None) -> str:
    """The result of a rule as one expression; `index` picks from a rule for all inputs."""
    definition = rule_tree(function)
    if definition is None:
        raise Unreadable
    result = value_of(definition.body, {})
    if result is None:
        return "not implemented"
    if index is not None:
        result = pick(result, index)
    text = ast.unparse(ast.fix_missing_locations(Spell().visit(result)))
    if len(text) > LIMIT:
        raise Unreadable
    return text


# ---------------------------------------------------------------------- from statements to a value


def value_of(body: list[ast.stmt], known: dict[str, ast.expr]) -> ast.expr | None:
    """What a list of statements returns, with local variables put in place; None if nothing."""
    for i, statement in enumerate(body):
        if isinstance(statement, ast.Return) and statement.value is not None:
            return put(statement.value, known)
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            assign(statement, known)
        elif isinstance(statement, ast.If):
            rest = body[i + 1 :]
            test = put(statement.test, known)
            if is_mode(test):  # the other way to compute the same, for create_graph
                return value_of(statement.orelse + rest, dict(known))
            yes = value_of(statement.body + rest, dict(known))
            no = value_of(statement.orelse + rest, dict(known))
            if yes is None or no is None:
                return yes or no
            return yes if asks_for(test) else ast.IfExp(test, yes, no)
        elif isinstance(statement, ast.Raise):
            return None
        elif not isinstance(statement, ast.Expr):  # a check is no part of the formula
            raise Unreadable
    return None


def assign(statement: ast.Assign | ast.AnnAssign, known: dict[str, ast.expr]) -> None:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    if len(targets) != 1 or statement.value is None:
        raise Unreadable
    target, value = targets[0], put(statement.value, known)
    if isinstance(target, ast.Name):
        known[target.id] = value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for name, part in zip(target.elts, value.elts, strict=True):
            if not isinstance(name, ast.Name):
                raise Unreadable
            known[name.id] = part
    elif isinstance(target, ast.Tuple):
        for i, name in enumerate(target.elts):
            if not isinstance(name, ast.Name):
                raise Unreadable
            known[name.id] = ast.Subscript(value, ast.Constant(i), ast.Load())
    else:
        raise Unreadable


class Put(ast.NodeTransformer):
    """Names exchanged for expressions."""

    def __init__(self, known: dict[str, ast.expr]) -> None:
        self.known = known

    def visit_Name(self, node: ast.Name) -> ast.expr:  # noqa: N802
        return self.known.get(node.id, node)


def put(expression: ast.expr, known: dict[str, ast.expr]) -> ast.expr:
    copied = ast.parse(ast.unparse(expression), mode="eval").body
    made = Put(known).visit(copied) if known else copied
    assert isinstance(made, ast.expr)
    return made


def is_mode(test: ast.expr) -> bool:
    return "F.recorded" in ast.unparse(test)


def asks_for(test: ast.expr) -> bool:
    """Whether a condition is only about which gradients are wanted."""
    return ast.unparse(test).startswith("needs[")


def pick(result: ast.expr, index: int) -> ast.expr:
    """The part of a tuple for one input."""
    if not isinstance(result, ast.Tuple) or index >= len(result.elts):
        raise Unreadable
    part = result.elts[index]
    if any(isinstance(each, ast.Starred) for each in result.elts):
        raise Unreadable
    if isinstance(part, ast.IfExp) and asks_for(part.test):
        part = part.body
    return part


class Spell(ast.NodeTransformer):
    """Calls as mathematics: without the F in front, known ones as formulas."""

    def visit_Call(self, node: ast.Call) -> ast.expr:  # noqa: N802
        self.generic_visit(node)
        name = ""
        if isinstance(node.func, ast.Attribute) and is_space(node.func.value):
            name = node.func.attr
            node.func = ast.Name(name, ast.Load())
        elif isinstance(node.func, ast.Name):
            name = node.func.id
            node.args = [a for a in node.args if not is_space(a)]
        values = {f"_{i}": a for i, a in enumerate(node.args)}
        return formula_of(name, values) or node

    def visit_Name(self, node: ast.Name) -> ast.expr:  # noqa: N802
        return ast.Name(CONSTANTS.get(node.id, node.id), ast.Load())


def formula_of(name: str, values: dict[str, ast.expr]) -> ast.expr | None:
    """A call as SPELLED has it; None if it does not, or has other arguments."""
    spelled = SPELLED.get(name)
    last = values.get("_1")
    if name == "sum" and isinstance(last, ast.Constant) and last.value is None:
        spelled = "sum(_0)"  # over all dimensions
    elif name == "share":  # of a reduced loss: n elements were averaged
        spelled = "_0 * _3 / n" if "_3" in values else "_0 / n"
    elif name == "div_mode" and isinstance(mode := values["_2"], ast.Constant):
        spelled = f"{mode.value!s}(_0 / _1)"
    if spelled is None:
        return None
    made = put(ast.parse(spelled, mode="eval").body, values)
    missing = any(isinstance(n, ast.Name) and n.id[:1] == "_" for n in ast.walk(made))
    return None if missing else made


def is_space(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "F"
