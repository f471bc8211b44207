"""Training programs unlike each other, written once for PyTorch and tapegrad: `zoo.PROGRAMS`."""

from . import control, generative, language, practice, structures, vision
from .registry import PROGRAMS

__all__ = ["PROGRAMS", "control", "generative", "language", "practice", "structures", "vision"]
