"""tapegrad against PyTorch: `make bench` (compiled build), `make bench-pure`.

Both libraries run in one process, in turns, on one thread; the best of many rounds counts, since
noise only ever adds time. A case that one library cannot run yet is reported, not hidden.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
Work = Callable[[], Any]


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


CASES: list[tuple[str, Callable[[Any], Work]]] = [
    ("a*b, 4x4, recorded", recorded_product),
    ("(a*b).sum().backward(), 4x4", product_sum_backward),
    ("200 mixed 4x4 ops, forward + backward", mixed_ops),
    ("training step, 32 x 64-64-10, SGD", training_step),
    ("Adam step, 1000 tensors of 100", many_small_tensors),
    ("vmap(grad), 64 x 64-128-128-10", gradients_per_example),
    ("the same in a Python loop", gradients_in_a_loop),
    ("Hessian, 30 inputs", full_hessian),
    ("Hessian-vector product, 64-128-128-10", hessian_vector_product),
]


def small(torch: Any) -> Any:
    values = [[0.1 * (i + j) - 0.3 for j in range(4)] for i in range(4)]
    return torch.tensor(values, requires_grad=True)


def submodule(torch: Any, name: str) -> Any:
    return importlib.import_module(f"{torch.__name__}.{name}")


def time_once(work: Work, loops: int) -> float:
    start = time.perf_counter_ns()
    for _ in range(loops):
        work()
    return (time.perf_counter_ns() - start) / loops


def prepare(make: Callable[[Any], Work], library: Any) -> tuple[Work | None, str]:
    """The work, tried out once, or the reason why this library cannot do it."""
    try:
        work = make(library)
        work()
    except Exception as error:
        return None, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return work, ""


def best_times(works: list[Work | None], seconds: float) -> list[float | None]:
    """The best time of each, in nanoseconds, taken in turns until the time is used up."""
    best: list[float | None] = [None] * len(works)
    # Turns of about 10 ms: long enough that each library finds its own code in the caches.
    loops = [max(1, int(1e7 / time_once(w, 3))) if w is not None else 0 for w in works]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for i, work in enumerate(works):
            if work is not None:
                taken = time_once(work, loops[i])
                best[i] = min(taken, best[i] or taken)
    return best


def compare(libraries: list[Any], seconds: float) -> None:
    print(f"{'':<40}{'tapegrad':>15}{'torch':>15}{'ratio':>8}")
    for label, make in CASES:
        prepared = [prepare(make, library) for library in libraries]
        gc.collect()
        gc.disable()
        times = best_times([work for work, _ in prepared], seconds)
        gc.enable()
        ours, theirs = times
        ratio = f"{ours / theirs:8.2f}" if ours and theirs else f"{'-':>8}"
        print(f"{label:<40}{in_ns(ours)}{in_ns(theirs)}{ratio}")
        for library, (_, problem) in zip(libraries, prepared, strict=True):
            if problem:
                print(f"    {library.__name__} cannot run it: {problem}")


def in_ns(value: float | None) -> str:
    return f"{'-':>15}" if value is None else f"{value:>12,.0f} ns"


def cost_of_evidence(library: Any, seconds: float) -> None:
    """A training step with the user's lines being recorded, against the same without."""
    from tapegrad.core.base import STATE

    work = training_step(library)

    def silent() -> None:
        STATE.recording = False
        try:
            work()
        finally:
            STATE.recording = True

    with_lines, without = best_times([work, silent], seconds)
    if with_lines and without:
        share = 100 * (with_lines / without - 1)
        print(f"{'recording lines, of a training step':<40}{share:>11.1f} %")


def import_times(rounds: int) -> None:
    """What an import takes in a fresh interpreter, with the bytecode of an earlier one at hand."""
    best: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(rounds):
            for name, before in (("numpy", "sys"), ("tapegrad", "numpy"), ("torch", "numpy")):
                taken = import_time(name, before, cache)
                if taken is not None:
                    best[name] = min(taken, best.get(name, taken))
    for name, taken in best.items():
        label = f"import {name}" if name == "numpy" else f"import {name}, numpy being there"
        print(f"{label:<40}{taken:>12.0f} ms")


def import_time(module: str, before: str, cache: str) -> float | None:
    """Milliseconds of one import after another, or None when it fails."""
    code = (
        f"import time, {before}; t = time.perf_counter(); import {module}; "
        "print(time.perf_counter() - t)"
    )
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    return 1e3 * float(done.stdout) if done.returncode == 0 else None


def wheel_size() -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
        environment = {**os.environ, "TAPEGRAD_PURE": "1"}
        done = subprocess.run(
            [*command, "-w", folder, str(ROOT)], env=environment, capture_output=True, text=True
        )
        wheels = list(pathlib.Path(folder).glob("*.whl"))
        if done.returncode or not wheels:
            print("pure wheel: could not be built")
            return
        print(f"{'pure wheel':<40}{wheels[0].stat().st_size / 1e3:>12.0f} kB")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=3.0, help="time for each case")
    options.add_argument("--quick", action="store_true", help="no import times, no wheel")
    chosen = options.parse_args()
    import torch

    import tapegrad
    from tapegrad import __config__

    torch.set_num_threads(1)
    print(__config__.show() + f"  torch: {torch.__version__}, one thread\n")
    compare([tapegrad, torch], chosen.seconds)
    cost_of_evidence(tapegrad, chosen.seconds)
    if not chosen.quick:
        print()
        import_times(rounds=5)
        wheel_size()


if __name__ == "__main__":
    main()
