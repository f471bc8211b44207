"""The graph of a loss, in Graphviz's language."""

import re

import torch
from torchviz import make_dot

model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
loss = model(torch.ones(2, 3)).mean()
text = make_dot(loss, params=dict(model.named_parameters())).source
numbers = {}
for name in re.findall(r"\b\d{9,}\b", text):
    numbers.setdefault(name, f"n{len(numbers)}")
print(re.sub(r"\b\d{9,}\b", lambda m: numbers[m[0]], text))
