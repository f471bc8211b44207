"""All layers."""

from __future__ import annotations

from .activation import LogSoftmax, ReLU, Sigmoid, Softmax, Softmin, Tanh
from .container import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from .dropout import Dropout
from .flatten import Flatten, Unflatten
from .linear import Identity, Linear
from .loss import L1Loss, MSELoss
from .module import Module

__all__ = [
    "Dropout",
    "Flatten",
    "Identity",
    "L1Loss",
    "Linear",
    "LogSoftmax",
    "MSELoss",
    "Module",
    "ModuleDict",
    "ModuleList",
    "ParameterDict",
    "ParameterList",
    "ReLU",
    "Sequential",
    "Sigmoid",
    "Softmax",
    "Softmin",
    "Tanh",
    "Unflatten",
]
