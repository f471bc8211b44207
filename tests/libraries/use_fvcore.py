"""Floating point operations, counted on a traced graph."""

from show import show

# isort: split
import logging

import torch
from fvcore.nn import FlopCountAnalysis, parameter_count

logging.disable(logging.CRITICAL)
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 10)
)
found = FlopCountAnalysis(model, torch.randn(2, 3, 8, 8))
show("total", int(found.total()))
show("modules", {k: int(v) for k, v in found.by_module().items()})
show("parameters", dict(parameter_count(model)))
