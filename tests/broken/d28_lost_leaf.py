"""D28: an update that makes a new tensor and gives it the name of the leaf."""

import warnings

import torch

warnings.simplefilter("ignore", UserWarning)  # which tells the same, where .grad is read
torch.manual_seed(0)
x, y = torch.randn(32, 4), torch.randn(32)
w = torch.zeros(4, requires_grad=True)

for _ in range(5):
    loss = ((x @ w - y) ** 2).mean()
    loss.backward()
    if w.grad is not None:
        w = w - 0.1 * w.grad  # fault
