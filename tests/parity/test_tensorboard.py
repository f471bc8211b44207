"""SummaryWriter writes what PyTorch's writes, record by record; graphs have the same ops."""

from __future__ import annotations

import importlib
import pathlib

import numpy as np
import pytest
import torch

import tapegrad

pytest.importorskip("tensorboard")
from google.protobuf import text_format
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

CHARTS = {
    "one": {"lines": ["Multiline", ["a", "b"]], "band": ["Margin", ["a", "b", "c"]]},
    "two": {"lines": ["Multiline", ["d"]]},
}
DTYPES = "float32 float64 float16 bfloat16 uint8 int8 int16 int32 int64 bool complex64".split()


def scalars(lib, w):
    w.add_scalar("a/loss", lib.tensor(0.5, requires_grad=True) * 2, 3)
    w.add_scalar("walltime", 2, 4, walltime=12.5)
    w.add_scalar("new", lib.tensor([[2.5]]), lib.tensor(4), new_style=True)
    w.add_scalar("double", 2.1, new_style=True, double_precision=True)
    w.add_scalars("many/of", {"x": 1.0, "y": lib.tensor(2.0)}, 1)


def tensors(lib, w):
    for dtype in DTYPES:
        w.add_tensor(dtype, lib.arange(6).reshape(2, 3).to(getattr(lib, dtype)), 1)


def histograms(lib, w):
    values = lib.tensor([0.0, 1, 2, 2, 3, -1, 100, 1e-15, -1e19])
    w.add_histogram("default", values, 1)
    w.add_histogram("positive", values[1:5], 1)
    w.add_histogram("inside", values[:6], 1, bins=[-3, -2, -1, 0, 5, 6, 7])
    w.add_histogram("auto", values[:7], 1, bins="auto")
    w.add_histogram("few", values[:7], 1, bins=50, max_bins=10)
    w.add_histogram("odd", values[:7], 1, bins=53, max_bins=10)
    w.add_histogram("array", np.arange(3))
    w.add_histogram_raw("raw", 0, 1, 4, 2.0, 3.0, [0.5, 1.0], [2, 2], 7)


def images(lib, w):
    lib.manual_seed(0)
    w.add_image("chw", lib.rand(3, 4, 5), 1)
    w.add_image("hw", lib.rand(4, 5) * 3 - 1, 1, dataformats="HW")
    w.add_image("hwc", lib.rand(4, 5, 1), 1, dataformats="HWC")
    w.add_image("bytes", (lib.rand(3, 4, 5) * 255).to(lib.uint8), 1)
    w.add_images("eleven", lib.rand(11, 3, 4, 5), 1)
    w.add_images("gray", lib.rand(3, 4, 5, 1), 1, dataformats="NHWC")
    w.add_image_with_boxes("boxes", lib.rand(3, 30, 30), lib.tensor([[5.0, 5, 20, 20]]), 1)


def others(lib, w):
    w.add_audio("sound", lib.linspace(-1, 1, 50)[None], 1, sample_rate=8000)
    w.add_text("text", "hello *world*", 2)
    w.add_custom_scalars(CHARTS)
    w.add_custom_scalars_multilinechart(["x1", "x2"], category="c", title="t")
    w.add_custom_scalars_marginchart(["x1", "x2", "x3"])
    faces = lib.tensor([[[0, 1, 2], [1, 2, 3]]])
    points = lib.arange(12.0).reshape(1, 4, 3)
    w.add_mesh("mesh", points, faces=faces, config_dict={"b": 1, "a": "x"}, global_step=1)
    w.add_mesh("colours", points, colors=lib.ones(1, 4, 3, dtype=lib.int64))


def curves(lib, w):
    labels, predictions = lib.tensor([0, 1, 1, 0, 1]), lib.tensor([0.1, 0.9, 0.4, 0.6, 1.0])
    w.add_pr_curve("plain", labels, predictions, 1)
    w.add_pr_curve("few", labels, predictions, num_thresholds=7, weights=np.arange(5.0))
    half = np.array([1.0, 0.5])
    w.add_pr_curve_raw("raw", half, half, half, half, half, half, 1, num_thresholds=2)


def embeddings(lib, w):
    lib.manual_seed(0)
    pictures = lib.rand(5, 3, 8, 8)
    w.add_embedding(lib.rand(5, 3), list("abcde"), pictures, global_step=2)
    w.add_embedding(
        lib.rand(2, 2), [["a", 1], ["b", 2]], metadata_header=["n", "k"], tag="a/b%"
    )  # fmt: skip


def hparams(lib, w):
    given = {"lr": 0.1, "size": 1, "name": "adam", "flag": True, "t": lib.tensor([2.0])}
    w.add_hparams(given, {"acc": 0.9, "loss": lib.tensor(0.1)}, run_name="first")
    w.add_hparams({"lr": 0.1}, {"acc": 1}, {"lr": [0.1, 0.2]}, run_name="second", global_step=5)


def after_closing(lib, w):
    w.add_scalar("a", 1.0)
    w.close()
    w.flush()


PROGRAMS = [
    scalars, tensors, histograms, images, others, curves, embeddings, hparams, after_closing,
]  # fmt: skip


def events(path):
    for raw in RawEventFileLoader(str(path)).Load():
        event = Event.FromString(raw)
        if event.wall_time != 12.5:
            event.wall_time = 0
        plugins = [value.metadata.plugin_data for value in event.summary.value]
        for plugin in plugins:
            if plugin.plugin_name == "hparams":  # its maps have no order
                said = HParamsPluginData.FromString(plugin.content)
                plugin.content = text_format.MessageToString(said).encode()
        yield text_format.MessageToString(event)


def written(lib, program, folder):
    """What a program writes: by folder and file, the records or the bytes."""
    made = importlib.import_module(f"{lib.__name__}.utils.tensorboard")
    with made.SummaryWriter(folder) as w:
        program(lib, w)
    found = {}
    for path in sorted(pathlib.Path(folder).rglob("*")):
        if path.is_file():
            name = path.relative_to(folder).as_posix()
            if "tfevents" in name:
                found[path.parent.relative_to(folder).as_posix(), "events"] = list(events(path))
            else:
                found[name] = path.read_bytes()
    return found


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_records(program, tmp_path):
    ours = written(tapegrad, program, tmp_path / "ours")
    theirs = written(torch, program, tmp_path / "theirs")
    assert ours == theirs
    assert any(theirs.values())


def refused(lib, w):
    yield lambda: w.add_scalar("a", lib.ones(2))
    yield lambda: w.add_scalar("a", None)
    yield lambda: w.add_scalar("a", "x")
    yield lambda: w.add_histogram("a", lib.empty(0))
    yield lambda: w.add_histogram_raw("h", 0, 1, 4, 2.0, 3.0, [0.5], [2, 2])
    yield lambda: w.add_image("a", lib.ones(3, 4))
    yield lambda: w.add_image("a", lib.ones(3, 4, 4), dataformats="CHH")
    yield lambda: w.add_hparams(3, {})
    yield lambda: w.add_hparams({"a": [1]}, {})
    yield lambda: w.add_hparams({"a": 1}, {"b": 1}, {"c": [1]})
    yield lambda: w.add_embedding(lib.ones(3, 2), metadata=["a"])
    yield lambda: w.add_embedding(lib.ones(3))
    yield lambda: w.add_mesh("m", lib.ones(3))


def test_errors(tmp_path):
    def said(lib):
        made = importlib.import_module(f"{lib.__name__}.utils.tensorboard")
        with made.SummaryWriter(tmp_path / lib.__name__) as w:
            for call in refused(lib, w):
                with pytest.raises(Exception) as caught:
                    call()
                yield caught.type.__name__, str(caught.value).partition("\n")[0]

    assert list(said(tapegrad)) == list(said(torch))


def graph_of(lib, folder):
    class Net(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = lib.nn.Sequential(lib.nn.Conv2d(1, 2, 3), lib.nn.ReLU())
            self.head = lib.nn.Linear(32, 3)

        def forward(self, x, y):
            return lib.log_softmax(self.head(self.body(x).flatten(1)) + y, dim=1)

    made = importlib.import_module(f"{lib.__name__}.utils.tensorboard")
    net = Net()
    with made.SummaryWriter(folder) as w:
        w.add_graph(net, (lib.rand(2, 1, 6, 6), lib.rand(3)))
    assert net.training and net.head.training
    (path,) = folder.glob("*tfevents*")
    graphs = [Event.FromString(raw).graph_def for raw in RawEventFileLoader(str(path)).Load()]
    return GraphDef.FromString(next(g for g in graphs if g))


def ops_of(graph):
    """The ops that compute, in order: the module, what it is, the shape of the result."""
    for node in graph.node:
        if node.op.startswith("aten::"):
            sizes = node.attr["_output_shapes"].list.shape[0].dim
            scope = node.name.rpartition("/")[0]
            yield scope, node.op.replace("_convolution", "conv2d"), [d.size for d in sizes]


@pytest.mark.filterwarnings(r"ignore:`torch.jit.trace.*` is deprecated")  # PyTorch's own
def test_a_graph(tmp_path):
    ours, theirs = graph_of(tapegrad, tmp_path / "ours"), graph_of(torch, tmp_path / "theirs")
    assert list(ops_of(ours)) == list(ops_of(theirs))
    names = {node.name for node in ours.node}
    assert len(names) == len(ours.node)
    assert {each for node in ours.node for each in node.input} <= names
    nodes = {node.name: node for node in ours.node}
    (out,) = nodes["output/output.1"].input
    seen = [out]
    for name in seen:  # all that the result comes from
        seen += nodes[name].input
    own = {"weight/weight", "bias/bias"}
    assert {"input/x.1", "input/x.2"} <= set(seen)
    assert {f"Net/Linear[head]/{each}" for each in own} <= set(seen)
