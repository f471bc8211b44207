"""A compiled function gives the bits of the function itself: every op, sums of all layouts, and
whole training steps.
"""

import contextlib
import math
import random
import warnings

import numpy as np
import pytest

import table
import tapegrad as torch
import tapegrad.nn.functional as F
from tapegrad import nn
from tapegrad.compiler.run.comparison import AsRecorded
from tapegrad.core.base import wrap

SCATTERED = 4096  # kernels/cpu/overrides/reduce.py
# Stacks of small products lie otherwise in these gradients, and BLAS is asked in another way;
# powers and logarithms of single numbers are NumPy's where a rule runs at once.
ELSEWHERE = {
    *("cholesky_solve", "linalg.householder_product", "linalg.lstsq", "linalg.pinv", "ormqr"),
    *("linalg.vector_norm", "norm", "nn.functional.binary_cross_entropy"),
}


def bits(tensors):
    return [t.detach().resolve_conj().resolve_neg().numpy().tobytes() for t in tensors]


def crooked(value):
    """Numbers that are no powers of two: with these it does not matter in which order one works."""
    return value * 1.0372 if type(value) is float else value


def results(name, index, recorded, change=None):
    """The bits of a sample call and of its gradients; None where it has none to compare."""
    torch.manual_seed(1)
    args, kwargs, made = table.draw(name, index, table.leaf)
    if change is not None:
        args, kwargs = [change(a) for a in args], {k: change(v) for k, v in kwargs.items()}
    with AsRecorded() if recorded else contextlib.nullcontext():
        out = table.find(torch, table.APIS[name])(*args, **kwargs)
        outs = [out] if isinstance(out, torch.Tensor) else out
        if not isinstance(outs, (tuple, list)):
            return None
        outs = [t for t in outs if isinstance(t, torch.Tensor) and not (t.is_sparse or t.is_meta)]
        found = bits(outs)
        ends = [t for t in outs if t.requires_grad]
        leaves = [t for t in made if isinstance(t, torch.Tensor) and t.requires_grad]
        if ends and leaves:
            rng = np.random.default_rng(2)
            seeds = [wrap(rng.uniform(-1, 1, t.shape).astype(t.dtype.np)) for t in ends]
            grads = torch.autograd.grad(ends, leaves, seeds, allow_unused=True)
            found += bits([g for g in grads if g is not None and not g.is_sparse])
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [n for n in table.PURE if n not in ELSEWHERE])
def test_ops_have_the_bits_of_a_recording(name):
    if name.startswith(("empty", "new_empty", "_empty")):
        return
    for index in range(len(table.APIS[name].samples)):
        try:
            found = results(name, index, False)
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            continue  # without gradients, or a sample that raises: test_ops.py
        assert found == results(name, index, True), index


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [n for n in table.PURE if n not in ELSEWHERE])
def test_ops_with_crooked_numbers_have_the_bits_of_a_recording(name):
    for index in range(len(table.APIS[name].samples)):
        args, kwargs, _ = table.draw(name, index, table.leaf)
        if float not in map(type, (*args, *kwargs.values())):
            continue
        try:
            found = results(name, index, False, crooked)
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            continue
        assert found == results(name, index, True, crooked), index


LAYOUTS = {
    "rows": lambda x: x,
    "columns": lambda x: x.mT.contiguous().mT,
    "gaps": lambda x: torch.cat([x, x[..., :2]], -1)[..., : x.shape[-1]],
    "apart": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "expanded": lambda x: x[:1].expand_as(x),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "shape", [(3, 5), (1, 7), (64, 3), (130, 40), (4, 3, 9), (70000, 1), (300, 400)]
)
def test_sums_have_the_bits_of_a_recording(shape, layout):
    if layout == "apart" and math.prod(shape) >= SCATTERED:
        return  # NumPy adds these up, but not while a call is recorded
    torch.manual_seed(3)
    x = LAYOUTS[layout](torch.randn(shape) * 10.0 ** torch.arange(shape[-1]).remainder(5))
    y = torch.randn(shape[-1], requires_grad=True)
    for function in (
        lambda: (x.sum(), x.mean(), x.sum(0), x.mean(-1), x.sum((0, -1), keepdim=True)),
        lambda: (x.norm(), x.norm(dim=0), x.nansum(-1), x.var(-1), x.std(0), x.logsumexp(-1)),
        lambda: torch.autograd.grad((x * y).sum(), y),
        lambda: torch.autograd.grad((x * y.mean()).sum(), y),
    ):
        plain = bits(function())
        with AsRecorded():
            assert bits(function()) == plain


def classifier():
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 3))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)

    def step(x, y):
        loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss

    return model, step, lambda: (torch.randn(5, 4), torch.randint(3, (5,)))


def convolutions():
    model = nn.Sequential(
        *(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(4, 1, 3, padding=1), nn.Upsample(scale_factor=2, mode="bilinear")),
    )
    optimizer = torch.optim.AdamW(model.parameters())

    def step(x):
        loss = F.l1_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return model, step, lambda: (torch.randn(2, 1, 8, 8),)


def gradient_penalty():
    model = nn.Sequential(nn.Linear(3, 6), nn.Softplus(), nn.Linear(6, 1))
    optimizer = torch.optim.SGD(model.parameters(), 1e-2, momentum=0.9, nesterov=True)

    def step(x, y):
        between = torch.lerp(x, y, 0.3).requires_grad_()
        (slope,) = torch.autograd.grad(model(between).sum(), between, create_graph=True)
        loss = (model(x) - model(y)).mean() + ((slope.norm(dim=1) - 1) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return model, step, lambda: (torch.randn(4, 3), torch.randn(4, 3))


def inner_steps():
    model = nn.Linear(3, 1, bias=False)
    optimizer = torch.optim.RMSprop(model.parameters())

    def step(x, y):
        fast = model.weight[0]
        for _ in range(2):
            (slope,) = torch.autograd.grad(((x @ fast - y) ** 2).mean(), fast, create_graph=True)
            fast = fast - 0.1 * slope
        loss = ((x @ fast - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return model, step, lambda: (torch.randn(6, 3), torch.randn(6))


def attention():
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.1, batch_first=True)
    optimizer = torch.optim.NAdam(layer.parameters())

    def step(x):
        loss = F.huber_loss(layer(x), x.flip(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return layer, step, lambda: (torch.randn(2, 5, 8),)


def recurrent():
    layer = nn.LSTM(2, 3)
    optimizer = torch.optim.Adagrad(layer.parameters(), 0.05)

    def step(x):
        loss = layer(x)[0].square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return layer, step, lambda: (torch.randn(4, 2, 2),)


PROGRAMS = (classifier, convolutions, gradient_penalty, inner_steps, attention, recurrent)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_training_steps_have_the_same_bits(program, dtype):
    runs = []
    for compiled in (False, True):
        torch.manual_seed(0)
        random.seed(0)
        torch.set_default_dtype(dtype)
        try:
            model, step, batch = program()
            run = torch.compile(step) if compiled else step
            losses = []
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # it is compiled, and nothing differs on the way
                for _ in range(24):
                    losses.append(run(*batch()).item())
        finally:
            torch.set_default_dtype(torch.float32)
        runs.append((losses, bits(model.state_dict().values())))
    assert runs[0] == runs[1]


def test_a_sum_over_no_dimensions():
    x = torch.randn(80, 70)
    for t in (x, x.t(), x[:, ::2], x[:3, 0]):
        found = torch.vmap(lambda row: row.sum())(t.reshape(-1))
        assert torch.equal(found, t.reshape(-1))
        assert torch.equal(
            torch.func.grad(lambda x: torch.vmap(torch.mean)(x).sum())(found), found * 0 + 1
        )
