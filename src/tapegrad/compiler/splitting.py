"""A function cut in pieces at a line that cannot be recorded: before it, its statement, after it.

    def step(x, y):
        loss = ...                      # a function of its own, compiled
        losses.append(loss.item())      # as ordinary Python
        optimizer.step()                # compiled
        return loss

The pieces are made of the function's own source. Each takes the variables that it uses, and gives
those that later pieces use. The cut is made between statements of the function itself; where a line
is inside of a loop or of a block, all of that is ordinary Python. What a piece cannot stand for
(variables that inner functions share, `locals()`, generators) is not cut at all.
"""

from __future__ import annotations
import __future__

import ast
import dis
import functools
import inspect
import operator
import sys
import textwrap
import types
from collections.abc import Callable
from typing import Any

from ..utils._pytree import tree_is_leaf

ABSENT = "__absent__"
SEES_FRAMES = frozenset(
    ("locals", "vars", "dir", "eval", "exec", "super", "__class__", "_getframe")
)
ODD = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
KEPT = "__definition__"  # where a piece has its own source
FUTURE = functools.reduce(
    operator.or_, [getattr(__future__, n).compiler_flag for n in __future__.all_feature_names]
)
MADE = "is_made_here"  # of statements that are not the user's: where they are
CALLING = frozenset(("PUSH_NULL", "PRECALL", "KW_NAMES", "NOP", "EXTENDED_ARG", "CACHE"))
FIRST, LAST = "first", "last"
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class Absent:
    """In the place of a variable that has no value."""

    def __repr__(self) -> str:
        return "no value"


NOTHING = Absent()


class Piece:
    """Some statements as a function: (True, what is returned), or (False, variables)."""

    def __init__(self, function: Any, takes: list[str], gives: list[str]) -> None:
        self.function = function
        self.plain = getattr(function, "function", None)  # the same as ordinary Python
        self.takes = takes
        self.gives = gives
        self.lines = 0, 0

    def spelled(self) -> str:
        first, last = self.lines
        return f"line {first}" if first == last else f"lines {first} to {last}"


class Split:
    """A function in pieces."""

    def __init__(self, function: Any, pieces: list[Piece]) -> None:
        self.owner = getattr(function, "__self__", None)
        self.function = getattr(function, "__func__", function)
        code = self.function.__code__
        self.names = code.co_varnames[: code.co_argcount]
        self.is_simple = not code.co_kwonlyargcount and not code.co_flags & (
            inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
        )
        self.pieces = pieces

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.owner is not None:
            args = (self.owner, *args)
        if self.is_simple and not kwargs and len(args) == len(self.names):
            scope = dict(zip(self.names, args, strict=True))
        else:
            bound = inspect.signature(self.function).bind(*args, **kwargs)
            bound.apply_defaults()
            scope = dict(bound.arguments)
        for piece in self.pieces:
            given = [scope.get(name, NOTHING) for name in piece.takes]
            run = piece.function
            if piece.plain is not None and not all(map(tree_is_leaf, given)):
                run = piece.plain  # it may change a list, which others may have, too
            is_over, found = run(*given)
            if is_over:
                return found
            scope.update(zip(piece.gives, found, strict=True))
        raise AssertionError("the last piece returns")


def cut(function: Any, line: int, name: str, compiled: Callable[[Any], Any]) -> Split | None:
    """A function cut at a line, or where a variable or an `.attribute` is first named.

    None if that is not safe.
    """
    base = getattr(function, "__func__", function)
    if not isinstance(base, types.FunctionType) or not can_be_cut(base.__code__):
        return None
    definition = source_of(base)
    if definition is None:
        return None
    body = [each for each in definition.body if getattr(each, MADE, "") != FIRST]
    # An argument that nothing looks at can be left out altogether.
    missing = len(body) if name in inspect.signature(base).parameters else 0
    at = next((i for i, each in enumerate(body) if is_there(each, line, name)), missing)
    if all(map(does_nothing, body[:at])):
        return None
    scope = [each for each in ast.walk(definition) if isinstance(each, (ast.Global, ast.Nonlocal))]
    end = at + 1 if any(map(computes, body[at + 1 :])) else len(body)
    runs = [run for run in (body[:at], body[at:end], body[end:]) if run]
    code = base.__code__
    known = set(inspect.signature(base).parameters)
    pieces = []
    for i, run in enumerate(runs):
        takes = sorted(used_in(run) & known)
        later = set().union(*[used_in(each) for each in runs[i + 1 :]])
        gives = sorted(later & assigned_in(run) & set(code.co_varnames))
        known |= set(gives)
        made = as_function(base, definition, [*scope, *run], takes, gives, i == len(runs) - 1)
        pieces.append(Piece(compiled(made) if i != 1 else made, takes, gives))
        own = [each for each in run if not hasattr(each, MADE)] or run
        pieces[-1].lines = own[0].lineno, own[-1].end_lineno
    return Split(function, pieces)


def can_be_cut(code: types.CodeType) -> bool:
    is_plain = not code.co_flags & ODD and not code.co_cellvars
    return is_plain and SEES_FRAMES.isdisjoint(code.co_names)


def source_of(base: types.FunctionType) -> ast.FunctionDef | None:
    """The definition of a function, if it is known that this is what runs."""
    kept = getattr(base, KEPT, None)
    if kept is not None:
        return kept  # type: ignore[no-any-return]
    try:
        lines, first = inspect.getsourcelines(base)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError, IndentationError):
        return None
    found = tree.body[0]
    if not isinstance(found, ast.FunctionDef):
        return None
    ast.increment_lineno(tree, first - 1)
    found.decorator_list = []
    if any([isinstance(each, ast.Match) for each in ast.walk(found)]):
        return None  # its patterns have names of their own
    # The file may be another one by now; names like `self.__x` mean something else in a class.
    now = code_of(base, found, base.__code__.co_freevars)
    is_same = outline(now) == outline(base.__code__)
    return found if is_same and now.co_varnames == base.__code__.co_varnames else None


def outline(code: types.CodeType) -> list[Any]:
    """What code does. How methods are called depends on what the file around it imports."""
    found = []
    for step in dis.get_instructions(code):
        if step.opname in CALLING:
            continue
        is_place = step.opcode in dis.hasjrel or step.opcode in dis.hasjabs
        value = None if is_place or isinstance(step.argval, types.CodeType) else step.argval
        found.append((step.opname.replace("LOAD_METHOD", "LOAD_ATTR"), value))
    return found


def code_of(base: Any, definition: ast.FunctionDef, around: Any) -> types.CodeType:
    """The code of a definition inside of a function that has the variables around it."""
    outer = ast.FunctionDef(
        name="around",
        args=arguments(list(around)),
        body=[definition, ast.Return(ast.Name(definition.name, ast.Load()))],
        decorator_list=[],
    )
    if sys.version_info >= (3, 12):
        outer.type_params = []
    tree = ast.fix_missing_locations(ast.Module([outer], []))
    flags = base.__code__.co_flags & FUTURE
    module = compile(tree, base.__code__.co_filename, "exec", flags, dont_inherit=True)
    inner = next(c for c in module.co_consts if isinstance(c, types.CodeType))
    found = [c for c in inner.co_consts if isinstance(c, types.CodeType)]
    return next(c for c in found if c.co_name == definition.name)


def arguments(names: list[str]) -> ast.arguments:
    return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])


def as_function(
    base: Any, definition: Any, run: list[Any], takes: list[str], gives: list[str], is_last: bool
) -> Any:
    """Statements as a function of variables, which gives variables if it does not return."""
    unset = "\n".join([f"if {name} is {ABSENT}: del {name}" for name in takes])
    last = "return True, None" if is_last else f"return False, [{', '.join(gives)}]"
    found = [f"try: {name}\nexcept NameError: {name} = {ABSENT}" for name in gives]
    returned = [Returns().visit(each) for each in map(copied, run)]
    begin, end = ast.parse(unset), ast.parse("\n".join([*found, last]))
    for each in begin.body:
        setattr(each, MADE, FIRST)
    for each in end.body:
        setattr(each, MADE, LAST)
    made = ast.FunctionDef(
        name=definition.name,
        args=arguments(takes),
        body=[*begin.body, *returned, *end.body],
        decorator_list=[],
        lineno=definition.lineno,
        end_lineno=definition.end_lineno,
        col_offset=0,
        end_col_offset=0,
    )
    if sys.version_info >= (3, 12):
        made.type_params = []
    free = dict(zip(base.__code__.co_freevars, base.__closure__ or (), strict=True))
    code = code_of(base, made, dict.fromkeys((*free, ABSENT)))
    cells = tuple([free.get(name) or types.CellType(NOTHING) for name in code.co_freevars])
    function = types.FunctionType(code, base.__globals__, base.__name__, None, cells)
    function.__qualname__ = base.__qualname__
    setattr(function, KEPT, made)
    return function


def copied(statement: Any) -> Any:
    """The same statement with the same lines, to be changed."""
    if not isinstance(statement, ast.AST):
        return [copied(x) for x in statement] if isinstance(statement, list) else statement
    made = type(statement)(**{name: copied(value) for name, value in ast.iter_fields(statement)})
    if hasattr(statement, MADE):
        setattr(made, MADE, getattr(statement, MADE))
    return ast.copy_location(made, statement)


class Returns(ast.NodeTransformer):
    """Says of what is returned that it is: (True, value)."""

    def visit_Return(self, node: ast.Return) -> Any:
        value = ast.Constant(None) if node.value is None else node.value
        both = ast.Tuple([ast.Constant(True), value], ast.Load())
        return ast.copy_location(ast.Return(ast.copy_location(both, node)), node)

    def visit(self, node: Any) -> Any:
        return node if isinstance(node, SCOPES) else super().visit(node)


def is_there(statement: Any, line: int, name: str) -> bool:
    if line:
        if hasattr(statement, MADE):
            return False
        return bool(statement.lineno <= line <= (statement.end_lineno or statement.lineno))
    if name.startswith("."):
        attributes = [n for n in ast.walk(statement) if isinstance(n, ast.Attribute)]
        return any([n.attr == name[1:] for n in attributes])
    return name in used_in([statement]) | assigned_in([statement])


def does_nothing(statement: Any) -> bool:
    """A docstring, or what is at the beginning of pieces."""
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    says_whose = isinstance(statement, (ast.Global, ast.Nonlocal))
    return is_text or says_whose or hasattr(statement, MADE)


def computes(statement: Any) -> bool:
    """Whether a statement may run ops."""
    kinds = (ast.Call, ast.BinOp, ast.AugAssign)
    is_ours = hasattr(statement, MADE)
    return not is_ours and any([isinstance(n, kinds) for n in ast.walk(statement)])


def used_in(run: list[Any]) -> set[str]:
    """The names that statements look up, or may leave as they are."""
    nodes = [node for each in run for node in ast.walk(each)]
    found = {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store)}
    changed = [n.target for n in nodes if isinstance(n, ast.AugAssign)]
    found |= {n.id for n in changed if isinstance(n, ast.Name)}
    # What is set in a branch or a loop may be what it was.
    inside = [each for each in run if not isinstance(each, (ast.Assign, ast.Expr, ast.Return))]
    return found | assigned_in(inside)


def assigned_in(run: list[Any]) -> set[str]:
    nodes = [node for each in run for node in ast.walk(each)]
    found = {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    found |= {n.name for n in nodes if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    aliases = [n for n in nodes if isinstance(n, ast.alias)]
    found |= {(n.asname or n.name).partition(".")[0] for n in aliases}
    caught = [n.name for n in nodes if isinstance(n, ast.ExceptHandler) and n.name]
    return found | set(caught)
