"""Schedules by formula: each learning rate follows from the one before and the epoch."""

from __future__ import annotations

import math
import types
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ...kernels.portable.functions import NUMBERS
from .base import LRScheduler, values_of, warn_outside_step, without

Factor = Callable[[int], float]


class _StepByStep(LRScheduler):
    """Learning rates that follow from the ones before."""

    def get_lr(self) -> list[Any]:
        """The learning rates of epoch `last_epoch`."""
        warn_outside_step(self)
        return self._after(values_of(self.optimizer, "lr"))

    def _after(self, rates: list[Any]) -> list[Any]:
        raise NotImplementedError


class _WithLambdas(LRScheduler):
    """A schedule of the user's: one function of the epoch for all groups, or a list of them."""

    def __init__(self, optimizer: Any, lr_lambda: Factor | list[Factor], last_epoch: int = -1):
        self.optimizer = optimizer
        count = len(optimizer.param_groups)
        if not isinstance(lr_lambda, (list, tuple)):
            self.lr_lambdas = [lr_lambda] * count
        elif len(lr_lambda) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(lr_lambda)}")
        else:
            self.lr_lambdas = list(lr_lambda)
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """The state; of the functions only what objects among them keep in their attributes."""
        state = without(self.__dict__, ("optimizer", "lr_lambdas"))
        state["lr_lambdas"] = [
            None if isinstance(f, types.FunctionType) else f.__dict__.copy()
            for f in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state; functions stay as they are."""
        self.__dict__.update(without(state_dict, ("lr_lambdas",)))
        for f, kept in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if kept is not None:
                f.__dict__.update(kept)


class LambdaLR(_WithLambdas):
    """The initial learning rate times a function of the epoch.

    >>> optimizer = optim.SGD([nn.Parameter(tensor([1.0]))], lr=0.5)
    >>> scheduler = optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def get_lr(self) -> list[Any]:
        """The learning rates of epoch `last_epoch`."""
        warn_outside_step(self)
        pairs = zip(self.lr_lambdas, self.base_lrs, strict=True)
        return [base * f(self.last_epoch) for f, base in pairs]


class MultiplicativeLR(_WithLambdas, _StepByStep):
    """The last learning rate times a function of the epoch.

    >>> optimizer = optim.SGD([nn.Parameter(tensor([1.0]))], lr=0.5)
    >>> scheduler = optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(self, optimizer: Any, lr_lambda: Any, last_epoch: int = -1) -> None:
        for each in lr_lambda if isinstance(lr_lambda, (list, tuple)) else [lr_lambda]:
            if not callable(each):
                raise TypeError(f"lr_lambda should be a function, but got {type(each).__name__}")
        super().__init__(optimizer, lr_lambda, last_epoch)

    def _after(self, rates: list[Any]) -> list[Any]:
        if self._is_initial:
            return rates
        pairs = zip(self.lr_lambdas, rates, strict=True)
        return [lr * f(self.last_epoch) for f, lr in pairs]


class StepLR(_StepByStep):
    """Times `gamma` every `step_size` epochs.

    >>> optimizer = optim.SGD([nn.Parameter(tensor([1.0]))], lr=0.5)
    >>> scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(self, optimizer: Any, step_size: int, gamma: float = 0.1, last_epoch: int = -1):
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _after(self, rates: list[Any]) -> list[Any]:
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return rates
        return [lr * self.gamma for lr in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        return [
            base * NUMBERS.power(self.gamma, self.last_epoch // self.step_size)
            for base in self.base_lrs
        ]


class MultiStepLR(_StepByStep):
    """Times `gamma` at the epochs named in `milestones`.

    >>> optimizer = optim.SGD([nn.Parameter(tensor([1.0]))], lr=0.5)
    >>> scheduler = optim.lr_scheduler.MultiStepLR(optimizer, [1, 5], gamma=0.5)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(
        self, optimizer: Any, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ):
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _after(self, rates: list[Any]) -> list[Any]:
        if self.last_epoch not in self.milestones:
            return rates
        return [lr * NUMBERS.power(self.gamma, self.milestones[self.last_epoch]) for lr in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * NUMBERS.power(self.gamma, passed) for base in self.base_lrs]


class ConstantLR(_StepByStep):
    """Times `factor` until `total_iters` epochs have passed.

    >>> optimizer = optim.SGD([nn.Parameter(tensor([1.0]))], lr=0.5)
    >>> optim.lr_scheduler.ConstantLR(optimizer, factor=0.5).get_last_lr()
    [0.25]
    """

    def __init__(
        self,
        optimizer: Any,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ):
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _after(self, rates: list[Any]) -> list[Any]:
        if self.last_epoch == 0:
            return [lr * self.factor for lr in rates]
        if self.last_epoch != self.total_iters:
            return rates
        return [lr * (1.0 / self.factor) for lr in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        over = self.last_epoch >= self.total_iters
        return [base * (self.factor + over * (1 - self.factor)) for base in self.base_lrs]


class LinearLR(_StepByStep):
    """A factor that goes from one value to another in `total_iters` epochs, and stays there.

    >>> optimizer = optim.SGD([nn.Parameter(tensor([1.0]))], lr=0.5)
    >>> optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5).get_last_lr()
    [0.25]
    """

    def __init__(
        self,
        optimizer: Any,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ):
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal "
                "to 1."
            )
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _after(self, rates: list[Any]) -> list[Any]:
        if self.last_epoch == 0:
            return [lr * self.start_factor for lr in rates]
        if self._is_initial or self.last_epoch > self.total_iters:
            return rates
        rise = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * rise
        return [lr * (1.0 + rise / before) for lr in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        rise = self.end_factor - self.start_factor
        done = min(self.total_iters, self.last_epoch)
        return [
            base * (self.start_factor + rise * done / self.total_iters) for base in self.base_lrs
        ]


class ExponentialLR(_StepByStep):
    """Times `gamma` every epoch.

    >>> optimizer = optim.SGD([nn.Parameter(tensor([1.0]))], lr=0.5)
    >>> scheduler = optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(self, optimizer: Any, gamma: float, last_epoch: int = -1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _after(self, rates: list[Any]) -> list[Any]:
        return rates if self._is_initial else [lr * self.gamma for lr in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(_StepByStep):
    """Down to zero in `total_iters` epochs, as a power of what is left of them.

    >>> optimizer = optim.SGD([nn.Parameter(tensor([1.0]))], lr=0.5)
    >>> scheduler = optim.lr_scheduler.PolynomialLR(optimizer, total_iters=2)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(
        self, optimizer: Any, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ):
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def _after(self, rates: list[Any]) -> list[Any]:
        if self._is_initial or self.last_epoch > self.total_iters:
            return rates
        left = 1.0 - self.last_epoch / self.total_iters
        left_before = 1.0 - (self.last_epoch - 1) / self.total_iters
        return [lr * NUMBERS.power(left / left_before, self.power) for lr in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]


class CosineAnnealingLR(_StepByStep):
    """Half a wave down to `eta_min` in `T_max` epochs, then up again.

    >>> optimizer = optim.SGD([nn.Parameter(tensor([1.0]))], lr=0.5)
    >>> scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(self, optimizer: Any, T_max: int, eta_min: float = 0.0, last_epoch: int = -1):
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def _after(self, rates: list[Any]) -> list[Any]:
        if self._is_initial:
            return rates
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            # At the bottom of the wave the ratio below would be 0 / 0.
            up = (1 - NUMBERS.cos(math.pi / self.T_max)) / 2
            pairs = zip(self.base_lrs, rates, strict=True)
            return [lr + (base - self.eta_min) * up for base, lr in pairs]
        ratio = self.height(self.last_epoch) / self.height(self.last_epoch - 1)
        return [ratio * (lr - self.eta_min) + self.eta_min for lr in rates]

    def height(self, epoch: int) -> float:
        return 1 + NUMBERS.cos(math.pi * epoch / self.T_max)

    def _get_closed_form_lr(self) -> list[Any]:
        height = self.height(self.last_epoch)
        return [self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs]
