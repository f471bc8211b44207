"""``python -m tapegrad check``: the torch names a program uses and tapegrad does not have.

The program is read, not run: names are followed through imports, ``import ... as``, plain
``F = torch.nn.functional`` assignments and Python's scopes, and then looked up in tapegrad.
What comes out of a call has no type here, so of the methods of tensors only those are noticed that
tapegrad lacks and that nothing else is likely to have, such as ``to_mkldnn``.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import json
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from . import remarks
from .remarks import NEED_PYTORCH

# A program may already say `import tapegrad as torch`; its names are checked the same way.
ROOTS = ("torch", "tapegrad")

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True)
class Use:
    """One place where a torch name is used.

    ``guarded``: the program can do without it; ``deferred``: it is asked for in a function.
    """

    name: str
    file: str
    line: int
    guarded: bool
    deferred: bool = False


@dataclass(frozen=True)
class Unreadable:
    """A file that could not be parsed."""

    file: str
    line: int
    message: str


@dataclass
class Report:
    """The result of `check`: uses of names that tapegrad lacks, by the shortest name that is
    missing.
    """

    files: int = 0
    names: set[str] = field(default_factory=set)
    missing: dict[str, list[Use]] = field(default_factory=dict)
    idle: dict[str, list[Use]] = field(default_factory=dict)  # accepted, and changes nothing
    refusing: dict[str, list[Use]] = field(default_factory=dict)  # there, but raise when used
    companions: dict[str, list[Use]] = field(default_factory=dict)  # need PyTorch's binary
    uninstalled: dict[str, list[Use]] = field(default_factory=dict)  # packages, by their names
    unreadable: list[Unreadable] = field(default_factory=list)

    def needed(self) -> dict[str, list[Use]]:
        """The missing names that at least one place cannot do without."""
        return {n: u for n, u in self.missing.items() if not all(use.guarded for use in u)}

    def at_import(self) -> dict[str, list[Use]]:
        """The needed ones that a file asks for when it is imported."""
        return {
            name: uses
            for name, uses in self.needed().items()
            if any(not use.guarded and not use.deferred for use in uses)
        }

    def optional(self) -> dict[str, list[Use]]:
        """The missing names that the program guards everywhere."""
        return {n: u for n, u in self.missing.items() if all(use.guarded for use in u)}


class _Scope:
    """One scope: what each name bound here stands for (None: something that is not torch)."""

    def __init__(self, parent: _Scope | None, is_class: bool = False) -> None:
        self.parent = parent
        self.is_class = is_class
        self.bound: dict[str, str | None] = {}
        self.elsewhere: dict[str, _Scope] = {}

    def module(self) -> _Scope:
        return self if self.parent is None else self.parent.module()

    def bind(self, name: str, target: str | None) -> None:
        scope = self.elsewhere.get(name, self)
        # `try: import torch / except ImportError: torch = None`: the import is what counts.
        if target is not None or name not in scope.bound:
            scope.bound[name] = target

    def find(self, name: str) -> tuple[bool, str | None]:
        """Whether the name is bound in the program, and the torch name it stands for."""
        scope: _Scope | None = self
        while scope is not None:
            # Functions do not see the names of the class around them.
            if name in scope.bound and (scope is self or not scope.is_class):
                return True, scope.bound[name]
            scope = scope.parent
        return False, None


def scan(source: str | bytes, file: str) -> list[Use]:
    """Every use of a torch name in one file, in the order of the text."""
    return _uses(_scanned(source, file))


def _scanned(source: str | bytes, file: str) -> _Scanner:
    tree = ast.parse(source, file)
    scanner = _Scanner(file)
    scanner.open_scope(tree.body, _Scope(None))
    return scanner


def _uses(scanner: _Scanner) -> list[Use]:
    probed = scanner.probed
    uses = [
        Use(
            u.name, u.file, u.line, u.guarded or any(_within(u.name, p) for p in probed), u.deferred
        )
        for u in dict.fromkeys(scanner.uses)
    ]
    return sorted(uses, key=lambda use: use.line)


def _within(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def _as_torch(dotted: str) -> str | None:
    head, dot, rest = dotted.partition(".")
    return f"torch{dot}{rest}" if head in ROOTS else None


class _Scanner(ast.NodeVisitor):
    def __init__(self, file: str) -> None:
        self.file = file
        self.uses: list[Use] = []
        self.written: list[Use] = []  # torch.backends.cudnn.benchmark = True
        self.companions: list[Use] = []  # imports of packages that need PyTorch itself
        self.others: list[Use] = []  # imports that the file cannot do without
        self.probed: set[str] = set()  # names asked for with hasattr or getattr with a default
        self.stars: list[str | None] = []  # modules of `from m import *`, None for another library
        self.scope = _Scope(None)
        self.guards: tuple[str, ...] = ()
        self.functions = 0  # how many we are inside of

    # Scopes

    def open_scope(
        self, body: Iterable[ast.AST], scope: _Scope, parameters: Iterable[str] = ()
    ) -> None:
        """Bind all names of the scope first: a function may use what is imported further down."""
        body = list(body)
        outer, self.scope = self.scope, scope
        for name in parameters:
            scope.bind(name, None)
        own = [node for top in body for node in _nodes_of_scope(top)]
        for node in own:
            if isinstance(node, ast.Global):
                scope.elsewhere.update(dict.fromkeys(node.names, scope.module()))
            elif isinstance(node, ast.Nonlocal) and scope.parent is not None:
                scope.elsewhere.update(dict.fromkeys(node.names, scope.parent))
        for node in own:
            self._bind(node)
        for node in body:
            self.visit(node)
        self.scope = outer

    def _bind(self, node: ast.AST) -> None:
        bind = self.scope.bind
        match node:
            case ast.Import():
                for item in node.names:
                    head = item.name.partition(".")[0]
                    bind(item.asname or head, _as_torch(item.name if item.asname else head))
            case ast.ImportFrom():
                module = _as_torch(node.module or "") if node.level == 0 else None
                for item in node.names:
                    if item.name == "*":
                        self.stars.append(module)
                    else:
                        bind(item.asname or item.name, module and f"{module}.{item.name}")
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Attribute() | ast.Name()):
                dotted = self.dotted(node.value)
                # torch.pi has no names of its own; torch.nn.functional does.
                bind(name, dotted if dotted and _is_container(dotted) else None)
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                bind(name, None)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                bind(name, None)
            case ast.ClassDef(name=name):
                bind(name, None)
            case ast.ExceptHandler(name=str(name)):
                bind(name, None)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                bind(name, None)
            case ast.MatchMapping(rest=str(name)):
                bind(name, None)

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        for outside in _outside_parts(node):
            self.visit(outside)
        a = node.args
        every = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        self.functions += 1
        self.open_scope(body, _Scope(self.scope), [p.arg for p in every])
        self.functions -= 1

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _visit_function

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for outside in _outside_parts(node):
            self.visit(outside)
        self.open_scope(node.body, _Scope(self.scope, is_class=True))

    def _visit_comprehension(self, node: ast.AST) -> None:
        self.open_scope(ast.iter_child_nodes(node), _Scope(self.scope))

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_comprehension

    # Uses

    def _use(self, name: str, node: ast.AST, guarded: bool = False) -> None:
        line = getattr(node, "lineno", 0)
        self.uses.append(Use(name, self.file, line, guarded, self.functions > 0))

    def dotted(self, node: ast.AST) -> str | None:
        """The torch name that an expression such as ``nn.functional.relu`` spells."""
        tail: list[str] = []
        while isinstance(node, ast.Attribute):
            tail.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        target = self.scope.find(node.id)[1]
        return ".".join([target, *reversed(tail)]) if target else None

    def _companion(self, module: str, node: ast.AST) -> None:
        head = module.partition(".")[0]
        use = Use(head, self.file, getattr(node, "lineno", 0), "ImportError" in self.guards)
        if head in NEED_PYTORCH:
            self.companions.append(use)
        elif not (use.guarded or self.functions):
            self.others.append(use)

    def visit_Import(self, node: ast.Import) -> None:
        for item in node.names:
            self._companion(item.name, node)
            name = _as_torch(item.name)
            if name:
                self._use(name, node, "ImportError" in self.guards)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = _as_torch(node.module or "") if node.level == 0 else None
        if node.level == 0:
            self._companion(node.module or "", node)
        for item in node.names:
            if module:
                name = module if item.name == "*" else f"{module}.{item.name}"
                self._use(name, item, "ImportError" in self.guards)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        # Setting an attribute needs only the object that it is set on.
        read = node if isinstance(node.ctx, ast.Load) else node.value
        if read is not node and (whole := self.dotted(node)):
            self.written.append(Use(whole, self.file, node.lineno, False))
        name = self.dotted(read)
        if name is None:
            if read is node and node.attr in absent_methods():
                name = f"torch.Tensor.{node.attr}"
                self._use(name, node, "AttributeError" in self.guards)
            self.generic_visit(node)
        elif isinstance(read, ast.Attribute):
            self._use(name, node, "AttributeError" in self.guards)

    def visit_Name(self, node: ast.Name) -> None:
        torch_stars = [star for star in self.stars if star]
        if not torch_stars or len(torch_stars) < len(self.stars):
            return
        bound, _ = self.scope.find(node.id)
        if not bound and not hasattr(builtins, node.id) and not node.id.startswith("__"):
            candidates = [f"{star}.{node.id}" for star in torch_stars]
            present = [name for name in candidates if missing_part(name) is None]
            self._use((present or candidates)[0], node, "NameError" in self.guards)

    def visit_Call(self, node: ast.Call) -> None:
        match node:
            case ast.Call(
                func=ast.Name(id="getattr" | "hasattr" as how),
                args=[owner, ast.Constant(value=str(attr)), *default],
            ) if owner_name := self.dotted(owner):
                name = f"{owner_name}.{attr}"
                optional = how == "hasattr" or bool(default)
                self._use(name, node, optional or "AttributeError" in self.guards)
                if optional:
                    self.probed.add(name)
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="import_module"),
                args=[ast.Constant(value=str(text)), *_],
            ) if module := _as_torch(text):
                self._use(module, node, "ImportError" in self.guards)
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        outer = self.guards
        if getattr(node.test, "id", getattr(node.test, "attr", "")) == "TYPE_CHECKING":
            self.guards = (*outer, "ImportError")  # never runs
        for statement in (node.test, *node.body):
            self.visit(statement)
        self.guards = outer
        for statement in node.orelse:
            self.visit(statement)

    def _visit_try(self, node: ast.Try | ast.TryStar) -> None:
        outer = self.guards
        self.guards = (*outer, *(n for h in node.handlers for n in _caught(h)))
        for statement in node.body:
            self.visit(statement)
        self.guards = outer
        for rest in (*node.handlers, *node.orelse, *node.finalbody):
            self.visit(rest)

    visit_Try = visit_TryStar = _visit_try


def _nodes_of_scope(top: ast.AST) -> Iterator[ast.AST]:
    """The node and what is below it, without the insides of nested scopes."""
    stack = [top]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            stack.extend(reversed(_outside_parts(node)))
        elif isinstance(node, _COMPREHENSIONS):
            # `:=` inside a comprehension binds in the scope around it.
            stack.extend(n.target for n in ast.walk(node) if isinstance(n, ast.NamedExpr))
        else:
            stack.extend(reversed(list(ast.iter_child_nodes(node))))


def _outside_parts(node: ast.AST) -> list[ast.AST]:
    """Decorators, defaults, annotations, bases: written in a definition, evaluated around it."""
    if isinstance(node, ast.ClassDef):
        return [*node.decorator_list, *node.bases, *node.keywords]
    if isinstance(node, ast.Lambda):
        return [node.args]
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return [*node.decorator_list, node.args, *([node.returns] if node.returns else [])]


def _caught(handler: ast.ExceptHandler) -> Iterator[str]:
    """The exceptions that a handler names, for the three that a missing name raises."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    for kind in kinds:
        if isinstance(kind, ast.Name):
            yield "ImportError" if kind.id == "ModuleNotFoundError" else kind.id


# Looking names up in tapegrad


@functools.cache
def _look_up(dotted: str) -> tuple[str | None, Any]:
    """(None, object), or (the shortest missing prefix, None)."""
    parts = dotted.split(".")
    while parts[1:2] == ["torch"]:
        del parts[1]  # `torch.torch` is there under `run`
    if parts[1:2] in (["ops"], ["classes"]) and parts[2:3] not in (["aten"], ["load_library"]):
        return None, None  # ops of other packages, which they define or look for themselves
    found: Any = importlib.import_module("tapegrad")
    for i, part in enumerate(parts[1:], start=2):
        # Beyond modules and classes a value decides (a version string may be None here).
        if not isinstance(found, ModuleType | type):
            return None, found
        try:
            found = getattr(found, part)
        except AttributeError:
            module = _submodule(found, part)
            if module is None:
                return ".".join(parts[:i]), None
            found = module
        except Exception:
            return None, None  # the name is there, but something it needs is not installed
    return None, found


def _submodule(parent: Any, name: str) -> ModuleType | None:
    if not hasattr(parent, "__path__"):
        return None
    full = f"{parent.__name__}.{name}"
    try:
        return importlib.import_module(full)
    except ModuleNotFoundError as error:
        if error.name == full:
            return None
        raise


@functools.cache
def absent_methods() -> set[str]:
    """Methods of tensors that tapegrad lacks; short names may well be of something else."""
    from ..errors.missing import reasons

    names = {name.removeprefix("Tensor.") for name in reasons() if name.startswith("Tensor.")}
    return {name for name in names if len(name) > 5}


def uninstalled_package(dotted: str) -> str | None:
    """The package of somebody else that a torch name needs and that is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if _look_up(dotted) != (None, None):
            return None
    parts = dotted.split(".")
    for end in range(2, len(parts) + 1):
        try:
            importlib.import_module(".".join(["tapegrad", *parts[1:end]]))
        except ModuleNotFoundError as error:
            package = error.name or ""
            return None if package.partition(".")[0] == "tapegrad" else package
        except Exception:
            return None
    return None


def missing_part(dotted: str) -> str | None:
    """The shortest part of a torch name that tapegrad does not have; None when all is there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _look_up(dotted)[0]


def instead_of(dotted: str) -> str | None:
    """A replacement for a name that is there only to be imported; None if the name works."""
    found = _look_up(dotted)[1]
    own = vars(found) if isinstance(found, FunctionType | type) else {}
    return own.get("absent")


def _is_container(dotted: str) -> bool:
    return missing_part(dotted) is not None or isinstance(_look_up(dotted)[1], ModuleType | type)


# The report


def python_files(path: str) -> list[str]:
    """The file itself, or every Python file below a folder, without hidden folders and venvs."""
    if not os.path.isdir(path):
        return [path]
    files: list[str] = []
    for folder, subfolders, names in os.walk(path):
        subfolders[:] = sorted(
            s
            for s in subfolders
            if not s.startswith(".") and not os.path.exists(os.path.join(folder, s, "pyvenv.cfg"))
        )
        files.extend(os.path.join(folder, n) for n in sorted(names) if n.endswith(".py"))
    return files


def installed_package(name: str) -> str | None:
    """Where an installed package is, by the name it is imported or installed by; None otherwise.

    It is looked for, not imported: importing it may be what fails.
    """
    from importlib import metadata
    from importlib.machinery import PathFinder

    modules = [name.replace("-", "_")]
    try:
        text = metadata.distribution(name).read_text("top_level.txt") or ""
        modules += text.split()
    except metadata.PackageNotFoundError:
        pass
    for module in modules:
        spec = PathFinder.find_spec(module) if module.isidentifier() else None
        if spec is not None and spec.submodule_search_locations:
            return list(spec.submodule_search_locations)[0]
        if spec is not None and spec.origin:
            return spec.origin
    return None


def check_files(paths: Sequence[str]) -> Report:
    """Scan files, folders and installed packages and look every torch name up."""
    report = Report()
    paths = [p if os.path.exists(p) else installed_package(p) or p for p in paths]
    files = list(dict.fromkeys(f for path in paths for f in python_files(path)))
    own = {part for file in files for part in Path(file).with_suffix("").parts}
    for file in files:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # SyntaxWarnings are the program's business
                scanner = _scanned(Path(file).read_bytes(), file)
        except OSError as error:
            report.unreadable.append(Unreadable(file, 0, error.strerror or str(error)))
            continue
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None) or 0
            report.unreadable.append(Unreadable(file, line, getattr(error, "msg", str(error))))
            continue
        report.files += 1
        uses = _uses(scanner)
        for use in dict.fromkeys([*uses, *scanner.written]):
            known = remarks.idle(use.name)
            if known is not None:
                report.idle.setdefault(known, []).append(use)
        for use in scanner.companions:
            report.companions.setdefault(use.name, []).append(use)
        for use in scanner.others:
            if use.name not in own and remarks.is_not_installed(use.name, file):
                report.uninstalled.setdefault(use.name, []).append(use)
        for use in uses:
            report.names.add(use.name)
            missing = missing_part(use.name)
            if missing is not None:
                report.missing.setdefault(missing, []).append(use)
            elif (package := uninstalled_package(use.name)) is not None:
                report.uninstalled.setdefault(package, []).append(use)
            elif instead_of(use.name) is not None:
                report.refusing.setdefault(use.name, []).append(use)
    report.missing = dict(sorted(report.missing.items()))
    report.idle = dict(sorted(report.idle.items()))
    report.refusing = dict(sorted(report.refusing.items()))
    report.companions = dict(sorted(report.companions.items()))
    report.uninstalled = dict(sorted(report.uninstalled.items()))
    return report


def _listing(missing: dict[str, list[Use]], said: Mapping[str, str] | None = None) -> Iterator[str]:
    """Names with their places, and what is said about them."""
    for name, uses in missing.items():
        words = (said or {}).get(name)
        yield f"{name}: {words}" if words else name
        places: dict[tuple[str, str], list[int]] = {}
        for use in uses:
            places.setdefault((use.file, use.name), []).append(use.line)
        for (file, full), lines in places.items():
            where = ", ".join(f"{file}:{line}" for line in dict.fromkeys(lines))
            yield f"    {where}" + (f"  ({full})" if full != name else "")


def to_text(report: Report) -> str:
    """The report for a terminal."""
    lines: list[str] = []
    first, optional = report.at_import(), report.optional()
    later = {name: uses for name, uses in report.needed().items() if name not in first}
    if first:
        lines += ["Missing in tapegrad:", "", *_listing(first), ""]
    if later:
        lines += ["Missing, but asked for in functions only:", "", *_listing(later), ""]
    if optional:
        lines += ["Missing, but guarded by the program:", "", *_listing(optional), ""]
    if report.refusing:
        lines += ["There to be imported, but raise when they are used:", ""]
        told = {name: f"instead, {instead_of(name)}" for name in report.refusing}
        lines += [*_listing(report.refusing, told), ""]
    if report.uninstalled:
        lines += ["Packages that are needed and not installed here:", ""]
        told = {name: remarks.how_to_install(name) for name in report.uninstalled}
        lines += [*_listing(report.uninstalled, told), ""]
    if report.companions:
        lines += ["Compiled against PyTorch's own binary, in whole or in part:", ""]
        told = {n: f"instead, {w}" for n, w in remarks.NEED_PYTORCH.items() if w}
        lines += [*_listing(report.companions, told), ""]
    if report.idle:
        lines += ["Accepted, but nothing changes by it:", ""]
        lines += [*_listing(report.idle, remarks.IDLE), ""]
    files = f"{report.files} file{'' if report.files == 1 else 's'}"
    names = f"{len(report.names)} torch name{'' if len(report.names) == 1 else 's'}"
    kinds = [f"{len(later)} in functions"] if later else []
    kinds += [f"{len(optional)} guarded"] if optional else []
    of_these = f" ({', '.join(kinds)})" if kinds else ""
    lines.append(f"{files}, {names}, {len(report.missing)} missing{of_these}")
    return "\n".join(lines)


def _place(use: Use) -> dict[str, Any]:
    return {"file": use.file, "line": use.line, "name": use.name}


def to_json(report: Report) -> str:
    """The report for a program."""
    missing = [
        {
            "name": name,
            "guarded": all(use.guarded for use in uses),
            "deferred": all(use.guarded or use.deferred for use in uses),
            "uses": [_place(u) for u in uses],
        }
        for name, uses in report.missing.items()
    ]
    refusing = [
        {"name": n, "instead": instead_of(n), "uses": [_place(u) for u in uses]}
        for n, uses in report.refusing.items()
    ]
    idle = [
        {"name": n, "why": remarks.IDLE[n], "uses": [_place(u) for u in uses]}
        for n, uses in report.idle.items()
    ]
    companions = [
        {"name": n, "instead": remarks.NEED_PYTORCH[n], "uses": [_place(u) for u in uses]}
        for n, uses in report.companions.items()
    ]
    uninstalled = [
        {"name": n, "uses": [_place(u) for u in uses]} for n, uses in report.uninstalled.items()
    ]
    unreadable = [vars(u) for u in report.unreadable]
    return json.dumps(
        {
            "files": report.files,
            "names": sorted(report.names),
            "missing": missing,
            "refusing": refusing,
            "idle": idle,
            "companions": companions,
            "uninstalled": uninstalled,
            "unreadable": unreadable,
        },
        indent=2,
        ensure_ascii=False,
    )


def main(paths: Sequence[str], *, as_json: bool = False) -> int:
    """The ``check`` command: 0 nothing missing, 1 something missing, 2 a file was unreadable."""
    report = check_files(paths)
    print(to_json(report) if as_json else to_text(report))
    for bad in report.unreadable:
        where = f"{bad.file}:{bad.line}" if bad.line else bad.file
        print(f"{where}: not checked: {bad.message}", file=sys.stderr)
    if report.unreadable:
        return 2
    return 1 if report.needed() else 0
