"""Watching a training loop: what a doctor wraps while it is on, and the events it makes of it.

Everything is put in place by `install` and taken out again, to the same objects, by `remove`. While
no doctor is on, nothing here runs.
"""

from __future__ import annotations

import functools
import importlib
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import tapegrad as tg

from ...autograd.starts import is_root
from ...core.base import PACKAGE, STATE, TensorBase, user_frame
from ...core.devices import DEVICE
from ...errors.evidence import Place, place
from .walk import Walk

Spot = tuple[Any, int] | None  # code object and instruction: a line that nobody has spelled yet

# Functions whose first argument is judged: losses, and what turns scores into a decision.
LOSSES = """
    binary_cross_entropy binary_cross_entropy_with_logits cross_entropy huber_loss kl_div l1_loss
    mse_loss nll_loss smooth_l1_loss
""".split()
DECISIONS = ("argmax", "max", "topk")
MISSING = object()


def spot() -> Spot:
    """The user's line that is running."""
    frame = user_frame(1)
    return None if frame is None else (frame.f_code, frame.f_lasti)


def place_of_spot(where: Spot) -> Place | None:
    return None if where is None else place(*where)


class Listener:
    """Base class of checks: one method per event of a training loop, overridden where needed."""

    def optimizer_made(self, optimizer: Any, where: Spot) -> None:
        """An optimizer was constructed."""

    def before_forward(self, call: ForwardCall) -> None:
        """A module is about to run that no other module called."""

    def after_forward(self, call: ForwardCall) -> None:
        """A module has returned `call.result`."""

    def judged(self, name: str, args: tuple[Any, ...], result: Any) -> None:
        """A loss or a decision (LOSSES, DECISIONS) was computed."""

    def dropout(self, root: ForwardCall | None, explicit: bool) -> None:
        """F.dropout ran with training=True; `explicit` if the user said so."""

    def before_backward(self, call: BackwardCall) -> None:
        """backward() is about to run."""

    def after_backward(self, call: BackwardCall) -> None:
        """backward() has returned, or raised `call.error`."""

    def zero_grad(self, parameters: list[Any], where: Spot) -> None:
        """The gradients of `parameters` have been reset."""

    def before_step(self, call: StepCall) -> None:
        """An optimizer is about to step."""

    def after_step(self, call: StepCall) -> None:
        """An optimizer has stepped."""

    def scheduler_step(self, scheduler: Any, too_early: bool, where: Spot) -> None:
        """A schedule moved on; `too_early`: for the first time, and its optimizer never stepped."""

    def finish(self) -> None:
        """The doctor goes."""


class ForwardCall:
    """A run of an outermost module."""

    def __init__(self, module: Any, args: tuple[Any, ...]) -> None:
        self.module = module
        self.args = args
        self.where = spot()
        self.training: bool = module.training
        self.recording: bool = tg.is_grad_enabled()
        # The layers inside that behave differently in train and eval mode, as they ran.
        self.sensitive: list[Any] = []
        self.result: Any = None


class BackwardCall:
    """A call of backward."""

    def __init__(self, roots: tuple[Any, ...]) -> None:
        self.roots = roots
        self.where = spot()
        self.error: BaseException | None = None

    @functools.cached_property
    def graph(self) -> Walk:
        """The graph of the roots, walked once for all checks."""
        return Walk(self.roots)


class StepCall:
    """A call of an optimizer's step."""

    def __init__(self, optimizer: Any, closure: bool) -> None:
        self.optimizer = optimizer
        self.closure = closure
        self.where = spot()
        self.parameters = [p for group in optimizer.param_groups for p in group["params"]]


class Watch:
    """The one place that wraps things, for all doctors that are on."""

    def __init__(self) -> None:
        self.listeners: list[tuple[Listener, list[str]]] = []  # with where to note its defects
        self.root: ForwardCall | None = None
        self._undo: list[tuple[Any, str, Any]] = []
        self._handles: list[Any] = []
        self._mode_layers: tuple[type, ...] = ()
        self._steps: list[StepCall] = []  # that have begun

    # ------------------------------------------------------------------ listeners

    def add(self, listeners: list[Listener], problems: list[str]) -> None:
        if not self.listeners:
            self.install()
        self.listeners += [(listener, problems) for listener in listeners]

    def drop(self, listeners: list[Listener]) -> None:
        self.listeners = [pair for pair in self.listeners if pair[0] not in listeners]
        if not self.listeners:
            self.remove()

    def tell(self, event: str, *args: Any) -> None:
        """Pass an event on. A defect in a check is noted and never reaches the training."""
        if DEVICE.capturing():
            return  # a CUDA graph is being recorded: nothing is computed, no value can be looked at
        for listener, problems in list(self.listeners):
            try:
                getattr(listener, event)(*args)
            except Exception:
                problems.append(traceback.format_exc())

    @staticmethod
    def last_words(listeners: list[Listener], problems: list[str]) -> None:
        """Let the checks conclude, when nothing is wrapped any more."""
        for listener in listeners:
            try:
                listener.finish()
            except Exception:
                problems.append(traceback.format_exc())

    # ------------------------------------------------------------------ in and out

    def wrap(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace `owner.name` by `make(original)`."""
        before = vars(owner).get(name, MISSING)
        original = getattr(owner, name) if before is MISSING else before
        self._undo.append((owner, name, before))
        setattr(owner, name, functools.wraps(original)(make(original)))

    def install(self) -> None:
        nn = importlib.import_module("tapegrad.nn")
        optim = importlib.import_module("tapegrad.optim")
        optimizers = importlib.import_module("tapegrad.optim.optimizer")
        autograd = importlib.import_module("tapegrad.autograd")
        layers = nn.modules
        self._mode_layers = (
            layers.dropout._DropoutNd,
            layers.batchnorm._BatchNorm,
            layers.rnn.RNNBase,
        )
        self.wrap(optim.Optimizer, "__init__", self._wrap_optimizer)
        self.wrap(optim.Optimizer, "zero_grad", self._wrap_optimizer_zero)
        self.wrap(nn.Module, "zero_grad", self._wrap_module_zero)
        self.wrap(nn.Module, "__call__", self._wrap_module)
        self.wrap(tg.Tensor, "backward", self._wrap_backward)
        self.wrap(autograd, "backward", self._wrap_backward)
        self.wrap(optim.lr_scheduler.LRScheduler, "step", self._wrap_scheduler)
        self.wrap(nn.functional, "dropout", self._wrap_dropout)
        self.wrap(warnings, "warn", self._wrap_warn)
        for name in LOSSES:
            self.wrap(nn.functional, name, functools.partial(self._wrap_judge, name))
        for name in DECISIONS:
            self.wrap(tg, name, functools.partial(self._wrap_judge, name))
            self.wrap(tg.Tensor, name, functools.partial(self._wrap_judge, name))
        self._handles = [
            optimizers.register_optimizer_step_pre_hook(self._before_step),
            optimizers.register_optimizer_step_post_hook(self._after_step),
        ]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._steps = []
        while self._undo:
            owner, name, before = self._undo.pop()
            if before is MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
        self.root = None

    # ------------------------------------------------------------------ the wrappers

    def _wrap_optimizer(self, original: Any) -> Any:
        def init(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            original(optimizer, *args, **kwargs)
            self.tell("optimizer_made", optimizer, spot())

        return init

    def _wrap_optimizer_zero(self, original: Any) -> Any:
        def zero_grad(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            original(optimizer, *args, **kwargs)
            held = [p for group in optimizer.param_groups for p in group["params"]]
            self.tell("zero_grad", held, spot())

        return zero_grad

    def _wrap_module_zero(self, original: Any) -> Any:
        def zero_grad(module: Any, *args: Any, **kwargs: Any) -> None:
            original(module, *args, **kwargs)
            self.tell("zero_grad", list(module.parameters()), spot())

        return zero_grad

    def _wrap_module(self, original: Any) -> Any:
        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            root = self.root
            if root is not None:
                if isinstance(module, self._mode_layers) and STATE.module is not None:
                    root.sensitive.append(module)
                return original(module, *args, **kwargs)
            root = self.root = ForwardCall(module, args)
            if isinstance(module, self._mode_layers):
                root.sensitive.append(module)
            try:
                self.tell("before_forward", root)
                root.result = original(module, *args, **kwargs)
            finally:
                self.root = None
            self.tell("after_forward", root)
            return root.result

        return call

    def _wrap_backward(self, original: Any) -> Any:
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            tensors = tensors if is_root(tensors) else tuple(tensors)
            roots = tensors if type(tensors) is tuple else (tensors,)
            call = BackwardCall(tuple(t for t in roots if isinstance(t, TensorBase)))
            self.tell("before_backward", call)
            try:
                return original(tensors, *args, **kwargs)
            except BaseException as error:
                call.error = error
                raise
            finally:
                self.tell("after_backward", call)

        return backward

    def _wrap_scheduler(self, original: Any) -> Any:
        def step(scheduler: Any, *args: Any, **kwargs: Any) -> Any:
            if not scheduler._is_initial:
                first = scheduler._step_count == 1
                idle = not getattr(scheduler.optimizer, "_opt_called", False)
                self.tell("scheduler_step", scheduler, first and idle, spot())
            return original(scheduler, *args, **kwargs)

        return step

    def _wrap_dropout(self, original: Any) -> Any:
        def dropout(input: Any, p: float = 0.5, *args: Any, **kwargs: Any) -> Any:
            explicit = bool(args) or "training" in kwargs
            on = args[0] if args else kwargs.get("training", True)
            if on and p > 0:
                self.tell("dropout", self.root, explicit)
            return original(input, p, *args, **kwargs)

        return dropout

    @staticmethod
    def _wrap_warn(original: Any) -> Any:
        """The frames of these wrappers are not to count: our warnings go to the user's line."""

        def warn(
            message: Any, category: Any = None, stacklevel: int = 1, source: Any = None, **more: Any
        ) -> None:
            frame: Any = sys._getframe(1)
            level = stacklevel + 1
            if frame.f_code.co_filename.startswith(PACKAGE):
                level = 2
                while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
                    frame = frame.f_back
                    level += 1
            original(message, category, level, source, **more)

        return warn

    def _wrap_judge(self, name: str, original: Any) -> Any:
        def judge(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            self.tell("judged", name, (*args, *kwargs.values()), result)
            return result

        return judge

    def _before_step(self, optimizer: Any, args: tuple[Any, ...], kwargs: Any) -> None:
        closure = len(args) > 1 or kwargs.get("closure") is not None
        call = StepCall(optimizer, closure)
        self._steps.append(call)
        self.tell("before_step", call)

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        # The step that began last on this optimizer; one that raised left its entry behind.
        while self._steps:
            call = self._steps.pop()
            if call.optimizer is optimizer:
                self.tell("after_step", call)
                return


WATCH = Watch()
