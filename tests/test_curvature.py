"""Gradients of each sample, and products and factors of the Gauss-Newton matrix."""

from __future__ import annotations

from typing import Any

import pytest

import tapegrad as torch
from tapegrad import func, nn

F = nn.functional


def models() -> list[tuple[str, Any, Any, Any, Any]]:
    torch.manual_seed(0)
    labels = torch.randint(0, 3, (6,))
    image = nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=2, padding=1),
        nn.GroupNorm(2, 4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(36, 3),
    )
    words = nn.Sequential(nn.Embedding(11, 5), nn.Flatten(), nn.Linear(20, 3))
    plain = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
    return [
        ("image", image, F.cross_entropy, torch.randn(6, 2, 6, 6), labels),
        ("words", words, F.cross_entropy, torch.randint(0, 11, (6, 4)), labels),
        ("plain", plain, F.mse_loss, torch.randn(6, 4), torch.randn(6, 2)),
    ]


@pytest.mark.parametrize("case", models(), ids=lambda case: case[0])
def test_gradients_of_each_sample(case: Any) -> None:
    _, model, loss, x, y = case
    every = func.per_sample_grad(loss, model)(x, y)
    in_pieces = func.per_sample_grad(loss, model, chunk_size=4)(x, y)
    assert list(every) == [name for name, _ in model.named_parameters()]
    for i in range(len(x)):
        model.zero_grad()
        loss(model(x[i : i + 1]), y[i : i + 1]).backward()
        for name, p in model.named_parameters():
            torch.testing.assert_close(every[name][i], p.grad)
            torch.testing.assert_close(in_pieces[name][i], p.grad)


def test_several_inputs_no_targets_and_frozen_parameters() -> None:
    layer = nn.Bilinear(2, 3, 1)
    layer.bias.requires_grad_(False)
    a, b = torch.randn(4, 2), torch.randn(4, 3)
    found = func.per_sample_grad(lambda out: out, layer)((a, b))
    assert list(found) == ["weight"]
    expected = torch.einsum("ni,nj->nij", a, b).unsqueeze(1)
    torch.testing.assert_close(found["weight"], expected)


def test_layers_that_mix_samples_are_refused() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    with pytest.raises(ValueError, match=r"per_sample_grad: '1' \(BatchNorm1d\) mixes the samples"):
        func.per_sample_grad(F.mse_loss, model)
    model.eval()
    found = func.per_sample_grad(F.mse_loss, model)(torch.ones(3, 2), torch.ones(3, 2))
    assert found["0.weight"].shape == (3, 2, 2)


def by_hand(model: Any, loss: Any, x: Any, y: Any) -> list[dict[str, Any]]:
    """The gradients from a backward pass for each sample."""
    found = []
    for i in range(len(x)):
        model.zero_grad()
        loss(model(x[i : i + 1]), y[i : i + 1]).backward()
        found.append(
            {n: torch.zeros_like(p) if p.grad is None else p.grad.clone() for n, p in named(model)}
        )
    return found


def named(model: Any) -> list[tuple[str, Any]]:
    return [(n, p) for n, p in model.named_parameters() if p.requires_grad]


def chains() -> dict[str, tuple[Any, Any]]:
    """Models whose gradients follow from rules of layers, and the shapes of their inputs."""
    shared = nn.Linear(4, 4)
    frozen = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    frozen[0].weight.requires_grad_(False)
    bottom = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    bottom[2].requires_grad_(False)
    twice = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    twice[2].weight = twice[0].weight
    grouped = nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2)
    padded = nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular", bias=False)
    same = nn.Conv1d(2, 4, 4, padding="same", dilation=2)
    return {
        "sequence": (nn.Sequential(nn.Linear(4, 3), nn.GELU(), nn.LayerNorm(3)), (5, 4)),
        "shared": (nn.Sequential(shared, nn.Tanh(), nn.Sequential(shared, nn.Identity())), (4,)),
        "frozen": (frozen, (4,)),
        "frozen above": (bottom, (4,)),
        "tied": (twice, (4,)),
        "groups": (nn.Sequential(grouped, nn.GroupNorm(2, 6), nn.AvgPool2d(2)), (4, 8, 8)),
        "circular": (nn.Sequential(padded, nn.SiLU(), nn.AdaptiveMaxPool2d(2)), (3, 5, 5)),
        "same": (nn.Sequential(same, nn.Flatten(), nn.RMSNorm(28)), (2, 7)),
        "volume": (nn.Sequential(nn.Conv3d(1, 2, 2), nn.Softplus(), nn.MaxPool3d(2)), (1, 3, 3, 3)),
        "one layer": (nn.Linear(3, 1, bias=False), (3,)),
        "no bias": (nn.Sequential(nn.LayerNorm((2, 3), bias=False), nn.Dropout(0.0)), (2, 3)),
        # Not by rules: a number per sample, an in-place layer, one that softens over samples.
        "numbers": (nn.Sequential(nn.Linear(1, 2), nn.Tanh()), ()),
        "in place": (nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 2)), (4,)),
        "softmax": (nn.Sequential(nn.Linear(4, 4), nn.Softmax(0)), (4,)),
        "flat": (nn.Sequential(nn.Linear(4, 4), nn.Flatten(0)), (4,)),
        "images": (nn.Sequential(nn.Conv2d(1, 2, 2), nn.Tanh()), (4, 4)),
    }


@pytest.mark.parametrize("name", list(chains()))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rules_of_layers(name: str, dtype: Any) -> None:
    torch.manual_seed(0)
    model, shape = chains()[name]
    model = model.to(dtype)
    x = torch.randn(4, *shape, dtype=dtype)
    y = torch.randn(4, dtype=dtype)

    def loss(out: Any, y: Any) -> Any:
        return (out.square() * (out + y.sum())).mean()

    expected = by_hand(model, loss, x, y)
    for chunk_size in (None, 3):
        for create_graph in (False, True):
            each = func.per_sample_grad(
                loss, model, chunk_size=chunk_size, create_graph=create_graph
            )
            found = each(x, y)
            assert list(found) == [n for n, _ in named(model)]
            for i, of_sample in enumerate(expected):
                for key, g in of_sample.items():
                    assert found[key].dtype == dtype
                    assert found[key].requires_grad == create_graph
                    torch.testing.assert_close(found[key][i].detach(), g, rtol=1e-4, atol=1e-5)


def test_what_somebody_changed_is_followed() -> None:
    """Hooks, another forward and a swapped layer, between two calls of one function."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    x, y = torch.randn(5, 3), torch.randn(5, 2)
    each = func.per_sample_grad(F.mse_loss, model)

    def check() -> None:
        found = each(x, y)
        for i, of_sample in enumerate(by_hand(model, F.mse_loss, x, y)):
            for key, g in of_sample.items():
                torch.testing.assert_close(found[key][i], g)

    check()
    handle = model[0].register_forward_hook(lambda module, args, out: out * 2)
    check()
    handle.remove()
    model[1].forward = lambda x: x.sin()
    check()
    del model[1].forward
    model[2] = nn.utils.parametrizations.weight_norm(nn.Linear(4, 2))
    check()
    model[2] = nn.Linear(4, 2, bias=False)
    check()
    model.append(nn.BatchNorm1d(2))
    model.eval()
    check()


def test_gradients_are_constants_unless_asked_for() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(2, 1)
    x, y = torch.randn(3, 2), torch.zeros(3, 1)
    assert not func.per_sample_grad(F.mse_loss, layer)(x.requires_grad_(), y)["bias"].requires_grad
    found = func.per_sample_grad(F.mse_loss, layer, create_graph=True)(x, y)["bias"]
    (second,) = torch.autograd.grad(found.sum(), x)
    torch.testing.assert_close(second, (2 * layer.weight).expand(3, 2).detach())
    each = func.per_sample_grad(F.mse_loss, layer)
    jacobian = func.jacrev(lambda x: each(x, y)["bias"].sum())(x.detach())
    torch.testing.assert_close(jacobian, second)


def test_bad_input_of_per_sample_grad_is_refused_by_name() -> None:
    layer = nn.Linear(3, 2)
    with pytest.raises(TypeError, match="per_sample_grad: the loss must be a function, got int"):
        func.per_sample_grad(3, layer)
    with pytest.raises(ValueError, match="per_sample_grad: chunk_size must be positive, got 0"):
        func.per_sample_grad(F.mse_loss, layer, chunk_size=0)
    with pytest.raises(TypeError, match="per_sample_grad: inputs and targets must be tensors"):
        func.per_sample_grad(F.mse_loss, layer)(torch.ones(4, 3), 2.0)


def test_a_mistake_is_that_of_a_single_sample() -> None:
    each = func.per_sample_grad(F.mse_loss, nn.Linear(3, 2))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        each(torch.ones(4, 5), torch.ones(4, 2))
    with pytest.raises(ValueError, match="same size in the mapped dimension"):
        each(torch.ones(4, 3), torch.ones(5, 2))


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(TypeError, match="per_sample_grad: model must be a Module, got function"):
        func.per_sample_grad(F.mse_loss, F.relu)
    with pytest.raises(TypeError, match="kfac_factors: model must be a Module, got int"):
        func.kfac_factors(F.mse_loss, 3, torch.ones(3, 2), torch.ones(3, 2))


def test_a_model_without_layers_has_no_factors() -> None:
    with pytest.raises(ValueError, match=r"\(Tanh\) has no linear or convolutional layer"):
        func.kfac_factors(F.mse_loss, nn.Tanh(), torch.ones(3, 2), torch.ones(3, 2))


def gauss_newton(model: Any, loss: Any, x: Any, y: Any, name: str) -> Any:
    """The block of the parameters of one layer, weight beside bias, from its definition."""
    layer = model.get_submodule(name)
    rows = layer.weight.shape[0]
    flat = layer.weight.detach().reshape(rows, -1)
    both = flat if layer.bias is None else torch.cat([flat, layer.bias.detach()[:, None]], 1)

    def out(both: Any) -> Any:
        weight = both if layer.bias is None else both[:, :-1]
        given = {"weight": weight.reshape(layer.weight.shape)}
        if layer.bias is not None:
            given["bias"] = both[:, -1]
        prefix = name + "." if name else ""
        return func.functional_call(model, {prefix + k: v for k, v in given.items()}, (x,))

    n = both.numel()
    jacobian = func.jacrev(out)(both).reshape(-1, n)
    curved = func.hessian(lambda o: loss(o, y))(out(both)).reshape(len(jacobian), len(jacobian))
    return jacobian.mT @ curved @ jacobian


@pytest.mark.parametrize("bias", [True, False])
def test_factors_are_exact_for_a_linear_model(bias: bool) -> None:
    """With one layer and a quadratic loss the GGN is a Kronecker product."""
    torch.manual_seed(0)
    layer = nn.Linear(3, 2, bias=bias).double()
    x, y = torch.randn(5, 3).double(), torch.randn(5, 2).double()
    a, g = func.kfac_factors(F.mse_loss, layer, x, y)[""]
    torch.testing.assert_close(torch.kron(g, a), gauss_newton(layer, F.mse_loss, x, y, ""))


def test_factors_of_one_sample_are_exact() -> None:
    """For one sample and one position per layer there is nothing that an average could lose."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(3, 4)).double()
    x, y = torch.randn(1, 2, 3, 3).double(), torch.tensor([1])
    found = func.kfac_factors(F.cross_entropy, model, x, y)
    assert list(found) == ["0", "3"]
    for name, (a, g) in found.items():
        expected = gauss_newton(model, F.cross_entropy, x, y, name)
        torch.testing.assert_close(torch.kron(g, a), expected)


def test_factors_of_a_convolution_with_positions() -> None:
    """The trace of A is the mean squared norm of the patches of a sample."""
    torch.manual_seed(0)
    conv = nn.Conv2d(2, 3, 3, stride=2, padding=1, padding_mode="reflect", bias=False)
    model = nn.Sequential(conv, nn.Flatten(), nn.Linear(27, 2))
    x, y = torch.randn(4, 2, 5, 5), torch.randn(4, 2)
    a, g = func.kfac_factors(F.mse_loss, model, x, y)["0"]
    patches = F.unfold(F.pad(x, (1, 1, 1, 1), mode="reflect"), 3, stride=2)
    torch.testing.assert_close(a, torch.einsum("nip,njp->ij", patches, patches) / 4)
    assert g.shape == (3, 3)
    with pytest.raises(ValueError, match="kfac_factors: Conv2d.*has groups"):
        func.kfac_factors(
            F.mse_loss, nn.Conv2d(2, 2, 1, groups=2), torch.ones(1, 2, 1, 1), torch.ones(1, 2, 1, 1)
        )
    shared = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="kfac_factors: '0' is called twice"):
        twice = nn.Sequential(shared, nn.Tanh(), shared)
        func.kfac_factors(F.mse_loss, twice, torch.ones(1, 2), torch.ones(1, 2))


def test_gauss_newton_products() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    x, y = torch.randn(5, 3).double(), torch.tensor([0, 1, 0, 1, 1])
    parameters = dict(model.named_parameters())
    direction = {name: torch.randn_like(p) for name, p in parameters.items()}

    def out(parameters: Any) -> Any:
        return func.functional_call(model, parameters, (x,))

    def loss(out: Any) -> Any:
        return F.cross_entropy(out, y)

    found = func.ggn_vector_product(out, loss, (parameters,), (direction,))
    jacobians = func.jacrev(out)({k: p.detach() for k, p in parameters.items()})
    flat = torch.cat([j.reshape(10, -1) for j in jacobians.values()], 1)
    curved = func.hessian(loss)(model(x).detach()).reshape(10, 10)
    expected = flat.mT @ curved @ flat @ torch.cat([d.flatten() for d in direction.values()])
    torch.testing.assert_close(torch.cat([g.flatten() for g in found.values()]), expected)
    with pytest.raises(
        ValueError, match="ggn_vector_product: func must return a tensor, got tuple"
    ):
        func.ggn_vector_product(lambda x: (x, x), loss, (x,), (x,))
