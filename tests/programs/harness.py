"""Programs written once in the torch API and run twice: under PyTorch and under tapegrad.

A program is a function `f(torch, log)`. Every `log(...)` becomes one entry of its transcript. `make
golden` records the transcripts of real PyTorch into tests/golden/; `make test` replays the programs
under tapegrad against them, and `make parity` checks that the recordings still are what PyTorch
does.
"""

from __future__ import annotations

import functools
import importlib
import json
import math
import pathlib
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

HERE = pathlib.Path(__file__).parent
GOLDEN = HERE.parent / "golden"

Program = Callable[[Any, "Log"], None]


def program(function: Program) -> Program:
    """Mark a function as a program; the name must be unique in its module."""
    function.is_program = True  # type: ignore[attr-defined]
    return function


class Log:
    """The transcript of one run."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.entries: list[Any] = []

    def __call__(self, *values: Any) -> None:
        self.entries.append([describe(self.torch, v) for v in values])

    def raises(self, action: Callable[[], Any]) -> None:
        """Log the class and first line of what `action` raises, or the value it returns."""
        try:
            value = action()
        except Exception as error:
            self.entries.append(["raises", *describe_error(error)])
        else:
            self.entries.append(["returns", describe(self.torch, value)])

    def warns(self, action: Callable[[], Any]) -> None:
        """Log the warnings (class and first line) that `action` gives, then its value."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.raises(action)
        self.entries.append(
            ["warns", [[w.category.__name__, first_line(w.message)] for w in caught]]
        )

    def graph(self, tensor: Any, limit: int = 60) -> None:
        """Log the node names of a graph, breadth first, each with the names behind its edges."""
        queue, seen, rows = [tensor.grad_fn], set(), []
        while queue and len(rows) < limit:
            node = queue.pop(0)
            if node is None or node in seen:
                continue
            seen.add(node)
            behind = [n for n, _ in node.next_functions]
            rows.append([node.name(), [n.name() if n is not None else None for n in behind]])
            queue.extend(behind)
        self.entries.append(["graph", rows])


def first_line(message: object) -> str:
    text = str(message).strip()
    line = text.splitlines()[0].strip() if text else ""
    return line.partition(" (Triggered internally at")[0]  # a place in PyTorch's C++ sources


def describe_error(error: BaseException) -> list[str]:
    return [type(error).__name__, first_line(error)]


def describe(torch: Any, value: Any) -> Any:
    """A JSON value that holds everything about `value` that both libraries must agree on."""
    if isinstance(value, torch.Tensor):
        return describe_tensor(torch, value)
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return {"float": number(value)}
    if isinstance(value, complex):
        return {"complex": [number(value.real), number(value.imag)]}
    if isinstance(value, dict):
        return {"dict": [[describe(torch, k), describe(torch, v)] for k, v in value.items()]}
    if isinstance(value, (tuple, list, torch.Size)):
        kind = "list" if type(value) is list else type(value).__name__
        return {kind: [describe(torch, v) for v in value]}
    if isinstance(value, BaseException):
        return describe_error(value)
    if isinstance(value, (torch.dtype, torch.device)):
        return str(value)
    if hasattr(value, "next_functions"):
        return {"node": value.name()}
    if type(value).__module__ == "numpy":
        return {"numpy": [str(value.dtype), list(value.shape), flat(value.tolist())]}
    return {"object": type(value).__name__}


def describe_tensor(torch: Any, t: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "dtype": str(t.dtype),
        "shape": list(t.shape),
        "stride": list(t.stride()),
        "values": flat(t.detach().tolist()),
        "version": None if t.is_inference() else t._version,
        "requires_grad": t.requires_grad,
        "is_leaf": t.is_leaf,
        "grad_fn": None if t.grad_fn is None else t.grad_fn.name(),
    }
    if type(t) is not torch.Tensor:
        facts["class"] = type(t).__name__
    return facts


def flat(values: Any) -> list[Any]:
    """Nested lists of numbers as one flat list of JSON numbers."""
    if not isinstance(values, list):
        values = [values]
    out: list[Any] = []
    for v in values:
        if isinstance(v, list):
            out.extend(flat(v))
        elif isinstance(v, complex):
            out.append([number(v.real), number(v.imag)])
        elif isinstance(v, float):
            out.append(number(v))
        else:
            out.append(v)
    return out


def number(x: float) -> Any:
    return x if math.isfinite(x) else str(x)


def run(function: Program, torch: Any) -> list[Any]:
    """The transcript of `function` under `torch`; an exception that escapes is its last entry."""
    log = Log(torch)
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function(torch, log)
        except Exception as error:
            log.entries.append(["escaped", *describe_error(error)])
    return json.loads(json.dumps(log.entries))


# Per dtype, relative: a few units in the last place. Numbers without a dtype count as float32.
TOLERANCE = {"torch.float64": 1e-12, "torch.complex128": 1e-12, "torch.float16": 1e-3}


# Programs whose numbers pass through many sums in single precision, where two ways of adding that
# are equally close to the exact numbers (1.7e-7 here, PyTorch and the kernels in C) end up apart.
ROUGH = {"rnn_in_all_forms": 4e-6}


def same(a: Any, b: Any, tolerance: float = 2e-6) -> bool:
    """Equal, with floats compared to a relative tolerance."""
    if isinstance(a, float) or isinstance(b, float):
        if isinstance(a, (int, float)) and isinstance(b, (int, float)):
            return math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance / 20)
        return False
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        dtype = str(a.get("dtype", ""))
        tolerance = TOLERANCE.get(dtype, tolerance)
        of_key = {"values": same_complex} if dtype.startswith("torch.complex") else {}
        return a.keys() == b.keys() and all(of_key.get(k, same)(a[k], b[k], tolerance) for k in a)
    return type(a) is type(b) and (a == b or (isinstance(a, str) and as_in_python_311(a) == b))


# What newer Pythons say themselves, and what Python 3.11, which made the recordings, says there.
NEWER_PYTHON = (
    (r"without an implementation for (abstract method) '(\w+)'$", r"with \1 \2"),
    ("^missing a required keyword-only argument", "missing a required argument"),
    ("^division by zero$", "integer division or modulo by zero"),
    (r"\['forkserver', 'fork', 'spawn'\]", "['fork', 'spawn', 'forkserver']"),
    (r"OrderedDict\(\{'(\w)': (\w+), '(\w)': (\w+)\}\)", r"OrderedDict([('\1', \2), ('\3', \4)])"),
)


def as_in_python_311(text: str) -> str:
    if sys.version_info < (3, 12):
        return text
    for newer, older in NEWER_PYTHON:
        text = re.sub(newer, older, text)
    return text


def same_complex(a: Any, b: Any, tolerance: float) -> bool:
    """Lists of pairs: rounding goes by the length of a number, not by each of its parts."""
    if not isinstance(a, list) or not isinstance(b, list) or len(a) != len(b):
        return False
    for x, y in zip(a, b, strict=True):
        parts = [*x, *y] if isinstance(x, list) and isinstance(y, list) else [""]
        if all(isinstance(part, float) for part in parts):
            length = math.hypot(*y)
            if math.hypot(x[0] - y[0], x[1] - y[1]) > tolerance * length + tolerance / 20:
                return False
        elif not same(x, y, tolerance):
            return False
    return True


def same_entry(program: str, a: Any, b: Any) -> bool:
    """`same` for an entry of a program's transcript."""
    return same(a, b, ROUGH.get(program, 2e-6))


def modules() -> list[str]:
    return sorted(p.stem for p in HERE.glob("prog_*.py"))


def programs(module: str) -> Iterator[tuple[str, Program]]:
    namespace = importlib.import_module(f"programs.{module}")
    for name, value in list(vars(namespace).items()):
        if getattr(value, "is_program", False):
            yield name, value


@functools.cache
def golden(module: str) -> dict[str, list[Any]]:
    path = GOLDEN / f"{module}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def record(module: str, torch: Any) -> None:
    rows = {name: run(function, torch) for name, function in programs(module)}
    lines = [f"{json.dumps(name)}: {json.dumps(entries)}" for name, entries in rows.items()]
    GOLDEN.mkdir(exist_ok=True)
    (GOLDEN / f"{module}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
