"""A binary classifier: a column of outputs, a row of labels."""

import tapegrad as torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
criterion = torch.nn.BCEWithLogitsLoss()
inputs = torch.randn(6, 4)
labels = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0, 0.0])
outputs = model(inputs)
loss = criterion(outputs, labels)  #: noticed
