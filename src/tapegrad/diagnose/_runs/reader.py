"""Reading a recorded run: the whole file, or a refusal that says what is wrong with it."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import struct
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...recorder_for_torch import (
    BACKWARD,
    BEGAN_BACKWARD,
    CHUNK,
    MAGIC,
    MARK,
    NONE,
    NOTE,
    OP,
    OPTIMIZER,
    RANDOM,
    SAID,
    SEPARATOR,
    START,
    STEPPED,
    SUM,
    SUMMARY,
    VALUE,
    VERSION,
)

PHASES = {0: "forward", BACKWARD: "backward", OPTIMIZER: "optimizer"}


class BadRun(ValueError):
    """A file that is no recorded run, or not a whole one."""


@dataclass(slots=True)
class Line:
    """A line of the recorded program."""

    file: str
    number: int
    function: str
    text: str

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.number}"


@dataclass(slots=True)
class Value:
    """The recorded summary of a tensor: shape, dtype, hash and statistics of its values."""

    dtype: str
    shape: tuple[int, ...]
    name: str
    hash: int
    nans: int
    infinities: int
    low: float
    high: float
    mean: float
    norm: float
    sketch: tuple[float, ...]

    @property
    def count(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    def facts(self) -> dict[str, Any]:
        """The fields as data, for JSON."""
        told = dataclasses.asdict(self)
        told["hash"] = f"{self.hash:016x}"
        del told["sketch"]
        return told


@dataclass(slots=True)
class Op:
    """One op of a run."""

    step: int
    phase: str
    name: str
    line: Line | None
    module: str
    arguments: str
    read: list[Value | None]
    made: list[Value | None]
    flags: int
    random: int | None  # where the random stream is after it

    def facts(self) -> dict[str, Any]:
        """The fields as data, for JSON."""
        return {
            "step": self.step,
            "phase": self.phase,
            "op": self.name,
            "file": None if self.line is None else self.line.file,
            "line": None if self.line is None else self.line.number,
            "text": None if self.line is None else self.line.text,
            "module": self.module,
            "arguments": self.arguments,
            "inputs": [None if v is None else v.facts() for v in self.read],
            "outputs": [None if v is None else v.facts() for v in self.made],
        }


@dataclass(slots=True)
class Note:
    """Something that happened between two ops: `at` of them came before it in the step."""

    step: int
    at: int
    text: str
    line: Line | None


@dataclass
class Run:
    """A recorded run."""

    path: str
    head: dict[str, Any]
    steps: list[list[Op]] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    randoms: list[int] = field(default_factory=list)  # the random stream at the end of each step
    kept: tuple[dict[str, Any], dict[str, Any]] | None = None
    end: dict[str, Any] = field(default_factory=dict)
    size: int = 0

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    @property
    def is_ours(self) -> bool:
        return self.head.get("library") == "tapegrad"

    @property
    def count(self) -> int:
        return sum([len(ops) for ops in self.steps])


def read_run(source: Any, partial: bool = False) -> Run:
    """The run in a file; `partial`: as much of it as is whole."""
    if hasattr(source, "read"):
        path, data = "<memory>", source.read()
    else:
        path = os.fspath(source)
        with open(path, "rb") as file:
            data = file.read()
    return Parser(path, data, partial).run


class Parser:
    """Reads chunk after chunk."""

    def __init__(self, path: str, data: bytes, partial: bool) -> None:
        self.path = path
        self.data = data
        self.texts: list[str] = []
        self.lines: dict[int, Line | None] = {}
        self.values: list[Value] = []
        self.whats: dict[int, tuple[str, tuple[int, ...]]] = {}
        self.current: list[Op] = []
        self.pending: int | None = None
        self.backwards: list[int] = []  # where backward passes begin, among the ops of a step
        self.marked = False
        if data[:8] != MAGIC:
            raise BadRun(
                f"{path} is not a recorded run: it does not begin as one "
                "(`tapegrad record script.py -o run.tgr` makes one)"
            )
        if len(data) < START.size:
            raise BadRun(f"{path} is cut off after {len(data)} bytes: nothing can be read")
        version = START.unpack_from(data)[1]
        if version != VERSION:
            raise BadRun(
                f"{path} is a recorded run of format {version}; this tapegrad reads format "
                f"{VERSION}: record it again, or read it with the tapegrad that wrote it"
            )
        self.run = Run(path, {}, size=len(data))
        self.parse(partial)

    def parse(self, partial: bool) -> None:
        at, done, reason = START.size, False, ""
        while at < len(self.data):
            if at + CHUNK.size > len(self.data):
                reason = f"it is cut off at byte {len(self.data)}"
                break
            kind, size = CHUNK.unpack_from(self.data, at)
            begin = at + CHUNK.size
            if begin + size + SUM.size > len(self.data):
                reason = f"it is cut off at byte {len(self.data)}"
                break
            payload = self.data[begin : begin + size]
            if SUM.unpack_from(self.data, begin + size)[0] != zlib.crc32(payload):
                reason = f"it is damaged at byte {begin}"
                break
            try:
                done = self.chunk(kind, payload) or done
            except (struct.error, LookupError, ValueError, KeyError, TypeError) as error:
                raise BadRun(f"{self.path} is damaged at byte {begin}: {error!r}") from error
            at = begin + size + SUM.size
        if self.current:
            self.end_step()
        if not self.marked:
            self.split()
        if not done and not reason:
            reason = "its end is missing"
        if reason and not partial:
            raise BadRun(
                f"{self.path} is not whole: {reason} (was the program killed?). "
                f"{len(self.run.steps)} steps with {self.run.count} ops can be read: "
                "--partial compares those"
            )

    def chunk(self, kind: bytes, payload: bytes) -> bool:
        if kind == b"HEAD":
            self.run.head = json.loads(payload)
        elif kind == b"STRS":
            self.texts += json.loads(payload)
        elif kind == b"BODY":
            self.body(payload)
        elif kind == b"KEEP":
            size = struct.unpack_from("<I", payload)[0]
            arrays = dict(np.load(io.BytesIO(payload[4 + size :]), allow_pickle=False))
            self.run.kept = json.loads(payload[4 : 4 + size]), arrays
        elif kind == b"DONE":
            self.run.end = json.loads(payload)
            return True
        else:  # the sum is that of the payload: damaged letters are noticed here
            raise ValueError(f"there is no chunk of kind {kind!r}")
        return False

    def body(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            kind = data[at]
            if kind == 1:
                at = self.value(data, at)
            elif kind == 2:
                at = self.op(data, at)
            elif kind == 3:
                self.mark(data, at)
                at += MARK.size
            elif kind == 4:
                self.pending = RANDOM.unpack_from(data, at)[3]
                at += RANDOM.size
            elif kind == 5:
                _, _, _, text, line = NOTE.unpack_from(data, at)
                note = Note(
                    len(self.run.steps), len(self.current), self.texts[text], self.line(line)
                )
                self.run.notes.append(note)
                at += NOTE.size
            else:
                raise ValueError(f"there is no record of kind {kind}")

    def value(self, data: bytes, at: int) -> int:
        _, _, _, what, name = VALUE.unpack_from(data, at)
        known = self.whats.get(what)
        if known is None:
            dtype, _, shape = self.texts[what].partition(" ")
            sizes = tuple([int(n) for n in shape.strip("()").split(",") if n.strip()])
            known = self.whats[what] = (dtype, sizes)
        numbers = SUMMARY.unpack_from(data, at + VALUE.size)
        spelled = "" if name == NONE else self.texts[name]
        self.values.append(Value(*known, spelled, *numbers[:7], tuple(numbers[7:])))
        return at + VALUE.size + SUMMARY.size

    def op(self, data: bytes, at: int) -> int:
        _, phase, flags, name, line, module, told, read, made = OP.unpack_from(data, at)
        at += OP.size
        numbers = struct.unpack_from(f"<{read + made}I", data, at)
        values = [None if n == NONE else self.values[n] for n in numbers]
        self.current.append(
            Op(
                *(len(self.run.steps), PHASES[phase], self.texts[name], self.line(line)),
                *(self.texts[module], self.texts[told], values[:read], values[read:]),
                *(flags, self.pending),
            )
        )
        self.pending = None
        return at + 4 * (read + made)

    def mark(self, data: bytes, at: int) -> None:
        _, what, _, _, _, random = MARK.unpack_from(data, at)
        if what == BEGAN_BACKWARD:
            self.backwards.append(len(self.current))
        elif what == STEPPED or self.current or self.run.steps:
            self.marked = True
            self.run.randoms.append(random)
            self.end_step()
        elif what == SAID:
            pass  # where the recording begins

    def end_step(self) -> None:
        self.run.steps.append(self.current)
        self.current = []
        if self.marked:
            self.backwards = []

    def split(self) -> None:
        """Without an optimizer, steps begin where backward passes do."""
        if len(self.backwards) < 2 or len(self.run.steps) != 1:
            return
        ops = self.run.steps[0]
        cuts = [0, *self.backwards[1:], len(ops)]
        self.run.steps = [ops[a:b] for a, b in zip(cuts, cuts[1:], strict=False)]
        for i, some in enumerate(self.run.steps):
            for op in some:
                op.step = i
        for note in self.run.notes:
            note.step = max(sum([cut <= note.at for cut in cuts[:-1]]) - 1, 0)
            note.at -= cuts[note.step]

    def line(self, number: int) -> Line | None:
        if number == NONE:
            return None
        found = self.lines.get(number)
        if found is None:
            file, line, function, text = self.texts[number].split(SEPARATOR, 3)
            found = self.lines[number] = Line(file, int(line), function, text)
        return found
