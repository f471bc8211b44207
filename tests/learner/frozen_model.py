"""Fine-tuning: everything was frozen, the new head too."""

import tapegrad as torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
model[2] = torch.nn.Linear(8, 3)
for parameter in model.parameters():
    parameter.requires_grad = False
loss = torch.nn.functional.cross_entropy(model(torch.randn(5, 4)), torch.tensor([0, 1, 2, 0, 1]))
loss.backward()  #: noticed
