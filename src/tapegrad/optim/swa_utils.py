"""Averages of models: stochastic weight averaging and exponential moving averages."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import tapegrad as tg

from ..kernels.portable.functions import NUMBERS
from ..nn.modules.batchnorm import _BatchNorm
from ..nn.modules.module import Module
from .lr_scheduler.base import LRScheduler, per_group, warn_outside_step

__all__ = [
    "AveragedModel",
    "SWALR",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Average = Callable[[Any, Any, Any], Any]


def check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )


def get_ema_multi_avg_fn(decay: float = 0.999) -> Average:
    """The update of an exponential moving average, in place, for lists of parameters.

    >>> model = nn.Linear(1, 1, bias=False)
    >>> nn.init.constant_(model.weight, 0.0)
    Parameter containing:
    tensor([[0.]], requires_grad=True)
    >>> average = optim.swa_utils.AveragedModel(
    ...     model, multi_avg_fn=optim.swa_utils.get_ema_multi_avg_fn(0.5)
    ... )
    >>> average.update_parameters(model)
    >>> nn.init.constant_(model.weight, 1.0)
    Parameter containing:
    tensor([[1.]], requires_grad=True)
    >>> average.update_parameters(model)
    >>> average.module.weight.item()
    0.5
    """
    check_decay(decay)

    @tg.no_grad()
    def ema_update(ema_param_list: Any, current_param_list: Any, _: Any) -> None:
        for mean, current in zip(ema_param_list, current_param_list, strict=True):
            if lerps(mean):
                mean.lerp_(current, 1 - decay)
            else:
                mean.copy_(mean * decay + current * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Average:
    """The update of an equally weighted average, in place, for lists of parameters.

    >>> mean = optim.swa_utils.get_swa_multi_avg_fn()
    >>> averages = [tensor([1.0])]
    >>> mean(averages, [tensor([4.0])], tensor(2))
    >>> averages
    [tensor([2.])]
    """

    @tg.no_grad()
    def swa_update(averaged_param_list: Any, current_param_list: Any, num_averaged: Any) -> None:
        for mean, current in zip(averaged_param_list, current_param_list, strict=True):
            if lerps(mean):
                mean.lerp_(current, float(1 / (num_averaged + 1)))
            else:
                mean.add_(current - mean, alpha=1.0 / (int(num_averaged) + 1))

    return swa_update


def lerps(t: Any) -> bool:
    return bool(t.is_floating_point() or t.is_complex())


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """An exponential moving average of one parameter.

    >>> from tapegrad.optim.swa_utils import get_ema_avg_fn
    >>> get_ema_avg_fn(0.5)(tensor(1.0), tensor(3.0), 7)
    tensor(2.)
    """
    check_decay(decay)

    @tg.no_grad()
    def ema_update(ema_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Average:
    """An equally weighted average of one parameter.

    >>> from tapegrad.optim.swa_utils import get_swa_avg_fn
    >>> get_swa_avg_fn()(tensor(1.0), tensor(4.0), 2)
    tensor(2.)
    """

    @tg.no_grad()
    def swa_update(averaged_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of a model that holds the average of its parameters, equally weighted by default.

    >>> model = nn.Linear(1, 1)
    >>> averaged = optim.swa_utils.AveragedModel(model)
    >>> averaged.update_parameters(model)
    >>> averaged.n_averaged
    tensor(1)
    """

    n_averaged: Any

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: Average | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tg.tensor(0, dtype=tg.long, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def _averaged(self, module: Module) -> list[Any]:
        """The tensors of a model that are averaged."""
        buffers = module.buffers() if self.use_buffers else ()
        return [t.detach() for t in itertools.chain(module.parameters(), buffers)]

    def update_parameters(self, model: Module) -> None:
        """Take the parameters of `model` into the average."""
        means, currents = self._averaged(self.module), self._averaged(model)
        if self.n_averaged == 0:
            for mean, current in zip(means, currents, strict=True):
                mean.copy_(current)
        elif self.multi_avg_fn is not None:
            for some, of_model in by_dtype(means, currents):
                self.multi_avg_fn(some, of_model, self.n_averaged)
        else:
            average = self.avg_fn or get_swa_avg_fn()
            for mean, current in zip(means, currents, strict=True):
                mean.copy_(average(mean, current, self.n_averaged))
        if not self.use_buffers:
            # Not averaged, but kept in step with the model.
            for own, buffer in zip(self.module.buffers(), model.buffers(), strict=True):
                own.detach().copy_(buffer.detach())
        self.n_averaged += 1


def by_dtype(means: list[Any], currents: list[Any]) -> list[tuple[list[Any], list[Any]]]:
    """Pairs of lists with one dtype each, in the order in which the dtypes turn up."""
    found: dict[Any, tuple[list[Any], list[Any]]] = {}
    for mean, current in zip(means, currents, strict=True):
        some, others = found.setdefault((mean.device, mean.dtype), ([], []))
        some.append(mean)
        others.append(current)
    return list(found.values())


@tg.no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running statistics of all batch norm layers anew, over the data of `loader`.

    >>> model = nn.Sequential(nn.BatchNorm1d(1))
    >>> optim.swa_utils.update_bn([tensor([[1.0], [3.0]]), tensor([[5.0], [7.0]])], model)
    >>> model[0].running_mean
    tensor([4.])
    """
    momenta = {m: m.momentum for m in model.modules() if isinstance(m, _BatchNorm)}
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.reset_running_stats()
        # None: the plain average over all batches.
        module.momentum = None
    for batch in loader:
        inputs = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(inputs if device is None else inputs.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """From the current learning rates to fixed ones in `anneal_epochs` epochs.

    >>> optimizer = optim.SGD([nn.Parameter(tensor([1.0]))], lr=0.5)
    >>> scheduler = optim.swa_utils.SWALR(
    ...     optimizer, swa_lr=0.25, anneal_epochs=1, anneal_strategy="linear"
    ... )
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(
        self,
        optimizer: Any,
        swa_lr: Any,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        rates = per_group("swa_lr", optimizer, swa_lr)
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_strategy = anneal_strategy
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        """How much of the way to the fixed rates is done after a number of steps."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return (1 - NUMBERS.cos(math.pi * t)) / 2 if self._anneal_strategy == "cos" else t

    def get_lr(self) -> list[Any]:
        """The learning rates of this step."""
        warn_outside_step(self)
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            lr, final = group["lr"], group["swa_lr"]
            # Where the way began, worked out from where it has come.
            start = final if before == 1 else (lr - before * final) / (1 - before)
            rates.append(final * now + start * (1 - now))
        return rates
