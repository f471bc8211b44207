"""tapegrad on a GPU against PyTorch there: training steps, eager and as one CUDA graph.

Run it on a machine with CuPy, PyTorch and an NVIDIA GPU: `python benchmarks/on_gpu.py`.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

Step = Callable[[], Any]
ROUNDS = 20


def gpt(torch: Any, places: int, width: int, heads: int, layers: int) -> Any:
    nn = submodule(torch, "nn")
    functional = nn.functional

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            samples, length, _ = x.shape
            parts = self.qkv(self.ln1(x)).split(width, 2)
            shape = (samples, length, heads, width // heads)
            q, k, v = [t.view(shape).transpose(1, 2) for t in parts]
            seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(seen.transpose(1, 2).reshape(samples, length, width))
            return x + self.out(functional.gelu(self.fc(self.ln2(x))))

    class Model(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(65, width), nn.Embedding(places, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, 65)

        def forward(self, x: Any) -> Any:
            numbers = torch.arange(x.shape[1], device=x.device)
            x = self.tokens(x) + self.places(numbers)
            for block in self.blocks:
                x = block(x)
            return self.head(self.ln(x))

    return Model()


class Case(NamedTuple):
    """A model with its inputs and labels, an optimizer's name and options, and what it computes."""

    model: Any
    inputs: Any
    labels: Any
    optimizer: str = "AdamW"
    options: dict[str, Any] = {"lr": 1e-3}
    half: bool = False
    loss: Any = None  # of (model, inputs, labels); else cross entropy


def mlp(torch: Any) -> Case:
    nn = submodule(torch, "nn")
    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    return Case(model, torch.randn(64, 784), torch.randint(0, 10, (64,)), "Adam")


def language(samples: int, places: int, width: int, layers: int, half: bool = False) -> Any:
    def make(torch: Any) -> Case:
        model = gpt(torch, places, width, width // 64 if width > 128 else 4, layers)
        words = [torch.randint(0, 65, (samples, places)) for _ in range(2)]
        return Case(model, *words, half=half)

    return make


def image_block(nn: Any, torch: Any, taken: int, made: int, step: int) -> Any:
    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(taken, made, 3, step, 1, bias=False)
            self.second = nn.Conv2d(made, made, 3, 1, 1, bias=False)
            self.norm1, self.norm2 = nn.BatchNorm2d(made), nn.BatchNorm2d(made)
            same = taken == made and step == 1
            self.aside = None if same else nn.Conv2d(taken, made, 1, step, bias=False)

        def forward(self, x: Any) -> Any:
            y = torch.relu(self.norm1(self.first(x)))
            y = self.norm2(self.second(y))
            return torch.relu(y + (x if self.aside is None else self.aside(x)))

    return Block()


def residual(torch: Any) -> Case:
    nn = submodule(torch, "nn")
    steps = [(3, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1)]
    blocks = [image_block(nn, torch, *each) for each in steps]
    model = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10))
    inputs, labels = torch.randn(128, 3, 32, 32), torch.randint(0, 10, (128,))
    return Case(model, inputs, labels, "SGD", {"lr": 0.01, "momentum": 0.9})


def depthwise(torch: Any) -> Case:
    nn = submodule(torch, "nn")
    layers: list[Any] = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU()]
    for taken, made, step in [(32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2)]:
        layers += [nn.Conv2d(taken, taken, 3, step, 1, groups=taken, bias=False)]
        layers += [nn.BatchNorm2d(taken), nn.ReLU(), nn.Conv2d(taken, made, 1, bias=False)]
        layers += [nn.BatchNorm2d(made), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10))
    inputs, labels = torch.randn(64, 3, 64, 64), torch.randint(0, 10, (64,))
    return Case(model, inputs, labels, "SGD", {"lr": 0.01, "momentum": 0.9})


def recurrent(kind: str) -> Any:
    def make(torch: Any) -> Case:
        nn = submodule(torch, "nn")

        class Last(nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.layers = getattr(nn, kind)(256, 256, 2, batch_first=True)
                self.head = nn.Linear(256, 10)

            def forward(self, x: Any) -> Any:
                return self.head(self.layers(x)[0][:, -1])

        return Case(Last(), torch.randn(32, 64, 256), torch.randint(0, 10, (32,)), "Adam")

    return make


def encoder(half: bool) -> Any:
    def make(torch: Any) -> Case:
        nn = submodule(torch, "nn")
        layer = nn.TransformerEncoderLayer(256, 4, 1024, 0.0, batch_first=True)
        model = nn.Sequential(nn.TransformerEncoder(layer, 4), nn.Linear(256, 10))
        inputs, labels = torch.randn(32, 128, 256), torch.randint(0, 10, (32, 128))
        return Case(model, inputs, labels, half=half)

    return make


def physics(torch: Any) -> Case:
    """u'' = -sin(x) by a network, with second derivatives in the loss."""
    nn = submodule(torch, "nn")
    layers = [nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)]
    x = torch.linspace(0, 3, 1024).unsqueeze(1)

    def loss(model: Any, x: Any, labels: Any) -> Any:
        x = x.detach().requires_grad_()
        u = model(x)
        (slope,) = torch.autograd.grad(u.sum(), x, create_graph=True)
        (bend,) = torch.autograd.grad(slope.sum(), x, create_graph=True)
        return ((bend + torch.sin(x)) ** 2).mean() + (u[0] ** 2).sum() + (u[-1] ** 2).sum()

    return Case(nn.Sequential(*layers), x, x, "Adam", loss=loss)


CASES = {
    "MLP 64x784-128, Adam": mlp,
    "GPT 16x64, d128, 4 layers, fp32": language(16, 64, 128, 4),
    "GPT 64x256, d384, 6 layers, fp32": language(64, 256, 384, 6),
    "GPT 64x256, d384, 6 layers, bf16": language(64, 256, 384, 6, half=True),
    "residual net 128x3x32x32, SGD": residual,
    "depthwise net 64x3x64x64, SGD": depthwise,
    "LSTM 2x256, 32x64, Adam": recurrent("LSTM"),
    "GRU 2x256, 32x64, Adam": recurrent("GRU"),
    "TransformerEncoder 4, d256, fp32": encoder(False),
    "TransformerEncoder 4, d256, bf16": encoder(True),
    "causal attention 4x2048, bf16": language(4, 2048, 512, 4, half=True),
    "physics-informed net, Adam": physics,
}


def build(torch: Any, name: str) -> tuple[Step, Step | None]:
    """The eager step, and the captured one where the library has `make_graphed_step`."""
    nn, optim = submodule(torch, "nn"), submodule(torch, "optim")
    torch.manual_seed(0)
    case = CASES[name](torch)
    model = case.model.cuda()
    inputs, labels = case.inputs.cuda(), case.labels.cuda()
    optimizer = getattr(optim, case.optimizer)(model.parameters(), **case.options)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16, enabled=case.half):
            if case.loss is not None:
                loss = case.loss(model, x, y)
            else:
                out = model(x)
                loss = nn.functional.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss

    graphed = None
    if torch.__name__ == "tapegrad":
        whole = torch.cuda.make_graphed_step(step)
        graphed = lambda: whole(inputs, labels)  # noqa: E731
    return lambda: step(inputs, labels), graphed


def submodule(torch: Any, name: str) -> Any:
    return importlib.import_module(f"{torch.__name__}.{name}")


def timed(steps: list[tuple[Any, Step]], seconds: float) -> list[float]:
    """Milliseconds of one step of each: the best of many short rounds, taken in turns.

    In turns, because how fast the host runs changes from second to second.
    """
    counts = []
    for torch, step in steps:
        for _ in range(5):
            step()
        torch.cuda.synchronize()
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        counts.append(max(3, int(seconds / ROUNDS / (time.perf_counter() - start))))
    best = [float("inf")] * len(steps)
    for _ in range(ROUNDS):
        for i, (torch, step) in enumerate(steps):
            start = time.perf_counter()
            for _ in range(counts[i]):
                step()
            torch.cuda.synchronize()
            best[i] = min(best[i], (time.perf_counter() - start) / counts[i])
    return [t * 1e3 for t in best]


def losses(step: Step, count: int) -> list[float]:
    return [float(step().detach()) for _ in range(count)]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=2.0, help="time for each measurement")
    options.add_argument("--only", default="", help="cases whose name contains this")
    chosen = options.parse_args()
    import torch

    import tapegrad

    print(f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}")
    print(f"{'':<36}{'torch':>10}{'tapegrad':>10}{'ratio':>7}{'captured':>10}{'ratio':>7}  losses")
    for case in CASES:
        if chosen.only not in case:
            continue
        row = f"{case:<36}"
        try:
            theirs = losses(build(torch, case)[0], 8)
            ours = losses(build(tapegrad, case)[0], 8)
            again = losses(build(tapegrad, case)[1], 8)
            parts = max(abs(a - b) for a, b in zip(theirs, ours, strict=True))
            apart = max(abs(a - b) for a, b in zip(ours, again, strict=True))
            steps = [
                (torch, build(torch, case)[0]),
                (tapegrad, build(tapegrad, case)[0]),
                (tapegrad, build(tapegrad, case)[1]),
            ]
            first, second, third = timed(steps, chosen.seconds)
            print(
                f"{row}{first:>8.3f}ms{second:>8.3f}ms{second / first:>7.2f}{third:>8.3f}ms"
                f"{third / first:>7.2f}  {parts:.1e} from torch, {apart:.1e} captured",
                flush=True,
            )
        except Exception as error:
            import traceback

            traceback.print_exc()
            print(f"{row} failed: {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    main()
