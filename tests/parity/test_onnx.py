"""Exported models run in onnxruntime, on inputs of sizes that the export has not seen."""

from __future__ import annotations

import ast
import io
import math
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as torch
from tapegrad import nn

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

F = nn.functional
EXAMPLES = pathlib.Path(__file__).parent.parent.parent / "examples"


def session(model: Any, args: tuple[Any, ...], **options: Any) -> Any:
    file = io.BytesIO()
    torch.onnx.export(model, args, file, **options)
    return onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])


def tensors_in(value: Any) -> list[Any]:
    return [t for t in torch.utils._pytree.tree_leaves(value) if isinstance(t, torch.Tensor)]


def check(model: Any, *runs: tuple[Any, ...], dynamic: Any = None, **options: Any) -> Any:
    """Export with the first arguments, and compare what comes out for all of them."""
    if isinstance(model, nn.Module):
        model.eval()
    names = [f"x{i}" for i in range(len(runs[0]))]
    made = session(model, runs[0], input_names=names, dynamic_axes=dynamic, **options)
    for args in runs:
        with torch.no_grad():
            wanted = tensors_in(model(*args))
        given = dict(zip(names, [a.numpy() for a in args], strict=True))
        found = made.run(None, {i.name: given[i.name] for i in made.get_inputs()})
        assert len(found) == len(wanted)
        for ours, theirs in zip(wanted, found, strict=True):
            assert ours.numpy().dtype == theirs.dtype
            np.testing.assert_allclose(theirs, ours.numpy(), rtol=1e-4, atol=1e-5)
    return made


def of_example(name: str) -> dict[str, Any]:
    """The classes and constants of an example; the script itself would train."""
    scope: dict[str, Any] = {"torch": torch, "nn": nn, "F": F, "math": math}
    for node in ast.parse((EXAMPLES / f"{name}.py").read_text()).body:
        upper = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).upper()
        constant = upper and upper == ast.unparse(node.targets[0])  # type: ignore[attr-defined]
        if isinstance(node, ast.ClassDef) or constant:
            exec(compile(ast.Module([node], []), name, "exec"), scope)
    return scope


class Residual(nn.Module):
    def __init__(self, into: int, out: int, stride: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(into, out, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(out)
        self.two = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(out)
        self.skip = nn.Conv2d(into, out, 1, stride, bias=False) if into != out else nn.Identity()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Any) -> Any:
        y = self.norm2(self.two(self.relu(self.norm1(self.one(x)))))
        y += self.skip(x)
        return self.relu(y)


def res_net() -> Any:
    stem = [nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    body = [Residual(8, 8, 1), Residual(8, 16, 2)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)]
    return nn.Sequential(*stem, *body, *head)


class Bert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 32), nn.Embedding(64, 32)
        self.kinds, self.norm = nn.Embedding(2, 32), nn.LayerNorm(32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.pooler = nn.Linear(32, 32)

    def forward(self, ids: Any, mask: Any) -> Any:
        places = torch.arange(ids.shape[1]).unsqueeze(0)
        x = self.words(ids) + self.places(places) + self.kinds(torch.zeros_like(ids))
        x = self.encoder(self.norm(x), src_key_padding_mask=mask == 0)
        return x, torch.tanh(self.pooler(x[:, 0]))


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.norm = nn.GroupNorm(4, 16)
        self.up, self.out = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(24, 1, 1)

    def forward(self, x: Any) -> Any:
        a = F.relu(self.down1(x))
        b = F.silu(self.norm(self.down2(F.max_pool2d(a, 2))))
        wide = F.interpolate(b, size=a.shape[2:], mode="bilinear", align_corners=False)
        return self.out(torch.cat([a, self.up(b), wide[:, :8]], dim=1))


IMAGES = {"x0": {0: "batch", 2: "height", 3: "width"}}
WORDS = {"x0": {0: "batch", 1: "time"}}


def words(*shape: int, below: int = 20) -> Any:
    return torch.randint(0, below, shape)


@pytest.mark.slow
def test_a_residual_network() -> None:
    check(res_net(), (torch.randn(2, 3, 32, 32),), (torch.randn(3, 3, 48, 41),), dynamic=IMAGES)


@pytest.mark.slow
def test_a_u_net() -> None:
    check(UNet(), (torch.randn(1, 1, 16, 16),), (torch.randn(3, 1, 24, 40),), dynamic=IMAGES)


@pytest.mark.slow
def test_bert() -> None:
    runs = [(words(2, 7), torch.ones(2, 7, dtype=torch.int64)), (words(5, 12), words(5, 12) // 4)]
    runs[1][1][:, 0] = 1
    check(Bert(), *runs, dynamic={**WORDS, "x1": {0: "batch", 1: "time"}})


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("two_ways", [False, True])
def test_recurrent_layers(kind: str, two_ways: bool) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(20, 6)
            self.layers = getattr(nn, kind)(6, 5, 2, batch_first=True, bidirectional=two_ways)

        def forward(self, x: Any) -> Any:
            return self.layers(self.table(x))

    check(Model(), (words(2, 7),), (words(3, 12),), (words(1, 1),), dynamic=WORDS)


@pytest.mark.slow
def test_the_models_of_the_examples() -> None:
    gpt = of_example("char_gpt")["GPT"](20)
    check(gpt, (words(2, 7),), (words(3, 32),), (words(1, 1),), dynamic=WORDS)
    lstm = of_example("char_lstm")["CharLSTM"](20)
    check(lstm, (words(2, 7),), (words(3, 32),), dynamic=WORDS)
    states = tuple([torch.randn(1, 2, 96) for _ in range(2)])
    made = session(lstm, (words(2, 7), states), input_names=["x", "h", "c"])
    assert [i.name for i in made.get_inputs()] == ["x", "h", "c"]
    net = of_example("digits_cnn")["Net"]()
    check(net, (torch.randn(2, 1, 8, 8),), (torch.randn(5, 1, 8, 8),), dynamic={"x0": [0]})
    vae = of_example("vae")["VAE"]()
    check(vae.decoder, (torch.randn(2, 8),), (torch.randn(5, 8),), dynamic={"x0": [0]})
    with pytest.raises(torch.onnx.OnnxExporterError, match="aten::randn_like"):
        session(vae, (torch.randn(2, 64),))


CASES: dict[str, Callable[[Any], Any]] = {
    "chunk": lambda x: x.chunk(3, 1),
    "index": lambda x: (x[:, :, torch.arange(3)], x[..., -1], x[:, 0:2, ::2], x[:, None]),
    "pairs": lambda x: (x[torch.tensor([0, 1]), torch.tensor([1, 2])], x[:, [0, 1], [1, 2]]),
    "joins": lambda x: (torch.cat([x, x], 1), torch.stack([x, x], 1)),
    "masks": lambda x: (torch.where(x > 0, x, 0.0), x.masked_fill(x > 0, 9.0)),
    "einsum": lambda x: torch.einsum("bchw,bckw->bchk", x, x),
    "resize": lambda x: (
        F.interpolate(x, scale_factor=2),
        F.interpolate(x, size=(5, 5), mode="bilinear"),
        F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True),
        F.interpolate(x, scale_factor=2, mode="bicubic"),
    ),
    "pads": lambda x: (
        F.pad(x, (1, 1, 2, 2), value=3.0),
        F.pad(x, (1, 1, 1, 1), mode="reflect"),
        F.pad(x, (1, 2, 1, 1), mode="replicate"),
    ),
    "sums": lambda x: (x.mean((2, 3)), x.sum(1, keepdim=True), x.prod(1), x.sum(), x.mean()),
    "spread": lambda x: (x.var(1), x.std(), torch.var_mean(x, (2, 3)), x.norm(dim=1)),
    "extremes": lambda x: (x.max(1), x.argmax(1), x.amin((1, 2)), x.topk(2, dim=1), x.sort(1)),
    "splits": lambda x: (x.split([1, 2], 1), x.unbind(1)),
    "norms": lambda x: (F.group_norm(x, 3), F.instance_norm(x), F.normalize(x, dim=1)),
    "shapes": lambda x: (x.repeat(2, 1, 2, 1, 1), x.flatten(1), x.permute(0, 2, 3, 1), x.mT),
    "gather": lambda x: (
        x.gather(1, x.argmax(1, keepdim=True)),
        x.scatter(1, x.argmax(1, keepdim=True), 1.0),
        x.index_select(1, torch.tensor([0, 2])),
        F.one_hot(x.argmax(1), num_classes=3),
    ),
    "triangles": lambda x: (x.triu(1), x.tril(-1), torch.ones(x.shape[2], x.shape[2]).tril()),
    "moves": lambda x: (torch.roll(x, (1, 2), (2, 3)), x.flip((1, 2)), x.cumsum(1)),
    "pools": lambda x: (
        F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
        F.max_pool1d(x[:, 0], 2),
        F.adaptive_avg_pool2d(x, 1),
    ),
    "activations": lambda x: [
        f(x) for f in (F.hardswish, F.hardsigmoid, F.selu, F.mish, F.silu, F.gelu, F.relu6)
    ],
    "more activations": lambda x: (
        F.leaky_relu(x, 0.1),
        F.elu(x, 0.5),
        F.celu(x, 0.7),
        F.softplus(x, 2),
        F.prelu(x, torch.tensor([0.1, 0.2, 0.3])),
        F.gelu(x, approximate="tanh"),
        F.glu(x.repeat(1, 2, 1, 1), 1),
        F.logsigmoid(x),
    ),
    "whole parts": lambda x: (
        (x * 10).long() // 3,
        (x * 10).long() % 3,
        x // 2,
        x % 2,
        torch.fmod(x, 2),
        x.trunc(),
    ),
    "questions": lambda x: ((x > 0) & (x < 1) | ~(x >= -1), x.ne(0), (x > 1).any(1), x == 0),
    "mixed dtypes": lambda x: (x * torch.arange(x.shape[3]), (x > 0).int() + 1, x.double()),
    "new tensors": lambda x: (
        torch.zeros_like(x) + torch.ones(x.shape[0], 1, 1, 1) + x.new_full((x.shape[2], 1), 2.0),
        torch.arange(1, x.shape[3], 2),
        torch.meshgrid(torch.arange(x.shape[2]), torch.arange(x.shape[3]), indexing="ij"),
    ),
    "products": lambda x: (
        torch.addmm(torch.ones(x.shape[2]), x[0, 0], x[0, 0].t(), beta=0.5, alpha=2),
        torch.add(x, x, alpha=2) - 3 * x,
        2 - x,
        1 / (x.abs() + 1),
        torch.lerp(x, x * 2, 0.3),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_ops(name: str) -> None:
    check(CASES[name], (torch.randn(2, 3, 8, 6),), (torch.randn(3, 3, 12, 10),), dynamic=IMAGES)


def test_writes_are_followed() -> None:
    def model(x: Any) -> Any:
        b = x.clone()
        b[:, 0] = 1
        b[:, :, 1:3] += 2
        flat = b.view(b.shape[0], -1)
        flat.add_(1)
        flat[:, 0] = 5
        return b, flat

    check(model, (torch.randn(2, 3, 4),), (torch.randn(5, 3, 6),), dynamic={"x0": [0, 2]})


def test_dynamic_shapes_and_names() -> None:
    model = nn.Linear(3, 2)
    made = session(
        model,
        (torch.randn(4, 3),),
        input_names=["features"],
        output_names=["scores"],
        dynamic_shapes=({0: "rows"},),
        opset_version=20,
    )
    assert made.get_inputs()[0].name == "features" and made.get_inputs()[0].shape == ["rows", 3]
    assert made.get_outputs()[0].name == "scores" and made.get_outputs()[0].shape == ["rows", 2]
    program = torch.onnx.export(model, (torch.randn(4, 3),))
    assert {w.name for w in program.model_proto.graph.initializer} >= {"bias"}
    assert model.training and not torch.onnx.is_in_onnx_export()


def test_what_cannot_be_exported() -> None:
    x = torch.randn(2, 3)
    with pytest.raises(
        torch.onnx.UnsupportedOperatorError, match=r"'aten::\w*cdist\w*' to ONNX opset version 18"
    ) as caught:
        session(lambda x: torch.cdist(x, x), (x,))
    assert "test_onnx.py" in str(caught.value)
    with pytest.raises(
        torch.onnx.OnnxExporterError, match="values of a tensor are handed to Python"
    ):
        session(lambda x: x + 1 if x.sum() > 0 else x, (x,))
    with pytest.raises(torch.onnx.OnnxExporterError, match="with inputs of other sizes the model"):
        session(lambda x: sum([row * 2 for row in x]), (x,), dynamic_shapes=({0: "rows"},))
    with pytest.raises(
        torch.onnx.OnnxExporterError, match="values of a tensor are handed to Python"
    ):
        session(lambda x: x + torch.from_numpy(np.asarray(x) * 2), (x,))
    with pytest.raises(ValueError, match="Unsupported ONNX opset version: 9"):
        session(nn.ReLU(), (x,), opset_version=9)
