"""Class labels that were read as floats."""

import tapegrad as torch

torch.manual_seed(0)
rows = [[0.1, 0.2, 0], [0.3, 0.4, 1], [0.5, 0.6, 2]]
table = torch.tensor(rows)
inputs, labels = table[:, :2], table[:, 2]
model = torch.nn.Linear(2, 3)
scores = model(inputs)
loss = torch.nn.CrossEntropyLoss()(scores, labels)  #: noticed
