"""In-place forms and `out=` in one step: the same as the general way, for every function."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest

import tapegrad
from table import APIS, PURE, call, draw, find
from tapegrad.autograd import inplace
from tapegrad.core.base import wrap
from tapegrad.ops.block import out_argument
from tapegrad.ops.index import subscripts

WRITING = [name for name in PURE if APIS[name].inplace and APIS[name].method]
WITH_OUT = [n for n in PURE if APIS[n].function and not n.startswith("nn.functional.")]
NARROW = {"float64": "float32", "complex128": "complex64"}
# How a target is made of the tensor that a function is called with.
TARGETS = {
    "a leaf that needs no gradient": lambda t: t,
    "a view": lambda t: tapegrad.stack([t, t])[1],
    "a transposed view": lambda t: t.detach().clone().mT if t.dim() > 1 else t,
    "a view of what needs a gradient": lambda t: (
        tapegrad.stack([t, t]).requires_grad_().mul(1)[0] if t.is_floating_point() else t
    ),
    "a leaf that needs a gradient": lambda t: t.requires_grad_() if t.is_floating_point() else t,
    "an inner node": lambda t: t.requires_grad_().mul(1) if t.is_floating_point() else t,
}


def told(t: Any) -> Any:
    """All that is observed of a tensor that was written."""
    cell = t._version_cell()
    cut = None if t._cut is None else t._cut.what
    writers = [(n, name, how) for n, name, _, _, how in cell.writers[-1:]]
    writers = [(n, name, how[:2] if how else how) for n, name, how in writers]
    node = None if t.grad_fn is None else t.grad_fn.name()
    values = t.detach()._array
    return values.tobytes(), values.dtype, values.strides, cell.n, cut, writers, node


def outcome(run: Any, *seen: Any) -> Any:
    """What a call gives or raises, and what is then observed of the tensors that it may change."""
    tapegrad.manual_seed(0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            run()
        except Exception as error:
            result: Any = type(error), str(error).partition("\n")[0]
        else:
            result = "done"
    return result, [str(w.message) for w in caught], [told(t) for t in seen]


def arguments(name: str, index: int, dtype: str, kind: str) -> Any:
    def make(array: Any) -> Any:
        wanted = NARROW.get(array.dtype.name, array.dtype) if dtype == "float32" else array.dtype
        return wrap(array.astype(wanted))

    args, kwargs, made = draw(name, index, make)
    if made and args[0] is made[0]:
        args[0] = TARGETS[kind](args[0])
    return args, kwargs


@pytest.mark.parametrize("name", WRITING)
def test_in_place_forms(name, monkeypatch):
    for index in range(len(APIS[name].samples)):
        for kind in TARGETS:
            for dtype in ("float32", "float64"):
                for records in (True, False):
                    found = []
                    for short in (True, False):
                        with monkeypatch.context() as patch, tapegrad.set_grad_enabled(records):
                            if not short:
                                patch.setattr(inplace, "write_plain", lambda *given: False)
                            args, kwargs = arguments(name, index, dtype, kind)
                            method = getattr(args[0], name + "_", None)
                            if method is None:
                                continue
                            base = args[0]._view_of.base if args[0]._view_of else args[0]
                            found.append(
                                outcome(lambda: method(*args[1:], **kwargs), args[0], base)  # noqa: B023
                            )
                    assert not found or found[0] == found[1], (index, kind, dtype, records)


@pytest.mark.parametrize("name", WITH_OUT)
def test_out(name, monkeypatch):
    for index in range(len(APIS[name].samples)):
        for dtype in ("float32", "float64"):
            args, kwargs = arguments(name, index, dtype, "a leaf that needs no gradient")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected = call(name, args, kwargs)
            if not isinstance(expected, tapegrad.Tensor) or "out" in kwargs:
                continue
            for shape in (expected.shape, (2, *expected.shape), (0,)):
                for needs in (False, True):
                    found = []
                    for short in (True, False):
                        with monkeypatch.context() as patch:
                            run = find(tapegrad, APIS[name])
                            if not short:
                                patch.setattr(out_argument, "is_plain", lambda *given: False)
                                run = getattr(run, "general", run)
                            args, kwargs = arguments(
                                name, index, dtype, "a leaf that needs no gradient"
                            )
                            out = tapegrad.full(tuple(shape), 7).to(expected.dtype)
                            if needs and args and isinstance(args[0], tapegrad.Tensor):
                                args[0] = TARGETS["a leaf that needs a gradient"](args[0])
                            found.append(
                                outcome(lambda: run(*args, **kwargs, out=out), out)  # noqa: B023
                            )
                    assert found[0] == found[1], (index, dtype, shape, needs)


WRITTEN_AT = {
    "plain": lambda: tapegrad.arange(12.0).view(3, 4).clone(),
    "a view": lambda: tapegrad.arange(24.0, dtype=tapegrad.float64).view(3, 8)[:, ::2],
    "transposed": lambda: tapegrad.arange(12.0).view(4, 3).clone().T,
    "whole numbers": lambda: tapegrad.arange(12).view(3, 4).clone(),
    "expanded": lambda: tapegrad.zeros(3, 1).expand(3, 4),
    "a leaf that needs a gradient": lambda: tapegrad.zeros(3, 4, requires_grad=True),
    "a view of what needs a gradient": lambda: (tapegrad.zeros(6, 4, requires_grad=True) * 1)[:3],
    "empty": lambda: tapegrad.zeros(0, 4),
}
PLACES = [
    *(0, -1, 5, slice(1, None), slice(None, None, 2), (slice(None), 0), (0, 0, 0), (), None, True),
    *[tapegrad.tensor(i) for i in ([0, 2], [2, 0, 0], [5], [-1], [[0, 1], [1, 0]], 1)],
    (tapegrad.tensor([0, 2]), tapegrad.tensor([[1], [2]])),
    (slice(None), tapegrad.tensor([0, 1])),
    tapegrad.arange(12).view(3, 4) % 2 == 0,
    tapegrad.tensor([True, False, True]),
    tapegrad.zeros(0, dtype=tapegrad.int64),
]


def put_values():
    sizes = ((), (1,), (4,), (2, 4), (1, 1, 4), (3, 4), (7,), (0, 4))
    tensors = [tapegrad.rand(size) for size in sizes]
    return [1.5, 3, True, 2**70, 1j, *tensors, tensors[1].double(), tensors[2].requires_grad_()]


@pytest.mark.parametrize("target", WRITTEN_AT)
def test_writes_at_subscripts(target, monkeypatch):
    for index, value in itertools.product(PLACES, put_values()):
        found = []
        for short in (True, False):
            with monkeypatch.context() as patch:
                if not short:
                    patch.setattr(subscripts, "quick_put", lambda *given: False)
                x = WRITTEN_AT[target]()
                base = x if x._base is None else x._base
                result = outcome(lambda: x.__setitem__(index, value), x, base)  # noqa: B023
                seen = [(told[0], told[3], told[6]) for told in result[2]]
                found.append((result[:2], seen))
        assert found[0] == found[1], (index, value)


def test_what_shares_memory_goes_the_general_way():
    base = tapegrad.arange(8.0)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        base[1:].add_(base[:-1])
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        tapegrad.add(base[1:], base[:-1], out=base[1:].detach()[:7])
    wide = tapegrad.zeros(1).expand(4)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        wide.copy_(tapegrad.ones(4))
    x = tapegrad.arange(4.0)
    assert tapegrad.add(x, x, out=x) is x
    np.testing.assert_array_equal(x, [0, 2, 4, 6])
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        tapegrad.zeros(3).copy_(tapegrad.ones(1, 3))
