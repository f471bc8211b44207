"""The summary of a model."""

from show import show

# isort: split
import torch
from torchinfo import summary

model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 10)
)
found = summary(model, (2, 3, 8, 8), verbose=0)
print(found)
show("parameters", found.total_params)
show("products", found.total_mult_adds)
