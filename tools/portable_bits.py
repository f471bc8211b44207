"""Twenty programs with the same bits on every machine: their hashes here, and a table of several.

    TAPEGRAD_PORTABLE=1 PYTHONPATH=src python tools/portable_bits.py --threads 8 > here.txt
    python tools/portable_bits.py --table here.txt there.txt      # Markdown: what is equal
    python tools/portable_bits.py --machines build/portable 1 2 8 # those here, with so many threads
    python tools/portable_bits.py --ops small|longer|odd          # a hash for each op's samples
    PYTHONPATH=src python tools/portable_bits.py --time           # against the default mode
    PYTHONPATH=src python tools/portable_bits.py --time-large     # single calls of large tensors

`--machines` masks instructions, runs x86-64 without AVX-512 and without AVX2 under QEMU, where that
is installed, and arm64 if tools/arm64.sh has run (minutes for each). What lies in the folder is not
measured again. A NaN counts as any other: processors differ about its sign.
"""

from __future__ import annotations

import hashlib
import math
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS: dict[str, Callable[[Any, Any], Iterator[Any]]] = {}
Program = Callable[[Any, Any], Iterator[Any]]


def program(function: Program) -> Program:
    PROGRAMS[function.__name__.replace("_", " ")] = function
    return function


def trained(torch: Any, model: Any, optimizer: Any, loss_of: Any, steps: int) -> Iterator[Any]:
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        yield loss.detach()
        optimizer.step()
    yield from [p.detach() for p in model.parameters()]


@program
def MLP_with_Adam(torch, dtype):
    nn = torch.nn
    model = nn.Sequential(nn.Linear(64, 48), nn.GELU(), nn.LayerNorm(48), nn.Linear(48, 10))
    x, y = torch.randn(40, 64), torch.randint(0, 10, (40,))
    optimizer = torch.optim.Adam(model.parameters())
    loss = torch.nn.functional.cross_entropy
    yield from trained(torch, model, optimizer, lambda: loss(model(x), y), 10)


@program
def MLP_with_SGD(torch, dtype):
    nn = torch.nn
    model = nn.Sequential(nn.Linear(17, 33), nn.Tanh(), nn.Dropout(0.3), nn.Linear(33, 1))
    x, y = torch.randn(50, 17), torch.randn(50, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)

    def loss():
        return torch.nn.functional.smooth_l1_loss(model(x), y)

    for _ in range(5):
        yield from trained(torch, model, optimizer, loss, 2)
        schedule.step()


@program
def conv_net(torch, dtype):
    nn = torch.nn
    model = nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 12, 3, stride=2), nn.SiLU(), nn.AvgPool2d(2), nn.Flatten()),
        nn.LazyLinear(10),
    )
    x, y = torch.randn(12, 1, 28, 28), torch.randint(0, 10, (12,))
    model(x)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    loss = torch.nn.functional.cross_entropy
    yield from trained(torch, model, optimizer, lambda: loss(model(x), y), 5)


@program
def transposed_and_grouped_convolutions(torch, dtype):
    F = torch.nn.functional
    x = torch.randn(2, 6, 11, 13, requires_grad=True)
    w, v = torch.randn(6, 4, 3, 3, requires_grad=True), torch.randn(12, 4, 2, requires_grad=True)
    y = F.conv_transpose2d(x, w, stride=2, padding=1)
    z = F.conv1d(y.flatten(2)[:, :, :50].repeat(1, 2, 1), v, groups=2, dilation=2)
    (z.sigmoid() * z).sum().backward()
    yield from (y, z, x.grad, w.grad, v.grad)


@program
def LSTM(torch, dtype):
    model = torch.nn.LSTM(9, 14, num_layers=2)
    x, y = torch.randn(12, 5, 9), torch.randn(12, 5, 14)
    optimizer = torch.optim.RMSprop(model.parameters())
    yield from trained(torch, model, optimizer, lambda: (model(x)[0] - y).square().mean(), 6)


@program
def GRU(torch, dtype):
    model = torch.nn.GRU(7, 11, bidirectional=True)
    x = torch.randn(9, 4, 7)
    optimizer = torch.optim.NAdam(model.parameters())
    yield from trained(torch, model, optimizer, lambda: model(x)[0].exp().mean(), 6)


@program
def GPT(torch, dtype):
    nn, F = torch.nn, torch.nn.functional
    embedding, places = nn.Embedding(31, 32), nn.Embedding(16, 32)
    norm, attend, up, down = (
        nn.LayerNorm(32),
        nn.Linear(32, 96),
        nn.Linear(32, 64),
        nn.Linear(64, 32),
    )
    model = nn.ModuleList([embedding, places, norm, attend, up, down])
    text = torch.randint(0, 31, (3, 17))

    def loss():
        x = embedding(text[:, :-1]) + places.weight
        q, k, v = [t.reshape(3, 16, 4, 8).transpose(1, 2) for t in attend(norm(x)).chunk(3, -1)]
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + mixed.transpose(1, 2).reshape(3, 16, 32)
        x = x + down(F.gelu(up(norm(x))))
        return F.cross_entropy((x @ embedding.weight.T).flatten(0, 1), text[:, 1:].flatten())

    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    yield from trained(torch, model, optimizer, loss, 6)


@program
def transformer_encoder_layer(torch, dtype):
    model = torch.nn.TransformerEncoderLayer(16, 4, 32, dropout=0.1, batch_first=True)
    x = torch.randn(3, 7, 16)
    optimizer = torch.optim.Adagrad(model.parameters())
    yield from trained(torch, model, optimizer, lambda: model(x).square().mean(), 4)


@program
def losses(torch, dtype):
    F = torch.nn.functional
    x, y = torch.randn(21, 8, requires_grad=True), torch.randn(21, 8)
    labels = torch.randint(0, 8, (21,))
    for loss in (
        F.mse_loss(x, y),
        F.l1_loss(x, y),
        F.huber_loss(x, y),
        F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"),
        F.binary_cross_entropy_with_logits(x, y.sigmoid()),
        F.binary_cross_entropy(x.sigmoid(), y.sigmoid()),
        F.nll_loss(x.log_softmax(-1), labels),
        F.cross_entropy(x, labels, label_smoothing=0.1),
        F.multi_margin_loss(x, labels),
        F.cosine_embedding_loss(x, y, labels.sign() * 2 - 1),
        F.poisson_nll_loss(x, y.abs()),
        F.gaussian_nll_loss(x, y, y.abs() + 0.1),
        F.soft_margin_loss(x, y.sign()),
        F.triplet_margin_loss(x, y, y.flip(0)),
    ):
        (grad,) = torch.autograd.grad(loss, x)
        yield from (loss, grad)


@program
def distributions(torch, dtype):
    D = torch.distributions
    a = torch.linspace(0.4, 4.0, 30, dtype=dtype, requires_grad=True)
    b = a.flip(0)
    for d in (
        *(D.Normal(a, b), D.LogNormal(a, b), D.Gamma(a, b), D.Beta(a, b), D.StudentT(a, b)),
        *(D.Exponential(a), D.Laplace(a, b), D.Gumbel(a, b), D.Weibull(a, b), D.Cauchy(a, b)),
        *(
            D.Dirichlet(a),
            D.Categorical(a),
            D.Poisson(4 * a),
            D.Bernoulli(a / 5),
            D.Geometric(a / 5),
        ),
        *(D.Binomial(20, a / 5), D.NegativeBinomial(20, a / 5), D.VonMises(a, b), D.HalfNormal(a)),
    ):
        sample = d.sample()
        value = d.log_prob(sample)
        yield from (sample, value, *torch.autograd.grad(value.sum(), a, allow_unused=True))
    moved = D.Gamma(a, b).rsample()
    yield from (moved, *torch.autograd.grad(moved.sum(), a))


@program
def norms(torch, dtype):
    F = torch.nn.functional
    x = torch.randn(5, 12, 6, 7, requires_grad=True)
    for y in (
        *(F.layer_norm(x, (6, 7)), F.group_norm(x, 3), F.instance_norm(x), F.rms_norm(x, (7,))),
        *(F.batch_norm(x, None, None, training=True), F.normalize(x, dim=1)),
        F.batch_norm(x.transpose(2, 3), None, None, training=True),
        F.local_response_norm(x, 3),
    ):
        (grad,) = torch.autograd.grad((y * y * y).sum(), x)
        yield from (y, grad)
    for p in (0.5, 1, 2, 3, math.inf):
        norm = x.norm(p, dim=1)
        yield from (norm, *torch.autograd.grad(norm.sum(), x))


@program
def physics(torch, dtype):
    state = torch.tensor([0.5, 0.1, -0.3, 0.7], dtype=dtype, requires_grad=True)
    length = torch.tensor(1.3, dtype=dtype, requires_grad=True)

    def slope(s):
        q1, q2, p1, p2 = s.unbind()
        d = q1 - q2
        a = (p1.square() * d.sin() + q2.cos() * 9.81) / (length * (2 - d.cos().square()))
        return torch.stack([p1, p2, -a, a * d.cos() - q1.sin() * 9.81 / length])

    s, h = state, 0.01
    for _ in range(100):
        k1 = slope(s)
        k2 = slope(s + h / 2 * k1)
        k3 = slope(s + h / 2 * k2)
        s = s + h / 6 * (k1 + 2 * k2 + 2 * k3 + slope(s + h * k3))
    energy = (s * s).sum() + torch.hypot(s[0], s[1]) + torch.atan2(s[2], s[3])
    energy.backward()
    yield from (s, energy, state.grad, length.grad)


@program
def embeddings(torch, dtype):
    nn = torch.nn
    bag, table = nn.EmbeddingBag(40, 6, mode="mean"), nn.Embedding(40, 6, max_norm=1.0)
    words = torch.randint(0, 40, (30, 5))
    y = (bag(words) * table(words).sum(1)).exp().sum()
    y.backward()
    yield from (y, bag.weight.grad, table.weight, table.weight.grad)


@program
def gather_and_scatter(torch, dtype):
    x = torch.randn(60, 9, requires_grad=True)
    at = torch.randint(0, 60, (200,))
    rows = x[at]
    added = torch.zeros(60, 9).index_add(0, at, rows * rows)
    spread = torch.zeros(60, 9).scatter_add(0, at[:60, None].expand(60, 9), x.exp())
    taken = added.gather(1, at[:180].reshape(60, 3) % 9)
    mean = torch.zeros(9, 9).scatter_reduce(0, at[:60, None].expand(60, 9) % 9, x, "mean")
    (taken.sum() + (spread * spread).mean() + mean.prod(0).sum() + x[x > 0].sum()).backward()
    yield from (added, spread, taken, mean, x.grad)


@program
def reductions(torch, dtype):
    x = torch.randn(7, 33, 65, requires_grad=True)
    for t in (x, x.transpose(0, 2), x[:, ::2], x.permute(1, 2, 0)[3:]):
        for y in (
            *(t.sum(), t.sum(0), t.sum(1), t.sum((0, 2)), t.mean(-1), t.var(0), t.std((0, 1))),
            *(t.cumsum(1), t.logsumexp(1), (1 + t / 9).prod(1), t.cumsum(0).logcumsumexp(2)),
            *(t.softmax(0), t.log_softmax(2), (1 + t / 9).cumprod(2), t.nansum(1), t.norm()),
            torch.where(t > 0, t, 0).mean(1),
        ):
            yield from (y, *torch.autograd.grad((y * y).sum(), x))


@program
def functions(torch, dtype):
    x = torch.linspace(-40, 40, 3001, dtype=dtype)
    x = torch.cat([x, x / 50, x * 1e4, torch.tensor([math.inf, -math.inf, math.nan], dtype=dtype)])
    names = "exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh asin acos atan asinh"
    more = " acosh atanh sigmoid erf erfc erfinv lgamma digamma sqrt rsqrt sinc i0 logit"
    for name in (names + more).split():
        yield getattr(torch, name)(x)
    F = torch.nn.functional
    for name in "gelu silu softplus mish elu selu celu hardswish logsigmoid tanhshrink".split():
        yield getattr(F, name)(x)
    y = x.flip(0)
    yield from (x.abs() ** 1.7, x.abs() ** (y / 50), torch.atan2(x, y), torch.hypot(x, y))
    yield from (torch.logaddexp(x, y), 1.3**x, torch.xlogy(x.abs(), y.abs()), torch.fmod(x, y))


@program
def products(torch, dtype):
    a, b = torch.randn(37, 610, requires_grad=True), torch.randn(610, 29, requires_grad=True)
    c = torch.randn(4, 29, 11, requires_grad=True)
    y = torch.einsum("ik,kj,bjl->bil", a, b, c)
    z = (
        torch.bmm(c.transpose(1, 2), c)
        + torch.baddbmm(y[:, :11, :], c[:, :11], c[:, :11, :11])[:, :, :11]
    )
    v = (
        a @ b[:, 0]
        + (a[0] @ b).sum()
        + torch.addmv(a[:, 0], a, b[:, 1])
        + torch.outer(a[0], b[0])[0, 0]
    )
    w = torch.nn.functional.bilinear(a[:5, :6], a[:5, 6:13], torch.ones(3, 6, 7))
    (y.tanh().sum() + z.sin().sum() + v.cos().sum() + w.sum()).backward()
    yield from (y, z, v, w, a.grad, b.grad, c.grad)


@program
def half_precision(torch, dtype):
    low = torch.bfloat16 if dtype == torch.float32 else torch.float16
    x, w = torch.randn(20, 30).to(low).requires_grad_(), torch.randn(30, 40).to(low)
    y = torch.nn.functional.gelu(x @ w / 8).softmax(1)
    (y.log() * y).float().sum().backward()
    yield from (y, x.grad, x.exp(), x.sum(0), x.var(1), x.cumsum(1), x.mean())


@program
def second_derivatives(torch, dtype):
    x = torch.randn(6, requires_grad=True)

    def f(x):
        return (x.tanh() * x.exp()).sum() * x.prod().cos() + (x.square() + 1).log().sum()

    yield torch.autograd.functional.hessian(f, x)
    yield torch.func.vmap(torch.func.grad(f))(torch.randn(5, 6))
    yield torch.func.jvp(f, (x.detach(),), (torch.ones(6),))[1]


@program
def images(torch, dtype):
    F = torch.nn.functional
    x = torch.randn(2, 3, 13, 17, requires_grad=True)
    grid = torch.rand(2, 9, 8, 2) * 2 - 1
    for y in (
        *(F.interpolate(x, (20, 9), mode="bilinear"), F.interpolate(x, (7, 30), mode="bicubic")),
        *(
            F.grid_sample(x, grid, align_corners=False),
            F.pad(x, (1, 2, 3, 4), mode="reflect"),
            F.max_pool2d(x, 3, 2),
        ),
        *(
            F.adaptive_avg_pool2d(x, (5, 4)),
            F.unfold(x, 3),
            F.pixel_shuffle(x.repeat(1, 4, 1, 1), 2),
        ),
        F.avg_pool2d(x, 3, padding=1),
    ):
        yield from (y, *torch.autograd.grad((y * y).sum(), x))


# ---------------------------------------------------------------------- hashes


def bits(torch: Any, value: Any) -> bytes:
    if value is None:
        return b""
    value = value.detach()
    if value.is_floating_point():
        value = torch.where(value != value, torch.full_like(value, math.nan), value)
    elif value.is_complex():
        return bits(torch, torch.view_as_real(value))
    return bytes(
        value.contiguous().view(torch.uint8).numpy().tobytes()
        if value.ndim
        else value.reshape(1).view(torch.uint8).numpy().tobytes()
    )


def run(name: str, dtype: Any) -> str:
    import tapegrad as torch

    torch.set_default_dtype(dtype)
    torch.manual_seed(7)
    made = hashlib.sha256()
    for value in PROGRAMS[name](torch, dtype):
        made.update(bits(torch, value))
    torch.set_default_dtype(torch.float32)
    return made.hexdigest()[:16]


def hashes(names: Any = ()) -> dict[str, str]:
    import tapegrad as torch

    found = {}
    for name in names or PROGRAMS:
        for dtype in (torch.float32, torch.float64):
            found[f"{name}, {str(dtype)[6:]}"] = run(name, dtype)
    return found


ODD = (0.0, -0.0, 1.0, -1.0, math.nan, math.inf, -math.inf, 1e-40, -1e-40, 1e30)
UNSEEDED = ("empty", "new_empty", "seed", "lobpcg", "svd_lowrank", "pca_lowrank", "resize")


def of_ops(how: str) -> Iterator[str]:
    """Samples of the op table with their gradients: "small" as they are, "longer" ones with 17
    times the length, "odd" ones with zeros of both signs, infinities, NaN and tiny numbers."""
    import numpy as np

    sys.path.insert(0, str(ROOT / "tests"))
    import table
    import tapegrad as torch
    from tapegrad.ops.block.samples import Draw

    draw = Draw.array

    def array(self: Any, rng: Any) -> Any:
        if how == "longer":
            shape = [17 * n if n > 1 else n for n in self.shape]
            if math.prod(shape) > 20000:
                raise ValueError("large")
            self = Draw(*shape, low=self.low, high=self.high, layout=self.layout)
        made = draw(self, rng)
        if how == "odd" and made.dtype.kind == "f" and made.size:
            at = rng.random(made.shape) < 0.5
            made[at] = np.array(ODD)[rng.integers(0, len(ODD), int(at.sum()))]
        return made

    Draw.array = array
    names = [name for name in table.PURE if not name.startswith(UNSEEDED)]
    for cast in (np.float64, np.float32):

        def leaf(values: Any, cast: Any = cast) -> Any:
            return table.leaf(values.astype(cast) if values.dtype == np.float64 else values)

        for name in names:
            for i in range(len(table.APIS[name].samples)):
                torch.manual_seed(3)
                try:
                    args, kwargs, made = table.draw(name, i, leaf)
                    outs = table.tensors_in(table.call(name, args, kwargs))
                    sums = [t.sum() for t in outs if t.requires_grad and not t.is_complex()]
                    if sums:
                        sum(sums).backward()
                    grads = [t.grad for t in made if t.is_leaf and t.grad is not None]
                    whole = [t.detach().resolve_conj().to_dense() for t in (*outs, *grads)]
                    text = hashlib.sha256(b"".join([bits(torch, t) for t in whole])).hexdigest()[
                        :12
                    ]
                except Exception as error:
                    text = type(error).__name__
                yield f"{cast.__name__}/{name}/{i} {text}"


# ---------------------------------------------------------------------- machines


def fewer_instructions() -> dict[str, str]:
    """Environment of a process whose NumPy and C library use no more than SSE4."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    names = [name for name in __cpu_dispatch__ if __cpu_features__.get(name)]
    return {
        "NPY_DISABLE_CPU_FEATURES": " ".join(names),
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX2,-FMA,-AVX",
        "OPENBLAS_CORETYPE": "Core2",
        "TAPEGRAD_NATIVE": "0",
    }


def machines() -> dict[str, tuple[list[str], dict[str, str]]]:
    """Commands that start Python on processors without some instructions, and their environment."""
    core = {"OPENBLAS_CORETYPE": "Nehalem"}
    plain = {"TAPEGRAD_NATIVE": "0", "TAPEGRAD_PURE": "1"}
    found: dict[str, tuple[list[str], dict[str, str]]] = {"here": ([sys.executable], {})}
    found["pure"] = ([sys.executable], plain)
    found["masked"] = ([sys.executable], fewer_instructions())
    qemu = shutil.which("qemu-x86_64-static") or shutil.which("qemu-x86_64")
    if qemu is not None and platform.machine() == "x86_64":
        found["AVX2"] = ([qemu, "-cpu", "Haswell", sys.executable], {})
        found["SSE4"] = ([qemu, "-cpu", "Nehalem", sys.executable], core)  # what NumPy demands
    arm = ROOT / "build/arm64/usr/bin/python3.13"
    if arm.exists():
        path = {"PYTHONPATH": str(ROOT / "build/arm64-src")}
        found["arm64"] = ([str(arm)], path)
        found["arm64, pure"] = ([str(arm)], path | plain)
    return found


def read(path: pathlib.Path) -> dict[str, str]:
    return dict([line.rsplit(" ", 1) for line in path.read_text().splitlines()])


def measure(folder: pathlib.Path, counts: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, (command, extra) in machines().items():
        for threads in counts:
            path = folder / f"{name}, {threads}.txt"
            files.append(path)
            if path.exists():
                continue
            environment = {**os.environ, "TAPEGRAD_PORTABLE": "1", **extra}
            line = [*command, __file__, "--threads", threads]
            done = subprocess.run(
                line, env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode:
                sys.exit(f"{name}: {done.stderr[-2000:]}")
            path.write_text(done.stdout)
            print(f"measured: {name}, {threads} threads", file=sys.stderr)
    print(table(files))


def table(files: list[pathlib.Path]) -> str:
    columns = {path.stem: read(path) for path in files if path.exists()}
    first = next(iter(columns.values()))
    lines = ["| program | float32 | float64 | the same on |", "|---|---|---|---|"]
    for name in dict.fromkeys([name.rpartition(", ")[0] for name in first]):
        both = [f"{name}, float32", f"{name}, float64"]
        other = [at for at, found in columns.items() if any(found[n] != first[n] for n in both)]
        said = f"all but {'; '.join(other)}" if other else f"all {len(columns)}"
        lines.append(f"| {name} | `{first[both[0]]}` | `{first[both[1]]}` | {said} |")
    count = sum([value == found[n] for found in columns.values() for n, value in first.items()])
    lines.append(f"\n{count} of {len(first) * len(columns)} hashes are those of the first run.")
    lines.append(f"Runs, with their number of threads: {'; '.join(columns)}.")
    return "\n".join(lines)


def seconds(name: str, dtype: Any) -> float:
    """Of this thread: other work on the machine does not count."""
    begin = time.thread_time()
    run(name, dtype)
    return time.thread_time() - begin


def compare_times() -> None:
    """One thread; the first runs after a switch, in which calls are remembered, do not count."""
    import tapegrad as torch

    torch.set_num_threads(1)
    ratios = []
    for name in PROGRAMS:
        times: dict[Any, list[float]] = {False: [], "portable": []}
        for _ in range(4):  # in turns
            for mode in times:
                torch.use_deterministic_algorithms(mode)
                times[mode] += [seconds(name, torch.float32) for _ in range(6)][3:]
        usual, portable = [min(t) for t in times.values()]
        ratios.append(portable / usual)
        print(f"| {name} | {usual * 1e3:.1f} | {portable * 1e3:.1f} | {portable / usual:.2f} |")
    torch.use_deterministic_algorithms(False)
    print(f"geometric mean {statistics.geometric_mean(ratios):.2f}")


def large_calls(torch: Any) -> dict[str, Callable[[], Any]]:
    F = torch.nn.functional
    v, m, w = torch.randn(500_000), torch.randn(512, 1024), torch.randn(1024, 1024)
    image, kernel = torch.randn(16, 32, 56, 56), torch.randn(32, 32, 3, 3)
    q, k, u = [torch.randn(4, 8, 256, 64) for _ in range(3)]
    lstm, steps = torch.nn.LSTM(64, 64), torch.randn(50, 32, 64)
    scale, shift, size = torch.randn(1024), torch.randn(1024), v.abs()
    x, labels = m.clone().requires_grad_(), torch.randint(0, 1024, (512,))

    def back(y: Any) -> Any:
        return torch.autograd.grad(y.sum(), x)

    return {
        "`x @ w`, 512x1024x1024": lambda: m @ w,
        "`exp`, 500,000": v.exp,
        "`tanh`": v.tanh,
        "`sigmoid`": v.sigmoid,
        "`log`": size.log,
        "`sin`": v.sin,
        "`erf`": v.erf,
        "`x ** 1.7`": lambda: size**1.7,
        "gelu": lambda: F.gelu(v),
        "sum": v.sum,
        "`a * b + a`": lambda: v * size + v,
        "softmax, 512x1024": lambda: m.softmax(1),
        "with its gradient": lambda: back(x.softmax(1)),
        "log_softmax": lambda: m.log_softmax(1),
        "cross entropy": lambda: F.cross_entropy(m, labels),
        "layer norm": lambda: F.layer_norm(m, (1024,), scale, shift),
        "layer norm with its gradient": lambda: back(F.layer_norm(x, (1024,), scale, shift)),
        "mean of rows": lambda: m.mean(1),
        "sum of columns": lambda: m.sum(0),
        "var of rows": lambda: m.var(1),
        "cumsum of rows": lambda: m.cumsum(1),
        "conv2d, 16x32x56x56": lambda: F.conv2d(image, kernel, padding=1),
        "batch norm": lambda: F.batch_norm(image, None, None, training=True),
        "group norm": lambda: F.group_norm(image, 4),
        "max pooling": lambda: F.max_pool2d(image, 2),
        "attention, 4x8x256x64": lambda: F.scaled_dot_product_attention(q, k, u),
        "LSTM, 50x32x64": lambda: lstm(steps),
    }


def compare_large() -> None:
    import tapegrad as torch

    torch.set_num_threads(1)
    calls, times = large_calls(torch), {}
    for _ in range(3):  # in turns
        for mode in (False, "portable"):
            torch.use_deterministic_algorithms(mode)
            for name, call in calls.items():
                for i in range(8):
                    begin = time.thread_time()
                    call()
                    took = time.thread_time() - begin
                    if i > 2:
                        times[name, mode] = min(took, times.get((name, mode), took))
    torch.use_deterministic_algorithms(False)
    ratios = []
    for name in calls:
        usual, portable = times[name, False], times[name, "portable"]
        ratios.append(portable / usual)
        print(f"| {name} | {usual * 1e3:.2f} | {portable * 1e3:.2f} | {portable / usual:.1f} |")
    print(f"geometric mean {statistics.geometric_mean(ratios):.2f}")


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] == ["--machines"]:
        measure(pathlib.Path(arguments[1]), arguments[2:] or ["1", "2", "8"])
    elif arguments[:1] == ["--table"]:
        print(table([pathlib.Path(path) for path in arguments[1:]]))
    else:
        import tapegrad as torch

        if arguments[:1] == ["--time"]:
            compare_times()
            return
        if arguments[:1] == ["--time-large"]:
            compare_large()
            return
        if arguments[:1] == ["--ops"]:
            warnings.simplefilter("ignore")
            print("\n".join(of_ops(arguments[1])))
            return
        if arguments[:1] == ["--threads"]:
            torch.set_num_threads(int(arguments[1]))
        for name, value in hashes().items():
            print(name, value)


if __name__ == "__main__":
    main()
