"""Parameters on a GPU: all of one dtype in one launch, where the backend has a kernel for the rule.

While a step is captured into a CUDA graph, the number of steps and the learning rate are read from
memory on the GPU: a replay counts on, and follows a scheduler.
"""

from __future__ import annotations

from typing import Any

from ..core import devices
from ..core.modes import MODES

PLAIN = (bool, float, int, list, str, tuple, type(None))


def update_on_device(params: list[Any], states: Any, group: dict[str, Any], kind: str) -> list[Any]:
    """Update the parameters that a kernel can; the others are returned."""
    kernels = getattr(devices.DEVICE.backend, "optimizers", None)
    if kernels is None or MODES.records or any(type(v) not in PLAIN for v in group.values()):
        return params
    if group.get("differentiable") or group.get("capturable"):
        return params
    run = adam if kind == "adam" else sgd
    rest: list[Any] = []
    alike: dict[Any, list[Any]] = {}
    for p in params:
        own = states[p]
        if not fits(p, own):
            rest.append(p)
            continue
        step = own["step"].array.item() if "step" in own else own.get("momentum_buffer") is None
        alike.setdefault((p.array.dtype, step), []).append(p)
    for (_, step), some in alike.items():
        run(kernels[kind], some, [states[p] for p in some], group, step)
        for p in some:
            p.version_cell().bump(f"_fused_{kind}_")
    return rest


def fits(p: Any, own: dict[str, Any]) -> bool:
    array, grad = p.array, p.gradient.array
    if not devices.is_device(p) or array.dtype.kind not in "fV" or not array.flags.c_contiguous:
        return False
    if not devices.is_device(p.gradient) or grad.dtype != array.dtype or grad.shape != array.shape:
        return False
    for name, t in own.items():
        if name == "step" or t is None:
            continue
        if not devices.is_device(t) or not t.array.flags.c_contiguous:
            return False
    return True


def gradients(params: list[Any]) -> list[Any]:
    xp = devices.DEVICE.xp
    return [xp.ascontiguousarray(p.gradient.array) for p in params]


def adam(kernel: Any, params: list[Any], states: list[Any], group: Any, step: float) -> None:
    largest = None
    if group["amsgrad"]:
        largest = [own["max_exp_avg_sq"].array for own in states]
    counters = captured(params, states, group, step)
    if counters is None:
        for own in states:
            count(own["step"])
    else:
        counters.advance()
    kernel(
        [p.array for p in params],
        gradients(params),
        [own["exp_avg"].array for own in states],
        [own["exp_avg_sq"].array for own in states],
        largest,
        lr=group["lr"],
        betas=group["betas"],
        eps=group["eps"],
        decay=group["weight_decay"],
        decoupled=bool(group.get("decoupled_weight_decay")),
        maximize=group["maximize"],
        step=step + 1,
        counters=counters,
    )


def sgd(kernel: Any, params: list[Any], states: list[Any], group: Any, first: bool) -> None:
    momentum = group["momentum"]
    buffers = None
    if momentum:
        if first:
            for p, own in zip(params, states, strict=True):
                own["momentum_buffer"] = p.detach().clone()
        buffers = [own["momentum_buffer"].array for own in states]
    kernel(
        [p.array for p in params],
        gradients(params),
        buffers,
        lr=group["lr"],
        momentum=momentum,
        dampening=group["dampening"],
        decay=group["weight_decay"],
        nesterov=group["nesterov"],
        maximize=group["maximize"],
        first=bool(first) and bool(momentum),
        counters=captured(params, [], group, 0.0),
    )


def count(step: Any) -> None:
    step.array += 1
    step.version_cell().n += 1


def captured(params: list[Any], states: list[Any], group: Any, step: float) -> Any:
    """Counters on the GPU if a CUDA graph is being captured; else None."""
    if not devices.DEVICE.capturing():
        return None
    xp = devices.DEVICE.xp
    side = xp.cuda.Stream(non_blocking=True)
    # Not part of the graph: another stream.
    with side:
        counters = devices.DEVICE.backend.counters(params[0].array.dtype, step, group["lr"])
        side.synchronize()
    devices.DEVICE.capture.Capture.current.optimizers.append(Replayed(counters, states, group))
    return counters


class Replayed:
    """What an optimizer does on the host for every replay of a captured step."""

    def __init__(self, counters: Any, states: list[Any], group: Any) -> None:
        self.counters = counters
        self.states = states
        self.group = group

    def before_replay(self) -> None:
        for own in self.states:
            count(own["step"])
        self.counters.set_lr(self.group["lr"])
