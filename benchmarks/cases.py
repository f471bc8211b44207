"""The workloads of `make bench`: each takes a library, PyTorch or tapegrad, and gives its work."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

Work = Callable[[], Any]


def small(torch: Any) -> Any:
    values = [[0.1 * (i + j) - 0.3 for j in range(4)] for i in range(4)]
    return torch.tensor(values, requires_grad=True)


def submodule(torch: Any, name: str) -> Any:
    return importlib.import_module(f"{torch.__name__}.{name}")


def training(torch: Any, model: Any, inputs: Any, loss_of: Any, optimizer: Any) -> Work:
    """A step: zero_grad, forward, loss, backward, step."""

    def work() -> None:
        optimizer.zero_grad()
        loss_of(model(inputs)).backward()
        optimizer.step()

    return work


def without_grad(leaf: Any, work: Work) -> Work:
    """The work, each time with a leaf that has no gradient yet."""

    def fresh() -> None:
        leaf.grad = None
        work()

    return fresh


# ---------------------------------------------------------------------- small arrays


def recorded_product(torch: Any) -> Work:
    a, b = small(torch), small(torch)
    return lambda: a * b


def product_sum_backward(torch: Any) -> Work:
    a, b = small(torch), small(torch)

    def work() -> None:
        (a * b).sum().backward()

    return work


def mixed_ops(torch: Any) -> Work:
    """200 recorded ops: 25 rounds of eight, then backward through all of them."""
    a, b = small(torch), small(torch)

    def work() -> None:
        h = a
        for _ in range(25):
            h = h * b
            h = h + a
            h = h.tanh()
            h = h - b
            h = h.sigmoid()
            h = h @ a
            h = h.t()
            h = h / 2
        h.sum().backward()

    return work


def training_step(torch: Any) -> Work:
    """One SGD step of a 64-64-10 network on a batch of 32."""
    nn, optim = submodule(torch, "nn"), submodule(torch, "optim")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    inputs, labels = torch.randn(32, 64), torch.randint(0, 10, (32, 1))

    def work() -> None:
        optimizer.zero_grad()
        logits = model(inputs)
        loss = (logits.logsumexp(1) - logits.gather(1, labels).squeeze(1)).mean()
        loss.backward()
        optimizer.step()

    return work


def many_small_tensors(torch: Any) -> Work:
    """One Adam step on 1,000 tensors of 100 elements, as each library does it by default."""
    nn, optim = submodule(torch, "nn"), submodule(torch, "optim")
    params = [nn.Parameter(torch.ones(100)) for _ in range(1000)]
    for p in params:
        p.grad = torch.ones(100)
    optimizer = optim.Adam(params)
    return lambda: optimizer.step()


def classifier(torch: Any) -> tuple[Any, Any, Any, Any]:
    """A 64-128-128-10 network as a function of its parameters, those, and a batch of 64."""
    nn, func = submodule(torch, "nn"), submodule(torch, "func")
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    )
    params = {name: p.detach() for name, p in model.named_parameters()}

    def loss(values: Any, inputs: Any, labels: Any) -> Any:
        out = func.functional_call(model, values, (inputs,))
        return nn.functional.cross_entropy(out, labels)

    return loss, params, torch.randn(64, 64), torch.randint(0, 10, (64,))


def one_example(loss: Any) -> Any:
    return lambda p, x, y: loss(p, x.unsqueeze(0), y.unsqueeze(0))


def gradients_per_example(torch: Any) -> Work:
    func = submodule(torch, "func")
    loss, params, inputs, labels = classifier(torch)
    mapped = func.vmap(func.grad(one_example(loss)), in_dims=(None, 0, 0))
    return lambda: mapped(params, inputs, labels)


def gradients_in_a_loop(torch: Any) -> Work:
    func = submodule(torch, "func")
    loss, params, inputs, labels = classifier(torch)
    gradient = func.grad(one_example(loss))

    def work() -> Any:
        rows = [gradient(params, inputs[i], labels[i]) for i in range(len(labels))]
        return {name: torch.stack([row[name] for row in rows]) for name in params}

    return work


def full_hessian(torch: Any) -> Work:
    """Of a function of 30 numbers."""
    func = submodule(torch, "func")
    torch.manual_seed(0)
    matrix, x = torch.randn(30, 30), torch.randn(30)

    def function(z: Any) -> Any:
        return (torch.tanh(matrix @ z) ** 2).sum() + (z.sin() * z).sum() + torch.logsumexp(z, 0)

    hessian = func.hessian(function)
    return lambda: hessian(x)


def hessian_vector_product(torch: Any) -> Work:
    func = submodule(torch, "func")
    loss, params, inputs, labels = classifier(torch)
    direction = {name: torch.ones_like(p) for name, p in params.items()}
    gradient = func.grad(lambda p: loss(p, inputs, labels))
    return lambda: func.jvp(gradient, (params,), (direction,))[1]


def rosenbrock(torch: Any) -> Work:
    """100 steps of gradient descent on two numbers."""

    def work() -> None:
        x = torch.tensor(-1.2, requires_grad=True)
        y = torch.tensor(1.0, requires_grad=True)
        for _ in range(100):
            loss = (1 - x) ** 2 + 100 * (y - x**2) ** 2
            loss.backward()
            with torch.no_grad():
                x -= 1e-3 * x.grad
                y -= 1e-3 * y.grad
            x.grad = y.grad = None

    return work


def physics_loop(torch: Any) -> Work:
    """A pendulum, 500 steps of four operations, and the gradient with respect to its start."""

    def work() -> None:
        angle = torch.tensor([0.5, 1.0, 1.5], requires_grad=True)
        speed = torch.zeros(3)
        place = angle
        for _ in range(500):
            speed = speed - 0.01 * place.sin()
            place = place + 0.01 * speed
        place.sum().backward()

    return work


def long_chain(torch: Any) -> Work:
    x = torch.ones(1, requires_grad=True)

    def work() -> None:
        y = x
        for _ in range(50_000):
            y = y + 1
        y.backward()

    return work


def fifth_derivative(torch: Any) -> Work:
    def work() -> None:
        x = torch.linspace(-1, 1, 16).requires_grad_()
        y = torch.tanh(x) * x.sin()
        for _ in range(5):
            (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)

    return work


# ---------------------------------------------------------------------- networks


def mlp(batch: int, *sizes: int, adam: bool) -> Callable[[Any], Work]:
    def make(torch: Any) -> Work:
        nn, optim = submodule(torch, "nn"), submodule(torch, "optim")
        torch.manual_seed(0)
        layers: list[Any] = []
        for a, b in zip(sizes, sizes[1:], strict=False):
            layers += [nn.Linear(a, b), nn.ReLU()]
        model = nn.Sequential(*layers[:-1])
        labels = torch.randint(0, sizes[-1], (batch,))
        kind = optim.Adam if adam else optim.SGD
        optimizer = kind(model.parameters(), lr=1e-3)
        return training(
            torch,
            model,
            torch.randn(batch, sizes[0]),
            lambda out: nn.functional.cross_entropy(out, labels),
            optimizer,
        )

    return make


def conv_net(torch: Any) -> Work:
    nn, optim = submodule(torch, "nn"), submodule(torch, "optim")
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 10),
    )
    labels = torch.randint(0, 10, (64,))
    optimizer = optim.SGD(model.parameters(), lr=1e-3)
    loss = nn.functional.cross_entropy
    images = torch.randn(64, 1, 28, 28)
    return training(torch, model, images, lambda out: loss(out, labels), optimizer)


def residual_block(torch: Any) -> Work:
    nn = submodule(torch, "nn")
    torch.manual_seed(0)
    first, second = nn.Conv2d(64, 64, 3, padding=1), nn.Conv2d(64, 64, 3, padding=1)
    norms = nn.BatchNorm2d(64), nn.BatchNorm2d(64)
    x = torch.randn(16, 64, 32, 32)

    def work() -> None:
        h = norms[0](first(x)).relu()
        (norms[1](second(h)) + x).relu().sum().backward()

    return work


def transformer_layer(torch: Any) -> Work:
    """Attention and a two-layer network with layer norms, written out: 16 × 64 × 128."""
    torch.manual_seed(0)
    layer = attention_block(torch, 128, 4)
    x = torch.randn(16, 64, 128)
    return lambda: layer(x).sum().backward()


def attention_block(torch: Any, width: int, heads: int) -> Any:
    nn = submodule(torch, "nn")

    class Layer(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
            self.qkv = nn.Linear(width, 3 * width)
            self.out = nn.Linear(width, width)
            self.up = nn.Linear(width, 4 * width)
            self.down = nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            parts = self.qkv(self.norms[0](x)).view(batch, length, 3, heads, width // heads)
            q, k, v = parts.permute(2, 0, 3, 1, 4)
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))

    return Layer()


def encoder_layer(torch: Any) -> Work:
    nn = submodule(torch, "nn")
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
    x = torch.randn(16, 64, 128)
    return lambda: layer(x).sum().backward()


def char_gpt(torch: Any) -> Work:
    """Four layers of 128, 64 characters, a batch of 16, AdamW."""
    nn, optim = submodule(torch, "nn"), submodule(torch, "optim")
    torch.manual_seed(0)
    tokens, places = nn.Embedding(65, 128), nn.Embedding(64, 128)
    blocks = nn.Sequential(*[attention_block(torch, 128, 4) for _ in range(4)])
    head = nn.Linear(128, 65)
    model = nn.ModuleList([tokens, places, blocks, head])
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    text = torch.randint(0, 65, (16, 65))

    def work() -> None:
        optimizer.zero_grad()
        x = tokens(text[:, :-1]) + places(torch.arange(64))
        logits = head(blocks(x))
        nn.functional.cross_entropy(logits.view(-1, 65), text[:, 1:].reshape(-1)).backward()
        optimizer.step()

    return work


def lstm_cell(torch: Any) -> Work:
    nn = submodule(torch, "nn")
    torch.manual_seed(0)
    cell = nn.LSTMCell(32, 64)
    x = torch.randn(50, 16, 32)

    def work() -> None:
        h, c = torch.zeros(16, 64), torch.zeros(16, 64)
        for step in x:
            h, c = cell(step, (h, c))
        h.sum().backward()

    return work


def lstm(torch: Any) -> Work:
    nn = submodule(torch, "nn")
    torch.manual_seed(0)
    layer = nn.LSTM(32, 64)
    x = torch.randn(50, 16, 32)
    return lambda: layer(x)[0].sum().backward()


def lstm_by_hand(torch: Any) -> Work:
    torch.manual_seed(0)
    w = torch.randn(32, 256).mul(0.1).requires_grad_()
    u = torch.randn(64, 256).mul(0.1).requires_grad_()
    x = torch.randn(50, 16, 32)

    def work() -> None:
        h, c = torch.zeros(16, 64), torch.zeros(16, 64)
        for step in x:
            i, f, g, o = (step @ w + h @ u).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        h.sum().backward()

    return work


# ---------------------------------------------------------------------- large arrays


def elementwise(torch: Any) -> Work:
    torch.manual_seed(0)
    x = torch.randn(4_000_000, requires_grad=True)
    return without_grad(x, lambda: (x.tanh() * x + (-x * x).exp()).sum().backward())


def rows(kind: str) -> Callable[[Any], Work]:
    """softmax, layer_norm or cross_entropy of 1024 × 32000."""

    def make(torch: Any) -> Work:
        functional = submodule(torch, "nn.functional")
        torch.manual_seed(0)
        x = torch.randn(1024, 32000, requires_grad=True)
        labels = torch.randint(0, 32000, (1024,))
        gradient = torch.randn(1024, 32000)

        def work() -> None:
            if kind == "softmax":
                functional.softmax(x, 1).backward(gradient)
            elif kind == "layer_norm":
                functional.layer_norm(x, (32000,)).backward(gradient)
            else:
                functional.cross_entropy(x, labels).backward()

        return without_grad(x, work)

    return make


def embedding(torch: Any) -> Work:
    torch.manual_seed(0)
    table = torch.randn(10_000, 128, requires_grad=True)
    at = torch.randint(0, 10_000, (64, 64))
    functional = submodule(torch, "nn.functional")
    return without_grad(table, lambda: functional.embedding(at, table).sum().backward())


def picked(kind: str) -> Callable[[Any], Work]:
    """Gradients of parts of a 1000 × 1000 matrix."""

    def make(torch: Any) -> Work:
        torch.manual_seed(0)
        x = torch.randn(1000, 1000, requires_grad=True)
        at = torch.randint(0, 1000, (1000, 100))
        mask = torch.rand(1000, 1000) > 0.5
        picks: dict[str, Work] = {
            "gather": lambda: x.gather(1, at),
            "slice": lambda: x[10:-10, ::2],
            "advanced": lambda: x[at[:, 0], at[:, 1]],
            "mask": lambda: x[mask],
        }
        pick = picks[kind]
        return without_grad(x, lambda: pick().sum().backward())

    return make


def matmul(torch: Any) -> Work:
    torch.manual_seed(0)
    a = torch.randn(1024, 1024, requires_grad=True)
    b = torch.randn(1024, 1024, requires_grad=True)

    def work() -> None:
        a.grad = b.grad = None
        (a @ b).sum().backward()

    return work


def convolution(dims: int, x: tuple[int, ...], w: tuple[int, ...], groups: int = 1) -> Any:
    def make(torch: Any) -> Work:
        functional = submodule(torch, "nn.functional")
        torch.manual_seed(0)
        data = torch.randn(*x, requires_grad=True)
        weight = torch.randn(*w, requires_grad=True)
        run = getattr(functional, f"conv{dims}d")

        def work() -> None:
            weight.grad = None
            run(data, weight, padding=1, groups=groups).sum().backward()

        return without_grad(data, work)

    return make


def on_a_million(kind: str) -> Callable[[Any], Work]:
    def make(torch: Any) -> Work:
        torch.manual_seed(0)
        x = torch.rand(1000, 1000)
        y = torch.rand(64, 32, 48)
        works: dict[str, Work] = {
            "topk": lambda: x.topk(10, 1),
            "sort": lambda: x.sort(1),
            "cumsum": lambda: x.cumsum(1),
            "erfinv": lambda: x.erfinv(),
            "einsum": lambda: torch.einsum("bij,bkj->bik", y, y),
        }
        return works[kind]

    return make


def random_numbers(kind: str) -> Callable[[Any], Work]:
    def make(torch: Any) -> Work:
        nn = submodule(torch, "nn")
        x = torch.empty(9_000_000)
        return x.normal_ if kind == "normal_" else lambda: nn.init.trunc_normal_(x)

    return make


# Label, the ratio to PyTorch that we want at the most, and the work.
CASES: list[tuple[str, float, Callable[[Any], Work]]] = [
    ("a*b, 4x4, recorded", 0.30, recorded_product),
    ("(a*b).sum().backward(), 4x4", 0.30, product_sum_backward),
    ("200 mixed 4x4 ops, forward + backward", 0.30, mixed_ops),
    ("Rosenbrock, 0-d, 100 steps", 0.45, rosenbrock),
    ("physics loop, 2,000 nodes", 0.40, physics_loop),
    ("chain of 50,000 nodes", 0.25, long_chain),
    ("training step, 32 x 64-64-10, SGD", 0.50, training_step),
    ("MLP 32 x 16-32-32-4, SGD", 0.35, mlp(32, 16, 32, 32, 4, adam=False)),
    ("MLP 32 x 16-32-32-4, Adam", 0.35, mlp(32, 16, 32, 32, 4, adam=True)),
    ("MLP 64 x 784-128-128-10, SGD", 0.50, mlp(64, 784, 128, 128, 10, adam=False)),
    ("MLP 64 x 784-128-128-10, Adam", 0.50, mlp(64, 784, 128, 128, 10, adam=True)),
    ("MLP 256 x 784-512-512-10, SGD", 0.85, mlp(256, 784, 512, 512, 10, adam=False)),
    ("MLP 256 x 784-512-512-10, Adam", 0.85, mlp(256, 784, 512, 512, 10, adam=True)),
    ("Adam step, 1000 tensors of 100", 0.30, many_small_tensors),
    ("conv net, 64 x 1 x 28 x 28, SGD", 0.80, conv_net),
    ("residual block, 16 x 64 x 32 x 32", 0.95, residual_block),
    ("transformer layer, 16 x 64 x 128", 0.80, transformer_layer),
    ("nn.TransformerEncoderLayer", 0.80, encoder_layer),
    ("char GPT, 4 layers of 128, AdamW", 0.80, char_gpt),
    ("nn.LSTMCell, 50 steps", 0.50, lstm_cell),
    ("nn.LSTM, 50 steps", 0.50, lstm),
    ("LSTM by hand, 50 steps", 0.60, lstm_by_hand),
    ("tanh(x)*x + exp(-x*x), 4 M", 0.85, elementwise),
    ("softmax, 1024 x 32000", 0.45, rows("softmax")),
    ("layer norm, 1024 x 32000", 0.45, rows("layer_norm")),
    ("cross entropy, 1024 x 32000", 0.30, rows("cross_entropy")),
    ("embedding, 64 x 64 of 10,000 x 128", 0.60, embedding),
    ("gather, 1000 x 100", 0.60, picked("gather")),
    ("slice", 0.60, picked("slice")),
    ("advanced index", 0.60, picked("advanced")),
    ("mask", 0.60, picked("mask")),
    ("matmul 1024^3", 1.0, matmul),
    ("vmap(grad), 64 x 64-128-128-10", 0.90, gradients_per_example),
    ("the same in a Python loop", 0.60, gradients_in_a_loop),
    ("Hessian, 30 inputs", 0.40, full_hessian),
    ("Hessian-vector product, 64-128-128-10", 0.60, hessian_vector_product),
    ("fifth derivative", 0.50, fifth_derivative),
    ("depthwise convolution", 1.0, convolution(2, (16, 64, 32, 32), (64, 1, 3, 3), groups=64)),
    ("conv1d", 1.0, convolution(1, (16, 32, 256), (64, 32, 3))),
    ("conv3d", 1.0, convolution(3, (2, 16, 16, 16, 16), (16, 16, 3, 3, 3))),
    (
        "convolution, 1 x 512 x 2 x 2, 1024 filters",
        1.0,
        convolution(2, (1, 512, 2, 2), (1024, 512, 3, 3)),
    ),
    ("topk", 1.0, on_a_million("topk")),
    ("sort", 1.0, on_a_million("sort")),
    ("cumsum", 1.0, on_a_million("cumsum")),
    ("erfinv", 1.0, on_a_million("erfinv")),
    ("einsum", 1.0, on_a_million("einsum")),
    ("normal_, 9 M", 1.0, random_numbers("normal_")),
    ("trunc_normal_, 9 M", 1.0, random_numbers("trunc_normal_")),
]
