"""Tensors dealt out to devices, and collected from them; models copied and run side by side."""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from typing import Any

import tapegrad as tg

__all__ = ["gather", "parallel_apply", "replicate", "scatter", "scatter_kwargs"]


def place(device: Any) -> Any:
    """A device, by itself or by its number; -1 is the CPU."""
    if isinstance(device, int):
        return tg.device("cpu") if device < 0 else tg.device("cuda", device)
    return tg.device(device)


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> list[Any]:
    """Parts of the tensors among the inputs, one for each device; other things go to all."""
    if isinstance(inputs, tg.Tensor):
        return [
            part.to(place(d))
            for part, d in zip(inputs.chunk(len(target_gpus), dim), target_gpus, strict=False)
        ]
    if isinstance(inputs, tuple) and hasattr(inputs, "_fields"):
        return [
            type(inputs)(*each)
            for each in zip(*scatter_each(inputs, target_gpus, dim), strict=False)
        ]
    if isinstance(inputs, (tuple, list)) and inputs:
        return [
            type(inputs)(each)
            for each in zip(*scatter_each(inputs, target_gpus, dim), strict=False)
        ]
    if isinstance(inputs, dict) and inputs:
        parts = zip(*scatter_each(inputs.values(), target_gpus, dim), strict=False)
        return [type(inputs)(zip(inputs, each, strict=True)) for each in parts]
    return [inputs for _ in target_gpus]


def scatter_each(values: Any, target_gpus: Sequence[Any], dim: int) -> list[list[Any]]:
    return [scatter(value, target_gpus, dim) for value in values]


def scatter_kwargs(
    inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, target_gpus: Sequence[Any], dim: int = 0
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """Spread positional and keyword arguments of a call over devices; as many tuples as dicts."""
    places = scatter(inputs, target_gpus, dim) if inputs else []
    names = scatter(kwargs, target_gpus, dim) if kwargs else []
    count = max(len(places), len(names))
    places += [()] * (count - len(places))
    names += [{}] * (count - len(names))
    return tuple(places), tuple(names)


def gather(outputs: Sequence[Any], target_device: Any, dim: int = 0) -> Any:
    """Results of several devices put together on one."""
    first = outputs[0]
    if isinstance(first, tg.Tensor):
        moved = [out.to(place(target_device)) for out in outputs]
        if first.dim() == 0:
            return tg.stack(moved)
        return tg.cat(moved, dim)
    if first is None:
        return None
    if isinstance(first, dict):
        return type(first)(
            (name, gather([out[name] for out in outputs], target_device, dim)) for name in first
        )
    collected = [gather(each, target_device, dim) for each in zip(*outputs, strict=True)]
    return type(first)(*collected) if hasattr(first, "_fields") else type(first)(collected)


def replicate(network: Any, devices: Sequence[Any], detach: bool = False) -> list[Any]:
    """Copies of a model on devices, whose gradients go back to the one that was copied."""
    made = []
    for device in devices:
        twin = copy.deepcopy(network)
        for source, target in zip(network.modules(), twin.modules(), strict=True):
            for name, p in source._parameters.items():
                if p is not None:
                    del target._parameters[name]
                    setattr(target, name, (p.detach() if detach else p).to(place(device)))
        made.append(twin.to(place(device)))
    return made


def parallel_apply(
    modules: Sequence[Any],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """Each module applied to its inputs, in a thread of its own."""
    if len(modules) != len(inputs):
        raise AssertionError(f"Expected {len(modules)} inputs, got {len(inputs)}")
    options = kwargs_tup or [{}] * len(modules)
    recorded = tg.is_grad_enabled()
    results: list[Any] = [None] * len(modules)

    def run(i: int) -> None:
        given = inputs[i] if isinstance(inputs[i], (tuple, list)) else (inputs[i],)
        try:
            with tg.set_grad_enabled(recorded):
                results[i] = modules[i](*given, **options[i])
        except Exception as error:
            results[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(modules))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results
