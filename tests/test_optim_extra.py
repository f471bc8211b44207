"""`optim.extra` against small programs written from the papers, and against published behaviour."""

from __future__ import annotations

import copy
import io
import math

import numpy as np
import pytest

import tapegrad as torch
from tapegrad import nn
from tapegrad.optim.extra import SOAP, EnergyNaturalGradient, SelfScaledBFGS, Shampoo


def gradients(count, shape):
    rng = np.random.default_rng(3)
    return [rng.normal(size=shape) for _ in range(count)]


def run(optimizer_class, start, grads, **options):
    p = nn.Parameter(torch.tensor(start))
    optimizer = optimizer_class([p], **options)
    for g in grads:
        p.grad = torch.tensor(g)
        optimizer.step()
    return p.detach().numpy()


# ---------------------------------------------------------------------- Shampoo


def shampoo_of_matrices(w, grads, lr, eps):
    """Algorithm 1 of the paper: L^-1/4 G R^-1/4."""
    w = w.copy()
    left, right = eps * np.eye(w.shape[0]), eps * np.eye(w.shape[1])
    for g in grads:
        left += g @ g.T
        right += g.T @ g
        fourth = []
        for m in (left, right):
            values, vectors = np.linalg.eigh(m)
            fourth.append(vectors @ np.diag(values**-0.25) @ vectors.T)
        w -= lr * fourth[0] @ g @ fourth[1]
    return w


def test_shampoo_of_matrices_is_the_papers() -> None:
    start = np.random.default_rng(0).normal(size=(4, 3))
    grads = gradients(6, (4, 3))
    found = run(Shampoo, start, grads, lr=0.3, eps=1e-3)
    np.testing.assert_allclose(found, shampoo_of_matrices(start, grads, 0.3, 1e-3), rtol=1e-9)


def test_shampoo_of_three_dimensions() -> None:
    start, grads = np.zeros((2, 3, 4)), gradients(4, (2, 3, 4))
    matrices = [1e-4 * np.eye(n) for n in (2, 3, 4)]
    w = start.copy()
    for g in grads:
        matrices[0] += np.einsum("iab,jab->ij", g, g)
        matrices[1] += np.einsum("aib,ajb->ij", g, g)
        matrices[2] += np.einsum("abi,abj->ij", g, g)
        roots = []
        for m in matrices:
            values, vectors = np.linalg.eigh(m)
            roots.append((vectors * values ** (-1 / 6)) @ vectors.T)
        w -= 0.1 * np.einsum("ia,jb,kc,abc->ijk", *roots, g)
    np.testing.assert_allclose(run(Shampoo, start, grads, lr=0.1), w, rtol=1e-8)


def test_shampoo_of_a_vector_is_full_matrix_adagrad() -> None:
    start, grads = np.ones(5), gradients(8, (5,))
    total, w = 1e-4 * np.eye(5), start.copy()
    for g in grads:
        total += np.outer(g, g)
        values, vectors = np.linalg.eigh(total)
        w -= 0.5 * vectors @ ((vectors.T @ g) / np.sqrt(values))
    np.testing.assert_allclose(run(Shampoo, start, grads, lr=0.5), w, rtol=1e-7)


def test_shampoo_of_a_flat_matrix_does_not_amplify_rounding() -> None:
    p = nn.Parameter(torch.tensor([3.0, 4.0]))  # single precision: the matrix is 9 12 12 16
    optimizer = Shampoo([p], lr=1.0, eps=1e-12)
    p.grad = torch.tensor([3.0, 4.0])
    optimizer.step()
    # The root of a matrix with a relative error of eps is known to the root of eps.
    torch.testing.assert_close(p.detach(), torch.tensor([2.4, 3.2]), rtol=0, atol=3.5e-4)


def test_shampoo_leaves_long_dimensions_and_averages() -> None:
    start, grads = np.zeros((3, 6)), gradients(5, (3, 6))
    left, w, velocity = 1e-4 * np.eye(3), start.copy(), 0.0
    for g in grads:
        g = g + 0.1 * w
        left = 0.9 * left + 0.1 * g @ g.T
        values, vectors = np.linalg.eigh(left)
        velocity = 0.5 * velocity + (vectors / np.sqrt(values)) @ vectors.T @ g
        w = w - 0.2 * velocity
    options = {"lr": 0.2, "beta2": 0.9, "max_dim": 5, "momentum": 0.5, "weight_decay": 0.1}
    np.testing.assert_allclose(run(Shampoo, start, grads, **options), w, rtol=1e-8)


# ---------------------------------------------------------------------- SOAP


def soap_of_matrices(w, grads, lr, beta1, beta2, eps, decay, frequency):
    """Algorithm 3 of the paper with the details of the authors' program (see the class)."""
    w = w.copy()
    g = grads[0]
    left, right = (1 - beta2) * g @ g.T, (1 - beta2) * g.T @ g
    ql = np.linalg.eigh(left)[1][:, ::-1]
    qr = np.linalg.eigh(right)[1][:, ::-1]
    m, v = np.zeros_like(w), np.zeros_like(w)
    for t, g in enumerate(grads[1:], 1):
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * (ql.T @ g @ qr) ** 2
        corrected = (ql.T @ m @ qr) / (1 - beta1**t)
        # The program adds eps before it corrects the square: it is eps / sqrt(1 - beta2^t) here.
        scale = math.sqrt(1 - beta2**t)
        w -= lr * ql @ (corrected / (np.sqrt(v) / scale + eps / scale)) @ qr.T
        w -= lr * decay * w
        left = beta2 * left + (1 - beta2) * g @ g.T
        right = beta2 * right + (1 - beta2) * g.T @ g
        if t % frequency == 0:
            for axis, (matrix, q) in enumerate(((left, ql), (right, qr))):
                order = np.argsort(-np.diag(q.T @ matrix @ q))
                v = np.take(v, order, axis)
                new = np.linalg.qr(matrix @ q[:, order])[0]
                ql, qr = (new, qr) if axis == 0 else (ql, new)
    return w


@pytest.mark.parametrize("frequency", [1, 3])
def test_soap_is_the_papers(frequency) -> None:
    start, grads = np.ones((4, 3)), gradients(12, (4, 3))
    found = run(
        SOAP, start, grads, lr=0.1, betas=(0.9, 0.8), weight_decay=0.05, frequency=frequency
    )
    wanted = soap_of_matrices(start, grads, 0.1, 0.9, 0.8, 1e-8, 0.05, frequency)
    np.testing.assert_allclose(found, wanted, rtol=1e-8)


def test_soap_without_matrices_is_adam_one_step_late() -> None:
    start, grads = np.ones(6), gradients(7, (6,))
    found = run(SOAP, start, grads, lr=0.1, betas=(0.9, 0.99), weight_decay=0.0, eps=1e-30)
    p = nn.Parameter(torch.tensor(start))
    adam = torch.optim.Adam([p], lr=0.1, betas=(0.9, 0.99), eps=1e-30)
    for g in grads[1:]:
        p.grad = torch.tensor(g)
        adam.step()
    np.testing.assert_allclose(found, p.detach().numpy(), rtol=1e-10)


def test_soap_does_not_see_a_rotation_of_the_problem() -> None:
    """Matrices turned from both sides train alike, which Adam does not."""
    rng = np.random.default_rng(1)
    a, b = [np.linalg.qr(rng.normal(size=(n, n)))[0] for n in (4, 3)]
    start, grads = rng.normal(size=(4, 3)), gradients(10, (4, 3))
    options = {"lr": 0.1, "weight_decay": 0.0, "frequency": 1}
    plain = run(SOAP, start, grads, **options)
    turned = run(SOAP, a @ start @ b, [a @ g @ b for g in grads], **options)
    np.testing.assert_allclose(a.T @ turned @ b.T, plain, rtol=1e-6)


# ---------------------------------------------------------------------- self-scaled BFGS


def rosenbrock(x):
    return ((1 - x[:-1]) ** 2 + 100 * (x[1:] - x[:-1] ** 2) ** 2).sum()


def minimize(f, start, **options):
    p = nn.Parameter(torch.tensor(start, dtype=torch.float64))
    optimizer = SelfScaledBFGS([p], **options)

    def closure():
        optimizer.zero_grad()
        loss = f(p)
        loss.backward()
        return loss

    optimizer.step(closure)
    return p.detach().numpy(), optimizer.state[p]


@pytest.mark.parametrize("scaled", [False, True])
def test_bfgs_updates_are_the_product_form(scaled) -> None:
    rng = np.random.default_rng(5)
    root = rng.normal(size=(4, 4))
    hessian = root @ root.T + np.eye(4)
    x, h, lr = rng.normal(size=4), None, 0.3
    found = minimize(
        lambda p: p @ (torch.tensor(hessian) @ p) / 2, x.copy(), lr=lr, max_iter=6,
        line_search_fn=None, scaled=scaled, tolerance_change=0,
    )  # fmt: skip
    for _ in range(6):
        g = hessian @ x
        t = lr if h is not None else lr * min(1, 1 / np.abs(g).sum())
        s = -t * (g if h is None else h @ g)
        y = hessian @ s
        if h is None:
            h = np.eye(4) * (y @ s) / (y @ y)
        elif scaled:
            h = h * max(1, (s @ np.linalg.inv(h) @ s) / (y @ s))
        left = np.eye(4) - np.outer(s, y) / (y @ s)
        h = left @ h @ left.T + np.outer(s, s) / (y @ s)
        x = x + s
    np.testing.assert_allclose(found[0], x, rtol=1e-8)
    np.testing.assert_allclose(found[1]["inverse_hessian"].numpy(), h, rtol=1e-8)


@pytest.mark.parametrize("scaled", [False, True])
def test_rosenbrock_takes_about_as_many_iterations_as_published(scaled) -> None:
    """From (-1.2, 1), BFGS is reported with 34 iterations (Nocedal and Wright, section 6.1)."""
    x, state = minimize(
        rosenbrock, [-1.2, 1.0], max_iter=200, max_eval=2000, tolerance_grad=1e-5, scaled=scaled
    )
    np.testing.assert_allclose(x, 1, atol=1e-5)
    assert 20 <= state["n_iter"] <= 45


# ---------------------------------------------------------------------- energy natural gradient


def poisson(width, seed=0):
    """-u'' = pi^2 sin(pi x) on (0, 1) with u = 0 at the ends: residuals, and the error of u."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, 1)).double()
    x = torch.linspace(0, 1, 42, dtype=torch.float64)[1:-1, None]
    ends = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    force = math.pi**2 * torch.sin(math.pi * x)

    def residuals():
        inner = x.clone().requires_grad_()
        (slope,) = torch.autograd.grad(model(inner).sum(), inner, create_graph=True)
        (bend,) = torch.autograd.grad(slope.sum(), inner, create_graph=True)
        return [(bend + force) / len(x) ** 0.5, model(ends) / 2**0.5]

    def error():
        u = torch.sin(math.pi * x)
        return ((model(x) - u).norm() / u.norm()).item()

    return model, residuals, error


@pytest.mark.slow
def test_a_physics_informed_network_reaches_the_published_accuracy() -> None:
    """The paper: errors near 1e-7 after some hundred steps, where Adam stays at 1e-3 to 1e-4."""
    model, residuals, error = poisson(16)
    optimizer = EnergyNaturalGradient(model.parameters(), rcond=1e-8)
    energies = [optimizer.step(residuals).item()]
    while energies[-1] > 1e-11 and len(energies) < 150:
        energies.append(optimizer.step(residuals).item())
    assert error() < 1e-5
    assert all(b <= a for a, b in zip(energies, energies[1:], strict=False))


def test_one_energy_step_is_least_squares() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(7, 3)), rng.normal(size=7)
    for lr in (None, 1.0):
        p = nn.Parameter(torch.zeros(3, dtype=torch.float64))
        EnergyNaturalGradient([p], lr=lr).step(lambda: torch.tensor(a) @ p - torch.tensor(b))  # noqa: B023
        np.testing.assert_allclose(p.detach(), np.linalg.lstsq(a, b, rcond=None)[0], rtol=1e-10)


def test_another_energy_and_damping() -> None:
    rng = np.random.default_rng(4)
    a, f = rng.normal(size=(6, 3)), rng.normal(size=3)
    p = nn.Parameter(torch.zeros(3, dtype=torch.float64))
    optimizer = EnergyNaturalGradient([p], lr=0.5, damping=0.1)
    optimizer.step(
        lambda: torch.tensor(a) @ p,
        lambda: (torch.tensor(a) @ p).square().sum() / 2 - torch.tensor(f) @ p,
    )
    wanted = 0.5 * np.linalg.solve(a.T @ a + 0.1 * np.eye(3), f)
    np.testing.assert_allclose(p.detach(), wanted, rtol=1e-9)


def test_parameters_that_no_residual_reads_stay() -> None:
    p, other = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.ones(3))
    optimizer = EnergyNaturalGradient([other, p])
    assert optimizer.step(lambda: p - torch.tensor([1.0, 2.0])) == 2.5
    assert p.tolist() == [1.0, 2.0]
    assert other.tolist() == [1.0, 1.0, 1.0]


def test_residuals_have_to_be_tensors() -> None:
    optimizer = EnergyNaturalGradient([nn.Parameter(torch.ones(1))])
    with pytest.raises(TypeError, match="should return a tensor of residuals.*got float"):
        optimizer.step(lambda: 1.0)


# ---------------------------------------------------------------------- all of them


CLASSES = [Shampoo, SOAP, SelfScaledBFGS]


def problem(dtype):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1)).to(dtype)
    x = torch.randn(32, 5).to(dtype)
    return model, lambda: (model(x) - x[:, :1] * x[:, 1:2]).square().mean()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("cls", CLASSES)
def test_training_goes_on_from_a_state_dict(cls, dtype) -> None:
    model, loss_of = problem(dtype)
    optimizer = cls(model.parameters(), lr=0.05)

    def steps(model, optimizer, loss_of, count):
        def closure():
            optimizer.zero_grad()
            loss = loss_of()
            loss.backward()
            return loss

        return [float(optimizer.step(closure).detach()) for _ in range(count)]

    losses = steps(model, optimizer, loss_of, 12)
    assert losses[-1] < losses[0] * 0.9
    file = io.BytesIO()
    torch.save([model.state_dict(), optimizer.state_dict()], file)
    file.seek(0)
    other, other_loss = problem(dtype)
    again = cls(other.parameters(), lr=0.05)
    weights, state = torch.load(file, weights_only=True)
    other.load_state_dict(weights)
    again.load_state_dict(copy.deepcopy(state))
    wanted = steps(model, optimizer, loss_of, 12)
    assert steps(other, again, other_loss, 12) == wanted
    assert all(p.dtype is dtype for p in other.parameters())


@pytest.mark.parametrize("cls", [Shampoo, SOAP])
def test_groups_have_options_of_their_own(cls) -> None:
    first, second, without = [nn.Parameter(torch.ones(2, 2)) for _ in range(3)]
    optimizer = cls([{"params": [first], "lr": 0.0}, {"params": [second, without]}], lr=0.1)
    for _ in range(3):
        first.grad = second.grad = torch.ones(2, 2)
        optimizer.step()
    assert (first == 1).all()
    assert (second < 1).all()
    assert (without == 1).all()


def test_maximize_and_empty_and_single_numbers() -> None:
    for cls in (Shampoo, SOAP):
        p, empty = nn.Parameter(torch.tensor(1.0)), nn.Parameter(torch.zeros(0, 3))
        optimizer = cls([p, empty], lr=0.1, weight_decay=0.0, maximize=True)
        for _ in range(3):
            p.grad, empty.grad = torch.tensor(2.0), torch.zeros(0, 3)
            optimizer.step()
        assert p > 1


@pytest.mark.parametrize(
    ("cls", "options", "name"),
    [
        (Shampoo, {"lr": -1.0}, "lr"),
        (Shampoo, {"momentum": 1.0}, "momentum"),
        (Shampoo, {"eps": 0.0}, "eps"),
        (Shampoo, {"frequency": 0}, "frequency"),
        (Shampoo, {"beta2": 1.5}, "beta2"),
        (SOAP, {"betas": (0.9, 1.0)}, "betas"),
        (SOAP, {"betas": 0.9}, "betas"),
        (SOAP, {"shampoo_beta": -1}, "shampoo_beta"),
        (SOAP, {"max_dim": 2.5}, "max_dim"),
        (SelfScaledBFGS, {"line_search_fn": "armijo"}, "line_search_fn"),
        (SelfScaledBFGS, {"max_iter": 0}, "max_iter"),
        (EnergyNaturalGradient, {"damping": float("nan")}, "damping"),
        (EnergyNaturalGradient, {"rcond": 2.0}, "rcond"),
        (EnergyNaturalGradient, {"line_search_steps": 0}, "line_search_steps"),
    ],
)
def test_bad_arguments_are_refused_by_name(cls, options, name) -> None:
    with pytest.raises(ValueError, match=f"{cls.__name__}: {name} should be"):
        cls([nn.Parameter(torch.ones(2))], **options)


def test_what_cannot_be_preconditioned_is_refused() -> None:
    p = nn.Parameter(torch.ones(2, dtype=torch.complex64))
    p.grad = torch.ones(2, dtype=torch.complex64)
    for cls in (Shampoo, SOAP):
        with pytest.raises(RuntimeError, match="complex"):
            cls([p]).step()
    with pytest.raises(ValueError, match="complex"):
        SelfScaledBFGS([p])
    two = [{"params": [nn.Parameter(torch.ones(1))]}, {"params": [nn.Parameter(torch.ones(1))]}]
    with pytest.raises(ValueError, match="one group"):
        EnergyNaturalGradient(two)
