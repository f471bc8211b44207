"""Modules as functions of their parameters and buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tapegrad as tg

from ..nn.utils import stateless


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with the given tensors in the place of its own.

    >>> layer = nn.Linear(1, 1)
    >>> torch.func.functional_call(layer, {"weight": ones(1, 1), "bias": ones(1)}, ones(1, 1))
    tensor([[2.]])
    """
    given = parameter_and_buffer_dicts
    if isinstance(given, (list, tuple)):
        if not all([isinstance(each, dict) for each in given]):
            raise ValueError(
                "Expected all elements of parameter_and_buffer_dicts to be dictionaries"
            )
        merged: dict[str, Any] = {}
        twice = [key for i, each in enumerate(given) for key in each if keyed(given[:i], key)]
        if twice:
            raise ValueError(
                f"{twice} appeared in multiple dictionaries; behavior of functional call is "
                "ambiguous"
            )
        for each in given:
            merged |= each
        given = merged
    elif not isinstance(given, dict):
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(given)}"
        )
    return stateless._functional_call(
        module, given, args, kwargs, tie_weights=tie_weights, strict=strict
    )


def keyed(dicts: Sequence[dict[str, Any]], key: str) -> bool:
    return any([key in each for each in dicts])


def stack_module_state(models: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the buffers of several models of one kind, stacked by name.

    >>> parameters, buffers = torch.func.stack_module_state([nn.Linear(2, 3), nn.Linear(2, 3)])
    >>> parameters["weight"].shape
    torch.Size([2, 3, 2])
    """
    if len(models) == 0:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if any([model.training != models[0].training for model in models]):
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    if any([type(model) is not type(models[0]) for model in models]):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters, buffers = (
        {name: stacked(name, [dict(getattr(m, named)())[name] for m in models]) for name in names}
        for named, names in (
            ("named_parameters", [n for n, _ in models[0].named_parameters()]),
            ("named_buffers", [n for n, _ in models[0].named_buffers()]),
        )
    )
    return parameters, buffers


def stacked(name: str, tensors: list[Any]) -> Any:
    """A leaf that requires a gradient if the tensors do."""
    wanted = tensors[0].requires_grad
    if any([t.requires_grad != wanted for t in tensors]):
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    return tg.stack([t.detach() for t in tensors]).requires_grad_(wanted)


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Let all batch norms inside a module go without running statistics, which vmap cannot update.

    >>> model = nn.Sequential(nn.BatchNorm1d(2))
    >>> torch.func.replace_all_batch_norm_modules_(model)[0].running_mean is None
    True
    """
    for module in root.modules():
        if isinstance(module, tg.nn.modules.batchnorm._BatchNorm):
            module.running_mean = None
            module.running_var = None
            module.num_batches_tracked = None
            module.track_running_stats = False
    return root
