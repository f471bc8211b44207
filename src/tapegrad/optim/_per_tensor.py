"""Base of the optimizers that update every parameter by itself, and the checks they make."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tapegrad as tg

from ..core.base import STATE
from ..core.tensor_lists import with_gradients
from ..kernels.cpu import KERNELS
from ._multi_tensor import FEWEST, Update, update_many
from ._native import update_natively
from ._on_device import Fused, update_on_device
from .optimizer import Optimizer, _use_grad_for_differentiable

Start = Callable[[Any, dict[str, Any]], dict[str, Any]]
State = dict[str, Any]


@dataclass(frozen=True)
class Rule:
    """How an optimizer updates one parameter.

    `start(p, group)` makes its state, `update(p, grad, state, group)` is one step. `scalars` names
    the entries of the state that are one number for the whole parameter; `gathers` says whether
    taking small parameters together saves time. The other fields are how PyTorch words its refusal
    of `capturable`: what has to be on an accelerator, and whether it counts XLA among them
    (without `foreach`, with it).
    """

    start: Start | None
    update: Update
    scalars: tuple[str, ...] = ("step",)
    gathers: bool = True
    captured: str = "params and state_steps"
    captured_foreach: str = "params and state_steps"
    on_xla: tuple[bool, bool] = (True, False)
    on_device: Fused | None = None  # for the kernels that do it for many parameters at once
    dense_only: str = ""  # what is said to sparse gradients; "" where they are taken
    fused_dense_only: str = ""  # the same of `fused`

    def update_listed(
        self,
        params: list[Any],
        grads: list[Any],
        lists: dict[str, list[Any]],
        group: dict[str, Any],
        grad_scale: Any = None,
        found_inf: Any = None,
    ) -> None:
        """The update for the functional forms, with parameters, gradients and state in lists."""
        if grad_scale is not None or found_inf is not None:
            raise AssertionError("Expected grad_scale and found_inf to be None")
        if not all(isinstance(step, tg.Tensor) for step in lists.get("step", ())):
            raise RuntimeError(
                "API has changed, `state_steps` argument must contain a list of singleton tensors"
            )
        if params and (group["foreach"] or group.get("capturable")):
            check_modes(group, params, self)
        for i, p in enumerate(params):
            state = {name: values[i] for name, values in lists.items()}
            self.update(p, grads[i], state, group)
            for name, values in lists.items():
                values[i] = state[name]


class PerTensorOptimizer(Optimizer):
    """The base of the optimizers that update every parameter by itself, by a rule.

    `_options` names what a group holds, in PyTorch's order; `_added` what older checkpoints lack of
    it, with the values that it stands for there.
    """

    _rule: Rule
    _options: str
    _added: dict[str, Any] = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
    }

    @functools.cached_property
    def _ready(self) -> dict[int, Any]:
        """Launches of steps on a GPU, kept for the next steps, by group."""
        return {}

    @classmethod
    def _picked(cls, given: dict[str, Any], **others: Any) -> dict[str, Any]:
        """The options among a function's arguments, its `locals()`, and those made of others."""
        return {name: given[name] for name in cls._options.split() if name in given} | others

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self._added.items():
                group.setdefault(name, value)
            for name in self._rule.scalars:
                use_tensor(group, self.state, name)

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; the loss that `closure` returned, if one is given."""
        loss = evaluate(closure)
        for group in self.param_groups:
            update_group(self.state, group, self._rule, self._ready)
        return loss


def evaluate(closure: Callable[[], Any] | None) -> Any:
    """The loss of a closure, which may record; None without one."""
    if closure is None:
        return None
    with tg.enable_grad():
        return closure()


def update_group(states: Any, group: dict[str, Any], rule: Rule, ready: Any = None) -> None:
    """Update the parameters of a group that have a gradient; `ready` as in `update_on_device`.

    With `foreach=False` every tensor is updated by itself; otherwise a kernel takes all that it
    can, or many small ones are taken together, with the same results.
    """
    sparse: list[Any] = []
    params: Any = with_gradients(group["params"])
    if params is None:
        pairs = [(p, grad) for p in group["params"] if (grad := p.grad) is not None]
        params = [p for p, _ in pairs]
        sparse = [p for p, grad in pairs if grad.is_sparse]
    if sparse:
        refuse_sparse(group, rule)
        params = [p for p in params if not p.grad.is_sparse]
    if rule.start is not None:
        for p in (*params, *sparse) if sparse else params:
            own = states[p]
            if not own:
                own.update(rule.start(p, group))
    if params and (group["foreach"] or group.get("capturable") or group.get("fused")):
        check_modes(group, params, rule)
    if rule.on_device is not None and STATE.device_type is not None and params:
        params = update_on_device(params, states, group, rule.on_device, ready)
    if rule.on_device and KERNELS is not None and params and group["foreach"] is not False:
        params = update_natively(params, states, group, rule.on_device, rule.update)
    if rule.gathers and len(params) >= FEWEST and group["foreach"] is not False:
        params = update_many(params, states, group, rule.update, rule.scalars)
    for p in (*params, *sparse) if sparse else params:
        rule.update(p, p.grad, states[p], group)


def update_real(
    name: str, states: Any, group: dict[str, Any], begin: Any, update: Update, on_device: Any
) -> None:
    """Update real parameters by a plain loop; `begin(p, state)` fills the state.

    `on_device(params, states, group)` updates those that kernels of a GPU take, and returns others.
    """
    params = [p for p in group["params"] if p.grad is not None]
    for p in params:
        if p.is_complex():
            raise RuntimeError(f"{name} does not support complex parameters")
        if p.grad.is_sparse:
            raise RuntimeError(f"{name} does not support sparse gradients")
        begin(p, states[p])
    for p in on_device(params, states, group):
        update(p, p.grad, states[p], group)


def from_zeros(rows: dict[str, str], **scalars: float) -> Start:
    """A start at step 0 with zeros in all rows: `Fused.rows`, each with the option it is for."""

    def start(p: Any, group: dict[str, Any]) -> dict[str, Any]:
        state = {"step": new_scalar(0.0, group.get("fused"))}
        state |= {name: new_scalar(value) for name, value in scalars.items()}
        for name, option in rows.items():
            if not option or group[option]:
                state[name] = tg.zeros_like(p, memory_format=tg.preserve_format)
        return state

    return start


def begun(p: Any, grad: Any, state: State, group: dict[str, Any]) -> tuple[Any, Any, State]:
    """The beginning of an update: real numbers, the gradient's sign, and one more step."""
    p, grad, state = as_real(p, grad, state)
    state["step"] += 1
    return p, -grad if group["maximize"] else grad, state


def decayed(p: Any, grad: Any, group: dict[str, Any], lr: Any = None) -> Any:
    """The gradient with the decay of the weights in it; with `lr` they may decay by themselves."""
    if group["weight_decay"] == 0:
        return grad
    if lr is not None and group["decoupled_weight_decay"]:
        p.mul_(1 - lr * group["weight_decay"])
        return grad
    return grad.add(p, alpha=group["weight_decay"])


def as_real(p: Any, grad: Any, state: State) -> tuple[Any, Any, State]:
    """Complex tensors seen as pairs of real numbers, which are updated one by one."""
    if not p.is_complex():
        return p, grad, state
    real = tg.view_as_real
    seen = {k: real(v) if v is not None and v.is_complex() else v for k, v in state.items()}
    return real(p), real(grad), seen


def scalar(value: Any) -> Any:
    """A tensor of one element without dimensions; numbers as they are."""
    return value.reshape(()) if isinstance(value, tg.Tensor) and value.dim() else value


def python_number(value: Any) -> Any:
    """A learning rate or the like as a Python number; one with a history is left to be refused."""
    return value.item() if isinstance(value, tg.Tensor) and not value.requires_grad else value


def new_scalar(value: float, fused: Any = False) -> Any:
    """A number kept in the state: float32, or float64 where that is the default dtype."""
    wide = tg.get_default_dtype() == tg.float64 and not fused
    # On the CPU, wherever the parameters are: it is read in every step.
    return tg.tensor(value, dtype=tg.float64 if wide else tg.float32, device="cpu")


def use_tensor(group: dict[str, Any], state: dict[str, Any], name: str) -> None:
    """Older state dicts hold plain numbers where tensors belong now."""
    for p in group["params"]:
        own = state.get(p, {})
        if name in own and not isinstance(own[name], tg.Tensor):
            own[name] = new_scalar(float(own[name]))


# ------------------------------------------------------------------ checks


def check_options(**options: Any) -> None:
    """PyTorch's checks of what most optimizers take, in the order in which they are given."""
    for name, value in options.items():
        if name == "lr":
            check_one_element(value)
            if not value >= 0.0:
                raise ValueError(f"Invalid learning rate: {value}")
        elif name == "betas":
            for i in range(2):
                if not 0.0 <= value[i] < 1.0:
                    raise ValueError(f"Invalid beta parameter at index {i}: {value[i]}")
        elif not value >= 0.0:
            raise ValueError(f"Invalid {'epsilon' if name == 'eps' else name} value: {value}")


def check_one_element(lr: Any) -> None:
    if isinstance(lr, tg.Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")


def check_fused(fused: Any, foreach: Any, differentiable: bool) -> None:
    if fused:
        if differentiable:
            raise RuntimeError("`fused` does not support `differentiable`")
        if foreach:
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def refuse_sparse(group: dict[str, Any], rule: Rule) -> None:
    message = rule.dense_only or (group.get("fused") and rule.fused_dense_only)
    if message:
        raise RuntimeError(message)


def check_modes(group: dict[str, Any], params: list[Any], rule: Rule) -> None:
    """Refuse combinations of `foreach`, `capturable` and `fused` before anything is updated."""
    foreach = bool(group["foreach"])
    if foreach and group["differentiable"]:
        raise AssertionError("_foreach ops don't support autograd")
    if group.get("capturable") and any(p.device.type == "cpu" for p in params):
        named = rule.captured_foreach if foreach else rule.captured
        devices = ["cuda", "xpu", "hpu", "privateuseone"] + ["xla"] * rule.on_xla[foreach]
        raise AssertionError(
            f"If capturable=True, {named} must be on supported devices: {devices}."
        )
    if group.get("fused"):
        for p in params:
            if not p.is_floating_point() or p.is_meta:
                raise RuntimeError(
                    "`fused=True` requires all the params to be floating point Tensors of "
                    "supported devices: ['mps', 'cuda', 'xpu', 'hpu', 'cpu', 'mtia', "
                    f"'privateuseone'] but {p.dtype} and {p.device.type}"
                )
