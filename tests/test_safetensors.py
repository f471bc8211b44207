"""safetensors, the package, with tapegrad under the name of torch; and NumPy's `.npz`."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import tapegrad as torch

SOURCE = str(pathlib.Path(torch.__file__).parent.parent)

PROGRAM = """
import json, sys
import torch
from safetensors import safe_open
from safetensors.torch import load, load_file, load_model, save, save_file, save_model
import safetensors.numpy

folder = sys.argv[1]
names = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 uint16 uint32 uint64 bool"
tensors = {n: torch.arange(6).reshape(2, 3).to(getattr(torch, n)) for n in names.split()}
tensors["complex64"] = torch.tensor([1 + 2j])
tensors |= {"empty": torch.empty(0, 3), "one": torch.tensor(3.0)}

def check(found):
    assert sorted(found) == sorted(tensors)
    for name, t in found.items():
        assert t.dtype == tensors[name].dtype and t.shape == tensors[name].shape, name
        assert t.tolist() == tensors[name].tolist(), name

# Everything, by file and by bytes.
save_file(tensors, f"{folder}/all.safetensors", metadata={"format": "pt"})
check(load_file(f"{folder}/all.safetensors"))
check(load(save(tensors)))

# No copy: pages of the file, private to the process.
a, b = load_file(f"{folder}/all.safetensors"), load_file(f"{folder}/all.safetensors")
a["float32"].add_(1)
assert (a["float32"] - b["float32"]).tolist() == [[1.0] * 3] * 2
assert a["float32"].untyped_storage().nbytes() == 24
assert a["float32"].untyped_storage().data_ptr() == a["float32"].data_ptr()
# What was loaded is saved again: tensors of one file do not count as sharing memory.
save_file(b, f"{folder}/again.safetensors")
check(load_file(f"{folder}/again.safetensors"))

with safe_open(f"{folder}/all.safetensors", framework="pt") as file:
    assert file.metadata() == {"format": "pt"}
    part = file.get_slice("float32")
    assert part.get_shape() == [2, 3] and part.get_dtype() == "F32"
    assert part[1:, :2].tolist() == [[3.0, 4.0]] and part[:, -1].tolist() == [2.0, 5.0]
arrays = safetensors.numpy.load_file(f"{folder}/all.safetensors")
assert arrays["int16"].tolist() == [[0, 1, 2], [3, 4, 5]]
safetensors.numpy.save_file({"x": tensors["float64"].numpy()}, f"{folder}/np.safetensors")
assert load_file(f"{folder}/np.safetensors")["x"].dtype == torch.float64

# A model with tied weights.
def tied():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    model[1].weight = model[0].weight
    return model
one, two = tied(), tied()
save_model(one, f"{folder}/tied.safetensors")
load_model(two, f"{folder}/tied.safetensors")
x = torch.randn(4, 3)
assert torch.equal(one(x), two(x))
try:
    save_file(one.state_dict(), f"{folder}/refused.safetensors")
except RuntimeError as error:
    assert "share memory" in str(error)
else:
    raise AssertionError("tied weights have to be refused")

# A sharded checkpoint, with an index as Hugging Face's.
model = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(3)])
where = {}
for i, layer in enumerate(model):
    name = f"model-{i + 1:05}-of-00003.safetensors"
    shard = {f"{i}.{k}": v for k, v in layer.state_dict().items()}
    save_file(shard, f"{folder}/{name}")
    where |= dict.fromkeys(shard, name)
index = f"{folder}/model.safetensors.index.json"
json.dump({"weight_map": where}, open(index, "w"))
state = {}
for name in sorted(set(json.load(open(index))["weight_map"].values())):
    state |= load_file(f"{folder}/{name}")
other = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(3)])
other.load_state_dict(state, assign=True)
x = torch.randn(2, 4)
assert torch.equal(model(x), other(x))
other(x).sum().backward()
torch.optim.AdamW(other.parameters()).step()
print("done")
"""


def test_the_package_as_it_is(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("safetensors")
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "tapegrad", "run", str(script), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"


def test_npz_in_and_out(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "numbers.npz"
    tensors = {"w": torch.randn(3, 4), "i": torch.arange(3), "z": torch.tensor(1 + 2j)}
    np.savez(file, **tensors)
    with np.load(file) as found:
        for name, tensor in tensors.items():
            back = torch.from_numpy(found[name])
            assert back.dtype == tensor.dtype and torch.equal(back, tensor)
    np.savez_compressed(file, x=torch.ones(2, requires_grad=True).detach())
    assert np.load(file)["x"].tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="Can't call numpy.. on Tensor that requires grad"):
        np.savez(file, x=torch.ones(2, requires_grad=True))


def test_npy_is_mapped(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "numbers.npy"
    np.save(file, torch.arange(4.0))
    mapped = torch.from_numpy(np.load(file, mmap_mode="r+"))
    mapped[0] = 9
    assert np.load(file).tolist() == [9.0, 1.0, 2.0, 3.0]
