"""`__torch_function__`: objects that answer torch functions themselves.

Subclasses of Tensor are asked in core/subclass.py. Objects that are no tensors are asked when a
function finds them among its arguments, which costs nothing as long as there are none.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable
from typing import Any

import tapegrad as tg

from .core.base import TensorBase
from .core.modes import MODES
from .core.subclass import takes_part

__all__ = [
    "get_default_nowrap_functions",
    "get_overridable_functions",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]


def has_torch_function_unary(value: Any) -> bool:
    """Whether a value wants to answer torch functions itself."""
    if isinstance(value, TensorBase):
        return takes_part(type(value)) and not MODES.subclasses_off
    return hasattr(type(value), "__torch_function__")


def has_torch_function_variadic(*values: Any) -> bool:
    """Whether one of the arguments does."""
    return any(map(has_torch_function_unary, values))


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether one of the values does.

    >>> torch.overrides.has_torch_function((torch.ones(1), 2))
    False
    """
    return any(map(has_torch_function_unary, relevant_args))


def is_tensor_like(inp: Any) -> bool:
    """Whether this is a tensor, or something that answers torch functions."""
    return isinstance(inp, TensorBase) or hasattr(inp, "__torch_function__")


def one_per_class(values: Iterable[Any]) -> list[Any]:
    """One value per class, subclasses before the classes that they extend."""
    found: list[Any] = []
    for value in values:
        cls = type(value)
        if not hasattr(cls, "__torch_function__") or any(type(f) is cls for f in found):
            continue
        place = next((i for i, f in enumerate(found) if issubclass(cls, type(f))), len(found))
        found.insert(place, value)
    return found


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Let the values answer `public_api(*args, **kwargs)`, the first that does."""
    asked = one_per_class(relevant_args)
    kinds = tuple(type(value) for value in asked)
    for value in asked:
        answer = value.__torch_function__(public_api, kinds, args, kwargs)
        if answer is not NotImplemented:
            return answer
    name = resolve_name(public_api) or f"{public_api.__module__}.{public_api.__name__}"
    raise TypeError(
        f"no implementation found for '{name}' on types that implement __torch_function__: "
        f"{list(kinds)}"
    )


def wrap_torch_function(dispatcher: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator: the function asks the arguments that `dispatcher` names before it runs."""

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return decorate


@functools.cache
def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """The functions that ask their arguments, by the module or class that has them."""
    found: dict[Any, list[Callable[..., Any]]] = {}
    for owner in (tg, tg.nn.functional, tg.linalg, tg.fft, tg.special, tg.Tensor):
        names = [n for n in dir(owner) if not n.startswith("_")]
        functions = [getattr(owner, n, None) for n in names]
        found[owner] = [f for f in functions if isinstance(f, types.FunctionType)]
    return found


def is_tensor_method_or_property(func: Any) -> bool:
    """Whether a function belongs to Tensor."""
    qualified = getattr(func, "__qualname__", "")
    return qualified.startswith("Tensor.") or getattr(func, "__name__", "") == "__get__"


def resolve_name(f: Any) -> str | None:
    """The public name of a function: `torch.add`, `torch.Tensor.add`; None for others."""
    module = getattr(f, "__module__", None) or ""
    name = getattr(f, "__qualname__", None) or getattr(f, "__name__", "")
    head, _, rest = module.partition(".")
    if head not in ("tapegrad", "torch"):
        return None
    return ".".join(filter(None, ["torch", rest, name]))


def get_default_nowrap_functions() -> set[Any]:
    """What `Tensor.__torch_function__` does not convert: fields that are tensors of their own."""
    fields = (vars(tg.Tensor).get(name) for name in ("_base", "grad", "_grad"))
    return {f.__get__ for f in fields if f is not None}


def ask_foreign(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The answer of an argument that is no tensor; NotImplemented if there is none to ask."""
    values = [*args, *kwargs.values()]
    values += [v for value in values if isinstance(value, (list, tuple)) for v in value]
    foreign = [v for v in values if not isinstance(v, (TensorBase, type))]
    if not has_torch_function(foreign):
        return NotImplemented
    asked = [v for v in values if not isinstance(v, type) and has_torch_function_unary(v)]
    return handle_torch_function(function, asked, *args, **kwargs)
