"""Data that ships with the package: small, real, and there without a network.

The handwritten digits are the test part of "Optical Recognition of Handwritten Digits" by
E. Alpaydin and C. Kaynak (1998), UCI Machine Learning Repository, https://doi.org/10.24432/C50P49,
licensed under CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/). The values are unchanged;
only the file format is ours.
"""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tapegrad import Tensor

__all__ = ["digits"]


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
        images = stored["images"].astype(numpy.float32)
        labels = stored["labels"].astype(numpy.int64)
    return tapegrad.from_numpy(images), tapegrad.from_numpy(labels)
