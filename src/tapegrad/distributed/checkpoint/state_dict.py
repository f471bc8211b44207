"""State dicts of models and optimizers in the form that checkpoints take."""

from __future__ import annotations

import dataclasses
from typing import Any

__all__ = [
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]


@dataclasses.dataclass
class StateDictOptions:
    """How a state dict is wanted."""

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False


def inner(model: Any) -> Any:
    """The model without the wrapper of DDP, whose names are not part of a checkpoint."""
    from ...nn.parallel import DistributedDataParallel

    return model.module if isinstance(model, DistributedDataParallel) else model


def get_model_state_dict(model: Any, *, submodules: Any = None, options: Any = None) -> Any:
    return inner(model).state_dict()


def get_optimizer_state_dict(
    model: Any, optimizers: Any, *, submodules: Any = None, options: Any = None
) -> Any:
    return optimizers.state_dict()


def get_state_dict(
    model: Any, optimizers: Any, *, submodules: Any = None, options: Any = None
) -> tuple[Any, Any]:
    """(of the model, of the optimizer)"""
    return get_model_state_dict(model), get_optimizer_state_dict(model, optimizers)


def set_model_state_dict(model: Any, model_state_dict: Any, *, options: Any = None) -> Any:
    strict = True if options is None else options.strict
    return inner(model).load_state_dict(model_state_dict, strict=strict)


def set_optimizer_state_dict(
    model: Any, optimizers: Any, optim_state_dict: Any, *, options: Any = None
) -> None:
    optimizers.load_state_dict(optim_state_dict)


def set_state_dict(
    model: Any,
    optimizers: Any,
    *,
    model_state_dict: Any,
    optim_state_dict: Any,
    options: Any = None,
) -> Any:
    set_optimizer_state_dict(model, optimizers, optim_state_dict)
    return set_model_state_dict(model, model_state_dict, options=options)
