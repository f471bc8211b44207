"""Dictionaries of tensors, and modules that read and write them."""

from show import show, train

# isort: split
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential

torch.manual_seed(0)
data = TensorDict({"x": torch.randn(4, 3), "more": {"y": torch.arange(4)}}, batch_size=[4])
print(data)
show("slice", data[1:3]["x"])
show("nested", data["more", "y"])
show("stacked", torch.stack([data, data], 0)["x"])
show("keys", sorted(data.flatten_keys(".").keys()))
model = TensorDictSequential(
    TensorDictModule(torch.nn.Linear(3, 5), in_keys=["x"], out_keys=["hidden"]),
    TensorDictModule(torch.nn.Linear(5, 1), in_keys=["hidden"], out_keys=["out"]),
)
train(model, lambda: model(data.clone())["out"].square().mean())
show("parameters", sorted(TensorDict.from_module(model).flatten_keys(".").keys()))
