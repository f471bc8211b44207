"""The source of a function, and which variables its statements use and set."""

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
from typing import Any

ODD = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
SEES_FRAMES = frozenset(
    ("locals", "vars", "dir", "eval", "exec", "super", "__class__", "_getframe")
)
KEPT = "__definition__"  # where a piece has its own source
MADE = "is_made_here"  # of statements that are not the user's
SHIFT = "shift"  # of a definition: columns that it was further to the right
FUTURE = functools.reduce(
    operator.or_, [getattr(__future__, n).compiler_flag for n in __future__.all_feature_names]
)
CALLING = frozenset(("PUSH_NULL", "PRECALL", "KW_NAMES", "NOP", "EXTENDED_ARG", "CACHE"))
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
LATER = (*SCOPES, ast.GeneratorExp)  # what is inside may run when variables are others
# Calls that compute nothing, by their last names.
BOOKKEEPING = frozenset(
    """
    add_scalar append bool copy detach dict enumerate extend float format get insert int items
    keys len list max min pop print range round set str tuple values zip
    """.split()
)
# Who takes all from a generator before anything else happens.
CONSUMERS = frozenset("all any dict list max min set sorted sum tuple".split())
LOOPS = (ast.For, ast.AsyncFor, ast.While)
# What lets no exception pass unseen, by the last of its names.
SWITCHES = frozenset(
    """
    no_grad enable_grad inference_mode set_grad_enabled autocast detect_anomaly set_detect_anomaly
    record_function device sdpa_kernel
    """.split()
)


# ---------------------------------------------------------------------- the text


def source_of(base: types.FunctionType) -> ast.FunctionDef | None:
    """The definition of a function, if it is known that this is what runs."""
    kept = getattr(base, KEPT, None)
    if kept is not None:
        return kept  # type: ignore[no-any-return]
    try:
        lines, first = inspect.getsourcelines(base.__code__)  # and not of what it is around
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError, IndentationError):
        return None
    found = tree.body[0]
    if not isinstance(found, ast.FunctionDef):
        return None
    ast.increment_lineno(tree, first - 1)
    setattr(found, SHIFT, len(lines[0]) - len(lines[0].lstrip()))
    found.decorator_list = []
    if any([isinstance(each, ast.Match) for each in ast.walk(found)]):
        return None  # its patterns have names of their own
    # The file may be another one by now; names like `self.__x` mean something else in a class.
    now = code_of(base, found, base.__code__.co_freevars)
    is_same = outline(now) == outline(base.__code__)
    return found if is_same and now.co_varnames == base.__code__.co_varnames else None


def outline(code: types.CodeType) -> list[Any]:
    """The instructions of code, to compare it with other code.

    Those that only prepare a call are left out: imports in the same file decide which they are.
    """
    found = []
    for step in dis.get_instructions(code):
        if step.opname in CALLING:
            continue
        is_place = step.opcode in dis.hasjrel or step.opcode in dis.hasjabs
        value = None if is_place or isinstance(step.argval, types.CodeType) else step.argval
        found.append((step.opname.replace("LOAD_METHOD", "LOAD_ATTR"), value))
    return found


def code_of(base: Any, definition: ast.FunctionDef, around: Any) -> types.CodeType:
    """Compile a definition nested in a function that declares its closure variables."""
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


def copied(statement: Any) -> Any:
    """A copy of a statement, with its line numbers, that may be changed."""
    if not isinstance(statement, ast.AST):
        return [copied(x) for x in statement] if isinstance(statement, list) else statement
    made = type(statement)(**{name: copied(value) for name, value in ast.iter_fields(statement)})
    if hasattr(statement, MADE):
        setattr(made, MADE, True)
    return ast.copy_location(made, statement)


def as_function(
    base: Any, definition: Any, body: list[Any], args: ast.arguments, around: dict[str, Any]
) -> Any:
    """Statements as a function with the name, the globals and the closure of another one.

    `around`: more variables around it.
    """
    made = ast.FunctionDef(
        name=definition.name,
        args=args,
        body=body,
        decorator_list=[],
        lineno=definition.lineno,
        end_lineno=definition.end_lineno,
        col_offset=0,
        end_col_offset=0,
    )
    if sys.version_info >= (3, 12):
        made.type_params = []
    free = dict(zip(base.__code__.co_freevars, base.__closure__ or (), strict=True))
    free |= {name: types.CellType(value) for name, value in around.items()}
    code = code_of(base, made, free)
    cells = tuple([free[name] for name in code.co_freevars])
    function = types.FunctionType(code, base.__globals__, base.__name__, None, cells)
    function.__qualname__ = base.__qualname__
    function.__module__ = base.__module__
    setattr(function, KEPT, made)
    return function


# ---------------------------------------------------------------------- what can be cut


def shares_variables(definition: Any, names: set[str]) -> bool:
    """Whether inner functions may see a variable change, or change it: then it cannot be a copy."""
    calls = [n for n in ast.walk(definition) if isinstance(n, ast.Call)]
    at_once = {id(a) for n in calls if getattr(n.func, "id", "") in CONSUMERS for a in n.args}
    inner = [n for n in ast.walk(definition) if isinstance(n, LATER) and id(n) not in at_once]
    inner.remove(definition)
    if not inner:
        return False
    parts = [part for each in inner for part in ast.walk(each)]
    if any([isinstance(part, ast.Nonlocal) for part in parts]):
        return True
    seen = {name for each in inner for name in free_in(each)} & names
    count = dict.fromkeys(seen, 0)
    for name in seen & {each.arg for each in all_arguments(definition.args)}:
        count[name] = 1
    own = [n for n in ast.walk(definition) if isinstance(n, ast.Name) and n.id in seen]
    within = {id(part) for part in parts}
    for n in own:
        if not isinstance(n.ctx, ast.Load) and id(n) not in within:
            count[n.id] += 1
    loops = [n for n in ast.walk(definition) if isinstance(n, LOOPS)]
    often = assigned_in(loops)
    return any([count[name] > 1 or name in often for name in seen])


def free_in(inner: Any) -> set[str]:
    """The names in an inner function or generator that are not its own."""
    args = getattr(inner, "args", None)
    own = {each.arg for each in all_arguments(args)} if args is not None else set()
    return {n.id for n in ast.walk(inner) if isinstance(n, ast.Name)} - own - assigned_in([inner])


def all_arguments(args: ast.arguments) -> list[ast.arg]:
    found = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    return found + [each for each in (args.vararg, args.kwarg) if each is not None]


# ---------------------------------------------------------------------- statements


def does_nothing(statement: Any) -> bool:
    """Whether a statement is a docstring, `pass`, or a `global` or `nonlocal` declaration."""
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_text or isinstance(statement, (ast.Global, ast.Nonlocal, ast.Pass))


def computes(statement: Any) -> bool:
    """Whether a statement may run ops."""
    kinds = (ast.Call, ast.BinOp, ast.AugAssign)
    return any([isinstance(n, kinds) for n in ast.walk(statement)])


def is_worth_it(run: list[Any]) -> bool:
    """Whether statements may do enough for a recording."""
    nodes = [n for each in run for n in ast.walk(each)]
    sums = [n for n in nodes if isinstance(n, (ast.BinOp, ast.AugAssign))]
    calls = [n.func for n in nodes if isinstance(n, ast.Call)]
    names = {getattr(each, "attr", getattr(each, "id", "")) for each in calls}
    return len(sums) > 1 or not BOOKKEEPING.issuperset(names)


def walk_here(node: Any) -> list[Any]:
    """A node and those in it that are not in a function of their own."""
    found, stack = [], [node]
    while stack:
        each = stack.pop()
        found.append(each)
        if not isinstance(each, SCOPES):
            stack.extend(ast.iter_child_nodes(each))
    return found


def returns(statement: Any) -> bool:
    return any([isinstance(n, ast.Return) for n in walk_here(statement)])


def jumps(statement: Any) -> bool:
    """Whether a statement has a `break` or `continue` of a loop around it."""
    if isinstance(statement, (ast.Break, ast.Continue)):
        return True
    if isinstance(statement, SCOPES):
        return False
    inside = [s for name, body in blocks(statement) for s in body if name == "orelse"]
    if not isinstance(statement, LOOPS):
        inside = [s for _, body in blocks(statement) for s in body]
    return any(map(jumps, inside))


def blocks(statement: Any) -> list[tuple[str, list[Any]]]:
    """The statements inside of one, by the names of their fields."""
    if isinstance(statement, SCOPES):
        return []
    names = ("body", "orelse", "finalbody")
    found = [(name, getattr(statement, name)) for name in names if hasattr(statement, name)]
    found = [(name, body) for name, body in found if isinstance(body, list)]
    return found + [("handlers", h.body) for h in getattr(statement, "handlers", ())]


def is_switch(statement: Any) -> bool:
    """Whether a `with` statement does no more than to change how ops run."""
    found = []
    for item in statement.items:
        called = item.context_expr
        called = called.func if isinstance(called, ast.Call) else called
        found.append(getattr(called, "attr", getattr(called, "id", "")))
    return SWITCHES.issuperset(found)


# ---------------------------------------------------------------------- variables


def names_in(nodes: Any, kinds: Any) -> set[str]:
    found = [n for each in nodes for n in ast.walk(each)]
    return {n.id for n in found if isinstance(n, ast.Name) and isinstance(n.ctx, kinds)}


def used_in(run: list[Any]) -> set[str]:
    """The names that statements look up."""
    changed = [n.target for each in run for n in ast.walk(each) if isinstance(n, ast.AugAssign)]
    found = {n.id for n in changed if isinstance(n, ast.Name)}
    return found | names_in(run, (ast.Load, ast.Del))


def assigned_in(run: list[Any]) -> set[str]:
    """The names that statements may set, or delete."""
    nodes = [node for each in run for node in ast.walk(each)]
    found = names_in(run, (ast.Store, ast.Del))
    found |= {n.name for n in nodes if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    aliases = [n for n in nodes if isinstance(n, ast.alias)]
    found |= {(n.asname or n.name).partition(".")[0] for n in aliases}
    caught = [n.name for n in nodes if isinstance(n, ast.ExceptHandler) and n.name]
    return found | set(caught)


def deleted_in(body: list[Any]) -> set[str]:
    """The names that may lose their values."""
    nodes = [node for each in body for node in ast.walk(each)]
    caught = [n.name for n in nodes if isinstance(n, ast.ExceptHandler) and n.name]
    return names_in(body, ast.Del) | set(caught)


def set_for_sure(run: list[Any]) -> set[str]:
    """The names that have a value once statements are over."""
    found: set[str] = set()
    for each in run:
        if isinstance(each, ast.Assign):
            found |= {n for target in each.targets for n in plain_targets(target)}
        elif isinstance(each, ast.AugAssign) or (isinstance(each, ast.AnnAssign) and each.value):
            found |= plain_targets(each.target)
        elif isinstance(each, ast.If):
            found |= set_for_sure(each.body) & set_for_sure(each.orelse)
        elif isinstance(each, ast.With) and is_switch(each):
            found |= set_for_sure(each.body)
        elif isinstance(each, (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)):
            found |= assigned_in([each]) if isinstance(each, ast.Import) else set()
    return found


def plain_targets(target: Any) -> set[str]:
    if isinstance(target, ast.Name):
        return {target.id}
    if isinstance(target, ast.Starred):
        return plain_targets(target.value)
    if isinstance(target, (ast.Tuple, ast.List)):
        return {name for each in target.elts for name in plain_targets(each)}
    return set()


def needed_by(run: list[Any], after: Any = frozenset()) -> set[str]:
    """The names whose values before statements matter to them, or to what needs `after`."""
    known: set[str] = set()
    found: set[str] = set()
    for each in run:
        found |= needed_by_one(each) - known
        known |= set_for_sure([each])
    return found | (set(after) - known)


def needed_by_one(statement: Any) -> set[str]:
    inner = blocks(statement)
    if not inner:
        return used_in([statement])
    found: set[str] = set()
    fields = {name for name, _ in inner}
    for name, value in ast.iter_fields(statement):
        if name not in fields:
            parts = value if isinstance(value, list) else [value]
            found |= used_in([part for part in parts if isinstance(part, ast.AST)])
    for handler in getattr(statement, "handlers", ()):
        found |= used_in([handler.type]) if handler.type is not None else set()
    for name, body in inner:
        own: set[str] = set()
        if name == "body" and isinstance(statement, ast.For):
            own = plain_targets(statement.target)
        if name == "body" and isinstance(statement, ast.With):
            targets = [item.optional_vars for item in statement.items]
            own = {n for t in targets if t is not None for n in plain_targets(t)}
        found |= needed_by(body) - own
    return found


def only_reads(run: list[Any], name: str) -> bool:
    """Whether statements only read the items of a list or dict, and pass it to no function."""
    parents = {id(child): n for s in run for n in ast.walk(s) for child in ast.iter_child_nodes(n)}
    for node in [n for s in run for n in ast.walk(s)]:
        if not isinstance(node, ast.Name) or node.id != name:
            continue
        parent = parents.get(id(node))
        if not isinstance(node.ctx, ast.Load) or not is_reading(parent, node, parents):
            return False
    return True


READERS = frozenset(
    """
    len sum zip enumerate list tuple min max reversed sorted cat stack concat hstack vstack
    """.split()
)


def is_reading(parent: Any, node: Any, parents: dict[int, Any]) -> bool:
    if isinstance(parent, ast.Subscript):
        return parent.value is node and isinstance(parent.ctx, ast.Load)
    if isinstance(parent, ast.Assign):
        return all([isinstance(t, (ast.Tuple, ast.List)) for t in parent.targets])
    if isinstance(parent, (ast.For, ast.comprehension)):
        return parent.iter is node
    if isinstance(parent, ast.Attribute):
        return parent.attr in ("items", "keys", "values", "get", "index", "count")
    if isinstance(parent, ast.Starred):
        return isinstance(parents.get(id(parent)), ast.Call)
    if isinstance(parent, ast.Call):
        called = getattr(parent.func, "attr", getattr(parent.func, "id", ""))
        return called in READERS and parent.func is not node
    return isinstance(parent, ast.Compare)
