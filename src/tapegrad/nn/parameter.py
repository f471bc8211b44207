"""Parameter and Buffer: the tensors that a Module registers by itself when they are assigned."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import tapegrad as tg

from ..core.base import blank

__all__ = ["Buffer", "Parameter", "is_lazy"]


class _ParameterMeta(type(tg.Tensor)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: Any) -> bool:
        # A tensor of another subclass can be marked as a parameter without being of this class.
        if super().__instancecheck__(instance):
            return True
        return (
            cls is Parameter
            and isinstance(instance, tg.Tensor)
            and getattr(instance, "_is_param", False)
        )


class Parameter(tg.Tensor, metaclass=_ParameterMeta):
    """A tensor that a Module lists among its parameters when it is assigned as an attribute.

    >>> nn.Parameter(tensor([1.0, 2.0]))
    Parameter containing:
    tensor([1., 2.], requires_grad=True)
    """

    _takes_part = False  # ops on parameters give plain tensors

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        if data is None:
            data = tg.empty(0)
        if type(data) is tg.Tensor or isinstance(data, Parameter):
            return _adopt(cls, data, requires_grad)
        made = data.detach().requires_grad_(requires_grad)
        if type(made) is tg.Tensor:
            return _adopt(cls, made, requires_grad)
        made._is_param = True
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.data.clone(), self.requires_grad)
        found: Parameter = memo[id(self)]
        return found

    def __reduce_ex__(self, protocol: Any) -> Any:
        arguments = (self.data, self.requires_grad, OrderedDict())
        if not self.__dict__:
            return _rebuild_parameter, arguments
        return _rebuild_parameter_with_state, (*arguments, dict(self.__dict__))


def _adopt(cls: type, data: Any, requires_grad: bool) -> Any:
    """A tensor of class `cls` on the memory of `data`; writes to either are counted together."""
    if requires_grad and not (data.is_floating_point() or data.is_complex()):
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    source = data.detach()
    made = blank(cls)
    made.array = source.array
    made.cell = source.cell
    made.wants_grad = bool(requires_grad)
    return made


def _rebuild_parameter(data: Any, requires_grad: bool, backward_hooks: Any) -> Parameter:
    return Parameter(data, requires_grad)


def _rebuild_parameter_with_state(
    data: Any, requires_grad: bool, backward_hooks: Any, state: dict[str, Any]
) -> Parameter:
    made = Parameter(data, requires_grad)
    made.__dict__.update(state)
    return made


class _BufferMeta(type(tg.Tensor)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: Any) -> bool:
        if cls is Buffer:
            return isinstance(instance, tg.Tensor) and getattr(instance, "_is_buffer", False)
        return super().__instancecheck__(instance)


class Buffer(tg.Tensor, metaclass=_BufferMeta):
    """A tensor that a Module lists among its buffers when it is assigned as an attribute.

    >>> module = nn.Module()
    >>> module.count = nn.Buffer(tensor(3))
    >>> list(module.named_buffers())
    [('count', tensor(3))]
    """

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        if data is None:
            data = tg.empty(0)
        made = data.detach().requires_grad_(data.requires_grad)
        made.persistent = persistent
        made._is_buffer = True
        return made


def is_lazy(param: Any) -> bool:
    """Whether a parameter still waits for its shape; no parameter does yet."""
    return False
