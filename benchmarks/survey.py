"""Every function against PyTorch: `make survey` (compiled build), `make survey-page`.

The calls are the samples of the op table, with every size multiplied, and the forms of
survey_cases.py: layers, losses, optimizers, draws, indexing, in-place and `out=` forms, data
loading. Both libraries run in one process, on one thread, in turns; what counts is the least CPU
time of a call. The results are compared with each other: a function that computes something else
is in the report, not in the table. A ratio is tapegrad's time by PyTorch's.

`--device cuda` runs the calls on a GPU, where the least time of a call counts until the GPU has
finished it; `--warm K/N` prepares every Nth call from the Kth on and times nothing, so that N
processes compile the kernels at the same time.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import math
import os
import pathlib
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "survey.md"
SIZES = {"16": 16, "64k": 1 << 16, "1M": 1 << 20}
MIDDLE = "64k"
SMALL = 1 << 10
# Other inputs, at the middle size and forward only: a dtype, or how float32 lies in memory.
KINDS = ("float64", "bfloat16", "float16", "int64", "complex64", "transposed", "broadcast")
TOLERANCE = {"bfloat16": 0.1, "float16": 0.02, "float64": 1e-7}
SLOW = 0.05  # seconds: a call that takes longer is timed a few times only
TOO_SLOW = 0.03  # seconds: a call that takes longer is left out at the next size
MOST = 1 << 24  # elements of a result: of what grows faster than its arguments
MEMORY = 5 << 30  # bytes: what needs more than that does not scale, and is left out
# They draw numbers in an order of their own, return what was not initialized, or take a callable.
NOT_COMPARED = (
    "empty",
    "rand",
    "multinomial",
    "dropout",
    "bernoulli",
    "eig",
    "svd",
    "qr",
    "lobpcg",
)


CREATING = ("draws", "making", "data loading")  # families whose calls make new tensors


class Place:
    """Where the calls run: the device of tensors, the clock, and what waits for the device."""

    device = "cpu"
    libraries: tuple[Any, ...] = ()  # those whose new tensors belong on a GPU
    clock = staticmethod(time.process_time_ns)

    @staticmethod
    def wait() -> None:
        """Return when the device has done what it was given; the CPU always has."""

    @classmethod
    def on_gpu(cls, torch: Any, ours: Any) -> None:
        """Measure on the GPU, by the clock on the wall."""
        cls.device, cls.clock = "cuda", staticmethod(time.perf_counter_ns)
        cls.libraries = (torch, ours)

        def wait() -> None:
            torch.cuda.synchronize()
            ours.cuda.synchronize()

        cls.wait = staticmethod(wait)

    @classmethod
    def new_tensors(cls, device: str | None) -> None:
        """Say where new tensors are made; PyTorch's calls take longer while that is not None."""
        for library in cls.libraries:
            library.set_default_device(device)


class Row(NamedTuple):
    """One call at one size: its family, the pass, the kind of input, both times in seconds."""

    name: str
    family: str
    size: str
    passes: str  # "forward" or "both"
    kind: str
    torch: float
    ours: float

    @property
    def ratio(self) -> float:
        return self.ours / self.torch


# ---------------------------------------------------------------------- inputs


def scaled(value: np.ndarray[Any, Any], times: int) -> tuple[int, ...]:
    """A shape with every size but 1 multiplied."""
    return tuple([n if n == 1 else n * times for n in value.shape])


def elements(case: Any, times: int) -> int:
    """How many elements the largest float argument of a sample has, every size multiplied."""
    most = [0]

    def look(array: Any) -> Any:
        if array.dtype.kind == "f":
            most[0] = max(most[0], math.prod(scaled(array, times)))
        return array

    case.draw(np.random.default_rng(0), look)
    return most[0]


def factor(case: Any, wanted: int) -> int:
    """What to multiply the sizes of a sample by to have about `wanted` elements; 0: it has none."""
    if not elements(case, 1):
        return 0
    times = 1
    while elements(case, times + 1) <= wanted * 1.2 and times < wanted:
        times = max(times + 1, int(times * 1.03))
    return times


def maker(library: Any, kind: str, times: int, grads: list[Any] | None) -> Callable[[Any], Any]:
    """Makes the tensors of a sample; those that need gradients are noted."""

    def make(array: Any) -> Any:
        if array.dtype.kind != "f":
            whole = np.tile(array, [1 if n == 1 else times for n in array.shape])
            return library.from_numpy(whole.copy()).to(Place.device)
        shape = scaled(array, times)
        rng = np.random.default_rng(len(shape) + times)
        low, high = (float(array.min()), float(array.max())) if array.size else (0.0, 1.0)
        values = rng.uniform(low, high, shape)
        if kind == "int64":
            return library.from_numpy(np.asarray(values * 10).astype(np.int64)).to(Place.device)
        if kind == "complex64":
            values = np.asarray(values + 1j * rng.uniform(low, high, shape)).astype(np.complex64)
            return library.from_numpy(values).to(Place.device)
        t = library.from_numpy(np.asarray(values)).to(Place.device)
        t = t.to(library.float32 if kind in ("", *KINDS[-2:]) else getattr(library, kind))
        if kind == "transposed" and len(shape) > 1:
            t = t.transpose(-1, -2).contiguous().transpose(-1, -2)
        if kind == "broadcast" and shape:
            t = t[:1].expand(shape)
        if grads is not None:
            t.requires_grad_()
            grads.append(t)
        return t

    return make


def sample_calls(wanted: int, kind: str, backward: bool) -> Iterator[tuple[str, str, Any]]:
    """(name, family, library -> call) for the functions of the op table."""
    from tapegrad.api.publish import load_everything
    from tapegrad.ops.block.definition import APIS

    load_everything()
    for name, api in sorted(APIS.items()):
        if name.endswith("_") or api.alias:
            continue
        for case in api.samples:
            times = factor(case, wanted)
            if times:
                family = api.home.split(".")[2] if api.home.count(".") > 1 else "other"

                def prepare(library: Any, case: Any = case, times: int = times, api: Any = api):
                    grads: list[Any] | None = [] if backward else None
                    given = maker(library, kind, times, grads)
                    args, kwargs = case.draw(np.random.default_rng(0), given)
                    function = found(library, api)
                    if not backward:
                        return lambda: function(*args, **kwargs)
                    return differentiated(library, lambda: function(*args, **kwargs), grads)

                yield name, family, prepare
                break


def refused(torch: Any) -> set[str]:
    """Functions whose samples do not scale: where a CPU raises, a GPU ends the process."""
    names = {"embedding_bag"}  # repeated offsets: some releases of PyTorch take them on a CPU
    for name, _, prepare in sample_calls(SMALL, "", False):
        try:
            prepare(torch)()
        except Exception:
            names.add(name)
    return names


def found(library: Any, api: Any) -> Any:
    """The function or the method of that name."""
    place = library if api.function else library.Tensor
    for part in api.name.split("."):
        place = getattr(place, part)
    return place


def differentiated(library: Any, call: Callable[[], Any], leaves: Any) -> Callable[[], Any]:
    """The call and the gradients of its results, which are weighted with ones."""
    outs = [t for t in tensors_in(call()) if t.requires_grad]
    if not outs or not leaves:
        raise TypeError("there is nothing to differentiate")
    ones = [library.ones_like(t) for t in outs]

    def both() -> Any:
        results = [t for t in tensors_in(call()) if t.requires_grad]
        return library.autograd.grad(results, leaves, ones, allow_unused=True)

    return both


def tensors_in(value: Any) -> list[Any]:
    if hasattr(value, "requires_grad"):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in tensors_in(v)]
    return []


# ---------------------------------------------------------------------- timing


def same(ours: Any, theirs: Any, kind: str) -> bool:
    """Whether two results agree, as far as the precision of the kind allows."""
    a, b = tensors_in(ours), tensors_in(theirs)
    if len(a) != len(b):
        return False
    room = TOLERANCE.get(kind, 1e-3)
    for x, y in zip(a, b, strict=True):
        if tuple(x.shape) != tuple(y.shape):
            return False
        if x.is_sparse or y.is_sparse:
            continue
        u, v = [np.asarray(wide(t.detach())) for t in (x, y)]
        scale = float(np.abs(v[np.isfinite(v)]).max(initial=1.0)) if v.dtype.kind in "fc" else 1.0
        if not np.allclose(u, v, rtol=room, atol=room * scale, equal_nan=True):
            return False
    return True


def wide(t: Any) -> Any:
    """A tensor of half precision as float, which NumPy has too."""
    t = t.float() if t.dtype.itemsize == 2 and t.is_floating_point() else t
    return t.numpy(force=True)


def once(call: Callable[[], Any], loops: int) -> float:
    start = Place.clock()
    for _ in range(loops):
        call()
    Place.wait()
    return (Place.clock() - start) / loops / 1e9


def race(theirs: Callable[[], Any], ours: Callable[[], Any], turns: int, turn: float) -> Any:
    """The least CPU time of a call in each library; they take turns."""
    first = [max(once(call, 1), 1e-7) for call in (theirs, ours)]
    again = [
        max(min(f, once(call, 3)), 1e-7) for f, call in zip(first, (theirs, ours), strict=True)
    ]
    loops = [max(1, int(turn / t)) for t in again]
    best = [math.inf, math.inf]
    for _ in range(2 if max(again) > SLOW else turns):
        for i, call in enumerate((theirs, ours)):
            best[i] = min(best[i], once(call, loops[i]))
    return best


class Survey:
    """The rows so far, and what could not be compared."""

    def __init__(self, torch: Any, ours: Any, turns: int, turn: float) -> None:
        self.torch, self.ours = torch, ours
        self.turns, self.turn = turns, turn
        self.rows: list[Row] = []
        self.different: list[str] = []
        self.slow: set[tuple[str, str]] = set()  # names and passes that are not to grow
        self.missing: list[str] = []  # what PyTorch does and tapegrad does not

    def add(self, name: str, family: str, size: str, passes: str, kind: str, prepare: Any) -> None:
        """Time one call, if both libraries can do it and agree."""
        if (name, passes) in self.slow:
            return
        label = f"{name} ({size}, {passes}{', ' + kind if kind else ''})"
        Place.new_tensors("cuda")
        try:
            self.torch.manual_seed(0)
            theirs = prepare(self.torch)
            expected = theirs()
            if sum([t.numel() for t in tensors_in(expected)]) > MOST:
                return
        except Exception:
            return  # these arguments do not scale, or PyTorch has no such dtype
        try:
            self.ours.manual_seed(0)
            ours = prepare(self.ours)
            got = ours()
        except Exception as error:
            self.missing.append(f"{label}: {type(error).__name__}: {str(error)[:80]}")
            return
        try:
            agree = any([part in name for part in NOT_COMPARED]) or same(got, expected, kind)
        except (TypeError, RuntimeError, MemoryError):
            agree = False
        if not agree:
            self.different.append(label)
        if not self.turns:
            return
        if family not in CREATING:
            Place.new_tensors(None)
        try:
            best = race(theirs, ours, self.turns, self.turn)
        except (RuntimeError, MemoryError):
            return  # no memory left for it
        if max(best) > TOO_SLOW:
            self.slow.add((name, passes))
        self.rows.append(Row(name, family, size, passes, kind, *best))


# ---------------------------------------------------------------------- the report


def mean(rows: list[Row]) -> float:
    return math.exp(sum([math.log(r.ratio) for r in rows]) / len(rows))


def summary(title: str, rows: list[Row]) -> str:
    behind = sum([r.ratio > 1 for r in rows]) / len(rows)
    half, beyond = [sum([r.ratio > limit for r in rows]) for limit in (1.5, 2)]
    return f"| {title} | {len(rows)} | {mean(rows):.2f} | {behind:.0%} | {half} | {beyond} |"


HEAD = "| {} | calls | geometric mean | behind | beyond 1.5 | beyond 2 |"
HEAD += "\n|---|---:|---:|---:|---:|---:|"


def table(title: str, groups: dict[str, list[Row]]) -> str:
    lines = [summary(name, rows) for name, rows in groups.items() if rows]
    return "\n".join([HEAD.format(title), *lines])


def report(survey: Survey, worst: int) -> str:
    """The distribution: by size and pass, by kind of input, by family; and the worst rows."""
    rows = survey.rows
    plain = [r for r in rows if not r.kind]
    by_size = {
        f"{size}, {what}": [r for r in plain if r.size == size and r.passes == passes]
        for passes, what in (("forward", "forward"), ("both", "forward and backward"))
        for size in SIZES
    }
    by_kind = {kind: [r for r in rows if r.kind == kind] for kind in KINDS}
    families = sorted({r.family for r in plain})
    by_family = {
        f"{family}, {size}": [r for r in plain if r.family == family and r.size == size]
        for family in families
        for size in SIZES
    }
    behind = sorted(rows, key=lambda r: -r.ratio)[:worst]
    lines = [
        f"| {r.name} | {r.size} | {r.passes} | {r.kind or 'float32'} | {r.torch * 1e6:.1f} | "
        f"{r.ours * 1e6:.1f} | {r.ratio:.2f} |"
        for r in behind
    ]
    head = "| call | size | pass | input | PyTorch µs | tapegrad µs | ratio |"
    head += "\n|---|---|---|---|---:|---:|---:|"
    parts = [
        table("float32", by_size),
        table(f"forward, {MIDDLE}", by_kind),
        table("family", by_family),
        f"The {len(behind)} calls that are furthest behind:\n\n" + "\n".join([head, *lines]),
    ]
    if survey.different:
        parts.append("Other values than PyTorch's: " + "; ".join(survey.different) + ".")
    if survey.missing:
        parts.append("Refused here: " + "; ".join(survey.missing) + ".")
    return "\n\n".join(parts)


def record(survey: Survey, only: str) -> None:
    """Add each size, pass and kind of input to the evidence, with the rows that lose most."""
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tools"))
    import evidence

    groups: dict[str, list[Row]] = {}
    for row in survey.rows:
        passes = "forward" if row.passes == "forward" else "forward and backward"
        what = f"{row.size}, {passes}, {row.kind or 'float32'}" + f", names with {only}" * bool(
            only
        )
        groups.setdefault(what, []).append(row)
    for what, rows in groups.items():
        numbers = {
            "calls": len(rows),
            "geometric mean": round(mean(rows), 2),
            "behind": sum([r.ratio > 1 for r in rows]),
            "beyond 2": sum([r.ratio > 2 for r in rows]),
        }
        worst = sorted(rows, key=lambda r: -r.ratio)[:10]
        note = "worst: " + ", ".join([f"`{r.name}` {r.ratio:.1f}" for r in worst])
        evidence.add("survey", what, numbers, note=note)


PAGE_HEAD = """# Survey of every function

Every function of the library against PyTorch {torch}, in one process, on one thread, in turns;
the ratio is the least CPU time of a call by that of PyTorch, so that 1 is the same and 2 twice as
long. `make survey` prints this page for your machine. The calls are the samples of the op table
with larger sizes, and layers, losses, optimizers, draws, indexing, in-place and `out=` forms and
data loading from `benchmarks/survey_cases.py`. Results are compared while they are timed: what is
listed at the end as different are mostly indices of equal elements, signs that nobody fixes, and
matrices that are nearly singular.

*Behind* is the share of calls that take longer than PyTorch's, *beyond 2* the number of those
that take more than twice as long; the worst are listed by name. The page is of {date}, from
{machine}, by `{command}`. {note}

"""


def machine() -> str:
    """The kind of processor, in general words."""
    flags = ""
    if pathlib.Path("/proc/cpuinfo").exists():
        flags = pathlib.Path("/proc/cpuinfo").read_text()
    vectors = [name for word, name in (("avx512f", "AVX-512"), ("avx2", "AVX2")) if word in flags]
    kind = platform.machine() + (f" with {vectors[0]}" if vectors else "")
    return f"a machine of {os.cpu_count()} cores ({kind})"


def page_head(torch: Any, note: str) -> str:
    command = " ".join(["python", "benchmarks/survey.py", *sys.argv[1:]])
    command = command.partition(" --note")[0]
    return PAGE_HEAD.format(
        torch=torch.__version__.partition("+")[0],
        date=time.strftime("%Y-%m-%d"),
        machine=machine(),
        command=command,
        note=note,
    ).replace(" \n\n", "\n\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/survey.md")
    parser.add_argument("--record", action="store_true", help="add a summary to docs/evidence")
    parser.add_argument("--note", default="", help="a sentence for the page, the last argument")
    parser.add_argument("--full", action="store_true", help="longer turns: less noise")
    parser.add_argument("--only", default="", help="names that contain this")
    parser.add_argument("--sizes", default=",".join(SIZES))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--worst", type=int, default=60)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--warm", default="", help="K/N: compile what every Nth call needs")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    import resource

    import torch

    ours = importlib.import_module("tapegrad")
    for library in (torch, ours):
        library.set_num_threads(1)
    unfit: set[str] = set()
    if options.device == "cuda":
        unfit = refused(torch)
        Place.on_gpu(torch, ours)
    else:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    turns = (0, 0.0) if options.warm else (9, 0.01) if options.full else (3, 0.001)
    survey = Survey(torch, ours, *turns)
    part, parts = map(int, (options.warm or "0/1").split("/"))
    import survey_cases

    start = time.process_time()
    plans = [(size, "", back) for size in options.sizes.split(",") for back in (False, True)]
    plans += [(MIDDLE, kind, False) for kind in options.kinds.split(",") if kind]
    try:
        for size, kind, backward in plans:
            calls = [*sample_calls(SIZES[size], kind, backward)]
            if not kind:
                calls += survey_cases.calls(SIZES[size], backward)
            gc.collect()
            for name, family, prepare in calls[part::parts]:
                if options.only in name and name not in unfit:
                    passes = "both" if backward else "forward"
                    survey.add(name, family, size, passes, kind, prepare)
            done = time.process_time() - start
            print(f"{size} {kind or 'float32'}: {done:.0f} s of CPU so far", file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted: the report has what was measured so far", file=sys.stderr)
    if options.warm:
        return
    text = report(survey, options.worst)
    print(text)
    if options.record:
        record(survey, options.only)
    if options.write:
        PAGE.write_text(page_head(torch, options.note) + text + "\n")


if __name__ == "__main__":
    main()
