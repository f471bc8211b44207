# ruff: noqa
# Seed 003: model.zero_grad() and optimizer.zero_grad() do the same; the net stands in.
import torch
import torch.nn as nn
import torch.optim as optim

net = nn.Linear(2, 1)
optimizer = optim.SGD(net.parameters(), lr=0.1)
data = torch.tensor([[1.0, 2.0]])

net(data).sum().backward()
print([p.grad is None for p in net.parameters()])
net.zero_grad()
print([p.grad is None for p in net.parameters()])
net(data).sum().backward()
optimizer.zero_grad()
print([p.grad is None for p in net.parameters()])
net(data).sum().backward()
optimizer.zero_grad(set_to_none=False)
print([p.grad.tolist() for p in net.parameters()])
