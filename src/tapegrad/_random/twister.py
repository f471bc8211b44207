"""The engine behind `torch.Generator`: a Mersenne twister and one cached normal."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np

from ..native import KERNELS

Array = np.ndarray[Any, np.dtype[Any]]

DEFAULT_SEED = 67280421310721  # what a new torch.Generator() starts from

_WORDS = 624  # words in the state of the twister
_STATE_BYTES = 5056
# The layout of the state: seed, words left (i4), seeded (i4), next word, the words (8 bytes each),
# three doubles of which the middle one is the cached normal, its flag (i4), and a cached float that
# PyTorch never fills.
_LEFT, _SEEDED, _NEXT, _KEY, _NORMAL, _HAS_NORMAL = 8, 12, 16, 24, 5024, 5040


_STARTING = threading.RLock()
if hasattr(os, "register_at_fork"):  # a child must not inherit a lock that nobody opens
    os.register_at_fork(
        before=_STARTING.acquire,
        after_in_parent=_STARTING.release,
        after_in_child=_STARTING.release,
    )


class Stream:
    """One random stream. The twister waits for the first draw: `numpy.random` is slow to import."""

    home: Any = None  # the module of the functions that draw from it: this one, or a GPU's

    def __init__(self, seed: int = DEFAULT_SEED) -> None:
        self._seed = seed
        self._bits: Any = None  # numpy.random.MT19937
        self._source: Any = None  # numpy.random.Generator on it, faster for long draws
        self._state: Any = None  # its 624 words and the place of the next one, for kernels in C
        self._drawn = False
        self.next_normal: float | None = None  # the second value of a pair, not yet handed out

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

    def fill(self, kernel: str, out: Array, *numbers: float, kept: Array | None = None) -> Array:
        """`out`, filled by a kernel in C that goes on from the state of the twister."""
        bits = self._bits if self._bits is not None else self._start()
        if out.size:
            self._drawn = True
        with bits.lock:
            KERNELS.KERNELS[kernel]((self._state, out, kept), (out.size,), numbers)
        return out

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

    def _start(self) -> Any:
        """The twister, made by the first thread that draws."""
        with _STARTING:
            if self._bits is None:
                self._bits = self._made()  # last: who sees it finds the rest beside it
        return self._bits

    def _made(self) -> Any:
        from numpy import random

        bits = random.MT19937()
        bits._legacy_seeding(self._seed & 0xFFFF_FFFF)
        self._source = random.Generator(bits)
        if KERNELS is not None:
            import ctypes

            # NumPy's mt19937_state: uint32_t key[624]; int pos;
            words = (ctypes.c_uint32 * (_WORDS + 1)).from_address(bits.ctypes.state_address)
            self._state = np.frombuffer(words, np.uint32)
            told = bits.state["state"]
            if not np.array_equal(self._state, np.append(told["key"], np.uint32(told["pos"]))):
                raise RuntimeError(
                    "this NumPy keeps its Mersenne twister in another way than the kernels in C "
                    "know; TAPEGRAD_NATIVE=0 switches them off"
                )
        return bits


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
