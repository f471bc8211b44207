"""A network that learns on a microcontroller: writes sense.c and told.c, which main.c uses.

tapegrad run export.py
arm-none-eabi-gcc -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16 -std=c11 -O2 \
    -ffp-contract=off -fno-math-errno --specs=rdimon.specs main.c sense.c told.c -lm -o sense.elf
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def sense(samples, kinds):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(samples), kinds)
    loss.backward()
    optimizer.step()
    return loss


sizes = torch.export.c(sense, (torch.randn(6, 16), torch.randint(0, 3, (6,))), "sense.c")
print(f"sense.c: an arena of {sizes['arena']} bytes, {sizes['planned']} of them planned")
torch.export.c(model.eval(), (torch.randn(1, 16),), "told.c")
