"""A physics-informed network: a differential equation as the loss.

A swinging pendulum loses energy: u'' + 2 d u' + w² u = 0, with u(0) = 1 and u'(0) = 0. A network
u(t) is trained without any data, only to satisfy the equation and the two starting values. The
derivatives come from autograd.grad(create_graph=True), so the loss can be differentiated again.
The optimizer is L-BFGS. At the end the network is compared with the exact solution.
"""

import math

import torch
from torch import nn

from progress import Progress, arguments

DAMPING, FREQUENCY, END = 0.5, 4.0, 3.0


def derivative(y, t):
    return torch.autograd.grad(y, t, grad_outputs=torch.ones_like(y), create_graph=True)[0]


def exact(t):
    swing = math.sqrt(FREQUENCY**2 - DAMPING**2)
    wave = torch.cos(swing * t) + DAMPING / swing * torch.sin(swing * t)
    return torch.exp(-DAMPING * t) * wave


args = arguments(__doc__, steps=100)
torch.manual_seed(args.seed)
torch.set_default_dtype(torch.float64)

model = nn.Sequential(
    nn.Linear(1, 32),
    nn.Tanh(),
    nn.Linear(32, 32),
    nn.Tanh(),
    nn.Linear(32, 1),
)
optimizer = torch.optim.LBFGS(
    model.parameters(), max_iter=10, history_size=50, line_search_fn="strong_wolfe"
)
times = torch.linspace(0, END, 64).view(-1, 1).requires_grad_()


def closure():
    """How far the network is from a solution. LBFGS asks several times in one step."""
    u = model(times)
    velocity = derivative(u, times)
    acceleration = derivative(velocity, times)
    residual = acceleration + 2 * DAMPING * velocity + FREQUENCY**2 * u
    start = torch.cat([u[0] - 1, velocity[0]])
    loss = residual.square().mean() + 10 * start.square().mean()

    optimizer.zero_grad()
    loss.backward()
    return loss


progress = Progress(args)
for _ in progress:
    loss = optimizer.step(closure)
    progress.log(loss.item())

with torch.no_grad():
    t = torch.linspace(0, END, 13).view(-1, 1)
    found, wanted = model(t), exact(t)
print("   t   network   exact")
for row in torch.cat([t, found, wanted], dim=1).tolist():
    print("{:4.2f}  {:8.4f}{:8.4f}".format(*row))
print(f"largest error: {(found - wanted).abs().max().item():.1e}")
