"""The old name of `torch.distributed.tensor.placement_types`."""

from ..tensor.placement_types import *  # noqa: F403
