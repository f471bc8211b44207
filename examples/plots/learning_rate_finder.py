"""How large may the learning rate be? Raise it at every step and watch the loss.

While the loss falls, the rate is not too large. A good choice is a little to the left of the
lowest point, where the loss still falls steeply.
"""

import math

import matplotlib.pyplot as plt
import torch
from picture import arguments, save
from torch import nn

args = arguments(__doc__, steps=120)
torch.manual_seed(args.seed)
LOWEST, HIGHEST = 1e-4, 10.0

x = torch.randn(512, 10)
y = (x[:, :3].sum(dim=1) > 0).long()
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=LOWEST)
factor = (HIGHEST / LOWEST) ** (1 / (args.steps - 1))
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=factor)

rates, losses, smooth = [], [], 0.0
for step in range(1, args.steps + 1):
    batch = torch.randint(0, len(x), (64,))
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
    loss.backward()
    rates.append(schedule.get_last_lr()[0])
    smooth = 0.9 * smooth + 0.1 * loss.item()
    losses.append(smooth / (1 - 0.9**step))
    if not math.isfinite(loss.item()) or losses[-1] > 4 * min(losses):
        break  # it has left for good
    optimizer.step()
    schedule.step()
best = rates[losses.index(min(losses))]
print(f"lowest loss at {best:.3g}; try {best / 10:.2g}")

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.plot(rates, losses)
axes.axvline(best / 10, linestyle="--", color="gray", label=f"try {best / 10:.2g}")
axes.set(xlabel="learning rate", ylabel="loss (smoothed)", xscale="log")
axes.legend()
save(figure, args)
