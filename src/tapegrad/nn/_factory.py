"""The arguments of a layer that say how its parameters are made."""

from __future__ import annotations

from typing import Any

SIMPLE = ("device", "dtype", "memory_format")


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """The keyword arguments that a layer hands to `empty` and the like; others are refused.

    >>> nn.factory_kwargs({"dtype": float64})
    {'dtype': torch.float64}
    """
    if kwargs is None:
        return {}
    unknown = kwargs.keys() - {*SIMPLE, "factory_kwargs"}
    if unknown:
        raise TypeError(f"unexpected kwargs {unknown}")
    found = dict(kwargs.get("factory_kwargs", {}))
    for name in SIMPLE:
        if name in kwargs:
            if name in found:
                raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
            found[name] = kwargs[name]
    return found
