"""Programs on tensors that lie oddly, compared with the same programs on ordinary tensors.

They reach the kernels in C that the samples of ops do not: random numbers, optimizers, layers of
some size, and what compiled functions replay.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import tapegrad as tg
from fuzz import layouts
from tapegrad import nn
from tapegrad.core.base import wrap

F = nn.functional
Make = Callable[..., Any]  # (shape, low, high) -> a tensor of random values, laid out in some way


# ---------------------------------------------------------------------- random numbers


def fills(make: Make) -> list[Any]:
    done = []
    calls: list[tuple[Any, ...]] = [("uniform_",), ("normal_",), ("bernoulli_", 0.3), ("random_",)]
    calls += [("exponential_",), ("cauchy_",), ("log_normal_",), ("geometric_", 0.4)]
    for n in (5, 40):
        for method, *args in calls:
            done.append(getattr(make((2, n)), method)(*args))
    return done


def draws(make: Make) -> list[Any]:
    chances = make((3, 20), 0.1, 0.9)
    whole = (chances > 0.5).to(chances.dtype)
    return [
        tg.bernoulli(chances),
        tg.empty_like(whole).bernoulli_(0.5).bool(),
        tg.multinomial(chances, 4),
        tg.multinomial(chances, 40, replacement=True),
        tg.normal(chances, chances + 1),
        F.dropout(chances, 0.4),
        tg.rand_like(chances),
        tg.randperm(50),
        tg.randint(0, 7, (40,)),
        tg.randint(-(1 << 50), 1 << 60, (40,)),
        tg.zeros(30, dtype=tg.bool).bernoulli_(0.5),
        tg.zeros(30, dtype=tg.int64).random_(),
        tg.zeros(30, dtype=tg.int32).random_(),
        tg.randperm(40, dtype=tg.int32),
        tg.distributions.Gamma(chances, chances + 1).sample(),
        tg.poisson(chances * 9),
        tg.binomial((chances * 30).floor(), chances),
        tg.linspace(0.0, 1.0, 40, dtype=chances.dtype)
        + tg.arange(0.0, 4.0, 0.1, dtype=chances.dtype),
    ]


# ---------------------------------------------------------------------- optimizers

OPTIMIZERS = "SGD Adam AdamW RMSprop Adagrad Adadelta Adamax NAdam RAdam ASGD Rprop".split()


def steps(make: Make, name: str) -> list[Any]:
    weights = [make((4, 5)).requires_grad_(), make((7,)).requires_grad_()]
    more = {"momentum": 0.9} if name == "SGD" else {}
    optimizer = getattr(tg.optim, name)(weights, lr=0.01, **more)
    for _ in range(3):
        for w in weights:
            w.grad = make(tuple(w.shape))
        nn.utils.clip_grad_norm_(weights, 0.5)
        nn.utils.clip_grad_value_(weights, 0.1)
        optimizer.step()
    return weights


# ---------------------------------------------------------------------- layers


def with_gradients(inputs: list[Any], run: Callable[..., Any]) -> list[Any]:
    for t in inputs:
        t.requires_grad_(t.is_floating_point())
    out = run(*inputs)
    outs = list(out) if isinstance(out, tuple) else [out]
    floats = [t for t in outs if t.requires_grad]
    wanted = [t for t in inputs if t.requires_grad]
    found = tg.autograd.grad(floats, wanted, [tg.ones_like(t) for t in floats], allow_unused=True)
    return [*outs, *[t for t in found if t is not None]]


def convolutions(make: Make) -> list[Any]:
    x, w, b = make((2, 8, 12, 12)), make((16, 8, 3, 3)), make((16,))
    few = make((2, 3, 9, 9)), make((4, 3, 2, 2))
    return [
        *with_gradients([x, w, b], lambda x, w, b: F.conv2d(x, w, b, padding=1)),
        *with_gradients([x, w, b], lambda x, w, b: F.conv2d(x, w, b, stride=2)),
        *with_gradients(list(few), lambda x, w: F.conv2d(x, w)),
        *with_gradients([make((1, 3, 20, 20)), make((2, 3, 3, 3))], F.conv2d),
        *with_gradients([make((2, 8, 30)), make((8, 1, 5))], lambda x, w: F.conv1d(x, w, groups=8)),
        *with_gradients([make((1, 2, 5, 5)), make((2, 3, 3, 3))], F.conv_transpose2d),
    ]


def pools(make: Make) -> list[Any]:
    x = make((2, 3, 12, 12))
    return [
        *with_gradients([x], lambda x: F.max_pool2d(x, 2)),
        *with_gradients([x], lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True)),
        *with_gradients([x], lambda x: F.avg_pool2d(x, 2)),
        *with_gradients([x], lambda x: F.avg_pool2d(x, 3, 2, 1)),
        *with_gradients([x], lambda x: F.adaptive_max_pool2d(x, 5)),
        *with_gradients([x], lambda x: F.adaptive_avg_pool2d(x, 5)),
        *with_gradients([make((2, 3, 40))], lambda x: F.max_pool1d(x, 4, 3)),
        *with_gradients([make((2, 3, 40))], lambda x: F.avg_pool1d(x, 4, 3)),
        *with_gradients([make((2, 4, 6, 6))], lambda x: F.max_pool3d(x, 2)),
        *with_gradients([make((2, 4, 6, 6))], lambda x: F.avg_pool3d(x, 2)),
    ]


def norms(make: Make) -> list[Any]:
    x, rows = make((8, 6, 5, 5)), make((30, 40))
    weight, bias = make((6,)), make((6,))
    mean, var = make((6,), 0.0, 1.0), make((6,), 0.5, 1.0)
    running = [make((6,)), make((6,), 0.5, 1.0)]
    columns = [make((40,)), make((40,))]

    def train(x: Any, w: Any, b: Any) -> Any:
        return F.batch_norm(x, *running, w, b, training=True)

    return [
        *with_gradients([x, weight, bias], train),
        *running,
        *with_gradients([x, weight, bias], lambda x, w, b: F.batch_norm(x, mean, var, w, b)),
        *with_gradients(
            [rows, *columns], lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True)
        ),
        *with_gradients([x, weight, bias], lambda x, w, b: F.group_norm(x, 3, w, b)),
        *with_gradients([rows, *columns], lambda x, w, b: F.layer_norm(x, (40,), w, b)),
        *with_gradients([rows, columns[0]], lambda x, w: F.rms_norm(x, (40,), w)),
        *with_gradients(
            [rows, columns[0]], lambda x, w: tg.ops.aten._fused_rms_norm(x, [40], w, 1e-5)
        ),
    ]


def halves(make: Make) -> list[Any]:
    """Kernels for half precision."""
    return [*halves_of(make, tg.bfloat16), *halves_of(make, tg.float16)]


def halves_of(make: Make, dtype: Any) -> list[Any]:
    make.dtype = dtype.np  # type: ignore[attr-defined]
    x, w, b = make((30, 40)), make((40,)), make((40,))
    found = [
        *with_gradients([x], lambda x: x.softmax(1)),
        *with_gradients([x], lambda x: x.log_softmax(1)),
        *with_gradients([x, w, b], lambda x, w, b: F.layer_norm(x, (40,), w, b)),
        *with_gradients([x, w], lambda x, w: tg.ops.aten._fused_rms_norm(x, [40], w, 1e-5)),
        *with_gradients([make((80, 64))], lambda x: x.sum(0)),
        *with_gradients([make((80, 64))], lambda x: x.sum(1)),
        *with_gradients([x, make((40, 6))], tg.mm),
        *with_gradients([x], lambda x: x.amax(1)),
        *with_gradients([x], lambda x: x.sort(0)[0]),
        *with_gradients([x], lambda x: x.topk(3)[0]),
        *with_gradients([x, make((30, 40))], F.mse_loss),
        *x.aminmax(),
        x.nansum(1),
        x.cumsum(1),
        x * 0.3,
        tg.ops.aten._safe_softmax(x, 1),
    ]
    return [t.float() for t in found]


def vectors(make: Make) -> list[Any]:
    """Products with a vector: matrices in rows, in columns and in parts of both."""
    a, x, y = make((30, 40)), make((40,)), make((30,))
    return [
        *with_gradients([a, x], lambda a, x: a.mv(x)),
        *with_gradients([a, y], lambda a, y: a.t().mv(y)),
        *with_gradients([make((30, 40)).t()[:20], y], lambda a, y: a.mv(y)),
        *with_gradients([x, make((40,))], tg.dot),
        make((40, 30)).detach().t().contiguous().t().mv(y.detach()),
    ]


def laplacians(make: Make) -> list[Any]:
    """Second derivatives along all directions at once."""
    x, w, v = make((6, 5)), make((7, 5)), make((7,))
    laplacian = tg.func.laplacian(lambda t: (w @ t).tanh() @ v)
    return [laplacian(x[0]), tg.vmap(laplacian)(x)]


def recurrent(make: Make) -> list[Any]:
    done = []
    for kind, gates in ((nn.LSTM, 4), (nn.GRU, 3), (nn.RNN, 1)):
        layer = kind(4, 3, dtype=make((1,)).dtype)
        shapes = ((gates * 3, 4), (gates * 3, 3), (gates * 3,), (gates * 3,))
        for parameter, shape in zip(layer.parameters(), shapes, strict=True):
            parameter.data = make(shape)
        out = layer(make((6, 5, 4)))[0]
        out.sum().backward()
        done += [out, *[p.grad for p in layer.parameters()]]
    cell = nn.LSTMCell(4, 3, dtype=make((1,)).dtype)
    for parameter, shape in zip(cell.parameters(), ((12, 4), (12, 3), (12,), (12,)), strict=True):
        parameter.data = make(shape)
    with tg.no_grad():
        done += cell(make((2, 4)), (make((2, 3)), make((2, 3))))
    return [*done, *cell(make((2, 4)), (make((2, 3)), make((2, 3))))]


def attention(make: Make) -> list[Any]:
    heads = [make((2, 2, 20, 8)) for _ in range(3)]
    mask = make((20, 20))
    return [
        *with_gradients(heads, lambda q, k, v: F.scaled_dot_product_attention(q, k, v)),
        *with_gradients(
            heads, lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)
        ),
        *with_gradients(heads, lambda q, k, v: F.scaled_dot_product_attention(q, k, v, mask)),
    ]


def places(make: Make) -> list[Any]:
    x, labels = make((12, 40)), make.indices((12,), 12)  # type: ignore[attr-defined]
    rows = make.indices((9,), 12)  # type: ignore[attr-defined]
    wide = make.indices((4, 40), 12)  # type: ignore[attr-defined]
    mask = make((12, 40)) > 0
    return [
        *with_gradients([x], lambda x: F.cross_entropy(x, labels)),
        *with_gradients([x], lambda x: F.embedding(rows, x)),
        *with_gradients([x], lambda x: x[rows]),
        *with_gradients([x], lambda x: x[mask]),
        *with_gradients([x], lambda x: x.gather(0, wide)),
        *with_gradients([x], lambda x: x.index_select(0, rows)),
        *with_gradients([x, make((4, 40))], lambda x, y: x.scatter_add(0, wide, y)),
        *with_gradients([x, make((9, 40))], lambda x, y: x.index_add(0, rows, y)),
        *with_gradients([x], lambda x: x.sort(1)),
        *with_gradients([x], lambda x: x.topk(3)),
        *with_gradients([x], lambda x: x[2:7, ::3]),
        *with_gradients([make((200, 90))], lambda x: x[20:77] * 2),
        *with_gradients([make((200, 90))], lambda x: x[:, 5] * 2),
        mask.any(0),
        mask.all(1),
        tg.masked_select(x.detach(), mask),
        wide @ wide.t(),
        tg.special.hermite_polynomial_h(x.detach(), make((12, 40), 0.0, 4.0).floor()),
        tg.nextafter(x.detach(), make((12, 40))),
    ]


def reductions(make: Make) -> list[Any]:
    x = make((80, 64), 0.5, 1.5)
    y = make((80, 64))
    reduced: list[Callable[[Any], Any]] = [
        *(lambda x: x.sum(0), lambda x: x.sum(1), lambda x: x.sum(), lambda x: x.mean(1)),
        *(lambda x: x.var(1), lambda x: x.std(0), lambda x: x.cumsum(0), lambda x: x.cumprod(1)),
        *(lambda x: x.logsumexp(1), lambda x: x.softmax(1), lambda x: x.log_softmax(1)),
        *(lambda x: x.amax(1), lambda x: x.max(0), lambda x: x.amin(0), tg.norm),
        *(lambda x: x.cummax(0), lambda x: x.cummin(1)),
    ]
    found = [t for run in reduced for t in with_gradients([x], run)]
    found += [x.detach().argmin(1), x.detach().argmax(0)]
    scan = tg._higher_order_ops.associative_scan
    with tg.no_grad():
        pairs = (x.detach() / 2, y)
        found += scan(lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), pairs, 0)
    return found


# ---------------------------------------------------------------------- compiled functions


def compiled(make: Make) -> list[Any]:
    """Tapes: what is recorded once with tensors that lie oddly is run again with others."""

    @tg.compile
    def run(x: Any, y: Any, rows: Any) -> Any:
        a = (x * y + x.sin()).sum(0)
        b = ((rows + 3) % 5 == 2) & (rows > 1)
        c = x[rows] * b.unsqueeze(1).to(x.dtype)
        d = (rows * 2 - 1).double() + rows.bool().double()
        with tg.no_grad():
            noise = tg.rand(4, dtype=x.dtype) + tg.bernoulli(y[0, :4].clamp(0, 1))
        e = x.t().flip(0).reshape(-1) + tg.where(x > y, x, -y).t().reshape(-1)
        f = (x > y).any(1) | (x > -2).all(1)
        return a, c, d, f, noise, e, x.float() + y.double(), tg.cumsum(x, 1), x.roll(1, 0)

    done: list[Any] = []
    rows = make.indices((6,), 12)  # type: ignore[attr-defined]
    for _ in range(5):
        done += run(make((12, 40)), make((12, 40)), rows)
    return done


PROGRAMS: dict[str, Callable[[Make], list[Any]]] = {
    f.__name__: f
    for f in (
        *(fills, draws, convolutions, pools, norms, halves, vectors, laplacians),
        *(recurrent, attention, places, reductions, compiled),
    )
}
for _name in OPTIMIZERS:
    PROGRAMS[_name] = lambda make, name=_name: steps(make, name)  # type: ignore[misc]


class Maker:
    """Random tensors of one dtype, from one seed, each laid out in the same way."""

    def __init__(self, seed: int, dtype: Any, layout: Callable[[Any], Any]) -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype = dtype
        self.layout = layout

    def __call__(self, shape: Any, low: float = -1.0, high: float = 1.0) -> Any:
        return wrap(self.layout(self.rng.uniform(low, high, shape).astype(self.dtype)))

    def indices(self, shape: Any, most: int) -> Any:
        return wrap(self.layout(self.rng.integers(0, most, shape)))


def plain(x: Any) -> Any:
    return x


def gaps(x: Any) -> Any:
    return np.repeat(x, 2, -1)[..., ::2] if x.ndim else x


# Arrays that tensors have: no strides below zero, no foreign byte order.
LAYOUTS = [
    layouts.misaligned,
    layouts.strided,
    layouts.columns_first,
    layouts.transposed,
    layouts.misaligned_with_gaps,
]
# Numbers are drawn in another order for tensors with gaps, as in PyTorch: then only the alignment
# may make no difference.
DRAWING = {f.__name__: gaps if f is layouts.misaligned_with_gaps else f for f in LAYOUTS}
DRAWING["misaligned"] = plain
KINDS = (np.float32, np.float64)


def run(program: Any, seed: int, dtype: Any, layout: Any) -> list[Any]:
    tg.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [t.detach().numpy() for t in program(Maker(seed, dtype, layout))]


def compare(program: Any, seed: int, dtype: Any, layout: Any) -> str:
    ordinary = DRAWING[layout.__name__] if program in (fills, draws, compiled) else plain
    found, wanted = run(program, seed, dtype, layout), run(program, seed, dtype, ordinary)
    for i, (a, b) in enumerate(zip(found, wanted, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"result {i} is {a.dtype}{a.shape} instead of {b.dtype}{b.shape}"
        if not layouts.same(
            a, b, layouts.tolerance(tg.bfloat16.np if program is halves else dtype)
        ):
            return f"result {i} has other values (seed {seed}, {np.dtype(dtype)})"
    return ""


def all_programs(rng: Any) -> Iterator[tuple[str, Any, Callable[[], str]]]:
    """Every program in every dtype and layout, again and again with other values."""
    while True:
        for layout, dtype, name in itertools.product(LAYOUTS, KINDS, PROGRAMS):
            seed = int(rng.integers(1 << 30))

            def once(name: str = name, dtype: Any = dtype, layout: Any = layout) -> str:
                return compare(PROGRAMS[name], seed, dtype, layout)  # noqa: B023

            yield name, layout, once
