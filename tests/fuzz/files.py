"""Files made to do harm, and what reading them does: run as `files.py KIND COUNT SEED`.

KIND is `zip` or `legacy` (both formats of torch.save), `pickles` (random programs for the
unpickler), `exported` (torch.export.save), `npz` or `safetensors`. One process reads many files:
its memory is limited, a timer ends what hangs, and an audit hook notices whatever a file would
run, write or connect to. Prints how the files ended, as JSON.
"""

from __future__ import annotations

import collections
import functools
import io
import json
import lzma
import os
import pickle
import random
import resource
import signal
import struct
import sys
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

import tapegrad as torch
from tapegrad._serialization.weights_only import BUILT_IN

# What reading a damaged file may raise; the pages say so.
CLEAR = (RuntimeError, pickle.UnpicklingError, EOFError, TypeError, ValueError)
NUMBERS = [
    b"\xff" * 8,
    b"\0" * 8,
    b"\xff\xff\xff\x7f",
    b"\0\0\0\x80",
    b"\xff" * 7 + b"\x7f",
    b"\0\0\1",
]
ROOM = 1 << 29  # bytes that reading may take
SECONDS = 20  # of the processor, for one file
WATCHED = ("os.system", "os.exec", "os.fork", "os.posix_spawn", "os.remove", "os.rename")
WATCHED += ("subprocess.Popen", "socket.connect", "shutil.rmtree", "pty.spawn", "ctypes.dlopen")
seen: list[str] = []
NAMES = sorted(BUILT_IN)


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    writes = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wa+")
    if event in WATCHED or writes:
        seen.append(event)


def thing() -> dict[str, Any]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    half = torch.randn(8).bfloat16()
    state = {"model": model.state_dict(), "views": [half[:4], half[2:]], "epoch": 7}
    return {**state, "names": ["x" * 40, ("a", 1, None, 2.5)], "set": {1, 2}, "z": torch.ones(2, 2)}


# ---------------------------------------------------------------------- accidents


def damaged(data: bytes, draw: random.Random) -> bytes:
    """Flipped bits, a lost end or piece, a wrong number, noise, a piece that stands twice."""
    made = bytearray(data)
    at = draw.randrange(len(data))
    kind = draw.randrange(7)
    if kind == 0:
        return data[:at]
    if kind == 1:
        for _ in range(draw.randint(1, 8)):
            made[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    elif kind == 2:
        del made[at : at + draw.randint(1, 200)]
    elif kind == 3:
        number = draw.choice(NUMBERS)
        made[at : at + len(number)] = number
    elif kind == 4:  # in the headers of a zip file
        heads = [i for i in range(len(data) - 3) if data[i : i + 2] == b"PK"]
        at = draw.choice(heads) if heads else at
        made[(at + draw.randrange(46)) % len(made)] = draw.randrange(256)
    elif kind == 5:
        made[at : at + 20] = draw.randbytes(20)
    else:
        made[at:at] = data[at : at + draw.randint(1, 100)]
    return bytes(made)


def put(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    """Add a record, without today's date: a seed makes the same files on every day."""
    archive.writestr(zipfile.ZipInfo(name), content, archive.compression)


def repacked(data: bytes, draw: random.Random, name: str) -> bytes:
    """An archive with one damaged record and the right checksums: what looks past the zip."""
    source = zipfile.ZipFile(io.BytesIO(data))
    packing = draw.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", packing) as target:
        for known in source.namelist():
            content = source.read(known)
            put(target, known, damaged(content, draw) if known.endswith(name) else content)
    return made.getvalue()


# ---------------------------------------------------------------------- intent


def pickled(*codes: bytes) -> bytes:
    return b"\x80\2" + b"".join(codes) + b"."


def archived(content: bytes, **records: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as target:
        put(target, "archive/data.pkl", content)
        put(target, "archive/version", b"3\n")
        for name, data in records.items():
            put(target, f"archive/data/{name}", data)
    return made.getvalue()


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def storage(numel: int, key: str) -> bytes:
    number = b"\x8a\x08" + struct.pack("<q", numel)
    parts = text("storage") + b"ctorch\nFloatStorage\n" + text(key) + text("cpu") + number
    rest = b"K\0" + b"(\x8a\x08" + struct.pack("<q", numel) + b"t(K\1t" + b"\x89"
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n((" + parts + b"tQ" + rest
        + b"ccollections\nOrderedDict\n)RtR"
    )  # fmt: skip


def running(draw: random.Random) -> bytes:
    """A pickle that would run something."""
    calls = [
        ("posix", "system"),
        ("os", "system"),
        ("subprocess", "Popen"),
        ("builtins", "eval"),
        ("__builtin__", "exec"),
        ("builtins", "open"),
        ("builtins", "getattr"),
        ("shutil", "rmtree"),
        ("torch", "load"),
        ("torch.hub", "load"),
        ("torch.storage", "_load_from_bytes"),
        ("torch.serialization", "add_safe_globals"),
        ("torch._utils", "os.system"),
        ("torch", "nn.os.system"),
        ("numpy", "load"),
        ("functools", "partial"),
        ("importlib", "import_module"),
    ]
    module, name = draw.choice(calls)
    argument = text("touch harm")
    forms = [
        f"c{module}\n{name}\n".encode() + b"(" + argument + b"tR",
        text(module) + text(name) + b"\x93(" + argument + b"tR",
        f"(i{module}\n{name}\n".encode(),
        b"(" + f"c{module}\n{name}\n".encode() + argument + b"o",
        f"c{module}\n{name}\n".encode() + b"(" + argument + b"t\x81",
        b"ccollections\nOrderedDict\n)R}" + text("__reduce__") + b"c" + f"{module}\n".encode()
        + f"{name}\n".encode() + b"sb",
    ]  # fmt: skip
    content = pickled(draw.choice(forms))
    return archived(content) if draw.random() < 0.7 else content


def nested(times: int) -> bytes:
    """A tuple of two times the same tuple, and so on: it prints, and hashes, for ever."""
    return b")q\0" + b"h\0\x86q\0" * times


def colliding(count: int, kind: int) -> bytes:
    """A dict of keys that are all different and have one hash."""
    modulus = sys.hash_info.modulus
    if kind == 0:
        keys = [b"\x8a\x0b" + (modulus * (i + 1)).to_bytes(11, "little") for i in range(count)]
    else:
        pairs = [
            struct.pack(">d", -1000003.0 * i) + b"G" + struct.pack(">d", i) for i in range(count)
        ]
        keys = [b"cbuiltins\ncomplex\n(G" + pair + b"tR" for pair in pairs]
    return b"}(" + b"".join([key + b"N" for key in keys]) + b"u"


def exploding(draw: random.Random) -> bytes:
    """Little that asks for much: packed zeros, shared parts, huge sizes, keys without end."""
    deep = draw.randint(60, 2000)
    tall = b")" + b"\x85" * draw.choice([500, 20_000])
    ordered, a_set = b"ccollections\nOrderedDict\n", b"cbuiltins\nset\n"
    kinds: list[Callable[[], bytes]] = [
        # A record that unpacks to a gigabyte.
        lambda: claimed("archive/data/0", packed_zeros(), 1 << 30, pickled(storage(1 << 28, "0"))),
        # A tensor larger than its record.
        lambda: archived(
            pickled(storage(draw.choice([1 << 40, 1 << 61, -1, 100]), "0")), **{"0": b""}
        ),
        # Keys that take for ever to hash, or need more stack than there is, in every container.
        lambda: archived(pickled(b"}", draw.choice([nested(deep), tall]), b"K\1s")),
        lambda: archived(pickled(b"}(", draw.choice([nested(deep), tall]), b"K\1u")),
        lambda: archived(pickled(a_set, b"(](", draw.choice([nested(deep), tall]), b"etR")),
        lambda: archived(pickled(ordered, b"(](](", draw.choice([nested(deep), tall]), b"K\1eetR")),
        lambda: archived(
            pickled(ordered, b"(](", draw.choice([nested(deep), tall]), b"K\1\x86etR")
        ),
        # Messages that would never end.
        lambda: archived(
            pickled(
                b"]q\0" + b"](h\0h\0eq\0" * deep,
                draw.choice([b"(" + text("storage") + b"h\0h\0h\0h\0tQ", b"h\0(tR", b"h\0h\0b"]),
            )
        ),
        # A long text, encoded again and again.
        lambda: archived(
            pickled(
                b"](c_codecs\nencode\nq\0",
                *(text("x" * (1 << 18)) + b"q\1", text("latin1") + b"q\2", b"\x86R"),
                b"h\0h\1h\2\x86R" * 8000 + b"e",
            )
        ),
        # Lists in lists, and keys that collide.
        lambda: archived(pickled(b"](" * deep, b"e" * deep)),
        lambda: archived(pickled(colliding(20_000, draw.randrange(2)))),
        # Elements, strides and offsets that are not there.
        lambda: archived(
            pickled(storage(5, "0").replace(b"K\0", b"M\xff\xff")), **{"0": bytes(20)}
        ),
    ]
    return draw.choice(kinds)()


class Pickles:
    """Random programs for the unpickler: allowed names, called with arguments of all kinds."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.memo = 0

    def number(self) -> bytes:
        draw = self.draw
        value = draw.choice([0, 1, 2, 3, 5, 12, 255, 1 << 31, 1 << 40, (1 << 63) - 1, 1 << 64])
        value *= draw.choice([1, 1, 1, -1])
        data = value.to_bytes(10, "little", signed=True)
        return draw.choice([b"\x8a\x0a" + data, b"K" + data[:1], b"\x8a\xff" + b"\x7f" * 255])

    def leaf(self) -> bytes:
        draw = self.draw
        kinds = [
            b"N",
            b"\x88",
            b"\x89",
            b")",
            b"]",
            b"}",
            text("storage"),
            text("latin1"),
            text("cpu"),
        ]
        kinds += [text("x" * draw.randrange(20)), b"G" + draw.randbytes(8), self.number()]
        kinds += [self.number(), self.name(), self.name(), storage(draw.choice([5, 5, 0, -1]), "0")]
        kinds += [nested(draw.randrange(200)), b")" + b"\x85" * draw.randrange(3000)]
        if self.memo:
            kinds += [b"h" + bytes([1 + draw.randrange(self.memo)])] * 4
        return draw.choice(kinds)

    def name(self) -> bytes:
        module, _, name = self.draw.choice(NAMES).rpartition(".")
        return f"c{module}\n{name}\n".encode()

    def value(self, depth: int) -> bytes:
        draw = self.draw
        if depth == 0 or draw.random() < 0.3:
            return self.leaf()
        several = [self.value(depth - 1) for _ in range(draw.randrange(5))]
        whole = b"".join(several)
        made = draw.choice(
            [
                b"(" + whole + b"t",
                b"](" + whole + b"e",
                b"}(" + whole + b"u",
                self.name() + b"(" + whole + b"tR",
                self.name() + b"(" + whole + b"t\x81",
                self.name() + b"(](" + whole + b"etR",
                self.name() + b"(](](" + whole + b"eetR",
                b"ccollections\nOrderedDict\n)R" + self.value(depth - 1) + b"b",
                b"(" + text("storage") + whole + b"tQ",
                b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage(5, "0") + whole + b"tR",
                b"ctorch._utils\n_rebuild_from_type_v2\n("
                + self.name()
                + self.name()
                + whole
                + b"tR",
            ]
        )
        if self.memo < 250 and draw.random() < 0.4:
            self.memo += 1
            made += b"q" + bytes([self.memo])
        return made


def pickle_file(draw: random.Random, data: bytes) -> bytes:
    content = pickled(Pickles(draw).value(draw.randrange(1, 5)))
    return archived(content, **{"0": draw.randbytes(20)})


@functools.cache
def packed_zeros() -> bytes:
    """A gigabyte of zeros, deflated: one packed mebibyte, many times."""
    packer = zlib.compressobj(9, wbits=-15)
    once = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return once * (1 << 10) + packer.flush()


def claimed(name: str, packed: bytes, size: int, content: bytes) -> bytes:
    """An archive with a compressed record that is not unpacked while it is written."""
    made = archived(content)
    source = zipfile.ZipFile(io.BytesIO(made))
    start = min([info.header_offset for info in source.infolist()])
    assert start == 0
    directory = source.start_dir
    named = name.encode()
    local = b"PK\3\4" + struct.pack("<5H3I2H", 20, 0, 8, 0, 0, 0, len(packed), size, len(named), 0)
    entry = b"PK\1\2" + struct.pack(
        "<6H3I5H2I", 20, 20, 0, 8, 0, 0, 0, len(packed), size, len(named), 0, 0, 0, 0, 0, directory
    )
    body = made[:directory] + local + named + packed
    tail = made[directory : made.rindex(b"PK\5\6")] + entry + named
    count = len(source.infolist()) + 1
    end = b"PK\5\6" + struct.pack("<4H2IH", 0, 0, count, count, len(tail), len(body), 0)
    return body + tail + end


# ---------------------------------------------------------------------- kinds of files


def saved(new: bool) -> bytes:
    file = io.BytesIO()
    torch.save(thing(), file, _use_new_zipfile_serialization=new)
    return file.getvalue()


def tensors() -> dict[str, Any]:
    return {"w": torch.arange(12.0).reshape(3, 4), "b": torch.arange(5), "h": torch.ones(2).half()}


def read_pt(data: bytes) -> Any:
    return torch.load(io.BytesIO(data))


def pt_file(draw: random.Random, data: bytes) -> bytes:
    kind = draw.randrange(5)
    if kind == 0:
        return repacked(data, draw, draw.choice(["data.pkl", "version", "data/0", "byteorder"]))
    if kind == 1:
        return running(draw)
    if kind == 2 and draw.random() < 0.1:
        return exploding(draw)
    return damaged(data, draw)


def read_npz(data: bytes) -> Any:
    with np.load(io.BytesIO(data)) as found:
        return {name: torch.from_numpy(found[name]) for name in found.files}


def npz_file(draw: random.Random, data: bytes) -> bytes:
    if draw.random() < 0.4:
        return repacked(data, draw, draw.choice(["w.npy", "b.npy"]))
    if draw.random() < 0.1:
        made = io.BytesIO()
        np.savez(made, x=np.array([Harm()], object))
        return made.getvalue()
    return damaged(data, draw)


class Harm:
    def __reduce__(self) -> Any:
        return os.system, ("touch harm",)


def read_safetensors(data: bytes) -> Any:
    from safetensors.torch import load, load_file

    with open("hostile.safetensors", "wb") as file:
        file.write(data)
    found = load_file("hostile.safetensors")
    load(data)
    return {name: t.clone() for name, t in found.items()}


def safetensors_file(draw: random.Random, data: bytes) -> bytes:
    if draw.random() < 0.5:
        return damaged(data, draw)
    # A header that can be read, and says what is not so.
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    entry = header[draw.choice(list(header))]
    wrong = draw.choice([-1, 0, 1, 3, 1 << 20, 1 << 40, (1 << 63) - 1, 1 << 64, "x", None, 1.5])
    which = draw.choice(["data_offsets", "shape", "dtype"])
    if which == "dtype":
        entry["dtype"] = draw.choice(["F32", "F64", "U8", "F8_E4M3", "C64", "BF16", "object", 3])
    else:
        place = draw.randrange(len(entry[which]) + 1)
        entry[which][place : place + 1] = [wrong]
    text = json.dumps(header).encode()
    stated = draw.choice([len(text), len(text), len(text), 1 << 40, len(text) + 1])
    return struct.pack("<Q", stated) + text + data[8 + size :]


def exported() -> bytes:
    file = io.BytesIO()
    layers = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
    torch.export.save(torch.export.export(layers, (torch.ones(1, 3),)), file)
    return file.getvalue()


def read_exported(data: bytes) -> Any:
    return torch.export.load(io.BytesIO(data))


def exported_file(draw: random.Random, data: bytes) -> bytes:
    """A program in which one entry, somewhere, is something else."""
    if draw.random() < 0.2:
        return damaged(data, draw)
    program = torch.load(io.BytesIO(data))
    place: Any = program
    path: list[Any] = []
    while isinstance(place, (dict, list)) and place and (not path or draw.random() < 0.9):
        path.append(draw.choice(list(place) if isinstance(place, dict) else range(len(place))))
        place = place[path[-1]]
    wrong = [None, -1, 1 << 70, 2.5, "", "x", "import os", "x = open('harm', 'w')", [], {}, ()]
    wrong += ["x): pass\nopen('harm', 'w')\ndef f(x", 'a", open("harm", "w")) or getattr(self, "b']
    wrong += ["torch.ops.aten.__class__.__base__", "torch.ops.aten.t.default", "call_method"]
    wrong += [torch.float32, torch.ones(2), {"node": "x"}, {"value": [1]}, [["tensor", [1 << 40]]]]
    target: Any = program
    for step in path[:-1]:
        target = target[step]
    if draw.random() < 0.2 and isinstance(target, dict):
        target[draw.choice(wrong[4:8])] = target.pop(path[-1])
    else:
        target[path[-1]] = draw.choice(wrong)
    file = io.BytesIO()
    torch.save(program, file)
    return file.getvalue()


def original(kind: str) -> tuple[bytes, Callable[..., Any], Callable[..., Any], Any]:
    if kind in ("zip", "legacy"):
        make = pt_file if kind == "zip" else lambda draw, data: damaged(data, draw)
        return saved(kind == "zip"), make, read_pt, CLEAR
    if kind == "pickles":
        return saved(True), pickle_file, read_pt, CLEAR
    if kind == "exported":
        return exported(), exported_file, read_exported, (*CLEAR, NotImplementedError)
    if kind == "npz":
        file = io.BytesIO()
        np.savez(file, **tensors())
        # NumPy's reader: its own errors, and MemoryError for a header that names too much.
        errors = (*CLEAR, zipfile.BadZipFile, zlib.error, struct.error, KeyError)
        errors = (*errors, OSError, lzma.LZMAError)
        return file.getvalue(), npz_file, read_npz, (*errors, MemoryError, tokenize.TokenError)
    torch.compat.install()
    from safetensors import SafetensorError
    from safetensors.torch import save

    return save(tensors()), safetensors_file, read_safetensors, (*CLEAR, SafetensorError)


def main(kind: str, count: int, seed: int) -> dict[str, Any]:
    data, make, read, clear = original(kind)
    read(data)
    warnings.simplefilter("ignore")
    if "libasan" not in os.environ.get("LD_PRELOAD", ""):  # which maps terabytes for itself
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, resource.RLIM_INFINITY))
    sys.addaudithook(watch)
    ends: collections.Counter[str] = collections.Counter()
    failures: list[str] = []
    for i in range(count):
        hostile = make(random.Random(f"{seed}, {i}"), data)
        # Safetensors are written to a file first.
        allowed = int(kind == "safetensors")
        seen.clear()
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # ends the process
        try:
            read(hostile)
        except clear as error:
            ends[type(error).__name__] += 1
            if not str(error) and kind != "npz":
                failures.append(f"{i}: {type(error).__name__} says nothing")
        except Exception as error:
            failures.append(f"{i}: {type(error).__name__}: {error!s:.200}")
        else:
            ends["loaded"] += 1
        signal.setitimer(signal.ITIMER_PROF, 0)
        if len(seen) > allowed:
            failures.append(f"{i}: {seen}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"ends": ends, "failures": failures, "harm": os.path.exists("harm"), "peak": peak}


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
