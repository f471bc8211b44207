"""A network that learns in C: writes learn.c and answer.c, which main.c uses.

tapegrad run export.py
cc -std=c11 -O3 -march=native main.c learn.c answer.c -lm -o spiral && ./spiral
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


def learn(points, classes):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(points), classes)
    loss.backward()
    optimizer.step()
    return loss


torch.export.c(learn, (torch.randn(96, 2), torch.randint(0, 3, (96,))), "learn.c")
torch.export.c(model.eval(), (torch.randn(1, 2),), "answer.c")
