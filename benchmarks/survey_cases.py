"""What the survey calls beside the op table: (library, elements) -> call, by family and name.

A call that returns tensors with a history is timed with its gradients too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

Make = Callable[[Any, int], Callable[[], Any]]
CALLS: dict[str, tuple[str, Make]] = {}  # by name: family, what prepares the call


def side(n: int) -> int:
    """The side of a square of about n elements."""
    return max(2, math.isqrt(n))


def values(L: Any, *shape: int) -> Any:
    """Numbers between 0.5 and 1.5, the same in both libraries."""
    count = math.prod(shape)
    return (L.arange(count) * 0.618034 % 1 + 0.5).to(L.float32).reshape(shape)


def listed(family: str, **makes: Make) -> None:
    CALLS.update({name: (family, make) for name, make in makes.items()})


# ---------------------------------------------------------------------- in place, out=


def unary_in_place(name: str) -> Make:
    def make(L: Any, n: int) -> Callable[[], Any]:
        x = values(L, n)
        return getattr(x, name)

    return make


def in_place(act: Callable[[Any, Any, Any], Any]) -> Make:
    def make(L: Any, n: int) -> Callable[[], Any]:
        x, y, z = values(L, n), values(L, n) - 0.3, values(L, n) + 0.1
        return lambda: act(x, y, z)

    return make


for word in """
    abs atan ceil cos erf exp expm1 floor log1p neg reciprocal relu round rsqrt sigmoid sign sin
    sqrt square tanh trunc zero
""".split():
    listed("in place", **{f"{word}_": unary_in_place(f"{word}_")})
listed(
    "in place",
    add_=in_place(lambda x, y, z: x.add_(y)),
    add_alpha_=in_place(lambda x, y, z: x.add_(y, alpha=1e-3)),
    add_number_=in_place(lambda x, y, z: x.add_(1e-3)),
    sub_=in_place(lambda x, y, z: x.sub_(y, alpha=1e-3)),
    mul_=in_place(lambda x, y, z: x.mul_(0.999)),
    div_=in_place(lambda x, y, z: x.div_(z)),
    pow_=in_place(lambda x, y, z: x.pow_(2)),
    lerp_=in_place(lambda x, y, z: x.lerp_(y, 0.1)),
    lerp_tensor_=in_place(lambda x, y, z: x.lerp_(y, z)),
    addcmul_=in_place(lambda x, y, z: x.addcmul_(y, z, value=1e-3)),
    addcdiv_=in_place(lambda x, y, z: x.addcdiv_(y, z, value=1e-3)),
    clamp_=in_place(lambda x, y, z: x.clamp_(0.1, 0.9)),
    clamp_min_=in_place(lambda x, y, z: x.clamp_min_(0.1)),
    copy_=in_place(lambda x, y, z: x.copy_(y)),
    fill_=in_place(lambda x, y, z: x.fill_(2.0)),
    masked_fill_=in_place(lambda x, y, z: x.masked_fill_(y > 0.7, 0.0)),
    eq_=in_place(lambda x, y, z: x.eq_(y)),
    data_add_=in_place(lambda x, y, z: x.data.add_(y)),
)


def with_out(act: Callable[[Any, Any, Any, Any], Any]) -> Make:
    def make(L: Any, n: int) -> Callable[[], Any]:
        s = side(n)
        x, y, out = values(L, s, s), values(L, s, s) - 0.3, L.empty(s, s)
        return lambda: act(L, x, y, out)

    return make


listed(
    "out=",
    add_out=with_out(lambda L, x, y, o: L.add(x, y, out=o)),
    mul_out=with_out(lambda L, x, y, o: L.mul(x, y, out=o)),
    exp_out=with_out(lambda L, x, y, o: L.exp(x, out=o)),
    maximum_out=with_out(lambda L, x, y, o: L.maximum(x, y, out=o)),
    clamp_out=with_out(lambda L, x, y, o: L.clamp(x, 0.1, 0.9, out=o)),
    mm_out=with_out(lambda L, x, y, o: L.mm(x[:64, :64], y[:64, :64], out=o[:64, :64])),
    sum_out=with_out(lambda L, x, y, o: L.sum(x, 0, out=o[0])),
    cat_out=with_out(lambda L, x, y, o: L.cat([x[:1], y[1:]], out=o)),
    where_out=with_out(lambda L, x, y, o: L.where(x > y, x, y, out=o)),
)


# ---------------------------------------------------------------------- indexing


def indexing(act: Callable[..., Any]) -> Make:
    def make(L: Any, n: int) -> Callable[[], Any]:
        s = side(n)
        x, y = values(L, s, s), values(L, s, s)
        rows = L.arange(0, s, max(1, s // 8))
        return lambda: act(x, rows, y, s)

    return make


def stacked(x: Any, s: int) -> Any:
    parts = [x[k] for k in range(min(s, 64))]
    return sum(parts[1:], parts[0])


listed(
    "indexing",
    **{
        "x[0]": indexing(lambda x, i, y, s: x[0]),
        "x[0, 1]": indexing(lambda x, i, y, s: x[0, 1]),
        "x[1:]": indexing(lambda x, i, y, s: x[1:]),
        "x[:, ::2]": indexing(lambda x, i, y, s: x[:, ::2]),
        "x[None]": indexing(lambda x, i, y, s: x[None]),
        "x[rows]": indexing(lambda x, i, y, s: x[i]),
        "x[:, rows]": indexing(lambda x, i, y, s: x[:, i]),
        "x[rows, rows]": indexing(lambda x, i, y, s: x[i, i]),
        "x[mask]": indexing(lambda x, i, y, s: x[x > 1]),
        "x[0] = y": indexing(lambda x, i, y, s: x.__setitem__(0, y[1])),
        "x[0, 0] = 1": indexing(lambda x, i, y, s: x.__setitem__((0, 0), 1.0)),
        "x[:, 0] = y": indexing(lambda x, i, y, s: x.__setitem__((slice(None), 0), y[0])),
        "x[rows] = y": indexing(lambda x, i, y, s: x.__setitem__(i, y[1])),
        "x[rows] += 1": indexing(lambda x, i, y, s: x.__setitem__(i, x[i] + 1e-3)),
        "x[rows, rows] = y": indexing(lambda x, i, y, s: x.__setitem__((i, i), 1.0)),
        "x[mask] = 0": indexing(lambda x, i, y, s: x.__setitem__(x > 5, 0.0)),
        "index_add_": indexing(lambda x, i, y, s: x.index_add_(0, i, y[: len(i)])),
        "index_copy_": indexing(lambda x, i, y, s: x.index_copy_(0, i, y[: len(i)])),
        "index_fill_": indexing(lambda x, i, y, s: x.index_fill_(0, i, 1.0)),
        "scatter_": indexing(lambda x, i, y, s: x.scatter_(1, i[None], 1.0)),
        "x[0].copy_": indexing(lambda x, i, y, s: x[0].copy_(y[1])),
        "x[0].item()": indexing(lambda x, i, y, s: x[0, 0].item()),
        "for row in x": indexing(lambda x, i, y, s: [row for row in x[:16]]),  # noqa: C416
        "sum of rows": indexing(lambda x, i, y, s: stacked(x, s)),
    },
)


# ---------------------------------------------------------------------- layers and losses


def layer(build: Callable[[Any, int], Any], shape: Callable[[int], tuple[int, ...]]) -> Make:
    def make(L: Any, n: int) -> Callable[[], Any]:
        L.manual_seed(0)
        sizes = shape(n)
        module = build(L, sizes[1])
        for p in module.parameters():
            p.data.copy_(values(L, *p.shape) * 0.1)
        x = values(L, *sizes)
        return lambda: module(x)

    return make


def square(n: int) -> tuple[int, ...]:
    return (side(n), side(n))


def image(n: int) -> tuple[int, ...]:
    return (1, 4, max(4, side(n // 4)), max(4, side(n // 4)))


def line(n: int) -> tuple[int, ...]:
    return (2, 4, max(4, n // 8))


def sequence(n: int) -> tuple[int, ...]:
    return (4, 32, max(1, n // 128)) if n > 1000 else (2, 2, 4)


for word in """
    ReLU GELU SiLU Sigmoid Tanh ELU LeakyReLU Softplus Hardswish Mish LogSigmoid Hardtanh
    Softsign Tanhshrink ReLU6 SELU CELU Hardsigmoid Identity
""".split():
    listed("layers", **{word: layer(lambda L, c, w=word: getattr(L.nn, w)(), square)})
listed(
    "layers",
    Linear=layer(lambda L, c: L.nn.Linear(c, c), square),
    Sequential=layer(
        lambda L, c: L.nn.Sequential(L.nn.Linear(c, 8), L.nn.ReLU(), L.nn.Linear(8, 4)), square
    ),
    LayerNorm=layer(lambda L, c: L.nn.LayerNorm(c), square),
    RMSNorm=layer(lambda L, c: L.nn.RMSNorm(c), square),
    Softmax=layer(lambda L, c: L.nn.Softmax(-1), square),
    LogSoftmax=layer(lambda L, c: L.nn.LogSoftmax(-1), square),
    BatchNorm1d=layer(lambda L, c: L.nn.BatchNorm1d(c), square),
    BatchNorm2d=layer(lambda L, c: L.nn.BatchNorm2d(c), image),
    GroupNorm=layer(lambda L, c: L.nn.GroupNorm(2, c), image),
    InstanceNorm2d=layer(lambda L, c: L.nn.InstanceNorm2d(c), image),
    Conv1d=layer(lambda L, c: L.nn.Conv1d(c, 4, 3, padding=1), line),
    Conv2d=layer(lambda L, c: L.nn.Conv2d(c, 4, 3, padding=1), image),
    ConvTranspose2d=layer(lambda L, c: L.nn.ConvTranspose2d(c, 4, 2, stride=2), image),
    MaxPool1d=layer(lambda L, c: L.nn.MaxPool1d(2), line),
    MaxPool2d=layer(lambda L, c: L.nn.MaxPool2d(2), image),
    AvgPool1d=layer(lambda L, c: L.nn.AvgPool1d(2), line),
    AvgPool2d=layer(lambda L, c: L.nn.AvgPool2d(2), image),
    AdaptiveAvgPool2d=layer(lambda L, c: L.nn.AdaptiveAvgPool2d(2), image),
    Flatten=layer(lambda L, c: L.nn.Flatten(), image),
    Upsample=layer(lambda L, c: L.nn.Upsample(scale_factor=2), image),
    ZeroPad2d=layer(lambda L, c: L.nn.ZeroPad2d(1), image),
    ReflectionPad2d=layer(lambda L, c: L.nn.ReflectionPad2d(1), image),
    PixelShuffle=layer(lambda L, c: L.nn.PixelShuffle(2), image),
)


def recurrent(name: str) -> Make:
    def make(L: Any, n: int) -> Callable[[], Any]:
        x = values(L, *sequence(n))
        width = min(x.shape[2], 64)
        module = getattr(L.nn, name)(width, 16)
        for p in module.parameters():
            p.data.copy_(values(L, *p.shape) * 0.1)
        return lambda: module(x[..., :width])[0]

    return make


listed("layers", LSTM=recurrent("LSTM"), GRU=recurrent("GRU"), RNN=recurrent("RNN"))


def embedded(L: Any, n: int) -> Callable[[], Any]:
    module = L.nn.Embedding(1000, max(2, min(64, n // 8)))
    module.weight.data.copy_(values(L, *module.weight.shape))
    index = L.arange(max(2, n // 64)) % 1000
    return lambda: module(index)


def attention(L: Any, n: int) -> Callable[[], Any]:
    width = 16
    x = values(L, 1, 2, max(2, min(512, n // 32)), width).requires_grad_()
    return lambda: L.nn.functional.scaled_dot_product_attention(x, x, x)


listed("layers", Embedding=embedded, scaled_dot_product_attention=attention)


def loss(name: str, target: str = "same") -> Make:
    def make(L: Any, n: int) -> Callable[[], Any]:
        options = {"reduction": "batchmean"} if name == "KLDivLoss" else {}
        module = getattr(L.nn, name)(**options)
        rows = max(2, n // 8)
        x = values(L, rows, 8).requires_grad_()
        y = {
            "same": lambda: values(L, rows, 8) * 0.6,
            "class": lambda: L.arange(rows) % 8,
            "sign": lambda: (L.arange(rows * 8) % 2 * 2 - 1).reshape(rows, 8).to(L.float32),
            "share": lambda: L.softmax(values(L, rows, 8), 1),
        }[target]()
        inside = 0.5 if name == "BCELoss" else 1
        return lambda: module(x * inside, y)

    return make


for word, target in {
    **dict.fromkeys(("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "PoissonNLLLoss"), "same"),
    **dict.fromkeys(("BCELoss", "BCEWithLogitsLoss", "KLDivLoss"), "share"),
    **dict.fromkeys(("SoftMarginLoss", "HingeEmbeddingLoss"), "sign"),
    **dict.fromkeys(("CrossEntropyLoss", "NLLLoss", "MultiMarginLoss"), "class"),
}.items():
    listed("losses", **{word: loss(word, target)})


# ---------------------------------------------------------------------- optimizers


def optimizer(name: str, **options: Any) -> Make:
    def make(L: Any, n: int) -> Callable[[], Any]:
        count = 4
        leaves = [values(L, max(1, n // count)).requires_grad_() for _ in range(count)]
        for p in leaves:
            p.grad = values(L, *p.shape) * 1e-3
        chosen = getattr(L.optim, name)(leaves, lr=1e-3, **options)
        return chosen.step

    return make


for word in "SGD Adam AdamW RMSprop Adagrad Adadelta Adamax NAdam RAdam ASGD Rprop".split():
    listed("optimizers", **{word: optimizer(word)})
listed(
    "optimizers",
    SGD_momentum=optimizer("SGD", momentum=0.9),
    Adam_one_by_one=optimizer("Adam", foreach=False),
)


def averaged(L: Any, n: int) -> Callable[[], Any]:
    a, b = [[values(L, max(1, n // 8)) for _ in range(8)] for _ in range(2)]

    def run() -> None:
        for x, y in zip(a, b, strict=True):
            x.mul_(0.99).add_(y, alpha=0.01)

    return run


def clipped(L: Any, n: int) -> Callable[[], Any]:
    leaves = [values(L, max(1, n // 4)).requires_grad_() for _ in range(4)]
    for p in leaves:
        p.grad = values(L, *p.shape)
    return lambda: L.nn.utils.clip_grad_norm_(leaves, 1.0)


def loaded(L: Any, n: int) -> Callable[[], Any]:
    s = side(n)
    module = L.nn.Sequential(L.nn.Linear(s, s), L.nn.Linear(s, s))
    state = {k: v.clone() for k, v in module.state_dict().items()}
    return lambda: module.load_state_dict(state) and None


listed("training", EMA=averaged, clip_grad_norm_=clipped, load_state_dict=loaded)


# ---------------------------------------------------------------------- draws, data, moving


def drawn(act: Callable[[Any, int], Any]) -> Make:
    return lambda L, n: lambda: act(L, n)


listed(
    "draws",
    rand_n=drawn(lambda L, n: L.rand(n)),
    randn_n=drawn(lambda L, n: L.randn(n)),
    randint_n=drawn(lambda L, n: L.randint(0, 10, (n,))),
    randperm_n=drawn(lambda L, n: L.randperm(n)),
    dropout_n=drawn(lambda L, n: L.nn.functional.dropout(L.ones(n), 0.5)),
    bernoulli_n=drawn(lambda L, n: L.bernoulli(L.full((n,), 0.3))),
    normal_rand_=drawn(lambda L, n: L.empty(n).normal_()),
    uniform_rand_=drawn(lambda L, n: L.empty(n).uniform_()),
    exponential_rand_=drawn(lambda L, n: L.empty(n).exponential_()),
)
for word, given in {
    "Normal": (0.0, 1.0),
    "Uniform": (0.0, 1.0),
    "Gamma": (2.0, 1.0),
    "Beta": (2.0, 3.0),
    "Poisson": (4.0,),
    "Bernoulli": (0.3,),
    "Exponential": (1.0,),
    "StudentT": (5.0,),
    "Laplace": (0.0, 1.0),
}.items():

    def rand(L: Any, n: int, word: str = word, given: Any = given) -> Callable[[], Any]:
        parts = [L.full((n,), value) for value in given]
        distribution = getattr(L.distributions, word)(*parts, validate_args=False)
        return lambda: distribution.sample()

    listed("draws", **{f"{word}.sample (rand)": rand})


def loader(shuffle: bool) -> Make:
    def make(L: Any, n: int) -> Callable[[], Any]:
        count = max(4, min(1024, n // 16))
        data = L.utils.data.TensorDataset(values(L, count, 16), L.arange(count))
        batches = L.utils.data.DataLoader(data, batch_size=max(2, count // 8), shuffle=shuffle)
        return lambda: [b[0] for b in batches][:0]

    return make


def padded(L: Any, n: int) -> Callable[[], Any]:
    parts = [values(L, max(1, n // (16 + k))) for k in range(16)]
    return lambda: L.nn.utils.rnn.pad_sequence(parts, batch_first=True)


def made(act: Callable[[Any, Any], Any]) -> Make:
    def make(L: Any, n: int) -> Callable[[], Any]:
        x = values(L, side(n), side(n))
        return lambda: act(L, x)

    return make


listed(
    "data loading",
    DataLoader=loader(False),
    DataLoader_rand=loader(True),
    pad_sequence=padded,
)
listed(
    "making",
    **{
        "x.half()": made(lambda L, x: x.half()),
        "x.bfloat16()": made(lambda L, x: x.bfloat16()),
        "x.double()": made(lambda L, x: x.double()),
        "x.long()": made(lambda L, x: x.long()),
        "x.T.contiguous()": made(lambda L, x: x.T.contiguous()),
        "x.tolist()": made(lambda L, x: x[:4, :4].tolist()),
        "zeros": made(lambda L, x: L.zeros(x.shape)),
        "ones_like": made(lambda L, x: L.ones_like(x)),
        "arange": made(lambda L, x: L.arange(x.numel())),
        "arange of floats": made(lambda L, x: L.arange(0.0, 1.0, 1.0 / x.numel())),
        "linspace": made(lambda L, x: L.linspace(0, 1, x.numel())),
        "eye": made(lambda L, x: L.eye(x.shape[0])),
        "tensor of a list": made(lambda L, x: L.tensor([1.0, 2.0, 3.0])),
        "view": made(lambda L, x: x.view(-1)),
        "flatten": made(lambda L, x: x.flatten()),
        "(x @ y).sum()": made(lambda L, x: (x[:64] @ x[:64].T).sum()),
        "einsum ij,ij->": made(lambda L, x: L.einsum("ij,ij->", x, x)),
        "cat of a list": made(lambda L, x: L.cat([x[:1]] * 16)),
        "stack of a list": made(lambda L, x: L.stack([x[0]] * 16)),
    },
)


def calls(n: int, backward: bool) -> Iterator[tuple[str, str, Any]]:
    """(name, family, library -> call), as `sample_calls` of the survey gives them."""
    from survey import differentiated

    for name, (family, make) in CALLS.items():
        if not backward:
            yield name, family, lambda L, make=make: make(L, n)
        elif family in ("layers", "losses"):

            def prepare(L: Any, make: Any = make) -> Any:
                call = make(L, n)
                leaves = leaves_of(call)
                return differentiated(L, call, leaves)

            yield name, family, prepare


def leaves_of(call: Any) -> list[Any]:
    """The parameters of the module and the input `x` in the closure of a call."""
    found: list[Any] = []
    for name, cell in zip(call.__code__.co_freevars, call.__closure__ or (), strict=True):
        value = cell.cell_contents
        if hasattr(value, "parameters"):
            found += value.parameters()
        elif name == "x":
            found.append(value.requires_grad_())
    return found
