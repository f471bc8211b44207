"""The losses of four optimizers on one problem, side by side.

The same network, the same data, the same first weights; only the optimizer differs.
"""

import matplotlib.pyplot as plt
import torch
from picture import arguments, save
from torch import nn

args = arguments(__doc__, steps=200)
OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "SGD, momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01),
}

torch.manual_seed(args.seed)
x = torch.linspace(-3, 3, 128).unsqueeze(1)
y = torch.sin(2 * x)

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for name, make in OPTIMIZERS.items():
    torch.manual_seed(args.seed)  # the same first weights for each
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = make(model.parameters())
    losses = []
    for _ in range(args.steps):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())  # a number: a tensor would keep its graph alive
    axes.plot(losses, label=name)
    print(f"{name:<14} {losses[0]:.4f} -> {losses[-1]:.4f}")
axes.set(xlabel="step", ylabel="loss", yscale="log", title="Four optimizers")
axes.legend()
save(figure, args)
