"""Gradients of your own: a network with binary weights, through a straight-through estimator.

The sign of a number has no useful derivative: it is zero everywhere. A torch.autograd.Function
says what to send back instead: the gradient as it came, where the number is still between -1 and
1. With it, a network learns digits although every hidden weight it computes with is -1 or +1.
"""

import torch
import torch.nn.functional as F
from torch import nn

from data import digits
from progress import Progress, arguments


class Binarize(torch.autograd.Function):
    """Forward: -1 or +1. Backward: the identity, cut off outside of [-1, 1]."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1.0, -1.0)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.abs() <= 1)


class BinaryLinear(nn.Linear):
    """A linear layer that keeps real weights to train, and computes with their signs."""

    def forward(self, x):
        return F.linear(x, Binarize.apply(self.weight), self.bias) / self.in_features**0.5


args = arguments(__doc__, steps=800)
torch.manual_seed(args.seed)

images, labels = map(torch.from_numpy, digits())
order = torch.randperm(len(images))
images, labels = images[order], labels[order]
images = images.flatten(1)

model = nn.Sequential(
    BinaryLinear(64, 256),
    nn.BatchNorm1d(256),
    nn.Tanh(),
    BinaryLinear(256, 10),
)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

progress = Progress(args)
for _ in progress:
    batch = torch.randint(1500, (64,))
    loss = F.cross_entropy(model(images[batch]), labels[batch])

    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    progress.log(loss.item())

model.eval()
with torch.no_grad():
    right = (model(images[1500:]).argmax(dim=1) == labels[1500:]).float().mean().item()
bits = sum(layer.weight.numel() for layer in model if isinstance(layer, BinaryLinear))
print(f"accuracy on {len(labels) - 1500} unseen digits: {right:.1%}, {bits} weights of one bit")
