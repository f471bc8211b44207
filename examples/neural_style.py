"""Neural style: train an image, not a network.

The Gram matrix of a layer's features says which of them occur together, wherever they are: the
style of a picture. An image that starts as a handwritten digit is changed by gradient descent
until the Gram matrices of its features are those of a striped pattern, while the features of a
deep layer keep it a digit. The network is random and stays so; only the pixels require a gradient.
"""

import torch
import torch.nn.functional as F
from torch import nn

from data import digits, show
from progress import Progress, arguments

SIZE = 24


class Clip(torch.autograd.Function):
    """Keep pixels in [0, 1]; a pixel outside still feels a gradient that would bring it back."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(0, 1)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        outwards = ((x < 0) & (grad > 0)) | ((x > 1) & (grad < 0))
        return grad.masked_fill(outwards, 0)


def gram(features):
    """How strongly each pair of channels occurs together, averaged over the places."""
    flat = features.flatten(2)
    return flat @ flat.transpose(1, 2) / flat.shape[2]


def distance(found, wanted):
    return F.mse_loss(found, wanted) / wanted.square().mean()


def stripes(size):
    y, x = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    return (0.5 + 0.5 * torch.sin((x + y) * 1.2)).view(1, 1, size, size)


args = arguments(__doc__, steps=200)
torch.manual_seed(args.seed)

layers = nn.ModuleList(
    [
        nn.Sequential(nn.Conv2d(1, 24, kernel_size=5, padding=2), nn.ReLU()),
        nn.Sequential(nn.AvgPool2d(2), nn.Conv2d(24, 32, kernel_size=3, padding=1), nn.ReLU()),
    ]
).requires_grad_(False)


def features(image):
    found = []
    for layer in layers:
        image = layer(image)
        found.append(image)
    return found


digit = torch.from_numpy(digits()[0][3]).view(1, 1, 8, 8)
content = F.interpolate(digit, size=(SIZE, SIZE), mode="bilinear", align_corners=False)
style = stripes(SIZE)
wanted_grams = [gram(f) for f in features(style)]
wanted_content = features(content)[-1]

image = content.clone().requires_grad_()
optimizer = torch.optim.Adam([image], lr=0.02)

progress = Progress(args)
for _ in progress:
    found = features(Clip.apply(image))
    style_loss = sum(distance(gram(f), g) for f, g in zip(found, wanted_grams, strict=True))
    content_loss = distance(found[-1], wanted_content)
    loss = style_loss + 0.1 * content_loss

    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    progress.log(loss.item(), style=style_loss.item(), content=content_loss.item())

final = Clip.apply(image.detach())
print(show(final[0, 0].numpy()))
curves = progress.curves
print(f"distance from the style: {curves['style'][0]:.4f} -> {curves['style'][-1]:.4f}")
