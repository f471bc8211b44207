"""Parametrizations: a parameter that is computed from others each time it is asked for.

The module gets a class of its own, `Parametrized…`, with a property in the place of the tensor;
what the tensor is computed from is kept in `module.parametrizations`.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from typing import Any

import tapegrad as tg

from ..modules.container import ModuleDict, ModuleList
from ..modules.module import Module
from ..parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

_cache_enabled = 0
_cache: dict[tuple[int, str], Any] = {}


@contextlib.contextmanager
def cached() -> Iterator[None]:
    """Inside this, each parametrized tensor is computed once.

    >>> class Symmetric(nn.Module):
    ...     def forward(self, w):
    ...         return w.triu() + w.triu(1).T
    >>> layer = nn.Linear(2, 2)
    >>> nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    ParametrizedLinear(
      in_features=2, out_features=2, bias=True
      (parametrizations): ModuleDict(
        (weight): ParametrizationList(
          (0): Symmetric()
        )
      )
    )
    >>> with nn.utils.parametrize.cached():
    ...     print(layer.weight is layer.weight)
    True
    >>> layer.weight is layer.weight
    False
    """
    global _cache_enabled
    _cache_enabled += 1
    try:
        yield
    finally:
        _cache_enabled -= 1
        if not _cache_enabled:
            _cache.clear()


def _register_parameter_or_buffer(module: Module, name: str, X: Any) -> None:  # noqa: N803
    if isinstance(X, Parameter):
        module.register_parameter(name, X)
    else:
        module.register_buffer(name, X)


def _maybe_set(dest: Any, src: Any) -> None:
    """Give a tensor another one's values, also of another shape."""
    if dest is not src:
        dest.set_(src)


def must_be_tensor(value: Any) -> None:
    if not isinstance(value, tg.Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(value).__name__}.")


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, in the order of application, and what they start from:
    `original`, or `original0`, `original1` … if there are several.

    >>> layer = nn.utils.parametrizations.orthogonal(nn.Linear(2, 2))
    >>> held = layer.parametrizations.weight
    >>> isinstance(held, nn.utils.parametrize.ParametrizationList), held.original.shape
    (True, torch.Size([2, 2]))
    """

    original: Any
    unsafe: bool

    def __init__(self, modules: Sequence[Module], original: Any, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with tg.no_grad():
            new = original
            for module in reversed(self):
                if hasattr(module, "right_inverse"):
                    with contextlib.suppress(NotImplementedError):
                        new = module.right_inverse(new)
        if not isinstance(new, tg.Tensor) and not isinstance(new, Sequence):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        self.is_tensor = isinstance(new, tg.Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            if original.dtype != new.dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {original.dtype}\n"
                    f"right_inverse(original).dtype: {new.dtype}"
                )
            with tg.no_grad():
                _maybe_set(original, new)
            _register_parameter_or_buffer(self, "original", original)
        else:
            for i, each in enumerate(new):
                if not isinstance(each, tg.Tensor):
                    raise ValueError(
                        "'right_inverse' must return a Tensor or a Sequence of tensors (list, "
                        f"tuple...). Got element {i} of the sequence with type "
                        f"{type(each).__name__}."
                    )
                if isinstance(original, Parameter):
                    each = Parameter(each, original.requires_grad)
                each.requires_grad_(original.requires_grad)
                _register_parameter_or_buffer(self, f"original{i}", each)
        if not unsafe:
            self._check(shape, dtype)

    def _check(self, shape: Any, dtype: Any) -> None:
        """A parametrized tensor is like the one it replaces."""
        found = self()
        must_be_tensor(found)
        for what, before, after in (("dtype", dtype, found.dtype), ("shape", shape, found.shape)):
            if before != after:
                raise ValueError(
                    f"Registering a parametrization may not change the {what} of the tensor, "
                    "unless `unsafe` flag is enabled.\n"
                    f"unparametrized {what}: {before}\nparametrized {what}: {after}"
                )

    def right_inverse(self, value: Any) -> None:
        """Choose the originals so that the tensor becomes `value`."""
        with tg.no_grad():
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                value = module.right_inverse(value)
            if self.is_tensor:
                if not isinstance(value, tg.Tensor):
                    raise ValueError(
                        f"`right_inverse` should return a tensor. Got {type(value).__name__}"
                    )
                if value.dtype != self.original.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {value.dtype} while "
                        f"`original` has dtype {self.original.dtype}"
                    )
                _maybe_set(self.original, value)
                return
            if not isinstance(value, Sequence):
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors. Got "
                    f"{type(value).__name__}."
                )
            if len(value) != self.ntensors:
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors of length "
                    f"{self.ntensors}. Got a sequence of length {len(value)}."
                )
            for i, tensor in enumerate(value):
                original = getattr(self, f"original{i}")
                if not isinstance(tensor, tg.Tensor):
                    raise ValueError(
                        f"`right_inverse` must return a sequence of tensors. Got element {i} of "
                        f"type {type(tensor).__name__}"
                    )
                if original.dtype != tensor.dtype:
                    raise ValueError(
                        f"Tensor {i} returned by `right_inverse` has dtype {tensor.dtype} while "
                        f"`original{i}` has dtype {original.dtype}"
                    )
                _maybe_set(original, tensor)

    def forward(self) -> Any:
        if self.is_tensor:
            x = self[0](self.original)
        else:
            x = self[0](*[getattr(self, f"original{i}") for i in range(self.ntensors)])
        for i in range(1, len(self)):
            x = self[i](x)
        return x


# ---------------------------------------------------------------------- the class of its own


def _refuse_state(self: Any) -> Any:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(). See:\n"
        "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
        "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
    )


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    found = memo.get(id(self))
    if found is not None:
        return found
    replica = self.__new__(type(self))
    memo[id(self)] = replica
    replica.__dict__ = copy.deepcopy(self.__dict__, memo)
    return replica


def _inject_new_class(module: Module) -> None:
    """A class of its own, to which properties can be added."""
    cls = type(module)
    body: dict[str, Any] = {"__getstate__": _refuse_state}
    if not hasattr(cls, "__deepcopy__"):
        body["__deepcopy__"] = _deepcopy
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), body)


def _inject_property(module: Module, tensor_name: str) -> None:
    """Compute the tensor when it is asked for, and invert when it is assigned."""

    def compute(self: Any) -> Any:
        if not _cache_enabled:
            return self.parametrizations[tensor_name]()
        key = (id(self), tensor_name)
        tensor = _cache.get(key)
        if tensor is None:
            tensor = _cache[key] = self.parametrizations[tensor_name]()
        return tensor

    def assign(self: Any, value: Any) -> None:
        self.parametrizations[tensor_name].right_inverse(value)

    setattr(type(module), tensor_name, property(compute, assign))


# ---------------------------------------------------------------------- functions on modules


def register_parametrization(
    module: Any, tensor_name: str, parametrization: Any, *, unsafe: bool = False
) -> Any:
    """Compute a parameter or buffer of a module by another module from now on.

    >>> class Symmetric(nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = nn.utils.parametrize.register_parametrization(
    ...     nn.Linear(2, 2), "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.T).all())
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            check_next(module, tensor_name, parametrization)
        found = module.parametrizations[tensor_name]
        found.append(parametrization)
        found.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        made = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_new_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = made
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    return module


def check_next(module: Any, name: str, parametrization: Any) -> None:
    """One more parametrization keeps dtype and shape, and so does its inverse."""
    before = getattr(module, name)
    after = parametrization(before)
    must_be_tensor(after)
    for what in ("dtype", "shape"):
        if getattr(after, what) != getattr(before, what):
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless "
                f"the `unsafe` flag is enabled.\nmodule.{name}.{what}: {getattr(before, what)}\n"
                f"parametrization(module.{name}).{what}: {getattr(after, what)}"
            )
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(after)
    except NotImplementedError:
        return
    if not isinstance(back, tg.Tensor):
        raise ValueError(
            f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}"
        )
    for what in ("dtype", "shape"):
        if getattr(back, what) != getattr(before, what):
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {what} "
                f"as module.{name}, unless the `unsafe` flag is enabled.\n"
                f"module.{name}.{what}: {getattr(before, what)}\n"
                f"returned {what}: {getattr(back, what)}"
            )


def is_parametrized(module: Any, tensor_name: str | None = None) -> bool:
    """Whether a module, or one of its tensors, is parametrized.

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
    >>> [nn.utils.parametrize.is_parametrized(layer, name) for name in ("weight", "bias")]
    [True, False]
    """
    found = getattr(module, "parametrizations", None)
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(module: Any, tensor_name: str, leave_parametrized: bool = True) -> Any:
    """Make the tensor an ordinary one again, as it is computed now or as it was before.

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
    >>> nn.utils.parametrize.remove_parametrizations(layer, "weight")
    Linear(in_features=2, out_features=2, bias=True)
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    found = module.parametrizations[tensor_name]
    if found.is_tensor:
        original = found.original
        if leave_parametrized:
            with tg.no_grad():
                _maybe_set(original, getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value.detach()) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register_parameter_or_buffer(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Any) -> type:
    """The class of a module, without what parametrizations did to it.

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
    >>> nn.utils.parametrize.type_before_parametrizations(layer) is nn.Linear
    True
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Any, to_module: Any, tensor_name: str | None = None
) -> Any:
    """Put the parametrizations of one module, and what they start from, on another.

    >>> first = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
    >>> second = nn.Linear(2, 2)
    >>> second = nn.utils.parametrize.transfer_parametrizations_and_params(first, second)
    >>> equal(first.weight, second.weight), nn.utils.parametrize.is_parametrized(second)
    (True, True)
    """
    if not is_parametrized(from_module):
        raise AssertionError("from_module must be parametrized")
    for name in from_module.parametrizations if tensor_name is None else [tensor_name]:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        source = from_module.parametrizations[name]
        for parametrization in source:
            register_parametrization(to_module, name, parametrization)
        target = to_module.parametrizations[name]
        for key in [k for k in (*source._parameters, *source._buffers) if hasattr(target, k)]:
            setattr(target, key, getattr(source, key))
    return to_module
