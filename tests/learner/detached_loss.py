"""A loss put together from numbers that have left the graph."""

import tapegrad as torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
losses = []
for batch in torch.randn(3, 5, 4):
    out = model(batch)
    losses.append(out.pow(2).mean().detach())  #: cut
total = torch.stack(losses).sum()
total.backward()  #: noticed
