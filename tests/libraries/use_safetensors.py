"""Save and load, as tensors and as NumPy arrays."""

from show import show

# isort: split
import os
import tempfile

import torch
from safetensors import numpy as sn
from safetensors import safe_open
from safetensors import torch as st

torch.manual_seed(0)
state = {
    "a": torch.randn(3, 4),
    "b": torch.arange(5),
    "c": torch.randn(2, 2).to(torch.bfloat16),
    "d": torch.randn(2).half(),
}
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "x.safetensors")
    st.save_file(state, path, metadata={"format": "pt"})
    back = st.load_file(path)
    for name, value in back.items():
        show(name, value)
        show("same", bool(torch.equal(value, state[name])))
    with safe_open(path, framework="pt") as file:
        show("keys", sorted(file.keys()))
        show("slice", file.get_slice("a")[1:, :2])
        show("metadata", file.metadata())
    model = torch.nn.Linear(3, 2)
    st.save_model(model, path)
    other = torch.nn.Linear(3, 2)
    st.load_model(other, path)
    show("weight", other.weight)
    show("bytes", len(st.save({"a": state["a"]})))
    show("loaded", st.load(st.save({"a": state["a"]}))["a"])
    sn.save_file({"a": state["a"].numpy()}, path)
    show("numpy", float(sn.load_file(path)["a"].sum()))
