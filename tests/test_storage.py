"""Storages: made by size, of values and of files; slices that share memory."""

from __future__ import annotations

import copy
import pathlib
import sys

import pytest

import tapegrad as torch
from tapegrad.testing import assert_close

Storage = torch.UntypedStorage


def test_made_by_size_and_of_values() -> None:
    assert len(Storage()) == 0 and len(Storage(5)) == 5
    assert Storage([1, 2, 300]).tolist() == [1, 2, 44]
    assert Storage(3, device="meta").device == torch.device("meta")
    assert torch.FloatStorage([1, 2]).tolist() == [1.0, 2.0]
    whole = torch.TypedStorage(wrap_storage=Storage(8).fill_(0), dtype=torch.float32)
    assert whole.tolist() == [0.0, 0.0] and whole.type() == "torch.FloatStorage"


def test_a_slice_is_a_storage_on_the_same_memory() -> None:
    whole = Storage([1, 2, 3, 4, 5, 6])
    part = whole[2:4]
    part[0] = 99
    assert whole.tolist() == [1, 2, 99, 4, 5, 6] and whole[-1] == 6
    assert part.data_ptr() - whole.data_ptr() == 2 and part.nbytes() == 2
    tensor = torch.asarray(part, dtype=torch.uint8)
    assert tensor.untyped_storage().data_ptr() == part.data_ptr()
    assert tensor.untyped_storage().nbytes() == 2 and tensor.storage_offset() == 0
    whole[1:3] = 7
    assert whole.tolist() == [1, 7, 7, 4, 5, 6] and tensor.tolist() == [7, 4]


def test_what_cannot_be_asked() -> None:
    storage = Storage([1, 2, 3, 4])
    with pytest.raises(RuntimeError, match="slice with a step of 2, but only a step of 1"):
        storage[0:4:2]
    with pytest.raises(IndexError, match="index 10 out of range for storage of size 4"):
        storage[10]
    with pytest.raises(TypeError, match="can't index a torch.UntypedStorage with str"):
        storage["a"]
    with pytest.raises(RuntimeError, match="can only set storage content with a int types"):
        storage[0:2] = [1, 2]


def test_sizes_and_copies() -> None:
    storage = Storage([1, 2, 3])
    assert sys.getsizeof(storage) - sys.getsizeof(Storage()) == 3
    twin = copy.deepcopy(storage)
    twin[0] = 9
    assert storage.tolist() == [1, 2, 3] and Storage(3).copy_(twin).tolist() == [9, 2, 3]
    assert storage.untyped() is storage and storage.cpu() is storage
    assert Storage(2).share_memory_().is_shared() and Storage._new_shared(2).is_shared()


def test_tensors_of_storages() -> None:
    bits = Storage(list(torch.tensor([1.5, -2.0]).view(torch.uint8).tolist()))
    for make in (torch.asarray, torch.as_tensor, torch.tensor):
        assert_close(make(bits, dtype=torch.float32), torch.tensor([1.5, -2.0]))
    assert torch.asarray(bits).dtype is torch.int64
    # At an odd address, as files may have them.
    shifted = Storage([0, *bits.tolist()])[1:]
    odd = torch.asarray(shifted, dtype=torch.float32)
    assert_close((odd * 2 + 1).sum(), torch.tensor(1.0))
    assert_close(torch.relu(odd) @ odd, torch.tensor(2.25))
    torch.tensor(bits, dtype=torch.uint8).fill_(0)
    assert bits[3] == 0, "tensor() of a storage shares its memory, as PyTorch's does"


def test_files(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "numbers"
    file.write_bytes(bytes(range(20)))
    private = Storage.from_file(str(file), False, 10)
    private[0] = 77
    assert private.tolist() == [77, *range(1, 10)] and private.is_shared()
    assert file.read_bytes()[0] == 0 and private.filename is None
    shared = Storage.from_file(str(file), shared=True, nbytes=20)
    shared[0] = 55
    assert file.read_bytes()[0] == 55 and shared.filename == str(file)
    grown = Storage.from_file(str(tmp_path / "new"), shared=True, nbytes=6)
    assert grown.tolist() == [0] * 6 and (tmp_path / "new").stat().st_size == 6
    assert Storage.from_file(str(file)).tolist() == []
    assert torch.ByteStorage.from_file(str(file), False, 4).tolist() == [55, 1, 2, 3]
    with pytest.raises(RuntimeError, match="size <20> is smaller than the required mapping size"):
        Storage.from_file(str(file), False, 100)
    with pytest.raises(RuntimeError, match="unable to open file <.*> in read-only mode: No such"):
        Storage.from_file(str(tmp_path / "none"), False, 10)


# ------------------------------------------------------------------ conversions and raw bytes


def test_storages_of_another_dtype():
    numbers = torch.IntStorage([1, 0, 300])
    for name, values in (
        ("float", [1.0, 0.0, 300.0]),
        ("half", [1.0, 0.0, 300.0]),
        ("bfloat16", [1.0, 0.0, 300.0]),
        ("byte", [1, 0, 44]),
        ("bool", [True, False, True]),
        ("complex_float", [1 + 0j, 0j, 300 + 0j]),
    ):
        assert getattr(numbers, name)().tolist() == values
    assert numbers.float().type() == "torch.FloatStorage"
    assert numbers.int() is not numbers and numbers.untyped().int().size() == 12


def test_storages_from_bytes():
    data = bytearray([1, 2, 3, 4, 5, 6, 7, 8])
    made = torch.IntStorage.from_buffer
    assert torch.ByteStorage.from_buffer(data).tolist() == [*data]
    assert made(data, "little", 1).tolist() == [67305985]
    assert made(data, byte_order="big", count=1, offset=1).tolist() == [33752069]
    assert torch.ComplexFloatStorage.from_buffer(data, "big").tolist() == [
        2.387939260590663e-38 + 6.301941157072183e-36j
    ]
    found = made(data, "native", offset=4)
    data[4] = 0
    assert found.tolist() == [134678021]
    assert torch.UntypedStorage.from_buffer(data, "little", dtype=torch.int32).tolist() == [*data]
    for args, error in (
        ((data,), RuntimeError),
        ((data, "middle"), ValueError),
        ((data, "native", 3), ValueError),
        ((data, "native", -1, 3), ValueError),
        ((data, "native", -1, 9), ValueError),
        (("abc", "native"), TypeError),
    ):
        with pytest.raises(error):
            made(*args)


def test_bytes_turned_around():
    memory = torch.arange(8, dtype=torch.uint8).untyped_storage()
    other = copy.copy(memory)
    assert other.data_ptr() != memory.data_ptr()
    other.byteswap(torch.int16)
    assert other.tolist() == [1, 0, 3, 2, 5, 4, 7, 6]
    other.byteswap(torch.int16)
    other.byteswap(torch.complex64)
    assert other.tolist() == [3, 2, 1, 0, 7, 6, 5, 4]
    assert memory.tolist() == [*range(8)]
    with pytest.raises(RuntimeError, match="not a multiple of 2"):
        memory[:3].byteswap(torch.float16)
