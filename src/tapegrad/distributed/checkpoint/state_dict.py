"""State dicts of models and optimizers in the form that checkpoints take: all by name."""

from __future__ import annotations

import dataclasses
from typing import Any

import tapegrad as tg

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
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def inner(model: Any) -> Any:
    """The model without the wrapper of DDP, whose names are not part of a checkpoint."""
    from ...nn.parallel import DistributedDataParallel

    return model.module if isinstance(model, DistributedDataParallel) else model


def is_sharded(model: Any) -> bool:
    from ..fsdp import FullyShardedDataParallel

    return isinstance(model, FullyShardedDataParallel)


def sharding(model: Any, options: Any) -> Any:
    """Inside, FSDP gives parts, or whole tensors if that is asked for."""
    from ..fsdp import FullyShardedDataParallel as FSDP
    from ..fsdp import StateDictType

    whole = options is not None and options.full_state_dict
    kind = StateDictType.FULL_STATE_DICT if whole else StateDictType.SHARDED_STATE_DICT
    return FSDP.state_dict_type(model, kind)


def on_cpu(tree: Any, options: Any) -> Any:
    if options is None or not options.cpu_offload:
        return tree
    if isinstance(tree, dict):
        return {key: on_cpu(value, options) for key, value in tree.items()}
    return tree.cpu() if isinstance(tree, tg.Tensor) else tree


def get_model_state_dict(model: Any, *, submodules: Any = None, options: Any = None) -> Any:
    """The state of a model; of FSDP in parts, unless the options say otherwise."""
    if is_sharded(model):
        with sharding(model, options):
            return on_cpu(model.state_dict(), options)
    model = inner(model)
    state = model.state_dict()
    if options is not None and options.ignore_frozen_params:
        frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
        state = {name: value for name, value in state.items() if name not in frozen}
    return on_cpu(state, options)


def fill(optimizer: Any) -> None:
    """Let an optimizer that has not stepped yet make its state: a step that changes nothing."""
    if optimizer.state:
        return
    params = [p for group in optimizer.param_groups for p in group["params"]]
    if any(p.grad is not None for p in params):
        raise RuntimeError(
            "state_dict can only be used if the optimizer states are initialized (usually after "
            "one step() with gradients) or gradients are None."
        )
    rates = [group["lr"] for group in optimizer.param_groups]
    for p in params:
        if p.requires_grad:
            p.grad = tg.zeros_like(p)
    for group in optimizer.param_groups:
        group["lr"] = tg.tensor(0.0) if isinstance(group["lr"], tg.Tensor) else 0.0
    optimizer.step()
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)


def get_optimizer_state_dict(
    model: Any, optimizers: Any, *, submodules: Any = None, options: Any = None
) -> Any:
    """The state of an optimizer, or of several of one model, by the names of the parameters."""
    made: dict[str, Any] = {"state": {}, "param_groups": []}
    for optimizer in listed(optimizers):
        fill(optimizer)
        if is_sharded(model):
            from ..fsdp import FullyShardedDataParallel as FSDP

            with sharding(model, options):
                found = FSDP.optim_state_dict(model, optimizer)
        else:
            found = optimizer.state_dict()
            names = names_of(model, optimizer)
            found = {
                "state": {names[i]: state for i, state in found["state"].items()},
                "param_groups": [
                    {**group, "params": [names[i] for i in group["params"]]}
                    for group in found["param_groups"]
                ],
            }
        made["state"].update(found["state"])
        made["param_groups"] += found["param_groups"]
    return on_cpu(made, options)


def listed(optimizers: Any) -> list[Any]:
    return list(optimizers) if isinstance(optimizers, (list, tuple)) else [optimizers]


def names_of(model: Any, optimizer: Any) -> list[str]:
    """The names of an optimizer's parameters, in its order."""
    names = {id(p): name for name, p in inner(model).named_parameters()}
    return [names[id(p)] for group in optimizer.param_groups for p in group["params"]]


def get_state_dict(
    model: Any, optimizers: Any, *, submodules: Any = None, options: Any = None
) -> tuple[Any, Any]:
    """(of the model, of the optimizer)"""
    return (
        get_model_state_dict(model, options=options),
        get_optimizer_state_dict(model, optimizers, options=options),
    )


def set_model_state_dict(model: Any, model_state_dict: Any, *, options: Any = None) -> Any:
    strict = True if options is None else options.strict
    return inner(model).load_state_dict(model_state_dict, strict=strict)


def set_optimizer_state_dict(
    model: Any, optimizers: Any, optim_state_dict: Any, *, options: Any = None
) -> None:
    """Give optimizers the state that `get_optimizer_state_dict` gave."""
    groups = iter(optim_state_dict["param_groups"])
    for optimizer in listed(optimizers):
        own = {
            "state": optim_state_dict["state"],
            "param_groups": [next(groups) for _ in optimizer.param_groups],
        }
        if is_sharded(model):
            from ..fsdp import FullyShardedDataParallel as FSDP

            FSDP.optim_state_dict_to_load(model, optimizer, own, load_directly=True)
            continue
        names = names_of(model, optimizer)
        start, numbered = 0, []
        for group, saved in zip(optimizer.param_groups, own["param_groups"], strict=True):
            params = list(range(start, start + len(group["params"])))
            numbered.append({**saved, "params": params})
            start += len(params)
        state = {i: own["state"][name] for i, name in enumerate(names) if name in own["state"]}
        optimizer.load_state_dict({"state": state, "param_groups": numbered})


def set_state_dict(
    model: Any,
    optimizers: Any,
    *,
    model_state_dict: Any,
    optim_state_dict: Any,
    options: Any = None,
) -> Any:
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)
