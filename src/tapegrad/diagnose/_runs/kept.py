"""An op kept whole in a file, and run again alone: here, and under torch where it is installed."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np

import tapegrad as tg

from ...core.array_kind import host
from ...core.base import TensorBase
from ...core.lazy_conj import plain


class Kept:
    """The arguments of a call as data: tensors go into `arrays`."""

    def __init__(self) -> None:
        self.arrays: dict[str, Any] = {}

    def tensor(self, t: Any) -> dict[str, Any]:
        array = np.array(host(plain(t._array)))
        name = f"t{len(self.arrays)}"
        dtype = str(t.dtype).removeprefix("torch.")
        if array.dtype.kind == "V" or array.dtype.name.startswith(("bfloat", "float8")):
            array = array.view(f"u{array.dtype.itemsize}")
        self.arrays[name] = array
        return {"tensor": name, "dtype": dtype}

    def data(self, value: Any) -> Any:
        if isinstance(value, TensorBase):
            return self.tensor(value)
        if isinstance(value, (list, tuple)):
            return [self.data(v) for v in value]
        if isinstance(value, dict):
            return {str(k): self.data(v) for k, v in value.items()}
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": str(value)}
        if isinstance(value, (bool, int, float, str)) or value is None:
            return value
        if isinstance(value, tg.dtype):
            return {"dtype": str(value).removeprefix("torch.")}
        return None  # devices, layouts and memory formats: the defaults will do


def back(value: Any, arrays: dict[str, Any], library: Any) -> Any:
    """Read data that `Kept.data` wrote, as arguments for a library."""
    if isinstance(value, list):
        return [back(v, arrays, library) for v in value]
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        dtype = getattr(library, value["dtype"])
        array = arrays[value["tensor"]]
        if value["dtype"].startswith(("bfloat", "float8")):
            signed = {1: np.uint8, 2: np.int16}[array.dtype.itemsize]
            return library.from_numpy(array.view(signed).copy()).view(dtype)
        return library.from_numpy(array.copy()).to(dtype)
    if set(value) == {"float"}:
        return float(value["float"])
    if set(value) == {"dtype"}:
        return getattr(library, value["dtype"])
    return {k: back(v, arrays, library) for k, v in value.items()}


def run_again(call: dict[str, Any], arrays: dict[str, Any], library: Any) -> list[Any]:
    """Run a kept op; its results."""
    if call["phase"] == "optimizer":
        return run_step(call, arrays, library)
    args = back(call["args"], arrays, library)
    kwargs = back(call["kwargs"], arrays, library)
    name, _, overload = call["op"].rpartition(".")
    space, _, packet = name.partition(".")
    op = getattr(getattr(getattr(library.ops, space), packet), overload)
    if call["phase"] == "forward":
        return tensors_in(op(*args, **kwargs), library)
    given = [t for t in tensors_in((args, kwargs), library) if t.is_floating_point()]
    for t in given:
        t.requires_grad_()
    out = tensors_in(op(*args, **kwargs), library)
    pairs = [(o, g) for o, g in zip(out, call["grads"], strict=False) if g is not None]
    pairs = [(o, g) for o, g in pairs if o.requires_grad]
    grads = [back(g, arrays, library) for _, g in pairs]
    found = library.autograd.grad([o for o, _ in pairs], given, grads, allow_unused=True)
    return [g for g in found if g is not None]


def run_step(call: dict[str, Any], arrays: dict[str, Any], library: Any) -> list[Any]:
    p = back(call["param"], arrays, library).requires_grad_()
    p.grad = back(call["grad"], arrays, library)
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in call["options"].items()}
    optimizer = getattr(library.optim, call["op"])([p], **options)
    optimizer.state[p].update(back(call["state"], arrays, library))
    optimizer.step()
    return [p.detach()]


def tensors_in(value: Any, library: Any) -> list[Any]:
    if isinstance(value, library.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in tensors_in(v, library)]
    return []


def told(t: Any) -> str:
    """A result in a line."""
    values = t.detach().double().cpu().numpy()
    good = values[np.isfinite(values)]
    nans = int(np.isnan(values).sum())
    infinite = values.size - good.size - nans
    reach = f"{good.min():.6g} to {good.max():.6g}" if good.size else "nothing finite"
    shape = "x".join(map(str, values.shape)) or "1"
    return (
        f"{str(t.dtype).removeprefix('torch.')}[{shape}] {reach}, {nans} NaN, {infinite} infinite"
    )


def replay(path: str) -> list[str]:
    """Run the op that a file keeps, under tapegrad and under torch; the report, line by line."""
    from .reader import BadRun, read_run

    run = read_run(path, partial=True)
    if run.kept is None:
        raise BadRun(
            f"{path} keeps no op: `tapegrad record --until-nonfinite` keeps the one that made the "
            "first NaN or infinity"
        )
    call, arrays = run.kept
    lines = [f"{call['op']} ({call['phase']}) at {call['line']}"]
    for name, x in arrays.items():
        lines.append(f"  {name}: {x.dtype}{list(x.shape)}")
    libraries = [("tapegrad", tg)]
    try:
        libraries.append(("torch", importlib.import_module("torch")))
    except ImportError:
        lines.append("torch is not installed here: only tapegrad runs it")
    if len(libraries) == 2 and libraries[1][1] is tg:
        libraries.pop()
    for name, library in libraries:
        try:
            results = run_again(call, arrays, library)
        except Exception as error:
            lines.append(f"{name}: {type(error).__name__}: {str(error).splitlines()[0]}")
            continue
        lines += [f"{name}: {told(t)}" for t in results]
    return lines
