"""A UNet for volumes, a loss, a metric, and transforms."""

from show import show, train

# isort: split
import torch
from monai.losses import DiceLoss
from monai.metrics import DiceMetric
from monai.networks.nets import UNet
from monai.transforms import Compose, RandFlip, ScaleIntensity, Spacing  # noqa: F401

torch.manual_seed(0)
model = UNet(3, 1, 2, channels=(4, 8), strides=(2,), num_res_units=1)
x = torch.randn(1, 1, 16, 16, 16)
y = torch.randint(0, 2, (1, 1, 16, 16, 16))
loss = DiceLoss(to_onehot_y=True, softmax=True)
train(model, lambda: loss(model(x), y))
metric = DiceMetric(include_background=True)
guess = torch.nn.functional.one_hot(model(x).argmax(1), 2).movedim(-1, 1)
metric(guess, torch.nn.functional.one_hot(y[:, 0], 2).movedim(-1, 1))
show("dice", metric.aggregate())
show("scaled", ScaleIntensity()(x[0]))
