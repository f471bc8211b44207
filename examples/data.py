"""The data of the examples, as NumPy arrays: it ships with tapegrad, no download is needed."""

from __future__ import annotations

import importlib.resources
import pathlib

import numpy as np

SOURCES = pathlib.Path(__file__).parent.parent / "src" / "tapegrad"


def stored(name: str):
    """A file of tapegrad.datasets: of the installed package, or else of this source tree."""
    try:
        package = importlib.resources.files("tapegrad")
    except ModuleNotFoundError:
        package = SOURCES
    return package / "datasets" / name


def digits() -> tuple[np.ndarray, np.ndarray]:
    """1797 handwritten digits (UCI): images from 0 to 1, shape (1797, 8, 8), and labels."""
    with stored("digits.npz").open("rb") as file, np.load(file) as arrays:
        images = arrays["images"].reshape(-1, 8, 8).astype(np.float32) / 16
        return images, arrays["labels"].astype(np.int64)


def text() -> str:
    """Sonnets by Shakespeare, for models of text."""
    return stored("sonnets.txt").read_text(encoding="utf-8")


def show(image: np.ndarray) -> str:
    """An image from 0 to 1 as lines of text, two characters a pixel."""
    shades = " ░▒▓█"
    levels = np.clip(np.asarray(image) * len(shades), 0, len(shades) - 1).astype(int)
    return "\n".join("".join(shades[v] * 2 for v in row) for row in levels)
