"""What the tests of `tapegrad.compile` against eager share: traps, and the comparison of two runs.

A trap is a builder: it makes fresh Python state, a function (given to `compile`, which is either
`tapegrad.compile` or nothing), and says what changes before each call. A trap passes when the
compiled run cannot be told from the eager one: results, exceptions, written arguments, gradients,
Python's state and random state after every call.
"""

from __future__ import annotations

import contextlib
import random
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tapegrad as T

CALLS = 10
CHANGES = (5, 7, 8)  # calls before which `phase` is another one: replays begin at the fourth


def phase(i: int) -> int:
    """0 while a function is recorded and first replayed, then 1, 2 and 0 again."""
    return (0, 1, 2, 0)[sum(i >= change for change in CHANGES)]


def work(x: Any) -> Any:
    """Some ops, so that a recording of them is worth replaying."""
    return (x.tanh().sin().exp() * 1.5 + x).cos()


def one_tensor(i: int) -> tuple[Any, ...]:
    """The argument of call `i`: equal in the first calls, then others of the same shape."""
    return (numbers(i),)


def numbers(i: int, *shape: int) -> Any:
    drawn = np.random.default_rng(max(i - 3, 0))
    return T.from_numpy(drawn.uniform(-1, 1, shape or (2, 3)))


def nothing(i: int) -> None:
    pass


@dataclass
class Trap:
    """A function under test, what changes before call `i`, and the arguments of call `i`."""

    function: Callable[..., Any]
    before: Callable[[int], Any] = nothing
    args: Callable[[int], tuple[Any, ...]] = one_tensor
    state: Callable[[], Any] = lambda: None  # of Python's, compared after each call
    undo: Callable[[], Any] = lambda: None  # of changes that would reach other tests


@dataclass
class Registered:
    traps: dict[str, Callable[[Any], Trap]] = field(default_factory=dict)

    def __call__(self, build: Callable[[Any], Trap]) -> Callable[[Any], Trap]:
        name = f"{build.__module__.removeprefix('traps_')}-{build.__name__}"
        assert name not in self.traps, name
        self.traps[name] = build
        return build


trap = Registered()


def frozen(value: Any, counts: bool = True) -> Any:
    """A value as it is now: later writes do not reach it. `counts`: with versions of tensors.

    Those of gradients are left out: a pass that begins in a piece may end with one copy more.
    """
    if isinstance(value, T.Tensor):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            grad = value.grad
        kind = type(value).__name__, str(value.dtype), tuple(value.shape), value.requires_grad
        version = value._version if counts and not value.is_inference() else None
        kind = *kind, value.is_inference(), version
        dense = value.detach().to_dense() if value.is_sparse else value.detach()
        dense = dense.float() if dense.dtype == T.bfloat16 else dense
        return ("tensor", *kind, np.array(dense.resolve_conj().numpy()), frozen(grad, False))
    if isinstance(value, np.ndarray):
        return ("array", str(value.dtype), value.shape, value.copy())
    if isinstance(value, dict):
        # With the order of the keys.
        items = [(frozen(k, counts), frozen(v, counts)) for k, v in value.items()]
        return (type(value).__name__, items)
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [frozen(v, counts) for v in value])
    if isinstance(value, (set, frozenset)):
        return (type(value).__name__, sorted(map(repr, value)))
    for kind in (bool, int, float, complex, str, bytes):
        if isinstance(value, kind):
            return (type(value).__name__, kind(value))
    if value is None or isinstance(value, type) or callable(value):
        return getattr(value, "__name__", type(value).__name__)
    if hasattr(value, "__dict__"):
        return (type(value).__name__, frozen(vars(value), counts))
    return type(value).__name__


# By which last bits may differ, as the bytes of an element tell: float16, float32, float64.
TOLERANCE = {2: 2e-2, 4: 1e-5, 8: 1e-12, 16: 1e-12}


def difference(found: Any, expected: Any, where: str = "") -> str:
    """Where two frozen values differ first; "" where they are the same."""
    if isinstance(expected, np.ndarray) and isinstance(found, np.ndarray):
        return "" if close(found, expected) else f"{where}: {found} for {expected}"
    if isinstance(expected, (list, tuple)) and type(found) is type(expected):
        if len(found) != len(expected):
            return f"{where}: {found} for {expected}"
        pairs = enumerate(zip(found, expected, strict=True))
        parts = (difference(a, b, f"{where}[{i}]") for i, (a, b) in pairs)
        return next((part for part in parts if part), "")
    if type(expected) in (float, complex) and type(found) is type(expected):
        same = close(np.array(found), np.array(expected))
        return "" if same else f"{where}: {found} for {expected}"
    same = type(found) is type(expected) and found == expected
    return "" if same else f"{where}: {found} for {expected}"


def close(found: Any, expected: Any) -> bool:
    """Equal bits, or last bits that another order of additions may change."""
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return False
    if found.tobytes() == expected.tobytes():
        return True
    if expected.dtype.kind not in "fc":
        return bool((found == expected).all())
    tolerance = TOLERANCE[expected.dtype.itemsize // (2 if expected.dtype.kind == "c" else 1)]
    with np.errstate(all="ignore"):
        finite = np.abs(expected[np.isfinite(expected)])
        scale = max(1.0, float(finite.max())) if finite.size else 1.0
        same = np.isclose(found, expected, tolerance, tolerance * scale, equal_nan=True)
    return bool(same.all())


def random_state() -> Any:
    drawn = np.random.get_state()
    return (
        T.get_rng_state().numpy().tobytes(),
        hash(random.getstate()),
        (drawn[1].tobytes(), drawn[2]),
    )


def outcome(function: Callable[..., Any], args: tuple[Any, ...], outside: bool) -> Any:
    """The result of a call, or its exception; with a backward pass where one is asked for."""
    try:
        result = function(*args)
        if outside:
            losses = [t.abs().sum() for t in tensors_of(result) if t.requires_grad]
            if losses:
                sum(losses).backward()
    except Exception as error:
        # What follows the sentence is said by the call that is nearest to the user's line.
        return (type(error), str(error).partition("\n")[0])
    return frozen(result)


def tensors_of(value: Any) -> list[Any]:
    if isinstance(value, T.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [t for v in value for t in tensors_of(v)]
    return []


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Refusing to compile is allowed, and the warning that says so is not looked at."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def history(build: Callable[[Any], Trap], compile: Any, outside: bool, calls: int) -> list[Any]:
    """All that can be seen of the calls of a trap."""
    T.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    case = build(compile)
    seen = []
    try:
        for i in range(calls):
            case.before(i)
            args = case.args(i)
            if outside:
                for t in tensors_of(args):
                    if t.is_floating_point() or t.is_complex():
                        t.requires_grad_()
            result = outcome(case.function, args, outside)
            named = {"result": result, "arguments": frozen(list(args))}
            named["state"] = frozen(case.state())
            named["random"] = random_state()
            named["modes"] = (str(T.get_default_dtype()), T.is_grad_enabled())
            seen.append(named)
    finally:
        case.undo()
        T.set_default_dtype(T.float32)
    return seen


def compare(build: Callable[[Any], Trap], outside: bool = False, calls: int = CALLS) -> str:
    """Where a compiled run of a trap can first be told from an eager one; "" where nowhere."""
    with quiet():
        expected = history(build, lambda function: function, outside, calls)
        found = history(build, T.compile, outside, calls)
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        for what in b:
            told = difference(a[what], b[what])
            if told:
                return f"call {i}, {what}{told}"
    return ""


def replays(compiled: Any) -> int:
    """How many calls of a compiled function, and of its pieces, were replays."""
    text = T.compile.explain(compiled)
    return sum(int(n) for n in re.findall(r"replayed (\d+) times", text))
