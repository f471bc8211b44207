"""torch.random: seeds and the state of the generators. What draws is in api/random/."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from .core.python_dispatch import cannot_be_repeated
from .device import device
from .ops.block import api
from .ops.draws.generators import (
    SETS_STATE,
    Generator,
    Gpus,
    default_generator,
    generator_of,
    seed_gpus,
)


@api(method=False)
def manual_seed(seed: Any) -> Generator:
    """manual_seed(seed) -> Generator: start the random numbers again from `seed`.

    >>> _ = manual_seed(0)
    >>> rand(1)
    tensor([0.4963])
    """
    seed_gpus(int(seed))
    return default_generator.manual_seed(int(seed))


@api(method=False)
def seed() -> int:
    """seed() -> int: start the random numbers again from anywhere; returns the seed.

    >>> seed() == initial_seed()
    True
    """
    found = default_generator.seed()
    seed_gpus(found)
    return found


@api(method=False)
def initial_seed() -> int:
    """initial_seed() -> int: the seed that the random numbers started from.

    >>> _ = manual_seed(5)
    >>> initial_seed()
    5
    """
    return default_generator.initial_seed()


@api(method=False)
def get_rng_state() -> Any:
    """get_rng_state() -> Tensor: the state of the random numbers, as bytes.

    >>> get_rng_state().shape
    torch.Size([5056])
    """
    return default_generator.get_state()


@api(method=False)
def set_rng_state(new_state: Any) -> None:
    """set_rng_state(new_state) -> None: go on from a state of `get_rng_state`.

    >>> state = get_rng_state()
    >>> a = rand(2)
    >>> set_rng_state(state)
    >>> equal(a, rand(2))
    True
    """
    default_generator.set_state(new_state)


def thread_safe_generator() -> None:
    """The generator of a worker thread of a DataLoader; None, since workers are processes.

    >>> torch.thread_safe_generator() is None
    True
    """
    return None


@contextlib.contextmanager
def fork_rng(
    devices: Any = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = "cuda",
) -> Iterator[None]:
    """Leave the random numbers, at the end of the block, where they were at its start.

    >>> seeded = torch.manual_seed(0)
    >>> with random.fork_rng():
    ...     noise = torch.rand(1)
    >>> bool(torch.rand(1) == noise)  # the stream goes on as if nothing had been drawn
    True
    """
    kind = device(device_type).type
    state = default_generator.stream.copy() if enabled else None
    if enabled:
        cannot_be_repeated(SETS_STATE)
    gpus = forked(devices) if enabled and kind == "cuda" else []
    try:
        yield
    finally:
        if state is not None:
            default_generator.stream.go_on_as(state)  # compiled functions draw from this very one
        for generator, stream in gpus:
            generator.stream = stream


def forked(devices: Any) -> list[tuple[Generator, Any]]:
    """The generators of these GPUs (of all that were used), with copies of their streams."""
    if devices is None:
        found = list(Gpus.made.values())
    else:
        from .cuda import runtime

        found = [generator_of(runtime.index_of(d)) for d in devices]
    return [(generator, generator.stream.copy()) for generator in found]
