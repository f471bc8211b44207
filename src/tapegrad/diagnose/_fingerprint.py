"""A short hash of the bits of a model, and of a whole run: for a paper, or for a test."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..compat import run as runner
from ..core.base import TensorBase
from ..optim.optimizer import Optimizer, register_optimizer_step_post_hook

USAGE = "tapegrad fingerprint [-h] (SCRIPT | -m MODULE) [ARG ...]"
LENGTH = 16  # of a hash, in hexadecimal digits


def fingerprint(*values: Any) -> str:
    """A hash of the bits of models, optimizers, tensors, numbers, and of lists and dicts of them.

    Of a model it is that of its `state_dict()`: names, dtypes, shapes and values. Equal bits have
    equal hashes, on every machine and in every build.

    >>> model = nn.Linear(2, 1)
    >>> before = diagnose.fingerprint(model)
    >>> with no_grad():
    ...     _ = model.bias.add_(1)
    >>> before == diagnose.fingerprint(model), len(before)
    (False, 16)
    """
    found = hashlib.sha256()
    for value in values:
        take(found, value)
    return found.hexdigest()[:LENGTH]


def take(found: Any, value: Any) -> None:
    """Add a value to a hash."""
    if isinstance(value, TensorBase):
        dense: Any = value.detach().cpu()  # type: ignore[attr-defined]
        if dense.is_conj() or dense.is_neg():
            dense = dense.resolve_conj().resolve_neg()
        value = dense._array
        found.update(f"{dense.dtype} {tuple(dense.shape)}\n".encode())
        found.update(np.ascontiguousarray(value).tobytes())
    elif hasattr(value, "state_dict"):
        take(found, value.state_dict())
    elif isinstance(value, Mapping):
        for key, each in value.items():
            found.update(f"{key!r}:".encode())
            take(found, each)
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        for each in value:
            take(found, each)
    else:
        found.update(f"{value!r}\n".encode())


class Steps:
    """Prints a hash of the parameters after each step of an optimizer, and one of all these."""

    def __init__(self) -> None:
        self.count = 0
        self.all = hashlib.sha256()

    def __call__(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self.count += 1
        params = [p for group in optimizer.param_groups for p in group["params"]]
        text = fingerprint(*params)
        self.all.update(text.encode())
        print(f"step {self.count:5d}  {text}")

    def end(self) -> None:
        print(f"end of {self.count} steps  {self.all.hexdigest()[:LENGTH]}")


def main(args: Sequence[str]) -> int:
    """Run what the command line names, with a hash per step."""
    program = list(args)
    if not program or (program[0] == "-m" and len(program) < 2):
        print(f"usage: {USAGE}", file=sys.stderr)
        return 2
    steps = Steps()
    hook = register_optimizer_step_post_hook(steps)
    try:
        if program[0] == "-m":
            runner.run_module(program[1], program[2:])
        else:
            runner.run_script(program[0], program[1:])
    finally:
        hook.remove()
        steps.end()
    return 0
