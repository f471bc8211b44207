"""Calls with hostile arguments, made in PyTorch and in tapegrad; both must raise the same class.

    python tests/fuzz/hostile.py --each 40 --seed 0      compares, prints the differences and counts
    python tests/fuzz/hostile.py --only index_fill       only names that contain this text
    python tests/fuzz/hostile.py --each 1 --record       writes tests/golden/hostile_calls.json

Every public function, Tensor method (also unbound) and layer is called with lists, None, texts,
huge numbers, NaN, wrong dtypes, empty and 0-d tensors, too many and too few arguments. A case is
the text of a call, so it can be pasted into a session. A case depends on its name, its number and
the seed, not on the other cases. The calls run in child processes: one that crashes, hangs or asks
for much memory costs only itself. `test_hostile_calls.py` runs the recorded part without PyTorch.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import importlib
import inspect
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

GOLDEN = os.path.join(os.path.dirname(__file__), "..", "golden", "hostile_calls.json")
SECONDS = 30  # for one call: a large layer takes some on a busy machine
ROOM = 1 << 31  # bytes that one process may take besides those of its imports

# What an argument is replaced with. Small sizes only, where a function may honestly fill them.
HUGE = ["2**31", "2**40", "2**62", "2**63 - 1", "2**63", "2**64", "10**30", "-2**63", "-10**30"]
PLAIN = """
None | 0 | 1 | -1 | 2 | 5 | -7 | 1.5 | nan | inf | -inf | True | 'x' | b'y' | 3+4j | object()
slice(None) | {} | [] | () | [0] | [1, 2] | (0, 1) | (3, -1) | (0, 0) | [[1, 2], [3]] | [None]
['a'] | 'mean' | 'sum' | 'none' | torch.float64 | torch.int32 | torch.strided | torch.Tensor | int
np.ones(2) | np.float32(1.5) | np.int64(1) | [torch.ones(2), torch.ones(2)] | (torch.ones(2), None)
torch.tensor(1.0) | torch.tensor(-5) | torch.tensor(nan) | torch.ones(2, 3) | torch.zeros(0)
torch.ones(3, 2).t() | torch.zeros(2, 0) | torch.tensor([0, 1]) | torch.tensor([5, -9])
torch.tensor([True, False]) | torch.ones(2, 2, dtype=torch.complex64) | torch.ones(3).expand(2, 3)
torch.ones(2, dtype=torch.float16) | torch.ones(2, 3, requires_grad=True) | torch.tensor(True)
torch.ones(2, 3, 4, 5) | torch.zeros(2, 3, dtype=torch.uint8) | torch.zeros(0, dtype=torch.int64)
torch.ones(2, 3, dtype=torch.float64) | torch.zeros(1, 0, 2) | 'cpu' | 1e300 | 2**31
2**63 | -10**30
"""
VALUES = [v.strip() for line in PLAIN.strip().splitlines() for v in line.split("|")]
INPUTS = ["torch.ones(2, 3)", "torch.zeros(0)", "torch.tensor(2.0)", "torch.arange(6).view(2, 3)"]
# Functions that change what later calls do, need another process or a file, or only warn.
LEFT_OUT = re.compile(
    r"^(set_|use_|_|get_rng|.*seed|load|save|compile|vmap|from_file|hub|fork|wait|import|.*_storage_"
    r"|Tensor\.(_|register_|backward|share_memory|storage|untyped_storage|set_|cuda|xpu|to_dense|hpu"
    r"|ipu|pin_memory|is_pinned|data_ptr|__(init|new|class|dir|hash|subclass|reduce|set|getattr|del"
    r"|weak|dict|module|doc|format|sizeof|repr|str|dlpack|cuda|torch))|.*initial_seed|is_deployable"
    r"|empty|Tensor\.new_empty|Tensor\.resize|Tensor\.(record_stream|new|module_load)|rand|poisson"
    r"|bernoulli|multinomial|normal|dropout|Tensor\.(random|normal|uniform|cauchy|exponential|geom"
    r"|log_normal|bernoulli|multinomial)|.*(dropout|rrelu|gumbel|fractional)|quant|.*unsafe|fbgemm"
    r"|.*q_|.*miopen|cudnn|mkldnn|.*mkldnn|autocast|.*_symint|typename|nn\.(Parallel|Quant|Fuse|Dat"
    r"|Lazy|Container|Module)|show_config|cond|while_loop|sym_|.*Storage|.*Sparse.*|.*sparse.*|"
    r".*int_repr|.*dequantize|classproperty|prepare_multi|segment_reduce|Generator|Stream|Event)"
)


# ---------------------------------------------------------------------- cases


def public_names() -> list[str]:
    """Functions, methods and layers that tapegrad publishes, sorted."""
    import tapegrad
    from tapegrad.api.publish import load_everything
    from tapegrad.ops.block.definition import APIS

    load_everything()
    names = {name for name, api in APIS.items() if api.function}
    names |= {f"Tensor.{n}" for n in dir(tapegrad.Tensor) if callable(getattr(tapegrad.Tensor, n))}
    names |= {n for n in dir(tapegrad) if inspect.isfunction(getattr(tapegrad, n, None))}
    names |= {f"nn.{n}" for n in dir(tapegrad.nn) if inspect.isclass(getattr(tapegrad.nn, n))}
    return sorted([n for n in names if not LEFT_OUT.match(n)])


def sample_texts(name: str) -> list[list[str]]:
    """The arguments of the sample calls of an op, as texts: what a mutation starts from."""
    from tapegrad.ops.block.definition import APIS
    from tapegrad.ops.block.samples import Draw, Index

    def text(value: Any) -> str:
        if isinstance(value, Draw):
            fill = 0.5 if value.low <= 0.5 < value.high else (value.low + value.high) / 2
            return f"torch.full({value.shape}, {fill})"
        if isinstance(value, Index):
            return f"torch.tensor({value.values.tolist()})"
        if isinstance(value, (list, tuple)):
            inner = ", ".join([text(v) for v in value])
            if isinstance(value, list):
                return f"[{inner}]"
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        return str(value) if str(value).startswith("torch.") else repr(value)

    api = APIS.get(name) or APIS.get(name.removeprefix("Tensor.").rstrip("_"))
    found = []
    for case in api.samples if api is not None else ():
        texts = [text(a) for a in case.args] + [f"{k}={text(v)}" for k, v in case.kwargs.items()]
        if not any(["<" in t or "array(" in t or len(t) > 200 for t in texts]):
            found.append(texts)
    return found


def layer_texts(name: str) -> list[list[str]]:
    """Small numbers for the parameters that a layer cannot do without."""
    import tapegrad

    parameters = inspect.signature(getattr(tapegrad.nn, name.removeprefix("nn."))).parameters
    needed = [
        p for p in parameters.values() if p.default is p.empty and p.kind is not p.VAR_KEYWORD
    ]
    return [["2"] * len(needed), [f"{p.name}=3" for p in needed], ["1"] * (len(needed) + 2)]


def mutated(texts: list[str], draw: random.Random) -> list[str]:
    """A sample call with one argument replaced, left out or added."""
    texts = list(texts)
    value = draw.choice(VALUES + HUGE)
    kind = draw.random()
    if not texts or kind < 0.1:
        if not any(["=" in t.partition("(")[0] for t in texts]):
            texts.append(value)
    elif kind < 0.17:
        del texts[draw.randrange(len(texts))]
    else:
        at = draw.randrange(len(texts))
        keyword = re.match(r"[a-z_]+=", texts[at])
        texts[at] = (keyword.group() if keyword else "") + value
    return texts


def cases_of(name: str, count: int, seed: int) -> list[str]:
    """Texts of hostile calls of one function, method or layer."""
    layer = name.startswith("nn.") and name.count(".") == 1
    samples = layer_texts(name) if layer else sample_texts(name)
    found: dict[str, None] = {}
    for number in range(count):
        draw = random.Random(f"{name} {number} {seed}")
        if samples and draw.random() < 0.6:
            texts = mutated(draw.choice(samples), draw)
        else:
            texts = [draw.choice(VALUES) for _ in range(draw.randint(0, 3))]
            if not layer:
                texts.insert(0, draw.choice(draw.choice([INPUTS, VALUES])))
        call = f"torch.{name}({', '.join(texts)})"
        if layer:
            call += f"({draw.choice([*INPUTS, 'torch.ones(2, 3, 4)', 'torch.ones(2, 2, 5, 5)'])})"
        found[call] = None
    return list(found)


# ---------------------------------------------------------------------- running them


def outcome(call: str, names: dict[str, Any]) -> tuple[str, str]:
    """The class of what a call raises, or "ok", and what it says or gives."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = eval(call, dict(names))
            return "ok", described(found, names["torch"])
    except Exception as error:
        kind = type(error)
        known = kind.__name__ if kind.__module__ == "builtins" else kind.__mro__[1].__name__
        return known, str(error)[:300]


def described(value: Any, torch: Any) -> str:
    """The kind of a result, with dtype and shape: its values are for other tests."""
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {tuple(value.shape)}"
    if isinstance(value, (list, tuple)) and len(value) < 9:
        return f"[{', '.join([described(v, torch) for v in value])}]"
    return type(value).__name__


def serve(module: str) -> None:
    """Read calls, one a line, and write what each does: the child process."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    torch = importlib.import_module(module)
    names = {"torch": torch, "np": np, "nan": float("nan"), "inf": float("inf")}
    outcome("torch.linalg.svd(torch.ones(2, 2))", names)  # loads what takes memory
    torch.set_num_threads(1)
    np.seterr(all="ignore")
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        signal.alarm(SECONDS)  # not handled: a call in C that never returns ends the process too
        kind, said = outcome(json.loads(line), names)
        signal.alarm(0)
        answers.write(json.dumps([kind, said]) + "\n")
        if int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) > ROOM >> 10:
            answers.write("full\n")
            return


class Child:
    """A process that makes calls in one of the two libraries."""

    def __init__(self, module: str, folder: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--serve", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=folder,
        )
        self.asked = 0

    def ask(self, call: str) -> tuple[str, str] | None:
        """What a call does; "crash" or "hang" if the process did not survive it."""
        to, back = self.process.stdin, self.process.stdout
        assert to is not None and back is not None
        try:
            to.write(json.dumps(call) + "\n")
            to.flush()
        except BrokenPipeError:
            return None
        line = back.readline()
        if line == "full\n":
            return None
        if line:
            self.asked += 1
            kind, said = json.loads(line)
            return kind, said
        code = self.process.wait()
        if not self.asked and code != -signal.SIGALRM:
            self.asked = -1
        return ("hang" if code == -signal.SIGALRM else "crash"), f"exit status {code}"

    def close(self) -> None:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self.process.stdin.close()  # type: ignore[union-attr]
            self.process.wait(5)
        self.process.kill()
        self.process.wait()


def outcomes(module: str, calls: list[str]) -> Iterator[tuple[str, str]]:
    """What each call does, with a new process after each that did not survive."""
    with tempfile.TemporaryDirectory() as folder:
        child = Child(module, folder)
        for call in calls:
            found = child.ask(call)
            if found is None:  # it ended before this call, which is asked again
                child.close()
                child = Child(module, folder)
                found = child.ask(call) or ("crash", "cannot be asked")
            if found[0] in ("hang", "crash"):
                child.close()
                child = Child(module, folder)
            yield found
        child.close()


# ---------------------------------------------------------------------- comparing

# Classes that PyTorch's users do not expect where PyTorch raises another one.
UNCLEAN = {
    *("AttributeError", "IndexError", "KeyError", "ZeroDivisionError", "OverflowError"),
    *("MemoryError", "RecursionError", "UnboundLocalError", "NameError", "AssertionError"),
    *("ArithmeticError", "FloatingPointError", "ModuleNotFoundError", "UFuncTypeError"),
    *("AxisError", "StopIteration", "SystemError", "UnicodeError", "BufferError"),
}


def verdict(ours: tuple[str, str], theirs: tuple[str, str]) -> str:
    """How two outcomes differ, in a word; "" where they agree or PyTorch did not survive."""
    if theirs[0] in ("hang", "crash"):
        return "crash" if ours[0] == "crash" else ""
    if ours[0] in ("hang", "crash"):
        return ours[0]
    if ours[0] == theirs[0]:
        return "result" if ours[0] == "ok" and ours[1] != theirs[1] else ""
    if ours[0] == "ok":
        return "accepted"
    if theirs[0] in UNCLEAN and ours[0] in ("TypeError", "ValueError", "RuntimeError"):
        return ""  # ours is the cleaner one
    if ours[0] in UNCLEAN:
        return "unclean"
    return "refused" if theirs[0] == "ok" else "class"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--each", type=int, default=10, help="calls of every name")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="names that contain this text")
    parser.add_argument("--show", default="", help="kinds of difference to print, by default all")
    parser.add_argument("--theirs", default="", help="a file to keep PyTorch's answers in")
    parser.add_argument("--record", action="store_true", help="keep the calls that agree")
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
        return 0
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)  # the children run elsewhere
    os.environ["PYTHONPATH"] = os.pathsep.join([os.path.abspath(p) for p in paths if p])
    names = [n for n in public_names() if given.only in n]
    calls = [c for n in names for c in cases_of(n, given.each, given.seed)]
    ours = list(outcomes("tapegrad", calls))
    theirs = kept(given.theirs, calls)
    if given.record:
        record(calls, ours, theirs)
    counts: collections.Counter[str] = collections.Counter()
    for call, our, their in zip(calls, ours, theirs, strict=True):
        word = verdict(our, their)
        counts[word or "same"] += 1
        if word and word in (given.show or word):
            print(f"{word:9}{call}", f"ours    {our[0]}: {our[1]}", sep="\n    ")
            print(f"    PyTorch {their[0]}: {their[1]}")
    listed = [f"{k} {v}" for k, v in sorted(counts.items())]
    print(f"{len(names)} names, {len(calls)} calls:", *listed)
    return 0


def record(calls: list[str], ours: list[tuple[str, str]], theirs: list[tuple[str, str]]) -> None:
    """Write the calls on which both libraries agree, by the class that PyTorch raises.

    Calls that need gigabytes are left out: the test runs without a limit on memory.
    """
    found: dict[str, list[str]] = {}
    for call, our, their in zip(calls, ours, theirs, strict=True):
        if our[0] == their[0] and "2**31" not in call and "2**40" not in call:
            found.setdefault(their[0], []).append(call)
    with open(GOLDEN, "w") as file:
        json.dump(found, file, indent=0, sort_keys=True)
        file.write("\n")


def kept(path: str, calls: list[str]) -> list[tuple[str, str]]:
    """PyTorch's answers, those already in a file taken from there."""
    known: dict[str, Any] = {}
    if path and os.path.exists(path):
        with open(path) as file:
            known = json.load(file)
    missing = [c for c in calls if c not in known]
    known.update(zip(missing, outcomes("torch", missing), strict=True))
    if path and missing:
        with open(path, "w") as file:
            json.dump(known, file)
    return [tuple(known[c]) for c in calls]


if __name__ == "__main__":
    sys.exit(main())
