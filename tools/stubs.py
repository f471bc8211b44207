"""Type stubs from the published functions, so that editors complete and check them."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import re
import types
from collections.abc import Iterator
from typing import Any

import tapegrad
from tapegrad.api import publish
from tapegrad.core import named_results
from tapegrad.core.base import TensorBase
from tapegrad.ops.block.definition import APIS, Api

HEAD = "# Made by tools/generate.py from the blocks in ops/: do not edit.\n"
IMPORTS = (
    "import builtins\nfrom collections.abc import Sequence\nfrom typing import Any, overload\n"
)
# The modules whose functions are all published: their file, and where `Tensor` comes from.
SPACES = {
    "linalg": "linalg/__init__.pyi",
    "fft": "fft/__init__.pyi",
    "special": "special/__init__.pyi",
    "masked": "masked/__init__.pyi",
    "signal.windows": "signal/windows.pyi",
    "nn.functional": "nn/functional.pyi",
}
SIMPLE = re.compile(r"(bool|int|float|complex|str|None)( \| (bool|int|float|complex|str|None))*")
TENSORS = frozenset(
    [
        "input",
        "mat1",
        "mat2",
        "mat",
        "vec",
        "vec1",
        "vec2",
        "batch1",
        "batch2",
        "mask",
        "index",
        "weight",
        "target",
        "src",
        "source",
    ]
)


def kind_of(parameter: inspect.Parameter) -> str:
    """A type for a parameter: what the code says if it is plain, else what its name says."""
    said = parameter.annotation
    if isinstance(said, str) and SIMPLE.fullmatch(said):
        return " | ".join(
            name if name == "None" else f"builtins.{name}" for name in said.split(" | ")
        )
    if parameter.name in TENSORS and parameter.default is parameter.empty:
        return "Tensor"
    if isinstance(parameter.default, bool):
        return "builtins.bool"
    return "Any"


def parameters(
    function: Any, method: bool, skip: tuple[str, ...] = ("run",), wanted_keywords: bool = False
) -> str:
    """The parameters as a stub lists them. Blocks take `**kwargs` to refuse what is in them."""
    parts: list[str] = []
    star = False
    for i, p in enumerate(inspect.signature(function).parameters.values()):
        if (p.name in skip and i) or (p.kind is p.VAR_KEYWORD and not wanted_keywords):
            continue
        if i == 0 and method:
            parts.append("self")
            continue
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        prefix = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        star = star or p.kind is p.VAR_POSITIONAL
        default = "" if p.default is p.empty else " = ..."
        parts.append(f"{prefix}{p.name}: {kind_of(p)}{default}")
    return ", ".join(parts)


def result_of(doc: str) -> str:
    """The type after the arrow in the first line of a docstring."""
    found = re.search(r"-> *([^:]+):", doc.partition("\n")[0])
    said = found[1].strip() if found else ""
    if " or " in said:
        return "Any"  # it depends on the arguments
    if said.endswith("Tensor"):
        return "Tensor"
    if said in ("bool", "int", "float", "str"):
        return f"builtins.{said}"
    if said.startswith("("):
        return f"tuple[{', '.join(['Tensor'] * (said.count(',') + 1))}]"
    if "Tensors" in said:
        return "tuple[Tensor, ...]"
    return "Any"


def definition(api: Api, name: str, method: bool, writes: bool = False) -> str:
    result = "Tensor" if writes else result_of(api.doc)
    out = "out" not in api.parameters and not method and not api.name.startswith("nn.functional.")
    listed = parameters(api.call, method)
    if out:
        listed = with_out(listed)
    if not writes and api.spoken in named_results.RETURN_TYPES:
        if result == "Any" and "dim" in api.parameters:
            return "\n".join(with_and_without_dim(api, name, method, out))
        result = f"return_types.{api.spoken}"
    return f"def {name}({listed}) -> {result}: ..."


def with_out(listed: str) -> str:
    star = "" if "*" in listed else "*, "
    return f"{listed}, {star}out: Any = ..." if listed else f"{star}out: Any = ..."


def with_and_without_dim(api: Api, name: str, method: bool, out: bool) -> Iterator[str]:
    """`max(input)` is a tensor, `max(input, dim)` has values and indices."""
    first = "self" if method else "input: Tensor"
    forms = [(first, "Tensor")]
    if "other" in api.parameters:
        forms.append((f"{first}, other: Tensor", "Tensor"))
    with_dim = f"{first}, dim: builtins.int | builtins.str, keepdim: builtins.bool = ..."
    forms.append((with_dim, f"return_types.{api.spoken}"))
    for listed, result in forms:
        yield "@overload"
        yield f"def {name}({with_out(listed) if out else listed}) -> {result}: ..."


def return_types_stub() -> str:
    """The results that have named parts."""
    lines = [HEAD, "from typing import NamedTuple\n\nfrom tapegrad import Tensor\n"]
    for name, kind in sorted(named_results.RETURN_TYPES.items()):
        lines.append(f"\nclass {name}(NamedTuple):\n")
        lines += [f"    {field}: Tensor\n" for field in kind._fields]
    return "".join(lines)


def plain_function(name: str, function: Any, method: bool, known: str | None = None) -> str:
    """A function that no block publishes."""
    try:
        listed = parameters(function, method, (), True)
    except (TypeError, ValueError):
        listed = "self, *args: Any, **kwargs: Any" if method else "*args: Any, **kwargs: Any"
    said = getattr(function, "__annotations__", {}).get("return", "")
    result = known or "Any"
    if known is None and isinstance(said, str) and SIMPLE.fullmatch(said):
        result = " | ".join(n if n == "None" else f"builtins.{n}" for n in said.split(" | "))
    return f"def {name}({listed}) -> {result}: ..."


def space_stub(space: str) -> str:
    """The stub of a module such as `linalg`."""
    prefix = f"{space}."
    imports = "\nfrom tapegrad import Tensor\nfrom tapegrad.names import return_types\n\n"
    lines = [HEAD, IMPORTS, imports]
    found = {n.removeprefix(prefix): api for n, api in APIS.items() if n.startswith(prefix)}
    module = tapegrad
    for part in space.split("."):
        module = getattr(module, part)
    names = set(found) | {
        n for n, v in vars(module).items() if not n.startswith("_") and is_own(module, v)
    }
    for name in sorted(names):
        if name in found:
            lines.append(definition(found[name], name, False) + "\n")
        else:
            lines.append(plain_or_class(name, getattr(module, name)))
    return "".join(lines)


def is_own(module: Any, value: Any) -> bool:
    return getattr(value, "__module__", None) == module.__name__


def plain_or_class(name: str, value: Any) -> str:
    if isinstance(value, type):
        return f"class {name}({value.__base__.__name__}): ...\n"
    return plain_function(name, value, False) + "\n"


# What no block and no annotation says: the attributes and methods of tensors that people use most.
KNOWN = {
    "data": "Tensor",
    "device": "device",
    "dtype": "dtype",
    "grad": "Tensor | None",
    "grad_fn": "Node | None",
    "imag": "Tensor",
    "is_cpu": "builtins.bool",
    "is_cuda": "builtins.bool",
    "is_leaf": "builtins.bool",
    "is_meta": "builtins.bool",
    "item": "builtins.int | builtins.float | builtins.bool",
    "itemsize": "builtins.int",
    "nbytes": "builtins.int",
    "ndim": "builtins.int",
    "real": "Tensor",
    "requires_grad": "builtins.bool",
    "shape": "Size",
    "H": "Tensor",
    "T": "Tensor",
    "mH": "Tensor",
    "mT": "Tensor",
    "_version": "builtins.int",
    "__iter__": "Iterator[Tensor]",
    "detach": "Tensor",
    "detach_": "Tensor",
    "fill_diagonal_": "Tensor",
    "numpy": "ndarray[Any, Any]",
    "permute": "Tensor",
    "requires_grad_": "Tensor",
    "reshape": "Tensor",
    "to_dense": "Tensor",
    "to_sparse": "Tensor",
    "view": "Tensor",
}
TENSOR_IMPORTS = """\
import builtins
from collections.abc import Iterator, Sequence
from typing import Any, overload

from numpy import ndarray

from ...core.base import Node
from ...device import device
from ...dtypes import dtype
from ...core.size import Size
from ...names import return_types
"""


def tensor_stub() -> str:
    """The stub of `_tensor`: the class with every method, and the module's helpers."""
    lines = [HEAD, TENSOR_IMPORTS, "\n"]
    module = inspect.getmodule(tapegrad.Tensor)
    lines += ["class Tensor:\n", "    def __init__(self, *args: Any, **kwargs: Any) -> None: ...\n"]
    lines += [f"    {line}\n" for text in members() for line in text.splitlines()]
    lines.append("\n")
    for name, value in sorted(vars(module).items()):
        if isinstance(value, types.FunctionType) and value.__module__ == module.__name__:
            lines.append(plain_function(name, value, False) + "\n")
    return "".join(lines)


FIELDS = frozenset(TensorBase.__slots__)  # of the plain core, which this always runs on


def members() -> Iterator[str]:
    published = {}
    for name, api in APIS.items():
        if api.method:
            published[name] = (api, False)
        if api.inplace and "." not in name:
            published[f"{name}_"] = (api, True)
    for name in sorted(dir(tapegrad.Tensor)):
        value = inspect.getattr_static(tapegrad.Tensor, name)
        if name in FIELDS or isinstance(value, property):
            yield f"{name}: {KNOWN.get(name, 'Any')}"
        elif name in published:
            api, writes = published[name]
            text = definition(api, name, True, writes)
            if name in KNOWN:
                text = f"{text.rpartition(' -> ')[0]} -> {KNOWN[name]}: ..."
            yield text
        elif isinstance(value, (bool, int)):
            yield f"{name}: builtins.{type(value).__name__}"
        elif isinstance(value, types.FunctionType) and wanted(name):
            yield plain_function(name, value, True, KNOWN.get(name))
        elif isinstance(value, staticmethod) and name.startswith("_") and not wanted(name):
            yield f"{name}: Any"
    for name in OPERATORS.split():
        yield f"def {name}(self, other: Any) -> Tensor: ..."
    for name in UNARY.split():
        yield f"def {name}(self) -> Tensor: ..."
    yield "def __eq__(self, other: Any) -> Tensor: ...  # type: ignore[override]"
    yield "def __ne__(self, other: Any) -> Tensor: ...  # type: ignore[override]"
    yield "def __getitem__(self, index: Any) -> Tensor: ..."
    yield "def __setitem__(self, index: Any, value: Any) -> None: ..."


# What core/operators.py compiles; Python cannot ask it for signatures.
OPERATORS = """
    __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __floordiv__
    __rfloordiv__ __mod__ __rmod__ __pow__ __rpow__ __matmul__ __rmatmul__ __and__ __rand__ __or__
    __ror__ __xor__ __rxor__ __lshift__ __rlshift__ __rshift__ __rrshift__ __lt__ __le__ __gt__
    __ge__ __iadd__ __isub__ __imul__ __itruediv__
"""
UNARY = "__neg__ __pos__ __abs__ __invert__"
COMPILED = frozenset(
    f"{OPERATORS} {UNARY} __eq__ __ne__ __getitem__ __setitem__ __init__ __new__".split()
)


def wanted(name: str) -> bool:
    if name in COMPILED or name == "__class_getitem__":
        return False
    return not name.startswith("_") or (name.startswith("__") and name in DUNDERS)


DUNDERS = frozenset(
    [
        "__len__",
        "__iter__",
        "__contains__",
        "__float__",
        "__int__",
        "__bool__",
        "__index__",
        "__complex__",
        "__array__",
        "__format__",
        "__dlpack__",
        "__dlpack_device__",
    ]
)


def folder_of(module: str) -> str:
    """Where a type checker finds a module: it does not know that names/ is searched as well."""
    found = importlib.util.find_spec(f"tapegrad.{module}")
    assert found is not None and found.origin is not None
    return ".names" if "/tapegrad/names/" in found.origin else "."


def package_stub() -> str:
    """The stub of `tapegrad` itself."""
    lines = [HEAD, IMPORTS, "\n"]
    modules = sorted(n for n in tapegrad._SUBMODULES if not n.startswith("_"))
    for name in modules:
        lines.append(f"from {folder_of(name)} import {name} as {name}\n")
    for name, module in sorted(tapegrad._LAZY.items()):
        where = folder_of(module).rstrip(".")
        lines.append(f"from {where}.{module} import {name} as {name}\n")
    lines.append("from .api.tensor.tensor import Tensor as Tensor\n")
    functions: list[str] = []
    names = {n for n in vars(tapegrad) if not n.startswith("_")} | {
        n for n in publish.FAMILY_OF if "." not in n
    }
    for name in sorted(names - set(modules)):
        value = getattr(tapegrad, name)
        if isinstance(value, types.ModuleType) or name in ("Any", "Tensor", "annotations"):
            continue
        if name in APIS and APIS[name].function:
            functions.append(definition(APIS[name], name, False))
        elif name.endswith("_") and name[:-1] in APIS:
            functions.append(definition(APIS[name[:-1]], name, False, True))
        elif isinstance(value, type) and value.__module__.startswith("tapegrad."):
            where = value.__module__.removeprefix("tapegrad")
            lines.append(f"from {where} import {value.__name__} as {name}\n")
        elif isinstance(value, types.FunctionType):
            functions.append(plain_function(name, value, False))
        else:
            kind = type(value)
            simple = kind.__module__ == "builtins" and kind is not type(None)
            functions.append(f"{name}: {'builtins.' + kind.__name__ if simple else 'Any'}")
    functions += [f"{n}: Any" for n in ("__version__",)]
    return "".join([*lines, "\n", *[f"{line}\n" for line in functions]])


def names_stub(space: str) -> str:
    """The stub of a module that only collects names: a name that is not there is an error."""
    module = importlib.import_module(f"tapegrad.{space}")
    depth = "." * (space.count(".") + 1)
    lines = [HEAD, "from typing import Any\n\n"]
    known = []
    inner = [m.name for m in pkgutil.iter_modules(module.__path__) if not m.name.startswith("_")]
    for name in sorted({*module.__all__, *inner}):
        value = getattr(module, name)
        home = value.__name__ if isinstance(value, types.ModuleType) else value.__module__
        if isinstance(value, types.ModuleType):
            lines.append(f"from . import {name} as {name}\n")
        elif isinstance(value, (type, types.FunctionType)) and home.startswith("tapegrad."):
            inside = home.removeprefix(f"tapegrad.{space}")
            path = inside if inside != home else depth + "." + home.removeprefix("tapegrad.")
            lines.append(f"from {path} import {value.__name__} as {name}\n")
        else:
            known.append(f"{name}: Any\n")
    return "".join([*lines, *known])


def stubs() -> dict[str, str]:
    """Every stub, by its path below the package."""
    made = {path: space_stub(space) for space, path in SPACES.items()}
    made["api/tensor/tensor.pyi"] = tensor_stub()
    made["__init__.pyi"] = package_stub()
    made["nn/__init__.pyi"] = names_stub("nn")
    made["names/return_types.pyi"] = return_types_stub()
    return made
