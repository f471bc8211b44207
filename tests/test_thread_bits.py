"""Results do not depend on the number of threads, to the bit: of ops on contiguous arrays, and of
compiled trainings. What BLAS does (products with a vector) is not among them."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

import tapegrad as torch
import tapegrad.nn.functional as F
from tapegrad import nn
from tapegrad.kernels.cpu import KERNELS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(KERNELS is None, reason="the kernels in C are not built"),
]
THREADS = (1, 2, 3, 5, 8)  # more than there are processors is fine
ROWS, COLUMNS = 1031, 517  # so large that all of them get work, and no multiple of anything


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def image(x):
    return x[:, :512].reshape(8, -1)[:, : 16 * 64 * 64].reshape(8, 16, 64, 64).contiguous()


def filters(x):
    return x[:9, :144].reshape(9, 16, 3, 3).contiguous()


def normalized(x):
    return F.batch_norm(image(x), None, None, training=True)


def attended(x):
    q = x[:1024, :512].reshape(4, 256, 8, 64).transpose(1, 2)
    return F.scaled_dot_product_attention(q, q, q, is_causal=True)


def recurrent(x):
    torch.manual_seed(0)
    layer = nn.LSTM(64, 48, dtype=x.dtype)
    return layer(x[:1024, :512].reshape(32, 256, 64))[0]


FUNCTIONS = {
    "exp * tanh": lambda x: x.exp() * x.tanh(),
    "gelu": F.gelu,
    "pow": lambda x: (x.abs() + 0.1) ** 1.7,
    "sum": lambda x: x.sum(),
    "sum of rows": lambda x: x.sum(1),
    "sum of columns": lambda x: x.sum(0),
    "mean": lambda x: x.mean(),
    "var": lambda x: x.var(0),
    "norm": lambda x: x.norm(),
    "prod": lambda x: (x * 0.01 + 1).prod(1),
    "cumsum": lambda x: x.cumsum(1),
    "amax": lambda x: x.amax(0),
    "sort": lambda x: x.sort(1).values,
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(0),
    "logsumexp": lambda x: x.logsumexp(1),
    "layer_norm": lambda x: F.layer_norm(x, (COLUMNS,)),
    "batch_norm": normalized,
    "product": lambda x: x @ x.T,
    "narrow product": lambda x: x @ x[:5].T,
    "products": lambda x: torch.bmm(x[:1024].reshape(8, 128, -1), x[:1024].reshape(8, -1, 128)),
    "conv2d": lambda x: F.conv2d(image(x), filters(x), padding=1),
    "max_pool2d": lambda x: F.max_pool2d(image(x), 3, 2),
    "attention": attended,
    "lstm": recurrent,
    "index": lambda x: x[torch.arange(5000) % ROWS],
    "index_add": lambda x: torch.zeros_like(x).index_add(0, torch.arange(ROWS) % 7, x),
    "embedding": lambda x: F.embedding(torch.arange(4000) * 7 % ROWS, x),
    "transposed copy": lambda x: x.T.contiguous(),
}


def bits(*tensors):
    data = [np.ascontiguousarray(t.detach().numpy()).tobytes() for t in tensors]
    return hashlib.sha256(b"".join(data)).hexdigest()


def with_gradient(function, x):
    x = x.clone().requires_grad_()
    out = function(x)
    weights = torch.linspace(-1, 1, out.numel(), dtype=x.dtype).reshape(out.shape)
    (out * weights).sum().backward()
    return bits(out, x.grad)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_op_and_its_gradient(name, dtype):
    torch.manual_seed(1)
    x = torch.randn(ROWS, COLUMNS, dtype=dtype)
    found = {}
    for count in THREADS:
        torch.set_num_threads(count)
        found[count] = with_gradient(FUNCTIONS[name], x)
    assert len(set(found.values())) == 1, found


def mlp():
    return nn.Sequential(nn.Linear(COLUMNS, 300), nn.GELU(), nn.LayerNorm(300), nn.Linear(300, 10))


def conv_net():
    return nn.Sequential(
        nn.Unflatten(1, (1, 11, 47)),
        nn.Conv2d(1, 24, 3, padding=1),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(24, 16, 3),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Flatten(),
        nn.LazyLinear(10),
    )


@pytest.mark.parametrize("make", [mlp, conv_net], ids=lambda f: f.__name__)
def test_a_compiled_training(make):
    found = {}
    for count in THREADS:
        torch.set_num_threads(count)
        torch.manual_seed(2)
        x, y = torch.randn(256, COLUMNS), torch.randint(0, 10, (256,))
        model = make()
        model(x)
        optimizer = torch.optim.AdamW(model.parameters())

        def step(x, y, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        compiled = torch.compile(step, fullgraph=True)
        losses = [compiled(x, y) for _ in range(8)]
        found[count] = bits(*losses, *model.parameters())
    assert len(set(found.values())) == 1, found
