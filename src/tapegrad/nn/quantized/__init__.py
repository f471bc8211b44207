"""The old name of torch.ao.nn.quantized."""

from ...ao.nn.quantized import FloatFunctional, QFunctional

__all__ = ["FloatFunctional", "QFunctional"]
