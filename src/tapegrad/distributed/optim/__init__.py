"""Optimizers of several processes, as far as libraries import them."""

from ..._absent import absent_class
from ...optim import Optimizer

ZeroRedundancyOptimizer = absent_class(
    "torch.distributed.optim.ZeroRedundancyOptimizer",
    "give every process an ordinary optimizer",
    Optimizer,
)
