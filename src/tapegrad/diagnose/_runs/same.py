"""`same(f, g, *args)`: assert that two functions compute the same, in words if they do not."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import numpy as np

import tapegrad as tg

from ...core.array_kind import host
from ...core.base import TensorBase
from ...core.lazy_conj import plain
from ...core.python_dispatch import leaves_of
from .compare import compare
from .differ import TOLERANCES
from .reader import read_run
from .recorder import record
from .report import Text


def same(
    f: Callable[..., Any],
    g: Callable[..., Any],
    *args: Any,
    rtol: float | None = None,
    atol: float | None = None,
    **kwargs: Any,
) -> None:
    """Assert that `f(*args, **kwargs)` and `g(*args, **kwargs)` give the same; else say where not.

    Both get copies of the tensors among the arguments and the same random numbers. Results are
    compared as torch.testing.assert_close does; `rtol=0, atol=0` compares bit for bit. The error
    has the first op whose inputs agree and whose result does not.

    >>> x = tensor([1.0, 2.0])
    >>> diagnose.same(lambda x: x + x, lambda x: x * 2, x)
    """
    for name, function in (("f", f), ("g", g)):
        if not callable(function):
            raise TypeError(
                f"same(): argument '{name}' must be a function, not {type(function).__name__}"
            )
    if (rtol is None) != (atol is None):
        raise ValueError("same(): arguments 'rtol' and 'atol' are given both or not at all")
    # First as they are: a compiled function runs its Python code while it is recorded.
    results = [called(function, args, kwargs) for function in (f, g)]
    reason = mismatch(results[0], results[1], rtol, atol)
    if reason is None:
        return
    runs = []
    for function in (f, g):
        file = io.BytesIO()
        called(function, args, kwargs, record(file))
        file.seek(0)
        runs.append(read_run(file))
        runs[-1].path = getattr(function, "__name__", type(function).__name__)
    found = compare(*runs, bits=rtol == 0 and atol == 0)
    if found.same and rtol is None:
        found = compare(*runs, bits=True)
    if found.same:
        told = (
            "Recorded op by op, both compute the same: the difference is between the Python code "
            "of a function and what it was compiled to, or in what is not recorded."
        )
    else:
        told = str(Text(found))
    raise AssertionError(f"{reason}\n\n{told}")


def called(function: Callable[..., Any], args: Any, kwargs: Any, inside: Any = None) -> list[Any]:
    """The tensors and numbers that a function returns; random numbers begin where they are."""
    state = tg.get_rng_state()
    try:
        args, kwargs = copied(args), copied(kwargs)
        with contextlib.nullcontext() if inside is None else inside:
            result = function(*args, **kwargs)
        return [t for t in leaves_of(result) if t is not None]
    finally:
        tg.set_rng_state(state)


def copied(value: Any) -> Any:
    if isinstance(value, TensorBase):
        t: Any = value
        return t.detach().clone().requires_grad_(t.requires_grad)
    if type(value) in (list, tuple):
        return type(value)([copied(v) for v in value])
    return {k: copied(v) for k, v in value.items()} if type(value) is dict else value


def mismatch(ours: list[Any], theirs: list[Any], rtol: Any, atol: Any) -> str | None:
    if len(ours) != len(theirs):
        return f"f returns {len(ours)} results, g returns {len(theirs)}"
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if not isinstance(a, TensorBase) or not isinstance(b, TensorBase):
            if type(a) is not type(b) or a != b:
                return f"result {i} is {a!r} of f and {b!r} of g"
            continue
        reason = unlike(a, b, rtol, atol)
        if reason is not None:
            return f"result {i} {reason}"
    return None


def unlike(a: Any, b: Any, rtol: Any, atol: Any) -> str | None:
    if a.dtype != b.dtype or a.shape != b.shape:
        told = [f"{t.dtype} {tuple(t.shape)}" for t in (a, b)]
        return f"is {told[0]} of f and {told[1]} of g"
    x, y = [np.asarray(host(plain(t._array))) for t in (a, b)]
    if x.dtype.kind not in "fciub":
        x, y = x.astype(np.float64), y.astype(np.float64)
    name = str(a.dtype).removeprefix("torch.")
    default = TOLERANCES.get(name, (0.0, 0.0))
    rtol, atol = default if rtol is None else (rtol, atol)
    close = np.isclose(x, y, rtol=rtol, atol=atol, equal_nan=True)
    if close.all():
        return None
    gap = np.abs(x.astype(np.complex128) - y.astype(np.complex128))
    return (
        f"differs in {int((~close).sum())} of {x.size} values, by {np.nanmax(gap):.3g} at the most"
    )
