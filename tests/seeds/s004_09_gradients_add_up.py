# ruff: noqa
# Seed 004: the dummy training loop whose gradients add up to 3, 6, 9.
import torch

weights = torch.ones(4, requires_grad=True)
for epoch in range(3):
    model_output = (weights * 3).sum()
    model_output.backward()
    print(weights.grad)
