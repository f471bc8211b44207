"""The printing module by itself, on the few attributes of a tensor that it reads.

The texts are PyTorch's. The rest of them is recorded in tests/golden/prog_printing.json.
"""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import numpy
import pytest

from tapegrad import dtypes
from tapegrad.api.tensor import printing


class Tensor:
    def __init__(self, values: Any, dtype: dtypes.dtype = dtypes.float32, **facts: Any) -> None:
        store = numpy.float32 if dtype is dtypes.bfloat16 else dtype.np
        self._array = numpy.asarray(values, store)
        self.shape = self._array.shape
        self.dtype = dtype
        self.requires_grad = facts.get("requires_grad", False)
        self.grad_fn = facts.get("grad_fn")
        self.device = SimpleNamespace(type=facts.get("device", "cpu"), index=facts.get("index"))

    def item(self) -> Any:
        return self._array.item()

    def __repr__(self) -> str:
        return printing.tensor_repr(self)

    def __format__(self, spec: str) -> str:
        return printing.format_item(self, spec)


class Parameter(Tensor):
    pass


class Weight(Parameter):
    pass


class Named(Tensor):
    pass


def node(name: str) -> SimpleNamespace:
    return SimpleNamespace(name=lambda: name)


@pytest.fixture(autouse=True)
def default_options():
    yield
    printing.set_printoptions(profile="default")


@pytest.mark.parametrize(
    "tensor, text",
    [
        (Tensor(1.0), "tensor(1.)"),
        (Tensor([1.0, 2.5]), "tensor([1.0000, 2.5000])"),
        (Tensor([1.0, 1001.0]), "tensor([1.0000e+00, 1.0010e+03])"),
        (Tensor([1.0, 1000.0]), "tensor([   1., 1000.])"),
        (Tensor([-1.5, -numpy.inf]), "tensor([-1.5000,    -inf])"),
        (Tensor([0.0, numpy.nan]), "tensor([0., nan])"),
        (Tensor([True, False], dtypes.bool_), "tensor([ True, False])"),
        (Tensor([0.1], dtypes.float16), "tensor([0.1000], dtype=torch.float16)"),
        (Tensor([1.0], dtypes.bfloat16), "tensor([1.], dtype=torch.bfloat16)"),
        (Tensor([2**64 - 1], dtypes.uint64), "tensor([18446744073709551615], dtype=torch.uint64)"),
        (
            Tensor([1 + 2j, -3.5 - 1e-6j], dtypes.complex64),
            "tensor([ 1.0000+2.0000e+00j, -3.5000-1.0000e-06j])",
        ),
        (Tensor(numpy.zeros((0, 3))), "tensor([], size=(0, 3))"),
        (Tensor([], dtypes.int64), "tensor([], dtype=torch.int64)"),
        (Tensor([1.0], requires_grad=True), "tensor([1.], requires_grad=True)"),
        (Tensor([1.0], device="cuda", index=0), "tensor([1.], device='cuda:0')"),
        (
            Tensor(numpy.zeros((0, 2)), dtypes.float64, device="cuda", index=1),
            "tensor([], device='cuda:1', size=(0, 2), dtype=torch.float64)",
        ),
        (Tensor([1.0], device="meta"), "tensor(..., device='meta', size=(1,))"),
        (
            Tensor([1.0], requires_grad=True, grad_fn=node("torch::autograd::CopySlices")),
            "tensor([1.], grad_fn=<CopySlices>)",
        ),
        (
            Parameter([1.0], requires_grad=True),
            "Parameter containing:\ntensor([1.], requires_grad=True)",
        ),
        (Weight([[1.0], [1.0]]), "Parameter containing:\nParameter(Weight([[1.],\n        [1.]]))"),
        (Named([[1.0], [1.0]]), "Named([[1.],\n       [1.]])"),
        (
            Tensor(numpy.arange(2000).reshape(2, 1000), dtypes.int64),
            "tensor([[   0,    1,    2,  ...,  997,  998,  999],\n"
            "        [1000, 1001, 1002,  ..., 1997, 1998, 1999]])",
        ),
    ],
    ids=str,
)
def test_repr(tensor, text):
    assert repr(tensor) == text


def test_a_grad_fn_that_cannot_be_made():
    class Broken(Tensor):
        @property
        def grad_fn(self):
            raise RuntimeError("modified by an inplace operation")

        @grad_fn.setter
        def grad_fn(self, value):
            pass

    assert repr(Broken([1.0])) == "Broken([1.], grad_fn=<Invalid>)"


def test_a_tangent_is_a_note():
    t = Tensor([1.0, 2.0])
    text = printing.tensor_repr(t, tangent=Tensor([3.0, 4.0]))
    assert text == "tensor([1., 2.], tangent=tensor([3., 4.]))"
    text = printing.tensor_repr(Tensor(3.0), tangent=Tensor(7.0))
    assert text == "tensor(3., tangent=7.0)"


def test_format():
    assert f"{Tensor(3.14159):.2f}" == "3.14"
    assert f"{Tensor([1.0])}" == "tensor([1.])"
    assert f"{Parameter(1.0)}" == "Parameter containing:\ntensor(1.)"
    with pytest.raises(TypeError, match="unsupported format string passed to Tensor.__format__"):
        format(Tensor([1.0]), ".2f")


def test_options():
    printing.set_printoptions(profile="short", precision=6, sci_mode=True)
    assert printing.get_printoptions() == {
        "precision": 6,
        "threshold": 1000,
        "edgeitems": 2,
        "linewidth": 80,
        "sci_mode": True,
    }
    with printing.printoptions(precision=1):
        assert repr(Tensor([1.25])) == "tensor([1.2])"
    assert repr(Tensor([1.25])) == "tensor([1.250000e+00])"


def test_an_error_in_the_block_restores_the_options():
    before = printing.get_printoptions()
    with pytest.raises(KeyError), printing.printoptions(precision=9):
        raise KeyError
    assert printing.get_printoptions() == before


def test_only_the_corners_are_read():
    # A broadcast view of 10**14 elements: anything that walks them would not come back.
    t = Tensor(1.0)
    t._array = numpy.broadcast_to(t._array, (10**7, 10**7))
    t.shape = t._array.shape
    start = time.perf_counter()
    assert repr(t).splitlines()[0] == "tensor([[1., 1., 1.,  ..., 1., 1., 1.],"
    assert time.perf_counter() - start < 1.0
