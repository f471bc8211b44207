"""Runs a program of the zoo and writes down what can be seen of it, for comparisons."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from .registry import PROGRAMS


def plain(value: Any) -> Any:
    """A value of either library as NumPy arrays, numbers and lists."""
    if hasattr(value, "state_dict"):
        kind = getattr(value, "training", None)
        return plain([kind, [plain(v) for v in value.state_dict().items()]])
    if hasattr(value, "detach"):
        dense = value.detach().to_dense() if value.is_sparse else value.detach()
        return np.array(dense.resolve_conj().numpy())
    if isinstance(value, dict):
        return [[str(k), plain(v)] for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def trace(torch: Any, name: str, compile: Callable[[Any], Any], steps: int) -> dict[str, Any]:
    """Losses of each step, the state in the end, and the random state, in float64."""
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        step, batch, state = PROGRAMS[name](torch)
        called = compile(step)
        losses = [plain(called(*batch(i))) for i in range(steps)]
        drawn = [torch.rand(()).item(), random.random(), float(np.random.rand())]
        return {"losses": losses, "state": plain(state()), "random": drawn, "function": called}
    finally:
        torch.set_default_dtype(before)


def difference(found: Any, expected: Any, tolerance: float, where: str = "") -> str:
    """Where two traces differ first, by more than the tolerance; "" where nowhere."""
    if isinstance(expected, (np.ndarray, float)) and isinstance(found, (np.ndarray, float)):
        a, b = np.asarray(found), np.asarray(expected)
        if a.shape == b.shape and type(found) is type(expected) and a.dtype == b.dtype:
            scale = tolerance * max(1.0, float(np.abs(b[np.isfinite(b)]).max(initial=0.0)))
            if np.allclose(a, b, rtol=tolerance, atol=scale, equal_nan=True):
                return ""
        return f"{where}: {found} for {expected}"
    if isinstance(expected, list) and isinstance(found, list):
        if len(found) != len(expected):
            return f"{where}: {found} for {expected}"
        for i, (a, b) in enumerate(zip(found, expected, strict=True)):
            told = difference(a, b, tolerance, f"{where}[{i}]")
            if told:
                return told
        return ""
    same = type(found) is type(expected) and found == expected
    return "" if same else f"{where}: {found!r} for {expected!r}"
