"""The engine behind `torch.Generator`: a Mersenne twister and one cached normal."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...core.locks import new_rlock, renewed_after_fork
from ...kernels.cpu import KERNELS

Array = np.ndarray[Any, np.dtype[Any]]

DEFAULT_SEED = 67280421310721  # what a new torch.Generator() starts from

_WORDS = 624  # words in the state of the twister
_STATE_BYTES = 5056
# The layout of the state: seed, words left (i4), seeded (i4), next word, the words (8 bytes each),
# three doubles of which the middle one is the cached normal, its flag (i4), and a cached float that
# PyTorch never fills.
_LEFT, _SEEDED, _NEXT, _KEY, _NORMAL, _HAS_NORMAL = 8, 12, 16, 24, 5024, 5040


_STARTING = new_rlock()


_LIKE = {np.dtype(kind): np.empty(0, kind) for kind in (np.float32, np.float64, np.bool_)}
Mark = tuple[Array, Array, bool]


def new_room(n: int, dtype: Any) -> Array:
    """A new array for a kernel in C; floats lie in memory that is used again."""
    like = _LIKE.get(dtype)
    made: Array = np.empty(n, dtype) if like is None else KERNELS.empty((n,), like)
    return made


class Stream:
    """One random stream. The twister waits for the first draw: `numpy.random` is slow to import."""

    home: Any = None  # the module of the functions that draw from it: this one, or a GPU's

    def __init__(self, seed: int = DEFAULT_SEED) -> None:
        self._seed = seed
        self._bits: Any = None  # numpy.random.MT19937
        self._source: Any = None  # numpy.random.Generator on it, faster for long draws
        self._state: Any = None  # its 624 words and the place of the next one, for kernels in C
        self._drawn = False
        self._kept = np.zeros(2)  # the second value of a pair, and whether it still waits

    @property
    def next_normal(self) -> float | None:
        """The second value of a pair, if it was not handed out yet."""
        return float(self._kept[0]) if self._kept[1] else None

    @next_normal.setter
    def next_normal(self, value: float | None) -> None:
        self._kept[:] = (0.0, 0.0) if value is None else (value, 1.0)

    def manual_seed(self, seed: int) -> Stream:
        """Start again from `seed`; negative seeds count back from 2**64."""
        check_seed(seed)
        self._seed = seed & 0xFFFF_FFFF_FFFF_FFFF
        self._drawn = False
        self.next_normal = None
        if self._bits is not None:
            self._bits._legacy_seeding(self._seed & 0xFFFF_FFFF)
        return self

    def seed(self) -> int:
        """Start again from a seed that nobody can know beforehand, and return it."""
        self.manual_seed(int.from_bytes(os.urandom(8), "little"))
        return self._seed

    def initial_seed(self) -> int:
        return self._seed

    def words(self, n: int) -> Array:
        """The next `n` words of 32 bits, as uint32."""
        if KERNELS is not None:
            return self.fill("words", np.empty(n, np.uint32))
        bits = self._bits if self._bits is not None else self._start()
        if n > 0:
            self._drawn = True
        if n < 64:
            raw: Array = bits.random_raw(n).astype(np.uint32)
            return raw
        words: Array = self._source.integers(0, 0xFFFF_FFFF, n, dtype=np.uint32, endpoint=True)
        return words

    def words64(self, n: int) -> Array:
        """The next `n` words of 64 bits, as uint64: two words each, the high one first."""
        if KERNELS is not None:
            return self.fill("words64", np.empty(n, np.uint64))
        bits = self._bits if self._bits is not None else self._start()
        if n > 0:
            self._drawn = True
        if n < 64:
            raw = bits.random_raw(2 * n)
            joined: Array = (raw[0::2] << np.uint64(32)) | raw[1::2]
            return joined
        words: Array = self._source.integers(
            0, 0xFFFF_FFFF_FFFF_FFFF, n, dtype=np.uint64, endpoint=True
        )
        return words

    def doubles(self, n: int) -> list[float]:
        """The next `n` numbers in [0, 1) with 53 random bits: `unit53` for a few."""
        bits = self._bits if self._bits is not None else self._start()
        if n > 0:
            self._drawn = True
        raw = bits.random_raw(2 * n).tolist()
        return [
            ((high << 32 | low) & (1 << 53) - 1) * 2.0**-53
            for high, low in zip(raw[0::2], raw[1::2], strict=True)
        ]

    def room(self, n: int, dtype: Any) -> Array:
        """Where `n` numbers may lie that a kernel in C draws, if they are the whole result."""
        return new_room(n, dtype)

    def fill(self, kernel: str, out: Array, *numbers: float, sizes: Any = ()) -> Array:
        """`out`, filled by a kernel in C that goes on from the state of the twister."""
        bits = self._bits if self._bits is not None else self._start()
        if out.size:
            self._drawn = True
        with bits.lock:
            KERNELS.KERNELS[kernel]((self._state, out, self._kept), (out.size, *sizes), numbers)
        return out

    def fill_by(self, kernel: str, given: Array, out: Array, sizes: Any) -> bool:
        """Draw numbers by a kernel that reads parameters from an array; False, and nothing is
        drawn, if it refuses them.
        """
        bits = self._bits if self._bits is not None else self._start()
        wrong = np.empty(1, np.int64)
        with bits.lock:
            KERNELS.KERNELS[kernel]((self._state, given, out, wrong), sizes)
        succeeded = bool(KERNELS.succeeded(wrong))
        self._drawn |= succeeded and out.size > 0
        return succeeded

    def memory(self) -> list[Array]:
        """The arrays that kernels in C draw from."""
        return [] if self._bits is None else [self._state, self._kept]

    def mark(self) -> Mark | None:
        """Where it is, for `is_at` and `go_to`; None: nothing was drawn from it so far."""
        if self._bits is None:
            return None
        return self._state.copy(), self._kept.copy(), self._drawn

    def is_at(self, mark: Mark | None) -> bool:
        if mark is None or self._bits is None:
            return mark is None and self._bits is None
        state, kept, _ = mark
        return self._state.tobytes() == state.tobytes() and self._kept.tobytes() == kept.tobytes()

    def go_to(self, mark: Mark | None) -> None:
        if mark is not None:
            self._state[:], self._kept[:], self._drawn = mark
        else:
            self.manual_seed(self._seed)

    @contextlib.contextmanager
    def drawn_by_others(self) -> Iterator[None]:
        """Kernels draw from it that somebody else calls."""
        with self._bits.lock:
            self._drawn = True
            yield

    def get_state(self) -> Array:
        """The state as PyTorch writes it: 5056 bytes."""
        if self._bits is None:
            key, position = seeded(self._seed), _WORDS
        else:
            twister = self._bits.state["state"]
            key, position = twister["key"], int(twister["pos"])
        out = np.zeros(_STATE_BYTES, np.uint8)
        out[:8].view("<u8")[0] = self._seed
        out[_LEFT:_SEEDED].view("<i4")[0] = _WORDS + 1 - position
        out[_SEEDED:_NEXT].view("<i4")[0] = 1
        out[_NEXT:_KEY].view("<u8")[0] = position if self._drawn else 0
        out[_KEY : _KEY + 8 * _WORDS].view("<u8")[:] = key
        if self.next_normal is not None:
            out[_NORMAL : _NORMAL + 8].view("<f8")[0] = self.next_normal
            out[_HAS_NORMAL] = 1
        return out

    def set_state(self, state: Array) -> None:
        """Go on from a state that this class or PyTorch wrote."""
        if state.dtype != np.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        if not state.flags.c_contiguous:
            raise RuntimeError("RNG state must be contiguous")
        if state.size != _STATE_BYTES:
            raise RuntimeError(
                f"Expected a CPUGeneratorImplState of size {_STATE_BYTES} but found the input RNG "
                f"state size to be {state.size}"
            )
        if self._bits is None and np.array_equal(state, self.get_state()):
            return  # and it still waits
        data = np.frombuffer(state.tobytes(), np.uint8)  # views need the right alignment
        left = int(data[_LEFT:_SEEDED].view("<i4")[0])
        following = int(data[_NEXT:_KEY].view("<u8")[0])
        seeded = int(data[_SEEDED:_NEXT].view("<i4")[0])
        if not seeded or not 0 < left <= _WORDS or following > _WORDS:
            raise RuntimeError("Invalid mt19937 state")
        bits = self._bits if self._bits is not None else self._start()
        bits.state = {
            "bit_generator": "MT19937",
            "state": {
                "key": data[_KEY : _KEY + 8 * _WORDS].view("<u8").astype(np.uint32),
                "pos": _WORDS + 1 - left,
            },
        }
        self._seed = int(data[:8].view("<u8")[0])
        self._drawn = following != 0
        has_normal = int(data[_HAS_NORMAL : _HAS_NORMAL + 4].view("<i4")[0]) != 0
        self.next_normal = float(data[_NORMAL : _NORMAL + 8].view("<f8")[0]) if has_normal else None

    def copy(self) -> Stream:
        """A stream of its own that will draw what this one would."""
        new = Stream(self._seed)
        if self._bits is not None:
            new._start().state = self._bits.state
        new._drawn = self._drawn
        new.next_normal = self.next_normal
        return new

    def go_on_as(self, other: Stream) -> None:
        """Draw from now on what another stream would; the state stays where kernels know it."""
        self.manual_seed(other._seed)
        if other._bits is not None:
            self._start().state = other._bits.state
        self._drawn = other._drawn
        self.next_normal = other.next_normal

    def _start(self) -> Any:
        """The twister, made by the first thread that draws."""
        with _STARTING:
            if self._bits is None:
                self._bits = self._made()  # last: who sees it finds the rest beside it
        return self._bits

    def _made(self) -> Any:
        from numpy import random

        bits = random.MT19937(Layout.no_seeds())
        renewed_after_fork(bits.lock)
        bits._legacy_seeding(self._seed & 0xFFFF_FFFF)
        self._source = random.Generator(bits)
        if KERNELS is not None:
            import ctypes

            # NumPy's mt19937_state: uint32_t key[624]; int pos;
            words = (ctypes.c_uint32 * (_WORDS + 1)).from_address(bits.ctypes.state_address)
            words.twister = bits  # type: ignore[attr-defined] # the memory is its: a tape may live longer than this stream
            self._state = np.frombuffer(words, np.uint32)
            if not Layout.is_known:
                Layout.check(bits, self._state)
        return bits


class Layout:
    """Facts about NumPy's twister that are asked for once."""

    is_known = False
    seeds: Any = None

    @staticmethod
    def no_seeds() -> Any:
        """First words for a twister that gets others at once: entropy and its mixing take long."""
        if Layout.seeds is None:
            from numpy.random.bit_generator import ISeedSequence

            class Zeros(ISeedSequence):  # type: ignore[misc]
                def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Any:
                    return np.zeros(n_words, dtype)

            Layout.seeds = Zeros()
        return Layout.seeds

    @staticmethod
    def check(bits: Any, state: Array) -> None:
        """Refuse a twister that lies otherwise than the kernels in C know."""
        told = bits.state["state"]
        if not np.array_equal(state, np.append(told["key"], np.uint32(told["pos"]))):
            raise RuntimeError(
                "this NumPy keeps its Mersenne twister in another way than the kernels in C "
                "know; TAPEGRAD_NATIVE=0 switches them off"
            )
        Layout.is_known = True


def seeded(seed: int) -> Array:
    """The words that a Mersenne twister starts with, without asking `numpy.random` for them."""
    words = [seed & 0xFFFF_FFFF]
    for i in range(1, _WORDS):
        words.append(1812433253 * (words[-1] ^ words[-1] >> 30) + i & 0xFFFF_FFFF)
    return np.array(words, np.uint32)


def check_seed(seed: Any) -> None:
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
    if not -(1 << 63) <= seed < 1 << 64:
        raise ValueError("Overflow when unpacking long long")


class Into:
    """A stream that draws as many numbers as an array has into that array."""

    __slots__ = ("array", "fill", "has_drawn", "home", "stream")

    def __init__(self, stream: Stream, array: Array) -> None:
        self.stream = stream
        self.array = array
        self.home = stream.home
        self.fill = stream.fill
        self.has_drawn = False  # into the array

    def room(self, n: int, dtype: Any) -> Array:
        if self.array.size != n or self.array.dtype != dtype:
            return self.stream.room(n, dtype)
        self.has_drawn = True
        return self.array.reshape(-1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)
