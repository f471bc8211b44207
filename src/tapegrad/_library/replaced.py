"""Kernels that users give PyTorch's own ops: `Library("aten", "IMPL")`.

They are found by a mode beneath all others, which is on while there are any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autograd.dispatched import call_of
from ..autograd.dispatched import run as run_above
from ..core.base import TensorBase
from ..core.dispatch import apply
from ..core.modes import MODES, count
from ..core.op import Op
from ..core.python_dispatch import ACTIVE, Call, Diversion, OpMode, ask, leaves_of, modes_set_to
from .registry import DEVICE_KEYS

# By the name of the op, then by dispatch key; the last one that was given counts.
KERNELS: dict[str, dict[str, list[Callable[..., Any]]]] = {}
BELOW = frozenset(DEVICE_KEYS.values())
ABOVE = frozenset({"Autograd", *[f"Autograd{key}" for key in ("CPU", "CUDA", "Meta")]})


class Replaced(OpMode):
    """Asks the kernels of the users; what has none runs as ever."""

    def run(
        self, op: Op, tensors: tuple[Any, ...], attrs: tuple[Any, ...], watch: tuple[Any, ...]
    ) -> Any:
        call = call_of(op, tensors, attrs, watch, apply)
        kernel = kernel_for(call.overload, call.args, "Autograd")
        if kernel is None or MODES.inference:  # where there is nothing above
            return run_above(op, tensors, attrs, watch, self)
        with modes_set_to((*ACTIVE.modes, self)):
            return kernel(*call.args, **call.kwargs)

    def ask(self, call: Call) -> Any:
        return ask(call, self)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kernel = kernel_for(func, args, "")
        if kernel is None:
            return func(*args, **(kwargs or {}))
        with modes_set_to((*ACTIVE.modes, self)):
            return kernel(*args, **(kwargs or {}))


REPLACED = Replaced()


def kernel_for(overload: Any, args: tuple[Any, ...], level: str) -> Callable[..., Any] | None:
    """The kernel for these arguments, above autograd ("Autograd") or below it ("")."""
    found = KERNELS.get(overload.name())
    if found is None:
        return None
    tensors = [v for v in leaves_of(args) if isinstance(v, TensorBase)]
    place = DEVICE_KEYS.get(tensors[0].device.type if tensors else "cpu")  # type: ignore[attr-defined]
    for key in (f"{level}{place}", level):
        if found.get(key):
            return found[key][-1]
    return None


def replace(name: str, key: str, kernel: Callable[..., Any]) -> None:
    """Have `kernel` run for "aten::op.overload"."""
    if key not in BELOW and key not in ABOVE:
        raise NotImplementedError(
            f"{name}: a kernel of PyTorch's own ops can be replaced for {', '.join(sorted(BELOW))} "
            f"and {', '.join(sorted(ABOVE))}, not for {key}; a TorchDispatchMode sees every call."
        )
    if key in ABOVE and name.partition(".")[0].endswith("_"):
        raise NotImplementedError(f"{name}: a write can be replaced below autograd only")
    if not KERNELS:
        Diversion.install()
        ACTIVE.modes = (REPLACED, *ACTIVE.modes)
        count(1, 1)
    KERNELS.setdefault(name, {}).setdefault(key, []).append(kernel)


def restore(name: str, key: str, kernel: Callable[..., Any]) -> None:
    """Take a kernel back."""
    KERNELS[name][key].remove(kernel)
    if not any(KERNELS[name].values()):
        del KERNELS[name]
    if not KERNELS:
        count(-1, -1)
        ACTIVE.modes = tuple([m for m in ACTIVE.modes if m is not REPLACED])
