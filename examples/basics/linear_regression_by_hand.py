"""A line through points: three times the same, from gradients by hand to an optimizer.

1. the derivative worked out on paper, 2. the derivative by backward(), 3. nn and optim. All three
arrive at the same numbers, because they are the same computation.
"""

import torch

torch.manual_seed(0)
x = torch.linspace(-1, 1, 40)
y = 3 * x - 0.5 + 0.1 * torch.randn(40)
RATE, STEPS = 0.2, 100


def by_paper():
    """loss = mean((w x + b - y)^2), so d/dw = mean(2 (w x + b - y) x), d/db = mean(2 (...))."""
    w, b = torch.zeros(()), torch.zeros(())
    for _ in range(STEPS):
        error = w * x + b - y
        w = w - RATE * (2 * error * x).mean()
        b = b - RATE * (2 * error).mean()
    return w, b


def by_backward():
    w = torch.zeros((), requires_grad=True)
    b = torch.zeros((), requires_grad=True)
    for _ in range(STEPS):
        loss = ((w * x + b - y) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            w -= RATE * w.grad
            b -= RATE * b.grad
        w.grad = None
        b.grad = None
    return w, b


def by_optimizer():
    model = torch.nn.Linear(1, 1)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x[:, None])[:, 0], y)
        loss.backward()
        optimizer.step()
    return model.weight, model.bias


for way in (by_paper, by_backward, by_optimizer):
    w, b = way()
    print(f"{way.__name__:<13} w = {w.item():.4f}  b = {b.item():.4f}")
