"""Tensors without values, as far as asking goes: `device="meta"` has them."""

from .fake_tensor import FakeTensor, FakeTensorMode

__all__ = ["FakeTensor", "FakeTensorMode"]
