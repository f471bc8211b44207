"""Every kernel in C on arrays that lie oddly: run as `layouts.py COUNT SEED`.

The samples of all public functions are run, forward and backward, and the arguments of each op's
kernel are noted. Then its arrays are laid out anew in random ways (misaligned, with gaps,
backwards, byte-swapped, read-only, overlapping, ...) and the kernel is compared with the op's
forward on NumPy, given the same arrays. Then programs (layouts_programs.py) run on tensors that lie
oddly and on ordinary ones: they reach the kernels that no sample calls (random numbers, optimizers,
tapes). One of five of the COUNT calls is such a program. COUNT and SEED decide what is called: no
clock does. Prints the counts as JSON: calls by layout, ops, the kernels in C that no odd layout
reached, and the differences.
"""

from __future__ import annotations

import collections
import importlib.machinery
import importlib.util
import itertools
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

PROGRAMS = 5  # one of so many calls is a program
# The kernels in C that ran while arrays lay in some way.
REACHED: dict[str, set[str]] = collections.defaultdict(set)


class Noted:
    """A kernel in C that notes its calls. It takes the kernel's place before others look it up."""

    layout = ""  # of the arrays of the call that is being made

    def __init__(self, name: str, kernel: Any) -> None:
        self.name = name
        self.kernel = kernel

    def __call__(self, arrays: Any, *rest: Any) -> Any:
        REACHED[Noted.layout].add(self.name)
        return self.kernel(arrays, *rest)


def note_calls() -> None:
    """Put `Noted` in the place of all kernels in C; the library must not have been imported."""
    assert "tapegrad" not in sys.modules
    home = importlib.util.find_spec("tapegrad")
    assert home is not None and home.origin is not None
    place = os.path.join(os.path.dirname(home.origin), "kernels", "cpu")
    spec = importlib.machinery.PathFinder.find_spec("tapegrad.kernels.cpu._kernels", [place])
    assert spec is not None and spec.loader is not None, "there are no kernels in C"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules["tapegrad.kernels.cpu._kernels"] = module
    for name, kernel in list(module.KERNELS.items()):
        module.KERNELS[name] = Noted(name, kernel)
    map_elements = module.map_elements

    def noted_map(kernels: Any, *rest: Any) -> Any:
        """`map_elements`, which is given kernels to run them from C."""
        REACHED[Noted.layout].update([noted.name for noted in kernels if noted])
        return map_elements(tuple([noted and noted.kernel for noted in kernels]), *rest)

    module.map_elements = noted_map


# ---------------------------------------------------------------------- layouts


def misaligned(x: Any) -> Any:
    room = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    room[...] = x
    return room


def strided(x: Any) -> Any:
    return np.repeat(x, 3, -1)[..., ::3] if x.ndim else x


def misaligned_with_gaps(x: Any) -> Any:
    wide = np.repeat(x, 2, -1) if x.ndim else x
    return misaligned(wide)[..., ::2] if x.ndim else misaligned(x)


def backwards(x: Any) -> Any:
    return x[..., ::-1].copy()[..., ::-1] if x.ndim else x


def swapped(x: Any) -> Any:
    return x.astype(x.dtype.newbyteorder()) if x.dtype.kind in "fiuc" else x


def read_only(x: Any) -> Any:
    x = x.copy()
    x.flags.writeable = False
    return x


def columns_first(x: Any) -> Any:
    return np.asfortranarray(x) if x.ndim else x


def overlapping(x: Any) -> Any:
    """Rows that share their memory with the next ones."""
    if not x.size:
        return x
    flat = np.resize(x.reshape(-1), sum(x.shape) + 1)
    return np.ndarray(x.shape, x.dtype, flat, 0, (x.itemsize,) * x.ndim)


def repeated(x: Any) -> Any:
    return np.broadcast_to(x[:1], x.shape) if x.ndim and len(x) else x


def transposed(x: Any) -> Any:
    """The last two dimensions in each other's order."""
    return x.swapaxes(-1, -2).copy().swapaxes(-1, -2) if x.ndim > 1 else x


LAYOUTS: tuple[Callable[[Any], Any], ...] = (
    misaligned,
    strided,
    backwards,
    swapped,
    read_only,
    columns_first,
    overlapping,
    repeated,
    transposed,
    misaligned_with_gaps,
)


def relaid(value: Any, layout: Callable[[Any], Any]) -> Any:
    return layout(value) if type(value) is np.ndarray else value


# ---------------------------------------------------------------------- comparing

ERRORS = (IndexError, TypeError, ValueError, RuntimeError, NotImplementedError, MemoryError)


def outcome(kernel: Any, args: Any) -> Any:
    """The values of all results, or which error there is."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = kernel(*args)
        except ERRORS as error:
            return type(error)
    return [np.asarray(a) for a in (found if isinstance(found, (tuple, list)) else (found,))]


def tolerance(dtype: Any) -> float:
    kind = np.dtype(dtype)
    if kind.kind == "V" or kind.itemsize == 2:
        return 3e-2
    return 2e-4 if kind in (np.float32, np.complex64) else 1e-8


def difference(op: Any, reference: Any, args: list[Any]) -> str:
    """What the kernel does that the reference does not; "" if they agree."""
    kept = [a.copy() if type(a) is np.ndarray else a for a in args]
    wanted = outcome(reference, args)
    for a, b in zip(args, kept, strict=True):
        if type(a) is np.ndarray and not same(a, b, 0.0):
            return ""  # an op that writes: it would see other values than the reference did
    found = outcome(op.kernel, args)
    written = [
        i
        for i, (a, b) in enumerate(zip(args, kept, strict=True))
        if type(a) is np.ndarray and not same(a, b, 0.0)
    ]
    if isinstance(wanted, type) or isinstance(found, type):
        return "" if found is wanted else f"{named(found)} instead of {named(wanted)}"
    if written:
        return f"argument {written[0]} was written to"
    for i, (a, b) in enumerate(zip(found, wanted, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"result {i} is {a.dtype}{a.shape} instead of {b.dtype}{b.shape}"
        if not same(a, b, tolerance(a.dtype)):
            return f"result {i} has other values"
    return ""


def named(found: Any) -> str:
    return found.__name__ if isinstance(found, type) else "a result"


def same(a: Any, b: Any, tolerance: float) -> bool:
    if a.dtype.kind not in "fcV":
        return bool(np.array_equal(a, b))
    wide = "c16" if a.dtype.kind == "c" else "f8"
    a, b = a.astype(wide), b.astype(wide)
    scale = float(np.max(np.abs(b), initial=0.0, where=np.isfinite(b)))
    with np.errstate(all="ignore"):
        close = np.abs(a - b) <= tolerance * max(scale, 1.0)
        return bool(np.all(close | (a == b) | (np.isnan(a) & np.isnan(b))))


# ---------------------------------------------------------------------- calls of ops


def ran(name: str, index: int, dtype: Any) -> list[Any]:
    """What runs in a sample call and its gradients, with floats of one dtype."""
    import table
    import tapegrad as tg
    from tapegrad.core.base import wrap

    def make(array: Any) -> Any:
        if array.dtype == np.float64:
            array = array.astype(dtype)
        t = wrap(array)
        return t.requires_grad_() if array.dtype.kind in "fc" else t

    with warnings.catch_warnings(), table.watched() as runs:
        warnings.simplefilter("ignore")
        try:
            args, kwargs, made = table.draw(name, index, make)
            outs = table.tensors_in(table.call(name, args, kwargs))
            roots = [t for t in outs if t.requires_grad]
            inputs = [t for t in made if t.requires_grad]
            if roots and inputs:
                tg.autograd.grad(roots, inputs, [tg.ones_like(t) for t in roots], allow_unused=True)
        except ERRORS:  # in-place samples refuse leaves, and not every dtype has every function
            pass
    return runs


def cases(seed: int) -> Iterator[tuple[Any, list[Any]]]:
    """Ops with kernels of their own and arguments of theirs, all functions again and again."""
    import table
    from tapegrad import dtypes
    from tapegrad.kernels.backend import NUMPY

    rng = np.random.default_rng(seed)
    floats = (np.float32, np.float64, np.dtype(np.float16), dtypes.bfloat16.np)
    while True:
        for name in rng.permutation(table.SAMPLED):
            index = int(rng.integers(len(table.APIS[name].samples)))
            for run in ran(name, index, floats[rng.integers(4)]):
                op = run.op
                if op.kernel is not NUMPY.kernel(op) and not op.variadic:
                    yield op, [*run.inputs, *run.attrs]


def main(count: int, seed: int) -> dict[str, Any]:
    from fuzz import layouts_programs
    from tapegrad.kernels.backend import NUMPY

    rng = np.random.default_rng(seed)
    calls: collections.Counter[str] = collections.Counter()
    ops: collections.Counter[str] = collections.Counter()
    found: dict[str, str] = {}
    for op, args in cases(seed):
        if calls.total() >= count - count // PROGRAMS:
            break
        arrays = [i for i, a in enumerate(args) if type(a) is np.ndarray]
        if not arrays:
            continue
        chosen = rng.choice(arrays, rng.integers(1, len(arrays) + 1), replace=False)
        layout = LAYOUTS[rng.integers(len(LAYOUTS))]
        if "as_strided" in op.name:
            continue  # functions check that places are in the memory, kernels do not
        given = [relaid(a, layout) if i in chosen else a for i, a in enumerate(args)]
        calls[layout.__name__] += 1
        ops[op.name] += 1
        Noted.layout = layout.__name__
        wrong = difference(op, NUMPY.kernel(op), given)
        Noted.layout = ""
        if wrong:
            shapes = [a.shape if type(a) is np.ndarray else a for a in given]
            found.setdefault(f"{op.name}, {layout.__name__}", f"{wrong}: {shapes!s:.300}")
    programs = layouts_programs.all_programs(rng)
    for name, layout, run in itertools.islice(programs, count // PROGRAMS):
        Noted.layout = layout.__name__
        wrong = run()
        Noted.layout = ""
        calls[layout.__name__] += 1
        if wrong:
            found.setdefault(f"{name}, {layout.__name__}", wrong)
    odd = set().union(*[names for layout, names in REACHED.items() if layout])
    aligned = REACHED["misaligned"] | REACHED["misaligned_with_gaps"]
    return {
        "ends": {"calls": calls.total() - count // PROGRAMS, "programs": count // PROGRAMS},
        "ops": len(ops),
        "layouts": calls,
        "kernels": len(NATIVE),
        "not reached": sorted(set(NATIVE) - odd),
        "not reached misaligned": sorted(set(NATIVE) - aligned - (set(NATIVE) - odd)),
        "failures": [f"{where}: {wrong}" for where, wrong in found.items()],
    }


if __name__ == "__main__":
    note_calls()
    NATIVE = sorted(sys.modules["tapegrad.kernels.cpu._kernels"].KERNELS)
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sys.modules["fuzz.layouts"] = sys.modules["__main__"]
    print(json.dumps(main(int(sys.argv[1]), int(sys.argv[2]))))
