"""Optimizer: groups of parameters with their options, the state kept for each, and `step`."""

from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

import tapegrad as tg

from ..autograd.hooks import RemovableHandle
from ..core.base import STATE, writing_for_caller
from ..core.modes import grad_set_to
from ..core.python_dispatch import called_as_a_whole
from ..core.tensor_lists import drop_gradients
from ..core.warned import warn
from ..errors import models
from ..kernels.cpu import tell_once
from ..utils.grads import set_to_zero
from ..utils.naming import typename
from ._for_subclasses import (  # noqa: F401  where other packages look for them
    ParamsT,
    StateDict,
    _capturable_doc,
    _default_to_fused_or_foreach,
    _differentiable_doc,
    _disable_dynamo_if_unsupported,
    _foreach_doc,
    _fused_doc,
    _get_scalar_dtype,
    _get_value,
    _maximize_doc,
    _params_doc,
    _stack_if_compiling,
    _to_scalar,
    _view_as_real,
)

__all__ = [
    "Optimizer",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
]

Hook = Callable[..., Any]
Hooks = OrderedDict[int, Hook]

_global_optimizer_pre_hooks: Hooks = OrderedDict()
_global_optimizer_post_hooks: Hooks = OrderedDict()

HOOK_DICTS = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


class _RequiredParameter:
    """Stands in `defaults` for an option that every group has to give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()


def add_hook(hooks: Hooks, hook: Hook, prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before the step of every optimizer."""
    return add_hook(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after the step of every optimizer."""
    return add_hook(_global_optimizer_post_hooks, hook)


def _use_grad_for_differentiable(step: Hook) -> Hook:
    """Run a step without recording, unless the optimizer is differentiable."""

    @functools.wraps(step)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        with grad_set_to(bool(self.defaults["differentiable"])):
            return step(self, *args, **kwargs)

    return run


class Optimizer:
    """The base of all optimizers.

    A subclass passes parameters and default options to `__init__`, and defines `step`.

    >>> class SignDescent(optim.Optimizer):
    ...     def __init__(self, params, lr):
    ...         super().__init__(params, {"lr": lr})
    ...     @no_grad()
    ...     def step(self):
    ...         for group in self.param_groups:
    ...             for p in group["params"]:
    ...                 p.sub_(p.grad.sign() * group["lr"])
    >>> w = nn.Parameter(tensor([1.0, -1.0]))
    >>> optimizer = SignDescent([w], lr=0.5)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    Parameter containing:
    tensor([ 0.5000, -0.5000], requires_grad=True)
    """

    OptimizerPreHook = Callable[..., Any]
    OptimizerPostHook = Callable[..., Any]

    param_groups: list[dict[str, Any]]
    state: defaultdict[Any, Any]

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        tell_once()
        self.defaults = defaults
        for name in HOOK_DICTS:
            setattr(self, name, OrderedDict())
        self._hook_step()
        if isinstance(params, tg.Tensor):
            error = TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or "
                "dicts, but got " + typename(params)
            )
            models.explain_parameters(error, params)
            raise error
        self.state = defaultdict(dict)
        self.param_groups = []
        used_up = getattr(params, "gi_frame", params) is None  # a generator that has ended
        try:
            groups = list(params)
            if groups and not isinstance(groups[0], dict):
                groups = [{"params": groups}]
            for group in groups:
                self.add_param_group(group)
        except TypeError as error:
            models.explain_parameters(error, params)
            raise
        if not groups:
            raise models.no_parameters(used_up)

    def _hook_step(self) -> None:
        """Wrap the class's own `step`, once, so that hooks run around it."""
        cls = type(self)
        if not getattr(cls.step, "hooked", None):
            cls.step = Optimizer.profile_hook_step(cls.step)  # type: ignore[method-assign]
            cls.step.hooked = True  # type: ignore[attr-defined]

    @staticmethod
    def profile_hook_step(func: Hook) -> Hook:
        """`func` with the step hooks around it."""
        ours = func.__module__.startswith(("tapegrad.", "torch."))

        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            self = args[0]
            timer = timed(self, "step") if STATE.timing else None
            before = [
                *_global_optimizer_pre_hooks.values(),
                *self._optimizer_step_pre_hooks.values(),
            ]
            for hook in before:
                answer = hook(self, args, kwargs)
                if answer is None:
                    continue
                if not isinstance(answer, tuple) or len(answer) != 2:
                    raise RuntimeError(
                        f"{func} must return None or a tuple of (new_args, new_kwargs), "
                        f"but got {answer}."
                    )
                args, kwargs = answer
            if ours and len(args) == 1 and not kwargs:
                # No closure: nothing of the user's runs inside, and one look for the line will do.
                out = writing_for_caller(func, *args)
            else:
                out = func(*args, **kwargs)
            after = [
                *self._optimizer_step_post_hooks.values(),
                *_global_optimizer_post_hooks.values(),
            ]
            for hook in after:
                hook(self, args, kwargs)
            if timer is not None:
                timer.__exit__()
            return out

        return called_as_a_whole(wrapper)

    def step(self, closure: Hook | None = None) -> Any:
        """Update the parameters once; `closure` computes the loss and its gradients again.

        >>> w = nn.Parameter(tensor([1.0, -1.0]))
        >>> optimizer = optim.SGD([w], lr=0.25)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w
        Parameter containing:
        tensor([ 0.5000, -0.5000], requires_grad=True)
        """
        raise NotImplementedError

    def _cuda_graph_capture_health_check(self) -> None:
        """Optimizers written for PyTorch call this; cuda/graphs.py sees to a step in a graph."""

    # ------------------------------------------------------------------ parameters

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with options of their own.

        >>> optimizer = optim.SGD([nn.Parameter(ones(1))], lr=0.1)
        >>> optimizer.add_param_group({"params": [nn.Parameter(ones(2))], "lr": 0.01})
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.1, 0.01]
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, tg.Tensor):
            param_group["params"] = [params]
        elif isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        else:
            param_group["params"] = list(params)
        split_names(param_group)
        differentiable = self.defaults.get("differentiable", None)
        for param in param_group["params"]:
            if not isinstance(param, tg.Tensor):
                raise TypeError(
                    "optimizer can only optimize Tensors, but one of the params is "
                    + typename(param)
                )
            if not differentiable and not (param.is_leaf or param.retains_grad):
                raise models.not_a_leaf(param)
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization parameter "
                    + name
                )
            param_group.setdefault(name, default)
        if len(param_group["params"]) != len(set(param_group["params"])):
            warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this "
                "will cause an error; see github.com/pytorch/pytorch/issues/40967 for more "
                "information",
            )
        self._check_against_groups(param_group)
        self.param_groups.append(param_group)

    def _check_against_groups(self, param_group: dict[str, Any]) -> None:
        named = "param_names" in param_group
        for group in self.param_groups:
            if ("param_names" in group) != named:
                text = "with names" if named else "without names"
                raise ValueError(
                    "all optimizer param groups should be with/without names. "
                    f"cannot add param group {text} to the optimizer"
                )
        known = {p for group in self.param_groups for p in group["params"]}
        if not known.isdisjoint(param_group["params"]):
            raise ValueError("some parameters appear in more than one parameter group")

    @called_as_a_whole
    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or set them to zero.

        >>> p = nn.Parameter(ones(1))
        >>> optimizer = optim.SGD([p], lr=0.1)
        >>> p.sum().backward()
        >>> optimizer.zero_grad()
        >>> print(p.grad)
        None
        """
        timer = timed(self, "zero_grad") if STATE.timing else None
        for group in self.param_groups:
            if set_to_none and drop_gradients(group["params"]):
                continue
            for p in group["params"]:
                if p.grad is None:
                    continue
                if set_to_none:
                    p.grad = None
                else:
                    set_to_zero(p.grad)
        if timer is not None:
            timer.__exit__()

    # ------------------------------------------------------------------ hooks

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before every step; it may return other arguments.

        >>> optimizer = optim.SGD([nn.Parameter(zeros(2))], lr=0.1)
        >>> handle = optimizer.register_step_pre_hook(lambda *given: print("before the step"))
        >>> optimizer.step()
        before the step
        """
        return add_hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after every step.

        >>> optimizer = optim.SGD([nn.Parameter(zeros(2))], lr=0.1)
        >>> handle = optimizer.register_step_post_hook(lambda *given: print("after the step"))
        >>> optimizer.step()
        after the step
        """
        return add_hook(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict`.

        >>> optimizer = optim.SGD([nn.Parameter(zeros(2))], lr=0.1)
        >>> handle = optimizer.register_state_dict_pre_hook(lambda optimizer: print("asked"))
        >>> state = optimizer.state_dict()
        asked
        """
        return add_hook(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` after `state_dict`; it may return another.

        >>> optimizer = optim.SGD([nn.Parameter(zeros(2))], lr=0.1)
        >>> handle = optimizer.register_state_dict_post_hook(lambda _, state: {**state, "epoch": 3})
        >>> optimizer.state_dict()["epoch"]
        3
        """
        return add_hook(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before loading; what it returns is loaded instead.

        >>> optimizer = optim.SGD([nn.Parameter(zeros(2))], lr=0.1)
        >>> show = lambda optimizer, state: print(sorted(state))
        >>> handle = optimizer.register_load_state_dict_pre_hook(show)
        >>> optimizer.load_state_dict(optimizer.state_dict())
        ['param_groups', 'state']
        """
        return add_hook(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` after loading.

        >>> optimizer = optim.SGD([nn.Parameter(zeros(2))], lr=0.1)
        >>> handle = optimizer.register_load_state_dict_post_hook(lambda optimizer: print("loaded"))
        >>> optimizer.load_state_dict(optimizer.state_dict())
        loaded
        """
        return add_hook(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # ------------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """State and options, with numbers in the place of parameters: PyTorch's layout.

        >>> optimizer = optim.SGD([nn.Parameter(ones(1))], lr=0.1)
        >>> sorted(optimizer.state_dict())
        ['param_groups', 'state']
        """
        for pre_hook in list(self._optimizer_state_dict_pre_hooks.values()):
            pre_hook(self)
        numbers: dict[Any, int] = {}
        groups = []
        for group in self.param_groups:
            packed = {k: v for k, v in group.items() if k != "params"}
            for p in group["params"]:
                numbers.setdefault(p, len(numbers))
            packed["params"] = [numbers[p] for p in group["params"]]
            groups.append(packed)
        state = {numbers[k] if isinstance(k, tg.Tensor) else k: v for k, v in self.state.items()}
        found: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in list(self._optimizer_state_dict_post_hooks.values()):
            answer = hook(self, found)
            found = found if answer is None else answer
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` of an optimizer with the same groups gave.

        >>> a = optim.SGD([nn.Parameter(ones(1))], lr=0.1)
        >>> b = optim.SGD([nn.Parameter(ones(1))], lr=0.5)
        >>> b.load_state_dict(a.state_dict())
        >>> b.param_groups[0]["lr"]
        0.1
        """
        state_dict = state_dict.copy()
        for pre_hook in list(self._optimizer_load_state_dict_pre_hooks.values()):
            answer = pre_hook(self, state_dict)
            state_dict = state_dict if answer is None else answer
        own = self.param_groups
        saved = deepcopy(state_dict["param_groups"])
        if len(own) != len(saved):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(own, saved, strict=True)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            )
        numbers = chain.from_iterable(group["params"] for group in saved)
        params = chain.from_iterable(group["params"] for group in own)
        by_number = dict(zip(numbers, params, strict=True))
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in by_number:
                param = by_number[key]
                state[param] = like_param(param, value)
            else:
                state[key] = value
        groups = [take_over(a, b) for a, b in zip(own, saved, strict=True)]
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in list(self._optimizer_load_state_dict_post_hooks.values()):
            hook(self)

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for name in HOOK_DICTS:
            if name not in self.__dict__:
                setattr(self, name, OrderedDict())
        self._hook_step()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        text = type(self).__name__ + " ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            for key in sorted(group):
                if key != "params":
                    text += f"    {key}: {group[key]}\n"
        return text + ")"


def timed(optimizer: Optimizer, method: str) -> Any:
    """The timer that a profiler shows for a method; one that raises is not shown."""
    from ..autograd.profiler import record_function

    name = type(optimizer).__name__
    return record_function(f"Optimizer.{method}#{name}.{method}").__enter__()


def split_names(group: dict[str, Any]) -> None:
    """Parameters given as (name, tensor) pairs: the names go into `param_names`."""
    params, names = [], []
    for param in group["params"]:
        if isinstance(param, tuple):
            names.append(param[0])
            params.append(param[1])
        else:
            params.append(param)
    group["params"] = params
    if names:
        if len(names) != len(params):
            raise ValueError(
                "all optimizer params should be with/without names. Some param names are missing"
            )
        group["param_names"] = names


def take_over(group: dict[str, Any], saved: dict[str, Any]) -> dict[str, Any]:
    """A saved group with this optimizer's parameters."""
    saved["params"] = group["params"]
    if "param_names" in group and "param_names" not in saved:
        saved["param_names"] = group["param_names"]
    return saved


def like_param(param: Any, value: Any, key: Hashable = None) -> Any:
    """Loaded state with the dtype and device of its parameter; step counts stay as they are."""
    if isinstance(value, tg.Tensor):
        if key == "step":
            return value
        if param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device)
        return value.to(device=param.device)
    if isinstance(value, dict):
        return {k: like_param(param, v, k) for k, v in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return type(value)(like_param(param, v) for v in value)  # type: ignore[call-arg]
    return value
