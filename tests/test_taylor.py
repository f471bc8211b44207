"""Taylor mode against nested forward mode, for the whole table of functions; the operators."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import tapegrad as torch
from table import APIS, PURE, call, draw, plain, tensors_in
from tapegrad import diagnose, func, nn
from tapegrad.core.base import wrap
from tapegrad.core.late_bound import HOST_KERNELS

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of functions that are outdated


def f64(*values: Any) -> Any:
    return torch.tensor(values, dtype=torch.float64)


def close(got: Any, want: Any, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=tolerance, atol=tolerance)


def as_function(name: str, index: int) -> tuple[Any, list[Any]]:
    """A sample call as a function of its floating point tensors, and their values."""
    _, _, made = draw(name, index, plain)
    moving = [i for i, t in enumerate(made) if t._array.dtype.kind in "fc"]

    def function(*values: Any) -> list[Any]:
        queue = list(values)

        def give(array: Any) -> Any:
            return queue.pop(0) if array.dtype.kind in "fc" else wrap(array)

        args, kwargs, _ = draw(name, index, give)
        return [t for t in tensors_in(call(name, args, kwargs)) if t._array.dtype.kind in "fc"]

    return function, [made[i] for i in moving]


def ways(values: list[Any], order: int) -> list[list[Any]]:
    rng = np.random.default_rng(order)
    return [
        [wrap(rng.standard_normal(v._array.shape).astype(v._array.dtype)) for _ in range(order)]
        for v in values
    ]


def nested(function: Any, values: list[Any], series: list[list[Any]], order: int) -> list[Any]:
    """The derivatives of a function along a path, by forward mode over forward mode."""

    def along(t: Any) -> list[Any]:
        moved = []
        for x, derivatives in zip(values, series, strict=True):
            for k, d in enumerate(derivatives, 1):
                x = x + (t**k / math.factorial(k)).to(d.dtype) * d
            moved.append(x)
        return function(*moved)

    found = []
    for _ in range(order):

        def along(t: Any, before: Any = along) -> list[Any]:
            return func.jvp(before, (t,), (torch.ones_like(t),))[1]

        found.append(along(f64(0.0)[0]))
    return found


def compare(name: str, index: int, order: int) -> None:
    function, values = as_function(name, index)
    if not values or not function(*values):
        return
    series = ways(values, order)
    try:
        want = nested(function, values, series, order)
    except (NotImplementedError, RuntimeError):  # no derivative of that order
        with pytest.raises((NotImplementedError, RuntimeError)):
            func.jet(function, tuple(values), series)
        return
    got = func.jet(function, tuple(values), series)[1]
    for k in range(order):
        for a, b in zip(got[k], want[k], strict=True):
            scale = max(1.0, float(np.abs(b._array).max(initial=0.0)))
            np.testing.assert_allclose(
                a._array / scale,
                b._array / scale,
                rtol=1e-8,
                atol=1e-8,
                err_msg=f"sample {index}, order {k + 1}",
            )


@pytest.mark.slow
@pytest.mark.parametrize("name", PURE)
def test_like_nested_forward_mode(name):
    compare(name, 0, 3)


@pytest.mark.thorough
@pytest.mark.parametrize("name", PURE)
def test_like_nested_forward_mode_in_all_samples(name):
    for index in range(len(APIS[name].samples)):
        compare(name, index, 4)


@pytest.mark.slow
@pytest.mark.parametrize("name", PURE)
def test_the_laplacian_is_the_trace_of_the_hessian(name):
    function, values = as_function(name, 0)
    real = [i for i, v in enumerate(values) if v._array.dtype.kind == "f" and v._array.size]
    if not real or not function(*values):
        return
    i = real[0]
    try:
        diagonal = func.hessian_diag(function, i)(*values)
    except (NotImplementedError, RuntimeError):
        with pytest.raises((NotImplementedError, RuntimeError)):
            func.laplacian(function, i)(*values)
        return
    for a, b in zip(func.laplacian(function, i)(*values), diagonal, strict=True):
        if not a.numel():
            continue
        want = b.reshape(*a.shape, -1).sum(-1)
        scale = max(1.0, float(np.abs(want._array).max(initial=0.0)))
        np.testing.assert_allclose(a._array / scale, want._array / scale, rtol=1e-8, atol=1e-8)


# ---------------------------------------------------------------------- programs


def writes(x: Any) -> Any:
    y = x.sin()
    y[1:].mul_(x[:-1])
    y.view(-1).add_(x * x)
    made = torch.zeros(x.shape[0], dtype=x.dtype)
    made[::2] = y[::2] ** 2
    made += y.flip(0)
    return made * y


def attends(x: Any) -> Any:
    q = x.reshape(1, 2, -1)
    return torch.nn.functional.scaled_dot_product_attention(q, q * 2, q.cos()).sum(-1)


def field(x: Any) -> Any:
    return torch.fft.rfft(x * x).abs() + torch.linalg.inv(torch.diag(x) + 3)[0, 0]


def with_gradient(x: Any) -> Any:
    return func.grad(lambda v: (v.exp() * v.roll(1)).sum())(x) * x


PROGRAMS = {f.__name__: f for f in (writes, attends, field, with_gradient)}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    f = PROGRAMS[name]
    torch.manual_seed(3)
    x, v = torch.randn(2, 6, dtype=torch.float64)
    series = [[v, v.cos(), v.sin(), v * 0]]
    wrapped = lambda t: [f(t)]  # noqa: E731
    for got, want in zip(
        func.jet(wrapped, (x,), series)[1], nested(wrapped, [x], series, 4), strict=True
    ):
        close(got[0], want[0])
    close(func.laplacian(f)(x), func.hessian(f)(x).diagonal(dim1=-2, dim2=-1).sum(-1))


def test_jet_returns_the_structure_of_the_function():
    x, v = f64(0.5, 2.0), f64(1.0, -1.0)
    value, derivatives = func.jet(
        lambda a, b: {"p": a * b, "q": (a.log(),)}, (x, x + 1), ([v, v], [v, v * 0])
    )
    close(value["p"], x * (x + 1))
    close(derivatives[0]["p"], v * (x + 1) + v * x)
    close(derivatives[1]["p"], 2 * v * v + v * (x + 1))
    close(derivatives[1]["q"][0], v / x - v * v / (x * x))


def test_jet_of_high_order():
    """exp(t) has one derivative for ever; orders that nested forward mode would not reach."""
    zero = f64(0.0)[0]
    _, derivatives = func.jet(
        lambda t: (t.exp(), (1 / (1 - t))), (zero,), ([zero + 1] + [zero] * 11,)
    )
    for k, (e, g) in enumerate(derivatives, 1):
        assert e.item() == pytest.approx(1.0)
        assert g.item() == pytest.approx(math.factorial(k))


def test_derivatives_of_derivatives():
    x = f64(0.3, -0.7, 1.1)

    def f(x: Any) -> Any:
        return (x.sin() * x.roll(1).exp()).sum() * x.prod()

    def second(x: Any) -> Any:
        return func.hessian(f)(x).diagonal().sum()

    close(func.grad(func.laplacian(f))(x), func.grad(second)(x))
    close(func.jacfwd(func.laplacian(f))(x), func.grad(second)(x))
    close(func.hessian(func.laplacian(f))(x), func.hessian(second)(x))
    rows = torch.stack([x, x * 2, x - 1])
    close(func.vmap(func.laplacian(f))(rows), torch.stack([second(row) for row in rows]))
    close(func.biharmonic(f)(x), func.laplacian(func.laplacian(f))(x))
    pairs = itertools.product(range(3), repeat=2)
    fourth = func.hessian(func.hessian(f))(x)
    close(func.biharmonic(f)(x), sum([fourth[i, i, j, j] for i, j in pairs]))


def test_parameters_learn_from_a_laplacian():
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)
    ).double()
    points = torch.randn(5, 3, dtype=torch.float64)

    def f(x: Any) -> Any:
        return net(x).squeeze(-1)

    def by_hessian(x: Any) -> Any:
        return func.hessian(f)(x).diagonal().sum()

    gradients = []
    for of in (func.laplacian(f), by_hessian):
        loss = (func.vmap(of)(points) - 1).square().mean()
        gradients.append(torch.autograd.grad(loss, list(net.parameters()), allow_unused=True))
    for a, b in zip(*gradients, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            close(a, b)


# ---------------------------------------------------------------------- operators


def test_directions_and_chunks():
    x = f64(0.5, -1.0, 2.0)
    f = lambda x: (x.sin() * x.roll(1)).sum()  # noqa: E731
    whole = func.laplacian(f)(x)
    for size in (1, 2, 3, 7):
        close(func.laplacian(f, chunk_size=size)(x), whole)
    rows = torch.randn(4, 3, dtype=torch.float64)
    hessian = func.hessian(f)(x)
    want = sum([row @ hessian @ row for row in rows]) / 4
    close(func.laplacian(f, directions=rows)(x), want)
    # Directions of +1 and -1 are exact where the Hessian is diagonal.
    close(func.laplacian(lambda x: x.exp().sum(), directions=2)(x), x.exp().sum())
    close(func.divergence(lambda x: x.exp(), directions=2)(x), x.exp().sum())


def test_stochastic_taylor_estimates_of_a_biharmonic():
    x = f64(0.5, -1.0, 2.0)
    f = lambda x: (x.sin() * x.roll(1)).exp().sum()  # noqa: E731
    rows = torch.randn(4, 3, dtype=torch.float64)
    want = 0.0
    for row in rows:
        along = lambda s, row=row: f(x + s * row)  # noqa: E731
        for _ in range(4):
            along = func.grad(along)
        want += along(f64(0.0).squeeze()) / 12
    close(func.biharmonic(f, directions=rows)(x), want)
    torch.manual_seed(0)
    # Each direction gives 8 |v|^4: 120 in the mean, with a standard deviation of 8 * 720 ** 0.5.
    found = func.biharmonic(lambda x: (x @ x) ** 2, directions=4000)(x)
    assert abs(found.item() - 120) < 4 * 8 * (720 / 4000) ** 0.5
    with pytest.raises(ValueError, match="positive int or a tensor"):
        func.biharmonic(f, directions=0)(x)
    with pytest.raises(ValueError, match="must have the shape"):
        func.biharmonic(f, directions=x)(x)


def test_divergence():
    x = f64(0.5, -1.0, 2.0)
    f = lambda x: x.roll(1) * x**2  # noqa: E731
    close(func.divergence(f)(x), func.jacrev(f)(x).diagonal().sum())
    grid = torch.randn(2, 3, dtype=torch.float64)
    close(func.divergence(lambda g: g.cos())(grid), -grid.sin().sum())


def test_operator():
    torch.manual_seed(1)
    x = torch.randn(3, dtype=torch.float64)
    matrix = torch.randn(3, 3, dtype=torch.float64)
    drift = torch.randn(3, dtype=torch.float64)
    f = lambda x: (x.sin() * x.roll(1).exp()).sum()  # noqa: E731
    hessian, slope = func.hessian(f)(x), func.grad(f)(x)
    close(func.operator(f, matrix)(x), (matrix * hessian).sum())
    close(func.operator(f, drift)(x), (drift * hessian.diagonal()).sum())
    close(func.operator(f, 2.0)(x), 2 * hessian.trace())
    close(func.operator(f, -1.0, drift, 3.0)(x), -hessian.trace() + drift @ slope + 3 * f(x))
    close(
        func.operator(f, matrix, 0.5, 3.0, chunk_size=2)(x),
        (matrix * hessian).sum() + 0.5 * slope.sum() + 3 * f(x),
    )
    # Coefficients that vary, for many points at once, and that are differentiated themselves.
    varied = func.operator(f, lambda x: torch.outer(x, x), lambda x: x, lambda x: x.sum())
    points = torch.randn(4, 3, dtype=torch.float64)
    want = [p @ func.hessian(f)(p) @ p + p @ func.grad(f)(p) + p.sum() * f(p) for p in points]
    close(func.vmap(varied)(points), torch.stack(want))
    matrix.requires_grad_()
    (found,) = torch.autograd.grad(func.operator(f, matrix)(x), matrix)
    close(found, (hessian + hessian.T) / 2)


def test_compiled():
    net = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    of = func.vmap(func.laplacian(lambda x: net(x).squeeze(-1)))
    compiled = torch.compile(of)
    for seed in range(6):
        torch.manual_seed(seed)
        points = torch.randn(5, 4)
        torch.testing.assert_close(compiled(points), of(points))


def test_layers_cost_one_product_per_value_slopes_and_bends():
    """Of a layer, the value, all first derivatives and the sum of second ones: three products."""
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    points = torch.randn(5, 4)
    with torch.no_grad():
        of = func.vmap(func.laplacian(lambda x: net(x).squeeze(-1)))
        text = str(diagnose.program(of)(points))
    made = [line for line in text.splitlines() if " @ " in line or "addmm(" in line]
    # The first layer's second derivatives are zero.
    assert len(made) == 5, text
    assert "bmm(" not in text and not any(["* c" in line for line in made])


@pytest.mark.filterwarnings("error")  # which say what cannot be compiled
def test_coefficients_and_parts_are_compiled():
    scale = torch.tensor([0.5, -1.0, 2.0])
    weight = torch.randn(3, 4)
    pairs = torch.tensor([[0, 1], [1, 2]])

    def features(row: Any) -> Any:
        return torch.tanh(row @ weight)

    functions = [
        func.operator(lambda x: (x.sin() * x.roll(1)).sum(), scale, lambda x: scale * x),
        func.laplacian(lambda x: (x.sin() * x.roll(1)).sum(), directions=torch.randn(4, 3)),
        func.laplacian(lambda a, b: a.sum() * b.sum(), parts=[features, (of_two, pairs)]),
    ]
    for of, size in zip(functions, [(5, 3), (5, 3), (5, 3, 3)], strict=True):
        mapped = func.vmap(of)
        compiled = torch.compile(mapped)
        for seed in range(6):
            torch.manual_seed(seed)
            points = torch.randn(*size)
            torch.testing.assert_close(compiled(points), mapped(points))
        scale.mul_(2)  # replays read it, too
        torch.testing.assert_close(compiled(points), mapped(points))


# ---------------------------------------------------------------------- functions of users


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(x: Any) -> Any:
        return x**3

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 3 * ctx.saved_tensors[0] ** 2 * g

    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        return 3 * ctx.saved_tensors[0] ** 2 * t

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any) -> Any:
        return Cube.apply(x), in_dims[0]


class ExpAndSin(torch.autograd.Function):
    """Two outputs, of which `jvp` reads one, and an argument that is no tensor."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, y: Any, scale: float) -> Any:
        return x.exp() * scale, (x * y).sin()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs[:2], output[0])
        ctx.save_for_forward(*inputs[:2], output[0])

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        x, y, e = ctx.saved_tensors
        c = (x * y).cos()
        return g * e + h * c * y, h * c * x, None

    @staticmethod
    def jvp(ctx: Any, tx: Any, ty: Any, _: Any) -> Any:
        x, y, e = ctx.saved_tensors
        return tx * e, (x * y).cos() * (tx * y + x * ty)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(x: Any) -> Any:
        return x.mul_(2)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_dirty(inputs[0])

    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        return t.mul_(2)


def by_functions(x: Any) -> Any:
    a, b = ExpAndSin.apply(x.sin(), x * x, 2.0)
    return (a * b).sum() + Cube.apply(b).prod()


def by_ops(x: Any) -> Any:
    a, b = 2 * x.sin().exp(), (x.sin() * x * x).sin()
    return (a * b).sum() + (b**3).prod()


def test_functions_of_users_follow_paths_by_their_own_rule():
    x, v = f64(0.5, 1.5), f64(0.3, -1.2)
    series = ([v, v.cos(), v.sin(), v],)
    got, want = [func.jet(f, (x,), series)[1] for f in (by_functions, by_ops)]
    for a, b in zip(got, want, strict=True):
        close(a, b)
    ours, plainly = func.laplacian(by_functions), func.laplacian(by_ops)
    close(func.laplacian(lambda x: Cube.apply(x).sum())(x), 6 * x.sum())
    close(ours(x), plainly(x))
    close(func.grad(ours)(x), func.grad(plainly)(x))
    close(func.hessian(ours)(x), func.hessian(plainly)(x))
    close(func.biharmonic(by_functions)(x), func.biharmonic(by_ops)(x))
    points = torch.stack([x, x + 1, x * 0.1])
    close(func.vmap(ours)(points), func.vmap(plainly)(points))
    w = f64(0.3, 0.4).requires_grad_()
    (a,), (b,) = [
        torch.autograd.grad(func.laplacian(lambda x, f=f: f(x * w))(x), w)
        for f in (by_functions, by_ops)
    ]
    close(a, b)
    with pytest.raises(NotImplementedError, match="Taylor mode with Doubled, which writes into"):
        func.jet(lambda x: Doubled.apply(x * 1).sum(), (x,), ([v, v],))


def test_no_coefficients_of_no_inputs():
    empty = torch.zeros(0)
    f = lambda x: x.square().sum()  # noqa: E731
    assert func.operator(f, 1.0, 2.0)(empty).item() == 0
    assert func.laplacian(f)(empty).item() == 0


# ---------------------------------------------------------------------- parts of the input

PAIRS = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]


def of_one(row: Any) -> Any:
    return (row.sin() * row.roll(1)).exp()


def of_two(rows: Any) -> Any:
    return (rows[0] - rows[1]).square().sum().sqrt()


def together(single: Any, distance: Any) -> Any:
    return (single.sum(0).prod() * distance.cos().sum()).tanh() + single[0, 1] * distance[2]


def with_pairs(x: Any) -> Any:
    return together(func.vmap(of_one)(x), func.vmap(of_two)(x[torch.tensor(PAIRS)]))


def test_parts_give_the_laplacian_of_the_whole():
    torch.manual_seed(5)
    x = torch.randn(4, 3, dtype=torch.float64)
    parts = [of_one, (of_two, torch.tensor(PAIRS))]
    apart = func.laplacian(together, parts=parts)
    size = x.numel()
    want = func.hessian(with_pairs)(x).reshape(size, size).trace()
    close(apart(x), want)
    for chunk in (1, 5, 12, 40):
        close(func.laplacian(together, parts=parts, chunk_size=chunk)(x), want)
    whole = func.laplacian(with_pairs)
    close(func.grad(apart)(x), func.grad(whole)(x))
    points = torch.randn(5, 4, 3, dtype=torch.float64)
    close(func.vmap(apart)(points), torch.stack([whole(p) for p in points]))
    other = func.laplacian(
        lambda a, h, b: a * h.prod() + b, 1, parts=lambda row: row.square().sum()
    )
    # The product of |x_i|^2 over two rows of n numbers: 2 n (|x_0|^2 + |x_1|^2).
    close(other(3.0, x[:2], 7.0), 3 * 2 * 3 * x[:2].square().sum())


def test_parts_learn():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh()).double()
    points = torch.randn(4, 5, 3, dtype=torch.float64)
    gradients = []
    for of in (
        func.laplacian(lambda h: h.sum(0).prod(), parts=net),
        func.laplacian(lambda x: net(x).sum(0).prod()),
    ):
        loss = func.vmap(of)(points).square().mean()
        gradients.append(torch.autograd.grad(loss, list(net.parameters())))
    for a, b in zip(*gradients, strict=True):
        close(a, b)


def test_parts_follow_few_directions():
    """Inside of a part there are as many directions as a row has numbers, not the whole input."""
    layer = torch.nn.Linear(3, 7)
    points = torch.randn(20, 3)
    with torch.no_grad():
        program = diagnose.program(func.laplacian(lambda h: h.sum(0).prod(), parts=layer))
        text = str(program(points))
        dense = str(diagnose.program(func.laplacian(lambda x: layer(x).sum(0).prod()))(points))
    assert "(60, 7)" in text and "(1200, 7)" not in text
    assert "(1200, 7)" in dense


# ---------------------------------------------------------------------- refusals

X = torch.ones(2)
REFUSED = {
    "no derivatives": lambda: func.jet(torch.sin, (X,), ((),)),
    "one series too few": lambda: func.jet(torch.add, (X, X), ([X],)),
    "series of two lengths": lambda: func.jet(torch.add, (X, X), ([X], [X, X])),
    "another shape": lambda: func.jet(torch.sin, (X,), ([torch.ones(3)],)),
    "another dtype": lambda: func.jet(torch.sin, (X,), ([X.double()],)),
    "no such matrix": lambda: func.operator(torch.sum, torch.ones(3, 3))(X),
    "too many slopes": lambda: func.operator(torch.sum, 1.0, first=torch.ones(3))(X),
    "several zeroth": lambda: func.operator(torch.sum, 1.0, zeroth=torch.ones(3))(X),
    "no direction": lambda: func.laplacian(torch.sum, directions=0)(X),
    "directions of another shape": lambda: func.laplacian(torch.sum, directions=X)(X),
    "empty chunks": lambda: func.laplacian(torch.sum, chunk_size=0)(X),
    "a field of another shape": lambda: func.divergence(torch.sum)(X),
    "parts and directions": lambda: func.laplacian(torch.sum, parts=torch.sin, directions=2),
    "no part": lambda: func.laplacian(torch.sum, parts=[]),
    "a part of a number": lambda: func.laplacian(torch.sum, parts=torch.sin)(X[0]),
    "a list of rows": lambda: func.laplacian(torch.sum, parts=(torch.sin, torch.arange(2))),
    "a row twice": lambda: func.laplacian(torch.sum, parts=(torch.sin, torch.tensor([[1, 1]]))),
}


@pytest.mark.parametrize("what", REFUSED)
def test_bad_arguments_are_refused(what):
    with pytest.raises(ValueError):
        REFUSED[what]()


def test_what_is_no_tensor_is_refused():
    with pytest.raises(TypeError, match=r"series\[0\]\[0\] must be a Tensor, not float"):
        func.jet(torch.sin, (X,), ([1.0],))
    with pytest.raises(TypeError, match="must be tuples or lists"):
        func.jet(torch.sin, X, [[X]])
    with pytest.raises(TypeError, match="laplacian: argument 0 must be a Tensor, not float"):
        func.laplacian(lambda x: x)(2.0)
    with pytest.raises(TypeError, match="operator: `second` must be numbers or a function"):
        func.operator(torch.sum, None)(X)
    for function in (func.laplacian, func.biharmonic, func.divergence):
        with pytest.raises(TypeError, match=f"{function.__name__}: the first argument must be"):
            function(X)
    with pytest.raises(TypeError, match="`parts` must be a function, .* got int"):
        func.laplacian(torch.sum, parts=[3])
    with pytest.raises(TypeError, match="groups of a part must be a tensor, got list"):
        func.laplacian(torch.sum, parts=(torch.sin, [[0, 1]]))
    with pytest.raises(TypeError, match="a part must return one tensor, got tuple"):
        func.laplacian(torch.sum, parts=lambda row: (row, row))(X)


def test_coverage_says_how_each_op_is_differentiated():
    ways_of = func.jet.coverage()
    assert ways_of["matmul" if "matmul" in ways_of else "mm"] == "product"
    assert (ways_of["mul"], ways_of["sum"], ways_of["tanh"]) == ("product", "linear", "rule")
    assert ways_of["argmax"] == "none"


# ---------------------------------------------------------------------- by kernels

POINTS = {
    "normal": np.random.default_rng(0).standard_normal((3, 6)),
    "positive": np.random.default_rng(1).random((3, 6)) + 0.1,
    "large": np.random.default_rng(2).standard_normal((3, 6)) * 50,
    "special": np.array(
        [[0.0, 1.0, -1.0, 0.5, 20.0, -6.0], [1e30, -1e30, 1e-30, np.inf, -np.inf, np.nan]]
    ),
}
ELEMENTWISE = {
    **{
        name: getattr(torch, name)
        for name in """
        tanh sin cos sinh cosh exp exp2 expm1 log log1p log2 log10 sigmoid erf erfc atan atanh asinh
        acosh sqrt rsqrt reciprocal square logit abs lgamma sinc
        """.split()
    },
    **{
        name: getattr(nn.functional, name)
        for name in """
        gelu silu mish softplus elu selu hardswish logsigmoid softsign tanhshrink relu
        """.split()
    },
    "gelu_tanh": lambda x: nn.functional.gelu(x, approximate="tanh"),
    "pow": lambda x: x**3 + x**-2 + 2.0**x,
    "quotient": lambda x: 2 / x + x / (1 + x * x),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_kernels_give_second_derivatives_as_rules_do(name, dtype, monkeypatch):
    f = ELEMENTWISE[name]
    for points in POINTS.values():
        x = torch.tensor(points, dtype=dtype)
        found = func.vmap(func.laplacian(f))(x)
        with monkeypatch.context() as patch:
            patch.setattr(HOST_KERNELS, "elementwise_along", None)
            wanted = func.vmap(func.laplacian(f))(x)
        tight = dtype == torch.float64
        torch.testing.assert_close(
            found,
            wanted,
            rtol=1e-9 if tight else 2e-4,
            atol=1e-12 if tight else 1e-6,
            equal_nan=True,
        )


def writes_into_both(x: Any, weight: Any) -> Any:
    h = (x @ weight).tanh()
    a = h + 1.0  # has the derivatives of h
    b = h + 2.0
    a.mul_(h)
    h.add_(a.sin())
    return (a * b * h).sum()


def writes_into_views(x: Any, weight: Any) -> Any:
    h = (x @ weight).sin()
    a = h - 2.0
    a[2:4].mul_(h[1:3])
    h.view(2, 3).t()[0].exp_()
    return (a * h).sum() + a[0] * h[1]


def writes_zeros(x: Any, weight: Any) -> Any:
    h = (x @ weight).tanh()
    g = h + 0.5
    y = (g @ weight).tanh()
    g.zero_()
    h.mul_(0.5)
    return (y @ weight * h).sum() + g.sum()


def turns_in_place(x: Any, weight: Any) -> Any:
    h = (x.unsqueeze(0) @ weight).tanh() + 1
    h.t_()
    h.mul_(2.0)
    return (h @ h.t()).sum()


def looks_at_memory(x: Any, weight: Any) -> Any:
    h = (x @ weight).tanh()
    assert h.storage_offset() == 0
    return h.as_strided((3,), (2,), 0).prod() + h.as_strided((2,), (1,), 3).sum() ** 2


@pytest.mark.parametrize(
    "program",
    [writes_into_both, writes_into_views, writes_zeros, turns_in_place, looks_at_memory],
)
def test_tensors_share_derivatives_only_until_a_write(program):
    weight = torch.tensor(np.random.default_rng(3).standard_normal((6, 6)))
    x = torch.tensor(np.random.default_rng(4).standard_normal(6))

    def f(x: Any) -> Any:
        return program(x, weight)

    close(func.laplacian(f)(x), func.jacfwd(func.jacfwd(f))(x).trace())


def test_a_laplacian_is_no_part_of_a_larger_array():
    found = func.laplacian(torch.tanh)(torch.randn(50))
    assert found.untyped_storage().nbytes() == 200


def test_networks_of_several_layers_at_many_points():
    torch.manual_seed(0)
    weights = [torch.randn(4, 8), torch.randn(8, 8), torch.randn(8, 2)]
    bias = torch.randn(8)
    points = torch.randn(5, 4)

    def f(x: Any) -> Any:
        x = (x @ weights[0] + bias).tanh()
        x = (x @ weights[1]).sin() * 0.5
        return (torch.sigmoid(x @ weights[1] + bias) @ weights[2]).prod()

    found = func.vmap(func.laplacian(f))(points)
    wanted = torch.stack([func.hessian(f)(x).trace() for x in points])
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    empty = func.vmap(func.laplacian(lambda x: (x.tanh() @ torch.zeros(4, 0)).sum()))(points)
    assert empty.tolist() == [0.0] * 5
