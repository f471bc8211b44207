"""The error of a device other than the CPU."""

from __future__ import annotations


class AcceleratorError(RuntimeError):
    """An error of a device other than the CPU.

    >>> issubclass(torch.AcceleratorError, RuntimeError)
    True
    """
