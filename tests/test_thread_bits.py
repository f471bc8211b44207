"""Results do not depend on the number of threads, to the bit: of ops, of the op table with larger
arrays (`make thorough`), and of compiled trainings."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest

import table
import tapegrad as torch
import tapegrad.nn.functional as F
from tapegrad import nn
from tapegrad.kernels.cpu import KERNELS
from tapegrad.ops.block.samples import Draw

compiled = pytest.mark.skipif(KERNELS is None, reason="the kernels in C are not built")
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


def channels_last(x):
    return image(x).contiguous(memory_format=torch.channels_last)


def inverted(x):
    return torch.linalg.inv(x[:COLUMNS] + 30 * torch.eye(COLUMNS, dtype=x.dtype))


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
    "times a vector": lambda x: x @ x[0],
    "transposed times a vector": lambda x: x.T @ x[:, 0],
    "vector times": lambda x: x[:, 0] @ x,
    "dot": lambda x: x.flatten() @ x.flatten(),
    "addmv": lambda x: torch.addmv(x[:, 0], x, x[0], beta=0.5),
    "addmm": lambda x: torch.addmm(x[0], x, x[:COLUMNS], beta=0.5),
    "complex product": lambda x: (torch.complex(x, -x) @ torch.complex(x, x).T).abs(),
    "conv2d, channels last": lambda x: F.conv2d(channels_last(x), filters(x)),
    "conv2d of a view": lambda x: F.conv2d(image(x).transpose(2, 3), filters(x)),
    "batch_norm of a view": lambda x: F.batch_norm(
        image(x).transpose(2, 3), None, None, training=True
    ),
    "group_norm, channels last": lambda x: F.group_norm(channels_last(x), 4),
    "layer_norm of a view": lambda x: F.layer_norm(image(x).transpose(2, 3), (64,)),
    "cdist": lambda x: torch.cdist(x[:300], x[300:600]),
    "inv": inverted,
    "solve": lambda x: torch.linalg.solve(x[:COLUMNS] + 30 * torch.eye(COLUMNS).to(x), x[:COLUMNS]),
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


SHORT = ("times a vector", "conv2d of a view", "product", "sum")


@pytest.mark.parametrize("name", SHORT)
def test_a_few_with_one_and_several_threads(name):
    torch.manual_seed(1)
    x = torch.randn(ROWS, COLUMNS)
    found = set()
    for count in (1, 3):
        torch.set_num_threads(count)
        found.add(with_gradient(FUNCTIONS[name], x))
    assert len(found) == 1


@pytest.mark.slow
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


MOST = 200_000  # elements of an argument


def enlarged(monkeypatch, times):
    """Have the samples of the op table draw arrays that are `times` as long in all directions."""
    plain_array = Draw.array

    def array(self, rng):
        shape = tuple([n * times if n > 1 else n for n in self.shape])
        if math.prod(shape) > MOST:
            raise ValueError("too large")
        return plain_array(Draw(*shape, low=self.low, high=self.high, layout=self.layout), rng)

    monkeypatch.setattr(Draw, "array", array)


def of_float32(array):
    return table.leaf(array.astype(np.float32) if array.dtype == np.float64 else array)


def bits_of_call(name, index):
    args, kwargs, made = table.draw(name, index, of_float32)
    outs = table.tensors_in(table.call(name, args, kwargs))
    loss = [o.sum() for o in outs if o.requires_grad and not o.is_complex()]
    if loss:
        sum(loss).backward()
    grads = [t.grad for t in made if t.is_leaf and t.grad is not None]
    return bits(*[t.resolve_conj().to_dense() for t in (*outs, *grads)])


# Memory that nobody has written, and what is not the same twice.
UNDEFINED = ("empty", "new_empty", "seed", "lobpcg", "svd_lowrank", "pca_lowrank", "resize")


@pytest.mark.thorough
@pytest.mark.parametrize("name", [n for n in table.PURE if not n.startswith(UNDEFINED)])
def test_the_op_table(name, monkeypatch):
    for times in (61, 17, 5, 1):  # the largest samples that the function takes
        with monkeypatch.context() as m:
            enlarged(m, times)
            taken = 0
            for index in range(len(table.APIS[name].samples)):
                found = set()
                try:
                    for count in THREADS:
                        torch.set_num_threads(count)
                        found.add(bits_of_call(name, index))
                except Exception:  # these sizes do not go together: smaller ones are tried
                    continue
                assert len(found) == 1, (name, index, times)
                taken += 1
            if taken:
                return


@compiled
@pytest.mark.slow
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
