"""Instrumented code: a function compiled again so that each access of Python's state calls a hook.

    loss = self.scale * f(x)[0]

becomes, in the syntax tree and with the same lines and columns,

    loss = use(attr(self, "scale")) * use(item(call(f, x), 0))

where `attr`, `item`, `call` … are those of `hooks.py`. The tree is that of the function's
own file, and it is only believed if compiling it unchanged gives the very code that the function
has. Both codes have the same variables, so that the instrumented one can take the other's place in
the function object: whoever calls it runs it, this package and Python's own C code as well.
"""

from __future__ import annotations

import ast
import linecache
import sys
import types
from typing import Any

from ...core.locks import new_rlock
from ..breaks.source import FUTURE, KEPT, ODD, code_of, copied

HOOKS = "\0hooks"  # the constant that the hooks are put in the place of
MOST_FILES = 64  # whose trees are kept
MOST_CODES = 1024  # whose instrumented code is kept
FRAME_READERS = frozenset(("locals", "globals", "vars", "dir", "eval", "exec", "breakpoint"))
STACK_READERS = frozenset(("_getframe", "currentframe", "_current_frames"))
DISPLAYS = (ast.Constant, ast.BinOp, ast.Compare, ast.JoinedStr, ast.Lambda)
ASYNC = (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await)


class BoundedDict(dict[Any, Any]):
    """A dict that drops its oldest entries: a notebook may define any number of functions."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        while len(self) > self.most:
            del self[next(iter(self))]


class Cache:
    """Instrumented code by original code, and the trees of files."""

    def __init__(self) -> None:
        self.lock = new_rlock()
        self.made: dict[types.CodeType, types.CodeType | None] = BoundedDict(MOST_CODES)
        # Larger by far: functions may have some of this code right now.
        self.originals: dict[int, tuple[types.CodeType, types.CodeType]] = BoundedDict(
            8 * MOST_CODES
        )
        self.files: dict[str, tuple[list[str], ast.Module]] = {}


CACHE = Cache()


def original_of(code: Any) -> Any:
    """The code that instrumented code stands for; any other code is its own original."""
    found = CACHE.originals.get(id(code))
    return code if found is None else found[1]


def is_instrumented(code: Any) -> bool:
    return id(code) in CACHE.originals


def instrumented(function: types.FunctionType, hooks: Any) -> types.CodeType | None:
    """The instrumented code of a function; None if its source is not known for certain."""
    code = function.__code__
    if id(code) in CACHE.originals:
        return code
    if not STACK_READERS.isdisjoint(code.co_names):
        return None  # it would see the frames of the hooks
    with CACHE.lock:
        if code not in CACHE.made:
            CACHE.made[code] = None
            try:
                is_piece = hasattr(function, KEPT)
                made = of_piece(function, hooks) if is_piece else of_file(code, hooks)
            except (SyntaxError, ValueError, RecursionError):
                made = []  # the file is another one by now
            for before, after in made:
                CACHE.made[before] = after
                CACHE.originals[id(after)] = after, before
        return CACHE.made.get(code)


def of_piece(function: Any, hooks: Any) -> list[tuple[types.CodeType, types.CodeType]]:
    """The original and the instrumented code of a function cut out of another function."""
    definition = copied(getattr(function, KEPT))
    Instrumenter().instrument(definition)
    made = with_hooks(code_of(function, definition, function.__code__.co_freevars), hooks)
    return list(pairs(function.__code__, made))


def of_file(code: types.CodeType, hooks: Any) -> list[tuple[types.CodeType, types.CodeType]]:
    """The original and the instrumented code of all functions in one statement of a file."""
    tree = tree_of(code.co_filename)
    if tree is None or code.co_flags & (ODD & ~0x20):  # generators are fine
        return []
    statement = statement_at(tree, code.co_firstlineno)
    if statement is None:
        return []
    # How methods are called depends on which names the file imports.
    imports = [each for each in walk_outside(tree) if is_import(each)]
    flags = code.co_flags & FUTURE
    before = compiled([*imports, statement], code.co_filename, flags)
    found = next((each for each in codes_in(before) if each == code), None)
    if found is None:
        return []
    changed = copied(statement)
    Instrumenter().instrument(changed)
    after = with_hooks(compiled([*imports, changed], code.co_filename, flags), hooks)
    return [pair for pair in pairs(before, after) if pair[0].co_flags & 0x2]  # functions


def tree_of(name: str) -> ast.Module | None:
    """The syntax tree of a file, as its text is now."""
    if name.startswith("<frozen "):  # of Python's own library: it has a file as well
        name = getattr(sys.modules.get(name[8:-1]), "__file__", None) or name
    lines = linecache.getlines(name)
    known = CACHE.files.get(name)
    if known is not None and known[0] is lines:
        return known[1]
    if not lines:
        return None
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError):
        return None
    if len(CACHE.files) >= MOST_FILES:
        CACHE.files.clear()
    CACHE.files[name] = lines, tree
    return tree


def statement_at(tree: ast.Module, line: int) -> ast.stmt | None:
    for each in tree.body:
        first = min([each.lineno, *[d.lineno for d in getattr(each, "decorator_list", ())]])
        if first <= line <= (each.end_lineno or first):
            return each
    return None


def walk_outside(tree: ast.Module) -> list[ast.AST]:
    """The nodes of a file that are in no function and in no class."""
    found: list[ast.AST] = []
    stack: list[ast.AST] = [tree]
    while stack:
        each = stack.pop()
        found.append(each)
        if not isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            stack += ast.iter_child_nodes(each)
    return found


def is_import(node: Any) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module != "__future__"
    return isinstance(node, ast.Import)


def compiled(body: list[Any], name: str, flags: int) -> types.CodeType:
    tree = ast.Module(list(body), [])
    found: types.CodeType = compile(tree, name, "exec", flags, dont_inherit=True)
    return found


def codes_in(code: types.CodeType) -> list[types.CodeType]:
    """A code object and all those inside, in the order of the source."""
    found = [code]
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            found += codes_in(each)
    return found


def pairs(before: types.CodeType, after: types.CodeType) -> Any:
    """Pairs of nested code objects of two codes that differ in nothing but hooks."""
    left, right = codes_in(before), codes_in(after)
    if len(left) != len(right):
        return
    for one, other in zip(left, right, strict=True):
        same = one.co_name == other.co_name and one.co_firstlineno == other.co_firstlineno
        same = same and one.co_freevars == other.co_freevars
        if same and set(one.co_varnames) <= set(other.co_varnames):
            yield one, other


def with_hooks(code: types.CodeType, hooks: Any) -> types.CodeType:
    """The code with the hooks in the place of the constant that stands for them."""
    constants = []
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            each = with_hooks(each, hooks)
        constants.append(hooks if each == HOOKS and type(each) is str else each)
    return code.replace(co_consts=tuple(constants))


class Instrumenter(ast.NodeTransformer):
    """Puts hooks into the functions of a statement."""

    def __init__(self) -> None:
        self.depth = 0  # functions around; outside of all there are no hooks
        self.classes: list[str] = []  # whose private names are others
        self.declared: set[str] = set()  # names that are `global` or `nonlocal`
        self.temporaries = 0

    def instrument(self, statement: Any) -> None:
        if isinstance(statement, ast.FunctionDef):
            self.function(statement)  # not visited: it is put into no list of statements
        else:
            self.generic_visit(statement) if not isinstance(
                statement, ast.ClassDef
            ) else self.visit_ClassDef(statement)
        ast.fix_missing_locations(statement)

    # ------------------------------------------------------------------ helpers

    def hook(self, name: str, node: Any, *given: Any, keywords: Any = ()) -> ast.Call:
        function = ast.Attribute(ast.Constant(HOOKS), name, ast.Load())
        made = ast.Call(function, list(given), list(keywords))
        ast.copy_location(function, node)
        ast.copy_location(function.value, node)
        for each in given:
            if not hasattr(each, "lineno"):
                ast.copy_location(each, node)
        return ast.copy_location(made, node)

    def statement(self, name: str, node: Any, *given: Any) -> ast.Expr:
        return ast.copy_location(ast.Expr(self.hook(name, node, *given)), node)

    def text(self, name: str) -> ast.Constant:
        return ast.Constant(name)

    def attribute(self, name: str) -> ast.Constant:
        """The name of an attribute; in classes, names like `__x` mean something else."""
        if self.classes and name.startswith("__") and not name.endswith("__"):
            owner = self.classes[-1].lstrip("_")
            name = f"_{owner}{name}" if owner else name
        return ast.Constant(name)

    def used(self, node: Any, hook: str = "use") -> Any:
        """An operand whose contents may be looked at."""
        is_bool = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        if not self.depth or is_bool or isinstance(node, (*DISPLAYS, ast.BoolOp)):
            return node
        return self.hook(hook, node, node)

    def visit_body(self, body: list[Any]) -> list[Any]:
        made: list[Any] = []
        for each in body:
            if self.depth and self.declared:
                names = header_stores(each) & self.declared
                for name in sorted(names):
                    made.append(self.statement("stored", each, self.text(name)))
            if self.depth and isinstance(each, ASYNC):
                made.append(self.refusal("it is asynchronous", each))
            done = self.visit(each)
            made += done if isinstance(done, list) else [] if done is None else [done]
        return made

    def generic_visit(self, node: Any) -> Any:
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                if value and isinstance(value[0], ast.stmt):
                    setattr(node, name, self.visit_body(value))
                else:
                    setattr(node, name, [self.visited(each) for each in value])
            elif isinstance(value, ast.AST) and name not in ("annotation", "returns"):
                setattr(node, name, self.visit(value))
        return node

    def visited(self, node: Any) -> Any:
        return self.visit(node) if isinstance(node, ast.AST) else node

    def refusal(self, reason: str, node: Any) -> ast.Expr:
        return self.statement("refuse", node, self.text(reason))

    # ------------------------------------------------------------------ scopes

    def function(self, node: ast.FunctionDef) -> None:
        node.decorator_list = [self.visit(each) for each in node.decorator_list]
        self.defaults(node.args)
        outer, self.declared = self.declared, declared_in(node.body)
        self.depth += 1
        has_text = ast.get_docstring(node, clean=False) is not None
        body = node.body[has_text:]
        node.body = [*node.body[:has_text], *self.visit_body(body)] or [ast.Pass()]
        self.depth -= 1
        self.declared = outer

    def defaults(self, args: ast.arguments) -> None:
        args.defaults = [self.visit(each) for each in args.defaults]
        args.kw_defaults = [None if each is None else self.visit(each) for each in args.kw_defaults]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        self.function(node)
        if self.depth:
            made = ast.Attribute(ast.Constant(HOOKS), "made", ast.Load())
            ast.copy_location(made, node)
            ast.copy_location(made.value, node)
            node.decorator_list.append(made)
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> Any:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        self.defaults(node.args)
        outer, self.declared = self.declared, set()
        self.depth += 1
        node.body = self.visit(node.body)
        self.depth -= 1
        self.declared = outer
        return self.hook("made", node, node) if self.depth else node

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        depth, self.depth = self.depth, 0
        outer, self.declared = self.declared, set()
        self.classes.append(node.name)
        node.body = self.visit_body(node.body)
        self.classes.pop()
        self.depth, self.declared = depth, outer
        return [self.refusal("it defines a class", node), node] if depth else node

    # ------------------------------------------------------------------ expressions

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        node.value = self.visit(node.value)
        if not self.depth or not isinstance(node.ctx, ast.Load):
            return node
        return self.hook("attr", node, node.value, self.attribute(node.attr))

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        node.value = self.visit(node.value)
        node.slice = self.key(node.slice)
        if not self.depth or not isinstance(node.ctx, ast.Load):
            return node
        return self.hook("item", node, node.value, self.as_value(node.slice))

    def key(self, node: Any) -> Any:
        if isinstance(node, ast.Tuple):
            node.elts = [self.key(each) for each in node.elts]
            return node
        if isinstance(node, ast.Starred):
            node.value = self.visit(node.value)
            return node
        return self.generic_visit(node) if isinstance(node, ast.Slice) else self.visit(node)

    def as_value(self, node: Any) -> Any:
        """A subscript as an expression: `a:b` becomes slice(a, b)."""
        if isinstance(node, ast.Slice):
            parts = [node.lower, node.upper, node.step]
            none = ast.Constant(None)
            return self.hook("slice", node, *[none if each is None else each for each in parts])
        if isinstance(node, ast.Tuple):
            made = ast.Tuple([self.as_value(each) for each in node.elts], ast.Load())
            return ast.copy_location(made, node)
        return node

    def visit_Call(self, node: ast.Call) -> Any:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        is_bare = not node.args and not node.keywords
        if not self.depth or (name == "super" and is_bare):
            return self.generic_visit(node)
        if name in FRAME_READERS and (is_bare or name in ("eval", "exec")):
            self.generic_visit(node)
            return self.hook("reads_frame", node, self.text(name), node)
        function = self.visit(node.func)
        given = [self.argument(each) for each in node.args]
        for each in node.keywords:
            each.value = self.visit(each.value)
            if each.arg is None:
                each.value = self.hook("mapping", each.value, each.value)
        return self.hook("call", node, function, *given, keywords=node.keywords)

    def argument(self, node: Any) -> Any:
        if not isinstance(node, ast.Starred):
            return self.visit(node)
        node.value = self.hook("iterate", node.value, self.visit(node.value))
        return node

    def visit_Starred(self, node: ast.Starred) -> Any:
        node.value = self.visit(node.value)
        if self.depth and isinstance(node.ctx, ast.Load):
            node.value = self.hook("iterate", node.value, node.value)
        return node

    def display(self, node: Any) -> Any:
        self.generic_visit(node)
        if not self.depth or not isinstance(getattr(node, "ctx", None), (ast.Load, type(None))):
            return node
        return self.hook("new", node, node)

    visit_List = visit_Set = visit_ListComp = visit_SetComp = display
    visit_DictComp = visit_GeneratorExp = display

    def visit_Tuple(self, node: ast.Tuple) -> Any:
        self.generic_visit(node)
        return node

    def visit_Dict(self, node: ast.Dict) -> Any:
        for i, (key, value) in enumerate(zip(node.keys, node.values, strict=True)):
            node.values[i] = self.visit(value)
            if key is not None:
                node.keys[i] = self.visit(key)
            elif self.depth:
                node.values[i] = self.hook("mapping", value, node.values[i])
        return self.hook("new", node, node) if self.depth else node

    def visit_comprehension(self, node: ast.comprehension) -> Any:
        self.generic_visit(node)
        if self.depth:
            node.iter = self.hook("iterate", node.iter, node.iter)
            node.ifs = [self.used(each, "truth") for each in node.ifs]
        return node

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        self.generic_visit(node)
        if self.depth and isinstance(node.op, ast.Mod):  # it may format
            return self.hook("modulo", node, node.left, node.right)
        node.left, node.right = self.used(node.left), self.used(node.right)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        node.operand = self.used(node.operand, "truth" if isinstance(node.op, ast.Not) else "use")
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        self.generic_visit(node)
        node.values = [self.used(each, "truth") for each in node.values]
        return node

    def visit_Compare(self, node: ast.Compare) -> Any:
        self.generic_visit(node)
        if not self.depth or all([isinstance(each, (ast.Is, ast.IsNot)) for each in node.ops]):
            return node
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            made = self.hook("contains", node, node.left, node.comparators[0])
            if isinstance(node.ops[0], ast.In):
                return made
            return ast.copy_location(ast.UnaryOp(ast.Not(), made), node)
        node.left = self.used(node.left)
        node.comparators = [self.used(each) for each in node.comparators]
        return node

    def visit_FormattedValue(self, node: ast.FormattedValue) -> Any:
        self.generic_visit(node)
        node.value = self.used(node.value)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        self.generic_visit(node)
        node.test = self.used(node.test, "truth")
        return node

    # ------------------------------------------------------------------ statements

    def visit_If(self, node: Any) -> Any:
        self.generic_visit(node)
        node.test = self.used(node.test, "truth")
        return node

    visit_While = visit_Assert = visit_If

    def visit_For(self, node: ast.For) -> Any:
        bad = self.depth and has_places(node.target)
        self.generic_visit(node)
        if self.depth:
            node.iter = self.hook("iterate", node.iter, node.iter)
        return [self.refusal("a loop sets an attribute or an element", node), node] if bad else node

    def visit_With(self, node: ast.With) -> Any:
        bad = any([each.optional_vars and has_places(each.optional_vars) for each in node.items])
        self.generic_visit(node)
        if self.depth:
            for each in node.items:
                each.context_expr = self.hook("context", each.context_expr, each.context_expr)
            if bad:
                return [self.refusal("`with` sets an attribute or an element", node), node]
        return node

    def visit_Match(self, node: ast.Match) -> Any:
        node.subject = self.visit(node.subject)
        if self.depth:
            node.subject = self.hook("matched", node.subject, node.subject)
        for case in node.cases:
            case.guard = None if case.guard is None else self.visit(case.guard)
            case.body = self.visit_body(case.body)
        return node

    def visit_Import(self, node: Any) -> Any:
        if not self.depth:
            return node
        names = ast.Tuple([ast.Constant(each.name) for each in node.names], ast.Load())
        module = ast.Constant(getattr(node, "module", None))
        level = ast.Constant(getattr(node, "level", None))
        for each in (*names.elts, names):
            ast.copy_location(each, node)
        return [node, self.statement("imported", node, names, module, level)]

    visit_ImportFrom = visit_Import

    def visit_Assign(self, node: ast.Assign) -> Any:
        node.value = self.visit(node.value)
        if not self.depth:
            return node
        targets = node.targets
        if not any(map(has_places, targets)):
            if any([isinstance(each, (ast.Tuple, ast.List)) for each in targets]):
                if not isinstance(node.value, ast.Tuple):
                    node.value = self.hook("unpack", node.value, node.value)
            return node
        if len(targets) == 1 and not isinstance(targets[0], (ast.Tuple, ast.List)):
            return self.setting(targets[0], node.value, node)
        made: list[Any] = []
        name = self.temporary()
        made.append(self.naming(name, node.value, node))
        for each in targets:
            made += self.spread(each, name, node)
        return made

    def temporary(self) -> str:
        self.temporaries += 1
        return f"__value_of_{self.temporaries}__"

    def naming(self, name: str, value: Any, node: Any) -> Any:
        target = ast.copy_location(ast.Name(name, ast.Store()), node)
        return ast.copy_location(ast.Assign([target], value), node)

    def spread(self, target: Any, name: str, node: Any) -> list[Any]:
        """Statements that assign a variable to a target; hooks set attributes and elements."""
        value: Any = ast.copy_location(ast.Name(name, ast.Load()), node)
        if isinstance(target, (ast.Attribute, ast.Subscript)):
            return [self.setting(target, value, node)]
        if not has_places(target):
            if isinstance(target, (ast.Tuple, ast.List)):
                value = self.hook("unpack", node, value)
            return [ast.copy_location(ast.Assign([target], value), node)]
        later: list[tuple[Any, str]] = []
        for i, each in enumerate(target.elts):
            inner = each.value if isinstance(each, ast.Starred) else each
            if has_places(inner):
                later.append((inner, self.temporary()))
                plain = ast.copy_location(ast.Name(later[-1][1], ast.Store()), node)
                if isinstance(each, ast.Starred):
                    each.value = plain
                else:
                    target.elts[i] = plain
        unpacked = self.hook("unpack", node, value)
        made = [ast.copy_location(ast.Assign([target], unpacked), node)]
        for inner, temporary in later:
            made += self.spread(inner, temporary, node)
        return made

    def setting(self, target: Any, value: Any, node: Any) -> ast.Expr:
        owner = self.visit(target.value)
        if isinstance(target, ast.Attribute):
            return self.statement("set_attr", node, value, owner, self.attribute(target.attr))
        key = self.as_value(self.key(target.slice))
        return self.statement("set_item", node, value, owner, key)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is not None:
            node.value = self.visit(node.value)
            if self.depth and has_places(node.target):
                return self.setting(node.target, node.value, node)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        value = self.visit(node.value)
        if not self.depth:
            return node
        name = self.text(type(node.op).__name__)
        target = node.target
        if isinstance(target, ast.Name):
            old = ast.copy_location(ast.Name(target.id, ast.Load()), target)
            made = self.hook("augment", node, old, name, value)
            return ast.copy_location(ast.Assign([target], made), node)
        owner = self.visit(target.value)
        if isinstance(target, ast.Attribute):
            begun = self.hook("begin_attr", node, owner, self.attribute(target.attr))
            return self.statement("end_attr", node, begun, name, value)
        key = self.as_value(self.key(target.slice))
        begun = self.hook("begin_item", node, owner, key)
        return self.statement("end_item", node, begun, name, value)

    def visit_Delete(self, node: ast.Delete) -> Any:
        if not self.depth:
            return node
        made: list[Any] = []
        for each in node.targets:
            if isinstance(each, ast.Attribute):
                owner = self.visit(each.value)
                made.append(self.statement("del_attr", node, owner, self.attribute(each.attr)))
            elif isinstance(each, ast.Subscript):
                owner, key = self.visit(each.value), self.as_value(self.key(each.slice))
                made.append(self.statement("del_item", node, owner, key))
            else:
                made.append(ast.copy_location(ast.Delete([each]), node))
        return made


def has_places(target: Any) -> bool:
    """Whether a target of an assignment is, or contains, an attribute or an element."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return any(map(has_places, target.elts))
    if isinstance(target, ast.Starred):
        return has_places(target.value)
    return isinstance(target, (ast.Attribute, ast.Subscript))


def declared_in(body: list[Any]) -> set[str]:
    """The names that statements of one function declare `global` or `nonlocal`."""
    found: set[str] = set()
    stack = list(body)
    while stack:
        each = stack.pop()
        if isinstance(each, (ast.Global, ast.Nonlocal)):
            found |= set(each.names)
        if not isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            stack += ast.iter_child_nodes(each)
    return found


def header_stores(statement: Any) -> set[str]:
    """The names that a statement sets itself, and not the statements inside of it."""
    found: set[str] = set()
    stack = [statement]
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {(each.asname or each.name).partition(".")[0] for each in statement.names}
    while stack:
        each = stack.pop()
        if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load):
            found.add(each.id)
        if isinstance(each, ast.ExceptHandler) and each.name:
            found.add(each.name)
        inner = [n for n in ast.iter_child_nodes(each) if not isinstance(n, ast.stmt)]
        if not isinstance(each, ast.Lambda):
            stack += inner
    return found
