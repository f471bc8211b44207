"""The old name of torch.ao.quantization."""

from ..ao.quantization import *  # noqa: F403
