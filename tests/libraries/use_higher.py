"""A step of learning, differentiated."""

from show import show

# isort: split
import higher
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(10, 3), torch.randn(10, 1)
with higher.innerloop_ctx(model, optimizer, copy_initial_weights=False) as (inner, steps):
    for _ in range(3):
        steps.step(torch.nn.functional.mse_loss(inner(x), y))
    outer = torch.nn.functional.mse_loss(inner(x), y)
    outer.backward()
show("outer", outer)
show("gradient", model[0].weight.grad)
