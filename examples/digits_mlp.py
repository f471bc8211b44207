"""A multilayer perceptron that reads handwritten digits.

The classic first program: a Dataset and a DataLoader, two linear layers, cross-entropy, Adam,
and the accuracy on images that the network has not seen.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from data import digits
from progress import Progress, arguments

args = arguments(__doc__, steps=1000)
torch.manual_seed(args.seed)

images, labels = map(torch.from_numpy, digits())
order = torch.randperm(len(images))
images, labels = images[order], labels[order]
train = TensorDataset(images[:1500], labels[:1500])
test_images, test_labels = images[1500:], labels[1500:]
loader = DataLoader(train, batch_size=64, shuffle=True)

model = nn.Sequential(
    nn.Flatten(),
    nn.Linear(64, 128),
    nn.ReLU(),
    nn.Linear(128, 10),
)
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)


def endless(loader):
    """Batches for as long as they are asked for: one epoch after the other."""
    while True:
        yield from loader


batches = endless(loader)
progress = Progress(args)
for _ in progress:
    x, y = next(batches)
    loss = loss_fn(model(x), y)

    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    progress.log(loss.item())

model.eval()
with torch.no_grad():
    guesses = model(test_images).argmax(dim=1)
right = (guesses == test_labels).float().mean().item()
print(f"accuracy on {len(test_labels)} unseen digits: {right:.1%}")
