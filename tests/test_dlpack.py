"""DLPack and NumPy's protocols, out and in; with PyTorch itself in parity/test_dlpack.py."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tapegrad as torch
from tapegrad.ops.creation.arrays import Warned
from tapegrad.testing import assert_close
from tapegrad.utils.dlpack import DLDeviceType, from_dlpack, to_dlpack

DTYPES = "float16 float32 float64 complex64 complex128 int8 int16 int32 int64 uint8 uint16 bool"


def kind(capsule: Any) -> str:
    return repr(capsule).split(" at ")[0]


@pytest.mark.parametrize("name", DTYPES.split())
def test_numpy_both_ways(name: str) -> None:
    tensor = torch.ones(2, 3, dtype=getattr(torch, name))
    array = np.from_dlpack(tensor)
    assert array.dtype == name and array.shape == (2, 3)
    tensor[0, 0] = 0
    assert array[0, 0] == 0
    back = torch.from_dlpack(array.T)
    assert back.dtype == tensor.dtype and back.stride() == (1, 3)
    back[1, 0] = 0
    assert array[0, 1] == 0


def test_arguments_of_the_protocol() -> None:
    t = torch.arange(3.0)
    assert t.__dlpack_device__() == (DLDeviceType.kDLCPU, 0)
    assert kind(t.__dlpack__()) == '<capsule object "dltensor"'
    assert kind(t.__dlpack__(max_version=(0, 8))) == '<capsule object "dltensor"'
    assert kind(t.__dlpack__(max_version=(1, 0))) == '<capsule object "dltensor_versioned"'
    assert kind(t.__dlpack__(stream=-1, dl_device=(1, 0), copy=False))
    with pytest.raises(AssertionError, match="stream should be None on cpu."):
        t.__dlpack__(stream=1)
    with pytest.raises(ValueError, match=r"cannot move \(i.e. copy=False\) tensor from cpu to"):
        t.__dlpack__(dl_device=(2, 0), copy=False)
    copied = torch.from_dlpack(t.__dlpack__(copy=True))
    copied[0] = 9
    assert t[0] == 0


def test_what_cannot_go_out() -> None:
    refused = {
        "tensors that require gradient": torch.ones(2, requires_grad=True),
        "tensors with the conjugate bit set": torch.tensor([1j]).conj(),
        "layout other than torch.strided": torch.eye(2).to_sparse(),
        "Cannot pack tensors on meta": torch.empty(2, device="meta"),
    }
    for message, tensor in refused.items():
        with pytest.raises(BufferError, match=message):
            tensor.__dlpack__()
    with pytest.raises(ValueError, match="Unknown device type meta for Dlpack"):
        torch.empty(2, device="meta").__dlpack_device__()


def test_bfloat16() -> None:
    t = torch.tensor([1.5, -2.0], dtype=torch.bfloat16)
    for capsule in (t.__dlpack__(), t.__dlpack__(max_version=(1, 0)), to_dlpack(t)):
        back = from_dlpack(capsule)
        assert back.dtype is torch.bfloat16 and back.tolist() == [1.5, -2.0]
    back[0] = 3
    assert t[0] == 3
    with pytest.raises((RuntimeError, BufferError)):  # NumPy has no such dtype
        np.from_dlpack(t)


def test_a_capsule_is_used_once() -> None:
    capsule = torch.ones(1).__dlpack__()
    torch.from_dlpack(capsule)
    with pytest.raises(RuntimeError, match="capsules can be consumed only once"):
        torch.from_dlpack(capsule)


def test_read_only_stays_read_only() -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    tensor = torch.from_dlpack(array)
    with pytest.raises(ValueError, match="read-only"):
        tensor[0] = 1
    assert not np.from_dlpack(tensor).flags.writeable
    with pytest.raises(BufferError):  # the protocol before versions cannot say so
        tensor.__dlpack__()
    assert_close(torch.from_dlpack(array, copy=True) + 1, torch.tensor([1.0, 2.0, 3.0]).double())
    with pytest.raises(BufferError, match="DLPack only supports native byte order"):
        torch.from_dlpack(np.arange(3, dtype=">i4"))


def test_an_array_of_an_older_library() -> None:
    class Older:
        def __dlpack__(self, stream: Any = None) -> Any:
            return np.arange(3.0).__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    assert torch.from_dlpack(Older()).tolist() == [0.0, 1.0, 2.0]
    assert torch.asarray(Older()).tolist() == [0.0, 1.0, 2.0]


def test_arrays_and_tensors_in_one_expression() -> None:
    t, n = torch.tensor([1.0, 2.0]), np.array([1.0, 3.0])
    assert not hasattr(t, "__array_ufunc__") and not hasattr(t, "__array_function__")
    for equal in (t == n, n == t):
        assert isinstance(equal, torch.Tensor) and equal.tolist() == [True, False]
    with pytest.raises(RuntimeError, match="The size of tensor a"):
        t == np.ones(3)
    with pytest.raises(TypeError):
        t < n
    quotient = n / t
    assert quotient.dtype is torch.float64 and quotient.tolist() == [1.0, 1.5]
    assert (t + n).dtype is torch.float64
    assert np.isnan(t).dtype is torch.uint8, "as PyTorch's __array_wrap__"


def test_a_warning_about_read_only_arrays_once() -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Warned.said.clear()
        torch.from_numpy(array)
        torch.from_numpy(array)
    assert len(caught) == 1 and "is not writable" in str(caught[0].message)
