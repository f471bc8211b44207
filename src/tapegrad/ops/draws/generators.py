"""Generators of random numbers: `torch.Generator`, the default ones, and which one a draw uses."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.base import STATE, TensorBase, wrap
from ...core.devices import to_host
from ...core.python_dispatch import cannot_be_repeated
from ...core.transforms.batched import physical_array
from ...device import CPU
from ...device import device as device_type
from ..creation.arguments import no_cuda
from . import streams  # noqa: F401 - which gives a Stream its functions
from .twister import DEFAULT_SEED, Stream

SETS_STATE = "it sets where random numbers go on from"


class Generator:
    """A source of random numbers with a state of its own.

    >>> rand(1, generator=Generator().manual_seed(0))
    tensor([0.4963])
    """

    device = CPU

    def __init__(self, device: Any = "cpu") -> None:
        found = device_type("cpu" if device is None else device)
        self.stream: Any = None
        if found.type == "cpu":
            self.stream = Stream()
        elif found.type == "cuda" and has_gpu():
            from ...cuda import draws, runtime

            place = runtime.index_of(found)
            self.device = device_type("cuda", place)
            self.stream = draws.DeviceStream(place)
        elif found.type in ("cuda", "xpu"):
            raise no_cuda(
                f"Cannot get {found.type.upper()} generator without ATen_{found.type} library.",
                RuntimeError,
            )
        else:
            raise RuntimeError(f"{found.type.upper()} device type not an accelerator.")

    def manual_seed(self, seed: int) -> Generator:
        """Start again from `seed`; returns self."""
        if isinstance(seed, np.integer):
            raise TypeError("an integer is required")
        cannot_be_repeated(SETS_STATE)
        self.stream.manual_seed(seed)
        return self

    def seed(self) -> int:
        """Start again from a seed that nobody can know beforehand, and return it."""
        cannot_be_repeated(SETS_STATE)
        return self.stream.seed()

    def initial_seed(self) -> int:
        """The seed that the numbers started from."""
        return self.stream.initial_seed()

    def get_state(self) -> Any:
        """The state, as a byte tensor."""
        cannot_be_repeated("it reads the state of random numbers")
        return wrap(self.stream.get_state())

    def set_state(self, new_state: Any) -> Generator:
        """Go on from a state; returns self."""
        if not isinstance(new_state, TensorBase):
            raise TypeError(f"expected a torch.ByteTensor, but got {type(new_state).__name__}")
        cannot_be_repeated(SETS_STATE)
        self.stream.set_state(to_host(new_state._array))
        return self

    def get_offset(self) -> int:
        """How many words of 32 bits a GPU's generator has drawn."""
        self.check_offset()
        return int(self.stream.offset)

    def set_offset(self, offset: int) -> None:
        """Go on from the word of that number."""
        self.check_offset()
        self.stream.offset = offset

    def check_offset(self) -> None:
        if self.device.type == "cpu":
            raise RuntimeError("CPU Generator does not use offset")

    def clone_state(self) -> Generator:
        """A generator of its own that will draw the same numbers."""
        cannot_be_repeated("it reads the state of random numbers")
        new = Generator(self.device)
        new.stream = self.stream.copy()
        return new

    def graphsafe_get_state(self) -> Generator:
        """A generator that shares the numbers of this one, also in CUDA graphs."""
        self.check_shares("graphsafe_get_state")
        new = Generator(self.device)
        new.stream = self.stream
        return new

    def graphsafe_set_state(self, state: Generator) -> None:
        """Share the numbers of another generator from now on."""
        self.check_shares("graphsafe_set_state")
        self.stream = state.stream

    def check_shares(self, function: str) -> None:
        if self.device.type == "cpu":
            raise NotImplementedError(f"{function} is not supported in this Generator")

    def __repr__(self) -> str:
        return f"<torch._C.Generator object at {id(self):#x}>"

    def __reduce__(self) -> Any:
        if self.device.type == "cpu":
            return restored, (self.stream.get_state(),)
        return restored, (self.stream.get_state(), str(self.device))


def restored(state: Any, device: str = "cpu") -> Generator:
    new = Generator(device)
    new.stream.set_state(state)
    return new


def has_gpu() -> bool:
    from ...cuda import runtime

    return bool(runtime.look())


default_generator = Generator()


META_PLACE = -1  # draws nothing


def place_of(t: Any) -> int | None:
    """The GPU that a tensor is on; None for the CPU."""
    if not STATE.elsewhere:
        return None
    array = physical_array(t)
    if type(array) is STATE.meta_type:
        return META_PLACE
    return int(array.device.id) if type(array) is STATE.device_type else None


def wanted_place(device: Any, out: Any) -> int | None:
    """The GPU that a new tensor goes to, or that `out` is on; None for the CPU."""
    if not STATE.elsewhere:
        return None
    if out is not None:
        return place_of(out) if isinstance(out, TensorBase) else None
    found = None if device is None else device_type(device)
    if found is not None and found.type == "meta":
        return META_PLACE
    return found.index if found is not None and found.type == "cuda" else None


def stream_of(generator: Any, function: str = "rand", place: int | None = None) -> Any:
    """The stream that a function draws from for a tensor on the CPU, or on a GPU."""
    if place == META_PLACE:
        from ...core import meta

        return meta.STREAM
    if generator is None:
        return default_generator.stream if place is None else generator_of(place).stream
    if not isinstance(generator, Generator):
        raise TypeError(
            f"{function}(): argument 'generator' must be torch.Generator, not "
            f"{type(generator).__name__}"
        )
    kind = "cpu" if place is None else "cuda"
    if generator.device.type != kind:
        raise RuntimeError(
            f"Expected a '{kind}' device type for generator but found '{generator.device.type}'"
        )
    return generator.stream


class Gpus:
    """The default generators of the GPUs that were used, and the seed of those that come."""

    made: dict[int, Generator] = {}
    seed = DEFAULT_SEED


def generator_of(place: int) -> Generator:
    """The default generator of a GPU."""
    found = Gpus.made.get(place)
    if found is None:
        found = Gpus.made[place] = Generator(device_type("cuda", place)).manual_seed(Gpus.seed)
    return found


def seed_gpus(seed: int) -> None:
    """Seed the default generators of all GPUs, also of those that are not in use yet."""
    Gpus.seed = seed
    for generator in Gpus.made.values():
        generator.manual_seed(seed)
