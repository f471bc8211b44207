"""Fake tensors: there are none, tensors on the meta device say what a shape would be."""

from tapegrad.api.tensor.tensor import Tensor
from tapegrad.errors.absent import absent_class

INSTEAD = "run on device='meta', which computes shapes and dtypes only"

FakeTensor = absent_class("torch._subclasses.fake_tensor.FakeTensor", INSTEAD, Tensor)
FakeTensorMode = absent_class("torch._subclasses.fake_tensor.FakeTensorMode", INSTEAD)


def is_fake(x: object) -> bool:
    """Whether something is a fake tensor: never."""
    return False
