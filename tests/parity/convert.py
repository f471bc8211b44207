"""PyTorch values, copied for either library with the same strides, sharing what they shared."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import tapegrad
from tapegrad.core.base import wrap

Storages = dict[int, Any]  # copies of memory, by the address of the original


def to_ours(value: Any, seen: Storages | None = None) -> Any:
    """A PyTorch value as tapegrad's."""
    seen = {} if seen is None else seen
    if isinstance(value, torch.Tensor):
        return our_tensor(value, seen)
    if isinstance(value, torch.Size):
        return tapegrad.Size(value)
    if isinstance(value, (tuple, list)):
        make = getattr(value, "_make", type(value))
        return make([to_ours(v, seen) for v in value])
    if isinstance(value, dict):
        return {k: to_ours(v, seen) for k, v in value.items()}
    if isinstance(value, slice):
        parts = (value.start, value.stop, value.step)
        return slice(*[to_ours(part, seen) for part in parts])
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return getattr(tapegrad, str(value).removeprefix("torch."))
    if isinstance(value, torch.device):
        return tapegrad.device(str(value))
    if isinstance(value, torch.nn.Module):
        return getattr(tapegrad.nn, type(value).__name__)()
    if isinstance(value, torch.Generator):
        made = tapegrad.Generator()
        return made.manual_seed(value.initial_seed())
    return value


def our_tensor(t: torch.Tensor, seen: Storages) -> Any:
    """The whole storage is copied, and looked at in the same way."""
    plain = t.detach()
    if t.is_meta:
        options = {"dtype": tapegrad_dtype(t.dtype), "requires_grad": t.requires_grad}
        return tapegrad.empty_strided(tuple(t.shape), t.stride(), device="meta", **options)
    if plain.is_conj():
        return our_tensor(plain.conj(), seen).conj().requires_grad_(t.requires_grad)
    if plain.is_neg():
        plain = plain.resolve_neg()
    where = plain.untyped_storage().data_ptr()
    if where not in seen:
        seen[where] = memory_of(plain)
    memory = seen[where].view(tapegrad_dtype(plain.dtype).np)
    looked = wrap(memory).as_strided(tuple(plain.shape), plain.stride(), plain.storage_offset())
    made = wrap(looked._array)
    return made.requires_grad_() if t.requires_grad else made


def tapegrad_dtype(dtype: torch.dtype) -> Any:
    return getattr(tapegrad, str(dtype).removeprefix("torch."))


def memory_of(t: torch.Tensor) -> Any:
    """The bytes of a storage, as an array of its own; whole elements of any dtype fit."""
    storage = t.untyped_storage()
    whole = torch.empty(0, dtype=torch.uint8).set_(storage)
    usable = storage.nbytes() // t.element_size() * t.element_size()
    return np.array(whole.numpy()[:usable])


def to_theirs(value: Any, seen: Storages | None = None) -> Any:
    """PyTorch's side gets a copy too, so that neither sees what the other writes."""
    seen = {} if seen is None else seen
    if isinstance(value, torch.Tensor):
        return their_tensor(value, seen)
    if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
        make = getattr(value, "_make", type(value))
        return make([to_theirs(v, seen) for v in value])
    if isinstance(value, dict):
        return {k: to_theirs(v, seen) for k, v in value.items()}
    return value


def their_tensor(t: torch.Tensor, seen: Storages) -> torch.Tensor:
    if t.layout is not torch.strided or t.is_quantized or t.is_meta:
        return t
    plain = t.detach()
    if plain.is_conj():
        return their_tensor(plain.conj(), seen).conj().requires_grad_(t.requires_grad)
    if plain.is_neg():
        plain = plain.resolve_neg()
    where = plain.untyped_storage().data_ptr()
    if where not in seen:
        seen[where] = plain.untyped_storage().clone()
    made = torch.empty(0, dtype=plain.dtype)
    made.set_(seen[where], plain.storage_offset(), plain.shape, plain.stride())
    return made.requires_grad_(t.requires_grad)


def without_values(module: Any, value: Any, seen: dict[Any, Any]) -> Any:
    """A value of either library with its tensors on meta, which have the same strides."""
    if isinstance(value, module.Tensor):
        if module is torch and value.layout is not torch.strided:
            return value
        plain = value.detach()
        if plain.is_conj():
            return without_values(module, plain.conj(), seen).conj()
        plain = plain.resolve_neg()
        storage = plain.untyped_storage()
        key = storage.data_ptr(), plain.dtype
        if key not in seen:
            count = storage.nbytes() // plain.element_size()
            seen[key] = module.empty(count, dtype=plain.dtype, device="meta")
        looked = seen[key].as_strided(tuple(plain.shape), plain.stride(), plain.storage_offset())
        return looked.detach().requires_grad_(value.requires_grad)
    if isinstance(value, module.device):
        return module.device("meta")
    if isinstance(value, (tuple, list)) and not isinstance(value, module.Size):
        make = getattr(value, "_make", type(value))
        return make([without_values(module, v, seen) for v in value])
    if isinstance(value, dict):
        return {k: without_values(module, v, seen) for k, v in value.items()}
    return value
