"""LRScheduler: what all schedules share."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tapegrad as tg

from ...core.warned import warn
from ...errors import slips
from ..optimizer import Optimizer

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use `scheduler.step()` to step the scheduler. During the deprecation, if "
    "epoch is different from None, the closed form is used instead of the new chainable form, "
    "where available. Please open an issue if you are unable to replicate your use case: "
    "https://github.com/pytorch/pytorch/issues/new/choose."
)
MORE = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
NO_INITIAL_LR = """\
param 'initial_lr' is not specified in param_groups[{}] when resuming scheduler with last_epoch >= 0.
This typically happens when:
1. You're trying to resume training from a checkpoint but haven't properly loaded the optimizer state
2. You're using last_epoch >= 0 for a fresh training run (not recommended)"""  # noqa: E501


class LRScheduler:
    """The base of all schedules. A subclass defines `get_lr`, one learning rate for each group.

    >>> class Halving(optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [lr / 2**self.last_epoch for lr in self.base_lrs]
    >>> optimizer = optim.SGD([nn.Parameter(tensor([1.0]))], lr=0.5)
    >>> scheduler = Halving(optimizer)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    _get_lr_called_within_step: bool = False
    _is_initial: bool = False

    def __init__(self, optimizer: Any, last_epoch: int = -1) -> None:
        self.optimizer = check_optimizer(optimizer)
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(NO_INITIAL_LR.format(i))
        self.base_lrs = values_of(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        note_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        """Set the learning rates of the first epoch."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` of another scheduler gave."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The learning rates that this scheduler set last."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The learning rates of epoch `last_epoch`, one for each group."""
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Go on by one epoch, after the optimizer's own step."""
        if self._step_count == 1:
            self._check_order()
        self._step_count += 1
        if epoch is not None:
            warn(EPOCH_DEPRECATION_WARNING, UserWarning)
        self._update_lr(epoch)

    def _check_order(self) -> None:
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler "
                "initialization. Please, make sure to call `optimizer.step()` before "
                "`lr_scheduler.step()`. " + MORE,
                UserWarning,
            )
        elif not getattr(self.optimizer, "_opt_called", False):
            sentence = (
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch "
                "1.1.0 and later, you should call them in the opposite order: `optimizer.step()` "
                "before `lr_scheduler.step()`.  Failure to do this will result in PyTorch "
                "skipping the first value of the learning rate schedule. " + MORE
            )
            warn(slips.scheduler_first(sentence))

    def _update_lr(self, epoch: int | None = None) -> None:
        with computing(self):
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                self.last_epoch = epoch
                closed_form = getattr(self, "_get_closed_form_lr", self.get_lr)
                values = closed_form()
        for group, value in zip(self.optimizer.param_groups, values, strict=True):
            set_value(group, "lr", value)
        self._last_lr = values_of(self.optimizer, "lr")


@contextmanager
def computing(scheduler: Any) -> Iterator[None]:
    """Mark the calls of `get_lr` that the scheduler makes itself."""
    scheduler._get_lr_called_within_step = True
    try:
        yield
    finally:
        scheduler._get_lr_called_within_step = False


def warn_outside_step(scheduler: Any) -> None:
    """`get_lr` moves on from the current rates: for a user it is the wrong thing to call."""
    if not scheduler._get_lr_called_within_step:
        warn(
            "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
            UserWarning,
        )


def note_steps(optimizer: Any) -> None:
    """Let the optimizer remember that it was stepped."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    # Weakly: an optimizer that refers to itself would live until the garbage collector runs.
    reference = weakref.ref(optimizer)
    function = optimizer.step.__func__

    @functools.wraps(function)
    def step(*args: Any, **kwargs: Any) -> Any:
        stepped = reference()
        stepped._opt_called = True
        return function(stepped, *args, **kwargs)

    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer.step = step


def check_optimizer(optimizer: Any) -> Any:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
    return optimizer


def copied(value: Any) -> Any:
    return value.clone() if isinstance(value, tg.Tensor) else value


def values_of(optimizer: Any, key: str) -> list[Any]:
    """One value for each group; tensors are copied, since they are written to."""
    return [copied(group[key]) for group in optimizer.param_groups]


def set_value(group: dict[str, Any], key: str, value: Any) -> None:
    """Set an option of a group; a tensor stays the same tensor."""
    if isinstance(group[key], tg.Tensor):
        group[key].fill_(value.item() if isinstance(value, tg.Tensor) else value)
    else:
        group[key] = value


def per_group(name: str, optimizer: Any, value: Any) -> list[Any]:
    """An option given once for all groups, or as a list with a value for each."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [copied(value) for _ in range(count)]
    if len(value) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has "
            f"{len(value)} values, param_groups has {count}."
        )
    return [copied(v) for v in value]


def without(state: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {k: v for k, v in state.items() if k not in names}
