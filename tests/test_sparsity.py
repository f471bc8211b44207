"""Sparse Jacobians: patterns that are never too small, colors, and the derivatives themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as torch
from table import APIS, PURE
from tapegrad import func, nn
from tapegrad.core.base import wrap
from tapegrad.func.sparse_jacobians import Pattern, column_colors, star_colors
from test_taylor import as_function

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of functions that are outdated


def pattern_of(function: Any, *values: Any, argnums: Any = 0) -> Any:
    return func.sparsity(function, *values, argnums=argnums)


def as_matrix(blocks: Any, outs: Any, values: Any) -> Any:
    """The Jacobian of several results by several inputs as one matrix."""
    rows = []
    for row, out in zip(blocks, outs, strict=True):
        parts = [b._array.reshape(out.numel(), x.numel()) for b, x in zip(row, values, strict=True)]
        rows.append(np.concatenate(parts, 1))
    return np.concatenate(rows, 0)


def check_sample(name: str, index: int) -> float:
    """Compare the pattern of a sample call with its Jacobian; the share of places that are none."""
    function, values = as_function(name, index)
    values = [v if v._array.dtype.kind == "c" else v.double() for v in values]
    if not values or not (outs := function(*values)):
        return 0.0
    numbers = tuple(range(len(values)))
    try:
        dense = as_matrix(func.jacrev(function, numbers)(*values), outs, values)
    except (NotImplementedError, RuntimeError, ZeroDivisionError):  # no derivative, no batch
        return 0.0
    if not dense.size:
        return 0.0
    used = pattern_of(function, *values, argnums=numbers).to_dense().numpy()
    assert used.shape == dense.shape
    missing = np.argwhere((dense != 0) & ~np.isnan(dense) & ~used)
    assert not len(missing), f"sample {index}: {len(missing)} entries are missing, {missing[:5]}"
    return 1 - used.mean()


@pytest.mark.slow
@pytest.mark.parametrize("name", PURE)
def test_no_entry_is_missing_for_any_operation(name):
    for index in range(min(len(APIS[name].samples), 2)):
        check_sample(name, index)


@pytest.mark.thorough
@pytest.mark.parametrize("name", PURE)
def test_no_entry_is_missing_in_any_sample(name):
    for index in range(2, len(APIS[name].samples)):
        check_sample(name, index)


# ---------------------------------------------------------------------- random programs


class Writer:
    """A random program on vectors: each line makes one from those before, or writes into one."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.count = int(self.rng.integers(3, 9))
        self.constant = wrap(self.rng.standard_normal((12, 12)))
        self.lines = [
            (str(self.rng.choice(sorted(LINES))), self.rng.integers(0, 2**31, 2))
            for _ in range(int(self.rng.integers(2, 8)))
        ]

    def __call__(self, x: Any) -> Any:
        known = [x]
        for name, (seed, other) in self.lines:
            a, b = known[seed % len(known)], known[other % len(known)]
            made = LINES[name](a, b, int(other), self.constant)
            if made.numel() > 40 or not made.numel():
                made = made[:40] if made.numel() else x * 2
            known.append(made)
        return torch.cat([t.reshape(-1) for t in known[-2:]])


def fitted(a: Any, b: Any) -> tuple[Any, Any]:
    n = min(len(a), len(b))
    return a[:n], b[-n:]


def written(a: Any, b: Any, step: int) -> Any:
    made = a * 1.0
    part = made[:: 1 + step % 3]
    part[: min(len(part), len(b))] += b[: len(part)]
    made.view(-1)[0] = b[-1] * 2
    return made


def placed(a: Any, b: Any) -> Any:
    made = torch.zeros(len(a) + 2, dtype=a.dtype)
    made[1:-1] = a
    made[:1].copy_(b[:1])
    return made


def moved_by(a: Any, k: int) -> Any:
    return a[torch.tensor([(i * (k % 5) + k) % len(a) for i in range(len(a))])]


def square(a: Any) -> Any:
    side = max(int(len(a) ** 0.5), 1)
    return a[: side * side].reshape(side, side)


def column(a: Any) -> Any:
    return a.reshape(1, 1, -1)


LINES: dict[str, Any] = {
    "sin": lambda a, b, k, c: a.sin(),
    "relu": lambda a, b, k, c: a.relu(),
    "abs": lambda a, b, k, c: a.abs(),
    "product": lambda a, b, k, c: torch.mul(*fitted(a, b)),
    "maximum": lambda a, b, k, c: torch.maximum(*fitted(a, b)),
    "where": lambda a, b, k, c: torch.where(fitted(a, b)[0] > 0, *fitted(a, b)),
    "difference": lambda a, b, k, c: a[1:] - a[:-1],
    "stack": lambda a, b, k, c: torch.stack(fitted(a, b)).t().reshape(-1),
    "cat": lambda a, b, k, c: torch.cat([b, a[::2]]),
    "roll": lambda a, b, k, c: a.roll(k % 5),
    "flip": lambda a, b, k, c: a.flip(0),
    "cumsum": lambda a, b, k, c: a[:4].cumsum(0),
    "cumprod": lambda a, b, k, c: square(a).cumprod(1).reshape(-1),
    "sum": lambda a, b, k, c: square(a).sum(k % 2),
    "scaled": lambda a, b, k, c: a * b.sum().tanh(),
    "softmax": lambda a, b, k, c: square(a).softmax(k % 2).reshape(-1),
    "largest": lambda a, b, k, c: square(a).amax(k % 2),
    "max": lambda a, b, k, c: square(a).max(k % 2).values,
    "median": lambda a, b, k, c: square(a).median(1).values,
    "sort": lambda a, b, k, c: square(a).sort(k % 2).values.reshape(-1),
    "chosen": lambda a, b, k, c: a[b.argsort()[: len(a)] % len(a)],
    "masked": lambda a, b, k, c: a.masked_fill(a > 0.3, 1.5),
    "index": lambda a, b, k, c: moved_by(a, k),
    "scatter": lambda a, b, k, c: torch.zeros(7, dtype=a.dtype).index_add(
        0, torch.arange(len(a)) * (1 + k % 3) % 7, a
    ),
    "written": lambda a, b, k, c: written(a, b, k),
    "placed": lambda a, b, k, c: placed(a, b),
    "matrix": lambda a, b, k, c: c[:5, : min(len(a), 12)].tril(k % 3 - 1) @ a[:12],
    "outer": lambda a, b, k, c: (a[:3, None] * b[None, :3]).reshape(-1),
    "square": lambda a, b, k, c: (square(a) @ square(a)).reshape(-1),
    "conv": lambda a, b, k, c: nn.functional.conv1d(
        column(a), c[:1, :3].reshape(1, 1, 3), padding=1
    ).reshape(-1),
    "pool": lambda a, b, k, c: nn.functional.max_pool1d(column(a), 2, ceil_mode=True).reshape(-1),
    "mean": lambda a, b, k, c: nn.functional.avg_pool1d(column(a), 2, ceil_mode=True).reshape(-1),
    "mapped": lambda a, b, k, c: func.vmap(lambda r: r * r.sum())(square(a)).reshape(-1),
    "gradient": lambda a, b, k, c: func.grad(lambda v: (v[1:] * v[:-1].cos()).sum())(a),
    "norm": lambda a, b, k, c: square(a).norm(dim=k % 2),
    "variance": lambda a, b, k, c: square(a).var(k % 2, correction=0),
    "layer": lambda a, b, k, c: nn.functional.layer_norm(square(a), square(a).shape[1:]).view(-1),
    "pad": lambda a, b, k, c: nn.functional.pad(a, (1, 2)),
    "repeat": lambda a, b, k, c: a[:3].repeat_interleave(2),
    "unfold": lambda a, b, k, c: a.unfold(0, min(len(a), 3), 1).sum(1),
    "item": lambda a, b, k, c: a * (2.0 if k % 2 else 3.0),
    "complex": lambda a, b, k, c: torch.view_as_real(torch.complex(*fitted(a, b)) * 1j).view(-1),
    "spectrum": lambda a, b, k, c: torch.fft.rfft(a[:4]).abs(),
    "prefix": lambda a, b, k, c: a.as_strided((len(a) // 2 + 1,), (1,), 0) * 2,
}


def check_program(seed: int) -> float:
    program = Writer(seed)
    rng = np.random.default_rng(seed + 1)
    points = [wrap(rng.standard_normal(program.count)) for _ in range(3)]
    used = pattern_of(program, points[0]).to_dense().numpy()
    true = np.zeros_like(used)
    for x in points:  # the pattern is that of other points, too
        dense = func.jacrev(program)(x).numpy()
        assert dense.shape == used.shape
        true |= (dense != 0) & ~np.isnan(dense)
    assert not (true & ~used).any(), (
        seed,
        [n for n, _ in program.lines],
        np.argwhere(true & ~used),
    )
    return used.sum() / max(true.sum(), 1)


@pytest.mark.parametrize("start", range(0, 50, 10))
def test_patterns_of_random_programs_are_never_too_small(start):
    for seed in range(start, start + 10):
        check_program(seed)


@pytest.mark.thorough
@pytest.mark.parametrize("start", range(50, 1000, 50))
def test_patterns_of_many_random_programs_are_never_too_small(start):
    for seed in range(start, start + 50):
        check_program(seed)


# ---------------------------------------------------------------------- patterns


def places(pattern: Any) -> set[tuple[int, int]]:
    return set(zip(pattern.rows.tolist(), pattern.columns.tolist(), strict=True))


def diagonals(count: int, *offsets: int) -> set[tuple[int, int]]:
    return {(i, i + k) for i in range(count) for k in offsets if 0 <= i + k < count}


def second_difference(u: Any) -> Any:
    padded = nn.functional.pad(u, (1, 1))
    return padded[2:] - 2 * u + padded[:-2] + u.exp()


def by_writing(u: Any) -> Any:
    out = torch.zeros_like(u)
    out[1:] += u[:-1]
    out[:-1] += u[1:]
    out.sub_(2 * u)
    return out


TRIDIAGONAL = {
    "slices": second_difference,
    "writes": by_writing,
    "convolution": lambda u: nn.functional.conv1d(
        u.view(1, 1, -1), torch.tensor([[[1.0, -2.0, 1.0]]], dtype=u.dtype), padding=1
    ).view(-1),
    "windows": lambda u: nn.functional.pad(u, (1, 1)).unfold(0, 3, 1).square().sum(1),
    "vmap": lambda u: func.vmap(lambda w: w[0] * w[1] - w[2])(
        nn.functional.pad(u, (1, 1)).unfold(0, 3, 1)
    ),
    "gradient": func.grad(lambda u: ((u[1:] - u[:-1]) ** 4).sum() + (u**2).sum()),
    "indices": lambda u: u.index_add(0, torch.arange(1, len(u)), u[:-1] ** 2).index_add(
        0, torch.arange(len(u) - 1), u[1:]
    ),
}


@pytest.mark.parametrize("name", TRIDIAGONAL)
@pytest.mark.parametrize("count", [2, 3, 10, 67])
def test_tridiagonal_functions_have_three_diagonals(name, count):
    found = pattern_of(TRIDIAGONAL[name], torch.randn(count, dtype=torch.float64))
    assert places(found) == diagonals(count, -1, 0, 1)
    assert column_colors(found).max() + 1 == min(count, 3)


def test_constants_that_are_zero_are_seen_and_arguments_are_not_trusted():
    matrix = torch.ones(6, 6).tril().triu()
    x = torch.randn(6)
    assert places(pattern_of(lambda v: matrix @ v, x)) == diagonals(6, 0)
    assert pattern_of(lambda v, m: m @ v, x, matrix).nnz == 36  # another call may have others
    weight = nn.Parameter(matrix)
    assert pattern_of(lambda v: weight @ v, x).nnz == 36


EXACT: dict[str, tuple[Any, set[tuple[int, int]]]] = {
    "view": (lambda x: x.view(2, 2).t().reshape(-1), {(0, 0), (1, 2), (2, 1), (3, 3)}),
    "sum": (lambda x: x.view(2, 2).sum(0), {(0, 0), (0, 2), (1, 1), (1, 3)}),
    "softmax": (
        lambda x: x.view(2, 2).softmax(1),
        {(i, j) for i in range(4) for j in range(4) if i // 2 == j // 2},
    ),
    "index": (lambda x: x[torch.tensor([3, 0])], {(0, 3), (1, 0)}),
    "roll": (lambda x: x.roll(1), {(0, 3), (1, 0), (2, 1), (3, 2)}),
    "where": (
        lambda x: torch.where(x > 0, x, x.flip(0)),
        diagonals(4, 0) | {(0, 3), (1, 2), (2, 1), (3, 0)},
    ),
    "constant": (lambda x: torch.ones(2), set()),
    "overwritten": (lambda x: x.clone().fill_(3.0)[:1] + x[1:2], {(0, 1)}),
    "parts": (lambda x: (x[:2].sin(), [x[3:]]), {(0, 0), (1, 1), (2, 3)}),
    "integers": (lambda x: x[:2] * x.argmax(), diagonals(4, 0) - {(2, 2), (3, 3)}),
    "kron": (
        lambda x: torch.kron(x[:2], x[2:]),
        {(0, 0), (0, 2), (1, 0), (1, 3), (2, 1), (2, 2), (3, 1), (3, 3)},
    ),
}


@pytest.mark.parametrize("name", EXACT)
def test_exact_patterns(name):
    function, want = EXACT[name]
    got = places(pattern_of(function, torch.tensor([0.5, -1.0, 2.0, -3.0])))
    assert got >= want
    if name != "overwritten":
        assert got == want


BATCHES: dict[str, Any] = {
    "linear": lambda x: nn.functional.linear(x, FIXED[:3, :8].tril()),
    "matmul": lambda x: FIXED[:16, :16].tril(1).triu() @ x,
    "both sides": lambda x: FIXED[:4, :16] @ x @ FIXED[:8, :2],
    "stack": lambda x: torch.bmm(x.view(4, 4, 8), FIXED[:4, :16].view(4, 8, 2).tril()),
    "convolution": lambda x: nn.functional.conv1d(x.view(4, 4, 8), FIXED[:2, :12].view(2, 4, 3)),
    "windows": lambda x: nn.functional.avg_pool1d(x.view(4, 4, 8), 2),
    "cumsum": lambda x: x.cumsum(1),
    "sums": lambda x: x.view(4, 4, 8).sum(1),
    "triangle": lambda x: x.tril() * 2 + x.flip(0),
    "fft": lambda x: torch.view_as_real(torch.fft.rfft(x.view(32, 4))),
    "interpolation": lambda x: nn.functional.interpolate(x.view(1, 2, 8, 8), scale_factor=2.0),
    "added": lambda x: torch.zeros(5, 8, dtype=x.dtype).index_add(0, torch.arange(16) % 5, x),
}
FIXED = wrap(np.random.default_rng(0).standard_normal((16, 16)))


@pytest.mark.parametrize("name", BATCHES)
def test_linear_functions_of_many_elements_have_exact_patterns(name):
    x = torch.randn(16, 8, dtype=torch.float64)
    dense = func.jacrev(BATCHES[name])(x).reshape(-1, x.numel()).numpy()
    got = pattern_of(BATCHES[name], x).to_dense().numpy()
    assert not ((np.abs(dense) > 1e-12) & ~got).any()
    if name != "fft":  # which mixes what it does not use with factors that are nearly zero
        np.testing.assert_array_equal(got, dense != 0)


def test_values_do_not_decide():
    for value in (torch.zeros(4), torch.full((4,), -1.0), torch.tensor([0.0, 1.0, 2.0, 3.0])):
        assert pattern_of(lambda x: x.relu(), value).nnz == 4
        assert pattern_of(lambda x: x.view(2, 2).amax(1), value).nnz == 4
        assert pattern_of(lambda x: x.sort().values, value).nnz == 16
        assert pattern_of(lambda x: x[x.argsort()], value).nnz == 16
        assert pattern_of(lambda x: (x * x) * 0.0, value).nnz == 4


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.from_numpy(np.round(x.detach().numpy()))

    @staticmethod
    def backward(ctx, grad):
        return grad.flip(0)


def test_what_a_custom_function_does_is_not_known():
    assert pattern_of(lambda x: Straight.apply(x)[1:] * 2, torch.randn(3)).nnz == 6


def test_random_operations_leave_the_state_as_it_was():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    found = pattern_of(lambda x: nn.functional.dropout(x) + torch.randn_like(x), torch.ones(5))
    assert places(found) >= diagonals(5, 0)
    assert torch.equal(torch.get_rng_state(), before)


def test_several_inputs_and_results():
    found = func.sparsity(
        lambda a, b: (a * b, b.sum()), torch.ones(2), torch.ones(2), argnums=(0, 1)
    )
    assert found.to_dense().tolist() == [
        [True, False, True, False],
        [False, True, False, True],
        [False, False, True, True],
    ]
    assert func.sparsity(lambda a, b: a * b, torch.ones(2), torch.ones(2), argnums=1).nnz == 2


def test_the_picture():
    text = repr(pattern_of(second_difference, torch.ones(4)))
    assert text.splitlines() == [
        "Pattern(4 x 4, 10 entries, at most 3 in a row and 3 in a column)",
        "**..",
        "***.",
        ".***",
        "..**",
    ]
    assert repr(pattern_of(lambda x: x[:0], torch.ones(4))).startswith("Pattern(0 x 4, 0 entries")
    large = repr(pattern_of(second_difference, torch.ones(100))).splitlines()
    assert (len(large), len(large[1])) == (17, 48)


# ---------------------------------------------------------------------- colors


def arrow(count: int) -> Pattern:
    own = np.arange(count)
    zero = np.zeros(count - 1, np.int64)
    rows = np.concatenate([own, zero, own[1:]])
    columns = np.concatenate([own, own[1:], zero])
    order = np.lexsort((columns, rows))
    return Pattern(rows[order], columns[order], (count, count))


@pytest.mark.parametrize("seed", range(20))
def test_columns_of_one_color_share_no_row(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 30, 2))
    rows, columns = np.nonzero(rng.random(shape) < rng.random() * 0.3)
    pattern = Pattern(rows, columns, shape)
    colors = column_colors(pattern)
    assert ((colors >= 0) == (np.bincount(columns, minlength=shape[1]) > 0)).all()
    key = rows * (colors.max(initial=0) + 1) + colors[columns]
    assert len(np.unique(key)) == len(key)


@pytest.mark.parametrize("seed", range(20))
def test_star_colors_give_each_entry_of_a_symmetric_matrix(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 25))
    some = rng.random((n, n)) < 0.2
    some = some | some.T | np.eye(n, dtype=bool)
    rows, columns = np.nonzero(some)
    colors = star_colors(Pattern(rows, columns, (n, n)))
    count = colors.max() + 1
    seen = np.zeros((n, count), int)
    np.add.at(seen, (rows, colors[columns]), 1)
    for i, j in zip(rows, columns, strict=True):
        assert seen[i, colors[j]] == 1 or seen[j, colors[i]] == 1


def test_an_arrow_needs_two_colors():
    assert column_colors(arrow(30)).max() + 1 == 30
    assert star_colors(arrow(30)).max() + 1 == 2


# ---------------------------------------------------------------------- derivatives

JACOBIANS = {
    **TRIDIAGONAL,
    **{name: function for name, (function, _) in EXACT.items() if name != "parts"},
    "dense": lambda x: x / x.norm(),
    "row": lambda x: x.sum(),
    "column": lambda x: x[:1] * torch.arange(5.0),
    "grid": lambda x: nn.functional.conv2d(
        nn.functional.pad(x.expand(5, len(x))[None, None], (1, 1, 1, 1)).sin(),
        torch.ones(1, 1, 3, 3, dtype=x.dtype),
    ),
    "none": lambda x: x[:0],
    "layer": lambda x: nn.functional.layer_norm(x.reshape(2, -1), (len(x) // 2,)),
    "steps": lambda x: torch.stack([x.roll(k) * k for k in range(3)]),
}


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
@pytest.mark.parametrize("name", JACOBIANS)
def test_sparse_jacobians_are_the_dense_ones(name, layout):
    function = JACOBIANS[name]
    x = torch.randn(4, dtype=torch.float32 if name == "indices" else torch.float64)
    dense = func.jacrev(function)(x)
    got = func.jacobian(function, sparse=True, layout=layout)(x)
    assert got.layout is getattr(torch, f"sparse_{layout}")
    dense = dense.reshape(-1, 4)
    assert tuple(got.shape) == tuple(dense.shape)
    torch.testing.assert_close(got.to_dense(), dense)


def chain(x: Any) -> Any:
    return ((x[1:] - x[:-1]) ** 4).sum() + (x**3).sum()


HESSIANS = {
    "chain": chain,
    "arrow": lambda x: (x[0] * x[1:] ** 2).sum(),
    "separable": lambda x: x.exp().sum(),
    "linear": lambda x: 3 * x.sum(),
    "products": lambda x: (x[0] * x[3]).sin() + x[1] ** 3 * x[2],
    "dense": lambda x: x.sin().sum() ** 2,
    "softmax": lambda x: torch.logsumexp(x.reshape(2, -1), 1).sum(),
    "matrix": lambda x: x.reshape(2, -1).square().sum(0).log().sum(),
}


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
@pytest.mark.parametrize("name", HESSIANS)
def test_sparse_hessians_are_the_dense_ones(name, layout):
    x = torch.rand(8, dtype=torch.float64) + 0.5
    got = func.hessian(HESSIANS[name], sparse=True, layout=layout)(x)
    torch.testing.assert_close(got.to_dense(), func.hessian(HESSIANS[name])(x))
    torch.testing.assert_close(
        func.hessian(HESSIANS[name])(x), func.jacfwd(func.jacrev(HESSIANS[name]))(x)
    )


def test_few_colors():
    x = torch.rand(50)
    assert func.jacobian(second_difference, sparse=True).prepare(x).colors == 3
    assert func.hessian(chain, sparse=True).prepare(x).colors == 3
    assert func.hessian(HESSIANS["arrow"], sparse=True).prepare(x).colors == 2
    by_rows = func.jacobian(lambda x: x[1:] * x[0] + x.sum() * 0, sparse=True).prepare(x)
    assert by_rows.colors == 49
    one = func.jacobian(lambda x: x.sum(), sparse=True).prepare(x)
    assert (one.colors, one.mode) == (1, "vjp")


def test_prepared_once_and_called_often():
    x, y = torch.rand(12, dtype=torch.float64), torch.rand(12, dtype=torch.float64)
    calls = []

    def function(x, scale):
        calls.append(1)
        return second_difference(x * scale)

    prepared = func.jacobian(function, sparse=True, layout="csr").prepare(x, torch.tensor(2.0))
    calls.clear()
    for value in (x, y):
        for scale in (torch.tensor(2.0), torch.tensor(-0.5)):
            want = func.jacrev(function)(value, scale)
            calls.clear()
            got = prepared(value, scale)
            assert len(calls) == 1
            torch.testing.assert_close(got.to_dense(), want)
    same = func.jacobian(function, sparse=True).prepare(
        x, torch.tensor(1.0), pattern=prepared.pattern
    )
    torch.testing.assert_close(same(y, scale).to_dense(), want)


def test_entries_can_be_differentiated_again():
    x = torch.rand(6, dtype=torch.float64, requires_grad=True)
    prepared = func.jacobian(lambda x: x[1:] ** 3 - x[:-1], sparse=True).prepare(x)
    prepared(x).to_dense().square().sum().backward()
    want = torch.rand(0)
    leaf = x.detach().requires_grad_()
    func.jacrev(lambda x: x[1:] ** 3 - x[:-1])(leaf).square().sum().backward()
    want = leaf.grad
    torch.testing.assert_close(x.grad, want)


@pytest.mark.parametrize("kind", ["jacobian", "hessian"])
def test_compiled(kind):
    x = torch.rand(20, dtype=torch.float64)
    make, function = (
        (func.jacobian, second_difference) if kind == "jacobian" else (func.hessian, chain)
    )
    prepared = make(function, sparse=True, layout="csr").prepare(x, compile=True)
    bare = make(function, sparse=True, layout="csr").prepare(x)
    compiled = torch.compile(bare.values)
    for _ in range(4):
        y = torch.rand(20, dtype=torch.float64)
        want = bare.values(y)
        torch.testing.assert_close(prepared(y).values(), want)
        torch.testing.assert_close(compiled(y), want)


REFUSED = {
    "no such layout": (
        lambda x: func.jacobian(torch.sin, sparse=True, layout="dia")(x),
        ValueError,
    ),
    "several inputs": (lambda x: func.jacobian(torch.sin, (0,), sparse=True)(x), TypeError),
    "no tensor": (lambda x: func.jacobian(torch.sin, sparse=True)(1.0), TypeError),
    "an argument that is not there": (
        lambda x: func.jacobian(torch.sin, 2, sparse=True)(x),
        RuntimeError,
    ),
    "integers": (lambda x: func.jacobian(torch.sin, sparse=True)(x.long()), ValueError),
    "complex": (lambda x: func.jacobian(torch.sin, sparse=True)(x + 1j), NotImplementedError),
    "two results": (lambda x: func.jacobian(lambda x: (x, x), sparse=True)(x), TypeError),
    "an integer result": (lambda x: func.jacobian(torch.argmax, sparse=True)(x), TypeError),
    "a hessian of a vector": (lambda x: func.hessian(torch.sin, sparse=True)(x), RuntimeError),
    "another shape": (
        lambda x: func.jacobian(torch.sin, sparse=True).prepare(x)(x[:2]),
        ValueError,
    ),
    "another dtype": (
        lambda x: func.jacobian(torch.sin, sparse=True).prepare(x)(x.double()),
        ValueError,
    ),
    "a layout for sparse": (lambda x: func.jacobian(torch.sin, sparse="csr")(x), TypeError),
    "a layout that is not sparse": (lambda x: func.hessian(torch.sum, layout="csr")(x), ValueError),
    "no chunks": (lambda x: func.jacobian(torch.sin, sparse=True, chunk_size=0)(x), ValueError),
    "a number": (lambda x: func.sparsity(torch.sin, 1.0), TypeError),
    "no function": (lambda x: func.sparsity(x, x), TypeError),
    "no pattern": (
        lambda x: func.jacobian(torch.sin, sparse=True).prepare(x, pattern=torch.eye(3)),
        TypeError,
    ),
    "a pattern of another input": (
        lambda x: func.jacobian(torch.sin, sparse=True).prepare(
            x, pattern=func.sparsity(torch.sin, x[:2])
        ),
        ValueError,
    ),
    "inside vmap": (
        lambda x: func.vmap(lambda r: func.sparsity(torch.sin, r).to_dense())(x),
        RuntimeError,
    ),
    "meta": (lambda x: func.sparsity(torch.sin, x.to("meta")), NotImplementedError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, error = REFUSED[name]
    with pytest.raises(error):
        call(torch.rand(3))
    assert func.sparsity(torch.sin, torch.rand(3)).nnz == 3  # no mode is left on


def test_scipy():
    scipy = pytest.importorskip("scipy.sparse")
    x = torch.rand(6, dtype=torch.float64)
    found = func.jacobian(second_difference, sparse=True, layout="scipy")(x)
    assert isinstance(found, scipy.csr_array)
    np.testing.assert_allclose(found.toarray(), func.jacrev(second_difference)(x).numpy())


def test_a_large_tridiagonal_function():
    x = torch.rand(10_000, dtype=torch.float64)
    prepared = func.jacobian(second_difference, sparse=True, layout="csr").prepare(x)
    assert (prepared.pattern.nnz, prepared.colors) == (29_998, 3)
    matrix = prepared(x)
    torch.testing.assert_close(matrix @ torch.ones_like(x), row_sums(x.exp()))


def row_sums(made: Any) -> Any:
    made[0] -= 1
    made[-1] -= 1
    return made


def test_indices_of_a_compressed_matrix_that_are_written_are_seen():
    matrix = torch.sparse_csr_tensor([0, 2, 3], [0, 2, 1], [1.0, 2.0, 3.0])
    other = matrix * 2
    assert (matrix @ torch.tensor([1.0, 0.0, 0.0])).tolist() == [1.0, 0.0]
    matrix.col_indices()[0] = 1
    assert (matrix @ torch.tensor([1.0, 0.0, 0.0])).tolist() == [0.0, 0.0]
    assert (other @ torch.tensor([0.0, 1.0, 0.0])).tolist() == [2.0, 6.0]
    matrix.col_indices()[0] = 3
    with pytest.raises(RuntimeError, match="0 <= col_indices < ncols"):
        matrix @ torch.ones(3)


def test_a_prepared_matrix_multiplies_as_the_jacobian():
    x = torch.rand(9, dtype=torch.float64)
    for layout in ("csr", "csc"):
        prepared = func.jacobian(second_difference, sparse=True, layout=layout).prepare(x)
        for y in (x, x * 2):
            want = func.jacrev(second_difference)(y) @ x
            torch.testing.assert_close(prepared(y) @ x, want)
            torch.testing.assert_close(prepared(y).t() @ x, func.vjp(second_difference, y)[1](x)[0])


def test_inputs_without_derivatives_are_refused_by_name():
    with pytest.raises(TypeError, match="sparsity: it takes the inputs of the function"):
        func.sparsity(torch.sin)
    with pytest.raises(TypeError, match="sparsity: the inputs must be Tensors, got int"):
        func.sparsity(torch.sin, 3)
    with pytest.raises(ValueError, match="laplacian: the inputs must be floating point or complex"):
        func.laplacian(torch.sin)(torch.ones(2, dtype=torch.int64))
