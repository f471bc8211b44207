"""A recurrent network whose hidden state is carried from batch to batch."""

import tapegrad as torch

torch.manual_seed(0)
cell = torch.nn.RNNCell(2, 4)
head = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
h = torch.zeros(3, 4)
for _ in range(3):
    x, target = torch.randn(3, 2), torch.randn(3, 1)
    h = cell(x, h)  #: made reused
    loss = torch.nn.functional.mse_loss(head(h), target)
    optimizer.zero_grad()
    loss.backward()  #: freed noticed
    optimizer.step()
