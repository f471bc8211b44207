"""The package `functorch`, which torch.func comes from: transforms, and modules as functions."""

from __future__ import annotations

from typing import Any

from tapegrad.func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "make_functional",
    "make_functional_with_buffers",
    "stack_module_state",
    "vjp",
    "vmap",
]


class FunctionalModuleWithBuffers:
    """A module as a function of its parameters, its buffers and its inputs."""

    def __init__(self, model: Any) -> None:
        self.stateless_model = model
        self.param_names = [name for name, _ in model.named_parameters()]
        self.buffer_names = [name for name, _ in model.named_buffers()]

    def __call__(self, params: Any, buffers: Any, *args: Any, **kwargs: Any) -> Any:
        given = dict(zip(self.param_names, params, strict=True))
        given |= dict(zip(self.buffer_names, buffers, strict=True))
        return functional_call(self.stateless_model, given, args, kwargs)


class FunctionalModule(FunctionalModuleWithBuffers):
    """A module without buffers as a function of its parameters and inputs."""

    def __call__(self, params: Any, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(params, (), *args, **kwargs)


def parameters_of(model: Any, detached: bool) -> tuple[Any, ...]:
    return tuple(p.detach() if detached else p for p in model.parameters())


def make_functional_with_buffers(model: Any, disable_autograd_tracking: bool = False) -> Any:
    """The function of a module, its parameters, and its buffers."""
    parameters = parameters_of(model, disable_autograd_tracking)
    return FunctionalModuleWithBuffers(model), parameters, tuple(model.buffers())


def make_functional(model: Any, disable_autograd_tracking: bool = False) -> Any:
    """The function of a module without buffers, and its parameters."""
    if any(True for _ in model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use "
            "make_functional_with_buffers(model) instead."
        )
    return FunctionalModule(model), parameters_of(model, disable_autograd_tracking)
