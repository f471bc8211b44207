"""tapegrad on a GPU against PyTorch there: training steps, eager and as one CUDA graph.

Run it on a machine with CuPy, PyTorch and an NVIDIA GPU: `python benchmarks/on_gpu.py`.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable
from typing import Any

Step = Callable[[], Any]
ROUNDS = 20


def mlp(torch: Any) -> tuple[Any, Any, Any, Any]:
    nn = submodule(torch, "nn")
    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    return model, (64, 784), 10, "Adam"


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


CASES = {
    "MLP 64x784-128, Adam": ("mlp", None, False),
    "GPT 16x64, d128, 4 layers, fp32": ("gpt", (16, 64, 128, 4, 4), False),
    "GPT 64x256, d384, 6 layers, fp32": ("gpt", (64, 256, 384, 6, 6), False),
    "GPT 64x256, d384, 6 layers, bf16": ("gpt", (64, 256, 384, 6, 6), True),
}


def build(torch: Any, case: str) -> tuple[Step, Step | None]:
    """The eager step, and the captured one where the library has `make_graphed_step`."""
    kind, sizes, half = CASES[case]
    nn, optim = submodule(torch, "nn"), submodule(torch, "optim")
    torch.manual_seed(0)
    if kind == "mlp":
        model, shape, classes, _ = mlp(torch)
        model = model.cuda()
        optimizer = optim.Adam(model.parameters())
        inputs = torch.randn(*shape).cuda()
        labels = torch.randint(0, classes, (shape[0],)).cuda()
    else:
        samples, places, width, heads, layers = sizes
        model = gpt(torch, places, width, heads, layers).cuda()
        optimizer = optim.AdamW(model.parameters(), lr=1e-3)
        inputs = torch.randint(0, 65, (samples, places)).cuda()
        labels = torch.randint(0, 65, (samples, places)).cuda()

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
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
