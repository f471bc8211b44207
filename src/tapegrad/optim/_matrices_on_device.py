"""Adafactor and Muon on a GPU: all parameters of one dtype in a few launches.

As in `_on_device`, steps that are captured into a CUDA graph read their numbers on the GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core import devices
from ..core.base import STATE
from ..core.modes import MODES
from ._on_device import (
    NUMBERS,
    PLAIN,
    Fused,
    Group,
    State,
    address_of,
    advance,
    captured,
    ops_are_watched,
    rows_of,
)

ADAFACTOR = Fused("adafactor", None, {}, ())
MUON = Fused("muon", None, {}, (), ())


def kernels_for(name: str, params: list[Any], group: Group, numbers: Sequence[Any]) -> Any:
    """The launcher for these parameters; None if they have to be updated one by one."""
    if STATE.device_type is None or not params or group.get("foreach") is False:
        return None
    found = getattr(devices.DEVICE.backend, name, None)
    if found is None or MODES.records or ops_are_watched() or STATE.several:
        return None
    if any([type(v) not in PLAIN for v in group.values()]):
        return None
    if any([type(v) not in NUMBERS for v in numbers]):
        return None
    if len({address_of(p) for p in params}) != len(params):
        return None
    return found


def adafactor(params: list[Any], states: Any, group: Group) -> list[Any]:
    """Update the parameters that the kernels can; the others are returned."""
    eps1, eps2 = group["eps"]
    others = [group[name] for name in ("d", "weight_decay", "maximize")]
    kernels = kernels_for(
        "adafactor", params, group, [group["lr"], group["beta2_decay"], eps2, *others]
    )
    if kernels is None:
        return params
    rest: list[Any] = []
    alike: dict[Any, tuple[list[Any], list[State], list[Any]]] = {}
    for p in params:
        own = states[p]
        values = ADAFACTOR.values(own)
        present = ("variance",) if "variance" in own else ("row_var", "col_var")
        arrays = rows_of(p, own, present, "")
        if values is None or arrays is None or not kernels.takes(arrays):
            rest.append(p)
            continue
        least = smallest_step(p) if eps1 is None else eps1
        found = alike.setdefault((arrays[0].dtype, values, least), ([], [], []))
        for kept, new in zip(found, (p, own, arrays), strict=True):
            kept.append(new)
    for (dtype, values, least), (some, owns, each) in alike.items():
        options = [group["beta2_decay"], least, eps2, *others]
        counters = captured(ADAFACTOR, owns, values, group)
        kernels.update(each, (group["lr"], *values), options, counters)
        if counters is None:
            advance(ADAFACTOR, owns, group)
        else:
            kernels.advance(dtype, counters)
        written(some, "_fused_adafactor_")
    return rest


def smallest_step(p: Any) -> float:
    import tapegrad as tg

    return float(tg.finfo(p.dtype).eps)


def muon(params: list[Any], states: Any, group: Group, factor: Any) -> list[Any]:
    """A step of Muon on a GPU; `factor(shape)` multiplies the learning rate."""
    names = ("momentum", "nesterov", "eps", "weight_decay")
    options = [group[name] for name in names]
    coefficients, times = group["ns_coefficients"], group["ns_steps"]
    numbers = [group["lr"], *options, *coefficients]
    kernels = kernels_for("muon", params, group, numbers)
    if kernels is None or len(coefficients) != 3 or type(times) is not int or times >= 100:
        return params
    rest: list[Any] = []
    alike: dict[Any, tuple[list[Any], list[State], list[Any]]] = {}
    for p in params:
        own = states[p]
        arrays = rows_of(p, own, ("momentum_buffer",), "")
        if arrays is None or not kernels.takes(arrays):
            rest.append(p)
            continue
        found = alike.setdefault(arrays[0].dtype, ([], [], []))
        for kept, new in zip(found, (p, own, arrays), strict=True):
            kept.append(new)
    for some, owns, each in alike.values():
        factors = [factor(p._array.shape) for p in some]
        counters = captured(MUON, owns, (), group)
        kernels.update(each, factors, (coefficients, times), (group["lr"],), options, counters)
        written(some, "_fused_muon_")
    return rest


def written(params: list[Any], name: str) -> None:
    for p in params:
        (p._cell or p._version_cell()).bump(name)
