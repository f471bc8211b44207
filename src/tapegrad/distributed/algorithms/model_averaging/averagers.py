"""The average of a model's parameters over ranks, every so many steps."""

from __future__ import annotations

import abc
from collections.abc import Iterable
from typing import Any

from ..._groups import default_group
from . import utils

__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager(abc.ABC):
    """Something that averages models and counts steps."""

    def __init__(self, process_group: Any = None) -> None:
        self.process_group = process_group or default_group()
        self.step = 0

    @abc.abstractmethod
    def average_parameters(self, params: Any) -> None:
        """Average them, if it is time."""


class PeriodicModelAverager(ModelAverager):
    """After `warmup_steps`, in every step whose number `period` divides."""

    def __init__(self, period: int, warmup_steps: int = 0, process_group: Any = None) -> None:
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        if period < 1:
            raise ValueError("Arg ``period`` must be a positive value.")
        self.warmup_steps, self.period = warmup_steps, period

    def average_parameters(self, params: Iterable[Any]) -> None:
        now = self.step - self.warmup_steps
        if now >= 0 and now % self.period == 0:
            utils.average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1
