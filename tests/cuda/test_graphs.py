"""CUDA graphs: whole steps recorded and replayed. The stand-in runs the recorded work again."""

from __future__ import annotations

from typing import Any

import pytest

import tapegrad
from tapegrad.core import devices

torch: Any = tapegrad


def has_kernels() -> bool:
    return hasattr(devices.DEVICE.xp, "RawKernel")


def model_and_optimizer(make: Any) -> tuple[Any, Any]:
    torch.manual_seed(0)
    nn = torch.nn
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3)).cuda()
    return model, make(model.parameters())


OPTIMIZERS = {
    "adam": lambda p: torch.optim.Adam(p, lr=0.05),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.05),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_same_losses_as_without(name: str) -> None:
    if name != "sgd" and not has_kernels():
        pytest.skip("counts steps in the fused kernel, which needs CuPy and a GPU")
    losses = []
    weights = []
    for graphed in (False, True):
        model, optimizer = model_and_optimizer(OPTIMIZERS[name])
        # The learning rate is read again by the fused kernels only.
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3 if has_kernels() else 99, 0.5)

        def step(x: Any, y: Any, model: Any = model, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        run = torch.cuda.make_graphed_step(step) if graphed else step
        seen = []
        for i in range(8):
            x = torch.sin(torch.arange(24.0).reshape(4, 6) + i).cuda()
            y = torch.tensor([0, 1, 2, i % 3]).cuda()
            seen.append(run(x, y).item())
            schedule.step()
        losses.append(seen)
        weights.append([p.detach().cpu() for p in model.parameters()])
    assert losses[0] == losses[1]
    for a, b in zip(*weights, strict=True):
        assert torch.equal(a, b)


def test_other_shapes_are_recorded_apart() -> None:
    weight = torch.ones(3, device="cuda", requires_grad=True)

    def step(x: Any) -> Any:
        weight.grad = None
        loss = (x * weight).sum()
        loss.backward()
        return loss

    run = torch.cuda.make_graphed_step(step, warm_up=1)
    for count in (2, 5, 2, 5, 2):
        x = torch.full((count, 3), 2.0, device="cuda")
        assert run(x).item() == 6.0 * count
        assert weight.grad.tolist() == [2.0 * count] * 3
    assert len(run.recordings) == 2


@pytest.mark.parametrize(
    "line",
    [
        "loss.item()",
        "if loss > 0: pass",
        "torch.multinomial(x, 1)",
        "torch.tensor([1.0]).cuda()",
    ],
)
def test_what_cannot_be_captured_names_the_line(line: str, tmp_path: Any) -> None:
    if line in ("loss.item()", "if loss > 0: pass") and not has_kernels():
        pytest.skip("the stand-in, which refuses these, is no installed library: its line is named")
    path = tmp_path / "user_step.py"
    path.write_text(f"def step(x):\n    loss = (x * x).sum()\n    {line}\n    return loss\n")
    space: dict[str, Any] = {"torch": torch}
    exec(compile(path.read_text(), str(path), "exec"), space)
    run = torch.cuda.make_graphed_step(space["step"], warm_up=1)
    x = torch.ones(3, device="cuda")
    assert run(x).item() == 3.0
    with pytest.raises(RuntimeError, match="graph") as caught:
        run(x)
    assert f"user_step.py:3:  {line}" in str(caught.value)
    # And the GPU is as good as before.
    assert (x + 1).sum().item() == 6.0


def test_pytorch_names() -> None:
    x = torch.ones(3, device="cuda")
    y = torch.zeros(3, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y.copy_(x * 2)
        assert torch.cuda.is_current_stream_capturing()
    assert y.tolist() == [0.0, 0.0, 0.0]
    x.fill_(5)
    graph.replay()
    assert y.tolist() == [10.0, 10.0, 10.0]


def layers() -> dict[str, Any]:
    nn = torch.nn

    class Attention(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, width: int) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 3 * width)

        def forward(self, x: Any) -> Any:
            q, k, v = self.inner(x).reshape(2, 3, 1, -1).transpose(1, 2).chunk(3, -1)
            seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return seen.transpose(1, 2).flatten(2)

    class Last(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Any) -> Any:
            return self.inner(x)[0]

    return {
        "conv1d": nn.Conv1d(3, 2, 3, padding=1),
        "conv1d depthwise": nn.Conv1d(3, 3, 2, groups=3),
        "conv_transpose1d": nn.ConvTranspose1d(3, 2, 2, stride=2),
        "pooling": nn.Sequential(nn.Conv1d(3, 4, 2, padding=1), nn.MaxPool1d(2), nn.AvgPool1d(2)),
        "batch norm": nn.Sequential(nn.Conv1d(3, 4, 2), nn.BatchNorm1d(4), nn.ReLU()),
        "group norm": nn.Sequential(nn.Conv1d(3, 4, 2), nn.GroupNorm(2, 4)),
        "instance norm": nn.Sequential(nn.Conv1d(3, 4, 2), nn.InstanceNorm1d(4, affine=True)),
        "rms norm": nn.Sequential(nn.Linear(4, 5), nn.RMSNorm(5), nn.SiLU()),
        "rnn": Last(nn.RNN(4, 5, batch_first=True)),
        "lstm": Last(nn.LSTM(4, 5, 2, batch_first=True)),
        "gru": Last(nn.GRU(4, 5, batch_first=True)),
        "transformer": nn.TransformerEncoderLayer(4, 2, 8, batch_first=True),
        "attention": Attention(8),
        "wide attention": Attention(300),
    }


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", list(layers()))
def test_layers_can_be_captured(name: str, dtype: str) -> None:
    wanted = getattr(torch, dtype)
    losses = []
    for graphed in (False, True):
        torch.manual_seed(0)
        model = layers()[name].cuda().to(wanted)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x: Any, model: Any = model, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        run = torch.cuda.make_graphed_step(step) if graphed else step
        xs = [torch.sin(torch.arange(24, dtype=wanted).reshape(2, 3, 4) + i) for i in range(5)]
        losses.append([run(x.cuda()).item() for x in xs])
    assert losses[0] == losses[1]


def test_compile_makes_graphs_where_it_is_asked_to() -> None:
    losses = {}
    for compiled in (False, True):
        model, optimizer = model_and_optimizer(OPTIMIZERS["sgd"])

        def step(x: Any, y: Any, model: Any = model, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        run = torch.compile(step, mode="reduce-overhead") if compiled else step
        seen = []
        for i in range(10):
            x = torch.sin(torch.arange(24.0).reshape(4, 6) + i).cuda()
            y = torch.tensor([0, 1, 2, i % 3]).cuda()
            seen.append(run(x, y))
            if i == 6:
                model[0].weight.requires_grad_(False)  # another recording
        losses[compiled] = [loss.item() for loss in seen]  # each in memory of its own
        if compiled:
            assert len(run.graphs.graphed.recordings) == 1
    assert losses[True] == losses[False]


def test_compiled_graphs_and_gradients_that_are_there() -> None:
    weight = torch.ones(3, device="cuda", requires_grad=True)

    def step(x: Any) -> Any:
        loss = (x * weight).sum()
        loss.backward()
        return loss

    run = torch.compile(step, mode="reduce-overhead")
    x = torch.full((2, 3), 2.0, device="cuda")
    for i in range(12):
        if i % 4 == 0:
            weight.grad = None
        run(x)
        assert weight.grad.tolist() == [4.0 * (i % 4 + 1)] * 3


def test_hooks_that_come_after_a_graph_are_called() -> None:
    weight = torch.ones(3, device="cuda", requires_grad=True)

    def step(x: Any) -> Any:
        weight.grad = None
        (x * weight).sum().backward()
        return weight.grad.sum()

    run = torch.compile(step, mode="reduce-overhead")
    x = torch.full((2, 3), 2.0, device="cuda")
    for _ in range(5):
        assert run(x).item() == 12.0
    handle = weight.register_hook(lambda grad: grad * 2)
    for _ in range(5):
        assert run(x).item() == 24.0
    handle.remove()
    assert run(x).item() == 12.0


def test_a_compiled_model_on_a_gpu_is_differentiated_outside() -> None:
    model, _ = model_and_optimizer(OPTIMIZERS["sgd"])
    run = torch.compile(model, mode="reduce-overhead")
    for _ in range(4):
        model.zero_grad()
        run(torch.ones(2, 6, device="cuda")).sum().backward()
        found = model[3].weight.grad.cpu()
        model.zero_grad()
        model(torch.ones(2, 6, device="cuda")).sum().backward()
        assert torch.equal(found, model[3].weight.grad.cpu())
    assert run.forward.graphs.reason == "what it returns is differentiated outside of it"


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_compiled_graphs_of_recurrent_layers(kind: str) -> None:
    losses = []
    for compiled in (False, True):
        torch.manual_seed(0)
        layers = getattr(torch.nn, kind)(8, 8, 2, batch_first=True, bidirectional=True).cuda()
        head = torch.nn.Linear(16, 3).cuda()
        params = [*layers.parameters(), *head.parameters()]
        optimizer = torch.optim.SGD(params, lr=0.1)
        parts = (layers, head, optimizer)

        def step(x: Any, y: Any, parts: Any = parts) -> Any:
            layers, head, optimizer = parts
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(head(layers(x)[0][:, -1]), y)
            loss.backward()
            optimizer.step()
            return loss

        run = torch.compile(step, mode="reduce-overhead") if compiled else step
        seen = []
        for i in range(6):
            x = torch.sin(torch.arange(96.0).reshape(4, 3, 8) + i).cuda()
            seen.append(run(x, torch.tensor([0, 1, 2, i % 3]).cuda()))
        losses.append([loss.item() for loss in seen])
        if compiled:
            assert not run.graphs.reason and len(run.graphs.graphed.recordings) == 1
    assert losses[0] == losses[1]


def test_inputs_lie_as_they_did() -> None:
    """Layouts decide in which order sums are formed."""
    seen = []

    def step(x: Any) -> Any:
        seen.append(x.stride())
        return x * 2

    run = torch.cuda.make_graphed_step(step)
    inputs = [torch.arange(120.0).reshape(2, 3, 4, 5).cuda() + i for i in range(4)]
    inputs = [x.to(memory_format=torch.channels_last) for x in inputs]
    found = [run(x).cpu().clone() for x in inputs]
    assert seen == [(60, 1, 15, 3)] * 3
    for x, out in zip(inputs, found, strict=True):
        assert torch.equal(x.cpu() * 2, out)
