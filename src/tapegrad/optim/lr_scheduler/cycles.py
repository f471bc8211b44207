"""Schedules that go up and down: cycles, one cycle, restarts."""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable
from typing import Any

from ...kernels.portable.functions import NUMBERS
from .base import (
    LRScheduler,
    check_optimizer,
    computing,
    per_group,
    set_value,
    values_of,
    warn_outside_step,
    without,
)


def set_momentum(group: dict[str, Any], use_beta1: bool, value: Any) -> None:
    """Set the momentum of a group, or the first beta where that plays its part."""
    if use_beta1:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


def uses_beta1(optimizer: Any) -> bool:
    """Whether an optimizer has betas; one that has no momentum either is refused."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError(
            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
        )
    return "betas" in optimizer.defaults


class CyclicLR(LRScheduler):
    """Up from `base_lr` to `max_lr` and down again, over and over, momentum the other way.

    >>> optimizer = optim.SGD([nn.Parameter(tensor([1.0]))], lr=0.5, momentum=0.9)
    >>> scheduler = optim.lr_scheduler.CyclicLR(optimizer, base_lr=0.0, max_lr=1.0, step_size_up=2)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Any,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ):
        self.optimizer = check_optimizer(optimizer)
        base_lrs = per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for lr, group in zip(base_lrs, optimizer.param_groups, strict=True):
                set_value(group, "lr", lr)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        down = up if step_size_down is None else float(step_size_down)
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self._scale_fn_ref: Any = None
        self._init_scale_fn()
        self.scale_mode = "iterations" if scale_fn is None and mode == "exp_range" else scale_mode
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._start_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _start_momentum(self, base: Any, most: Any, last_epoch: int) -> None:
        optimizer = self.optimizer
        self.use_beta1 = uses_beta1(optimizer)
        self.base_momentums = per_group("base_momentum", optimizer, base)
        self.max_momentums = per_group("max_momentum", optimizer, most)
        if last_epoch != -1:
            return
        triples = zip(self.max_momentums, self.base_momentums, optimizer.param_groups, strict=True)
        for highest, lowest, group in triples:
            set_momentum(group, self.use_beta1, highest)
            group["max_momentum"] = highest
            group["base_momentum"] = lowest

    def _init_scale_fn(self) -> None:
        if self._scale_fn_custom is not None:
            return
        shapes = {
            "triangular": self._triangular_scale_fn,
            "triangular2": self._triangular2_scale_fn,
            "exp_range": functools.partial(self._exp_range_scale_fn, self.gamma),
        }
        self._scale_fn_ref = shapes[self.mode]

    def scale_fn(self, x: float) -> float:
        """How high the peak is in cycle (or iteration) `x`."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        return self._scale_fn_ref(x)

    @staticmethod
    def _triangular_scale_fn(x: float) -> float:
        return 1.0

    @staticmethod
    def _triangular2_scale_fn(x: float) -> float:
        return 1 / (2.0 ** (x - 1))

    @staticmethod
    def _exp_range_scale_fn(gamma: float, x: float) -> float:
        return NUMBERS.power(gamma, x)

    def get_lr(self) -> list[Any]:
        """The learning rates of epoch `last_epoch`; sets the momentum too."""
        warn_outside_step(self)
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        if x <= self.step_ratio:
            height = x / self.step_ratio
        else:
            height = (x - 1) / (self.step_ratio - 1)
        peak = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        rates = [
            base + (most - base) * height * peak
            for base, most in zip(self.base_lrs, self.max_lrs, strict=True)
        ]
        if self.cycle_momentum:
            triples = zip(
                self.base_momentums,
                self.max_momentums,
                self.optimizer.param_groups,
                strict=True,
            )
            for lowest, highest, group in triples:
                value = highest - (highest - lowest) * height * peak
                set_momentum(group, self.use_beta1, value)
        return rates

    def state_dict(self) -> dict[str, Any]:
        """The state; of a scale function only what an object keeps in its attributes."""
        state = without(self.__dict__, ("optimizer", "_scale_fn_custom", "_scale_fn_ref"))
        custom = self._scale_fn_custom
        plain = custom is None or isinstance(custom, types.FunctionType)
        state["_scale_fn_custom"] = None if plain else custom.__dict__.copy()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state; a scale function stays as it is."""
        kept = state_dict["_scale_fn_custom"]
        super().load_state_dict(without(state_dict, ("_scale_fn_custom",)))
        if kept is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(kept)
        self._init_scale_fn()


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a wave down in `T_0` epochs, then from the top, `T_mult` times as long each time.

    >>> optimizer = optim.SGD([nn.Parameter(tensor([1.0]))], lr=0.5)
    >>> scheduler = optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> scheduler.step(1)
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(
        self,
        optimizer: Any,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ):
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(
                f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}"
            )
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The learning rates of the place in the current wave."""
        warn_outside_step(self)
        height = 1 + NUMBERS.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go on by one epoch, or to any one: fractions of epochs are allowed."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            self._go_to(epoch)
        self.last_epoch = math.floor(epoch)
        with computing(self):
            for group, lr in zip(self.optimizer.param_groups, self.get_lr(), strict=True):
                set_value(group, "lr", lr)
        self._last_lr = values_of(self.optimizer, "lr")

    def _go_to(self, epoch: float) -> None:
        if epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        if epoch < self.T_0:
            self.T_i = self.T_0
            self.T_cur = epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            # The waves so far are a geometric series: which one is this?
            done = int(NUMBERS.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**done - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**done


class OneCycleLR(LRScheduler):
    """Up to `max_lr` and down to nearly nothing, once, momentum the other way.

    >>> optimizer = optim.SGD([nn.Parameter(tensor([1.0]))], lr=0.5, momentum=0.9)
    >>> scheduler = optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=10)
    >>> round(scheduler.get_last_lr()[0], 4)
    0.04
    """

    def __init__(
        self,
        optimizer: Any,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ):
        self.optimizer = check_optimizer(optimizer)
        self.total_steps = count_steps(total_steps, epochs, steps_per_epoch)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        self._schedule_phases = phases(self.total_steps, pct_start, three_phase)
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                "anneal_strategy must be one of 'cos' or 'linear', instead got " + anneal_strategy
            )
        self._anneal_func_type = anneal_strategy
        highest = per_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, most in zip(optimizer.param_groups, highest, strict=True):
                group["initial_lr"] = most / div_factor
                group["max_lr"] = most
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._start_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _start_momentum(self, base: Any, most: Any, last_epoch: int) -> None:
        optimizer = self.optimizer
        self.use_beta1 = uses_beta1(optimizer)
        highest = per_group("max_momentum", optimizer, most)
        lowest = per_group("base_momentum", optimizer, base)
        if last_epoch != -1:
            return
        for high, low, group in zip(highest, lowest, optimizer.param_groups, strict=True):
            set_momentum(group, self.use_beta1, high)
            group["max_momentum"] = high
            group["base_momentum"] = low

    def get_lr(self) -> list[Any]:
        """The learning rates of step `last_epoch`; sets the momentum too."""
        warn_outside_step(self)
        at = self.last_epoch
        if at > self.total_steps:
            raise ValueError(
                f"Tried to step {at} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        start = 0.0
        for phase in self._schedule_phases:
            if at <= phase["end_step"] or phase is self._schedule_phases[-1]:
                break
            start = phase["end_step"]
        share = (at - start) / (phase["end_step"] - start)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._anneal_func(group[phase["start_lr"]], group[phase["end_lr"]], share))
            if self.cycle_momentum:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                set_momentum(group, self.use_beta1, self._anneal_func(*ends, share))
        return rates

    def _anneal_func(self, start: Any, end: Any, pct: float) -> Any:
        """The value at a share of the way from `start` to `end`."""
        linear = self._anneal_func_type == "linear"
        return (self._annealing_linear if linear else self._annealing_cos)(start, end, pct)

    @staticmethod
    def _annealing_cos(start: Any, end: Any, pct: float) -> Any:
        return end + (start - end) / 2.0 * (NUMBERS.cos(math.pi * pct) + 1)

    @staticmethod
    def _annealing_linear(start: Any, end: Any, pct: float) -> Any:
        return (end - start) * pct + start


def phases(steps: int, pct_start: float, three_phase: bool) -> list[dict[str, Any]]:
    """Where each phase ends, and between which options of a group it goes."""

    def phase(end: float, lr: tuple[str, str], momentum: tuple[str, str]) -> dict[str, Any]:
        return {
            "end_step": end,
            "start_lr": lr[0],
            "end_lr": lr[1],
            "start_momentum": momentum[0],
            "end_momentum": momentum[1],
        }

    top = float(pct_start * steps) - 1
    base, most = "base_momentum", "max_momentum"
    found = [phase(top, ("initial_lr", "max_lr"), (most, base))]
    if three_phase:
        middle = float(2 * pct_start * steps) - 2
        found.append(phase(middle, ("max_lr", "initial_lr"), (base, most)))
        found.append(phase(steps - 1, ("initial_lr", "min_lr"), (most, most)))
    else:
        found.append(phase(steps - 1, ("max_lr", "min_lr"), (base, most)))
    return found


def count_steps(total: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    if total is not None:
        return positive("total_steps", total)
    if epochs is None or steps_per_epoch is None:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    return positive("epochs", epochs) * positive("steps_per_epoch", steps_per_epoch)


def positive(name: str, value: int) -> int:
    if value <= 0 or not isinstance(value, int):
        raise ValueError(f"Expected positive integer {name}, but got {value}")
    return value
