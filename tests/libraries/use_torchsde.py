"""A stochastic differential equation."""

from show import show, train

# isort: split
import torch
import torchsde


class SDE(torch.nn.Module):
    noise_type, sde_type = "diagonal", "ito"

    def __init__(self):
        super().__init__()
        self.drift = torch.nn.Linear(3, 3)
        self.spread = torch.nn.Linear(3, 3)

    def f(self, t, y):
        return self.drift(y)

    def g(self, t, y):
        return self.spread(y).sigmoid()


torch.manual_seed(0)
sde, y, t = SDE(), torch.zeros(4, 3), torch.linspace(0, 1, 5)


def solve():
    noise = torchsde.BrownianInterval(0.0, 1.0, size=(4, 3), entropy=3)
    return torchsde.sdeint(sde, y, t, bm=noise, dt=0.1, method="euler")


show("path", solve())
train(sde, lambda: solve().square().mean())
