"""The state of an optimizer of FSDP's flat vectors, by the names of the module without FSDP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tapegrad as tg

from .._shards import FlatShard
from .._spreading import all_gather_into_tensor
from .api import StateDictType


def named(model: Any) -> Iterator[tuple[Any, list[str]]]:
    """(a unit that has parameters, their names)"""
    from .fully_sharded_data_parallel import clean, join

    for unit in model._units():
        if unit._flat_param is not None:
            prefix = join(model._path_of(unit), "")
            yield unit, [prefix + clean(path) for _, _, path, _ in unit._places]


def whole(unit: Any, value: Any) -> Any:
    """The vector of which this rank has `value`."""
    if unit._parts == 1:
        return value
    full = value.new_empty(unit._each * unit._parts)
    all_gather_into_tensor(full, value, unit.process_group)
    return full


def is_spread(unit: Any, value: Any) -> bool:
    """Whether a state has a number for each one of the vector (moments), or one for all (step)."""
    return isinstance(value, tg.Tensor) and value.shape == unit._flat_param.shape


def get(model: Any, optim: Any, kind: StateDictType) -> dict[str, Any]:
    """Whole tensors, or this rank's parts of them."""
    state: dict[str, dict[str, Any]] = {}
    names_of: dict[int, list[str]] = {}
    for unit, names in named(model):
        names_of[id(unit._flat_param)] = names
        for key, value in optim.state.get(unit._flat_param, {}).items():
            if not is_spread(unit, value):
                for name in names:
                    state.setdefault(name, {})[key] = value
            elif kind is StateDictType.FULL_STATE_DICT:
                views = unit._views(whole(unit, value.detach()))
                for name, (_, _, view) in zip(names, views, strict=False):
                    state.setdefault(name, {})[key] = view.clone()
            else:
                paths = [path for _, _, path, _ in unit._places]
                for path, piece in model._pieces(unit, value.detach()):
                    state.setdefault(names[paths.index(path)], {})[key] = piece
    groups = []
    for group in optim.param_groups:
        params = [name for p in group["params"] for name in names_of.get(id(p), [])]
        groups.append({**{k: v for k, v in group.items() if k != "params"}, "params": params})
    return {"state": state, "param_groups": groups}


def to_load(model: Any, optim: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The argument for `optim.load_state_dict`: this rank's parts, cut from whole tensors or taken
    from parts.
    """
    places = [p for group in optim.param_groups for p in group["params"]]
    state: dict[int, dict[str, Any]] = {}
    for unit, names in named(model):
        number = next((i for i, p in enumerate(places) if p is unit._flat_param), None)
        if number is None:
            continue
        paths = [path for _, _, path, _ in unit._places]
        shapes = [shape for _, _, _, shape in unit._places]
        local: dict[str, Any] = {}
        for name, shape in zip(names, shapes, strict=True):
            for key, value in given["state"].get(name, {}).items():
                size = tuple(value.shape) if isinstance(value, (tg.Tensor, FlatShard)) else None
                if key == "step" or size is None:
                    local.setdefault(key, value)
                elif size == tuple(shape):
                    local.setdefault(key, tg.zeros_like(unit._flat_param.detach()))
                else:
                    raise ValueError(f"{key} of {name} is {size}, the parameter {tuple(shape)}")
        for key, vector in local.items():
            if not is_spread(unit, vector):
                continue
            for path, piece in model._pieces(unit, vector):
                found = given["state"][names[paths.index(path)]][key]
                if isinstance(found, FlatShard):
                    piece.local.copy_(found.local)
                else:
                    end = piece.start + piece.numel()
                    piece.local.copy_(found.detach().reshape(-1)[piece.start : end])
        if local:
            state[number] = local
    groups, start = [], 0
    for group, saved in zip(optim.param_groups, given["param_groups"], strict=True):
        params = list(range(start, start + len(group["params"])))
        groups.append({**{k: v for k, v in saved.items() if k != "params"}, "params": params})
        start += len(params)
    return {"state": state, "param_groups": groups}
