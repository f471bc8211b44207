"""What a classifier has learned, as a map: two half moons and the line between them.

The network is asked at every point of a grid, under no_grad(): a picture needs no gradients.
"""

import math

import matplotlib.pyplot as plt
import torch
from picture import arguments, save
from torch import nn

args = arguments(__doc__, steps=300)
torch.manual_seed(args.seed)

angle = math.pi * torch.rand(200)
upper = torch.stack([angle.cos(), angle.sin()], dim=1)
lower = torch.stack([1 - angle.cos(), 0.5 - angle.sin()], dim=1)
points = torch.cat([upper, lower]) + 0.1 * torch.randn(400, 2)
labels = torch.cat([torch.zeros(200), torch.ones(200)])

model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for _ in range(args.steps):
    optimizer.zero_grad()
    loss = nn.functional.binary_cross_entropy_with_logits(model(points).squeeze(1), labels)
    loss.backward()
    optimizer.step()
right = ((model(points).squeeze(1) > 0) == (labels > 0.5)).float().mean().item()
print(f"loss {loss.item():.4f}, {right:.1%} right")

across, up = torch.linspace(-1.5, 2.5, 160), torch.linspace(-1.2, 1.7, 120)
grid = torch.cartesian_prod(up, across).flip(1)
with torch.no_grad():
    chance = model(grid).sigmoid().reshape(120, 160)

figure, axes = plt.subplots(figsize=(6, 4.5), layout="constrained")
axes.contourf(across.numpy(), up.numpy(), chance.numpy(), levels=20, cmap="RdBu_r", alpha=0.7)
axes.contour(across.numpy(), up.numpy(), chance.numpy(), levels=[0.5], colors="black")
axes.scatter(*points.T.numpy(), c=labels.numpy(), cmap="RdBu_r", edgecolors="white", s=18)
axes.set(title=f"{right:.1%} right")
save(figure, args)
