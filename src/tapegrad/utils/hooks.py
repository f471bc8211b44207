"""Handles of registered hooks, and what happens to hooks when tensors are pickled."""

from __future__ import annotations

from typing import Any

from ..autograd.hooks import RemovableHandle
from ..core.warned import warn
from ..nn.modules._backward_hooks import BackwardHook

__all__ = ["BackwardHook", "RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]


def unserializable_hook(f: Any) -> Any:
    """Mark a hook that pickling leaves behind with a warning; gives the hook."""
    f.__torch_unserializable__ = True
    return f


def warn_if_has_hooks(tensor: Any) -> None:
    """Warn of each hook of a tensor that pickling leaves behind without having been told so."""
    for hook in (getattr(tensor, "_backward_hooks", None) or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warn(
                f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, "
                "you can decorate the function with @torch.utils.hooks.unserializable_hook to "
                "suppress this warning",
            )
