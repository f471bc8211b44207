"""Filters, colours, geometry and augmentation."""

from show import show

# isort: split
import kornia
import torch

torch.manual_seed(0)
image = torch.rand(2, 3, 24, 24)
show("blur", kornia.filters.gaussian_blur2d(image, (3, 3), (1.0, 1.0)))
show("sobel", kornia.filters.sobel(image))
show("lab", kornia.color.rgb_to_lab(image))
show("hsv", kornia.color.rgb_to_hsv(image))
show("rotated", kornia.geometry.rotate(image, torch.tensor([20.0, 40.0])))
show("pyramid", kornia.geometry.pyrdown(image))
show("ssim", kornia.metrics.ssim(image, image.flip(0), 5))
augment = kornia.augmentation.AugmentationSequential(
    kornia.augmentation.RandomHorizontalFlip(p=0.5),
    kornia.augmentation.RandomAffine(20.0, p=1.0),
    data_keys=["input"],
)
show("augmented", augment(image))
