"""Imports point down: the layers of the package, and who may import whom.

A module may import from its own layer and from those before it, at the top of the file and inside
functions alike. The number of exceptions may only fall.
"""

from __future__ import annotations

import ast
import functools
import pathlib
from typing import NamedTuple

import tapegrad

PACKAGE = pathlib.Path(tapegrad.__file__).parent

# From the bottom up. The longest name that fits a module decides: `core.base` is not where `core`
# is. `x.__init__` is the package `x` itself, which its modules need not agree with. A module that
# no row names belongs to PyTorch's names, on top.
LAYERS = {
    "ground": """
        dtypes device core.__init__ core.host_arrays core.late_bound core.mypyc core.named_results
        core.per_thread core.settings core.size utils._pytree utils._pytree_nodes kernels.__init__
        kernels.cpu.__init__ backends.__init__ backends.cudnn _library.__init__ _library.schema
        recorder_for_torch
    """,
    "tensors without ops": """
        core.base core.is_array core.modes core.op core.strides core.thread_modes core.locks
        core.warned
    """,
    "errors": "errors",
    "core": "core",
    "autograd": "autograd errors.nonfinite",
    "expressions": "expressions",
    "kernels": "kernels cuda.allocator cuda.philox",
    "ops": "ops storage cuda.draws cuda.memory cuda.runtime",
    "api": """
        __init__ api amp random overrides _ops _library library cuda backends futures utils.dlpack
        utils.naming
    """,
    "library": """
        nn optim func sparse distributions utils serialization _serialization _utils fft linalg
        masked special signal testing datasets multiprocessing hub api.tensor.sparse_questions
        autograd.__init__ autograd.functional autograd.finite_differences autograd.gradcheck
        autograd.gradcheck_modes autograd.gradcheck_report
    """,
    "programs": "compiler distributed fx onnx export nn.parallel nn.__init__",
    "tools": "diagnose compat stand_in profiler compiler.report.drawing",
    "names": "names nn.quantized",
}
ORDER = list(LAYERS)
LAYER_OF = {name: ORDER.index(layer) for layer in LAYERS for name in LAYERS[layer].split()}

# Imports inside functions that point up, with what makes them necessary. Each runs only when the
# feature is used. What lower layers call more often is a record (core/late_bound.py) that the
# package fills from api/on_demand.py.
LAZY_EXCEPTIONS = {
    ("kernels.cuda.launchers.gates", "ops.nn.leaky_activations"): "CUDA text from the op's formula",
    ("kernels.cuda.launchers.gates", "ops.nn.piecewise_linear"): "CUDA text from the op's formula",
    ("nn.modules.batchnorm", "distributed.nn.functional"): "SyncBatchNorm",
    ("compiler.report.explanation", "compiler.report.drawing"): "a drawing is asked for",
    ("distributed._reducer", "diagnose._why"): "an error that asks `why`",
    ("export", "_dynamo.exc"): "the class of PyTorch's error",
}


STATEMENTS = (ast.stmt, ast.ExceptHandler, ast.match_case)  # an import is no part of an expression


class Import(NamedTuple):
    source: str
    target: str
    lazy: bool

    def __str__(self) -> str:
        return f"{self.source} -> {self.target or 'tapegrad'}{' (lazy)' if self.lazy else ''}"


def name_of(path: pathlib.Path) -> str:
    """`core.base` for core/base.py; "" for the package. names/ is searched like the package."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    if parts[0] == "names":
        parts = parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def modules() -> dict[str, pathlib.Path]:
    return {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def layer_of(module: str) -> int:
    path = modules()[module]
    name = f"{module}.__init__".lstrip(".") if path.stem == "__init__" else module
    while name and name not in LAYER_OF:
        name = name.rpartition(".")[0]
    return LAYER_OF.get(name, ORDER.index("names"))


def module_in(name: str) -> str | None:
    """The module that a dotted name below the package is, or is an attribute of."""
    while name not in modules():
        name = name.rpartition(".")[0]
    return name


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def targets_of(node: ast.AST, here: str, is_package: bool) -> list[str]:
    """What an import statement names, below the package."""
    if isinstance(node, ast.Import):
        names = [a.name for a in node.names]
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            own = ["tapegrad", *[p for p in here.split(".") if p]]
            up = node.level - is_package
            base = ".".join([*own[: len(own) - up], *([base] if base else [])])
        names = [f"{base}.{a.name}" for a in node.names]
    else:
        return []
    return [n.partition(".")[2] for n in names if n.partition(".")[0] == "tapegrad"]


def imports_of(module: str) -> set[Import]:
    path = modules()[module]
    found: set[Import] = set()

    def look(node: ast.AST, lazy: bool) -> None:
        for target in targets_of(node, module, path.stem == "__init__"):
            found.add(Import(module, module_in(target), lazy))
        if is_for_types(node):
            return
        inside = lazy or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for child in ast.iter_child_nodes(node):
            if isinstance(child, STATEMENTS):
                look(child, inside)

    look(ast.parse(path.read_text(encoding="utf-8")), False)
    return found


@functools.cache
def upward() -> frozenset[Import]:
    """The imports that point up. The package itself only gathers names: nobody is above it."""
    everything = {each for module in modules() if module for each in imports_of(module)}
    return frozenset(e for e in everything if layer_of(e.source) < layer_of(e.target))


def test_no_import_at_the_top_of_a_file_points_up():
    assert sorted(str(each) for each in upward() if not each.lazy) == []


def test_imports_inside_functions_point_up_only_where_the_table_says_why():
    lazy = {(each.source, each.target) for each in upward() if each.lazy}
    assert lazy == set(LAZY_EXCEPTIONS), "an exception that is gone leaves the table, too"
    assert len(LAZY_EXCEPTIONS) <= 6


def test_the_table_names_modules_that_exist():
    known = set(modules()) | {f"{name}.__init__".lstrip(".") for name in modules()}
    known |= {name.rpartition(".")[0] for name in modules()} | {"names"}
    assert sorted(name for name in LAYER_OF if name not in known) == []
