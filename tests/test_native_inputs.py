"""Arrays that lie oddly, for every family of kernels: the same values as the forward on NumPy.

Nothing here may end the process: not misaligned memory, foreign byte order, overlapping or
read-only arrays, sizes of zero or sizes that are huge, nor indices that are out of range.
"""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tg
from fuzz.layouts import LAYOUTS
from tapegrad.kernels import cpu

if cpu.KERNELS is None:
    pytest.skip(f"no kernels in C: {cpu.REASON}", allow_module_level=True)

import tapegrad.ops.index.advanced
import tapegrad.ops.index.along_dim
import tapegrad.ops.index.gather
import tapegrad.ops.nn.attention
import tapegrad.ops.nn.avg_pool
import tapegrad.ops.nn.conv
import tapegrad.ops.nn.embedding
import tapegrad.ops.nn.layer_norm
import tapegrad.ops.nn.max_pool
import tapegrad.ops.nn.recurrent
import tapegrad.ops.products.addmm
import tapegrad.ops.reduce.scans
import tapegrad.ops.reduce.softmax
import tapegrad.ops.reduce.sorting
import tapegrad.ops.reduce.sums
import tapegrad.ops.reduce.variance
from tapegrad.core.op import REGISTRY
from tapegrad.kernels.backend import NUMPY

ATTENTION = "scaled_dot_product_flash_attention_for_cpu"


def floats(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def places(most, *shape):
    return np.random.default_rng(most).integers(0, most, shape)


def calls():
    """Each op with arguments that its kernel in C takes when they lie as they should."""
    x, conv = floats(6, 40), ((1, 1), (1, 1), (1, 1), False, (0, 0), 1)
    heads = floats(2, 2, 20, 8)
    return {
        "sum": (floats(80, 64), (0,), False, None),
        "sum_all": (floats(5, 9), None),
        "mean": (floats(80, 64), (1,), False, None),
        "var": (floats(80, 64), (1,), 1, False),
        "cumsum": (x, 0, None),
        "softmax": (x, 1),
        "log_softmax_backward_data": (x, floats(6, 40), 1),
        "logsumexp": (x, (1,), False),
        "native_layer_norm": (x, floats(40), floats(40), 1, 1e-5),
        "mm": (x, floats(40, 7)),
        "bmm": (floats(3, 4, 5), floats(3, 5, 6)),
        "addmm": (floats(7), x, floats(40, 7), 1, 1),
        "sort": (x, 1, False),
        "topk": (x, 3, 1, True),
        "gather": (x, places(6, 4, 40), 0),
        "index_select": (x, places(6, 9), 0),
        "scatter_add": (x, places(6, 4, 40), floats(4, 40), 0),
        "scatter_src": (x, places(6, 1, 40), floats(1, 40), 0),
        "index_add": (x, places(6, 9), floats(9, 40), 0, 1),
        "embedding": (x, places(6, 3, 5), -1, False, 6, False),
        "convolution": (floats(2, 3, 9, 9), floats(4, 3, 3, 3), floats(4), *conv),
        ATTENTION: (heads, heads + 1, heads - 1, None, 0.3, False),
        "lstm_layer": (
            *(floats(8, 12), floats(4, 3), floats(4, 3) + 1, floats(12, 3)),
            *(None, (4, 4), False),
        ),
        "gru_layer": (floats(8, 9), floats(4, 3), floats(9, 3), floats(9), (4, 4), True),
        "rnn_layer": (floats(8, 3), floats(4, 3), floats(3, 3), False, (4, 4), False),
    }


CALLS = calls()


def outcome(kernel, args):
    """The values of all results, or which error there is."""
    with np.errstate(all="ignore"):
        try:
            found = kernel(*args)
        except (IndexError, TypeError, ValueError, RuntimeError, NotImplementedError) as error:
            return type(error)
    return [np.asarray(a) for a in (found if isinstance(found, tuple) else (found,))]


def agree(name, args):
    op = REGISTRY[name]
    assert op.kernel is not NUMPY.kernel(op), name
    before = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    found, wanted = outcome(op.kernel, args), outcome(NUMPY.kernel(op), args)
    if isinstance(wanted, type):
        assert found is wanted
        return
    assert not isinstance(found, type), found
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)
    for a, b in zip(args, before, strict=True):
        if isinstance(a, np.ndarray):
            np.testing.assert_array_equal(a, b)  # nobody writes into what is given


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", CALLS)
def test_layouts(name, layout):
    """Each array in turn, and then all of them; indices stay in range whatever is done to them."""
    args = CALLS[name]
    arrays = [i for i, a in enumerate(args) if isinstance(a, np.ndarray)]
    for chosen in ([i] for i in arrays):
        agree(name, [layout(a) if i in chosen else a for i, a in enumerate(args)])
    agree(name, [layout(a) if i in arrays else a for i, a in enumerate(args)])


@pytest.mark.parametrize("name", CALLS)
def test_nothing_at_all(name):
    """No rows, and no columns, in the first array: an answer or an error, the same as NumPy's."""
    first, *rest = CALLS[name]
    if name.endswith("_layer"):
        pytest.skip("rows and sizes belong together")
    for empty in (first[:0], first[..., :0]):
        op = REGISTRY[name]
        found = outcome(op.kernel, [empty, *rest])
        wanted = outcome(NUMPY.kernel(op), [empty, *rest])
        if isinstance(wanted, type):
            assert found is wanted
        else:
            for a, b in zip(found, wanted, strict=True):
                assert a.shape == b.shape
                assert a.dtype == b.dtype
                np.testing.assert_array_equal(a, b)


WRONG = (6, -7, 1 << 40, -(1 << 62), np.iinfo(np.int64).min)


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", ("gather", "index_select", "scatter_add", "scatter_src"))
def test_kernels_with_indices_out_of_range(name, wrong):
    args = list(CALLS[name])
    args[1] = args[1].copy()
    args[1].flat[-1] = wrong
    agree(name, args)


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize(
    "function", ("index_select", "gather", "scatter_add_", "index", "embedding", "index_add_")
)
def test_tensors_with_indices_out_of_range(function, wrong):
    """Refused before anything is written."""
    x, rows = tg.randn(6, 60), tg.tensor([0, 3, wrong])
    before, wide = x.clone(), rows[:, None].expand(3, 60)
    with pytest.raises((IndexError, RuntimeError)):
        if function == "index_select":
            x.index_select(0, rows)
        elif function == "gather":
            x.gather(0, wide)
        elif function == "scatter_add_":
            x.scatter_add_(0, wide, tg.ones(3, 60))
        elif function == "index":
            x[rows]
        elif function == "embedding":
            tg.nn.functional.embedding(rows, x)
        else:
            x.index_add_(0, rows, tg.ones(3, 60))
    assert tg.equal(x, before)


def test_huge_sizes():
    """Of arrays without memory: of size zero, or one element that is repeated."""
    nothing = np.empty((1 << 20, 0), np.float32)
    for name, args in (("sum", ((1,), False, None)), ("mean", ((1,), False, None))):
        shapes = [o.shape for o in outcome(REGISTRY[name].kernel, (nothing[:9], *args))]
        assert shapes == [(9,)]
    assert outcome(REGISTRY["softmax"].kernel, (nothing, 1))[0].shape == nothing.shape
    assert outcome(REGISTRY["sort"].kernel, (nothing, 1, False))[0].shape == nothing.shape
    tall = np.empty((0, 1 << 40), np.float32)
    assert outcome(REGISTRY["mm"].kernel, (tall.T[:0], tall))[0].shape == (0, 1 << 40)
    assert outcome(REGISTRY["sum"].kernel, (tall[:, :3], (0,), False, None))[0].tolist() == [0] * 3


@pytest.mark.parametrize("seed", range(30))
def test_random_layouts_together(seed):
    """All arguments of a random op, each changed in some way."""
    rng = np.random.default_rng(seed)
    for name in rng.permutation(list(CALLS)):
        args = []
        for a in CALLS[name]:
            if isinstance(a, np.ndarray):
                for layout in rng.permutation(np.array(LAYOUTS, object))[: rng.integers(3)]:
                    a = layout(a)
            args.append(a)
        agree(name, args)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_labels_that_lie_with_gaps(reduction: str) -> None:
    """A rank's share of a batch is every second row."""
    tg.manual_seed(0)
    labels = tg.randint(0, 10, (16,))
    for share in (labels[1::2], labels.flip(0)[:8], labels.view(2, 8).t()[:, 0]):
        rows = tg.randn(8, 10, requires_grad=True)
        found = tg.nn.functional.cross_entropy(rows, share, reduction=reduction)
        expected = -rows.log_softmax(1)[tg.arange(8), share]
        expected = expected if reduction == "none" else getattr(expected, reduction)()
        tg.testing.assert_close(found, expected)
        a, b = [tg.autograd.grad(v.sum(), rows, retain_graph=True)[0] for v in (found, expected)]
        tg.testing.assert_close(a, b)
