"""Parallelism over sequences: names only."""

from ....errors.absent import absent_function
from .. import INSTEAD

NAME = "torch.distributed.tensor.experimental."
context_parallel = absent_function(NAME + "context_parallel", INSTEAD)
implicit_replication = absent_function(NAME + "implicit_replication", INSTEAD)

__all__ = ["context_parallel", "implicit_replication"]
