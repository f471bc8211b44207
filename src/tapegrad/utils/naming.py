"""Names of types in PyTorch's messages."""

from __future__ import annotations

from typing import Any

import tapegrad as tg


def typename(obj: Any) -> str:
    """The type of `obj` as PyTorch's messages spell it.

    >>> from tapegrad.utils.naming import typename
    >>> typename(3), typename(tensor([1.0])), typename(nn.ReLU())
    ('int', 'torch.FloatTensor', 'torch.nn.modules.activation.ReLU')
    """
    if isinstance(obj, tg.Tensor):
        return str(obj.type())
    cls = obj if isinstance(obj, type) or hasattr(obj, "__qualname__") else type(obj)
    module = cls.__module__
    if module in ("builtins", "", None):
        return cls.__qualname__
    return f"{public_module(module)}.{cls.__qualname__}"


def public_module(module: str) -> str:
    """`tapegrad.nn.modules` -> `torch.nn.modules`: the name under which programs know it."""
    head, dot, rest = module.partition(".")
    return f"torch{dot}{rest}" if head == "tapegrad" else module
