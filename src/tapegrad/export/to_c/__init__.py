"""A recorded call as one file in C11: tapegrad.export.c."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ...autograd.grad_mode import no_grad
from ...compiler import compile
from ...compiler.run.function import Compiled
from ...core.base import TensorBase
from ...core.strides import memory
from ...kernels.cpu import KERNELS
from ...nn.modules.module import Module
from ...ops.draws.generators import default_generator
from ...optim.lr_scheduler import LRScheduler
from ...optim.optimizer import Optimizer
from .page import page
from .program import Printed, Refused

MOST_CALLS = 8  # until a call is recorded and confirmed


class Before:
    """All tensors as they are before the calls that are recorded; afterwards they are so again."""

    def __init__(self) -> None:
        objects = gc.get_objects()
        tensors = [t for t in objects if isinstance(t, TensorBase) and not t._special]
        optimizers = [o for o in objects if isinstance(o, Optimizer)]
        self.states = [(o, {p: dict(own) for p, own in o.state.items()}) for o in optimizers]
        self.groups = [(g, dict(g)) for o in optimizers for g in o.param_groups]
        schedulers = [o for o in objects if isinstance(o, LRScheduler)]
        self.schedulers = [(s, {k: kept(v) for k, v in vars(s).items()}) for s in schedulers]
        self.gradients = [(t, t._gradient) for t in tensors]
        owners = {id(memory(t._array)): memory(t._array) for t in tensors}
        for _, g in self.gradients:
            if g is not None:
                owners[id(memory(g._array))] = memory(g._array)
        self.copies = {key: (owner, owner.copy()) for key, owner in owners.items()}
        self.known = {id(t) for t in tensors}
        self.random = default_generator.get_state()

    def array(self, owner: Any) -> Any:
        """The values of an array before; zeros for the state that an optimizer made since."""
        found = self.copies.get(id(owner))
        return np.zeros_like(owner) if found is None else found[1]

    def rate(self, update: Any) -> float:
        """The learning rate of an update."""
        found = [was["lr"] for group, was in self.groups if group is update.done.group]
        return float(found[0] if found else update.done.group["lr"])

    def is_new(self, done: Any) -> bool:
        """Whether the state of an optimizer was made since."""
        return any([id(t) not in self.known for own in done.owns for t in tensors_of(own)])

    def count(self, update: Any) -> float:
        if update.done.rule.fresh or update.is_new:
            return update.start(update.is_new)
        array = update.done.owns[0][update.done.rule.scalars[0]]._array
        return float(self.array(memory(array)).reshape(-1)[0])

    def restore(self) -> None:
        for owner, copy in self.copies.values():
            if owner.flags.writeable:
                owner[...] = copy
        for t, g in self.gradients:
            t._gradient = g
        for optimizer, states in self.states:
            for p in list(optimizer.state):
                if p not in states:
                    del optimizer.state[p]
                elif optimizer.state[p].keys() != states[p].keys():
                    optimizer.state[p] = states[p]
        self.restore_rates()
        default_generator.set_state(self.random)

    def restore_rates(self) -> None:
        """The options of optimizers, and schedulers."""
        for group, was in self.groups:
            dict.update(group, was)
        for scheduler, attributes in self.schedulers:
            vars(scheduler).update({k: kept(v) for k, v in attributes.items()})


def kept(value: Any) -> Any:
    """A list of its own, with the same elements; other values as they are."""
    return value.copy() if isinstance(value, (list, dict, set)) else value


def tensors_of(state: Any) -> list[Any]:
    return [t for t in state.values() if isinstance(t, TensorBase)]


def c(
    step: Callable[..., Any],
    example_args: tuple[Any, ...],
    path: Any,
    *,
    name: str | None = None,
    weights: Any = None,
) -> dict[str, int]:
    """Write a function of tensors, a training step or a model, as one file in C11.

    `step` is recorded as by `tapegrad.compile`, on `example_args`: forward pass, backward pass and
    the step of the optimizer. The file has one static arena, allocates nothing and needs only the
    C library. Its functions are `NAME_init()`, `NAME_step(...)` or `NAME_predict(...)`,
    `NAME_get_parameters(to)` and `NAME_set_parameters(from)`. Parameters start with their present
    values; with `weights`, a path, these are written to that file, which `NAME_load(path)` reads.
    All tensors have their values back afterwards. What cannot be printed is refused with its line,
    and nothing is written. Returns sizes in bytes::

        torch.export.c(model.eval(), (x,), "model.c")  # model_predict(const float *x, float *out)

    >>> torch.export.c(torch.nn.Dropout(), (torch.ones(2),), "model.c")
    Traceback (most recent call last):
    RuntimeError: export.c: the module is in training mode; call model.eval() first.
    """
    path = Path(path)
    name = name or re.sub(r"\W+", "_", path.stem)
    if not name.isidentifier():
        raise ValueError(f"export.c: {name!r} is no identifier of C; give a `name`")
    origin, function = given(step)
    if KERNELS is None:
        raise RuntimeError("export.c needs the kernels in C, which this build of tapegrad has not")
    before = Before()
    try:
        compiled, recording = recorded(function, example_args)
        printed = Printed(compiled, recording, before)
        text, kept = page(printed, name, origin, str(weights or ""))
    finally:
        before.restore()
    path.write_text(text)
    if weights:
        Path(weights).write_bytes(b"".join([p.initial.tobytes(order="K") for p in kept]))
    m = printed.memory
    return {
        "arena": m.total,
        "planned": m.planned,
        "state": sum([p.array.nbytes for p in kept]),
        "parameters": sum([p.array.nbytes for p in kept if p.is_parameter]),
    }


def given(step: Any) -> tuple[str, Callable[..., Any]]:
    """A description of the file's program, and the function to be recorded."""
    if isinstance(step, Compiled):
        return step.__name__, step.function
    if isinstance(step, Module):
        if step.training:
            raise RuntimeError("export.c: the module is in training mode; call model.eval() first.")

        def predict(x: Any) -> Any:
            with no_grad():
                return step(x)

        return f"a {type(step).__name__}", predict
    return getattr(step, "__name__", "a function"), step


def recorded(function: Any, args: Any) -> tuple[Any, Any]:
    """The function compiled, and its recording for these arguments."""
    compiled = compile(function, fullgraph=True)
    for _ in range(MOST_CALLS):
        compiled(*args)
        found = [r for r in compiled.recordings.values() if r.run_steps and r.confirmed]
        if found and found[-1].replays:
            if found[-1].outside is not None:
                raise Refused(
                    "export.c: a result of the function is to be differentiated; compute it under "
                    "torch.no_grad(), or return it detached."
                )
            return compiled, found[-1]
    why = "; ".join([r.reason for r in compiled.recordings.values() if r.reason])
    raise Refused(f"export.c: the call cannot be recorded: {why or 'it differs each time'}.")
