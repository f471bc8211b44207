"""PyTorch's own table of operators, `op_db`, asked of both libraries.

    python tests/parity/opdb.py                every operator; prints how many agree, per check
    python tests/parity/opdb.py NAME [NAME …]  these operators, with the first difference of each
    python tests/parity/opdb.py --write        … and docs/parity.md anew

Every miss has to be explained in known.py.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import pathlib
import random
import re
import signal
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

warnings.simplefilter("ignore")

import torch  # noqa: E402
from torch.testing._internal.common_device_type import (  # noqa: E402
    precisionOverride,
    toleranceOverride,
)
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

import tapegrad  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from convert import to_ours, to_theirs, without_values  # noqa: E402
from known import OUTSIDE, TIES, UNDEFINED  # noqa: E402
from report import CHECKS, not_missed, page, record, summary, unexplained  # noqa: E402

ONLY: list[str] = []  # checks, if not all
SECONDS = 240  # for one operator
DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
]
# What torch.testing.assert_close allows.
TOLERANCE = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}
PER_DTYPE = 8  # samples for each dtype besides the one that is checked in full


class Miss(Exception):
    """The two libraries differ."""


class Library:
    """One of the two, with what differs between them."""

    def __init__(self, module: Any, convert: Callable[[Any], Any]) -> None:
        self.module = module
        self.convert = convert  # a PyTorch value as this library's, sharing nothing

    def tensor(self, array: Any) -> Any:
        return self.module.from_numpy(array)


REAL = Library(torch, to_theirs)
OURS = Library(tapegrad, to_ours)


# --- finding the functions -------------------------------------------------------------------


def rebound(function: types.FunctionType) -> Any:
    """A helper of PyTorch's tests that says `torch`, saying `tapegrad`."""
    names = {**function.__globals__, "torch": tapegrad, "wrapper_set_seed": seeded}
    made = types.FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def seeded(function: Any, *args: Any, **kwargs: Any) -> Any:
    """PyTorch's tests draw random numbers from this seed."""
    tapegrad.manual_seed(42)
    return function(*args, **kwargs)


def by_path(path: str) -> Any:
    """`linalg.det` of tapegrad, or the method of that name."""
    for root in (tapegrad, tapegrad.Tensor):
        found: Any = root
        for part in path.removeprefix("torch.").split("."):
            found = getattr(found, part, None)
        if callable(found) and not isinstance(found, tapegrad.dtype):
            return found
    return None


def our_function(info: Any) -> Any:
    function = info.op
    if isinstance(function, types.FunctionType) and ".testing." in function.__module__:
        return rebound(function)
    return by_path(info.name)


def our_variant(function: Any) -> Any:
    """The method that corresponds to a method of PyTorch's; None if there is none."""
    if function is None:
        return None
    if isinstance(function, functools.partial):  # a function with `inplace=True`
        ours = getattr(tapegrad.nn.functional, function.func.__name__)
        return functools.partial(ours, *function.args, **function.keywords)
    if isinstance(function, types.FunctionType) and ".testing." in function.__module__:
        return rebound(function)
    return getattr(tapegrad.Tensor, function.__name__, None)


# --- comparing -------------------------------------------------------------------------------


def tensors(value: Any) -> list[Any]:
    if isinstance(value, (torch.Tensor, tapegrad.Tensor)):
        return [value]
    if isinstance(value, (tuple, list)):
        return [t for v in value for t in tensors(v)]
    if isinstance(value, dict):
        return [t for v in value.values() for t in tensors(v)]
    return []


def array(t: Any) -> Any:
    if isinstance(t, tapegrad.Tensor):
        a = t._array
        return a.astype("float32") if t.dtype is tapegrad.bfloat16 else a
    t = t.detach().resolve_conj().resolve_neg()
    return (t.float() if t.dtype is torch.bfloat16 else t).numpy(force=True)


Tolerances = dict[str, tuple[float, float]]


def tolerances(info: Any) -> Tolerances:
    """(rtol, atol) per dtype: assert_close's, or what PyTorch's own tests of the operator allow."""
    found = dict(TOLERANCE)
    for each in info.decorators:
        if getattr(each, "device_type", None) not in (None, "cpu"):
            continue
        for decorator in getattr(each, "decorators", [each]):
            if isinstance(decorator, toleranceOverride):
                for dtype, allowed in decorator.d.items():
                    name = str(dtype).removeprefix("torch.")
                    rtol, atol = found.get(name, (0, 0))
                    found[name] = (max(rtol, allowed.rtol), max(atol, allowed.atol))
            elif isinstance(decorator, precisionOverride):
                for dtype, atol in decorator.d.items():
                    name = str(dtype).removeprefix("torch.")
                    found[name] = (
                        found.get(name, (0, 0))[0],
                        max(found.get(name, (0, 0))[1], atol),
                    )
    for real, pair in (("float32", "complex64"), ("float64", "complex128")):
        found[pair] = tuple(map(max, found[real], found[pair]))
    return found


def same_tensor(got: Any, want: Any, what: str, allowed: Tolerances = TOLERANCE) -> None:
    if str(got.dtype) != str(want.dtype):
        raise Miss(f"{what}: {got.dtype}, not {want.dtype}")
    if tuple(got.shape) != tuple(want.shape):
        raise Miss(f"{what}: shape {tuple(got.shape)}, not {tuple(want.shape)}")
    rtol, atol = allowed.get(str(want.dtype).removeprefix("torch."), (0, 0))
    a, b = array(got), array(want)
    if not np.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True):
        bad = ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise Miss(f"{what}: {a[where]!r}, not {b[where]!r} at {where} of {a.shape}")


def same(
    got: Any, want: Any, what: str, undefined: bool = False, allowed: Tolerances = TOLERANCE
) -> None:
    ours, theirs = tensors(got), tensors(want)
    if undefined:
        ours, theirs = [t.zero_() for t in ours], [t.zero_() for t in theirs]
    if len(ours) != len(theirs):
        raise Miss(f"{what}: {len(ours)} tensors, not {len(theirs)}")
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if b.layout is torch.strided:
            same_tensor(a, b, what if len(theirs) == 1 else f"{what} {i}", allowed)
    if not theirs and not isinstance(want, torch.dtype) and got != want:
        if not (got != got and want != want):
            raise Miss(f"{what}: {got!r}, not {want!r}")


def outline(t: Any) -> tuple[Any, ...]:
    """Dtype, shape, device and the strides that tell something: of more than one element."""
    steps = [] if 0 in t.shape else [s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1]
    return str(t.dtype), tuple(t.shape), str(t.device), steps


def fits(shape: tuple[int, ...], indices: tuple[int, ...], dim: int) -> bool:
    return shape[:dim] + shape[dim + 1 :] == indices[:dim] + indices[dim + 1 :]


def same_choice(input: Any, got: Any, want: Any) -> bool:
    """Whether two results of a sort differ only in the order of equal elements."""
    x = array(input)
    *values, ours = tensors(got)
    *expected, theirs = tensors(want)
    if ours.shape != theirs.shape or x.ndim != ours.dim() or str(ours.dtype) != str(theirs.dtype):
        return False
    if any([not np.array_equal(array(a), array(b)) for a, b in zip(values, expected, strict=True)]):
        return False

    def chosen(indices: Any, dim: int) -> Any:
        return np.take_along_axis(x, array(indices) % x.shape[dim], dim)

    dims = [d for d in range(x.ndim) if fits(x.shape, tuple(ours.shape), d)]
    return any([np.array_equal(chosen(ours, d), chosen(theirs, d)) for d in dims])


def attempt(library: Library, function: Any, args: Any, kwargs: Any) -> Any:
    """The result of a call, or the exception, always from the same random state."""
    library.module.manual_seed(0)
    try:
        return function(*args, **kwargs)
    except (Timeout, KeyboardInterrupt):
        raise
    except Exception as error:
        return error


def said(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:150] if lines else ''}"


class Timeout(Exception):
    pass


# --- one operator ----------------------------------------------------------------------------


class Subject:
    """An entry of op_db, and its function in each library."""

    def __init__(self, info: Any) -> None:
        self.info = info
        self.name = info.name
        self.allowed = tolerances(info)
        self.functions = {OURS: our_function(info), REAL: info.op}

    def full_dtype(self) -> Any:
        """The dtype in which all samples are run."""
        supported = self.info.supported_dtypes("cpu")
        for dtype in (torch.float64, torch.float32, torch.complex128, torch.int64, torch.bool):
            if dtype in supported:
                return dtype
        return next(iter(sorted(supported, key=str)))

    def samples(self, dtype: Any, grad: bool = False) -> Iterator[Any]:
        torch.manual_seed(1)
        random.seed(1)
        np.random.seed(1)
        yield from self.info.sample_inputs("cpu", dtype, requires_grad=grad)

    def call(self, library: Library, sample: Any, function: Any = None) -> tuple[Any, Any]:
        """(the arguments, the result or exception) of a sample."""
        args, kwargs = library.convert([[sample.input, *sample.args], sample.kwargs])
        result = attempt(library, function or self.functions[library], args, kwargs)
        return (args, kwargs), result

    def processed(self, library: Library, sample: Any, result: Any) -> Any:
        """The part of a result that is well defined, such as |U| of a singular value problem."""
        process = sample.output_process_fn_grad
        if library is OURS and isinstance(process, types.FunctionType):
            process = rebound(process)
        return process(result)

    def compare(self, sample: Any, got: Any, want: Any, what: str) -> None:
        if isinstance(want, Exception):
            if not isinstance(got, Exception):
                raise Miss(f"{what}: no error, where PyTorch says {said(want)}")
            return
        if isinstance(got, Exception):
            raise Miss(f"{what}: {said(got)}")
        if self.name in TIES and same_choice(sample.input, got, want):
            return
        try:
            same(got, want, what, self.name in UNDEFINED, self.allowed)
        except Miss:
            ours = self.processed(OURS, sample, got)
            if ours is got:
                raise
            same(ours, self.processed(REAL, sample, want), what, False, self.allowed)

    # Each check returns None where PyTorch has nothing to compare with, else how many comparisons.

    def check_present(self) -> int | None:
        function = self.functions[OURS]
        if function is None:
            raise Miss("absent")
        for variant, kind in (
            (self.info.method_variant, "method"),
            (self.info.inplace_variant, "in-place method"),
        ):
            if variant is not None and our_variant(variant) is None:
                raise Miss(f"no {kind}")
        for alias in self.info.aliases:
            if by_path(alias.name) is None:
                raise Miss(f"no alias {alias.name}")
        return 1

    def check_forward(self) -> int | None:
        count = 0
        for i, sample in enumerate(self.samples(self.full_dtype())):
            _, want = self.call(REAL, sample)
            _, got = self.call(OURS, sample)
            self.compare(sample, got, want, f"sample {i}")
            count += 1
        return count

    def grad_dtypes(self) -> list[Any]:
        supported = self.info.supported_backward_dtypes("cpu")
        return [d for d in (torch.float64, torch.complex128) if d in supported]

    def derivatives(self, sample: Any, second: bool) -> Any:
        """The gradients of both libraries, or None where PyTorch has none."""
        found = []
        for library in (REAL, OURS):
            (args, kwargs), result = self.call(library, sample)
            if isinstance(result, Exception):
                if library is REAL:
                    return None
                raise Miss(said(result))
            grad = library.module.autograd.grad
            try:
                outs = [t for t in tensors(self.processed(library, sample, result))]
                outs = [t for t in outs if t.requires_grad]
                leaves = [t for t in tensors([args, kwargs]) if t.requires_grad]
                if not outs or not leaves:
                    if library is REAL:
                        return None
                    raise Miss("the result does not require grad")
                seeds = self.seeds(library, outs)
                first = grad(outs, leaves, seeds, create_graph=second, allow_unused=True)
                if not second:
                    found.append(first)
                    continue
                rooted = [g for g in first if g is not None and g.requires_grad]
                if not rooted:
                    if library is REAL:
                        return None
                    found.append([None] * (len(leaves) + len(seeds)))
                    continue
                found.append(
                    grad(rooted, [*leaves, *seeds], self.seeds(library, rooted), allow_unused=True)
                )
            except (Miss, Timeout):
                raise
            except Exception as error:
                if library is REAL:
                    return None
                raise Miss(said(error)) from error
        return found

    def seeds(self, library: Library, outs: list[Any]) -> list[Any]:
        rng = np.random.default_rng(0)
        made = []
        for t in outs:
            w = np.asarray(rng.uniform(0.5, 1.5, tuple(t.shape)))
            if t.dtype.is_complex:
                w = w + 1j * rng.uniform(0.5, 1.5, tuple(t.shape))
            made.append(library.tensor(np.array(w, order="C")).to(t.dtype).requires_grad_())
        return made

    def check_gradient(self, second: bool = False) -> int | None:
        if not self.info.supports_autograd or (second and not self.info.supports_gradgrad):
            return None
        count = 0
        for dtype in self.grad_dtypes():
            for i, sample in enumerate(self.samples(dtype, grad=True)):
                what = f"{dtype} sample {i}"
                try:
                    found = self.derivatives(sample, second)
                except Miss as miss:
                    raise Miss(f"{what}: {miss}") from miss
                if found is None:
                    continue
                for k, (want, got) in enumerate(zip(*found, strict=True)):
                    self.same_gradient(got, want, f"{what}, gradient {k}")
                count += 1
        return count or None

    def same_gradient(self, got: Any, want: Any, what: str) -> None:
        if got is None or want is None:
            # PyTorch leaves some zeros out and makes others.
            other = want if got is None else got
            if other is not None and array(other).any():
                raise Miss(f"{what}: {'none' if got is None else 'there'}, unlike PyTorch's")
            return
        same_tensor(got, want, what, self.allowed)

    def check_second_gradient(self) -> int | None:
        return self.check_gradient(second=True)

    def pushed(self, library: Library, sample: Any) -> Any:
        """Tangents of the outputs, for fixed tangents of the inputs."""
        forward_ad = library.module.autograd.forward_ad
        args, kwargs = library.convert([[sample.input, *sample.args], sample.kwargs])
        rng = np.random.default_rng(0)
        with forward_ad.dual_level():

            def dual(value: Any) -> Any:
                if isinstance(value, library.module.Tensor):
                    if not value.requires_grad:
                        return value
                    w = np.asarray(rng.uniform(0.5, 1.5, tuple(value.shape)))
                    if value.dtype.is_complex:
                        w = w + 1j * rng.uniform(0.5, 1.5, tuple(value.shape))
                    tangent = library.tensor(np.array(w, order="C")).to(value.dtype)
                    return forward_ad.make_dual(value.detach(), tangent)
                if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
                    return type(value)(dual(v) for v in value)
                if isinstance(value, dict):
                    return {k: dual(v) for k, v in value.items()}
                return value

            args, kwargs = dual(args), dual(kwargs)
            library.module.manual_seed(0)
            result = self.functions[library](*args, **kwargs)
            result = self.processed(library, sample, result)
            return [forward_ad.unpack_dual(t)[1] for t in tensors(result)]

    def check_jvp(self) -> int | None:
        if not self.info.supports_forward_ad:
            return None
        count = 0
        for dtype in self.grad_dtypes():
            for i, sample in enumerate(self.samples(dtype, grad=True)):
                try:
                    want = self.pushed(REAL, sample)
                except Timeout:
                    raise
                except Exception:
                    continue
                try:
                    got = self.pushed(OURS, sample)
                except Timeout:
                    raise
                except Exception as error:
                    raise Miss(f"{dtype} sample {i}: {said(error)}") from error
                if len(got) != len(want):
                    raise Miss(f"{dtype} sample {i}: {len(got)} tangents, not {len(want)}")
                for g, w in zip(got, want, strict=True):
                    self.same_gradient(g, w, f"{dtype} sample {i}, tangent")
                count += 1
        return count or None

    def check_dtypes(self) -> int | None:
        count = 0
        supported = self.info.supported_dtypes("cpu")
        for dtype in DTYPES:
            if dtype is self.full_dtype():
                continue
            try:
                samples = self.some(dtype)
            except Timeout:
                raise
            except Exception:
                continue  # the samples make no sense in this dtype
            for i, sample in enumerate(samples):
                _, want = self.call(REAL, sample)
                if isinstance(want, Exception) and dtype in supported:
                    continue
                if any(t.dtype is torch.complex32 for t in tensors(want)):
                    continue
                _, got = self.call(OURS, sample)
                self.compare(sample, got, want, f"{dtype} sample {i}")
                count += 1
        return count or None

    def some(self, dtype: Any) -> list[Any]:
        """A few samples, spread over all of them."""
        every = list(self.samples(dtype))
        step = max(1, len(every) // PER_DTYPE)
        return every[::step]

    def check_in_place(self) -> int | None:
        theirs = self.info.inplace_variant
        if theirs is None:
            return None
        ours = our_variant(theirs)
        if ours is None:
            raise Miss("absent")
        count = 0
        for i, sample in enumerate(self.samples(self.full_dtype())):
            if sample.broadcasts_input:
                continue
            _, want = self.call(REAL, sample, theirs)
            (args, _), got = self.call(OURS, sample, ours)
            self.compare(sample, got, want, f"sample {i}")
            if not isinstance(want, Exception) and got is not args[0]:
                raise Miss(f"sample {i}: the result is another tensor")
            count += 1
        return count or None

    def check_errors(self) -> int | None:
        if self.info.error_inputs_func is None:
            return None
        count = 0
        for i, wrong in enumerate(self.info.error_inputs("cpu")):
            sample, kind, pattern = wrong.sample_input, wrong.error_type, wrong.error_regex
            _, want = self.call(REAL, sample)
            if not isinstance(want, kind) or not re.search(pattern, str(want)):
                continue  # PyTorch's own table is wrong here
            if any(t.dim() > 64 for t in tensors([sample.input, sample.args])):
                continue  # NumPy's arrays have no more dimensions
            _, got = self.call(OURS, sample)
            if not isinstance(got, Exception):
                raise Miss(f"input {i}: no error, where PyTorch says {said(want)}")
            wanted = kind if isinstance(kind, tuple) else (kind,)
            names = {c.__name__ for c in type(got).__mro__}
            if not names & {c.__name__ for c in wanted}:
                raise Miss(f"input {i}: {said(got)}, not {said(want)}")
            if not re.search(pattern, str(got)):
                raise Miss(f"input {i}: {said(got)}, where PyTorch says {said(want)}")
            count += 1
        return count or None

    def check_meta(self) -> int | None:
        count = 0
        for i, sample in enumerate(self.samples(self.full_dtype())):
            want, got = [self.outlines(library, sample) for library in (REAL, OURS)]
            if got != want:
                raise Miss(f"sample {i}: {got}, not {want}")
            count += 1
        return count

    def outlines(self, library: Library, sample: Any) -> Any:
        """What the results look like for a sample without its values; the class of an error."""
        given = library.convert([[sample.input, *sample.args], sample.kwargs])
        args, kwargs = without_values(library.module, given, {})
        result = attempt(library, self.functions[library], args, kwargs)
        if isinstance(result, Exception):
            return type(result).__name__
        return [outline(t) for t in tensors(result)]

    def run(self, check: str) -> Any:
        """The number of comparisons, None if there are none, or a text that says what differs."""
        if check != "present" and self.functions[OURS] is None:
            return "absent"
        method = getattr(self, "check_" + check.replace(" ", "_").replace("-", "_"))
        try:
            return method()
        except Miss as miss:
            return str(miss)
        except Timeout:
            return f"more than {SECONDS} s"


def full_name(info: Any) -> str:
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name


def examine(index: int) -> tuple[str, dict[str, Any], float]:
    torch.set_num_threads(1)
    info = op_db[index]
    begun = time.perf_counter()
    results = {}

    def late(*_: Any) -> None:
        raise Timeout

    signal.signal(signal.SIGALRM, late)
    subject = Subject(info)
    for check in ONLY or CHECKS:
        signal.alarm(SECONDS)
        try:
            results[check] = subject.run(check)
        except Timeout:
            results[check] = f"more than {SECONDS} s"
        except Exception as error:
            results[check] = f"the check itself: {said(error)}"
        finally:
            signal.alarm(0)
    return full_name(info), results, time.perf_counter() - begun


def in_scope() -> list[int]:
    """The entries to compare: public, and with something to run on a CPU."""
    return [
        i
        for i, info in enumerate(op_db)
        if info.name not in OUTSIDE and info.supported_dtypes("cpu")
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--write", action="store_true", help="write docs/parity.md")
    parser.add_argument("--record", action="store_true", help="add the numbers to docs/evidence")
    parser.add_argument("--check", action="append", default=[], help="only this check")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", help="write the results there")
    options = parser.parse_args()
    ONLY.extend(options.check)
    indices = in_scope()
    if options.names:
        wanted = set(options.names)
        indices = [i for i in indices if {op_db[i].name, full_name(op_db[i])} & wanted]
        known = {op_db[i].name for i in indices} | {full_name(op_db[i]) for i in indices}
        for name in sorted(wanted - known):
            print(f"{name}: not in op_db, or outside the comparison")
    found: dict[str, dict[str, Any]] = {}
    spent: dict[str, float] = {}
    workers = min(options.workers, len(indices)) or 1
    with multiprocessing.get_context("fork").Pool(workers, maxtasksperchild=40) as pool:
        for name, results, seconds in pool.imap_unordered(examine, indices):
            found[name] = results
            spent[name] = seconds
            if options.names:
                print(f"{name} ({seconds:.1f} s)")
                for check, result in results.items():
                    shown = "-" if result is None else "ok" if result == 1 else f"ok, {result}"
                    print(f"  {check:16} {result if isinstance(result, str) else shown}")
    if options.json:
        text = json.dumps({"found": found, "spent": spent}, indent=0, sort_keys=True)
        pathlib.Path(options.json).write_text(text)
    if options.names:
        return 0
    print(summary(found))
    if options.record:
        record(found)
    if options.write:
        path = HERE.parent.parent / "docs" / "parity.md"
        # What follows this heading is written by tools/names.py.
        _, heading, names = path.read_text().partition("## Names\n")
        path.write_text(page(found) + "\n" + heading + names)
    lines = unexplained(found)
    for line in (*lines, *not_missed(found)):
        print(line)
    # The plain line that counts tests, for whoever reads the log.
    good = sum(not isinstance(r, str) for results in found.values() for r in results.values())
    print(f"{good} passed, {len(lines)} failed")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
