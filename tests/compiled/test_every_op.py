"""Every op of the table, every layer and every loss, compiled against eager, in four forms.

The first calls get the same values and later ones others of the same shapes, so that a number that
was frozen while a call was recorded shows. Refusing to compile is allowed; a difference is not.
`python tests/compiled/test_every_op.py` prints how much of the table is really replayed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from harness import close, frozen, quiet, replays, tensors_of

import tapegrad as T
from programs import layers
from table import APIS, SAMPLED, draw, find, seed_of
from tapegrad import nn
from tapegrad.core.base import wrap

pytestmark = pytest.mark.filterwarnings("ignore")

CALLS = 8
VALUES = (0, 0, 0, 0, 1, 1, 2, 3)  # which values each call gets
FORMS = ("forward", "outside", "inside", "asked")

# The default run: some of each table, and functions that were wrong once, when compiled.
ONCE_WRONG = {
    *("adaptive_avg_pool1d", "affine_grid_generator", "as_strided", "bernoulli", "constant_pad_nd"),
    *("fft.rfft", "histc", "index_put", "istft", "linalg.cholesky", "linalg.householder_product"),
    *(
        "nn.functional.fold",
        "nn.functional.interpolate",
        "nn.functional.one_hot",
        "trace",
        "unfold",
    ),
    *("nn.functional.local_response_norm", "nn.functional.pad", "repeat_interleave"),
}


def marked(names: list[str], each: int) -> list[Any]:
    """Every so many names for the default run, and all for the slow one."""
    slow = pytest.mark.thorough
    quick = [i % each == 0 or n in ONCE_WRONG for i, n in enumerate(names)]
    return [n if q else pytest.param(n, marks=slow) for n, q in zip(names, quick, strict=True)]


class Subject:
    """A function of tensors, and the arguments of each of its calls."""

    def __init__(self, make: Callable[[], Callable[..., Any]], arguments: Callable[[int], Any]):
        self.make = make  # a fresh function, with fresh parameters
        self.arguments = arguments  # of values number `k`: a list and a dict
        # Whether writes are counted: those of an eager pass may depend on values.
        self.counts = True


def is_number(value: Any) -> bool:
    return isinstance(value, T.Tensor) and (value.is_floating_point() or value.is_complex())


def numbers_of(args: Any, kwargs: Any) -> list[Any]:
    return [t for t in [*tensors_of(args), *tensors_of(kwargs)] if is_number(t)]


def parameters_of(function: Any) -> list[Any]:
    return list(function.parameters()) if isinstance(function, nn.Module) else []


def touched(value: Any) -> Any:
    """The same numbers, made by some ops: functions of one op are not worth a recording."""
    if is_number(value) and not value.is_sparse:
        return value.mul(1.0).div(1.0).clone()
    if type(value) in (list, tuple):
        return type(value)([touched(v) for v in value])
    return value


def loss_of(outs: list[Any]) -> Any:
    total = 0.0
    for t in outs:
        if t.requires_grad and not t.is_sparse:
            t = T.view_as_real(t.resolve_conj()) if t.is_complex() else t
            total = total + (t * (t.detach().cos() + 1.5)).sum()
    return total


def forward(function: Any, args: Any, kwargs: Any) -> Any:
    return function(*[touched(a) for a in args], **kwargs)


def inside(function: Any, args: Any, kwargs: Any) -> Any:
    out = forward(function, args, kwargs)
    loss = loss_of(tensors_of(out))
    if isinstance(loss, T.Tensor):
        loss.backward()
    return [t.detach() for t in tensors_of(out)], [t.grad for t in numbers_of(args, kwargs)]


def asked(function: Any, args: Any, kwargs: Any) -> Any:
    out = forward(function, args, kwargs)
    loss = loss_of(tensors_of(out))
    grads: Any = []
    if isinstance(loss, T.Tensor):
        leaves = [*numbers_of(args, kwargs), *parameters_of(function)]
        grads = T.autograd.grad(loss, leaves, allow_unused=True)
    return [t.detach() for t in tensors_of(out)], list(grads)


BODIES = {"forward": forward, "outside": forward, "inside": inside, "asked": asked}


def run(subject: Subject, form: str, compile: Any) -> tuple[list[Any], Any]:
    """What can be seen of each call, and the function."""
    T.manual_seed(0)
    function = subject.make()
    parameters = parameters_of(function)
    body = BODIES[form]

    def step(args: Any, kwargs: Any) -> Any:
        return body(function, args, kwargs)

    called = compile(step)
    seen: list[Any] = []
    for k in VALUES:
        args, kwargs = subject.arguments(k)
        if form != "forward":
            for t in numbers_of(args, kwargs):
                t.requires_grad_()
        for p in parameters:
            p.grad = None
        T.manual_seed(k)
        try:
            out = called(args, kwargs)
            if form == "outside":
                loss = loss_of(tensors_of(out))
                if isinstance(loss, T.Tensor):
                    loss.backward()
            seen.append([frozen(tensors_of(out), subject.counts), type(out).__name__])
        except Exception as error:
            seen.append([type(error), str(error)])
        buffers = list(function.buffers()) if isinstance(function, nn.Module) else []
        seen[-1] += [frozen(parameters), frozen(buffers), frozen([args, kwargs]), T.rand(())]
    return seen, called


def told(found: Any, expected: Any, where: str = "") -> str:
    """Where two frozen values differ: in bits, but for the last ones of sums."""
    if isinstance(expected, np.ndarray) and isinstance(found, np.ndarray):
        return "" if close(found, expected) else f"{where}: {found} for {expected}"
    if isinstance(expected, (list, tuple)) and type(found) is type(expected):
        if len(found) != len(expected):
            return f"{where}: {found} for {expected}"
        pairs = enumerate(zip(found, expected, strict=True))
        return next((t for i, (a, b) in pairs if (t := told(a, b, f"{where}[{i}]"))), "")
    if isinstance(expected, T.Tensor):
        return "" if found.item() == expected.item() else f"{where}: other random numbers"
    same = type(found) is type(expected) and (found == expected or found != found)
    return "" if same else f"{where}: {found} for {expected}"


IN_PARTS, IN_PIECES = "ordinary Python around compiled modules", "compiled in"


def without_counts(value: Any) -> Any:
    """Frozen values without the versions of tensors."""
    if isinstance(value, (list, tuple)):
        parts = [without_counts(v) for v in value]
        if value and type(value[0]) is str and value[0] == "tensor":
            parts[6] = None
        return type(value)(parts)
    return value


def compare(subject: Subject, form: str) -> tuple[str, int]:
    """The first difference, and how many calls were replayed."""
    with quiet():
        expected, _ = run(subject, form, lambda function: function)
        found, compiled = run(subject, form, T.compile)
        count = replays(compiled)
        text = T.compile.explain(compiled)
    if form == "inside" and (IN_PARTS in text or IN_PIECES in text):
        # A pass through a compiled part gives leaves other memory: writes are counted otherwise.
        expected, found = without_counts(expected), without_counts(found)
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        difference = told(a, b)
        if difference:
            return f"call {i} {difference}", count
    return "", count


# --- functions


def other(array: Any, k: int, seed: int) -> Any:
    """Values number `k` in the place of an array: floats nearby, whole numbers in another order."""
    made = np.empty_like(array)  # with its order of axes, for all `k`
    rng = np.random.default_rng(seed + k)
    if k == 0:
        made[...] = array
    elif array.dtype.kind in "fc":
        made[...] = array * rng.uniform(0.9, 1.1, array.shape)
    else:
        made[...] = rng.permutation(array.ravel()).reshape(array.shape)
    return made


def sample(name: str, index: int) -> Subject:
    def arguments(k: int) -> Any:
        args, kwargs, _ = draw(name, index, lambda array: wrap(other(array, k, seed_of(name, k))))
        return args, kwargs

    made = Subject(lambda: find(T, APIS[name]), arguments)
    made.counts = name not in ("index_put", "fft.hfft")
    return made


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", marked(SAMPLED, 40))
def test_function(name, form):
    for index in range(len(APIS[name].samples)):
        difference, _ = compare(sample(name, index), form)
        assert not difference, f"sample {index}, {difference}"


# --- layers


def layer(text: str, shapes: list[tuple[int, ...]], training: bool = True) -> Subject:
    def make() -> Any:
        return layers.build(T, text).double().train(training)

    def arguments(k: int) -> Any:
        rng = np.random.default_rng(k)
        return [T.from_numpy(np.array(rng.standard_normal(shape))) for shape in shapes], {}

    return Subject(make, arguments)


def indexed(text: str, lowest: int, highest: int, *shape: int) -> Subject:
    """A layer that is given whole numbers."""

    def arguments(k: int) -> Any:
        return [T.from_numpy(np.random.default_rng(k).integers(lowest, highest, shape))], {}

    return Subject(lambda: layers.build(T, text).double(), arguments)


RECURRENT = {
    "nn.RNN(3, 4)": [(5, 2, 3)],
    "nn.RNN(3, 4, 2, nonlinearity='relu', bidirectional=True)": [(5, 2, 3)],
    "nn.LSTM(3, 4, batch_first=True)": [(2, 5, 3)],
    "nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2)": [(5, 2, 3)],
    "nn.GRU(3, 4, 2, dropout=0.5)": [(5, 2, 3)],
    "nn.RNNCell(3, 4)": [(2, 3)],
    "nn.LSTMCell(3, 4)": [(2, 3)],
    "nn.GRUCell(3, 4)": [(2, 3)],
    "nn.MultiheadAttention(4, 2)": [(3, 2, 4)] * 3,
    "nn.MultiheadAttention(4, 2, dropout=0.3, batch_first=True)": [(2, 3, 4)] * 3,
    "nn.TransformerEncoderLayer(4, 2, 8)": [(3, 2, 4)],
    "nn.TransformerEncoderLayer(4, 2, 8, 0.0, 'gelu', norm_first=True)": [(3, 2, 4)],
    "nn.TransformerDecoderLayer(4, 2, 8)": [(3, 2, 4), (2, 2, 4)],
    "nn.Transformer(4, 2, 1, 1, 8)": [(3, 2, 4), (2, 2, 4)],
}
LAYERS = {text: shapes for family in layers.FAMILIES for text, shapes in family.items()}
LAYERS |= RECURRENT
LAYERS |= {text: [(2, 3)] for text in layers.IN_PLACE}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("text", marked(list(LAYERS), 12))
def test_layer(text, form):
    for training in (True, False):
        difference, _ = compare(layer(text, LAYERS[text], training), form)
        assert not difference, f"training={training}, {difference}"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("text", [*layers.TABLES, "nn.Embedding(5, 3, sparse=True)"])
def test_table(text, form):
    difference, _ = compare(indexed(text, 0, 5, 2, 4), form)
    assert not difference, difference


# --- losses

PAIR, CLASSES, YES_NO, SIGNS, SIGN = "pair", "classes", "yes_no", "signs", "sign"
LOSSES = {
    "nn.L1Loss({})": PAIR,
    "nn.MSELoss({})": PAIR,
    "nn.SmoothL1Loss({})": PAIR,
    "nn.SmoothL1Loss({}beta=0.5)": PAIR,
    "nn.HuberLoss({}delta=0.5)": PAIR,
    "nn.KLDivLoss({})": PAIR,
    "nn.KLDivLoss({}log_target=True)": PAIR,
    "nn.PoissonNLLLoss({})": YES_NO,
    "nn.PoissonNLLLoss({}full=True)": YES_NO,
    "nn.CrossEntropyLoss({})": CLASSES,
    "nn.CrossEntropyLoss({}label_smoothing=0.1, ignore_index=1)": CLASSES,
    "nn.NLLLoss({})": CLASSES,
    "nn.MultiMarginLoss({}p=2)": CLASSES,
    "nn.BCELoss({})": "shares",
    "nn.BCEWithLogitsLoss({})": YES_NO,
    "nn.MultiLabelSoftMarginLoss({})": YES_NO,
    "nn.MultiLabelMarginLoss({})": "labels",
    "nn.SoftMarginLoss({})": SIGNS,
    "nn.HingeEmbeddingLoss({})": SIGNS,
    "nn.GaussianNLLLoss({}full=True)": "gauss",
    "nn.CosineEmbeddingLoss({}margin=0.1)": "embedded",
    "nn.MarginRankingLoss({}margin=0.2)": "ranked",
    "nn.TripletMarginLoss({})": "three",
    "nn.TripletMarginLoss({}swap=True, p=1.5)": "three",
    "nn.TripletMarginWithDistanceLoss({})": "three",
    "nn.CTCLoss({})": "sequence",
}


def loss_arguments(kind: str, k: int) -> list[Any]:
    rng = np.random.default_rng(k)

    def normal(*shape: int) -> Any:
        return T.from_numpy(rng.standard_normal(shape))

    def whole(lowest: int, highest: int, *shape: int) -> Any:
        return T.from_numpy(rng.integers(lowest, highest, shape))

    scores = normal(4, 3)
    if kind == "sequence":
        logs = normal(6, 2, 4).log_softmax(-1)
        return [logs, whole(1, 4, 2, 2), T.tensor([6, 5]), T.tensor([2, 1])]
    return {
        PAIR: lambda: [scores, normal(4, 3).abs()],
        CLASSES: lambda: [scores, whole(0, 3, 4)],
        YES_NO: lambda: [scores, whole(0, 2, 4, 3).double()],
        "shares": lambda: [scores.sigmoid(), whole(0, 2, 4, 3).double()],
        "labels": lambda: [scores, whole(-1, 3, 4, 3)],
        SIGNS: lambda: [scores, whole(0, 2, 4, 3).double() * 2 - 1],
        "gauss": lambda: [scores, normal(4, 3), normal(4, 3).exp()],
        "embedded": lambda: [scores, normal(4, 3), whole(0, 2, 4).double() * 2 - 1],
        "ranked": lambda: [scores, normal(4, 3), whole(0, 2, 4, 3).double() * 2 - 1],
        "three": lambda: [scores, normal(4, 3), normal(4, 3)],
    }[kind]()


def loss(text: str, reduction: str) -> Subject:
    return Subject(
        lambda: layers.build(T, text.format(f"reduction='{reduction}', ")),
        lambda k: (loss_arguments(LOSSES[text], k), {}),
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("text", marked(list(LOSSES), 6))
def test_loss(text, form):
    for reduction in ("mean", "sum", "none"):
        difference, _ = compare(loss(text, reduction), form)
        assert not difference, f"{reduction}, {difference}"


# --- errors


ERRORS = {
    "linalg.cholesky": ([[4.0, 2.0], [2.0, 3.0]], [[1.0, 2.0], [2.0, 1.0]]),
    "linalg.inv": ([[4.0, 2.0], [2.0, 3.0]], [[1.0, 2.0], [2.0, 4.0]]),
    "linalg.eigvalsh": ([[4.0, 2.0], [2.0, 3.0]], [[float("nan"), 2.0], [2.0, 4.0]]),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ERRORS)
def test_errors_of_values(name, form):
    good, bad = ERRORS[name]

    def arguments(k: int) -> Any:
        return [T.tensor(bad if k in (1, 3) else good, dtype=T.float64)], {}

    difference, _ = compare(Subject(lambda: find(T, APIS[name]), arguments), form)
    assert not difference, difference


def report(forms: list[str]) -> None:
    """How many functions, layers and losses are replayed, by form; and which differ."""
    subjects = [
        ("functions", n, sample(n, i)) for n in SAMPLED for i in range(len(APIS[n].samples))
    ]
    subjects += [("layers", text, layer(text, LAYERS[text])) for text in LAYERS]
    subjects += [("losses", text, loss(text, "mean")) for text in LOSSES]
    for form in forms or FORMS:
        found: dict[tuple[str, str], int] = {}
        for kind, name, subject in subjects:
            try:
                difference, count = compare(subject, form)
            except Exception as error:
                difference, count = f"{type(error).__name__}: {error}", 0
            found[kind, name] = found.get((kind, name), 0) + count
            if difference:
                print(f"{form} {name}: {' '.join(difference.split())[:150]}", flush=True)
        for kind in ("functions", "layers", "losses"):
            counts = [count for (each, _), count in found.items() if each == kind]
            print(f"{form}: {sum(map(bool, counts))} of {len(counts)} {kind} are replayed")


if __name__ == "__main__":
    report(sys.argv[1:])
