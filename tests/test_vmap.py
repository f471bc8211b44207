"""vmap of every public function, over every argument and dimension, against a loop and a stack."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tapegrad as torch
from table import APIS, SAMPLED, call, draw, tensors_in
from tapegrad.core.base import wrap
from tapegrad.func import grad, jvp, loop_over, vmap

SIZE = 3
pytestmark = pytest.mark.filterwarnings("ignore")

DYNAMIC = "vmap: We do not support batching operators that can output dynamic shape."
NO_RULE = "Batching rule not implemented for aten::"
NO_STORAGE = "Cannot access data pointer of Tensor that doesn't have storage"
SAME = "Vmap does not currently support same randomness with a batched tensor input."
NARROW = "vmap: {}(self, *extra_args) is not possible because there exists a Tensor `other`"

# What cannot be batched, or not over every argument, and how it says so.
REFUSED = {
    **dict.fromkeys("argwhere bincount nonzero repeat_interleave".split(), DYNAMIC),
    **dict.fromkeys("unique unique_consecutive".split(), DYNAMIC),
    **dict.fromkeys("equal histc histogram histogramdd".split(), NO_RULE),
    **dict.fromkeys("gru lstm rnn_tanh".split(), NO_STORAGE),  # how long sequences are
    **dict.fromkeys("_sample_dirichlet _standard_gamma bernoulli".split(), SAME),
    **dict.fromkeys("multinomial nn.functional.rrelu poisson rrelu".split(), SAME),
    "allclose": "vmap over torch.allclose isn't supported yet.",
    "embedding_renorm_": NARROW.format("aten::embedding_renorm_"),
    "index_put": "vmap: We do not support batching operators that can support dynamic shape.",
    "index_put_": NARROW.format("index_put_"),
    "is_nonzero": "vmap: It looks like you're attempting to use a Tensor in some data-dependent",
    "masked_select": "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask)",
    "nn.functional.one_hot": "When vmap-ing torch.nn.functional.one_hot, please provide an",
}
# These speak of memory: what they give, or whether, depends on where a batch has its dimension.
BY_MEMORY = {"as_strided", "as_strided_copy", "as_strided_scatter", "view_as_complex"}


def entries(x: Any) -> Any:
    """A batch of values for one argument, of its shape and dtype: scaled a little."""
    if x.dtype.kind not in "fc":
        return np.stack([x] * SIZE)
    return np.stack([x, (x * 0.97).astype(x.dtype), (x * 1.02).astype(x.dtype)])


def ways(count: int) -> list[tuple[bool, ...]]:
    """Which arguments are batched: all together, and each alone."""
    alone = [tuple(k == i for k in range(count)) for i in range(count)]
    return list(dict.fromkeys([(True,) * count, *alone]))


class Sample:
    """One call of a public function as a function of its tensors."""

    def __init__(self, name: str, index: int) -> None:
        self.name, self.index = name, index
        self.arrays: list[Any] = []
        draw(name, index, self.note)
        self.batches = [entries(x) for x in self.arrays]

    def note(self, array: Any) -> Any:
        self.arrays.append(np.asarray(array))
        return wrap(self.arrays[-1])

    def __call__(self, *tensors: Any) -> tuple[Any, ...]:
        given = list(tensors)
        args, kwargs, _ = draw(self.name, self.index, lambda array: given.pop(0))
        return tuple(tensors_in(call(self.name, args, kwargs)))

    def entry(self, way: tuple[bool, ...], k: int) -> list[Any]:
        pairs = zip(self.batches, self.arrays, way, strict=True)
        return [wrap(np.array(whole[k] if b else x)) for whole, x, b in pairs]

    def whole(self, way: tuple[bool, ...], dim: int = 0) -> list[Any]:
        pairs = zip(self.batches, self.arrays, way, strict=True)
        return [wrap(np.array(np.moveaxis(whole, 0, dim) if b else x)) for whole, x, b in pairs]


def same(got: Any, rows: list[Any], label: Any) -> None:
    """A batch of results, the batch in front, against one list of results per entry."""
    assert len(got) == len(rows[0]), label
    for i, out in enumerate(got):
        want = np.stack([np.asarray(row[i]._array) for row in rows])
        assert out.shape == want.shape, (label, i)
        assert out.dtype == want.dtype, (label, i)
        np.testing.assert_allclose(out, want, rtol=1e-10, atol=1e-12, err_msg=f"{label} {i}")


def check(sample: Sample) -> bool:
    """Every way and dimension; whether something was refused."""
    refused = False
    for way in ways(len(sample.arrays)):
        rows = [sample(*sample.entry(way, k)) for k in range(SIZE)]
        for dim in (0,) if sample.name in BY_MEMORY else (0, -1):
            label = (sample.name, sample.index, way, dim)
            mapped = vmap(
                sample,
                in_dims=tuple(dim if b else None for b in way),
                out_dims=dim,
                randomness="same",
            )
            try:
                outs = mapped(*sample.whole(way, dim))
            except RuntimeError as error:
                assert str(error).startswith(REFUSED.get(sample.name, "no")), (label, error)
                refused = True
            else:
                same([np.moveaxis(out._array, dim, 0) for out in outs], rows, label)
    return refused


def samples_of(name: str, start: int, stop: int | None) -> list[Sample]:
    found = [Sample(name, i) for i in range(len(APIS[name].samples))][start:stop]
    return [sample for sample in found if sample.arrays]


@pytest.mark.parametrize("name", SAMPLED)
def test_function(name):
    refused = [check(sample) for sample in samples_of(name, 0, 2)]
    late = name in ("index_put", "repeat_interleave", "gru", "lstm", "rnn_tanh")
    assert any(refused) == (name in REFUSED) or late


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in SAMPLED if len(APIS[n].samples) > 2])
def test_function_other_samples(name):
    refused = [check(sample) for sample in samples_of(name, 2, None)]
    late = name in ("index_put", "repeat_interleave", "gru", "lstm", "rnn_tanh")
    assert any(refused) or not late


# ---------------------------------------------------------------------- with derivatives


def floats_of(sample: Sample) -> tuple[int, ...]:
    return tuple(i for i, x in enumerate(sample.arrays) if x.dtype.kind in "fc")


def weights(shape: Any) -> Any:
    count = int(np.prod(shape, dtype=np.int64))
    return wrap(np.cos(np.arange(1.0, count + 1)).reshape(shape))


def total(outs: tuple[Any, ...]) -> Any:
    """One number that depends on all floating outputs."""
    found = torch.zeros((), dtype=torch.float64)
    for out in outs:
        if out.is_complex():
            out = out.real + 0.5 * out.imag
        if out.is_floating_point():
            found = found + (out * weights(out.shape)).sum()
    return found


def all_or_none(mapped: Any, rows: Any) -> Any:
    """What a loop gives, and a batch; None where the loop already refuses."""
    try:
        expected = [list(row()) for row in rows]
    except (RuntimeError, NotImplementedError):
        with pytest.raises((RuntimeError, NotImplementedError)):
            mapped()
        return None
    return [np.asarray(out._array) for out in mapped()], expected


MAPPED = [n for n in SAMPLED if n not in REFUSED and samples_of(n, 0, 1)]


def check_derivative(name: str, derivative: Any) -> None:
    """A derivative of the first sample, for a batch and in a loop."""
    (sample,) = samples_of(name, 0, 1)
    if not floats_of(sample):
        return
    way = (True,) * len(sample.arrays)
    f = derivative(sample)
    found = all_or_none(
        lambda: vmap(f, randomness="same")(*sample.whole(way)),
        [lambda k=k: f(*sample.entry(way, k)) for k in range(SIZE)],
    )
    if found is not None:
        same(*found, name)


def gradient_of(sample: Sample) -> Any:
    return grad(lambda *tensors: total(sample(*tensors)), argnums=floats_of(sample))


def tangent_of(sample: Sample) -> Any:
    numbers = floats_of(sample)

    def push(*tensors: Any) -> tuple[Any, ...]:
        def moved(*some: Any) -> tuple[Any, ...]:
            given = list(tensors)
            for i, t in zip(numbers, some, strict=True):
                given[i] = t
            return tuple(t for t in sample(*given) if t.is_floating_point() or t.is_complex())

        primals = tuple(tensors[i] for i in numbers)
        steps = tuple(weights(t.shape).to(t.dtype) for t in primals)
        value, tangent = jvp(moved, primals, steps)
        return (*value, *tangent)

    return push


@pytest.mark.parametrize("name", MAPPED)
def test_gradient(name):
    check_derivative(name, gradient_of)


@pytest.mark.parametrize("name", MAPPED)
def test_tangent(name):
    check_derivative(name, tangent_of)


@pytest.mark.parametrize("name", MAPPED)
def test_nested(name):
    (sample,) = samples_of(name, 0, 1)
    way = (True,) * len(sample.arrays)
    twice = [wrap(np.stack([x._array] * 2, axis=1)) for x in sample.whole(way)]
    inner = vmap(sample, in_dims=0, out_dims=0, randomness="same")
    outs = vmap(inner, in_dims=0, out_dims=-1, randomness="same")(*twice)
    rows = [sample(*sample.entry(way, k)) for k in range(SIZE)]
    for j in range(2):
        picked = [np.moveaxis(out._array, -1, 0)[:, j] for out in outs]
        same(picked, rows, (name, "nested"))


# ---------------------------------------------------------------------- loop_over

ROWS = [[3, 1, 1, 4], [2, 1, 1, 5]]


def rows() -> Any:
    return torch.tensor(ROWS)


def test_refusal_has_line_and_ways_out():
    with pytest.raises(RuntimeError) as caught:
        vmap(lambda a: a.unique())(rows())
    found = caught.value.diagnosis
    assert found["id"] == "E15"
    assert found["op"] == "unique"
    assert "a.unique()" in found["noticed"]["text"]
    assert 'torch.func.loop_over("unique")' in found["fixes"][-1]


@pytest.mark.parametrize(
    "name, function, want",
    [
        ("unique", lambda a: a.unique(), [[1, 3, 4], [1, 2, 5]]),
        ("unique", lambda a: torch.unique(a, return_counts=True)[1], [[1 + 1, 1, 1]] * 2),
        ("nonzero", lambda a: (a - 1).nonzero(), [[[0], [3]]] * 2),
        ("where", lambda a: torch.where(a > 1)[0], [[0, 3]] * 2),
        ("masked_select", lambda a: a.masked_select(a > 1), [[3, 4], [2, 5]]),
        ("index", lambda a: a[a > 1], [[3, 4], [2, 5]]),
        ("bincount", lambda a: a.bincount(minlength=6)[:3], [[0, 2, 0], [0, 2, 1]]),
        ("nn.functional.one_hot", lambda a: torch.nn.functional.one_hot(a[:1] * 0), [[[1]]] * 2),
        ("torch.histc", lambda a: a.double().histc(2, 1, 5), [[2.0, 2.0], [3.0, 1.0]]),
    ],
)
def test_loop_over(name, function, want):
    with loop_over(name):
        found = vmap(function)(rows())
    assert found.tolist() == want
    with pytest.raises(RuntimeError):
        vmap(function)(rows())


def test_loop_over_writes():
    def put(a):
        a = a.clone()
        a[a > 1] = 0
        return a

    with loop_over("index_put"):
        assert vmap(put)(rows()).tolist() == [[0, 1, 1, 0]] * 2


def test_loop_over_with_derivatives_and_nesting():
    def f(a):
        return (a[a > 1] ** 2).sum()

    x = rows().double()
    with loop_over("index"):
        assert vmap(grad(f))(x).tolist() == [[6, 0, 0, 8], [4, 0, 0, 10]]
        assert vmap(vmap(f))(torch.stack([x, x])).tolist() == [[25, 29]] * 2


def test_loop_over_warns_once_per_line():
    def f(a):
        return a.unique_consecutive()

    with warnings.catch_warnings(record=True) as caught, loop_over("unique_consecutive"):
        warnings.simplefilter("always")
        for _ in range(3):
            vmap(f)(rows())
        vmap(lambda a: a.unique_consecutive())(rows())
    assert [w.category for w in caught] == [UserWarning, UserWarning]
    assert "unique_consecutive() has no batching rule" in str(caught[0].message)
    assert "return a.unique_consecutive()" in str(caught[0].message)
    assert caught[0].filename == __file__


def test_loop_over_needs_one_shape():
    with loop_over("nonzero"), pytest.raises(RuntimeError) as caught:
        vmap(torch.nonzero)(torch.tensor([[0, 1], [1, 1]]))
    first, *facts = str(caught.value).splitlines()
    assert first == (
        "stack expects each tensor to be equal size, but got [1, 1] at entry 0 and [2, 1] at "
        "entry 1"
    )
    assert any("nonzero()" in line for line in facts)
    assert any("test_vmap.py" in line for line in facts)


def test_loop_over_knows_its_names():
    with pytest.raises(ValueError, match="there is no function 'uniqe'. Did you mean 'unique'"):
        loop_over("uniqe")
    with pytest.raises(ValueError, match="'item' gives no tensor"):
        loop_over("item")
    with pytest.raises(TypeError, match="names must be str, not int"):
        loop_over(3)


def test_batched_tensor_outside_its_level():
    kept = []
    vmap(lambda a: kept.append(a) or a)(torch.ones(2, 3))
    with pytest.raises(RuntimeError, match="your tensor may have escaped"):
        kept[0] + 1
    assert repr(kept[0]).startswith("BatchedTensor(lvl=1, bdim=0, value=")
