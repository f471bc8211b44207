"""Saved values as users get them before they are unpacked: `grad_fn._raw_saved_self`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.node import Packed

FREED = (
    "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values "
    "of the graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to "
    "access saved variables after calling backward."
)


class SavedTensor:
    """A saved value: hooks can be put on it.

    `look` gives the tensor, None, or what hooks made of it; `replace(pack, unpack)` calls the
    hooks; `freed` says whether the graph has let go of the value.
    """

    def __init__(
        self,
        look: Callable[[], Any] | None = None,
        replace: Callable[[Any, Any], None] | None = None,
        freed: Callable[[], bool] | None = None,
    ) -> None:
        if look is None or replace is None or freed is None:
            raise RuntimeError("Trying to create a SavedTensor object from Python is forbidden.")
        self.look = look
        self.replace = replace
        self.freed = freed

    @property
    def data(self) -> Any:
        """The saved tensor, or what the pack hook made of it."""
        found = self.look()
        return found.value if isinstance(found, Packed) else found

    @property
    def unpack_hook(self) -> Any:
        found = self.look()
        return found.unpack if isinstance(found, Packed) else None

    def register_hooks(self, pack_hook: Any = None, unpack_hook: Any = None) -> None:
        """Replace the saved tensor by `pack_hook(tensor)` until `unpack_hook` gives it back."""
        if not (callable(pack_hook) and callable(unpack_hook)):
            raise TypeError(
                "register_hooks(): incompatible function arguments. The following argument types "
                "are supported:\n    (pack_hook: Callable, unpack_hook: Callable)"
            )
        if self.freed():
            raise RuntimeError(FREED)
        found = self.look()
        if found is None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor with value None is forbidden"
            )
        if isinstance(found, Packed):
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: "
                "only one pair of hooks is allowed at a time."
            )
        self.replace(pack_hook, unpack_hook)
