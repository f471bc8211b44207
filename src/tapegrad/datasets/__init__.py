"""Data that ships with the package: small, real, and there without a network.

The handwritten digits are the test part of "Optical Recognition of Handwritten Digits" by
E. Alpaydin and C. Kaynak (1998), UCI Machine Learning Repository, https://doi.org/10.24432/C50P49,
licensed under CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/). The values are unchanged;
only the file format is ours.

The text is 46 of the sonnets of William Shakespeare (published 1609), in modern spelling. They are
in the public domain.
"""

from __future__ import annotations

import math
import pathlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tapegrad import Tensor

__all__ = ["digits", "moons", "spirals", "text"]


def digits() -> tuple[Tensor, Tensor]:
    """digits() -> (images, labels): 1797 handwritten digits of 8 by 8 pixels.

    images: float32, shape (1797, 64), row by row, ink from 0. (none) to 16. (full);
    labels: int64, shape (1797,), 0 to 9. Every call gives tensors of its own.

    >>> images, labels = tapegrad.datasets.digits()
    >>> images.shape, labels[:5]
    (torch.Size([1797, 64]), tensor([0, 1, 2, 3, 4]))
    """
    import numpy

    import tapegrad

    with numpy.load(pathlib.Path(__file__).with_name("digits.npz")) as stored:
        images = stored["images"].astype(numpy.float32, order="C")
        labels = stored["labels"].astype(numpy.int64)
    return tapegrad.from_numpy(images), tapegrad.from_numpy(labels)


def moons(n: int = 200, noise: float = 0.1, seed: int = 0) -> tuple[Tensor, Tensor]:
    """moons(n=200, noise=0.1, seed=0) -> (points, labels): two half circles that interlock.

    points: float32, shape (n, 2); labels: int64, shape (n,), 0 for the upper half circle and 1 for
    the lower one. The same seed gives the same points; the random numbers of torch stay as they
    are.

    >>> points, labels = tapegrad.datasets.moons(4, noise=0.0)
    >>> sorted(labels.tolist()), points.shape
    ([0, 0, 1, 1], torch.Size([4, 2]))
    """
    import tapegrad as tg

    check_count(n)
    upper = n - n // 2
    a, b = tg.linspace(0, math.pi, upper), tg.linspace(0, math.pi, n // 2)
    first = tg.stack([a.cos(), a.sin()], 1)
    second = tg.stack([1 - b.cos(), 0.5 - b.sin()], 1)
    return scattered([first, second], noise, seed)


def spirals(
    n: int = 200, classes: int = 2, noise: float = 0.05, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """spirals(n=200, classes=2, noise=0.05, seed=0) -> (points, labels): arms around the origin.

    points: float32, shape (n, 2), within 1 of the origin but for the noise; labels: int64, shape
    (n,), one per arm. The same seed gives the same points.

    >>> points, labels = tapegrad.datasets.spirals(90, classes=3)
    >>> labels.bincount()
    tensor([30, 30, 30])
    """
    import tapegrad as tg

    check_count(n)
    if classes < 1:
        raise ValueError(f"there must be at least one class, but got {classes}")
    arms = []
    for arm in range(classes):
        radius = tg.linspace(0, 1, n // classes + (arm < n % classes))
        angle = 1.5 * math.pi * radius + 2 * math.pi * arm / classes
        arms.append(tg.stack([radius * angle.cos(), radius * angle.sin()], 1))
    return scattered(arms, noise, seed)


def check_count(n: int) -> None:
    if n < 0:
        raise ValueError(f"the number of points must not be negative, but got {n}")


def scattered(parts: list[Tensor], noise: float, seed: int) -> tuple[Tensor, Tensor]:
    """The points of all classes, with noise, in random order."""
    import tapegrad as tg

    generator = tg.Generator().manual_seed(seed)
    points = tg.cat(parts)
    labels = tg.cat([tg.full((len(p),), i, dtype=tg.int64) for i, p in enumerate(parts)])
    points = points + noise * tg.randn(points.shape, generator=generator)
    order = tg.randperm(len(labels), generator=generator)
    return points[order], labels[order]


def text() -> str:
    """text() -> str: 28 KB of verse for models of characters.

    >>> tapegrad.datasets.text().splitlines()[0]
    'From fairest creatures we desire increase,'
    """
    return pathlib.Path(__file__).with_name("sonnets.txt").read_text(encoding="ascii")
