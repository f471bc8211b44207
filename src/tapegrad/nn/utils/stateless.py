"""A module called with other tensors in the place of its parameters and buffers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tapegrad as tg

from ...utils.deprecation import old_name
from ..modules.module import Module

__all__ = ["functional_call"]


def untied(module: Module, given: dict[str, Any]) -> dict[str, Any]:
    """The given tensors under all names that the module knows them by."""
    names: dict[int, list[str]] = {}
    for members in (
        module.named_parameters(remove_duplicate=False),
        module.named_buffers(remove_duplicate=False),
    ):
        for name, tensor in members:
            names.setdefault(id(tensor), []).append(name)
    groups = {name: group for group in names.values() for name in group}
    found = dict(given)
    for name, tensor in given.items():
        for other in groups.get(name, ()):
            if found.setdefault(other, tensor) is not tensor:
                both = sorted([n for n in groups[name] if n in given])
                raise ValueError(
                    f"functional_call got multiple values for keys {both}, which are tied. "
                    "Consider using tie_weights=False"
                )
    return found


def check_keys(module: Module, given: dict[str, Any]) -> None:
    """All keys of the module, and no others."""
    members = [*module.named_parameters(remove_duplicate=False)]
    members += module.named_buffers(remove_duplicate=False)
    known = [name for name, _ in members]
    unexpected = [repr(name) for name in sorted(given) if name not in known]
    missing = [repr(name) for name in sorted(known) if name not in given]
    if not unexpected and not missing:
        return
    message = f"Error(s) in reparametrizing for {module._get_name()}:"
    for kind, keys in (("Unexpected", unexpected), ("Missing", missing)):
        if keys:
            message += f"\n\t{kind} key(s): {', '.join(keys)}."
    raise RuntimeError(message)


class Place:
    """Where a module keeps the tensor of a given path."""

    def __init__(self, module: Module, path: str) -> None:
        prefix, _, self.name = path.rpartition(".")
        self.owner = module.get_submodule(prefix)
        own = self.owner.__dict__
        self.table: dict[str, Any] | None = None
        for where in ("_parameters", "_buffers"):
            if self.name in own[where]:
                self.table = own[where]

    def put(self, tensor: Any) -> None:
        """Past the checks of `setattr`: any tensor may stand in for a parameter."""
        if self.table is not None:
            self.table[self.name] = tensor
        else:
            setattr(self.owner, self.name, tensor)

    def take(self) -> Any:
        if self.table is not None:
            return self.table[self.name]
        return getattr(self.owner, self.name, None)

    def drop(self, tensor: Any) -> None:
        """Put back what was there, perhaps nothing."""
        if self.table is None and tensor is None:
            delattr(self.owner, self.name)
        else:
            self.put(tensor)


@contextlib.contextmanager
def _reparametrize_module(
    module: Module,
    parameters_and_buffers: dict[str, Any],
    tie_weights: bool = False,
    strict: bool = False,
) -> Iterator[None]:
    given = parameters_and_buffers
    tensors = untied(module, given) if tie_weights else dict(given)
    if strict:
        check_keys(module, tensors)
    for tensor in tensors.values():
        if tensor is not None and not isinstance(tensor, tg.Tensor):
            raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    places = {name: Place(module, name) for name in tensors}
    before = {name: place.take() for name, place in places.items()}
    for place, old in zip(places.values(), before.values(), strict=True):
        if old is not None and not isinstance(old, tg.Tensor):
            raise TypeError(f"attribute `{place.name}`: {old} is not an instance of torch.Tensor")
    try:
        for name, place in places.items():
            place.put(tensors[name])
        yield
    finally:
        for name, place in places.items():
            if name in given:
                # Buffers that the call replaced are found in the dict afterwards.
                given[name] = place.take()
            place.drop(before[name])


def _functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Any],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with _reparametrize_module(module, parameters_and_buffers, tie_weights, strict):
        return module(*args, **({} if kwargs is None else kwargs))


functional_call = old_name(
    "functional_call",
    _functional_call,
    "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be "
    "removed in a future version of PyTorch. Please use `torch.func.functional_call` instead "
    "which is a drop-in replacement.",
)
