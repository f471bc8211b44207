"""Writes at indices: a refused one writes nothing, and none costs the whole tensor."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as torch
from tapegrad.core.op import REGISTRY

FAR = torch.tensor([0, 9])
BOTH = torch.tensor([[0, 1, 0], [1, 9, 0]])
ONES = torch.ones(2, 3)
REFUSED = {
    "rows": lambda x: x.__setitem__(FAR, ONES),
    "columns": lambda x: x.__setitem__((slice(None), FAR), torch.ones(4, 2)),
    "elements": lambda x: x.__setitem__((FAR, FAR), 1.0),
    "values that do not fit": lambda x: x.__setitem__(torch.tensor([0, 1]), torch.ones(2)),
    "added": lambda x: x.index_put_((FAR,), ONES, accumulate=True),
    "added elements": lambda x: x.index_put_((FAR, FAR), ONES[:, 0], accumulate=True),
    "added that do not fit": lambda x: x.index_put_((FAR - 9,), torch.ones(3, 3), accumulate=True),
    "added to a transpose": lambda x: x.t().index_put_((FAR,), torch.ones(2, 4), accumulate=True),
    "index_add_": lambda x: x.index_add_(0, FAR, ONES),
    "index_copy_": lambda x: x.index_copy_(0, FAR, ONES),
    "index_fill_": lambda x: x.index_fill_(0, FAR, 1.0),
    "scatter_": lambda x: x.scatter_(1, BOTH, ONES),
    "scatter_ a number": lambda x: x.scatter_(1, BOTH, 1.0),
    "scatter_add_": lambda x: x.scatter_add_(1, BOTH, ONES),
    "scatter_reduce_": lambda x: x.scatter_reduce_(1, BOTH, ONES, "mean"),
    "put_": lambda x: x.put_(torch.tensor([0, 99]), torch.ones(2)),
    "masked_scatter_": lambda x: x.masked_scatter_(x > 2, torch.ones(2)),
    "masked_fill_": lambda x: x.masked_fill_(torch.ones(2, 4, 3, dtype=torch.bool), 0),
}


@pytest.mark.parametrize("write", REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_a_refused_write_changes_nothing(write, dtype):
    if dtype is torch.float32:
        x = torch.arange(12.0).reshape(4, 3)
        with pytest.raises((RuntimeError, IndexError)):
            write(x)
    else:  # the values are of another dtype, which is refused too where it matters
        x = torch.arange(12).reshape(4, 3)
        try:
            write(x)
        except (RuntimeError, IndexError):
            pass
        else:
            pytest.fail("it was not refused")
    np.testing.assert_array_equal(x.numpy(), np.arange(12.0).reshape(4, 3))
    assert x._version == 0


AT = torch.tensor([3, 0])
ELSEWHERE = torch.tensor([[1, 0, 1], [3, 1, 2]])
WRITES = {
    "index_put": lambda x: x.__setitem__(AT, ONES.to(x.dtype)),
    "index_add": lambda x: x.index_add_(0, AT, ONES.to(x.dtype), alpha=2),
    "index_copy": lambda x: x.index_copy_(0, AT, ONES.to(x.dtype)),
    "index_fill_value": lambda x: x.index_fill_(0, AT, 1),
    "scatter_src": lambda x: x.scatter_(0, ELSEWHERE, ONES.to(x.dtype)),
    "scatter_value": lambda x: x.scatter_(0, ELSEWHERE, 1),
    "scatter_add": lambda x: x.scatter_add_(0, ELSEWHERE, ONES.to(x.dtype)),
    "scatter_reduce": lambda x: x.scatter_reduce_(0, ELSEWHERE, ONES.to(x.dtype), "mean"),
    "index_reduce": lambda x: x.index_reduce_(0, AT, ONES.to(x.dtype), "prod"),
    "put": lambda x: x.put_(torch.tensor([1, -1]), ONES[0, :2].to(x.dtype)),
    "masked_fill": lambda x: x.masked_fill_(x == 0, 1),
    "masked_scatter": lambda x: x.masked_scatter_(x == 0, ONES.to(x.dtype)),
}


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.complex64])
@pytest.mark.parametrize("layout", ["rows", "columns", "steps"])
def test_a_write_makes_no_copy_and_gives_what_the_op_gives(name, dtype, layout, monkeypatch):
    start = torch.arange(12).reshape(4, 3).to(dtype)
    room = {"rows": (4, 3), "columns": (3, 4), "steps": (8, 6)}[layout]
    x = torch.zeros(room, dtype=dtype)
    x = x.t() if layout == "columns" else x[::2, ::2] if layout == "steps" else x
    x.copy_(start)
    expected = start.clone()
    with monkeypatch.context() as patch:
        patch.setattr(REGISTRY[name], "into", None)  # by way of a copy
        WRITES[name](expected)
    with monkeypatch.context() as patch:
        patch.setattr(REGISTRY[name], "kernel", None)  # which works on a copy
        WRITES[name](x)
    np.testing.assert_array_equal(x.resolve_conj()._array, expected._array)
    assert x._version == expected._version + 1 == 2


def test_all_ops_that_write_where_the_values_lie_are_tested():
    assert {op.name for op in REGISTRY.values() if op.into is not None} - {
        "copy",
        "index_fill_tensor",
        "masked_fill_tensor",
        "scatter_old",
    } == WRITES.keys()
