"""A controlled differential equation."""

from show import show, train

# isort: split
import torch
import torchcde


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4 * 3)

    def forward(self, t, z):
        return self.linear(z).tanh().view(*z.shape[:-1], 4, 3)


torch.manual_seed(0)
x = torch.randn(2, 6, 3)
coefficients = torchcde.hermite_cubic_coefficients_with_backward_differences(x)
path, field = torchcde.CubicSpline(coefficients), Field()
show("coefficients", coefficients)


def solve():
    return torchcde.cdeint(
        path, field, torch.ones(2, 4), path.interval, method="rk4", options={"step_size": 0.5}
    )


show("solution", solve())
train(field, lambda: solve().square().mean())
