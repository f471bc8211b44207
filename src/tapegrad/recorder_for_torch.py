"""Record what a PyTorch program computes, op by op, into a file that `tapegrad compare` reads.

    python recorder_for_torch.py -o torch.tgr train.py --epochs 1
    python -m tapegrad.recorder_for_torch -o torch.tgr train.py
    with recorder_for_torch.record("torch.tgr"): ...

This file needs torch and NumPy and nothing else: copy it to the machine where the program runs. It
also defines the file format and the summary of values, which tapegrad's own recorder uses too.

The file (docs/recording.md): 8 bytes MAGIC, u32 version, then chunks of 4 letters, u32 length, the
payload and its CRC-32, all little-endian. HEAD is JSON about the run. STRS is a JSON list of new
strings; they are numbered from 0 in the order of the file, and records refer to the numbers. BODY
is records, each beginning with its kind:

    1  VALUE   the summary of a tensor's values; numbered from 0 in the order of the file
    2  OP      an op: phase, name, line, module, arguments; the values that it read and made
    3  MARK    an optimizer stepped, a backward pass began, or the program said so
    4  RANDOM  the position of the random stream after the op whose record follows
    5  NOTE    something else that happened, in words

KEEP is an op with its inputs, to be run again alone. DONE is JSON about how the run ended; a file
without it was cut off.
"""

from __future__ import annotations

import fnmatch
import functools
import hashlib
import importlib
import io
import json
import linecache
import os
import platform
import struct
import sys
import threading
import time
import weakref
import zlib
from collections.abc import Iterable
from typing import Any

if __name__ == "__main__" and sys.path[0] == os.path.dirname(os.path.abspath(__file__)):
    del sys.path[0]  # beside this file there may be others with the names of Python's own modules

import numpy as np

MAGIC = b"TGRUN\r\n\x1a"
VERSION = 1
START = struct.Struct("<8sI")
CHUNK = struct.Struct("<4sI")
SUM = struct.Struct("<I")
# kind, unused, flags, what (dtype and shape), name of the tensor; then SUMMARY.
VALUE = struct.Struct("<BBHII")
# hash, NaNs, infinities, then of the finite values: smallest, largest, mean, norm, sketch.
SUMMARY = struct.Struct("<QII12d")
# kind, phase, flags, name, line, module, arguments, how many values are read and made.
OP = struct.Struct("<BBHIIIIHH")
MARK = struct.Struct("<BBHIdQ")  # kind, what, unused, number, seconds since the start, random
RANDOM = struct.Struct("<BBHQ")
NOTE = struct.Struct("<BBHII")  # kind, unused, unused, text, line
NUMBERS = [struct.Struct(f"<{count}I") for count in range(16)]
NONE = 0xFFFFFFFF  # a string or value that is not there
NOTHING = SUMMARY.pack(*[0] * 3, *[0.0] * 12)  # of a tensor that has no values to look at
FORWARD, BACKWARD, OPTIMIZER = 0, 1, 2  # phases
STEPPED, BEGAN_BACKWARD, SAID = 0, 1, 2  # what a MARK says
RANDOM_OP, WRITES = 1, 2  # flags of an OP
FLUSH = 1 << 16  # bytes of records that are written at once
MOST_KNOWN = 1 << 16  # values that are recognised when they come again
MOST_VALUES = 1 << 16  # values of one op
SEPARATOR = "\x1f"  # between file, line, function and text of a line


# Ops whose results are whatever was in the memory, and ops that do not read what they overwrite.
UNDEFINED = frozenset(
    "empty empty_like empty_strided empty_permuted new_empty new_empty_strided resize_".split()
)
# Ops of which only the first results are values; the others are scratch memory.
RESULTS = {"mkldnn_rnn_layer": 3, "_cudnn_rnn": 3}
OVERWRITES = frozenset(
    """bernoulli_ cauchy_ copy_ exponential_ fill_ geometric_ log_normal_ normal_ random_ set_
    uniform_ zero_""".split()
)

# ---------------------------------------------------------------------- values

LANES = 8
BLOCK = 4096
ROWS, BLOCKS = 1 << 40, 1 << 41
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def keys_of(first: int, count: int) -> Any:
    """Odd 64-bit numbers that look random: splitmix64 of `first`, `first` + 1 …"""
    step = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        z = np.arange(first + 1, first + count + 1, dtype=np.uint64) * step
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        return (z ^ z >> np.uint64(31)) | np.uint64(1)


class Keys:
    """The keys of rows and columns, kept for the largest tensor so far."""

    def __init__(self) -> None:
        self.rows: Any = keys_of(ROWS, 1)
        self.columns: dict[bool, Any] = {}  # by whether elements have 8 bytes
        self.column_signs: Any = np.empty(0)

    def of_rows(self, count: int) -> Any:
        if count > len(self.rows):
            self.rows = keys_of(ROWS, count)
        return self.rows[:count]

    def of_columns(self, count: int, wide: bool) -> Any:
        known = self.columns.get(wide)
        if known is None or count > len(known):
            keys = keys_of(0, BLOCK)
            keys = keys if wide else keys & np.uint64(0xFFFFFFFF)
            factors = keys_of(BLOCKS, max(1, -(-count // BLOCK)))
            factors[0] = 1
            known = self.columns[wide] = np.outer(factors, keys).ravel()
        return known[:count]

    def signs(self, rows: int, columns: int) -> tuple[Any, Any]:
        """1.0 or -1.0 for each row and column; an element has the product."""
        if columns > len(self.column_signs):
            blocks = keys_of(BLOCKS, max(1, -(-columns // BLOCK)))
            blocks[0] = 1
            bits = sign_bit(blocks)[:, None] ^ sign_bit(keys_of(0, BLOCK))[None]
            self.column_signs = 1.0 - 2.0 * bits.ravel()
        return 1.0 - 2.0 * sign_bit(self.of_rows(rows)), self.column_signs[:columns]


def sign_bit(keys: Any) -> Any:
    return keys >> np.uint64(5) & np.uint64(1)


KEYS = Keys()


def summary_of(x: Any, values: Any = None) -> bytes:
    """SUMMARY of an array: its hash, and statistics for "differs by how much".

    The hash is the sum of all elements' bits, each multiplied by a key of its row and a key of its
    column, modulo 2**64. The sketch adds every element, with a sign that looks random, to one of
    eight sums: the squares of the differences of two sketches add up to about the square of the
    norm of the difference of the two tensors. `values`: the numbers, where NumPy does not know
    the dtype (bfloat16) and `x` holds their bits.
    """
    if x.dtype.kind == "c":
        x = np.ascontiguousarray(x)
        x = x.reshape((*x.shape, 1)).view(x.real.dtype)
    x = np.ascontiguousarray(x)
    wide = x.dtype.itemsize == 8
    columns = x.shape[-1] if x.ndim else 1
    rows = x.size // columns if columns else 0
    numbers = np.asarray(x if values is None else values, dtype=np.float64).reshape(rows, columns)
    bits = x.view(UNSIGNED[x.dtype.itemsize]).reshape(rows, columns)
    with np.errstate(all="ignore"):
        nans = infinities = 0
        total = float(numbers.sum())
        if not np.isfinite(total):
            bad = ~np.isfinite(numbers)
            is_nan = np.isnan(numbers)
            nans = int(is_nan.sum())
            infinities = int(bad.sum()) - nans
            good = numbers[~bad]
            if nans:  # all NaNs are the same
                bits = np.where(is_nan, np.iinfo(bits.dtype).max, bits)
            low, high = (float(good.min()), float(good.max())) if good.size else (0.0, 0.0)
            numbers = np.where(bad, 0.0, numbers)
            total = float(numbers.sum())
            count = good.size
        else:
            count = numbers.size
            low, high = (float(numbers.min()), float(numbers.max())) if count else (0.0, 0.0)
        if wide:
            mixed = bits ^ bits >> np.uint64(29)
        else:
            mixed = bits.astype(np.uint32)
            mixed ^= mixed >> np.uint32(15)
            mixed *= np.uint32(0x85EBCA6B)
            mixed ^= mixed >> np.uint32(13)
            mixed = mixed.astype(np.uint64)
        mixed *= KEYS.of_columns(columns, wide)
        of_rows = mixed.sum(axis=1, dtype=np.uint64)
        hashed = int((of_rows * KEYS.of_rows(rows)).sum(dtype=np.uint64)) if rows else 0
        norm = float(np.sqrt((numbers * numbers).sum()))  # a product waits for BLAS's threads
    return SUMMARY.pack(
        *(hashed, nans, infinities, low, high, total / count if count else 0.0, norm),
        *sketch_of(numbers, rows, columns),
    )


def position_of(state: Any) -> int:
    """The position of a random stream, given the bytes of its state."""
    return int.from_bytes(hashlib.blake2b(state.tobytes(), digest_size=8).digest(), "little")


def sketch_of(numbers: Any, rows: int, columns: int) -> list[float]:
    if not numbers.size:
        return [0.0] * LANES
    row_signs, column_signs = KEYS.signs(rows, columns)
    signed = numbers * column_signs
    signed *= row_signs[:, None]
    lanes = np.zeros(LANES)
    spare = -columns % LANES
    if spare:
        signed = np.concatenate([signed, np.zeros((rows, spare))], axis=1)
    folded = signed.reshape(rows, -1, LANES).sum(axis=1)
    for turn in range(min(rows, LANES)):
        lanes += np.roll(folded[turn::LANES].sum(axis=0), turn)
    return lanes.tolist()  # type: ignore[no-any-return]


# ---------------------------------------------------------------------- the file


class Stream:
    """Writes the file as the program runs; nothing but what is not yet written is in memory."""

    def __init__(self, target: Any, head: dict[str, Any]) -> None:
        self.path = None if hasattr(target, "write") else os.fspath(target)
        self.file = target if self.path is None else open_for_writing(self.path)
        self.texts: dict[Any, int] = {}
        self.new: list[str] = []
        self.body = bytearray()
        self.lines: dict[tuple[Any, int], int] = {}
        self.known: dict[tuple[int, int, bytes], int] = {}
        self.values = 0
        self.ops = 0
        self.began = time.perf_counter()
        self.file.write(START.pack(MAGIC, VERSION))
        self.chunk(b"HEAD", json.dumps(head).encode())

    def chunk(self, kind: bytes, payload: bytes) -> None:
        self.file.write(CHUNK.pack(kind, len(payload)) + payload + SUM.pack(zlib.crc32(payload)))

    def flush(self) -> None:
        """Write what has gathered."""
        if self.new:
            self.chunk(b"STRS", json.dumps(self.new).encode())
            self.new = []
        if self.body:
            self.chunk(b"BODY", bytes(self.body))
            self.body.clear()
        self.file.flush()

    def text(self, text: str) -> int:
        """The number of a string."""
        found = self.texts.get(text)
        if found is None:
            found = self.texts[text] = len(self.texts)
            self.new.append(text)
        return found

    def line(self, code: Any, lasti: int) -> int:
        """The number of a line of the program, given as code object and instruction."""
        found = self.lines.get((code, lasti))
        if found is None:
            found = self.text(spelled_line(code, lasti))
            self.lines[code, lasti] = found  # the code object is held, so that its id stays its own
        return found

    def value(self, summary: bytes, what: int, name: int) -> int:
        """The number of a value; one that was there before is not written again."""
        key = (what, name, summary[:16])
        found = self.known.get(key)
        if found is None:
            if len(self.known) >= MOST_KNOWN:
                self.known.clear()
            found = self.known[key] = self.values
            self.values += 1
            self.body += VALUE.pack(1, 0, 0, what, name) + summary
        return found

    def op(
        self, phase: int, flags: int, name: int, where: tuple[int, int, int], values: Any
    ) -> None:
        """An op; `where`: line, module and arguments, `values`: those read, those made."""
        line, module, arguments = where
        read, made = values
        if len(read) + len(made) > MOST_VALUES:
            read, made = read[: MOST_VALUES // 2], made[: MOST_VALUES // 2]
        count = len(read) + len(made)
        numbers = NUMBERS[count] if count < len(NUMBERS) else struct.Struct(f"<{count}I")
        self.body += OP.pack(
            2, phase, flags, name, line, module, arguments, len(read), len(made)
        ) + numbers.pack(*read, *made)
        self.ops += 1
        if len(self.body) > FLUSH:
            self.flush()

    def mark(self, what: int, number: int, random: int) -> None:
        self.body += MARK.pack(3, what, 0, number, time.perf_counter() - self.began, random)

    def random(self, position: int) -> None:
        self.body += RANDOM.pack(4, 0, 0, position)

    def note(self, text: str, line: int = NONE) -> None:
        self.body += NOTE.pack(5, 0, 0, self.text(text), line)

    def keep(self, call: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Keep an op whole, to be run again alone."""
        self.flush()
        packed = io.BytesIO()
        np.savez(packed, **arrays)
        told = json.dumps(call).encode()
        self.chunk(b"KEEP", struct.pack("<I", len(told)) + told + packed.getvalue())

    def close(self, end: dict[str, Any]) -> None:
        self.flush()
        self.chunk(b"DONE", json.dumps({**end, "ops": self.ops, "values": self.values}).encode())
        self.file.flush()
        if self.path is not None:
            self.file.close()


def open_for_writing(path: str) -> Any:
    try:
        return open(path, "wb")  # noqa: SIM115 - the stream closes it
    except OSError as error:
        raise type(error)(
            error.errno, f"cannot write the recording: {error.strerror}", path
        ) from None


def spelled_line(code: Any, lasti: int) -> str:
    line = code.co_firstlineno
    for i, (start, _, _, _) in enumerate(code.co_positions()):
        if i == lasti // 2:  # one entry per two-byte code unit
            line = start or line
            break
    text = linecache.getline(code.co_filename, line).strip()
    return SEPARATOR.join([code.co_filename, str(line), code.co_name, text])


# ---------------------------------------------------------------------- what both recorders do


def spelled_arguments(args: Any, is_tensor: Any) -> str:
    """The arguments of an op that are no tensors: `dim=1, 0.5`. Empty if all are."""

    def spell(value: Any) -> str | None:
        if is_tensor(value):
            return None
        if isinstance(value, (list, tuple)):
            inside = [spell(v) for v in value[:64]]
            return None if inside and None in inside else f"[{', '.join(map(str, inside))}]"
        if isinstance(value, float):
            return f"{value:.9g}"
        if isinstance(value, (bool, int, complex, str)) or value is None:
            return str(value)
        return str(value) if type(value).__name__ in ("dtype", "device", "slice") else None

    positional, named = args
    told = [spell(v) for v in positional]
    while told and told[-1] in ("None", None):
        told.pop()
    parts = [t for t in told if t is not None]
    for key, value in named.items():
        text = spell(value)
        if text not in (None, "None", "False"):
            parts.append(f"{key}={text}")
    return ", ".join(parts)


def spelled_options(group: dict[str, Any]) -> str:
    """The options of an optimizer's group: `lr=0.1, momentum=0.9`."""
    parts = []
    for key, value in group.items():
        if key in ("params", "param_names", "foreach", "fused", "initial_lr") or value is None:
            continue
        if hasattr(value, "item"):
            value = value.item()
        if isinstance(value, bool):
            parts += [key] if value else []
        elif isinstance(value, (int, float)):
            parts += [f"{key}={value:.9g}"] if value else []
        elif isinstance(value, (tuple, list)):
            inside = [v.item() if hasattr(v, "item") else v for v in value]
            parts.append(f"{key}=({', '.join(f'{v:.9g}' for v in inside)})")
    return ", ".join(parts)


class Filter:
    """Which steps and modules are recorded."""

    def __init__(self, every: int = 1, steps: Any = None, modules: Any = None) -> None:
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise ValueError(f"record(): argument 'every' must be a positive int, not {every!r}")
        self.every = every
        self.steps = self.as_range(steps)
        patterns = [modules] if isinstance(modules, str) else modules
        if patterns is not None and not all([isinstance(p, str) for p in patterns]):
            raise TypeError("record(): argument 'modules' must be a pattern or a list of patterns")
        self.patterns: list[str] | None = None if patterns is None else list(patterns)
        self.told: dict[str, bool] = {}

    @staticmethod
    def as_range(steps: Any) -> Any:
        if steps is None or isinstance(steps, (range, set, frozenset)):
            return steps
        if isinstance(steps, int) and not isinstance(steps, bool):
            return range(steps)
        if isinstance(steps, (tuple, list)) and all([type(s) is int for s in steps]):
            return frozenset(steps)
        raise TypeError(
            "record(): argument 'steps' must be a number of steps, a range or a list of steps, not "
            f"{steps!r}"
        )

    def wants_step(self, step: int) -> bool:
        return step % self.every == 0 and (self.steps is None or step in self.steps)

    def wants_module(self, path: str) -> bool:
        """Whether a module, or one that it is in, matches a pattern."""
        if self.patterns is None:
            return True
        found = self.told.get(path)
        if found is None:
            names = path.split(".")
            # With and without the class of the outermost module, which patterns may leave out.
            around = [".".join(names[:n]) for n in range(1, len(names) + 1)]
            around += [".".join(names[1:n]) for n in range(2, len(names) + 1)]
            found = any([fnmatch.fnmatchcase(a, p) for a in around for p in self.patterns])
            self.told[path] = found
        return found

    def spelled(self) -> dict[str, Any]:
        steps = None if self.steps is None else str(self.steps)
        return {"every": self.every, "steps": steps, "modules": self.patterns}


class Paths:
    """The paths of modules: class of the outermost one, then the names of attributes."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[Any, str]] = {}
        self.names: dict[int, tuple[Any, str]] = {}  # of parameters and buffers
        self.roots: dict[str, int] = {}  # how many outermost modules there are of each class

    def enter(self, root: Any) -> None:
        """Learn all paths inside of a module that no other module called."""
        start = type(root).__name__
        number = self.roots[start] = self.roots.get(start, 0) + 1
        inside = "" if sum(self.roots.values()) == 1 else f"{start}."
        if number > 1:
            start = f"{start}#{number}"
            inside = f"{start}."
        for path, module in root.named_modules():
            self.known[id(module)] = (
                weakref.ref(module),
                f"{start}.{path}" if path else start,
            )
        for path, t in (*root.named_parameters(), *root.named_buffers()):
            self.names[id(t)] = (weakref.ref(t), inside + path)

    def of(self, module: Any) -> str | None:
        known = self.known.get(id(module))
        return None if known is None or known[0]() is not module else known[1]

    def name(self, t: Any) -> str | None:
        known = self.names.get(id(t))
        return None if known is None or known[0]() is not t else known[1]


class Notes:
    """Wraps the calls that change a run without an op: seeds, modes, options, frozen layers."""

    def __init__(self, library: Any, tell: Any) -> None:
        self.library = library
        self.tell = tell  # called with the text of a note
        self.depth = 0
        self.undo: list[tuple[Any, str, Any]] = []

    def install(self) -> None:
        library = self.library
        seeds = [library, library.random]
        for owner in seeds:
            self.wrap(
                owner, "manual_seed", lambda args, kwargs: f"manual_seed({first(args, kwargs)})"
            )
        self.wrap(library.nn.Module, "train", self.of_train)
        self.wrap(library.nn.Module, "requires_grad_", self.of_requires_grad)
        self.wrap(library.Tensor, "requires_grad_", self.of_requires_grad)
        self.wrap(library.optim.Optimizer, "__init__", self.of_optimizer)
        self.wrap(library.utils.data.DataLoader, "__init__", self.of_loader)
        for owner in (library.optim.Optimizer, library.nn.Module):
            self.wrap(owner, "zero_grad", self.of_zero_grad)
        self.wrap(library.autograd, "grad", self.of_grad, early=True)
        schedules = library.optim.lr_scheduler
        for kind in (schedules.LRScheduler, schedules.ReduceLROnPlateau):
            if "step" in vars(kind):
                self.wrap(kind, "step", self.of_schedule)
        self.wrap(library.autocast, "__enter__", self.of_autocast)
        self.wrap_property(library.Tensor)

    def remove(self) -> None:
        while self.undo:
            owner, name, before = self.undo.pop()
            if before is None:
                delattr(owner, name)
            else:
                setattr(owner, name, before)

    def wrap(self, owner: Any, name: str, spell: Any, early: bool = False) -> None:
        """Make a function tell its calls, before they run or after; no text, no note."""
        original = getattr(owner, name)
        self.undo.append((owner, name, vars(owner).get(name)))

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if early:
                text = spell(args, kwargs)
                if text and not self.depth:
                    self.tell(text)
                return original(*args, **kwargs)
            self.depth += 1
            try:
                result = original(*args, **kwargs)
            finally:
                self.depth -= 1
            if not self.depth:
                self.tell(spell(args, kwargs))
            return result

        setattr(owner, name, call)

    def wrap_property(self, owner: Any) -> None:
        original = getattr(owner, "requires_grad")  # noqa: B009 - the descriptor of the class

        def assign(t: Any, value: Any) -> None:
            changes = bool(value) != original.__get__(t)
            original.__set__(t, value)
            if changes and not self.depth:
                self.tell(f"requires_grad = {value}")

        self.undo.append((owner, "requires_grad", vars(owner).get("requires_grad")))
        owner.requires_grad = property(original.__get__, assign)

    @staticmethod
    def of_train(args: Any, kwargs: Any) -> str:
        mode = args[1] if len(args) > 1 else kwargs.get("mode", True)
        return f"{type(args[0]).__name__}.{'train' if mode else 'eval'}()"

    @staticmethod
    def of_requires_grad(args: Any, kwargs: Any) -> str:
        wanted = args[1] if len(args) > 1 else kwargs.get("requires_grad", True)
        return f"requires_grad_({wanted})"

    @staticmethod
    def of_loader(args: Any, kwargs: Any) -> str:
        loader = args[0]
        order = type(getattr(loader, "sampler", None)).__name__
        told = f"batch_size={loader.batch_size}, sampler={order}, drop_last={loader.drop_last}"
        return f"DataLoader({told})"

    @staticmethod
    def of_zero_grad(args: Any, kwargs: Any) -> str:
        return f"{type(args[0]).__name__}.zero_grad()"

    @staticmethod
    def of_grad(args: Any, kwargs: Any) -> str:
        wanted = args[4] if len(args) > 4 else kwargs.get("create_graph", False)
        return "grad(create_graph=True)" if wanted else ""

    @staticmethod
    def of_autocast(args: Any, kwargs: Any) -> str:
        dtype = str(getattr(args[0], "fast_dtype", "")).removeprefix("torch.")
        return f"autocast({getattr(args[0], 'device', '')}, {dtype})"

    @staticmethod
    def of_optimizer(args: Any, kwargs: Any) -> str:
        return f"{type(args[0]).__name__}({spelled_options(args[0].defaults)})"

    @staticmethod
    def of_schedule(args: Any, kwargs: Any) -> str:
        rates = [group["lr"] for group in args[0].optimizer.param_groups]
        told = ", ".join(f"{float(rate):.9g}" for rate in rates)
        return f"{type(args[0]).__name__}.step(): lr={told}"


def first(args: Any, kwargs: Any) -> Any:
    return next(iter((*args, *kwargs.values())), "")


# ---------------------------------------------------------------------- torch


def head_of(torch: Any, options: dict[str, Any]) -> dict[str, Any]:
    """The head of the file: facts about the run."""
    return {
        "library": "torch",
        "version": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
        "numpy": np.__version__,
        "program": sys.argv[:1],
        "threads": torch.get_num_threads(),
        "options": options,
    }


def make_mode(torch: Any, recorder: Any) -> Any:
    """The mode that shows `recorder` every op."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Recording(TorchDispatchMode):  # type: ignore[misc, unused-ignore]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            name = func._schema.name
            # A number that Python reads changes nothing, and other libraries have no op for it.
            is_no_op = name.startswith("profiler::") or name == "aten::_local_scalar_dense"
            if is_no_op or not recorder.is_on() or recorder.in_node():
                return func(*args, **kwargs)
            return recorder.run(func, args, kwargs)

    return Recording()


class record:
    """Record the ops of a block into a file; see the top of this file.

    `every=10` records every tenth step, `steps=100` the first hundred (also a range or a list),
    `modules="blocks.0*"` only what runs inside of those modules.
    """

    def __init__(
        self, path: Any, *, every: int = 1, steps: Any = None, modules: Any = None
    ) -> None:
        import torch

        self.torch = torch
        self.path = path
        self.filter = Filter(every, steps, modules)
        self.home = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
        self.mine = sys._getframe().f_code.co_filename  # as frames have it, also if it is relative
        self.paths = Paths()
        self.stack: list[Any] = []
        self.cache: dict[int, tuple[Any, int, int]] = {}
        # Memory that `empty` gave and that nobody has read yet, by its address: what is in it is
        # chance, and rows that are written one by one do not change that.
        self.unset: dict[int, Any] = {}
        self.whats: dict[Any, int] = {}
        self.spots: dict[int, tuple[int, int]] = {}  # a node's number: its line and module
        self.step_number = 0
        self.quiet = 0
        self.caller: Any = None  # the frame that called backward(), while it runs
        self.first_steps: set[int] = set()
        self.thread = threading.get_ident()

    # ---- in and out

    def __enter__(self) -> record:
        torch = self.torch
        self.stream = Stream(self.path, head_of(torch, self.filter.spelled()))
        nn = importlib.import_module("torch.nn.modules.module")
        optim = importlib.import_module("torch.optim.optimizer")
        self.handles = [
            nn.register_module_forward_pre_hook(self.enter_module),
            nn.register_module_forward_hook(self.leave_module, always_call=True),
            optim.register_optimizer_step_pre_hook(self.before_step),
            optim.register_optimizer_step_post_hook(self.after_step),
        ]
        self.engine = torch.autograd._engine_run_backward
        torch.autograd._engine_run_backward = self.run_backward
        self.stream.mark(SAID, 0, self.random_position())
        self.wanted = self.filter.wants_step(0)
        self.notes = Notes(torch, self.note)
        self.notes.install()
        self.clips = []
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            for owner in (torch.nn.utils, torch.nn.utils.clip_grad):
                self.clips.append((owner, name, getattr(owner, name)))
                setattr(owner, name, self.clipping(name, getattr(owner, name)))
        self.mode = make_mode(torch, self)
        self.mode.__enter__()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.mode.__exit__(kind, error, trace)
        self.notes.remove()
        for owner, name, original in self.clips:
            setattr(owner, name, original)
        self.torch.autograd._engine_run_backward = self.engine
        for handle in self.handles:
            handle.remove()
        told = "finished" if kind is None else f"{kind.__name__}: {error}"
        self.stream.close({"end": told, "steps": self.step_number})

    def step(self) -> None:
        """A step of a loop without an optimizer is over."""
        self.end_step(SAID)

    def end_step(self, what: int) -> None:
        self.stream.mark(what, self.step_number, self.random_position())
        self.step_number += 1
        self.wanted = self.filter.wants_step(self.step_number)
        self.cache.clear()
        self.stream.flush()

    def note(self, text: str) -> None:
        if not self.quiet:
            self.stream.note(text, self.user_line())

    def is_on(self) -> bool:
        if self.quiet or not self.wanted or threading.get_ident() != self.thread:
            return False
        return self.filter.patterns is None or self.filter.wants_module(self.module())

    def in_node(self) -> bool:
        """Whether a node of PyTorch's own runs in a backward pass: it is recorded as a whole.

        The program's own code in a pass, a hook or the backward of a Function, is recorded.
        """
        return self.caller is not None and self.user_frame() is self.caller

    def random_position(self) -> int:
        return position_of(self.torch.get_rng_state().numpy())

    # ---- where

    def user_frame(self) -> Any:
        """The innermost frame that is neither PyTorch's nor of this file."""
        frame: Any = sys._getframe(1)
        while frame is not None:
            file = frame.f_code.co_filename
            if not file.startswith((self.home, "<frozen", "<__array")) and file != self.mine:
                break
            frame = frame.f_back
        return frame

    def user_line(self) -> int:
        frame = self.user_frame()
        return NONE if frame is None else self.stream.line(frame.f_code, frame.f_lasti)

    def enter_module(self, module: Any, args: Any) -> None:
        if not self.stack and self.paths.of(module) is None:
            self.paths.enter(module)
        self.stack.append(module)

    def leave_module(self, module: Any, args: Any, result: Any) -> None:
        while self.stack and self.stack.pop() is not module:
            pass

    def module(self) -> str:
        if not self.stack:
            return ""
        return self.paths.of(self.stack[-1]) or type(self.stack[-1]).__name__

    # ---- values

    def is_unset(self, t: Any) -> bool:
        """Whether what is in a tensor is chance: memory of `empty`, not written or not wholly."""
        if t.layout is not self.torch.strided:
            return False
        try:
            known = self.unset.get(t.untyped_storage()._cdata)
        except (RuntimeError, NotImplementedError):  # a tensor that has no memory
            return False
        return known is not None

    def settle(self, tensors: Any, results: Any = ()) -> None:
        """Tensors are read by what makes no view of them: from now on their values count."""
        for t in tensors:
            if self.is_unset(t):
                key = t.untyped_storage()._cdata
                views = [r for r in results if self.is_unset(r)]
                if not any([r.untyped_storage()._cdata == key for r in views]):
                    del self.unset[key]

    def written(self, name: str, target: Any) -> None:
        """A tensor was written; all of its memory, if an op that overwrites did it."""
        if name in OVERWRITES and self.is_unset(target):
            storage = target.untyped_storage()
            if storage.nbytes() == target.numel() * target.element_size():
                del self.unset[storage._cdata]

    def remember_unset(self, tensors: Any) -> None:
        """`empty` gave memory. A weak reference keeps its address from being given again."""
        self.unset = {k: v for k, v in self.unset.items() if not v.expired()}
        reductions = importlib.import_module("torch.multiprocessing.reductions")
        for t in tensors:
            try:
                kept = reductions.StorageWeakRef(t.untyped_storage())
            except (RuntimeError, NotImplementedError):  # a tensor that has no memory
                continue
            self.unset[kept.cdata] = kept

    def value(self, t: Any) -> int:
        """The number of a tensor's value; computed once while nothing is written."""
        if self.unset and self.is_unset(t):
            return NONE
        known = self.cache.get(id(t))
        if known is not None and known[0]() is t and known[1] == version_of(t):
            return known[2]
        made = self.summarised(t)
        self.cache[id(t)] = (weakref.ref(t), version_of(t), made)
        return made

    def summarised(self, t: Any) -> int:
        torch = self.torch
        key = (t.dtype, t.shape)
        what = self.whats.get(key)
        if what is None:
            spelled = f"{str(t.dtype).removeprefix('torch.')} {tuple(t.shape)}"
            what = self.whats[key] = self.stream.text(spelled)
        name = self.paths.name(t)
        self.quiet += 1
        try:
            with torch._C._DisableTorchDispatch():
                summary = self.summary(t.detach())
        except (RuntimeError, NotImplementedError):
            summary = NOTHING  # a tensor of a transform or a subclass, which has no memory
        finally:
            self.quiet -= 1
        return self.stream.value(summary, what, NONE if name is None else self.stream.text(name))

    def summary(self, t: Any) -> bytes:
        torch = self.torch
        if t.is_quantized or t.layout is not torch.strided or t.device.type == "meta":
            return NOTHING
        t = t.resolve_conj().resolve_neg().cpu()
        try:
            return summary_of(t.numpy())
        except TypeError:  # a dtype that NumPy has not
            same = {1: torch.uint8, 2: torch.int16}[t.element_size()]
            return summary_of(t.contiguous().view(same).numpy(), t.double().numpy())

    def tensors(self, value: Any) -> list[Any]:
        flat, _ = self.torch.utils._pytree.tree_flatten(value)
        return [t for t in flat if isinstance(t, self.torch.Tensor)]

    # ---- events

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an op and write it down."""
        torch = self.torch
        name = str(func).rpartition(".")[0].removeprefix("aten.")
        line = self.user_line()
        module = self.stream.text(self.module())
        flags = WRITES if func._schema.is_mutable else 0
        if torch.Tag.nondeterministic_seeded in func.tags:
            flags |= RANDOM_OP
        given = self.tensors((args, {k: v for k, v in kwargs.items() if k != "out"}))
        if self.unset and flags & WRITES:
            self.settle(self.tensors(kwargs.get("out")))  # it is overwritten
            self.settle(given[1:], given[:1])
        read = [self.value(t) for t in (given[1:] if name in OVERWRITES else given)]
        if torch.is_grad_enabled():
            # The node of this op is the newest; ops inside of it come later and have none.
            self.spots.setdefault(torch.autograd._get_sequence_nr() - 1, (line, module))
        out = func(*args, **kwargs)
        if flags & WRITES:
            self.cache.clear()
        results = [] if name in UNDEFINED else self.tensors(out)[: RESULTS.get(name)]
        if name in UNDEFINED and not flags & WRITES:
            self.remember_unset(self.tensors(out))
        elif self.unset and flags & WRITES and given:
            self.written(name, given[0])
        elif self.unset:
            self.settle(given, results)
            read = [self.value(t) for t in given]
        made = [self.value(t) for t in results]
        told = spelled_arguments((args, kwargs), lambda v: isinstance(v, torch.Tensor))
        where = line, module, self.stream.text(told)
        if flags & RANDOM_OP:
            self.stream.random(self.random_position())
        self.stream.op(FORWARD, flags, self.stream.text(name), where, (read, made))
        return out

    def clipping(self, name: str, original: Any) -> Any:
        """A function that writes to gradients, recorded as one op: it is one kernel elsewhere."""

        @functools.wraps(original)
        def call(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            given = [parameters] if isinstance(parameters, self.torch.Tensor) else list(parameters)
            if not self.is_on():
                return original(given, *args, **kwargs)
            line = self.user_line()
            grads = [p.grad for p in given if p.grad is not None]
            self.cache.clear()
            read = [self.value(g) for g in grads]
            self.quiet += 1
            try:
                result = original(given, *args, **kwargs)
            finally:
                self.quiet -= 1
            self.cache.clear()
            told = spelled_arguments((args, kwargs), lambda v: isinstance(v, self.torch.Tensor))
            where = line, self.stream.text(self.module()), self.stream.text(told)
            values = read, [self.value(g) for g in grads]
            self.stream.op(FORWARD, WRITES, self.stream.text(name), where, values)
            return result

        return call

    def run_backward(self, roots: Any, *args: Any, **kwargs: Any) -> Any:
        """A backward pass, each node of which has a hook while it runs."""
        if not self.wanted or self.quiet:
            return self.engine(roots, *args, **kwargs)
        self.stream.mark(BEGAN_BACKWARD, self.step_number, 0)
        line = self.user_line()
        stack = [t.grad_fn for t in roots if getattr(t, "grad_fn", None) is not None]
        seen = set(stack)
        handles = []
        while stack:
            node = stack.pop()
            if type(node).__name__ != "AccumulateGrad":
                handles.append(node.register_hook(self.node_hook(node, line)))
            for edge, _ in node.next_functions:
                if edge is not None and edge not in seen:
                    seen.add(edge)
                    stack.append(edge)
        outer, self.caller = self.caller, self.user_frame()
        try:
            return self.engine(roots, *args, **kwargs)
        finally:
            self.caller = outer
            for handle in handles:
                handle.remove()
            self.cache.clear()
            if not kwargs.get("retain_graph") and not (args and args[1]):
                self.spots.clear()

    def node_hook(self, node: Any, caller: int) -> Any:
        number, name = node._sequence_nr(), node.name()
        line, module = self.spots.get(number, (caller, self.stream.text("")))

        def hook(made: Any, read: Any) -> None:
            if self.quiet or not self.filter_by(module):
                return
            values = (
                [self.value(t) for t in read if t is not None],
                [NONE if t is None else self.value(t) for t in made],
            )
            where = line, module, self.stream.text("")
            self.stream.op(BACKWARD, 0, self.stream.text(name), where, values)

        return hook

    def filter_by(self, module: int) -> bool:
        if self.filter.patterns is None:
            return True
        path = next(text for text, number in self.stream.texts.items() if number == module)
        return self.filter.wants_module(path)

    def before_step(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        self.cache.clear()
        first = id(optimizer) not in self.first_steps
        self.first_steps.add(id(optimizer))
        self.before: list[Any] = []
        if self.wanted:
            for group in optimizer.param_groups:
                told = self.stream.text(spelled_options(group))
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    if self.unset:
                        self.settle((p, p.grad))
                    read = [self.value(p), self.value(p.grad)]
                    if first:
                        read += [self.value(t) for t in self.tensors(optimizer.state.get(p, {}))]
                    self.before.append((p, read, told))
        self.step_line = self.user_line()
        self.quiet += 1
        return self.loudly(args, kwargs)

    def loudly(self, args: Any, kwargs: Any) -> Any:
        """The arguments of step() with a closure whose ops are seen."""

        def wrapped(closure: Any) -> Any:
            def call() -> Any:
                quiet, self.quiet = self.quiet, 0
                try:
                    return closure()
                finally:
                    self.quiet = quiet

            return call

        args = tuple([wrapped(a) if callable(a) else a for a in args])
        return args, {k: wrapped(v) if k == "closure" and v else v for k, v in kwargs.items()}

    def after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self.quiet -= 1
        self.cache.clear()
        name = self.stream.text(f"{type(optimizer).__name__}.step")
        for p, read, told in self.before:
            where = self.step_line, self.stream.text(""), told
            self.stream.op(OPTIMIZER, WRITES, name, where, (read, [self.value(p)]))
        self.end_step(STEPPED)


def version_of(t: Any) -> int:
    try:
        return t._version  # type: ignore[no-any-return]
    except RuntimeError:  # of inference mode
        return -1


def main(argv: Iterable[str] | None = None) -> int:
    """Run a script as python would, and record it."""
    import argparse
    import runpy

    parser = argparse.ArgumentParser(
        prog="recorder_for_torch", description="Record what a PyTorch program computes, op by op."
    )
    parser.add_argument("-o", "--output", default="torch.tgr", metavar="FILE")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every Nth step only")
    parser.add_argument("--steps", type=int, metavar="N", help="the first N steps only")
    parser.add_argument("--modules", action="append", metavar="PATTERN", help="like blocks.0*")
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument("args", nargs=argparse.REMAINDER, metavar="ARG")
    options = parser.parse_args(None if argv is None else list(argv))
    if options.args[:1] in (["-o"], ["--output"]) and len(options.args) > 1:
        options.output = options.args[1]
        options.args = options.args[2:]
    if not os.path.exists(options.script):
        print(f"recorder_for_torch: there is no file {options.script!r}", file=sys.stderr)
        return 2
    try:
        recording = record(
            options.output, every=options.every, steps=options.steps, modules=options.modules
        ).__enter__()
    except (ImportError, OSError, ValueError) as error:
        print(f"recorder_for_torch: {error}", file=sys.stderr)
        return 2
    sys.argv = [options.script, *options.args]
    sys.path.insert(0, os.path.dirname(os.path.abspath(options.script)))
    try:
        runpy.run_path(options.script, run_name="__main__")
    except BaseException:
        recording.__exit__(*sys.exc_info())
        raise
    recording.__exit__(None, None, None)
    steps, ops = recording.step_number, recording.stream.ops
    print(f"record: wrote {options.output} ({steps} steps, {ops} ops)", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
