"""Derivatives of higher order in tapegrad, PyTorch and JAX: one run, in turns.

    python benchmarks/derivatives.py [--jax PYTHON] [--rounds 5] [--threads 1] [--only laplacian]

Needs PyTorch beside tapegrad (the environment of `make parity`); `--jax` is the interpreter of an
environment with JAX, a process of its own, as each library's. A row's numbers are the best call of
all rounds in milliseconds: of the clock, or with one thread of processor time, which other programs
on the machine change little. All libraries compute the same numbers, which is checked.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

Call = Callable[[], Any]
LIBRARIES = ("tapegrad", "torch", "jax")
TURN = 0.5  # seconds per case and round


def weights(sizes: list[int], seed: int) -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(seed)
    pairs = zip(sizes, sizes[1:], strict=False)
    return [
        (
            (rng.standard_normal((a, b)) / a**0.5).astype("float32"),
            rng.standard_normal(b).astype("float32") * np.float32(0.1),
        )
        for a, b in pairs
    ]


def mlp(xp: Any, layers: list[tuple[Any, Any]]) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        for w, b in layers[:-1]:
            x = xp.tanh(x @ w + b)
        return (x @ layers[-1][0] + layers[-1][1])[0]

    return f


POINTS = np.random.default_rng(1).standard_normal((16, 50)).astype("float32")
SIZES = [50, 128, 128, 128, 1]
WALKERS = np.random.default_rng(2).standard_normal((16, 30, 3)).astype("float32")
LINE = np.random.default_rng(3).standard_normal(10_000).astype("float32")
BATCH = np.random.default_rng(4).standard_normal((256, 64)).astype("float32")


# ---------------------------------------------------------------------- tapegrad and PyTorch


def laplacian(library: Any) -> dict[str, Call]:
    func, tensor = library.func, library.tensor
    x = tensor(POINTS)
    f = mlp(library, [(tensor(w), tensor(b)) for w, b in weights(SIZES, 0)])
    if library.__name__ == "torch":
        of = func.vmap(lambda x: func.hessian(f)(x).diagonal().sum())
        return {"vmap of the trace of hessian": lambda: of(x)}
    of = func.vmap(func.laplacian(f))
    compiled = library.compile(of)
    return {"vmap(laplacian)": lambda: of(x), "the same, compiled": lambda: compiled(x)}


def electrons(library: Any) -> dict[str, Call]:
    """30 electrons with a network each, whose features meet in a mean."""
    func, tensor = library.func, library.tensor
    x = tensor(WALKERS)
    inner = [(tensor(w), tensor(b)) for w, b in weights([3, 64, 64, 64], 5)]
    top = mlp(library, [(tensor(w), tensor(b)) for w, b in weights([64, 64, 1], 6)])

    def features(x: Any) -> Any:
        for w, b in inner:
            x = library.tanh(x @ w + b)
        return x

    def whole(x: Any) -> Any:
        return top(features(x).mean(0))

    if library.__name__ == "torch":
        of = func.vmap(lambda x: func.hessian(whole)(x).reshape(90, 90).diagonal().sum())
        return {"vmap of the trace of hessian": lambda: of(x)}
    dense = func.vmap(func.laplacian(whole))
    apart = func.vmap(func.laplacian(lambda h: top(h.mean(0)), parts=features))
    compiled = library.compile(apart)
    return {
        "vmap(laplacian)": lambda: dense(x),
        "vmap(laplacian(parts=))": lambda: apart(x),
        "the same, compiled": lambda: compiled(x),
    }


def tridiagonal(library: Any) -> dict[str, Call]:
    """The Jacobian of a nonlinear second difference; elsewhere, by three colors given by hand."""
    func, x = library.func, library.tensor(LINE)

    def f(x: Any) -> Any:
        padded = library.nn.functional.pad(x, (1, 1))
        return padded[:-2] - 2 * x.exp() + padded[2:] * x

    if library.__name__ == "torch":
        colors = library.zeros(3, len(LINE))
        for c in range(3):
            colors[c, c::3] = 1
        columns = func.vmap(lambda v: func.jvp(f, (x,), (v,))[1])
        return {"jvp along three colors": lambda: columns(colors)}
    prepared = func.jacobian(f, sparse=True).prepare(x)
    compiled = library.compile(lambda x: prepared(x).values())
    return {
        "jacobian(sparse=True), prepared": lambda: prepared(x).values(),
        "the same, compiled": lambda: compiled(x),
    }


def per_sample(library: Any) -> dict[str, Call]:
    func, nn, tensor = library.func, library.nn, library.tensor
    library.manual_seed(0)
    x, y = tensor(BATCH), library.zeros(256, 1)
    model = nn.Sequential(
        nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 1)
    )
    with library.no_grad():
        for layer, (w, b) in zip(list(model)[::2], weights([64, 128, 128, 1], 7), strict=True):
            layer.weight.copy_(tensor(w.T.copy()))
            layer.bias.copy_(tensor(b))
    values = {name: p.detach() for name, p in model.named_parameters()}

    def loss(values: Any, x: Any, y: Any) -> Any:
        out = func.functional_call(model, values, (x.unsqueeze(0),))
        return (out - y).square().mean()

    if library.__name__ == "torch":
        each = func.vmap(func.grad(loss), (None, 0, 0))
        return {"vmap(grad)": lambda: each(values, x, y)["0.weight"]}
    of = func.per_sample_grad(nn.functional.mse_loss, model)
    compiled = library.compile(of)
    return {
        "per_sample_grad": lambda: of(x, y)["0.weight"],
        "the same, compiled": lambda: compiled(x, y)["0.weight"],
    }


def path(library: Any) -> dict[str, Call]:
    """The first four derivatives along a line."""
    func, tensor = library.func, library.tensor
    x = tensor(POINTS[0])
    f = mlp(library, [(tensor(w), tensor(b)) for w, b in weights(SIZES, 0)])
    v, zero = library.ones_like(x), library.zeros_like(x)
    if library.__name__ == "torch":
        along = lambda t: f(x + t * v)  # noqa: E731
        for _ in range(4):
            along = lambda t, g=along: func.jvp(g, (t,), (library.ones_like(t),))[1]  # noqa: E731
        start = library.tensor(0.0)
        return {"jvp four times": lambda: along(start)}
    jet = lambda: func.jet(f, (x,), ([v, zero, zero, zero],))[1][3]  # noqa: E731
    compiled = library.compile(jet)
    return {"jet": jet, "the same, compiled": compiled}


def under_budget(library: Any, model: Any, x: Any) -> dict[str, Call]:
    """A training step as it is, and one that keeps half of the values for backward."""
    budget = library.utils.checkpoint.budget

    def step() -> Any:
        model.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    with budget("8 GB") as report:
        step()
    half = report.peak // 2

    def short() -> Any:
        with budget(half):
            return step()

    return {"a step": step, f"with {half / 1e6:.0f} of {report.peak / 1e6:.0f} MB": short}


def gpt(library: Any) -> dict[str, Call]:
    if library.__name__ == "torch":
        return {}
    nn = library.nn

    class Block(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.mixed = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            parts = self.qkv(self.first(x)).chunk(3, -1)
            heads = [t.unflatten(-1, (4, -1)).transpose(1, 2) for t in parts]
            found = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
            x = x + self.mixed(found.transpose(1, 2).flatten(2))
            return x + self.narrow(nn.functional.gelu(self.wide(self.second(x))))

    library.manual_seed(0)
    model = nn.Sequential(*[Block(128) for _ in range(12)])
    return under_budget(library, model, library.randn(8, 128, 128))


def u_net(library: Any) -> dict[str, Call]:
    if library.__name__ == "torch":
        return {}
    nn = library.nn

    def double(a: int, b: int) -> Any:
        layers = []
        for i in (a, b):
            layers += [nn.Conv2d(i, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU()]
        return nn.Sequential(*layers)

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down = nn.ModuleList([double(3, 16), double(16, 32), double(32, 64)])
            self.turn = nn.ModuleList([nn.ConvTranspose2d(2 * n, n, 2, 2) for n in (32, 16)])
            self.up = nn.ModuleList([double(64, 32), double(32, 16)])

        def forward(self, x: Any) -> Any:
            kept = []
            for layer in self.down:
                x = layer(nn.functional.max_pool2d(x, 2) if kept else x)
                kept.append(x)
            kept.pop()
            for turn, layer in zip(self.turn, self.up, strict=True):
                x = layer(library.cat([turn(x), kept.pop()], 1))
            return x

    library.manual_seed(0)
    return under_budget(library, UNet(), library.randn(4, 3, 64, 64))


OURS = {
    "Laplacian of three tanh layers of 128, 50 inputs, 16 points": laplacian,
    "Laplacian of 30 electrons that meet in a mean, 16 points": electrons,
    "tridiagonal Jacobian of 10,000 inputs": tridiagonal,
    "gradients of 256 samples, three linear layers": per_sample,
    "four derivatives along a line, the first network": path,
    "a GPT of 12 layers under a memory budget": gpt,
    "a U-Net under a memory budget": u_net,
}


# ---------------------------------------------------------------------- JAX


def with_jax() -> dict[str, Callable[[], dict[str, Call]]]:
    import jax
    import jax.numpy as jnp
    from jax.experimental.jet import jet

    def arrays(sizes: list[int], seed: int) -> list[tuple[Any, Any]]:
        return [(jnp.array(w), jnp.array(b)) for w, b in weights(sizes, seed)]

    def jitted(calls: dict[str, Callable[..., Any]], *args: Any) -> dict[str, Call]:
        made = {}
        for name, call in calls.items():
            compiled = jax.jit(call)
            made[f"jit of {name}"] = lambda f=compiled: f(*args).block_until_ready()
        return made

    def twice(f: Any, rows: Any) -> Any:
        def of(x: Any) -> Any:
            def along(v: Any) -> Any:
                return jax.jvp(lambda x: jax.jvp(f, (x,), (v,))[1], (x,), (v,))[1]

            return jax.vmap(along)(rows).sum()

        return jax.vmap(of)

    def laplacian() -> dict[str, Call]:
        f = mlp(jnp, arrays(SIZES, 0))
        trace = jax.vmap(lambda x: jnp.trace(jax.hessian(f)(x)))
        calls = {"nested jvp": twice(f, jnp.eye(50)), "the trace of hessian": trace}
        return jitted(calls, jnp.array(POINTS))

    def electrons() -> dict[str, Call]:
        inner, top = arrays([3, 64, 64, 64], 5), mlp(jnp, arrays([64, 64, 1], 6))

        def whole(x: Any) -> Any:
            for w, b in inner:
                x = jnp.tanh(x @ w + b)
            return top(x.mean(0))

        rows = jnp.eye(90).reshape(90, 30, 3)
        trace = jax.vmap(lambda x: jnp.trace(jax.hessian(whole)(x).reshape(90, 90)))
        calls = {"nested jvp": twice(whole, rows), "the trace of hessian": trace}
        return jitted(calls, jnp.array(WALKERS))

    def tridiagonal() -> dict[str, Call]:
        def f(x: Any) -> Any:
            padded = jnp.pad(x, 1)
            return padded[:-2] - 2 * jnp.exp(x) + padded[2:] * x

        colors = jnp.stack([(jnp.arange(len(LINE)) % 3 == c).astype("float32") for c in range(3)])
        columns = lambda x: jax.vmap(lambda v: jax.jvp(f, (x,), (v,))[1])(colors)  # noqa: E731
        return jitted({"jvp along three colors": columns}, jnp.array(LINE))

    def per_sample() -> dict[str, Call]:
        layers = arrays([64, 128, 128, 1], 7)

        def loss(layers: Any, x: Any) -> Any:
            return mlp(jnp, layers)(x) ** 2

        each = lambda layers, x: jax.vmap(jax.grad(loss), (None, 0))(layers, x)  # noqa: E731
        compiled = jax.jit(each)
        x = jnp.array(BATCH)

        def call() -> Any:
            found = jax.block_until_ready(compiled(layers, x))
            return found[0][0].transpose(0, 2, 1)

        return {"jit of vmap(grad)": call}

    def path() -> dict[str, Call]:
        f = mlp(jnp, arrays(SIZES, 0))
        v, zero = jnp.ones(50), jnp.zeros(50)
        calls = {"jet": lambda x: jet(f, (x,), ((v, zero, zero, zero),))[1][3]}
        return jitted(calls, jnp.array(POINTS[0]))

    cases = dict(zip(OURS, (laplacian, electrons, tridiagonal, per_sample, path), strict=False))
    return {title: cases.get(title, dict) for title in OURS}


# ---------------------------------------------------------------------- processes


def checksum(value: Any) -> float:
    """A number that says whether two libraries computed the same."""
    return float(np.abs(np.asarray(value, dtype="float64")).sum())


def serve(name: str, threads: int) -> None:
    """Answer lines with the number of a case: its calls, their best times and a checksum."""
    cases: dict[str, Callable[[], dict[str, Call]]]
    if name == "jax":
        cases = with_jax()
    else:
        library = importlib.import_module(name)
        if threads:
            library.set_num_threads(threads)
        cases = {title: lambda make=make: make(library) for title, make in OURS.items()}
    now = time.process_time if threads == 1 else time.perf_counter
    made: dict[str, dict[str, Call]] = {}
    for line in sys.stdin:
        title = line.strip()
        if title not in made:
            made[title] = cases[title]()
            for call in made[title].values():
                for _ in range(6):
                    call()
        found = {}
        for what, call in made[title].items():
            best, end = float("inf"), time.perf_counter() + TURN
            while time.perf_counter() < end:
                start = now()
                value = call()
                best = min(best, now() - start)
            value = value.detach() if hasattr(value, "detach") else value
            found[what] = (best * 1e3, checksum(value))
        print(json.dumps(found), flush=True)


class Server:
    def __init__(self, name: str, python: str, threads: int) -> None:
        environment = dict(os.environ)
        if threads:
            count = str(threads)
            environment |= {"OMP_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count}
        if threads == 1:
            environment["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
        command = [python, "-W", "ignore", __file__, "--serve", name, str(threads)]
        if threads and sys.platform == "linux":
            command = ["taskset", "-c", f"0-{threads - 1}", *command]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def turn(self, title: str) -> dict[str, tuple[float, float]]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(title + "\n")
        self.process.stdin.flush()
        answer: dict[str, tuple[float, float]] = json.loads(self.process.stdout.readline())
        return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jax", default="", help="the interpreter of an environment with JAX")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0, help="and as many processors")
    parser.add_argument("--only", default="", help="a part of a row's name")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        serve(chosen.serve[0], int(chosen.serve[1]))
        return
    servers = {
        name: Server(name, chosen.jax if name == "jax" else sys.executable, chosen.threads)
        for name in LIBRARIES
        if name != "jax" or chosen.jax
    }
    print("| | | ms |\n|---|---|---:|")
    for title in OURS:
        if chosen.only not in title:
            continue
        best: dict[tuple[str, str], float] = {}
        sums: dict[str, float] = {}
        for _ in range(chosen.rounds):
            for name, server in servers.items():
                for what, (ms, check) in server.turn(title).items():
                    best[name, what] = min(ms, best.get((name, what), ms))
                    sums[f"{name}, {what}"] = check
        for (name, what), ms in best.items():
            print(f"| {title} | {name}, {what} | {ms:.3f} |", flush=True)
        if max(sums.values()) - min(sums.values()) > 1e-3 * max(sums.values()):
            print(f"The results differ: {sums}")


if __name__ == "__main__":
    main()
