"""FloatFunctional: functions as a module, so that a converter could replace them."""

from __future__ import annotations

from typing import Any

import tapegrad as tg
from tapegrad.errors.absent import absent_class
from tapegrad.nn import Identity, Module

__all__ = ["FloatFunctional", "QFunctional"]


class FloatFunctional(Module):
    """Sums and products in floating point, each followed by a place for an observer."""

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process = Identity()

    def forward(self, x: Any) -> Any:
        raise RuntimeError(
            "FloatFunctional is not intended to use the 'forward'. Please use the underlying "
            "operation"
        )

    def add(self, x: Any, y: Any) -> Any:
        return self.activation_post_process(tg.add(x, y))

    def add_scalar(self, x: Any, y: float) -> Any:
        return tg.add(x, y)

    def mul(self, x: Any, y: Any) -> Any:
        return self.activation_post_process(tg.mul(x, y))

    def mul_scalar(self, x: Any, y: float) -> Any:
        return tg.mul(x, y)

    def cat(self, x: list[Any], dim: int = 0) -> Any:
        return self.activation_post_process(tg.cat(x, dim=dim))

    def add_relu(self, x: Any, y: Any) -> Any:
        return self.activation_post_process(tg.nn.functional.relu(tg.add(x, y)))

    def matmul(self, x: Any, y: Any) -> Any:
        return self.activation_post_process(tg.matmul(x, y))


QFunctional = absent_class("torch.ao.nn.quantized.QFunctional", "use FloatFunctional", Module)
