"""A neural ODE, with and without the adjoint."""

from show import show, train

# isort: split
import torch
from torchdiffeq import odeint, odeint_adjoint


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2)
        )

    def forward(self, t, y):
        return self.net(y)


torch.manual_seed(0)
field, y, t = Field(), torch.randn(4, 2), torch.linspace(0, 1, 5)
for method in ("dopri5", "rk4", "euler"):
    show(method, odeint(field, y, t, method=method))
train(field, lambda: odeint_adjoint(field, y, t).square().mean())
