"""Loading what cannot be trusted: nothing in it runs, and damage is reported, never believed."""

from __future__ import annotations

import io
import os
import pickle
import tracemalloc
import warnings
from typing import Any

import numpy as np
import pytest

import tapegrad as torch
from serialized import LEGACY, archive_of, called, same, storage_pickle, tensor_pickle
from tapegrad import serialization

nn = torch.nn
FORMATS = {"zip": True, "legacy": False}


def saved(obj: Any, new: bool = True) -> bytes:
    file = io.BytesIO()
    torch.save(obj, file, _use_new_zipfile_serialization=new)
    return file.getvalue()


def loaded(data: bytes) -> Any:
    return torch.load(io.BytesIO(data))


@pytest.fixture(autouse=True)
def nothing_allowed():
    yield
    serialization.clear_safe_globals()


class Point:
    def __init__(self, x: int) -> None:
        self.x = x


class Renamed(Point):
    """A class that has another name in older files."""


class Slotted:
    __slots__ = ("x",)


# ---------------------------------------------------------------------- what may be loaded


def test_safe_globals() -> None:
    point, slotted = Point(3), Slotted()
    slotted.x = 4
    data = saved([point, slotted, nn.Linear(1, 1)])
    name = f"{Point.__module__}.Point"
    with pytest.raises(pickle.UnpicklingError) as caught:
        loaded(data)
    first, *_ = str(caught.value).splitlines()
    assert first == (
        "Weights only load failed. This file can still be loaded, to do so you have two options, "
        "\033[1mdo those steps only if you trust the source of the checkpoint\033[0m. "
    )
    assert f"Please use `torch.serialization.add_safe_globals([{name}])`" in str(caught.value)
    unsafe = serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(data))
    assert {name, f"{Point.__module__}.Slotted", "torch.nn.modules.linear.Linear"} == set(unsafe)
    allowed = [Point, Slotted, nn.Linear]
    with serialization.safe_globals(allowed):
        assert serialization.get_safe_globals() == allowed
        assert serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(data)) == []
        found = loaded(data)
    assert found[0].x == 3 and found[1].x == 4 and found[2].in_features == 1
    assert serialization.get_safe_globals() == []
    serialization.add_safe_globals([(Renamed, name), Slotted, nn.Linear])
    assert type(loaded(data)[0]) is Renamed
    with pytest.raises(ValueError, match="Expected input to be a checkpoint returned by"):
        serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(saved(1, new=False)))


def test_numpy_scalars_when_allowed() -> None:
    data = saved(np.float32(3))
    with pytest.raises(pickle.UnpicklingError, match="numpy._core.multiarray.scalar"):
        loaded(data)
    parts = [np._core.multiarray.scalar, np.dtype, np.dtypes.Float32DType]
    with serialization.safe_globals(parts):
        assert loaded(data) == 3


TOUCH = b"X\x0c\0\0\0touch marker"
HUGE = b"\x8a\6\0\0\0\0\0\x10"  # 2**44
EVIL = {
    "system": called(b"os system", TOUCH),
    "posix": called(b"posix system", TOUCH),
    "eval": called(b"__builtin__ eval", b"X\x0e\0\0\0open('m', 'w')"),
    "exec": called(b"builtins exec", b"X\x0e\0\0\0open('m', 'w')"),
    "getattr": called(b"builtins getattr", b"X\1\0\0\0aX\5\0\0\0upper"),
    "popen": called(b"subprocess Popen", TOUCH),
    "import": called(b"importlib import_module", b"X\2\0\0\0os"),
    "nested name": called(b"torch serialization.os.system", TOUCH),
    "module of ours": called(b"torch.serialization os.system", TOUCH),
    "tapegrad": called(b"tapegrad.serialization load", TOUCH),
    "bytearray": called(b"builtins bytearray", HUGE),
    "tensor": called(b"torch Tensor", HUGE),
    "float tensor": called(b"torch FloatTensor", HUGE),
    "codec": called(b"_codecs encode", b"X\1\0\0\0aX\5\0\0\0rot13"),
    "set of int": called(b"builtins set", HUGE),
    "storage": called(b"torch FloatStorage", HUGE),
    "text": b"\x80\2X\xff\xff\xff\xffabc.",
    "memo": b"\x80\2]r\xff\xff\xff\xff0.",
    "inst": b"\x80\2(ios\nsystem\n.",
    "object": b"\x80\2(cos\nsystem\no.",
    "stack global": b"\x80\4\x8c\2os\x8c\6system\x93.",
    "extension": b"\x80\2\x82\1.",
    "build a class": b"\x80\2ctorch\nTensor\n}X\3\0\0\0addNsb.",
    "build a function": b"\x80\2ctorch._utils\n_rebuild_tensor_v2\n}X\3\0\0\0addNsb.",
    "new object": b"\x80\2cbuiltins\nset\n]\x85\x81.",
    "by the back door": called(
        b"torch._tensor _rebuild_from_type_v2",
        b"cbuiltins\nbytearray\nctorch\nTensor\n" + HUGE + b"\x85}",
    ),
    "other type": called(
        b"torch._tensor _rebuild_from_type_v2",
        b"ctorch._utils\n_rebuild_tensor_v2\ncbuiltins\nset\n("
        + storage_pickle(b"Float")
        + b"K\0K\1\x85K\1\x85\x89}t}",
    ),
    "slots": called(
        b"torch._tensor _rebuild_from_type_v2",
        b"ctorch._utils\n_rebuild_tensor_v2\nctorch\nTensor\n("
        + storage_pickle(b"Float")
        + b"K\0K\1\x85K\1\x85\x89}t}}X\5\0\0\0arrayK\1s\x86",
    ),
    "no storage": called(b"torch._utils _rebuild_tensor_v2", b"K\1K\0K\1\x85K\1\x85\x89}"),
    "no tensor": called(b"torch._utils _rebuild_parameter", b"K\1\x88}"),
    "huge view": tensor_pickle(b"Float", b"K\0" + HUGE + HUGE + b"\x86K\0K\0\x86\x89}"),
    "beyond": tensor_pickle(b"Float", b"K\1K\1\x85K\1\x85\x89}"),
    "before": tensor_pickle(b"Float", b"J\xff\xff\xff\xffK\1\x85K\1\x85\x89}"),
    "backwards": tensor_pickle(b"Float", b"K\0K\1\x85J\xff\xff\xff\xff\x85\x89}"),
    "long step": tensor_pickle(b"Float", b"K\0K\2\x85" + HUGE + b"\x85\x89}"),
    "other numel": tensor_pickle(b"Float", b"K\0K\1\x85K\1\x85\x89}", 2),
    "strange size": tensor_pickle(b"Float", b"K\0X\1\0\0\0a\x85K\1\x85\x89}"),
    "module": b"\x80\2(X\6\0\0\0modulectorch\nTensor\nX\1\0\0\0aX\1\0\0\0atQ.",
}


@pytest.mark.parametrize("name", EVIL)
@pytest.mark.parametrize("kind", FORMATS)
def test_evil_pickles_do_not_run(name: str, kind: str, tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    if kind == "zip":
        data = archive_of(EVIL[name], b"\0" * 4)
    else:
        data = saved(1, new=False)
        end = data.index(b"K\x01.")  # the object, which is preceded by its protocol
        data = data[: end - 2] + EVIL[name] + data[end + 3 :]
    tracemalloc.start()
    try:
        with warnings.catch_warnings(), pytest.raises(CLEAR) as caught:
            warnings.simplefilter("ignore")
            loaded(data)
        assert tracemalloc.get_traced_memory()[1] < 5e6
    finally:
        tracemalloc.stop()
    assert str(caught.value)
    assert os.listdir(tmp_path) == []


def test_what_pytorch_has_and_we_do_not() -> None:
    for name in (b"torch complex32", b"torch._utils _rebuild_sparse_tensor"):
        with pytest.raises(RuntimeError, match="which tapegrad does not have"):
            loaded(archive_of(called(name, b"")))
    with pytest.raises(RuntimeError, match="tapegrad has no dtype for it"):
        loaded(archive_of(tensor_pickle(b"QInt8", b"K\0K\1\x85K\1\x85\x89}"), b"\0"))
    with pytest.raises(RuntimeError, match="``weights_only=True`` with TorchScript archives"):
        loaded(archive_of(b"\x80\2N.", **{"constants.pkl": b"\x80\2)."}))


# ---------------------------------------------------------------------- damage

CLEAR = (RuntimeError, pickle.UnpicklingError, EOFError, TypeError, ValueError)


def test_damage_has_a_name() -> None:
    data = saved(torch.arange(5.0))
    at = data.index(np.arange(5, dtype=np.float32).tobytes())
    flipped = data[: at + 6] + bytes([data[at + 6] ^ 1]) + data[at + 7 :]
    with pytest.raises(RuntimeError, match="failed reading file data/0: .*checksum"):
        loaded(flipped)
    for cut in (data[:-10], data[: len(data) // 2]):
        with pytest.raises(RuntimeError, match="failed reading zip archive: failed finding cent"):
            loaded(cut)
    with pytest.raises(RuntimeError, match="failed locating file data/0: file not found"):
        loaded(data.replace(b"archive/data/0", b"archive/data/x"))
    with pytest.raises(RuntimeError, match="file in archive is not in a subdirectory: "):
        loaded(data.replace(b"archive/", b"archive_"))
    with pytest.raises(RuntimeError, match="version 9900, but the maximum supported version"):
        loaded(archive_of(b"\x80\2N.", version=b"9900\n"))
    old = saved(torch.arange(5.0), new=False)
    with pytest.raises(RuntimeError, match="unexpected EOF, expected 3 more bytes. The file might"):
        loaded(old[:-3])
    with pytest.raises(RuntimeError, match="Invalid magic number; corrupt file?"):
        loaded(old[:5] + b"x" + old[6:])
    with pytest.raises(EOFError, match="Ran out of input"):
        loaded(b"")


def damaged(data: bytes, random: np.random.Generator) -> bytes:
    """One accident: flipped bits, a lost end or piece, a wrong number, a stretch of noise."""
    made = bytearray(data)
    at = int(random.integers(len(data)))
    kind = random.integers(6)
    if kind == 0:
        return data[:at]
    if kind == 1:
        for place in random.integers(len(data), size=random.integers(1, 9)):
            made[place] ^= 1 << int(random.integers(8))
    elif kind == 2:
        del made[at : at + int(random.integers(1, 200))]
    elif kind == 3:
        made[at : at + 8] = random.choice([b"\xff" * 8, b"\0" * 8, b"\xff\xff\xff\x7f", b"\0\0\1"])
    elif kind == 4:  # in the headers of a zip file
        heads = [i for i in range(len(data) - 3) if data[i : i + 2] == b"PK"]
        at = heads[int(random.integers(len(heads)))] if heads else at
        made[(at + int(random.integers(46))) % len(made)] = int(random.integers(256))
    else:
        made[at : at + 20] = random.bytes(20)
    return bytes(made)


@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_files(kind: str) -> None:
    thing = [LEGACY[name](torch) for name in ("views", "with_attributes", "legacy_dtypes")]
    thing += [{"a": list(range(40)), "text": "x" * 300}]
    data = saved(thing, FORMATS[kind])
    random = np.random.default_rng(7)  # more of them: fuzz/test_files.py
    refused = 0
    tracemalloc.start()
    try:
        for i in range(100):
            broken = damaged(data, random)
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    found = loaded(broken)
                except CLEAR as error:
                    refused += 1
                    assert str(error), i
                else:
                    # Checksums let nothing through; the old format has none.
                    if kind == "zip":
                        same(found, thing)
            assert tracemalloc.get_traced_memory()[1] - before < 5e6, i
    finally:
        tracemalloc.stop()
    assert refused > 50
