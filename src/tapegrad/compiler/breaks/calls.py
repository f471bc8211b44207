"""The call in a statement that leads to what cannot be recorded: taken out, and compiled apart.

    loss = F.mse_loss(model(x * 2), y)          # a module with a line that prints

becomes `a = x * 2`, `b = model(a)` and `loss = F.mse_loss(b, y)`. The first and the last of these
belong to the pieces before and after; the second stays, and what it calls is compiled by itself, in
pieces as well. That is done where nothing is computed in another order.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import sys
import types
import weakref
from typing import Any

from ...core.base import STATE
from ...errors import argument_names, evidence, explain_call
from ...nn.modules._hooks import GLOBAL
from ...nn.modules.module import Module
from ..capture.instrumented import original_of
from ..capture.reachable import is_library_file
from .source import MADE, SCOPES, copied

STAYS = "stays"  # of the statement with the call
SETTLED = "settled"  # of what is left without it
APART = "__apart__"
NEW = itertools.count()  # for names of variables: what is cut may be cut again
MOST_CALLEES = 8  # functions that one place calls
# What is called by these names is hardly ever a module.
NO_MODULES = frozenset(
    """
    abs add append backward cpu detach exp extend float format int isfinite isnan item join len log
    max mean min norm numpy pop print range round sqrt square step str sum tolist update write
    zero_grad
    """.split()
)
CARRIERS = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return)


def call_at(statement: Any, place: Any, shift: int) -> Any:
    """The call at a place, (line, last line, column, last column), of a statement."""
    header = statement.test if isinstance(statement, ast.If) else statement
    if place is None or not isinstance(statement, (*CARRIERS, ast.If)) or hasattr(statement, MADE):
        return None
    for node in ast.walk(header):
        if isinstance(node, ast.Call):
            columns = node.col_offset + shift, (node.end_col_offset or 0) + shift
            if (node.lineno, node.end_lineno, *columns) == tuple(place):
                return node if comes_first(header, node) else None
    return None


def is_simple(node: Any) -> bool:
    """Whether an expression can be evaluated earlier or later."""
    if isinstance(node, ast.Attribute):
        return is_simple(node.value)
    return isinstance(node, (ast.Name, ast.Constant))


def comes_first(root: Any, call: Any) -> bool:
    """Whether a call in an expression is made before anything else is computed, and always."""
    node = root
    while node is not call:
        if isinstance(node, ast.AugAssign):
            if not isinstance(node.target, ast.Name):
                return False
            parts = [node.value]
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.Expr, ast.Return)):
            parts = [node.value]
        elif isinstance(node, ast.Call):
            parts = [node.func, *node.args, *[each.value for each in node.keywords]]
        elif isinstance(node, ast.BinOp):
            parts = [node.left, node.right]
        elif isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators[:1]]
        elif isinstance(node, (ast.Attribute, ast.Starred)):
            parts = [node.value]
        elif isinstance(node, ast.UnaryOp):
            parts = [node.operand]
        elif isinstance(node, ast.Subscript):
            parts = [node.value, node.slice]
        elif isinstance(node, (ast.Tuple, ast.List)):
            parts = node.elts
        else:
            return False
        inside = [any([n is call for n in ast.walk(part)]) for part in parts]
        if True not in inside:
            return False
        place = inside.index(True)
        if not all(map(is_simple, parts[:place])):
            return False
        node = parts[place]
    return is_simple(call.func)


def unfolded(statement: Any, call: Any) -> tuple[list[Any], set[str]]:
    """A statement as several ones, one of which is the call; and the variables that are new."""
    made: list[Any] = []
    names: set[str] = set()
    parts = [each for each in (*call.args, *call.keywords) if not isinstance(each, ast.Starred)]
    values = [each.value if isinstance(each, ast.keyword) else each for each in parts]
    replaced: dict[int, Any] = {}
    has_stars = len(parts) < len(call.args) + len(call.keywords)
    if not has_stars and None not in [each.arg for each in call.keywords]:
        for value in values:
            if not is_simple(value):
                name = f"__given_{next(NEW)}__"
                made.append(assigned(name, copied(value), value))
                names.add(name)
                replaced[id(value)] = name
    own = Replaces(replaced).visit(call)
    own.func = ast.Call(ast.Name(APART, ast.Load()), [own.func], [])
    ast.copy_location(own.func, call)
    ast.fix_missing_locations(own.func)
    if isinstance(statement, ast.Expr) and statement.value is call:
        stays: Any = ast.copy_location(ast.Expr(own), call)
        made.append(stays)
    else:
        name = f"__value_{next(NEW)}__"
        stays = assigned(name, own, call)
        names.add(name)
        made += [stays, Replaces({id(call): name}).visit(statement)]
    for each in made:
        setattr(each, STAYS if each is stays else SETTLED, True)
    return made, names


def assigned(name: str, value: Any, place: Any) -> Any:
    made = ast.Assign([ast.Name(name, ast.Store())], value)
    ast.copy_location(made, place)
    ast.copy_location(made.targets[0], place)
    return made


class Replaces:
    """Copies a syntax tree with variables in place of some expressions."""

    def __init__(self, names: dict[int, str]) -> None:
        self.names = names

    def visit(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self.visit(each) for each in node]
        if not isinstance(node, ast.AST):
            return node
        if id(node) in self.names:
            return ast.copy_location(ast.Name(self.names[id(node)], ast.Load()), node)
        made = type(node)(**{name: self.visit(value) for name, value in ast.iter_fields(node)})
        return ast.copy_location(made, node)


class Parts(ast.NodeTransformer):
    """Compiles each module that a statement calls by itself."""

    def visit(self, node: Any) -> Any:
        return node if isinstance(node, SCOPES) else super().visit(node)

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        if getattr(node.func, "attr", getattr(node.func, "id", "")) not in NO_MODULES:
            made = ast.Call(ast.Name(APART, ast.Load()), [node.func], [])
            ast.copy_location(made, node.func)
            ast.copy_location(made.func, node.func)
            node.func = made
        return node


class Callees:
    """The compiled versions of the functions and modules that a remaining call calls."""

    def __init__(self, compiled: Any) -> None:
        self.codes: set[Any] = set()  # of the functions in which something is in the way
        self.compiled = compiled
        self.known: dict[Any, tuple[Any, Any]] = {}

    def __call__(self, function: Any) -> Any:
        if isinstance(function, Module):
            if function._compiled_call_impl is not None:
                return function
            target = function._call_impl
        elif isinstance(function, (types.FunctionType, types.MethodType)):
            if function.__code__ not in self.codes:
                return function
            target = function
        else:
            return function
        key = id(getattr(target, "__func__", target)), id(getattr(target, "__self__", None))
        found = self.known.get(key)
        if found is None:
            if len(self.known) >= MOST_CALLEES:
                return function
            found = self.known[key] = target, self.compiled(target)
        return found[1]


GENERATED = "__create_fn__."  # how the names of methods begin that `dataclass` writes


class Place:
    """A place in a function: its line, the call that is made there, and the function called."""

    def __init__(self, line: int = 0, call: Any = None, code: Any = None) -> None:
        self.line = line  # 0: that is not known
        self.call = call  # (line, last line, column, last column)
        self.code = code  # of the next function of the user's that is running; None: there is none


def place_in(function: Any, frame: Any = None) -> Place:
    """The Place at which a running function is, found from a frame further in."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    frame = sys._getframe(1) if frame is None else frame
    inner: Any = None
    while frame is not None and (code is None or frame.f_code is not code):
        if not is_library_file(frame.f_code.co_filename):
            inner = frame.f_code
        frame = frame.f_back
    if frame is None:
        return Place()
    if inner is None:
        return Place(frame.f_lineno)
    spans = list(code.co_positions())
    return Place(frame.f_lineno, spans[frame.f_lasti // 2], original_of(inner))


def users_line() -> Any:
    """The user's line that is running now: not of Python's library, not of this package."""
    frame = users_frame()
    return evidence.here() if frame is None else evidence.place(frame.f_code, frame.f_lasti)


def users_frame() -> Any:
    """The frame of that line; None if there is none."""
    frame: Any = sys._getframe(1)
    while frame is not None and (
        is_library_file(frame.f_code.co_filename) or frame.f_code.co_qualname.startswith(GENERATED)
    ):
        frame = frame.f_back
    return frame


def body_of(function: Any) -> Any:
    """The function whose lines count: of the call of a module, its `forward`, and so on."""
    module = module_of(function)
    if module is not None:
        return module.forward
    if isinstance(function, functools.partial):
        return function.func
    is_plain = isinstance(function, (types.FunctionType, types.MethodType))
    call = inspect.getattr_static(type(function), "__call__", None)
    if not is_plain and isinstance(call, types.FunctionType):
        return types.MethodType(call, function)
    return function


def in_the_place_of(function: Any, body: Any) -> Any:
    """A function that calls the pieces of a body with the signature of the original function."""
    if isinstance(function, functools.partial):
        return functools.partial(body, *function.args, **function.keywords)
    module = module_of(function)
    return body if module is None else ForwardInPieces(module, body)


def module_of(function: Any) -> Module | None:
    """The module whose call a function is."""
    if isinstance(function, Module):
        return function
    owner = getattr(function, "__self__", None)
    return owner if isinstance(owner, Module) and function == owner._call_impl else None


class ForwardInPieces:
    """Calls a module with a `forward` in pieces, while its own `forward` is unchanged."""

    def __init__(self, module: Module, forward: Any) -> None:
        self.module = module
        self.forward = forward
        self.own = self.now()

    def now(self) -> Any:
        return getattr(self.module.forward, "__func__", self.module.forward)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        module = self.module
        if self.now() is not self.own:
            return module._call_impl(*args, **kwargs)
        hooks = module._forward_hooks, module._forward_pre_hooks, module._backward_hooks
        if any(hooks) or module._backward_pre_hooks or any(every_modules()):
            return module._call_impl(*args, **kwargs)
        outer = STATE.module
        STATE.module = weakref.ref(module)
        try:
            return self.forward(*args, **kwargs)
        except (IndexError, RuntimeError, ValueError) as error:
            explain_call(error, "", argument_names(module.forward), args, kwargs)
            raise
        finally:
            STATE.module = outer


def every_modules() -> Any:
    return GLOBAL.forward, GLOBAL.forward_pre, GLOBAL.backward, GLOBAL.backward_pre
