"""Solutions of equations as functions: `func.root`, `fixed_point`, `argmin`, `linear_solve`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as torch
from tapegrad import func, nn
from tapegrad.autograd import gradcheck, gradgradcheck

F64 = torch.float64
LINEAR = ("direct", "gmres")


def doubles(*values: Any) -> Any:
    return torch.tensor(*values, dtype=F64)


@pytest.fixture
def cubic() -> Callable[..., Any]:
    """The solution of A x + x**3 = b."""

    def solved(a: Any, b: Any, linear: str = "auto") -> Any:
        zero = torch.zeros(3, dtype=F64)
        return func.root(lambda x, a, b: a @ x + x**3 - b, zero, a, b, linear=linear)

    return solved


def system() -> tuple[Any, Any]:
    torch.manual_seed(0)
    return torch.randn(3, 3, dtype=F64) + 4 * torch.eye(3, dtype=F64), torch.randn(3, dtype=F64)


# ---------------------------------------------------------------------- derivatives


@pytest.mark.parametrize("linear", LINEAR)
def test_a_root_against_finite_differences(linear: str, cubic: Callable[..., Any]) -> None:
    inputs = tuple([t.requires_grad_() for t in system()])
    assert gradcheck(
        lambda a, b: cubic(a, b, linear), inputs, check_forward_ad=True, check_batched_grad=True
    )
    assert gradgradcheck(lambda a, b: cubic(a, b, linear), inputs)


@pytest.mark.parametrize("linear", LINEAR)
def test_derivatives_of_every_order(linear: str) -> None:
    a = doubles(2.0).requires_grad_()
    y = func.root(lambda x, a: x * x - a, doubles(1.0), a, linear=linear)
    expected, power = 2.0**0.5, 0.5
    for _ in range(5):
        assert y.item() == pytest.approx(expected, rel=1e-12)
        (y,) = torch.autograd.grad(y, a, create_graph=True)
        expected, power = expected * power / 2.0, power - 1


@pytest.mark.parametrize("linear", LINEAR)
def test_taylor_mode_through_a_root(linear: str) -> None:
    """Against the same root by Newton steps written out."""
    x, v = doubles([0.3, 0.7]), doubles([1.0, -2.0])

    def solved(x: Any) -> Any:
        start = torch.tensor([0.1], dtype=F64)
        found = func.root(lambda z, x: z**3 + z - x.sin().sum(), start, x, tol=1e-13, linear=linear)
        return found.sum()

    def unrolled(x: Any) -> Any:
        z = torch.tensor(0.1, dtype=F64)
        for _ in range(40):
            z = z - (z**3 + z - x.sin().sum()) / (3 * z**2 + 1)
        return z

    series = ([v, v.cos(), v * 0],)
    value, got = func.jet(solved, (x,), series)
    for a, b in zip(got, func.jet(unrolled, (x,), series)[1], strict=True):
        assert a.item() == pytest.approx(b.item(), rel=1e-8)
    laplacian = func.laplacian(solved)(x)
    assert laplacian.item() == pytest.approx(func.hessian(unrolled)(x).trace().item(), rel=1e-8)
    # Nothing requires grad, so nothing keeps a history.
    for t in (value, *got, laplacian, func.jacfwd(solved)(x), func.jacfwd(func.jacfwd(solved))(x)):
        assert not t.requires_grad


@pytest.mark.parametrize("linear", LINEAR)
def test_transforms_around_and_inside(linear: str) -> None:
    """The square root, with its argument given or read from outside."""

    def given(a: Any) -> Any:
        return func.root(lambda x, a: x * x - a, doubles(1.0), a, linear=linear)

    def read(a: Any) -> Any:
        return func.root(lambda x: x * x - a, doubles(1.0), linear=linear)

    points = doubles([1.0, 2.0, 9.0])
    first, second = 0.5 * points**-0.5, -0.25 * points**-1.5
    for f in (given, read):
        torch.testing.assert_close(func.vmap(f)(points), points.sqrt())
        torch.testing.assert_close(func.vmap(func.grad(f))(points), first)
        torch.testing.assert_close(func.jacrev(func.vmap(f))(points), first.diag())
        torch.testing.assert_close(func.jacfwd(func.vmap(f))(points), first.diag())
        for outer in (func.grad, func.jacfwd, func.jacrev):
            for inner in (func.grad, func.jacfwd):
                torch.testing.assert_close(func.vmap(outer(inner(f)))(points), second)

    def inside(x: Any, a: Any) -> Any:
        """The residual is a derivative: of x**3 / 3 - a x."""
        return func.grad(lambda x: x**3 / 3 - a * x)(x)

    found = func.grad(lambda a: func.root(inside, doubles(1.0), a, linear=linear))(doubles(2.0))
    assert found.item() == pytest.approx(0.5 * 2**-0.5)


def test_batches_of_batches(cubic: Callable[..., Any]) -> None:
    torch.manual_seed(1)
    a = torch.randn(2, 3, 3, dtype=F64) + 4 * torch.eye(3, dtype=F64)
    b = torch.randn(3, 5, dtype=F64)
    of_both = func.vmap(func.vmap(func.jacrev(cubic, (0, 1)), (None, 1)), (0, None))(a, b)
    for i in range(2):
        for j in range(5):
            alone = func.jacrev(cubic, (0, 1))(a[i], b[:, j])
            for many, one in zip(of_both, alone, strict=True):
                torch.testing.assert_close(many[i, j], one)


def test_a_batch_of_which_some_are_solved_at_once() -> None:
    start = doubles([1.0, 3.0, -2.0])
    found = func.vmap(lambda x0, a: func.root(lambda x, a: x * x - a, x0, a))(
        start, doubles([1.0, 2.0, 4.0])
    )
    torch.testing.assert_close(found, doubles([1.0, 2.0**0.5, -2.0]))
    values = func.vmap(lambda a: func.fixed_point(lambda x: (x + a / x) / 2, doubles(1.0)))
    torch.testing.assert_close(values(doubles([1.0, 2.0, 1e6])), doubles([1.0, 2**0.5, 1e3]))


# ---------------------------------------------------------------------- what people do with it


@pytest.mark.parametrize("linear", LINEAR)
def test_a_layer_at_equilibrium(linear: str) -> None:
    """Gradients of a module's parameters, and of an input, are those of 200 unrolled iterations."""
    torch.manual_seed(0)
    cell = nn.Linear(6, 6).double()
    cell.weight.data *= 0.5
    data = torch.randn(4, 6, dtype=F64, requires_grad=True)

    def step(z: Any) -> Any:
        return torch.tanh(cell(z) + data)

    start = torch.zeros(4, 6, dtype=F64)
    tensors = (cell.weight, cell.bias, data)
    z = func.fixed_point(step, start, linear=linear, tol=1e-14)
    found = torch.autograd.grad(z.square().sum(), tensors)
    z = start
    for _ in range(200):
        z = step(z)
    for a, b in zip(found, torch.autograd.grad(z.square().sum(), tensors), strict=True):
        torch.testing.assert_close(a, b)


def test_a_training_step_through_an_equilibrium() -> None:
    torch.manual_seed(0)
    cell, head = nn.Linear(8, 8), nn.Linear(8, 1)
    with torch.no_grad():
        cell.weight.mul_(0.3)
    x = torch.randn(16, 8)
    y = x.square().mean(1, keepdim=True)
    optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=0.02)
    losses = []
    for _ in range(15):
        z = func.fixed_point(lambda z: torch.tanh(cell(z) + x), torch.zeros(16, 8))
        loss = nn.functional.mse_loss(head(z), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]


def test_gradients_of_hyperparameters_of_ridge_regression() -> None:
    """How a validation loss depends on the penalty is known in closed form."""
    torch.manual_seed(0)
    x, y = torch.randn(30, 5, dtype=F64), torch.randn(30, dtype=F64)
    new_x, new_y = torch.randn(20, 5, dtype=F64), torch.randn(20, dtype=F64)

    def by_formula(penalty: Any) -> Any:
        return torch.linalg.solve(x.T @ x + penalty * torch.eye(5, dtype=F64), x.T @ y)

    def cost(w: Any, penalty: Any) -> Any:
        return ((x @ w - y).square().sum() + penalty * w.square().sum()) / 2

    def by_minimum(penalty: Any) -> Any:
        return func.argmin(cost, torch.zeros(5, dtype=F64), penalty)

    def validation(fitted: Callable[..., Any], penalty: Any) -> Any:
        return (new_x @ fitted(penalty) - new_y).square().mean()

    for order in range(3):
        values = []
        for fitted in (by_formula, by_minimum):
            f: Any = lambda p, fitted=fitted: validation(fitted, p)  # noqa: E731
            for _ in range(order):
                f = func.grad(f)
            values.append(f(doubles(3.0)))
        torch.testing.assert_close(values[1], values[0])


def test_a_steady_state() -> None:
    """How the rest point of a predator-prey system moves with its four rates."""

    def flow(state: Any, rates: Any) -> Any:
        prey, hunters = state
        a, b, c, d = rates
        return torch.stack([a * prey - b * prey * hunters, c * prey * hunters - d * hunters])

    rates = doubles([1.1, 0.4, 0.1, 0.3])
    found = func.root(flow, doubles([2.0, 2.0]), rates)
    torch.testing.assert_close(found, doubles([3.0, 2.75]))
    moved = func.jacrev(lambda rates: func.root(flow, doubles([2.0, 2.0]), rates))(rates)
    expected = doubles([[0.0, 0.0, -30.0, 10.0], [2.5, -2.75 / 0.4, 0.0, 0.0]])
    torch.testing.assert_close(moved, expected)


@pytest.mark.parametrize("linear", ["auto", "cg", "gmres"])
def test_linear_equations_by_products(linear: str) -> None:
    torch.manual_seed(0)
    factor = torch.randn(3, 3, dtype=F64)
    a = (factor @ factor.T + torch.eye(3, dtype=F64)).requires_grad_()
    b = torch.randn(3, dtype=F64, requires_grad=True)

    def by_values(a: Any, b: Any) -> Any:
        return func.linear_solve(lambda x: (a + a.T) @ x / 2, b, linear=linear)

    torch.testing.assert_close(by_values(a, b), torch.linalg.solve(a, b))
    torch.testing.assert_close(func.linear_solve(a, b, linear=linear), torch.linalg.solve(a, b))
    assert gradcheck(by_values, (a, b), check_forward_ad=True)
    assert gradgradcheck(by_values, (a, b))


def test_ten_thousand_unknowns_without_a_matrix() -> None:
    """A nonlinear boundary value problem: -u'' + u**3 = f, and its sensitivity to f."""
    n = 10_000
    f = torch.full((n,), 1.0, dtype=F64, requires_grad=True)

    def residual(u: Any, f: Any) -> Any:
        around = nn.functional.pad(u, (1, 1))
        return 4 * u - around[2:] - around[:-2] + u**3 - f

    u = func.root(residual, torch.zeros(n, dtype=F64), f)
    assert residual(u, f).abs().max() < 1e-9
    (g,) = torch.autograd.grad(u.sum(), f)
    h = 1e-4
    moved = func.root(residual, u.detach(), (f + h).detach()) - u
    assert g.sum().item() == pytest.approx((moved.sum() / h).item(), rel=1e-3)


def test_the_minimum_of_a_curved_valley() -> None:
    def valley(x: Any, a: Any) -> Any:
        return (1 - x[0]) ** 2 + a * (x[1] - x[0] ** 2) ** 2

    start = doubles([-1.2, 1.0])
    found = func.vmap(lambda a: func.argmin(valley, start, a))(doubles([1.0, 10.0, 100.0]))
    torch.testing.assert_close(found, torch.ones(3, 2, dtype=F64))


def test_a_minimum_is_found_from_a_saddle_point() -> None:
    """Where the gradient vanishes without a minimum the search goes on, or raises."""

    def double_well(x: Any, a: Any) -> Any:
        return (x * x - a).square().sum()

    zero = torch.zeros(2, dtype=F64)
    for linear in ("auto", "direct", "cg"):
        found = func.argmin(double_well, zero, doubles([1.0, 4.0]), linear=linear)
        torch.testing.assert_close(found.abs(), doubles([1.0, 2.0]))
    # Newton's method alone goes to the saddle point in the middle.
    found = func.argmin(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4, doubles([1.0, 0.0]))
    torch.testing.assert_close(found.abs(), doubles([0.0, 0.5**0.5]))
    every = func.vmap(lambda a: func.argmin(double_well, zero, a))(doubles([1.0, 4.0, -1.0]))
    torch.testing.assert_close(every.abs(), doubles([[1.0, 1.0], [2.0, 2.0], [0.0, 0.0]]))
    weights = torch.linspace(1, 2, 600, dtype=F64)

    def one_well(x: Any) -> Any:
        return (weights * x * x).sum() - 4 * x[9] ** 2 + x[9] ** 4

    found = func.argmin(one_well, torch.zeros(600, dtype=F64))
    assert (found.abs() > 1e-6).sum() == 1
    torch.testing.assert_close(found[9] ** 2, (4 - weights[9]) / 2)
    flat = func.argmin(lambda x: (x**4).sum(), zero)  # a Hessian of zeros is no saddle point
    assert flat.count_nonzero() == 0
    with pytest.raises(func.NotConverged, match="argmin: "):
        func.argmin(lambda x: -x.square().sum(), zero)
    with pytest.raises(func.NotConverged, match="saddle point or a maximum"):
        # Only one point is known to this cost: every step from it costs more.
        func.argmin(lambda x: torch.where((x == 0).all(), -x.square(), 1.0).sum(), zero)


# ---------------------------------------------------------------------- dtypes, modes


def test_single_precision_and_shapes() -> None:
    x0 = torch.ones(2, 3)
    found = func.root(lambda x, a: x**2 - a, x0, torch.full((2, 3), 2.0))
    assert found.dtype == torch.float32 and found.shape == (2, 3)
    torch.testing.assert_close(found, torch.full((2, 3), 2.0).sqrt())
    assert not found.requires_grad
    assert func.root(lambda x: x * x - x, torch.zeros(0)).shape == (0,)


def test_structures_of_arguments_and_constants() -> None:
    a = doubles([4.0, 9.0]).requires_grad_()
    found = func.root(
        lambda x, p, count: x**count - p["a"], doubles([1.0, 1.0]), {"a": a, "unused": a * 2}, 2
    )
    (g,) = torch.autograd.grad(found.sum(), a)
    torch.testing.assert_close(g, 0.5 * a.detach() ** -0.5)


def test_without_gradients_nothing_is_recorded() -> None:
    a = doubles(2.0).requires_grad_()
    with torch.no_grad():
        assert not func.root(lambda x: x * x - a, doubles(1.0)).requires_grad
    start = doubles(1.0).requires_grad_()
    (g,) = torch.autograd.grad(func.root(lambda x: x * x - a, start), a)
    assert g.item() == pytest.approx(0.5 * 2**-0.5)
    assert start.grad is None


def test_compiled() -> None:
    @torch.compile
    def step(a: Any) -> Any:
        x = func.root(lambda x, a: x * x - a, doubles(1.0), a)
        return torch.autograd.grad(x * 3, a)[0]

    for value in (2.0, 3.0, 5.0, 2.0, 7.0):
        a = doubles(value).requires_grad_()
        assert step(a).item() == pytest.approx(1.5 * value**-0.5)


# ---------------------------------------------------------------------- what is refused


def test_no_solution_is_an_error_with_the_residual() -> None:
    with pytest.raises(func.NotConverged, match=r"root: no step makes the error smaller") as error:
        func.root(lambda x: x * x + 1, doubles(0.7))
    assert error.value.residual >= 1 and error.value.steps > 0
    with pytest.raises(func.NotConverged, match=r"root: not solved; start nearer .* after 2 steps"):
        func.root(lambda x: x**3 - 7, doubles(50.0), max_steps=2)
    with pytest.raises(func.NotConverged, match="root: the Jacobian is singular"):
        func.root(lambda x: x.sum() + 0 * x - 1, doubles([2.0, 3.0]))
    with pytest.raises(func.NotConverged, match="fixed_point: "):
        func.fixed_point(lambda x: x + 1, doubles(0.0), max_steps=20)
    with pytest.raises(func.NotConverged, match="argmin: "):
        func.argmin(lambda x: x.sum(), doubles([1.0]), max_steps=20)
    with pytest.raises(func.NotConverged, match="linear_solve: "):
        func.linear_solve(torch.zeros(2, 2), torch.ones(2), linear="gmres")
    with pytest.raises(func.NotConverged, match="1 of 3 equations of the batch are not solved"):
        func.vmap(lambda a: func.root(lambda x: x * x - a, doubles(0.7)))(doubles([1.0, -1.0, 2.0]))
    with pytest.raises(func.NotConverged, match="left the finite numbers"):
        func.fixed_point(lambda x: x * np.inf, doubles(1.0))


def test_functions_that_are_not_linear_are_refused() -> None:
    with pytest.raises(ValueError, match="linear_solve: the function is not linear"):
        func.linear_solve(lambda x: x * x + 2 * x, doubles([1.0, 2.0]))
    with pytest.raises(ValueError, match=r"linear_solve: x0 must have the shape of b, \(2,\)"):
        func.linear_solve(torch.eye(2), torch.ones(2), x0=torch.ones(3))
    hilbert = 1 / (torch.arange(8.0)[:, None] + torch.arange(8.0) + 1)
    for scale in (1.0, 1e-20, 1e18):  # badly conditioned, but linear
        found = func.linear_solve(hilbert * scale, torch.ones(8))
        assert found.isfinite().all()


def test_a_tensor_that_cannot_be_followed_is_refused() -> None:
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(x: Any, a: Any) -> Any:
            return x**3 * a

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, a = ctx.saved_tensors
            return 3 * x**2 * a * g, x**3 * g

    a = doubles(2.0).requires_grad_()
    with pytest.raises(RuntimeError, match="root: the function reads a tensor that requires grad"):
        func.root(lambda x: Cube.apply(x, a) - 1, doubles(1.0))
    found = func.root(lambda x, a: Cube.apply(x, a) - 1, doubles(1.0), a)
    (g,) = torch.autograd.grad(found, a)
    assert g.item() == pytest.approx(-(2.0 ** (-4 / 3)) / 3)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: func.root(3, torch.ones(1)), TypeError, "root: the first argument must be a func"),
        (lambda: func.root(torch.cos, 1.0), TypeError, "root: x0 must be a Tensor, got float"),
        (
            lambda: func.root(torch.cos, torch.ones(2, dtype=torch.int64)),
            TypeError,
            "root: x0 must have a real floating-point dtype, got torch.int64",
        ),
        (
            lambda: func.root(torch.sum, torch.ones(2)),
            ValueError,
            r"root: the function must return a tensor of the shape \(2,\), got \(\)",
        ),
        (
            lambda: func.argmin(torch.cos, torch.ones(2)),
            ValueError,
            r"argmin: the function must return a tensor of the shape \(\), got \(2,\)",
        ),
        (
            lambda: func.root(torch.cos, torch.ones(2), linear="lu"),
            ValueError,
            "root: linear must be one of auto, direct, cg, gmres, got 'lu'",
        ),
        (
            lambda: func.fixed_point(torch.cos, torch.ones(2), max_steps=0),
            ValueError,
            "fixed_point: max_steps must be a positive int, got 0",
        ),
        (
            lambda: func.fixed_point(torch.cos, torch.ones(2), tol=-1.0),
            ValueError,
            "fixed_point: tol must be a positive number, got -1.0",
        ),
        (
            lambda: func.linear_solve(torch.ones(2, 3), torch.ones(2)),
            ValueError,
            r"linear_solve: a matrix must be n x n and b have n numbers, got the shapes \(2, 3\)",
        ),
    ],
)
def test_bad_input(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype: Any) -> None:
    """Decompositions, which there are none of in half precision, run in float32."""
    one = torch.ones((), dtype=dtype)
    close = {"rtol": 2e-2, "atol": 2e-2, "check_dtype": False}
    torch.testing.assert_close(func.root(lambda x: x * x - 2, one), doubles(2**0.5), **close)
    torch.testing.assert_close(func.fixed_point(torch.cos, one), doubles(0.739085), **close)
    found = func.argmin(lambda x, a: (x - a).square().sum(), torch.zeros(2, dtype=dtype), 3 * one)
    assert found.dtype == dtype
    torch.testing.assert_close(found, doubles([3.0, 3.0]), **close)
    slope = func.grad(lambda a: func.root(lambda x: x * x - a, one))(2 * one)
    torch.testing.assert_close(slope, doubles(0.5 / 2**0.5), **close)
