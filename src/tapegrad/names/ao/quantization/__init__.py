"""Quantization: stubs that pass values on, and names whose use says that it is not here."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from tapegrad.errors.absent import absent_class, absent_function
from tapegrad.nn import Module

INSTEAD = "train and run in float32, bfloat16 or float16"


class QuantStub(Module):
    """Where values would be quantized; passes them on."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Any) -> Any:
        return x


class DeQuantStub(QuantStub):
    """Where values would become floating point again; passes them on."""


class QuantWrapper(Module):
    """A module between the two stubs."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        self.quant, self.dequant, self.module = QuantStub(), DeQuantStub(), module
        self.train(module.training)

    def forward(self, X: Any) -> Any:
        return self.dequant(self.module(self.quant(X)))


QConfig = namedtuple("QConfig", ["activation", "weight"])

ObserverBase = absent_class("torch.ao.quantization.ObserverBase", INSTEAD, Module)
FakeQuantizeBase = absent_class("torch.ao.quantization.FakeQuantizeBase", INSTEAD, Module)
FakeQuantize = absent_class("torch.ao.quantization.FakeQuantize", INSTEAD, FakeQuantizeBase)
MinMaxObserver = absent_class("torch.ao.quantization.MinMaxObserver", INSTEAD, ObserverBase)
HistogramObserver = absent_class("torch.ao.quantization.HistogramObserver", INSTEAD, ObserverBase)

NAMES = """
    convert default_observer default_per_channel_weight_observer default_weight_observer
    fuse_modules fuse_modules_qat get_default_qat_qconfig get_default_qconfig prepare prepare_qat
    propagate_qconfig_ quantize quantize_dynamic swap_module
""".split()
globals().update(
    {name: absent_function(f"torch.ao.quantization.{name}", INSTEAD) for name in NAMES}
)
