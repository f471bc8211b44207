"""The random state of GPUs. The numbers themselves are drawn in draws.py.

Seeds that are set while no GPU is in use wait for the first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..ops.draws.generators import Gpus, generator_of, seed_gpus
from . import runtime


def manual_seed(seed: int) -> None:
    """Seed the current GPU's generator."""
    if runtime.look():
        generator_of(runtime.index_of(None)).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed every GPU's generator."""
    seed_gpus(int(seed))


def seed() -> None:
    """Seed the current GPU's generator anew, from anywhere."""
    if runtime.look():
        generator_of(runtime.index_of(None)).seed()


def seed_all() -> None:
    """Seed every GPU's generator anew, all alike."""
    if runtime.look():
        seed_gpus(generator_of(runtime.index_of(None)).seed())


def initial_seed() -> int:
    """The seed that the current GPU's numbers started from."""
    return generator_of(runtime.index_of(None)).initial_seed()


def get_rng_state(device: Any = "cuda") -> Any:
    """The state of a GPU's generator, as a byte tensor on the CPU."""
    return generator_of(runtime.index_of(device)).get_state()


def get_rng_state_all() -> list[Any]:
    """The states of all GPUs' generators."""
    return [get_rng_state(place) for place in range(runtime.look())]


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Go on from a state; nothing happens without a GPU."""
    if runtime.look():
        generator_of(runtime.index_of(device)).set_state(new_state)


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """Set the states of all GPUs' generators."""
    for place, state in enumerate(new_states):
        set_rng_state(state, place)


def default_generators() -> tuple[Any, ...]:
    """The default generator of every GPU; none where no GPU is in use."""
    count = runtime.Found.count if Gpus.made or runtime.devices.DEVICE.xp is not None else 0
    return tuple([generator_of(place) for place in range(count)])
