"""Files written here and read by PyTorch, and the other way round."""

from __future__ import annotations

import io
import pathlib
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import serialized
import tapegrad
from serialized import LEGACY, SAFE, WHOLE, same

FORMATS = {"zip": True, "legacy": False}


def exchange(
    make: Callable[[Any], Any], writer: Any, reader: Any, new: bool, **options: Any
) -> Any:
    file = io.BytesIO()
    writer.save(make(writer), file, _use_new_zipfile_serialization=new)
    file.seek(0)
    return reader.load(file, **options)


CASES = [(name, "zip") for name in SAFE] + [(name, "legacy") for name in LEGACY]


@pytest.mark.parametrize(("name", "kind"), CASES)
@pytest.mark.parametrize("weights_only", [True, False])
def test_pytorch_reads_what_we_write(name: str, kind: str, weights_only: bool) -> None:
    make = {**SAFE, **LEGACY}[name]
    new = FORMATS[kind]
    found = exchange(make, tapegrad, torch, new, weights_only=weights_only)
    same(found, make(torch), close=1e-6 if name == "training" else 0.0)


@pytest.mark.parametrize(("name", "kind"), CASES)
@pytest.mark.parametrize("weights_only", [True, False])
def test_we_read_what_pytorch_writes(name: str, kind: str, weights_only: bool) -> None:
    make = {**SAFE, **LEGACY}[name]
    new = FORMATS[kind]
    found = exchange(make, torch, tapegrad, new, weights_only=weights_only)
    same(found, make(tapegrad), close=1e-6 if name == "training" else 0.0)


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("new", FORMATS.values(), ids=FORMATS)
def test_whole_modules_and_optimizers(name: str, new: bool) -> None:
    make = WHOLE[name]
    same(exchange(make, tapegrad, torch, new, weights_only=False), make(torch))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch looks for the sources of its classes
        same(exchange(make, torch, tapegrad, new, weights_only=False), make(tapegrad))


@pytest.mark.parametrize("name", [*SAFE, *WHOLE])
def test_pytorch_maps_our_files(name: str, tmp_path: Any) -> None:
    make = {**SAFE, **WHOLE}[name]
    tapegrad.save(make(tapegrad), tmp_path / "a.pt")
    found = torch.load(tmp_path / "a.pt", mmap=True, weights_only=name in SAFE)
    same(found, make(torch), close=1e-6 if name == "training" else 0.0)


def every_module() -> list[str]:
    """The modules that both libraries have."""
    return sorted(
        name
        for name, cls in vars(tapegrad.nn).items()
        if isinstance(cls, type) and issubclass(cls, tapegrad.nn.Module) and hasattr(torch.nn, name)
    )


@pytest.mark.parametrize("name", every_module())
def test_classes_have_the_names_of_pytorch(name: str) -> None:
    def make(library: Any) -> Any:
        return getattr(library.nn, name)

    assert exchange(make, tapegrad, torch, True, weights_only=False) is make(torch)
    assert exchange(make, torch, tapegrad, True, weights_only=False) is make(tapegrad)


def test_optimizers_have_the_names_of_pytorch() -> None:
    for name, cls in list(vars(tapegrad.optim).items()):
        if isinstance(cls, type) and issubclass(cls, tapegrad.optim.Optimizer):

            def make(library: Any, name: str = name) -> Any:
                return getattr(library.optim, name)

            assert exchange(make, tapegrad, torch, True, weights_only=False) is make(torch)
            assert exchange(make, torch, tapegrad, True, weights_only=False) is make(tapegrad)


def test_functions_and_results() -> None:
    def functions(library: Any) -> Any:
        f = library.nn.functional
        return [library.relu, f.relu, f.gelu, library.Tensor, library.device, library.FloatTensor]

    def result(library: Any) -> Any:
        return library.max(library.arange(4.0).reshape(2, 2), 0)

    assert exchange(functions, tapegrad, torch, True, weights_only=False) == functions(torch)
    found = exchange(functions, torch, tapegrad, True, weights_only=False)
    assert found[1:] == functions(tapegrad)[1:]
    assert found[0](tapegrad.tensor([-1.0])).item() == 0
    for one, other in ((torch, tapegrad), (tapegrad, torch)):
        same(exchange(result, one, other, True, weights_only=False), result(other))


def test_padding_for_every_length() -> None:
    for length in range(60, 130):
        files = []
        for library in (torch, tapegrad):
            file = io.BytesIO()
            library.save(["x" * length, library.ones(length)], file)
            files.append(file.getvalue())
        at = files[0].index(b"archive/.data/serialization_id") + 20
        assert files[0][:at] == files[1][:at] and len(files[0]) == len(files[1])


@pytest.mark.parametrize("seed", range(30))
def test_random_views(seed: int) -> None:
    """Views of views of a few memories come back as they were, in both directions."""

    def make(library: Any) -> Any:
        random = np.random.default_rng(seed)
        found = [library.arange(24.0).reshape(2, 3, 4), library.arange(60).reshape(3, 4, 5)]
        for _ in range(12):
            t = found[random.integers(len(found))]
            kind = random.integers(4)
            if kind == 0 and t.dim():
                t = t.select(int(random.integers(t.dim())), 0) if 0 not in t.shape else t
            elif kind == 1 and t.dim() > 1:
                t = t.transpose(0, int(random.integers(t.dim())))
            elif kind == 2 and t.dim():
                start = int(random.integers(t.shape[0] + 1))
                t = t[start :: int(random.integers(1, 3))]
            elif kind == 3:
                t = t.unsqueeze(0).expand(2, *t.shape)
            found.append(t)
        return found

    for new in (True, False):
        same(exchange(make, tapegrad, torch, new), make(torch))
        same(exchange(make, torch, tapegrad, new), make(tapegrad))


def test_errors_have_the_sentences_of_pytorch(tmp_path: Any) -> None:
    path = tmp_path / "a.pt"
    torch.save(torch.arange(5.0), path)
    data = path.read_bytes()
    old = io.BytesIO()
    torch.save(torch.arange(5.0), old, _use_new_zipfile_serialization=False)
    old_data = old.getvalue()
    attempts: list[Callable[[Any], Any]] = [
        lambda t: t.load(io.BytesIO(data[:-30])),
        lambda t: t.load(io.BytesIO(data.replace(b"a/data/0", b"a/data/x"))),
        lambda t: t.load(io.BytesIO(old_data[:-3])),
        lambda t: t.load(io.BytesIO(old_data[:4] + b"x" + old_data[5:])),
        lambda t: t.load(io.BytesIO(b"\0\0\0\0\0\0")),
        lambda t: t.load(io.BytesIO(data), map_location="cuda"),
        lambda t: t.load(io.BytesIO(data), map_location="moon"),
        lambda t: t.load(io.BytesIO(data), mmap=True),
        lambda t: t.load(io.BytesIO(data), weights_only=True, pickle_module=pickle),
        lambda t: t.load(3),
        lambda t: t.load(tmp_path / "missing.pt"),
        lambda t: t.save(1, 3),
        lambda t: t.save(1, str(tmp_path / "no" / "where.pt")),
        lambda t: t.save(1, io.BytesIO(), pickle_protocol="2"),
        lambda t: t.save([t.ones(1), t.ones(1).view(t.int32)][:1] * 2, 3),
        lambda t: saved_as_two_dtypes(t),
        lambda t: t.serialization.set_default_mmap_options(99),
        lambda t: t.serialization.set_default_load_endianness("x"),
        lambda t: t.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(old_data)),
        lambda t: exchange(lambda _: {1: frozenset([2])}, t, t, True),
        lambda t: exchange(lambda _: print.__self__.exec, t, t, False),
    ]
    for i, attempt in enumerate(attempts):
        found = []
        for library in (torch, tapegrad):
            with pytest.raises(Exception) as caught:
                attempt(library)
            found.append((caught.type, str(caught.value).splitlines()[0]))
        assert found[0] == found[1], i


def saved_as_two_dtypes(library: Any) -> None:
    t = library.ones(2)
    library.save([t, t.view(library.int32)], io.BytesIO())


@pytest.mark.slow
def test_pytorch_reads_more_than_four_gigabytes(tmp_path: Any) -> None:
    large = tapegrad.from_numpy(np.zeros(2**32 + 5, np.uint8))
    tapegrad.serialization.set_crc32_options(False)
    try:
        with open(tmp_path / "large.pt", "wb") as file:
            tapegrad.save([large, tapegrad.arange(3)], serialized.Sparse(file))
    finally:
        tapegrad.serialization.set_crc32_options(True)
    first, second = torch.load(tmp_path / "large.pt", mmap=True)
    assert first.numel() == 2**32 + 5 and second.tolist() == [0, 1, 2]


PICKLED = """
import pickle, sys, torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4)).eval()
attention = nn.TransformerEncoderLayer(4, 2, dropout=0.0).eval()
x = torch.randn(3, 4)
found = {
    "model": model, "attention": attention, "x": x, "y": model(x).detach(),
    "z": attention(x).detach(), "optimizer": torch.optim.Adam(model.parameters()),
    "normal": torch.distributions.Normal(0.0, 1.0), "loss": nn.CrossEntropyLoss(),
    "dtype": torch.float16, "device": torch.device("cpu"), "shape": x.shape,
    "view": torch.arange(6.0).view(2, 3).t(), "half": x.bfloat16(), "mask": x > 0,
}
pickle.dump(found, open(sys.argv[1], "wb"))
"""


def test_pytorch_reads_what_pickle_writes_under_run(tmp_path: pathlib.Path) -> None:
    script, file = tmp_path / "script.py", tmp_path / "found.pkl"
    script.write_text(PICKLED)
    command = [sys.executable, "-m", "tapegrad", "run", str(script), str(file)]
    subprocess.run(command, check=True, timeout=120)
    found = pickle.loads(file.read_bytes())
    assert type(found["model"]) is torch.nn.Sequential and found["dtype"] is torch.float16
    torch.testing.assert_close(found["model"](found["x"]), found["y"])
    torch.testing.assert_close(found["attention"](found["x"]), found["z"])
    assert found["view"].stride() == (1, 3) and found["half"].dtype is torch.bfloat16
    assert found["optimizer"].param_groups[0]["params"][0].shape == (8, 4)
