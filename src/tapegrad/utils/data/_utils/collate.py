"""From a list of samples to a batch: numbers become tensors, tensors are stacked, containers stay.

A batch function is looked up by the class of the first sample, then by isinstance, in a table
that programs may extend: `default_collate_fn_map`.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

import tapegrad as tg

from ....errors import slips
from . import worker

np_str_obj_array_pattern = re.compile(r"[SaUO]")
default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)

CollateMap = dict[type | tuple[type, ...], Callable[..., Any]]


def _like_mapping(original: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """`items` in a mapping of the class of `original`; a dict, where that cannot be built so."""
    try:
        if isinstance(original, MutableMapping):
            # A copy also carries over what a subclass adds, such as a default factory.
            clone = copy.copy(original)
            clone.update(items)
            return clone
        return type(original)(items)  # type: ignore[call-arg]
    except TypeError:
        return items


def _like_sequence(original: Sequence[Any], items: list[Any]) -> Any:
    """`items` in a sequence of the class of `original`; a list, where that cannot be built so."""
    try:
        if isinstance(original, MutableSequence):
            clone = copy.copy(original)
            for i, item in enumerate(items):
                clone[i] = item
            return clone
        return type(original)(items)  # type: ignore[call-arg]
    except TypeError:
        return items


def _is_namedtuple(value: object) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def default_convert(data: Any) -> Any:
    """NumPy arrays and scalars as tensors, also inside containers; everything else as it is.

    >>> default_convert([np.array([0, 1]), "a"])
    [tensor([0, 1]), 'a']
    """
    kind = type(data)
    if isinstance(data, tg.Tensor):
        return data
    if kind.__module__ == "numpy" and kind is not np.str_:
        if kind is np.ndarray and np_str_obj_array_pattern.search(data.dtype.str):
            return data
        return tg.as_tensor(data)
    if isinstance(data, Mapping):
        return _like_mapping(data, {key: default_convert(data[key]) for key in data})
    if _is_namedtuple(data):
        return kind(*[default_convert(item) for item in data])
    if isinstance(data, tuple):
        return [default_convert(item) for item in data]
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _like_sequence(data, [default_convert(item) for item in data])
    return data


def collate(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """A batch of samples: by the functions of `collate_fn_map`, and container by container.

    >>> collate([{"a": 1}, {"a": 2}], collate_fn_map={int: lambda b, collate_fn_map: sum(b)})
    {'a': 3}
    """
    first = batch[0]
    kind = type(first)
    if collate_fn_map is not None:
        if kind in collate_fn_map:
            return collate_fn_map[kind](batch, collate_fn_map=collate_fn_map)
        for known, function in collate_fn_map.items():
            if isinstance(first, known):
                return function(batch, collate_fn_map=collate_fn_map)

    def column(samples: Any) -> Any:
        return collate(samples, collate_fn_map=collate_fn_map)

    if isinstance(first, Mapping):
        items = {key: column([sample[key] for sample in batch]) for key in first}
        return _like_mapping(first, items)
    if _is_namedtuple(first):
        return kind(*[column(samples) for samples in zip(*batch, strict=False)])
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [column(samples) for samples in zip(*batch, strict=True)]
        # A plain tuple becomes a list: so it has always been.
        return columns if isinstance(first, tuple) else _like_sequence(first, columns)
    error = TypeError(default_collate_err_msg_format.format(kind))
    slips.explain_batch(error, batch)
    raise error


def collate_tensor_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Tensors, stacked."""
    try:
        stacked = tg.stack(batch, 0)
    except RuntimeError as error:
        if str(error).startswith("stack expects"):
            slips.explain_batch(error, batch)
        raise
    if stacked.requires_grad and worker.get_worker_info() is not None:
        # PyTorch writes the batch of a worker into shared memory; a graph cannot leave a process.
        raise RuntimeError(
            "stack(): functions with out=... arguments don't support automatic differentiation, "
            "but one of the arguments requires grad."
        )
    return stacked


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """NumPy arrays, as tensors, stacked."""
    dtype = batch[0].dtype
    if np_str_obj_array_pattern.search(dtype.str):
        raise TypeError(default_collate_err_msg_format.format(dtype))
    return collate([tg.as_tensor(b) for b in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """NumPy scalars, as one tensor."""
    return tg.as_tensor(batch)


def collate_float_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Python floats, as one float64 tensor."""
    return tg.tensor(batch, dtype=tg.float64)


def collate_int_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Python integers, as one tensor."""
    return tg.tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Texts, as they are."""
    return batch


default_collate_fn_map: CollateMap = {
    tg.Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch: Any) -> Any:
    """A batch of samples, as the loader makes it by default.

    >>> default_collate([(1, "a"), (2, "b")])
    [tensor([1, 2]), ('a', 'b')]
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
