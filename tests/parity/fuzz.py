"""Random programs about autograd, run in PyTorch and in tapegrad; all that can be seen must agree.

    python tests/parity/fuzz.py --programs 20000 --workers 2     prints how many agree
    python tests/parity/fuzz.py --seed 1234 --programs 1         one program, with its lines
    python tests/parity/fuzz.py --kind sparse                    more lines about one thing

After every line (in half of the programs: at the end) all tensors are compared: values, shapes,
strides, dtypes, versions, who is a view of whom, who requires grad, the nodes behind them, their
gradients; for the line itself what it raised, its warnings, which hooks it called and with what. A
disagreement is printed as the shortest program that still shows it. fuzz_lines.py has the lines.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import math
import multiprocessing
import os
import pathlib
import random
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from multiprocessing.connection import Connection
from types import CodeType
from typing import Any, NamedTuple

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from fuzz_functions import functions  # noqa: E402
from fuzz_kinds import KINDS, KindWriter  # noqa: E402
from fuzz_lines import VARIABLE, Writer, is_leaf, requires_grad  # noqa: E402

SELF = os.environ.get("TAPEGRAD_PARITY_SELF") == "1"  # PyTorch against itself: a test of this file
SUBJECT: Any = torch if SELF else importlib.import_module("tapegrad")
torch.set_num_threads(1)
torch.set_warn_always(True)
SUBJECT.set_warn_always(True)

# What PyTorch calls an overwritten tensor depends on which views of it still live.
NAMED = re.compile(r", which is output \d+ of [\w:]+,")
# The size that PyTorch reads for a tensor without dimensions is not defined.
SCALAR = re.compile(r"(is out of bounds for dimension 0 with size) \d+")
ADDRESS = re.compile(r"(?<=backward hook )<function \S+|0x[0-9a-f]+")
TURNED = re.compile(r"(v\d+)\.(?:t|squeeze|unsqueeze|transpose)_\(")
# PyTorch also blames the node of a leaf, for hooks that raise.
SINGLE = re.compile(r"float32|\.float\(\)|int64|argmax|tolist")
ANOMALY = "Error detected in torch::autograd::AccumulateGrad"
EITHER = (
    "its base or another view of its base has been modified",
    "Inference tensors cannot be saved for backward",
    "more than one element of the written-to tensor",
    "has been modified by an inplace operation",
    "is a view of a view which was created",
    "The expanded size of the tensor",
    "Inplace update to inference tensor",
)
LATE = ("Inplace update to inference tensor",)


class Program(NamedTuple):
    """Lines, and whether the tensors are looked at after each of them or only in the end."""

    lines: tuple[str, ...]
    peeks: bool


class Difference(NamedTuple):
    """The first thing that the libraries did not agree about."""

    line: int
    what: str
    expected: Any
    found: Any


@lru_cache(4096)
def compiled(line: str) -> CodeType:
    return compile(line, "program", "exec")


def first_line(error: BaseException | Warning) -> str:
    text = str(error).strip()
    line = (text.splitlines() or [""])[0].strip()
    line = line.partition(" (Triggered internally")[0]
    line = SCALAR.sub(r"\1", line)
    return ADDRESS.sub("0x", NAMED.sub("", line)).replace("tapegrad", "torch")


class Machine:
    """One library running a program."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.events: list[Any] = []
        self.scope: dict[str, Any] = {
            "torch": module,
            "copy": copy,
            "doubled": lambda grads: tuple(None if g is None else g * 2 for g in grads),
            "fn": functions(module, self.log),
            "hook": self.hook,
            "pack": self.pack,
            "unpack": self.unpack,
            "leaf": self.leaf,
            "weights": self.weights,
            "kept": self.kept,
            "packed": self.packed,
            "tangent": self.tangent,
            "show": lambda value: self.log("show", value),
        }

    def log(self, name: str, *values: Any) -> None:
        self.events.append((name, *[self.described(v) for v in values]))

    def hook(self, name: str, answer: Callable[..., Any] | None = None) -> Callable[..., Any]:
        def called(*values: Any) -> Any:
            self.log(name, *values)
            return None if answer is None else answer(*values)

        return called

    def pack(self, name: str) -> Callable[[Any], Any]:
        def called(value: Any) -> Any:
            self.log("pack " + name, value)
            return value

        return called

    def unpack(self, name: str, answer: Callable[..., Any] | None = None) -> Callable[[Any], Any]:
        def called(value: Any) -> Any:
            self.log("unpack " + name, value)
            return value if answer is None else answer(value)

        return called

    def leaf(self, shape: Any, start: float, dtype: Any, turned: bool = False, **kw: Any) -> Any:
        """Numbers in steps of a half; `turned`: not in the order of rows."""
        m = self.module
        values = [start + 0.5 * i + 0.25 for i in range(math.prod(shape))]
        if dtype is m.complex128:
            values = [complex(v, 1 - v) for v in values]
        if dtype is m.int64:
            values = [int(v) for v in values]
        t = m.tensor(values, dtype=dtype).reshape(shape)
        if turned and len(shape) > 1:
            t = t.transpose(0, 1).contiguous().transpose(0, 1)
        return t.clone().requires_grad_(kw.get("requires_grad", False))

    def weights(self, t: Any) -> Any:
        m = self.module
        return m.arange(1.0, t.numel() + 1, dtype=m.float64).reshape(t.shape).to(t.dtype)

    def kept(self, grads: Any) -> Any:
        """Gradients as a program may go on with them: how they lie in memory is not compared."""
        self.log("grad", grads)
        packed = self.module.contiguous_format
        return tuple(g if g is None else g.clone(memory_format=packed) for g in grads)

    def packed(self, t: Any) -> Any:
        """A result of operands that do not lie in order: its layout is up to the array library."""
        return t.clone(memory_format=self.module.contiguous_format)

    def tangent(self, function: Callable[[Any], Any], x: Any) -> Any:
        """What becomes of a tangent of `x` that is `x` and a half, in new memory."""
        forward_ad = self.module.autograd.forward_ad
        x = x.detach().clone()
        with forward_ad.dual_level():
            found = forward_ad.unpack_dual(function(forward_ad.make_dual(x, x + 0.5))).tangent
            return self.module.ones(0) if found is None else self.packed(found.detach())

    def described(self, value: Any) -> Any:
        if isinstance(value, self.module.Tensor):
            return (
                tuple(value.shape),
                str(value.dtype).rpartition(".")[2],
                attempt(lambda: value.requires_grad),
                attempt(lambda: value.grad_fn is not None),
                readable(value),
            )
        if isinstance(value, (tuple, list)):
            return tuple(self.described(v) for v in value)
        if isinstance(value, str):
            return value.replace("tapegrad", "torch")
        if isinstance(value, float):
            return Values(value)
        return value

    def run(self, line: str) -> dict[str, Any]:
        """Take a step: what it raised, its warnings and what hooks said."""
        self.events = []
        raised: Any = None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                exec(compiled(line), self.scope)
            except Exception as error:
                raised = type(error).__name__, first_line(error)
        warned = [(w.category.__name__, first_line(w.message)) for w in caught]
        return {
            "raised": raised,
            "warnings": sorted({w for w in warned if not w[1].startswith(ANOMALY)}),
            "events": self.events,
        }

    def tensors(self) -> dict[str, Any]:
        kind = self.module.Tensor
        return {n: v for n, v in self.scope.items() if n[0] == "v" and isinstance(v, kind)}

    def facts(self, tensors: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
        """(tensor, what, value) of everything that can be seen."""
        names = {id(t): n for n, t in tensors.items()}
        counted = not any(t.is_inference() for t in tensors.values())
        for n, t in tensors.items():
            yield n, "shape", tuple(t.shape)
            yield n, "dtype", str(t.dtype).rpartition(".")[2]
            yield n, "stride", strides(t)
            yield n, "offset", t.storage_offset() if t.numel() else None
            yield n, "inference", t.is_inference()
            if counted:  # PyTorch counts its own writes to what is made of inference tensors
                yield n, "version", attempt(lambda t=t: t._version)
            yield n, "is_view", t._is_view()
            base = t._base
            yield n, "base", None if base is None else names.get(id(base), "unnamed")
            yield n, "requires_grad", attempt(lambda t=t: t.requires_grad)
            yield n, "is_leaf", attempt(lambda t=t: t.is_leaf)
            yield n, "output_nr", attempt(lambda t=t: t.output_nr)
            yield n, "has grad_fn", attempt(lambda t=t: t.grad_fn is not None)
            yield n, "grad_fn", attempt(lambda t=t: node_names(t.grad_fn))
            yield n, "values", readable(t)
            yield n, "retains_grad", attempt(lambda t=t: t.retains_grad)
            grad = attempt(lambda t=t: t.grad if t.is_leaf or t.retains_grad else None)
            if isinstance(grad, self.module.Tensor):
                yield n, "grad", self.described(grad)
                if is_leaf(t):
                    yield n, "grad.stride", strides(grad)
            else:
                yield n, "grad", grad


def strides(t: Any) -> Any:
    """Those that lead somewhere: in dimensions with more than one element."""
    return [s for n, s in zip(t.shape, t.stride(), strict=True) if n > 1] if t.numel() else None


def readable(t: Any) -> Any:
    """The values of a tensor; not those of a batch, which each library refuses in its words."""
    try:
        return Values(t.detach().tolist())
    except Exception:
        return "unreadable"


def attempt(action: Callable[[], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return action()
        except Exception as error:
            return type(error).__name__, first_line(error)


def node_names(node: Any) -> Any:
    """The name of a node and of those behind it."""
    if node is None:
        return None
    behind = node.next_functions
    return node.name(), tuple((f and f.name(), slot) for f, slot in behind)


class Values:
    """Nested lists of numbers, equal if they agree to rounding; NaN is equal to itself."""

    tolerance = 1e-9

    def __init__(self, values: Any) -> None:
        self.values = values

    def __repr__(self) -> str:
        return repr(self.values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Values) and close(self.values, other.values, Values.tolerance)

    __hash__ = None  # type: ignore[assignment]


def close(a: Any, b: Any, tolerance: float) -> bool:
    if isinstance(a, list):
        return len(a) == len(b) and all(map(lambda x, y: close(x, y, tolerance), a, b))
    if isinstance(a, complex):
        return close(a.real, b.real, tolerance) and close(a.imag, b.imag, tolerance)
    if isinstance(a, float) and math.isnan(a):
        return math.isnan(b)
    return bool(a == b or math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance / 10))


def spread(line: str, formulas: set[str], reference: Machine) -> None:
    """Add to `formulas` what depends on a pass with create_graph in this line.

    The nodes of such a pass are those of a formula for the gradient, which each library writes as
    it likes: their names are not compared.
    """
    used = set(VARIABLE.findall(line))
    if "create_graph" in line or used & formulas:
        tensors = reference.tensors()
        memories = {id(owner(tensors[n])) for n in used if n in tensors}
        formulas |= used | {n for n, t in tensors.items() if id(owner(t)) in memories}


def owner(t: Any) -> Any:
    return t if t._base is None else t._base


def compare(program: Program) -> Difference | None:
    """Run a program in both libraries, up to the first disagreement."""
    machines = Machine(torch), Machine(SUBJECT)
    formulas: set[str] = set()
    single = any(SINGLE.search(line) for line in program.lines)
    Values.tolerance = 1e-5 if single else 1e-9
    try:
        for i, line in enumerate(program.lines):
            expected, found = (m.run(line) for m in machines)
            spread(line, formulas, machines[0])
            for what in expected:
                if expected["raised"] is not None and "INTERNAL ASSERT" in expected["raised"][1]:
                    return None
                if expected[what] != found[what] and not excused(expected, found):
                    return Difference(i, what, expected[what], found[what])
            if ends(line, expected["raised"], machines[0]):
                return None
            if program.peeks or i == len(program.lines) - 1:
                difference = compare_tensors(i, machines, formulas)
                if difference is not None:
                    return difference
    finally:
        for m in machines:
            m.module.set_grad_enabled(True)
    return None


def excused(expected: dict[str, Any], found: dict[str, Any]) -> bool:
    """Whether two things are wrong with a line: which of them is noticed first is not compared."""
    if expected["raised"] is None or found["raised"] is None:
        return False
    if expected["raised"] == found["raised"]:
        return expected["events"] != found["events"]  # how far it came
    lines = expected["raised"][1], found["raised"][1]
    return any(text in line for text in EITHER for line in lines)


def ends(line: str, raised: Any, reference: Machine) -> bool:
    """Whether a program has come where the libraries are meant to differ.

    PyTorch refuses to write to an inference tensor after it has written. An inference tensor that
    requires grad says so, and nothing comes of it. A tensor that is turned under no_grad keeps its
    node in PyTorch, and gradients that no longer fit. Two leaves of PyTorch can come to share the
    memory of their gradients. `.data` of an inference tensor is one that counts its writes.
    """
    turned = TURNED.search(line)
    if turned and raised is None and requires_grad(reference.scope[turned[1]]):
        off = "no_grad" in line or "set_grad" in line or "inference" in line
        if off or not torch.is_grad_enabled():
            return True
    if shares_gradients(reference):
        return True
    tensors = reference.tensors()
    used = [tensors[n] for n in VARIABLE.findall(line) if n in tensors]
    if any(t.is_inference() for t in used) and (".data" in line or "allow_mutation" in line):
        return True
    if raised is not None and raised[1].startswith(LATE):
        return True
    return any(t.is_inference() and requires_grad(t) for t in reference.tensors().values())


def shares_gradients(reference: Machine) -> bool:
    grads = [t.grad for t in reference.tensors().values() if is_leaf(t) and t.grad is not None]
    different = {id(g): g for g in grads if g.numel()}
    return len({g.data_ptr() for g in different.values()}) < len(different)


def compare_tensors(
    line: int, machines: tuple[Machine, Machine], formulas: set[str]
) -> Difference | None:
    theirs, ours = (m.tensors() for m in machines)
    if list(theirs) != list(ours):
        return Difference(line, "names", list(theirs), list(ours))
    pairs = zip(machines[0].facts(theirs), machines[1].facts(ours), strict=False)
    for (n, what, expected), (_, _, found) in pairs:
        if expected != found and not (what in ("grad_fn", "grad.stride") and n in formulas):
            return Difference(line, f"{n} {what}", expected, found)
    return None


class Kind:
    """The kind that programs are of; empty: they have all lines alike."""

    name = ""


def drawn(seed: int) -> Program:
    """The program of a seed; PyTorch runs along, so that lines can be about what there is."""
    rng = random.Random(seed)
    writer = KindWriter(rng, Kind.name) if Kind.name else Writer(rng)
    machine = Machine(torch)
    lines = [writer.leaf(), writer.leaf()]
    for line in lines:
        machine.run(line)
    try:
        for _ in range(rng.randrange(3, 16)):
            line = writer.line(machine.tensors())
            lines.append(line)
            machine.run(line)
    finally:
        torch.set_grad_enabled(True)
    return Program(tuple(lines), rng.random() < 0.5)


def shrunk(program: Program, what: str) -> tuple[Program, Difference]:
    """The shortest program found by leaving lines out that still disagrees about `what`."""
    best = compare(program)
    assert best is not None
    lines = list(program.lines[: best.line + 1])
    i = len(lines) - 1
    while i >= 0:
        shorter = program._replace(lines=tuple(lines[:i] + lines[i + 1 :]))
        difference = compare(shorter) if shorter.lines else None
        if difference is not None and difference.what.split()[-1] == what:
            lines = list(shorter.lines[: difference.line + 1])
            best = difference
            i = min(i, len(lines))
        i -= 1
    return program._replace(lines=tuple(lines)), best


def check(seed: int) -> tuple[int, Program, Difference] | None:
    """A disagreement of the program of a seed, made short; None if there is none."""
    program = drawn(seed)
    difference = compare(program)
    if difference is None:
        return None
    return seed, *shrunk(program, difference.what.split()[-1])


def told(seed: int, program: Program, difference: Difference) -> str:
    lines = "\n".join(f"    {line}" for line in program.lines)
    looked = "" if program.peeks else " (looked at in the end only)"
    return (
        f"seed {seed}{looked}\n{lines}\n  {difference.what}\n"
        f"    PyTorch:  {difference.expected}\n    tapegrad: {difference.found}"
    )


def likeness(found: tuple[int, Program, Difference]) -> str:
    """Equal for disagreements that probably have one cause."""
    _, program, difference = found
    seen = f"{difference.what} {difference.expected} {difference.found}"
    return re.sub(r"[-\d.e]+", "", program.lines[-1] + seen)[:300]


def work(seeds: range, results: Connection) -> None:
    for seed in seeds:
        results.send(check(seed))


def share(seeds: range) -> tuple[list[Any], list[int]]:
    """What one process after the other finds; a program at which PyTorch crashes ends a process."""
    found: list[Any] = []
    crashed: list[int] = []
    while seeds:
        receiver, sender = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.get_context("fork").Process(target=work, args=(seeds, sender))
        process.start()
        sender.close()
        done = 0
        try:
            while done < len(seeds):
                found.append(receiver.recv())
                done += 1
        except EOFError:
            crashed.append(seeds[done])
            done += 1
        process.join()
        seeds = seeds[done:]
    return [r for r in found if r is not None], crashed


def search(seeds: range, workers: int) -> tuple[list[Any], list[int]]:
    """The disagreements of the programs of these seeds, and where PyTorch crashed."""
    with ThreadPoolExecutor(workers) as pool:
        shares = list(pool.map(share, [seeds[i::workers] for i in range(workers)]))
    found = [r for part in shares for r in part[0]]
    found.sort(key=lambda r: (len(r[1].lines), len(" ".join(r[1].lines)), r[0]))
    return found, sorted(seed for part in shares for seed in part[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--show", type=int, default=20, help="how many disagreements to print")
    parser.add_argument("--kind", choices=KINDS, default="", help="lines to have more of")
    given = parser.parse_args()
    Kind.name = given.kind
    seeds = range(given.seed, given.seed + given.programs)
    if given.programs == 1:
        print("\n".join(drawn(given.seed).lines), "\n")
    found, crashed = search(seeds, given.workers)
    alike: dict[str, list[Any]] = {}
    for result in found:
        alike.setdefault(likeness(result), []).append(result)
    for results in list(alike.values())[: given.show]:
        print(told(*results[0]), f"\n  and {len(results) - 1} like it\n")
    if crashed:
        print("PyTorch crashed at seeds", *crashed)
    agreed = given.programs - len(found) - len(crashed)
    print(f"{agreed} of {given.programs} programs agree")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
