"""The table of public functions with sample inputs, for the tests that go through all of them."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

import tapegrad
from tapegrad.api.publish import load_everything
from tapegrad.core.base import wrap
from tapegrad.core.op import REGISTRY
from tapegrad.ops.block.definition import APIS, Api

load_everything()

SAMPLED = sorted(name for name, api in APIS.items() if api.samples)
# A name that ends in an underscore writes into its first argument.
PURE = [name for name in SAMPLED if not name.endswith("_")]

Arguments = tuple[list[Any], dict[str, Any], list[Any]]


def seed_of(name: str, index: int) -> int:
    return zlib.crc32(f"{name}/{index}".encode())


def draw(name: str, index: int, make: Any) -> Arguments:
    """Positional and keyword arguments of a sample call, and the tensors among them."""
    made: list[Any] = []

    def collect(array: Any) -> Any:
        made.append(make(array))
        return made[-1]

    rng = np.random.default_rng(seed_of(name, index))
    args, kwargs = APIS[name].samples[index].draw(rng, collect)
    return args, kwargs, made


def plain(array: Any) -> Any:
    return wrap(array)


def leaf(array: Any) -> Any:
    """A tensor that requires grad, if it can."""
    t = wrap(array)
    return t.requires_grad_() if array.dtype.kind in "fc" else t


def find(torch: Any, api: Api) -> Any:
    """The function or unbound method of that name in a torch-like module."""
    found = torch if api.function else torch.Tensor
    for part in api.name.split("."):
        found = getattr(found, part, None)
    return found


def call(name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Call a public function of tapegrad, always from the same random state."""
    tapegrad.manual_seed(0)
    return find(tapegrad, APIS[name])(*args, **kwargs)


def tensors_in(value: Any, cls: Any = tapegrad.Tensor) -> list[Any]:
    """The tensors of a result, in order."""
    if isinstance(value, cls):
        return [value]
    if isinstance(value, (tuple, list)):
        return [t for v in value for t in tensors_in(v, cls)]
    return []


class Ran:
    """One run of a kernel: the op, its arrays (or numbers), its attributes and its outputs."""

    def __init__(self, op: Any, args: tuple[Any, ...], out: Any) -> None:
        self.op = op
        if op.variadic:
            self.inputs, self.attrs = list(args[0]), args[1:]
        else:
            self.inputs, self.attrs = list(args[: len(op.tensors)]), args[len(op.tensors) :]
        self.outs = (out,) if op.single else tuple(out)


@contextlib.contextmanager
def watched() -> Iterator[list[Ran]]:
    """Collect every kernel that runs inside."""
    runs: list[Ran] = []
    kernels = {record: record.kernel for record in REGISTRY.values()}

    def spy(record: Any, kernel: Any) -> Any:
        def run(*args: Any) -> Any:
            out = kernel(*args)
            runs.append(Ran(record, args, out))
            return out

        return run

    for record, kernel in kernels.items():
        record.kernel = spy(record, kernel)
    try:
        yield runs
    finally:
        for record, kernel in kernels.items():
            record.kernel = kernel
