"""Transforms against finite differences and known formulas; what the recorded programs leave out.

The behaviour that both libraries share is in programs/prog_func.py, prog_forward_*.py,
prog_function_*.py and prog_batched_grads.py.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tapegrad as torch
from tapegrad.autograd import forward_ad
from tapegrad.autograd.gradcheck_modes import GradcheckError
from tapegrad.core.transforms.levels import BATCHES, STACK, TANGENTS
from tapegrad.func import (
    grad,
    grad_and_value,
    hessian,
    hessian_diag,
    hvp,
    jacfwd,
    jacrev,
    jvp,
    laplacian,
    linearize,
    vjp,
    vmap,
)

X = np.array([0.3, -0.7, 1.1])
V = np.array([1.0, 0.5, -2.0])


def tensor(values: Any) -> Any:
    return torch.tensor(np.asarray(values).tolist(), dtype=torch.float64)


def close(got: Any, want: Any, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(
        np.asarray(got.detach().numpy()), np.asarray(want), rtol=tolerance, atol=tolerance
    )


def scalar(x: Any) -> Any:
    return (x.sin() * x**2).sum() + x.prod() * x[0]


def vector(x: Any) -> Any:
    return torch.stack([x.prod(), (x**3).sum(), x[0].exp() * x[2]])


def writes(x: Any) -> Any:
    y = x * x
    y[1:] *= x[:2]
    z = torch.zeros(3, dtype=torch.float64)
    z[0] = y[2] * x[0]
    z[1:].add_(y[1:].sin())
    return z.mul_(x)


def slope(f: Any, x: Any, step: float = 1e-5) -> Any:
    """The Jacobian by central differences, one more dimension at the end."""
    columns = []
    for i in range(len(x)):
        e = np.zeros(len(x))
        e[i] = step
        up, down = f(tensor(x + e)), f(tensor(x - e))
        columns.append((up.detach().numpy() - down.detach().numpy()) / (2 * step))
    return np.stack(columns, -1)


@pytest.fixture(autouse=True)
def nothing_is_left_open() -> Any:
    yield
    assert not STACK.levels and not BATCHES and not TANGENTS and STACK.forward


# ---------------------------------------------------------------------- first derivatives


@pytest.mark.parametrize("f", [vector, writes])
def test_jacobians_are_slopes(f):
    want = slope(f, X)
    close(jacrev(f)(tensor(X)), want, 1e-8)
    close(jacfwd(f)(tensor(X)), want, 1e-8)
    close(jvp(f, (tensor(X),), (tensor(V),))[1], want @ V, 1e-8)
    close(vjp(f, tensor(X))[1](tensor(V))[0], V @ want, 1e-8)
    close(linearize(f, tensor(X))[1](tensor(V)), want @ V, 1e-8)


def test_gradient_is_the_slope():
    close(grad(scalar)(tensor(X)), slope(scalar, X), 1e-8)
    found, out = grad_and_value(scalar)(tensor(X))
    close(found, slope(scalar, X), 1e-8)
    close(out, scalar(tensor(X)))


# ---------------------------------------------------------------------- nestings


def by_grad(f: Any) -> Any:
    def rows(x: Any) -> Any:
        shape = f(x).shape
        found = [grad(lambda t, i=i: f(t).reshape(-1)[i])(x) for i in range(shape.numel())]
        return torch.stack(found).reshape((*shape, 3))

    return rows


def by_vjp(f: Any) -> Any:
    def rows(x: Any) -> Any:
        out, pull = vjp(f, x)
        count = out.numel()
        eye = torch.eye(count, dtype=torch.float64).reshape((count, *out.shape))
        return vmap(lambda v: pull(v)[0])(eye).reshape((*out.shape, 3))

    return rows


def by_jvp(f: Any) -> Any:
    eye = torch.eye(3, dtype=torch.float64)
    return lambda x: vmap(lambda v: jvp(f, (x,), (v,))[1], out_dims=-1)(eye)


def by_linearize(f: Any) -> Any:
    eye = torch.eye(3, dtype=torch.float64)
    return lambda x: vmap(linearize(f, x)[1], out_dims=-1)(eye)


# Ways to a Jacobian.
DERIVATIVES = {
    "jacrev": jacrev,
    "jacfwd": jacfwd,
    "grad": by_grad,
    "vjp": by_vjp,
    "jvp": by_jvp,
    "linearize": by_linearize,
}


@pytest.mark.parametrize("pair", list(itertools.product(DERIVATIVES, repeat=2)), ids="-".join)
@pytest.mark.parametrize("f", [vector, writes])
def test_second_derivatives(f, pair):
    outer, inner = pair
    want = slope(jacrev(f), X)
    close(DERIVATIVES[outer](DERIVATIVES[inner](f))(tensor(X)), want, 1e-8)


@pytest.mark.parametrize(
    "triple", list(itertools.product(["jacrev", "jacfwd", "jvp"], repeat=3)), ids="-".join
)
def test_third_derivatives(triple):
    a, b, c = triple
    want = slope(jacfwd(jacrev(vector)), X)
    got = DERIVATIVES[a](DERIVATIVES[b](DERIVATIVES[c](vector)))(tensor(X))
    close(got, want, 1e-7)


def test_batches_of_derivatives():
    points = np.stack([X, X + 0.1, X * 2])
    for f in (jacrev(vector), jacfwd(vector), hessian(scalar), jacfwd(jacfwd(vector))):
        want = np.stack([f(tensor(p)).detach().numpy() for p in points])
        close(vmap(f)(tensor(points)), want)
        close(vmap(vmap(f))(tensor(points[None]))[0], want)


def test_gradient_through_a_batch_of_gradients():
    points = tensor(np.stack([X, X + 0.1]))
    got = grad(lambda p: (vmap(grad(scalar))(p) ** 2).sum())(points)
    for i in range(2):
        single = grad(lambda x: (grad(scalar)(x) ** 2).sum())(points[i])
        close(got[i], single.numpy())


# ---------------------------------------------------------------------- second derivatives of ours


def test_hvp_is_the_hessian_times_a_vector():
    x, v = tensor(X), tensor(V)
    matrix = hessian(scalar)(x)
    close(hvp(scalar, (x,), (v,)), (matrix @ v).numpy())
    product, aux = hvp(lambda t: (scalar(t), t * 2), (x,), (v,), has_aux=True)
    close(product, (matrix @ v).numpy())
    close(aux, 2 * X)
    two = hvp(lambda a, b: (a**2 * b).sum(), (x, v), (v, x))
    close(two[0], 2 * V * V + 2 * X * X)
    close(two[1], 2 * X * V)


def test_hessian_diag_and_laplacian():
    x = tensor(X)
    matrix = hessian(scalar)(x)
    close(hessian_diag(scalar)(x), matrix.diagonal().numpy())
    close(laplacian(scalar)(x), matrix.diagonal().sum().numpy())
    full = hessian(vector)(x)
    close(hessian_diag(vector)(x), full.diagonal(dim1=1, dim2=2).numpy())
    close(laplacian(vector)(x), full.diagonal(dim1=1, dim2=2).sum(-1).numpy())
    grid = tensor(np.arange(4.0).reshape(2, 2))
    close(hessian_diag(lambda t: (t**3).sum())(grid), 6 * grid.numpy())
    close(laplacian(lambda a, b: (a * b**2).sum(), argnums=1)(x, x), 2 * X.sum())


def test_laplacian_of_a_batch_and_its_gradient():
    points = tensor(np.stack([X, X * 2]))
    each = vmap(laplacian(scalar))(points)
    close(each, [float(laplacian(scalar)(p)) for p in points])
    close(grad(laplacian(scalar))(points[0]), slope(laplacian(scalar), X), 1e-7)


# ---------------------------------------------------------------------- linearize


def test_linearize_runs_the_function_once():
    calls = []

    def f(x):
        calls.append(1)
        return vector(x)

    out, push = linearize(f, tensor(X))
    matrix = jacrev(vector)(tensor(X)).numpy()
    for v in (V, X, -V):
        close(push(tensor(v)), matrix @ v)
    close(vmap(push)(torch.eye(3, dtype=torch.float64)), matrix.T)
    close(out, vector(tensor(X)))
    assert len(calls) == 1


def test_linearize_can_be_differentiated_in_its_direction():
    _, push = linearize(vector, tensor(X))
    matrix = jacrev(vector)(tensor(X)).numpy()
    close(jacrev(push)(tensor(V)), matrix)
    close(jacfwd(push)(tensor(V)), matrix)


# ---------------------------------------------------------------------- one pass for all rows


def test_jacobians_call_the_function_once():
    for jac in (jacrev, jacfwd, lambda f: jacfwd(jacrev(f)), lambda f: jacrev(jacfwd(f))):
        calls = []

        def f(x, calls=calls):
            calls.append(x.shape)
            return vector(x)

        jac(f)(tensor(X))
        assert calls == [torch.Size([3])]


def test_a_hessian_computes_values_once_not_per_direction():
    """A batch of directions is no batch of values: buffers inside need no batch either."""

    def f(x):
        out = torch.zeros(3, dtype=torch.float64)
        out[0] = x[1] ** 2
        out[1:] = x[:2] ** 3
        return (out * x).sum()

    want = slope(grad(f), X)
    close(hessian(f)(tensor(X)), want, 1e-8)
    close(jacfwd(jacfwd(f))(tensor(X)), want, 1e-8)
    close(torch.stack([hvp(f, (tensor(X),), (row,)) for row in torch.eye(3).double()]), want, 1e-8)


def test_buffers_get_a_batch_that_grad_made():
    """`grad` batches an input that has no batch itself; what it is written into has to follow."""

    def rotated(angle, x):
        matrix = torch.zeros(2, 2, dtype=torch.float64)
        corner = matrix[0, 0]
        row = matrix[1]
        matrix[0, 0] = angle.cos()
        matrix[1, 1] = angle.cos()
        matrix[0, 1] = -angle.sin()
        row[0] = angle.sin()
        return (matrix @ x).pow(3).sum() + corner * x[0]

    angle, points = tensor(0.7), tensor([[1.0, 2.0], [0.5, -1.0], [2.0, 0.3]])
    each = vmap(grad(rotated), in_dims=(None, 0))(angle, points)
    want = [float(grad(rotated)(angle, p)) for p in points]
    close(each, want)
    close(
        grad(lambda a: vmap(grad(rotated), in_dims=(None, 0))(a, points).sum())(angle),
        sum(float(hessian(rotated)(angle, p)) for p in points),
    )
    rows = vmap(lambda v: jvp(grad(writes_sum), (tensor(X),), (v,))[1])(
        torch.eye(3, dtype=torch.float64)
    )
    close(rows, slope(grad(writes_sum), X), 1e-8)


def writes_sum(x: Any) -> Any:
    return writes(x).sum()


# ---------------------------------------------------------------------- values with tangents


def test_values_keep_their_tangents():
    """What comes out of an inner grad moves along too, not only its gradient."""
    x, v = tensor(X), tensor(V)
    want = grad(scalar)(x) @ v
    (_, tangent) = jvp(lambda t: grad_and_value(scalar)(t)[1], (x,), (v,))
    close(tangent, want.numpy())
    assert not tangent.requires_grad
    close(jvp(lambda t: vjp(scalar, t)[0], (x,), (v,))[1], want.numpy())
    close(jacfwd(lambda t: grad_and_value(scalar)(t)[1])(x), grad(scalar)(x).numpy())


def test_an_error_closes_all_levels():
    def fails(x):
        raise KeyError("inside")

    for f in (grad(fails), vmap(fails), jacfwd(fails), hessian(fails), vmap(jacrev(fails))):
        with pytest.raises(KeyError):
            f(tensor(np.stack([X, X])))
    with pytest.raises(KeyError):
        jvp(fails, (tensor(X),), (tensor(V),))


# ---------------------------------------------------------------------- Functions


class Cube(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * Square.apply(x) * grad

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return 3 * Square.apply(x) * tangent


class Square(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx, grad):
        return 2 * ctx.saved_tensors[0] * grad

    @staticmethod
    def jvp(ctx, tangent):
        return 2 * ctx.saved_tensors[0] * tangent

    @staticmethod
    def vmap(info, in_dims, x):
        return Square.apply(x.movedim(in_dims[0], 0)), 0


def cubes(x: Any) -> Any:
    return Cube.apply(x) * x.flip(0)


def plain_cubes(x: Any) -> Any:
    return x**3 * x.flip(0)


@pytest.mark.parametrize(
    "chain", [c for n in (1, 2, 3) for c in itertools.product(["jacrev", "jacfwd"], repeat=n)]
)
def test_functions_in_nested_jacobians(chain):
    """PyTorch loses the second order of forward over forward here; it must not be lost."""
    got, want = cubes, plain_cubes
    for name in chain:
        got, want = DERIVATIVES[name](got), DERIVATIVES[name](want)
    close(got(tensor(X)), want(tensor(X)).numpy())
    points = tensor(np.stack([X, X * 2]))
    close(vmap(got)(points), vmap(want)(points).numpy())


def test_a_node_outlives_its_batch():
    """Recorded inside of vmap and grad, differentiated by the tape outside after both are gone."""
    w = tensor(V).requires_grad_()

    class Product(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, y):
            return x * y

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, grad):
            x, y = ctx.saved_tensors
            return grad * y, grad * x

    points = tensor(np.stack([X, X * 2]))
    gradients, values = vmap(grad_and_value(lambda x: Product.apply(x, w).sin().sum()))(points)
    (got,) = torch.autograd.grad(values.sum(), w, retain_graph=True)
    close(got, (points.numpy() * np.cos(points.numpy() * V)).sum(0))
    (got,) = torch.autograd.grad(gradients.sum(), w)
    p = points.numpy()
    close(got, (np.cos(p * V) - p * V * np.sin(p * V)).sum(0))


def test_jvp_must_return_a_tangent_for_every_differentiable_output():
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def jvp(ctx, tangent):
            return None

    with (
        forward_ad.dual_level(),
        pytest.raises(RuntimeError, match="Expected both tensor and its forward grad"),
    ):
        Own.apply(forward_ad.make_dual(tensor(X), tensor(V)))


def test_gradcheck_shows_batches_that_differ():
    from tapegrad.core.transforms.batched import is_batched

    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * (3 if is_batched(grad) else 2)

        @staticmethod
        def jvp(ctx, tangent):
            return tangent * (3 if is_batched(tangent) else 2)

    x = tensor(X).requires_grad_()
    assert torch.autograd.gradcheck(Own.apply, (x,), check_forward_ad=True)
    with pytest.raises(GradcheckError, match="output 0 and input 0"):
        torch.autograd.gradcheck(Own.apply, (x,), check_batched_grad=True)
    with pytest.raises(GradcheckError, match="forward-mode AD"):
        torch.autograd.gradcheck(
            Own.apply, (x,), check_forward_ad=True, check_batched_forward_grad=True
        )


# ---------------------------------------------------------------------- forward mode and writes


def test_writing_a_tensor_into_itself():
    """d(x * x) = 2 x dx, also where it is written in place (PyTorch uses the new x for one x)."""
    with forward_ad.dual_level():
        d = forward_ad.make_dual(tensor(X), tensor(V))
        d.mul_(d)
        close(forward_ad.unpack_dual(d).tangent, 2 * X * V)


def test_views_of_a_base_whose_tangent_becomes_batched():
    def f(x, y):
        z = y * 1
        early = z[:2]
        z[0] = x[0] * x[1]
        return early * z[1:]

    y = tensor(V)

    def along(v):
        return jvp(f, (tensor(X), y), (v, torch.ones(3, dtype=torch.float64)))[1]

    rows = torch.eye(3, dtype=torch.float64)
    close(vmap(along)(rows), torch.stack([along(v) for v in rows]).numpy())
