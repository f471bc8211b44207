"""Random training scripts in the torch API: a stack of layers, a loss, an optimizer, a schedule.

`script(seed, variation)` is ordinary source text. It is run with `torch` bound to either library,
and stands on its own where a difference is to be looked at: put `import torch` and
`from torch import nn` above it. Shapes are not computed here: PyTorch says what a layer makes of
them.
"""

from __future__ import annotations

import random
import string
import warnings
from collections.abc import Callable

import torch

STEPS = 5
BATCH = 8
CLASSES = 6
LARGEST = 4000  # numbers between two layers

# Layers for which a plain Sequential does not do.
PARTS = {
    "First": """
class First(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer
    def forward(self, x):
        return self.layer(x)[0]
""",
    "Attend": """
class Attend(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer
    def forward(self, x):
        return x + self.layer(x, x, x, need_weights=False)[0]
""",
    "Residual": """
class Residual(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)
    def forward(self, x):
        y = x
        for layer in self.layers:
            y = layer(y)
        return x + y
""",
    "Mean": """
class Mean(nn.Module):
    def forward(self, x):
        return x.mean(dim=1)
""",
}

Shape = tuple[int, ...]
Make = Callable[[random.Random, Shape], str]

# --- layers ----------------------------------------------------------------------------------

ACTIVATIONS = [
    *"ReLU() ReLU6() LeakyReLU(0.1) PReLU() RReLU() ELU() SELU() CELU(0.7) GELU() SiLU()".split(),
    *"GELU(approximate='tanh') Mish() Softplus() Softplus(beta=2) Softsign() Tanh()".split(),
    *"Tanhshrink() Sigmoid() LogSigmoid() Hardtanh() Hardsigmoid() Hardswish()".split(),
    *"Hardshrink(0.1) Softshrink(0.1) Threshold(0.05,-0.2) Identity()".split(),
]


def activation(r: random.Random, shape: Shape) -> str:
    return f"nn.{r.choice(ACTIVATIONS)}"


def across(r: random.Random, shape: Shape) -> str:
    """Activations that mix the channels."""
    return r.choice(["nn.GLU(dim=1)", "nn.Softmax(dim=1)", "nn.Softmin(dim=1)", "nn.LogSoftmax(1)"])


def dropout(r: random.Random, shape: Shape) -> str:
    kinds = {2: "", 3: "1d", 4: "2d", 5: "3d"}
    features = r.choice(["", "Alpha", "FeatureAlpha", kinds[len(shape)]])
    if features in ("Alpha", "FeatureAlpha"):
        return f"nn.{features}Dropout({r.choice([0.1, 0.3])})"
    return f"nn.Dropout{features}({r.choice([0.1, 0.5])})"


def linear(r: random.Random, shape: Shape) -> str:
    return f"nn.Linear({shape[-1]}, {r.choice([5, 8, 12])}, bias={r.random() < 0.8})"


def flat_norm(r: random.Random, shape: Shape) -> str:
    """A linear layer and a norm; the norm takes away what a bias would add."""
    n = r.choice([6, 10])
    norms = [
        f"nn.BatchNorm1d({n})",
        f"nn.BatchNorm1d({n}, momentum=0.3, eps=1e-3)",
        f"nn.BatchNorm1d({n}, momentum=None)",
        f"nn.BatchNorm1d({n}, affine=False, track_running_stats=False)",
        f"nn.LayerNorm({n})",
        f"nn.LayerNorm({n}, bias=False)",
        f"nn.RMSNorm({n})",
        f"nn.GroupNorm(2, {n})",
    ]
    return f"nn.Linear({shape[-1]}, {n}, bias=False), {r.choice(norms)}"


def residual(r: random.Random, shape: Shape) -> str:
    n = shape[-1]
    return f"Residual(nn.Linear({n}, 7), nn.{r.choice(ACTIVATIONS)}, nn.Linear(7, {n}))"


def reparametrized(r: random.Random, shape: Shape) -> str:
    return f"nn.utils.parametrizations.weight_norm(nn.Linear({shape[-1]}, 6))"


def conv(r: random.Random, shape: Shape, bias: bool = True) -> str:
    d, c = len(shape) - 2, shape[1]
    groups = r.choice([g for g in (1, 1, 2, c) if c % g == 0])
    out = groups * r.choice([1, 2]) if groups > 1 else r.choice([2, 4, 6])
    options = [
        "padding=0",
        "padding=1",
        "padding='same'",
        "padding=1, stride=2",
        "padding=2, dilation=2",
        "padding=1, padding_mode='reflect'",
        "padding=1, padding_mode='circular'",
        "padding=1, padding_mode='replicate'",
    ]
    return f"nn.Conv{d}d({c}, {out}, 3, {r.choice(options)}, groups={groups}, bias={bias})"


def conv_transposed(r: random.Random, shape: Shape) -> str:
    d, c = len(shape) - 2, shape[1]
    option = r.choice(["2, stride=2", "3, padding=1", "3, stride=2, padding=1, output_padding=1"])
    return f"nn.ConvTranspose{d}d({c}, {r.choice([2, 4])}, {option})"


def conv_norm(r: random.Random, shape: Shape) -> str:
    d = len(shape) - 2
    made = conv(r, shape, bias=False)
    out = int(made.split(", ")[1])
    norms = [
        f"nn.BatchNorm{d}d({out})",
        f"nn.BatchNorm{d}d({out}, momentum=0.2)",
        f"nn.InstanceNorm{d}d({out}, affine=True)",
        f"nn.InstanceNorm{d}d({out}, track_running_stats=True)",
        f"nn.GroupNorm({2 if out % 2 == 0 else 1}, {out})",
        "nn.LocalResponseNorm(2)",
    ]
    return f"{made}, {r.choice(norms)}"


def pool(r: random.Random, shape: Shape) -> str:
    d = len(shape) - 2
    half = max(1, shape[-1] // 2)
    kinds = [
        f"nn.MaxPool{d}d(2)",
        f"nn.MaxPool{d}d(3, stride=1, padding=1)",
        f"nn.MaxPool{d}d(2, ceil_mode=True)",
        f"nn.AvgPool{d}d(2)",
        f"nn.AvgPool{d}d(3, stride=2, padding=1, count_include_pad=False)",
        f"nn.AdaptiveAvgPool{d}d({half})",
        f"nn.AdaptiveMaxPool{d}d({half})",
        f"nn.Softplus(), nn.LPPool{d}d(2, 2)",
    ]
    if d == 2:
        kinds.append("nn.FractionalMaxPool2d(2, output_ratio=0.7)")
    return r.choice(kinds)


def pad(r: random.Random, shape: Shape) -> str:
    d = len(shape) - 2
    kind = r.choice(["Zero", "Reflection", "Replication", "Circular"])
    return f"nn.{kind}Pad{d}d(1)"


def resize(r: random.Random, shape: Shape) -> str:
    d, c = len(shape) - 2, shape[1]
    smooth = {1: "linear", 2: "bilinear", 3: "trilinear"}[d]
    kinds = [
        "nn.Upsample(scale_factor=2)",
        f"nn.Upsample(scale_factor=1.5, mode='{smooth}')",
        f"nn.Upsample(size={shape[-1] + 1}, mode='{smooth}', align_corners=True)",
    ]
    if d == 2:
        kinds += ["nn.Upsample(scale_factor=2, mode='bicubic')"]
        kinds += ["nn.PixelShuffle(2)", "nn.PixelUnshuffle(2)", "nn.Softmax2d()"]
    if d > 1 and c % 2 == 0:
        kinds += ["nn.ChannelShuffle(2)"]
    return r.choice(kinds)


def recurrent(r: random.Random, shape: Shape) -> str:
    kind = r.choice(["RNN", "GRU", "LSTM"])
    options = ["batch_first=True"]
    if r.random() < 0.4:
        options.append("bidirectional=True")
    if r.random() < 0.4:
        options.append("num_layers=2")
        options.append(f"dropout={r.choice([0.0, 0.2])}")
    if kind == "LSTM" and r.random() < 0.3:
        options.append("proj_size=3")
    if kind == "RNN" and r.random() < 0.3:
        options.append("nonlinearity='relu'")
    return f"First(nn.{kind}({shape[-1]}, 6, {', '.join(options)}))"


def attention(r: random.Random, shape: Shape) -> str:
    """Without biases: that of the keys has no gradient but rounding errors."""
    n, heads = shape[-1], 2 if shape[-1] % 2 == 0 else 1
    options = f"batch_first=True, bias=False, dropout={r.choice([0.0, 0.1])}"
    if r.random() < 0.5:
        return f"Attend(nn.MultiheadAttention({n}, {heads}, {options}))"
    more = r.choice(["", ", norm_first=True", ", activation='gelu'"])
    if r.random() < 0.5:
        return f"nn.TransformerEncoderLayer({n}, {heads}, 10, {options}{more})"
    layer = f"nn.TransformerEncoderLayer({n}, {heads}, 10, {options})"
    return f"nn.TransformerEncoder({layer}, 2, enable_nested_tensor=False)"


def rows_norm(r: random.Random, shape: Shape) -> str:
    return f"nn.{r.choice(['LayerNorm', 'RMSNorm'])}({shape[-1]})"


def patches(r: random.Random, shape: Shape) -> str:
    """Windows as columns: an image becomes a line with more channels, and perhaps one again."""
    if len(shape) != 4:
        return pad(r, shape)
    size = tuple(shape[2:])
    back = f", nn.Dropout(0.2), nn.Fold({size}, 3, padding=1)" if r.random() < 0.5 else ""
    return f"nn.Unfold(3, padding=1){back}"


# By the kind of input: how it begins, and what may follow.
FLAT: list[Make] = [linear, linear, flat_norm, flat_norm, residual, reparametrized, dropout]
SPATIAL: list[Make] = [conv, conv_norm, conv_norm, conv_transposed, pool, pad, resize, dropout]
FAMILIES: dict[str, tuple[Shape, list[Make]]] = {
    "rows": ((BATCH, 9), FLAT),
    "bags": ((BATCH, 6), FLAT),
    "line": ((BATCH, 4, 10), SPATIAL),
    "image": ((BATCH, 4, 7, 7), [*SPATIAL, patches]),
    "volume": ((4, 2, 4, 4, 4), SPATIAL),
    "tokens": ((BATCH, 6), [recurrent, recurrent, attention, attention, rows_norm, linear]),
}


def outcome(layers: str, shape: Shape, integers: bool = False) -> Shape | None:
    """The shape that layers make of a shape; None where they cannot, or make it too large."""
    names = {"torch": torch, "nn": torch.nn}
    exec("".join(PARTS.values()), names)
    x = torch.zeros(shape, dtype=torch.int64 if integers else torch.float32)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = eval(f"nn.Sequential({layers})", names)(x)
    except (RuntimeError, ValueError):
        return None
    fits = 0 < out.numel() <= LARGEST and out.dim() >= 2
    return tuple(out.shape) if fits and (out.dim() == 2 or min(out.shape[2:]) > 1) else None


def model(r: random.Random) -> tuple[list[str], Shape, bool]:
    """The layers of a model up to its head, the shape of its input, whether that is integers."""
    family = r.choice(list(FAMILIES))
    shape, makers = FAMILIES[family]
    first, layers = shape, []
    tokens, integers = family == "tokens", family in ("tokens", "bags")
    if integers:
        table = "Embedding(11, {})" if tokens else "EmbeddingBag(11, {}, mode='{}')"
        layers = ["nn." + table.format(r.choice([4, 6]), r.choice(["mean", "sum", "max"]))]
        shape = outcome(layers[0], shape, integers=True) or shape
    wanted = r.choice([2, 3, 4])
    while wanted:
        layer = r.choice(makers)(r, shape)
        after = across if r.random() < 0.1 and not tokens else activation
        layer = f"{layer}, {after(r, shape)}"
        made = outcome(layer, shape)
        if made is not None:
            layers.append(layer)
            shape, wanted = made, wanted - 1
    if tokens:
        layers.append("Mean()")
        shape = (shape[0], shape[2])
    elif len(shape) > 2:
        layers.append("nn.Flatten()")
        shape = outcome("nn.Flatten()", shape) or shape
    layers.append(f"nn.Linear({shape[1]}, {CLASSES})")
    return layers, first, integers


# --- losses ----------------------------------------------------------------------------------

INDICES = f"torch.randint({CLASSES}, (n,))"
NUMBERS = f"torch.randn(n, {CLASSES})"
SHARES = f"torch.rand(n, {CLASSES}).softmax(1)"
YES_NO = f"torch.randint(2, (n, {CLASSES})).to(torch.get_default_dtype())"
SIGNS = f"torch.randint(2, (n, {CLASSES})) * 2.0 - 1"
SIGN = "torch.randint(2, (n,)) * 2.0 - 1"
HALVES = "*output.chunk(2, 1)"
THIRDS = "*output.chunk(3, 1)"

# The loss, its target, and how it is called where not with (output, target).
LOSSES: list[tuple[str, ...]] = [
    ("nn.CrossEntropyLoss()", INDICES),
    ("nn.CrossEntropyLoss(label_smoothing=0.1)", INDICES),
    (f"nn.CrossEntropyLoss(weight=torch.rand({CLASSES}) + 0.1)", INDICES),
    ("nn.CrossEntropyLoss(ignore_index=2, reduction='sum')", INDICES),
    ("nn.CrossEntropyLoss()", SHARES),
    ("nn.NLLLoss()", INDICES, "output.log_softmax(1), target"),
    (f"nn.NLLLoss(weight=torch.rand({CLASSES}) + 0.1)", INDICES, "output.log_softmax(1), target"),
    ("nn.MSELoss()", NUMBERS),
    ("nn.MSELoss(reduction='sum')", NUMBERS),
    ("nn.L1Loss()", NUMBERS),
    ("nn.SmoothL1Loss(beta=0.5)", NUMBERS),
    ("nn.HuberLoss(delta=0.7)", NUMBERS),
    ("nn.BCEWithLogitsLoss()", YES_NO),
    (f"nn.BCEWithLogitsLoss(pos_weight=torch.rand({CLASSES}) + 0.5)", YES_NO),
    ("nn.BCELoss()", YES_NO, "output.sigmoid(), target"),
    ("nn.KLDivLoss(reduction='batchmean')", SHARES, "output.log_softmax(1), target"),
    (
        "nn.KLDivLoss(reduction='sum', log_target=True)",
        f"{SHARES}.log()",
        "output.log_softmax(1), target",
    ),
    ("nn.PoissonNLLLoss()", YES_NO),
    ("nn.PoissonNLLLoss(full=True)", f"torch.randint(5, (n, {CLASSES})) * 1.0"),
    ("nn.GaussianNLLLoss()", NUMBERS, "output, target, target.exp()"),
    ("nn.SoftMarginLoss()", SIGNS),
    ("nn.HingeEmbeddingLoss()", SIGNS),
    ("nn.MultiLabelSoftMarginLoss()", YES_NO),
    ("nn.MultiLabelMarginLoss()", f"torch.randint(-1, {CLASSES}, (n, {CLASSES}))"),
    ("nn.MultiMarginLoss()", INDICES),
    ("nn.MultiMarginLoss(p=2, margin=0.8)", INDICES),
    ("nn.CosineEmbeddingLoss(margin=0.1)", SIGN, f"{HALVES}, target"),
    ("nn.MarginRankingLoss(margin=0.2)", f"{SIGNS}", f"{HALVES}, target[:, :3]"),
    ("nn.TripletMarginLoss()", NUMBERS, THIRDS),
    ("nn.TripletMarginLoss(swap=True, p=1.5)", NUMBERS, THIRDS),
    ("nn.TripletMarginWithDistanceLoss(margin=0.7)", NUMBERS, THIRDS),
]

# --- optimizers ------------------------------------------------------------------------------

OPTIMIZERS = [
    "SGD(params, lr=0.05)",
    "SGD(params, lr=0.02, momentum=0.9, dampening=0.1, foreach=True)",
    "SGD(params, lr=0.02, momentum=0.9, nesterov=True, weight_decay=0.01)",
    "SGD(params, lr=0.01, momentum=0.5, maximize=True, fused=True)",
    "Adam(params)",
    "Adam(params, lr=0.01, betas=(0.8, 0.95), weight_decay=0.1, foreach=False)",
    "Adam(params, lr=0.01, amsgrad=True, foreach=True)",
    "Adam(params, lr=torch.tensor(0.01), fused=True)",
    "AdamW(params)",
    "AdamW(params, lr=0.01, amsgrad=True, weight_decay=0.2)",
    "AdamW(params, lr=0.01, maximize=True, foreach=True)",
    "NAdam(params)",
    "NAdam(params, lr=0.01, weight_decay=0.1, decoupled_weight_decay=True)",
    "RAdam(params)",
    "RAdam(params, lr=0.01, betas=(0.5, 0.9), foreach=True)",
    "Adamax(params, lr=0.01)",
    "Adadelta(params)",
    "Adadelta(params, lr=0.5, rho=0.8, weight_decay=0.01, foreach=True)",
    "Adagrad(params)",
    "Adagrad(params, lr=0.05, lr_decay=0.1, initial_accumulator_value=0.1)",
    "RMSprop(params, lr=0.001)",
    "RMSprop(params, lr=0.005, centered=True, momentum=0.5)",
    "Rprop(params, lr=0.01)",
    "ASGD(params)",
    "ASGD(params, lr=0.05, lambd=0.01, t0=2, foreach=True)",
    "Adafactor(params)",
    "Adafactor(params, lr=0.05, weight_decay=0.1, beta2_decay=-0.5)",
    "LBFGS(params, lr=0.1, max_iter=4)",
    "LBFGS(params, max_iter=5, history_size=3, line_search_fn='strong_wolfe')",
    "Muon([p for p in params if p.dim() == 2], lr=0.02)",
    "Muon([p for p in params if p.dim() == 2], adjust_lr_fn='match_rms_adamw', nesterov=False)",
]

SCHEDULES = [
    None,
    "LambdaLR(optimizer, lambda step: 0.9 ** step)",
    "MultiplicativeLR(optimizer, lambda step: 0.8)",
    "StepLR(optimizer, step_size=2, gamma=0.5)",
    "MultiStepLR(optimizer, milestones=[1, 3], gamma=0.3)",
    "ConstantLR(optimizer, factor=0.5, total_iters=3)",
    "LinearLR(optimizer, start_factor=0.3, total_iters=4)",
    "ExponentialLR(optimizer, gamma=0.7)",
    "PolynomialLR(optimizer, total_iters=4, power=2.0)",
    "CosineAnnealingLR(optimizer, T_max=4, eta_min=1e-4)",
    "CosineAnnealingWarmRestarts(optimizer, T_0=2, T_mult=2)",
    "CyclicLR(optimizer, 1e-3, 1e-2, step_size_up=2, mode='triangular2', cycle_momentum=False)",
    "OneCycleLR(optimizer, max_lr=0.02, total_steps=6, cycle_momentum=False)",
    "ReduceLROnPlateau(optimizer, patience=0, factor=0.4, threshold=0.5)",
]
COMBINED = [
    "ChainedScheduler([{0}, {1}], optimizer=optimizer)",
    "SequentialLR(optimizer, [{0}, {1}], milestones=[2])",
]


def schedule(r: random.Random) -> str | None:
    if r.random() < 0.2:
        # Those that compute from the last rate; a cycle or a plateau does not combine.
        parts = r.sample(SCHEDULES[3:10], 2)
        names = [f"torch.optim.lr_scheduler.{part}" for part in parts]
        return r.choice(COMBINED).format(*names)
    return r.choice(SCHEDULES)


# --- the script ------------------------------------------------------------------------------

SCRIPT = string.Template("""\
torch.manual_seed($seed)
torch.set_default_dtype(torch.$dtype)
$parts
model = nn.Sequential(
    $layers,
)
n = $batch
inputs = $inputs
target = $target
loss_fn = $loss
params = list(model.parameters())
optimizer = torch.optim.$optimizer
scheduler = $scheduler
losses, rates = [], []

def closure():
    optimizer.zero_grad($zero)
    output = model(inputs)
    loss = loss_fn($call)
    loss.backward()
    $clip
    return loss

for step in range($steps):
    losses.append(optimizer.step(closure).item())
    rates.append([float(group["lr"]) for group in optimizer.param_groups])
    $after
""")

CLIPS = [
    "pass",
    "pass",
    "nn.utils.clip_grad_norm_(model.parameters(), 0.5)",
    "nn.utils.clip_grad_norm_(model.parameters(), 1.0, norm_type=float('inf'))",
    "nn.utils.clip_grad_value_(model.parameters(), 0.05)",
]


def script(seed: int, variation: int = 0) -> str:
    """A random training script. The lists of losses and optimizers are gone through in turn."""
    r = random.Random(1000 * variation + seed)
    layers, shape, integers = model(r)
    loss, target, *call = LOSSES[seed % len(LOSSES)]
    optimizer = OPTIMIZERS[(seed // 2) % len(OPTIMIZERS)]
    if r.random() < 0.2 and "(params" in optimizer and "LBFGS" not in optimizer:
        groups = "([{'params': params[:2], 'lr': 0.003}, {'params': params[2:]}]"
        optimizer = optimizer.replace("(params", groups)
    scheduler = schedule(r)
    after = "pass"
    if scheduler is not None:
        after = "scheduler.step()"
        if scheduler.startswith("ReduceLR"):
            after = "scheduler.step(losses[-1])"
        scheduler = f"torch.optim.lr_scheduler.{scheduler}"
    body = ",\n    ".join(layers)
    sizes = ", ".join(map(str, shape))
    return SCRIPT.substitute(
        seed=seed,
        dtype="float64" if (seed + variation // 8) % 2 else "float32",
        parts="".join(text for name, text in PARTS.items() if f"{name}(" in body),
        layers=body,
        batch=shape[0],
        inputs=f"torch.randint(11, ({sizes}))" if integers else f"torch.randn({sizes})",
        target=target,
        loss=loss,
        optimizer=optimizer,
        scheduler=scheduler,
        zero=r.choice(["", "", "set_to_none=False"]),
        call=call[0] if call else "output, target",
        clip=r.choice(CLIPS),
        steps=STEPS,
        after=after,
    )
