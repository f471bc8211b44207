"""Schedules made of schedules: one after the other, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from .base import LRScheduler, set_value, values_of, without
from .plateau import ReduceLROnPlateau


class _Combined(LRScheduler):
    """A schedule that other schedules make up; its state holds theirs."""

    _schedulers: list[Any]

    def state_dict(self) -> dict[str, Any]:
        """The state, with those of all schedulers in it."""
        state = without(self.__dict__, ("optimizer", "_schedulers"))
        state["_schedulers"] = [scheduler.state_dict() for scheduler in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state and those of all schedulers."""
        self.__dict__.update(without(state_dict, ("_schedulers",)))
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(state)


def check_member(owner: str, optimizer: Any, i: int, scheduler: Any) -> None:
    """Schedulers that can be combined step without arguments, and on the same optimizer."""
    if isinstance(scheduler, ReduceLROnPlateau):
        raise ValueError(
            f"{owner} does not support `ReduceLROnPlateau` scheduler as it requires additional "
            "kwargs to be specified when calling `step`, but got one at index "
            f"{i} in the given schedulers sequence."
        )
    if optimizer != scheduler.optimizer:
        raise ValueError(
            f"{owner} expects all schedulers to belong to the same optimizer, but got scheduler "
            f"{type(scheduler).__name__} at index {i} has {scheduler.optimizer}, which is "
            f"different from {type(optimizer).__name__}."
        )


class SequentialLR(_Combined):
    """One schedule after the other; the next begins at its milestone, from its own epoch 0.

    >>> optimizer = optim.SGD([nn.Parameter(tensor([1.0]))], lr=0.5)
    >>> warm_up = optim.lr_scheduler.ConstantLR(optimizer, factor=0.5)
    >>> decay = optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> scheduler = optim.lr_scheduler.SequentialLR(optimizer, [warm_up, decay], milestones=[1])
    >>> scheduler.get_last_lr()
    [0.25]
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Any,
        schedulers: list[Any],
        milestones: list[int],
        last_epoch: int = -1,
    ):
        if len(schedulers) < 1:
            raise ValueError("SequentialLR expects at least one scheduler, but got no scheduler.")
        for i, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(
                    f"SequentialLR at index {i} should have `optimizer` as its attribute."
                )
            check_member("SequentialLR", optimizer, i, scheduler)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than "
                "the number of milestone points, but got number of schedulers "
                f"{len(schedulers)} and the number of milestones to be equal to {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Every scheduler took its first step when it was made; only that of the first shall count.
        for group in optimizer.param_groups:
            set_value(group, "lr", group["initial_lr"])
        self.recursive_undo()
        self._schedulers[0]._initial_step()
        self._last_lr = schedulers[0].get_last_lr()

    def recursive_undo(self, sched: Any = None) -> None:
        """Take back one epoch of all schedulers, those inside of schedulers too."""
        of = self if sched is None else sched
        if hasattr(of, "_schedulers"):
            for scheduler in of._schedulers:
                self.recursive_undo(scheduler)
        elif hasattr(of, "last_epoch"):
            of.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Go on by one epoch."""
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[i]
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Combined):
    """All schedules at once: each changes what the one before made of the learning rates.

    >>> optimizer = optim.SGD([nn.Parameter(tensor([1.0]))], lr=0.5)
    >>> parts = [optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5) for _ in range(2)]
    >>> scheduler = optim.lr_scheduler.ChainedScheduler(parts)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.125]
    """

    def __init__(self, schedulers: Sequence[Any], optimizer: Any = None):
        if len(schedulers) < 1:
            raise ValueError(
                "ChainedScheduler expects at least one scheduler to be chained, but got no "
                "scheduler."
            )
        optimizer = optimizer or schedulers[0].optimizer
        for i, scheduler in enumerate(schedulers):
            check_member("ChainedScheduler", optimizer, i, scheduler)
        self._schedulers = list(schedulers)
        self.optimizer = optimizer
        self._last_lr = values_of(optimizer, "lr")

    def step(self) -> None:  # type: ignore[override]
        """Go on by one epoch, with every scheduler."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = values_of(self.optimizer, "lr")
