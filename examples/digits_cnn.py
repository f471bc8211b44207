"""A small convolutional network that reads handwritten digits.

Convolution, batch normalisation, pooling and dropout; SGD with momentum, and a learning rate that
rises and falls once (OneCycleLR). model.train() and model.eval() switch dropout and batch norm.
"""

import torch
from torch import nn

from data import digits
from progress import Progress, arguments


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, kernel_size=3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, kernel_size=3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.dropout = nn.Dropout(0.25)
        self.head = nn.Linear(32 * 2 * 2, 10)

    def forward(self, x):
        x = self.features(x).flatten(1)
        return self.head(self.dropout(x))


args = arguments(__doc__, steps=400)
torch.manual_seed(args.seed)

images, labels = map(torch.from_numpy, digits())
order = torch.randperm(len(images))
images, labels = images[order], labels[order]
images = images.unsqueeze(1)  # one channel: (N, 1, 8, 8)

model = Net()
loss_fn = nn.CrossEntropyLoss(label_smoothing=0.1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=args.steps)

model.train()
progress = Progress(args)
for _ in progress:
    batch = torch.randint(1500, (64,))
    loss = loss_fn(model(images[batch]), labels[batch])

    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    progress.log(loss.item())

model.eval()
with torch.no_grad():
    guesses = model(images[1500:]).argmax(dim=1)
right = (guesses == labels[1500:]).float().mean().item()
print(f"accuracy on {len(guesses)} unseen digits: {right:.1%}")
