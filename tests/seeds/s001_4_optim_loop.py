# ruff: noqa
# Seed 001, snippet 6: torch.optim; the seed names no net, criterion or data, these stand in.
import torch
import torch.nn as nn

net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
with torch.no_grad():
    net[0].weight.copy_(torch.tensor([[0.5, -0.25], [1.0, 0.75]]))
    net[0].bias.copy_(torch.tensor([0.125, -0.5]))
    net[2].weight.copy_(torch.tensor([[1.0, -1.5]]))
    net[2].bias.copy_(torch.tensor([0.25]))
criterion = nn.MSELoss()
input = torch.tensor([[1.0, 2.0], [3.0, -1.0], [0.5, 0.5]])
target = torch.tensor([[1.0], [0.0], [-1.0]])
steps = 3

import torch.optim as optim
# create your optimizer
optimizer = optim.SGD(net.parameters(), lr = 0.01)

# in your training loop:
for i in range(steps):
  optimizer.zero_grad() # zero the gradient buffers，必须要置零
  output = net(input)
  loss = criterion(output, target)
  loss.backward()
  optimizer.step() # Does the update
  print("%.4f" % loss.item())
print(["%.4f" % p.sum().item() for p in net.parameters()])
