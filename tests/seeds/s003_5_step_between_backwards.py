# ruff: noqa
# Seed 003, its last text: step() moves the parameters, so the same loss cannot go back again.
import torch
import torch.optim as optim

p0 = torch.tensor([1.0, 2.0], requires_grad=True)
optimizer = optim.SGD([p0], lr=0.1)
loss = (p0 * p0).sum()
loss.backward(retain_graph=True)
optimizer.step()
print(p0)
loss.backward()
