"""Random numbers that PyTorch draws on a GPU, and the calls that draw them.

`python tests/cuda/drawn.py` records them, with PyTorch on an H200; those in golden/ are of PyTorch
2.11. Of large draws some places are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN = Path(__file__).parent.parent / "golden" / "cuda_draws.npz"
FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int16", "uint8")
SIZES = (5, 257, 300_000, 1_500_000)  # the last one takes two rounds of all threads of an H200
PLACES = 40
SEED = 1234


def calls(torch: Any) -> dict[str, Callable[[], Any]]:
    """By name: each is called after `manual_seed(SEED)`."""
    f = torch.nn.functional
    found: dict[str, Callable[[], Any]] = {}

    def add(name: str, call: Callable[[], Any]) -> None:
        found[name] = call

    def fill(name: str, n: int, dtype: str, method: str, *args: Any) -> None:
        kind = getattr(torch, dtype)
        add(
            f"{name} {dtype} {n}",
            lambda: getattr(torch.empty(n, dtype=kind, device="cuda"), method)(*args),
        )

    for n in SIZES:
        for dtype in FLOATS:
            kind = getattr(torch, dtype)
            on_gpu: dict[str, Any] = {"dtype": kind, "device": "cuda"}
            add(f"rand {dtype} {n}", lambda n=n, o=on_gpu: torch.rand(n, **o))
            add(f"randn {dtype} {n}", lambda n=n, o=on_gpu: torch.randn(n, **o))
            fill("uniform_(-2, 3)", n, dtype, "uniform_", -2, 3)
            fill("normal_(1.5, 2.5)", n, dtype, "normal_", 1.5, 2.5)
            fill("exponential_(1.5)", n, dtype, "exponential_", 1.5)
            fill("cauchy_(0.5, 2)", n, dtype, "cauchy_", 0.5, 2)
            fill("log_normal_(1, 2)", n, dtype, "log_normal_", 1, 2)
            fill("geometric_(0.3)", n, dtype, "geometric_", 0.3)
            fill("random_()", n, dtype, "random_")
            add(
                f"bernoulli(tensor) {dtype} {n}",
                lambda n=n, k=kind: torch.bernoulli(torch.linspace(0, 1, n, device="cuda").to(k)),
            )
            for size in (n, n + 1, n + 3):  # by one, by two or four, by eight
                add(
                    f"dropout {dtype} {size}",
                    lambda n=size, o=on_gpu: torch.native_dropout(torch.ones(n, **o), 0.3, True)[1],
                )
        for dtype in (*FLOATS, *INTEGERS, "bool"):
            fill("bernoulli_(0.3)", n, dtype, "bernoulli_", 0.3)
        for dtype in INTEGERS:
            fill("random_()", n, dtype, "random_")
            fill("random_(3, 50)", n, dtype, "random_", 3, 50)
        add(f"randint {n}", lambda n=n: torch.randint(-5, 1 << 40, (n,), device="cuda"))
        add(f"randperm {n}", lambda n=n: torch.randperm(n, device="cuda"))
        add(
            f"randn complex64 {n}",
            lambda n=n: torch.view_as_real(torch.randn(n, dtype=torch.complex64, device="cuda")),
        )
    for n in (1000, 1003, 1010):  # equal keys are likely in some
        add(f"randperm {n}", lambda n=n: torch.randperm(n, device="cuda"))
    for dtype in FLOATS:
        kind = getattr(torch, dtype)

        def line(low: float, high: float, kind: Any = kind) -> Any:
            return torch.linspace(low, high, 1000, device="cuda").to(kind)

        add(f"poisson {dtype}", lambda line=line: torch.poisson(line(0, 30)))
        # Below 64, up to 4000 and above, three methods.
        add(f"poisson, large {dtype}", lambda line=line: torch.poisson(line(60, 6000)))
        for name, count in (("binomial", 20), ("binomial, large", 500)):
            add(
                f"{name} {dtype}",
                lambda line=line, n=count: torch.binomial(line(n, n), line(0.01, 0.99)),
            )
        add(f"standard_gamma {dtype}", lambda line=line: torch._standard_gamma(line(0.1, 5)))
        add(f"rrelu {dtype}", lambda line=line: f.rrelu(line(-1, -1), 0.1, 0.9, True))
    weights = torch.linspace(0.1, 2, 50)
    for name, more in (("multinomial", False), ("multinomial, replacement", True)):
        add(name, lambda m=more: torch.multinomial(weights.cuda(), 9, m))
        add(
            f"{name}, rows",
            lambda m=more: torch.multinomial(torch.stack([weights, weights.flip(0)]).cuda(), 9, m),
        )

    def turned(call: str) -> Any:
        return getattr(torch.empty(4, 3, device="cuda").t(), call)()

    add("uniform_ of a transpose", lambda: turned("uniform_"))
    add("normal_ of a transpose", lambda: turned("normal_"))
    add("uniform_ with gaps", lambda: torch.empty(10, 6, device="cuda")[:, ::2].uniform_())
    add("dropout of a transpose", lambda: f.dropout(torch.ones(6, 4, device="cuda").t(), 0.5))
    add("dropout, expanded", lambda: f.dropout(torch.ones(6, 1, device="cuda").expand(6, 4), 0.5))
    add("dropout2d", lambda: f.dropout2d(torch.ones(4, 6, 2, 2, device="cuda"), 0.5))
    add("alpha_dropout", lambda: f.alpha_dropout(torch.ones(40, device="cuda"), 0.5, True))
    add("linear", lambda: torch.nn.Linear(7, 5, device="cuda").weight)
    add("after others", lambda: after_others(torch))
    return found


def after_others(torch: Any) -> Any:
    torch.rand(5, device="cuda")
    torch.randn(300_000, dtype=torch.float64, device="cuda")
    torch.rand(3_000_000, device="cuda")
    torch.bernoulli(torch.rand(7, device="cuda"))
    torch.nn.functional.dropout(torch.ones(9, device="cuda"))
    torch.randperm(11, device="cuda")
    return torch.rand(5, device="cuda")


def drawn(torch: Any, call: Callable[[], Any]) -> tuple[Any, int]:
    """The numbers as they lie in memory in order, bfloat16 as integers; the generator's offset."""
    torch.manual_seed(SEED)
    made = call().detach().contiguous().cpu()
    array = (made.view(torch.int16) if made.dtype == torch.bfloat16 else made).numpy().reshape(-1)
    offset = int(np.frombuffer(torch.cuda.get_rng_state().numpy().tobytes(), "<u8")[1])
    return some(array), offset


def some(array: Any) -> Any:
    if array.size <= 300:
        return array
    places = np.linspace(0, array.size - 1, PLACES).astype(np.int64)
    return np.concatenate([array[:PLACES], array[places]])


def record() -> None:
    import torch

    made: dict[str, Any] = {}
    for name, call in calls(torch).items():
        values, offset = drawn(torch, call)
        made[name], made[f"{name}|offset"] = values, np.int64(offset)
    facts = torch.cuda.get_device_properties(0)
    made["blocks"] = np.int64(
        facts.multi_processor_count * (facts.max_threads_per_multi_processor // 256)
    )
    np.savez_compressed(GOLDEN, **made)
    print(f"{len(made)} arrays from {facts.name}, PyTorch {torch.__version__}")


if __name__ == "__main__":
    record()
