"""Every batching rule against a loop over the batch, on the kernels that the samples run."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from table import APIS, PURE, call, draw, leaf, plain, tensors_in, watched
from tapegrad import autograd
from tapegrad.core.base import wrap
from tapegrad.core.rule_functions import RAW

SIZE = 3
pytestmark = pytest.mark.filterwarnings("ignore")


def entries(x: Any) -> list[Any]:
    """The values of one argument for each entry of the batch: the same shape and dtype."""
    if x.dtype.kind not in "fc":
        return [x.copy() for _ in range(SIZE)]
    # Scaled a little: well-behaved inputs stay so.
    return [x, (x * 0.97).astype(x.dtype), (x * 1.02).astype(x.dtype)]


def ways(inputs: list[Any]) -> list[tuple[bool, ...]]:
    """Which arguments are batched: all of them, and each of the float ones alone."""
    arrays = [isinstance(x, np.ndarray) for x in inputs]
    found = [tuple(arrays)]
    if sum(arrays) > 1:
        for i, x in enumerate(inputs):
            if arrays[i] and x.dtype.kind in "fc":
                found.append(tuple(k == i for k in range(len(inputs))))
    return list(dict.fromkeys(found))


def run_kernel(op: Any, inputs: list[Any], attrs: Any) -> tuple[Any, ...]:
    out = op.kernel(inputs, *attrs) if op.variadic else op.kernel(*inputs, *attrs)
    return (out,) if op.single else tuple(out)


def check(run: Any) -> None:
    op = run.op
    for batched in ways(run.inputs):
        each = [entries(x) if b else [x] * SIZE for x, b in zip(run.inputs, batched, strict=True)]
        stacked = [np.stack(e) if b else e[0] for e, b in zip(each, batched, strict=True)]
        got = op.batch(RAW, SIZE, tuple(stacked), batched, run.attrs)
        got = (got,) if op.single else tuple(got)
        rows = [
            run_kernel(
                op, [x[k] if b else x for x, b in zip(stacked, batched, strict=True)], run.attrs
            )
            for k in range(SIZE)
        ]
        assert len(got) == len(rows[0])
        for i, out in enumerate(got):
            want = np.stack([row[i] for row in rows])
            assert np.shape(out) == want.shape, (op.name, batched, i)
            assert not want.size or np.asarray(out).dtype == want.dtype, (op.name, batched, i)
            np.testing.assert_allclose(
                out, want, rtol=1e-9, atol=1e-11, err_msg=f"{op.name}, {batched}, output {i}"
            )


@pytest.mark.parametrize("name", PURE)
def test_batching(name):
    for index in range(len(APIS[name].samples)):
        args, kwargs, _ = draw(name, index, plain)
        with watched() as runs:
            call(name, args, kwargs)
        for run in runs:
            arrays = [x for x in run.inputs if isinstance(x, np.ndarray)]
            if run.op.batch is not None and arrays:
                check(run)


@pytest.mark.parametrize("name", PURE)
def test_batching_of_gradients(name):
    """The same for the ops that only a backward pass, or the backward of one, runs."""
    index = 0
    args, kwargs, tensors = draw(name, index, leaf)
    leaves = [t for t in tensors if t.requires_grad]
    outs = [t for t in tensors_in(call(name, args, kwargs)) if t.requires_grad]
    if not leaves or not outs:
        return
    with watched() as runs:
        try:
            grads = gradients(outs, leaves)
            gradients([g for g in grads if g is not None and g.requires_grad], leaves)
        except (RuntimeError, NotImplementedError) as error:
            assert re.search("not implemented|ill-defined", str(error))
    seen = set()
    for run in runs:
        arrays = [x for x in run.inputs if isinstance(x, np.ndarray)]
        if run.op.batch is not None and arrays and run.op.name not in seen:
            seen.add(run.op.name)
            check(run)


def gradients(outs: list[Any], leaves: list[Any]) -> tuple[Any, ...]:
    if not outs:
        return ()
    seeds = [seed(t) for t in outs]
    return autograd.grad(outs, leaves, seeds, create_graph=True, allow_unused=True)


def seed(t: Any) -> Any:
    """A gradient that is neither zero nor the same everywhere."""
    values = np.linspace(0.5, 1.5, t._array.size).reshape(t._array.shape)
    return wrap(values.astype(t._array.dtype))
