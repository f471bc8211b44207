"""Saving and loading: both formats, files of all kinds, options. Safety: test_weights_only.py."""

from __future__ import annotations

import collections
import copy
import doctest
import io
import mmap
import os
import pathlib
import pickle
import struct
import subprocess
import sys
import warnings
import zipfile
from typing import Any

import numpy as np
import pytest

import serialized
import tapegrad as torch
from serialized import DATA, LEGACY, SAFE, WHOLE, archive_of, same, tensor_pickle
from tapegrad import serialization
from tapegrad._serialization import archive
from tapegrad.core.array_kind import root_of
from tapegrad.core.strides import as_bytes

nn = torch.nn
SOURCE = str(pathlib.Path(torch.__file__).parent.parent)
FORMATS = {"zip": True, "legacy": False}


def saved(obj: Any, new: bool = True, **options: Any) -> bytes:
    file = io.BytesIO()
    torch.save(obj, file, _use_new_zipfile_serialization=new, **options)
    return file.getvalue()


def loaded(data: bytes, **options: Any) -> Any:
    return torch.load(io.BytesIO(data), **options)


def there_and_back(obj: Any, new: bool = True, **options: Any) -> Any:
    return loaded(saved(obj, new), **options)


@pytest.fixture(autouse=True)
def nothing_allowed():
    yield
    serialization.clear_safe_globals()


class Sub(torch.Tensor):
    pass


class SlottedSub(torch.Tensor):
    __slots__ = ("colour",)


# ---------------------------------------------------------------------- round trips


@pytest.mark.parametrize("name", SAFE)
def test_archives_bring_back_what_was_saved(name: str) -> None:
    thing = SAFE[name](torch)
    same(there_and_back(thing), thing)
    same(there_and_back(thing, weights_only=False), thing)


@pytest.mark.parametrize("name", LEGACY)
def test_the_old_format_does_too(name: str) -> None:
    thing = LEGACY[name](torch)
    same(there_and_back(thing, new=False), thing)
    same(there_and_back(thing, new=False, weights_only=False), thing)


@pytest.mark.parametrize("new", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("name", WHOLE)
def test_whole_modules_and_optimizers(name: str, new: bool) -> None:
    thing = WHOLE[name](torch)
    same(there_and_back(thing, new, weights_only=False), thing)
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        there_and_back(thing, new)


@pytest.mark.parametrize("name", [*SAFE, *WHOLE])
def test_files_of_pytorch(name: str) -> None:
    found = torch.load(DATA / f"{name}.pt", weights_only=name in SAFE)
    same(found, {**SAFE, **WHOLE}[name](torch), close=1e-6 if name == "training" else 0.0)


@pytest.mark.parametrize("name", LEGACY)
def test_old_files_of_pytorch(name: str) -> None:
    found = torch.load(DATA / f"old_{name}.pt")
    same(found, LEGACY[name](torch), close=1e-6 if name == "training" else 0.0)


@pytest.mark.parametrize("name", ["every_dtype", "views", "with_attributes"])
def test_archives_are_byte_for_byte_those_of_pytorch(name: str, tmp_path: Any) -> None:
    torch.save(SAFE[name](torch), tmp_path / f"{name}.pt")
    assert without_id(tmp_path / f"{name}.pt") == without_id(DATA / f"{name}.pt")


def without_id(path: Any) -> tuple[bytes, int]:
    """All bytes up to the id, which is random to the eye, and how many follow."""
    data = path.read_bytes()
    with zipfile.ZipFile(path) as found:
        last = found.infolist()[-1]
    assert last.filename.endswith("/.data/serialization_id")
    return data[: last.header_offset + 64], len(data)


@pytest.mark.parametrize("new", FORMATS.values(), ids=FORMATS)
def test_tensors_that_shared_memory_share_it_again(new: bool) -> None:
    base = torch.zeros(6)
    a, b, c = there_and_back([base, base[2:], base.view(2, 3)], new)
    a[3] = 7.0
    assert b[1] == 7 and c[1, 0] == 7
    assert there_and_back([base[:2]], new)[0].untyped_storage().nbytes() == 24


@pytest.mark.parametrize("new", FORMATS.values(), ids=FORMATS)
def test_a_tensor_saved_twice_is_one_tensor(new: bool) -> None:
    t = nn.Parameter(torch.ones(1))
    a, b = there_and_back([t, t], new)
    assert a is b


def test_loaded_tensors_are_ordinary() -> None:
    t = there_and_back(torch.ones(2, 2, requires_grad=True))
    assert t.is_leaf and t._version == 1
    (t * t).sum().backward()
    assert t.grad.tolist() == [[2, 2], [2, 2]]
    assert copy.deepcopy(t).tolist() == t.tolist()
    with torch.no_grad():
        t.add_(1)
    assert t.tolist() == [[2, 2], [2, 2]]
    with torch.inference_mode():
        assert there_and_back(torch.ones(1)).is_inference()


def test_bfloat16_keeps_its_bits() -> None:
    bits = np.array([0x7FC1, 0x0001, 0x8000, 0xFF80, 0x3F81], np.uint16)
    t = torch.tensor(bits.view(np.int16)).view(torch.bfloat16)
    back = there_and_back(t)
    assert back.dtype is torch.bfloat16
    assert (back._array.view(np.uint16) == bits).all()


def test_memory_from_elsewhere() -> None:
    grid = np.arange(24.0).reshape(4, 6)
    for array in (grid.T, grid[::2, 1:5], grid[:, 2], np.asfortranarray(grid)):
        t = torch.from_numpy(array)
        back = there_and_back(t)
        assert back.tolist() == t.tolist() and back.stride() == t.stride()
    assert as_bytes(np, root_of(grid[1:].T)).size == grid.nbytes


def test_a_state_dict_keeps_its_metadata() -> None:
    state = nn.Sequential(nn.Linear(1, 2)).state_dict()
    back = there_and_back(state)
    assert type(back) is collections.OrderedDict
    assert back._metadata == state._metadata
    net = nn.Sequential(nn.Linear(1, 2))
    assert str(net.load_state_dict(back)) == "<All keys matched successfully>"


def test_training_goes_on_where_it_was(tmp_path: Any) -> None:
    def step(net: Any, adam: Any) -> None:
        adam.zero_grad()
        net(torch.arange(6.0).reshape(2, 3)).pow(2).sum().backward()
        adam.step()

    net = serialized.network(torch).eval()
    adam = torch.optim.Adam(net.parameters(), lr=0.1)
    step(net, adam)
    torch.save([net.state_dict(), adam.state_dict()], tmp_path / "a.pt")
    other = serialized.network(torch).eval()
    other_adam = torch.optim.Adam(other.parameters(), lr=0.3)
    states = torch.load(tmp_path / "a.pt")
    other.load_state_dict(states[0])
    other_adam.load_state_dict(states[1])
    for n, a in ((net, adam), (other, other_adam)):
        step(n, a)
    for p, q in zip(net.parameters(), other.parameters(), strict=True):
        assert torch.equal(p, q)


def test_subclasses() -> None:
    t = torch.ones(2).as_subclass(Sub)
    t.note = 3
    data = saved(t)
    with pytest.raises(pickle.UnpicklingError, match=r"GLOBAL .*\.Sub was not an allowed global"):
        loaded(data)
    with serialization.safe_globals([Sub]):
        found = loaded(data)
    assert type(found) is Sub and found.note == 3 and found.tolist() == [1, 1]
    assert type(loaded(data, weights_only=False)) is Sub
    slotted = torch.ones(1).as_subclass(SlottedSub)
    slotted.colour = "red"
    assert there_and_back(slotted, weights_only=False).colour == "red"


def test_storages() -> None:
    x = torch.arange(3.0)
    found = there_and_back(x.untyped_storage())
    assert found.dtype is torch.uint8 and found.nbytes() == 12
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        typed = x.storage()
    assert list(there_and_back([x, typed])[1]) == [0, 1, 2]
    with pytest.raises(RuntimeError, match="Cannot save multiple tensors or storages that view"):
        saved([x, x.view(torch.int32)])


def test_functions_classes_and_results_by_name() -> None:
    things = [torch.relu, nn.functional.relu, nn.functional.gelu, nn.Linear, torch.Tensor]
    things += [torch.device, torch.FloatTensor, nn.init.xavier_uniform_, os.path.join]
    assert there_and_back(things, weights_only=False) == things
    best = torch.max(torch.arange(4.0).reshape(2, 2), 0)
    back = there_and_back(best, weights_only=False)
    assert type(back) is type(best) and back.indices.tolist() == [1, 1]


def test_hooks_are_not_saved() -> None:
    t = torch.ones(1, requires_grad=True)
    t.register_hook(print)
    with pytest.warns(UserWarning, match="backward hook .* on tensor will not be serialized"):
        back = there_and_back(t)
    assert back._backward_hooks is None


def test_lazy_signs_of_pytorch_are_carried_out() -> None:
    memory = struct.pack("<2f", 1.0, 2.0)
    args = "K\0K\1\x85K\1\x85\x89}}X\4\0\0\0conj\x88s"
    data = archive_of(tensor_pickle(b"ComplexFloat", args.encode("latin-1")), memory)
    assert loaded(data).tolist() == [1 - 2j]


# ---------------------------------------------------------------------- pickle and copy


def test_plain_pickle_and_deepcopy() -> None:
    net = serialized.network(torch)
    sgd = serialized.momentum(torch)
    leaf = torch.ones(2, requires_grad=True)
    sub = torch.ones(2).as_subclass(Sub)
    sub.note = 1
    parameter = nn.Parameter(torch.ones(2))
    things = [net, leaf, torch.arange(6.0).reshape(2, 3).t(), sub, parameter]
    things += [torch.float16, torch.Size([1]), torch.device("cpu"), torch.strided]
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        same(pickle.loads(pickle.dumps(things, protocol)), things)
        same(pickle.loads(pickle.dumps(sgd, protocol)), sgd)
    same(copy.deepcopy(things), things)
    same(copy.deepcopy(sgd), sgd)


def test_plain_pickles_of_pytorch_under_the_alias(tmp_path: Any) -> None:
    script = f"""
import pickle, torch
from torch.serialization import add_safe_globals, safe_globals, MAP_LOCATION
tensor, net = pickle.load(open({str(DATA / "plain.pickle")!r}, "rb"))
assert tensor.tolist() == [0, 1, 2]
assert type(net) is torch.nn.Sequential and net.last.weight.shape == (2, 4)
assert torch.storage.UntypedStorage is torch.UntypedStorage
torch.save(net, "net.pt")
assert type(torch.load("net.pt", weights_only=False)) is torch.nn.Sequential
"""
    (tmp_path / "script.py").write_text(script)
    done = run("-m", "tapegrad", "run", "script.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_nothing_of_this_is_imported_before_it_is_used(tmp_path: Any) -> None:
    code = (
        "import sys, tapegrad; late = ('serialization', '_utils', '_serialization');"
        "assert not [n for n in late if 'tapegrad.' + n in sys.modules];"
        "tapegrad.load; assert 'tapegrad.serialization' in sys.modules"
    )
    done = run("-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def run(*args: str, cwd: Any) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [SOURCE, os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, *args], cwd=cwd, env=env, capture_output=True, text=True, timeout=120
    )


# ---------------------------------------------------------------------- files


def test_paths_and_file_objects(tmp_path: Any) -> None:
    torch.save({"a": 1}, str(tmp_path / "a.pt"))
    torch.save({"a": 1}, tmp_path / "b.tar.gz")
    assert torch.load(tmp_path / "a.pt") == torch.load(str(tmp_path / "b.tar.gz")) == {"a": 1}
    assert zipfile.ZipFile(tmp_path / "b.tar.gz").namelist()[0] == "b.tar/data.pkl"
    with open(tmp_path / "c.pt", "wb", buffering=0) as raw:
        torch.save(torch.ones(1000), raw)
    with open(tmp_path / "c.pt", "rb") as file:
        assert torch.load(file).sum() == 1000


def test_several_objects_in_one_file() -> None:
    file = io.BytesIO(b"head")
    file.seek(4)
    for i in range(3):
        torch.save(torch.full((2,), i), file, _use_new_zipfile_serialization=False)
    torch.save("last", file)
    file.seek(4)
    assert [torch.load(file).tolist() for _ in range(3)] == [[0, 0], [1, 1], [2, 2]]
    assert torch.load(file) == "last"


class Reader:
    """Only what loading needs of a file: no readinto."""

    def __init__(self, data: bytes) -> None:
        self.file = io.BytesIO(data)
        self.read, self.seek, self.tell = self.file.read, self.file.seek, self.file.tell
        self.readline, self.seekable = self.file.readline, self.file.seekable


@pytest.mark.parametrize("new", FORMATS.values(), ids=FORMATS)
def test_files_of_other_kinds(new: bool) -> None:
    thing = serialized.views(torch)
    same(torch.load(Reader(saved(thing, new))), thing)  # type: ignore[arg-type]


class Stream(io.RawIOBase):
    """A pipe: no seeking."""

    def __init__(self) -> None:
        self.data = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        part = bytes(data[:7])  # takes less than it is given
        self.data += part
        return len(part)


@pytest.mark.parametrize("new", FORMATS.values(), ids=FORMATS)
def test_saving_needs_no_seeking(new: bool) -> None:
    stream = Stream()
    torch.save(torch.arange(5), stream, _use_new_zipfile_serialization=new)
    assert loaded(stream.data).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(io.UnsupportedOperation, match="You can only torch.load from a file that"):
        torch.load(stream)


def test_what_is_no_file() -> None:
    with pytest.raises(AttributeError, match="expected 'f' to be string, path, or a file-like"):
        torch.save(1, 3)
    with pytest.raises(AttributeError, match="'int' object has no attribute 'seek'. You can only"):
        torch.load(3)
    with pytest.raises(TypeError, match="Expected bytes, got str"):
        torch.load(io.StringIO("text"))
    with pytest.raises(FileNotFoundError):
        torch.load("nothing/here.pt")
    with pytest.raises(RuntimeError, match="Parent directory nothing does not exist."):
        torch.save(1, "nothing/here.pt")


def test_saving_is_all_or_nothing(tmp_path: Any, monkeypatch: Any) -> None:
    path = tmp_path / "a.pt"
    torch.save("old", path)
    before = path.read_bytes()

    def fails(self: Any) -> None:
        raise KeyboardInterrupt

    for new in (True, False):
        with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
            torch.save([torch.ones(3), lambda: 0], path, _use_new_zipfile_serialization=new)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(archive.ArchiveWriter, "close", fails)
        torch.save(torch.ones(3), path)
    with monkeypatch.context() as patch, pytest.raises(OSError, match="full"):
        patch.setattr(os, "fsync", lambda descriptor: (_ for _ in ()).throw(OSError("full")))
        torch.save(torch.ones(3), path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.pt"]


@pytest.mark.skipif(os.name != "posix", reason="permissions and links of POSIX")
def test_saving_keeps_permissions_and_follows_links(tmp_path: Any) -> None:
    path, link = tmp_path / "a.pt", tmp_path / "link.pt"
    torch.save(1, path)
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask
    path.chmod(0o640)
    link.symlink_to(path)
    torch.save(2, link)
    assert link.is_symlink() and torch.load(path) == 2
    assert path.stat().st_mode & 0o777 == 0o640
    torch.save(3, "/dev/null")
    with pytest.raises(RuntimeError, match="open file failed with strerror: Is a directory"):
        torch.save(1, tmp_path)


def test_archives_are_laid_out_as_pytorch_expects() -> None:
    data = saved({"a": torch.arange(3), "b": torch.empty(0), "c": "x" * 77})
    with zipfile.ZipFile(io.BytesIO(data)) as found:
        assert found.testzip() is None
        names = [info.filename for info in found.infolist()]
        for info in found.infolist():
            named, extra = struct.unpack_from("<2H", data, info.header_offset + 26)
            start = info.header_offset + 30 + named + extra
            assert start % 64 == 0 and info.compress_type == zipfile.ZIP_STORED
            assert data[start : start + info.file_size] == found.read(info)
    assert names == [
        "archive/data.pkl",
        "archive/.format_version",
        "archive/.storage_alignment",
        "archive/byteorder",
        "archive/data/0",
        "archive/data/1",
        "archive/version",
        "archive/.data/serialization_id",
    ]


@pytest.mark.slow
def test_archives_of_more_than_four_gigabytes(tmp_path: Any) -> None:
    large = torch.from_numpy(np.zeros(2**32 + 5, np.uint8))
    path = tmp_path / "large.pt"
    serialization.set_crc32_options(False)
    try:
        with open(path, "wb") as file:
            torch.save([large, torch.arange(3)], serialized.Sparse(file))
    finally:
        serialization.set_crc32_options(True)
    with zipfile.ZipFile(path) as found:
        assert found.getinfo("archive/data/0").file_size == 2**32 + 5
    first, second = torch.load(path, mmap=True)
    assert first.numel() == 2**32 + 5 and first[-1] == 0
    assert second.tolist() == [0, 1, 2]


def test_archives_packed_again_by_other_programs() -> None:
    data = saved(torch.arange(1000))
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
            for name in old.namelist():
                new.writestr(name, old.read(name))
    assert torch.equal(loaded(packed.getvalue()), torch.arange(1000))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_packing_that_pytorch_cannot_read(method: int) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved(torch.arange(3)))) as old:
        with zipfile.ZipFile(packed, "w", method) as new:
            for name in old.namelist():
                new.writestr(name, old.read(name))
    with pytest.raises(RuntimeError, match="failed retrieving file meta-data for .*: unsupported"):
        loaded(packed.getvalue())


def test_mapped_files(tmp_path: Any) -> None:
    path = tmp_path / "a.pt"
    thing = serialized.views(torch)
    torch.save(thing, path)
    before = path.read_bytes()
    found = torch.load(path, mmap=True)
    same(found, thing)
    root = root_of(found["base"]._array)
    assert isinstance(getattr(root.base, "obj", root.base), mmap.mmap)
    found["base"].add_(1)
    assert found["row"][0] == 19 and path.read_bytes() == before
    torch.save("replaced", path)
    assert found["row"][0] == 19
    torch.save(thing, path)
    with serialization.set_default_mmap_options(mmap.MAP_SHARED):
        torch.load(path, mmap=True)["base"].zero_()
    assert torch.load(path, mmap=True)["base"].sum() == 0
    assert serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    with pytest.raises(ValueError, match="f must be a file path in order to use the mmap"):
        loaded(before, mmap=True)
    torch.save(1, path, _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="mmap can only be used with files saved with"):
        torch.load(path, mmap=True)


def test_the_other_byte_order() -> None:
    for t in (torch.arange(3), torch.tensor([1 + 2j, 3j]), torch.ones(2, dtype=torch.bfloat16)):
        item = t.real.element_size() if t.is_complex() else t.element_size()
        memory = t._array.view(f"u{item}").byteswap().tobytes()
        kind = {"int64": b"Long", "complex64": b"ComplexFloat", "bfloat16": b"BFloat16"}
        args = f"K\0K{chr(len(t))}\x85K\1\x85\x89}}".encode("latin-1")
        data = tensor_pickle(kind[t.dtype.name], args, len(t))
        assert torch.equal(loaded(archive_of(data, memory, byteorder=b"big")), t)
        with pytest.raises(ValueError, match="Unknown endianness type: odd"):
            loaded(archive_of(data, memory, byteorder=b"odd"))
        serialization.set_default_load_endianness(serialization.LoadEndianness.BIG)
        try:
            assert torch.equal(loaded(archive_of(data, memory)), t)
        finally:
            serialization.set_default_load_endianness(None)


def test_checksums_can_be_left_out() -> None:
    serialization.set_crc32_options(False)
    try:
        data = saved(torch.arange(3))
    finally:
        serialization.set_crc32_options(True)
    assert {info.CRC for info in zipfile.ZipFile(io.BytesIO(data)).infolist()} == {0}
    assert loaded(data).tolist() == [0, 1, 2]


# ---------------------------------------------------------------------- options


def test_map_location() -> None:
    data = saved([torch.ones(2), torch.zeros(1)])
    seen: list[Any] = []

    def look(storage: Any, location: str) -> Any:
        seen.append((type(storage), storage.nbytes(), location))
        return storage

    cpu = torch.device("cpu")
    for place in (None, "cpu", cpu, {}, {"cpu": "cpu"}, {"cuda:0": "cpu"}, look, lambda *_: None):
        assert loaded(data, map_location=place)[0].tolist() == [1, 1]
    assert seen == [(torch.UntypedStorage, 8, "cpu"), (torch.UntypedStorage, 4, "cpu")]
    for place in ("cuda", "cuda:1", torch.device("cuda"), {"cpu": "cuda"}):
        with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA dev"):
            loaded(data, map_location=place)
    with pytest.raises(RuntimeError, match=r"restore data location of .* \(tagged with moon\)"):
        loaded(data, map_location="moon")
    with pytest.raises(TypeError, match="'int' object is not callable"):
        loaded(data, map_location=3)


@pytest.mark.parametrize("new", FORMATS.values(), ids=FORMATS)
def test_tensors_of_a_gpu_come_to_the_cpu(new: bool, monkeypatch: Any) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(serialization, "location_tag", lambda storage: "cuda:0")
        data = saved(torch.arange(3), new)
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
        loaded(data)
    assert loaded(data, map_location="cpu").tolist() == [0, 1, 2]
    assert loaded(data, map_location=lambda storage, tag: storage).tolist() == [0, 1, 2]


def test_places_can_be_added() -> None:
    from tapegrad._serialization import places

    before = list(places._package_registry)
    try:
        serialization.register_package(
            5, lambda s: "attic", lambda s, tag: s if tag == "attic" else None
        )
        data = saved(torch.ones(1))
        assert b"attic" in data and loaded(data).tolist() == [1]
    finally:
        places._package_registry[:] = before
    with pytest.raises(RuntimeError, match="tagged with attic"):
        loaded(data)


def test_protocols_and_pickle_modules() -> None:
    thing = {"a": torch.arange(3), "b": [1, "x"], "net": nn.Linear(1, 1), "dtype": torch.int8}
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        for new in (True, False):
            data = saved(thing, new, pickle_protocol=protocol)
            assert b"tapegrad" not in data
            same(loaded(data, weights_only=False), thing)

    class Module:
        """A pickle module of its own."""

        __name__ = "mine"
        Pickler, Unpickler = pickle.Pickler, pickle.Unpickler
        load, dump = staticmethod(pickle.load), staticmethod(pickle.dump)

    for new in (True, False):
        data = saved(thing, new, pickle_module=Module())
        same(loaded(data, pickle_module=Module()), thing)
    with pytest.raises(RuntimeError, match="Can not safely load weights when explicit pickle_mod"):
        loaded(data, pickle_module=Module(), weights_only=True)
    with pytest.warns(UserWarning, match="Detected pickle protocol 3 in the checkpoint"):
        assert loaded(saved([1], pickle_protocol=3)) == [1]
    with pytest.warns(UserWarning, match="pickle_load_args only works if"):
        assert loaded(saved([1]), encoding="ascii") == [1]


def test_the_environment_decides(monkeypatch: Any) -> None:
    data = saved(collections.deque([1]))
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(pickle.UnpicklingError):
        loaded(data, weights_only=False)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(RuntimeError, match="Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or"):
        loaded(data)
    monkeypatch.delenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD")
    with pytest.warns(UserWarning, match="TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected"):
        assert loaded(data) == collections.deque([1])
    with pytest.raises(pickle.UnpicklingError):
        loaded(data, weights_only=True)


@pytest.mark.parametrize("name", serialization.__all__)
def test_examples(name: str) -> None:
    thing = getattr(serialization, name)
    names = {**vars(torch), "load": torch.load, "save": torch.save, "torch": torch}
    names |= {"tensor": torch.tensor, "zeros": torch.zeros, "__name__": "__main__"}
    test = doctest.DocTestParser().get_doctest(thing.__doc__ or "", names, name, None, 0)
    assert doctest.DocTestRunner().run(test).failed == 0


def test_unpickled_tensors_have_the_dtype_that_kernels_know() -> None:
    """NumPy unpickles a dtype that is equal to float32 and another object."""
    for dtype in (torch.float32, torch.float64, torch.int64, torch.bfloat16):
        made = pickle.loads(pickle.dumps(torch.ones(3, dtype=dtype)))
        assert made._array.dtype is dtype.np
    array = pickle.loads(pickle.dumps(np.ones(3, np.float32)))
    shared = torch.from_numpy(array)
    assert shared._array.dtype is torch.float32.np
    shared[0] = 5
    assert array[0] == 5
    layer = torch.nn.Linear(3, 2)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(pickle.loads(pickle.dumps(torch.ones(1, 3)))).dtype is torch.bfloat16
