"""Parameter and Buffer: the tensors that a Module registers by itself when they are assigned."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import tapegrad as tg

from ..core.base import INTERPRETED, blank, note_birth, special_by
from ..core.dispatch import apply
from ..core.op import REGISTRY
from ..core.python_dispatch import modes_set_to
from ..core.subclass import convert, op_name, without_class

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "is_lazy"]


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
    if not isinstance(requires_grad, bool):
        raise TypeError(
            "_make_subclass(): argument 'require_grad' (position 3) must be bool, not "
            f"{type(requires_grad).__name__}"
        )
    if requires_grad and not (data.is_floating_point() or data.is_complex()):
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    with modes_set_to(()):  # PyTorch shows nobody this step
        source = data.detach()
    made = blank(cls)
    made._array = source._array
    made._special = special_by(made._array)
    made._cell = source._cell
    made._wants_grad = bool(requires_grad)
    if requires_grad:
        note_birth(made)
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


def refuse(cls: type, name: str) -> None:
    """The error for computing with a tensor that has no shape yet."""
    raise ValueError(
        f"Attempted to use an uninitialized parameter in <method '{name}' of "
        "'torch._C.TensorBase' objects>. This error happens when you are using a `LazyModule` "
        f"or explicitly manipulating `torch.nn.parameter.{cls.__name__}` objects. When using "
        "LazyModules Call `forward` with a dummy batch to initialize the parameters before "
        "calling torch functions"
    )


def refused(name: str) -> Any:
    """A method that reads the shape or the values without being an op, and so is no use yet."""

    def method(self: Any, *args: Any, **kwargs: Any) -> None:
        refuse(type(self), name)

    return method


class UninitializedTensorMixin:
    """A tensor whose shape is not known yet; `materialize` gives it one and turns its class."""

    cls_to_become: type
    data: Any

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become an ordinary parameter or buffer of this shape, with arbitrary values."""
        device = self.data.device if device is None else device
        dtype = self.data.dtype if dtype is None else dtype
        self.data = tg.empty(shape, device=device, dtype=dtype)
        self._special = special_by(self._array)
        self.__class__ = self.cls_to_become

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized one. Call `forward` to initialize the parameters before accessing their "
            "attributes."
        )

    def share_memory_(self) -> Any:
        """Refused: there is no memory to share."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to "
            "initialize the parameters before calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self.requires_grad, self.data.device, self.data.dtype)  # type: ignore[attr-defined]

    __bool__ = refused("__bool__")
    __getitem__ = refused("__getitem__")
    __len__ = refused("__len__")
    detach = refused("detach")
    is_contiguous = refused("is_contiguous")
    dim = refused("dim")
    numel = refused("numel")
    register_hook = refused("register_hook")
    requires_grad_ = refused("requires_grad_")
    retain_grad = refused("retain_grad")
    tolist = refused("tolist")

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Every op comes here; only conversions (`module.double()`) make sense so early."""
        name = op_name(func)
        if name in ("cast", "to_device"):
            made = apply(REGISTRY[name], (without_class(args[0]),), args[1:])
            # A parameter gets new data; a buffer is replaced, by one that still waits.
            return made if issubclass(cls, Parameter) else convert(made, cls)
        refuse(cls, name)


READERS = "__array__ backward contiguous data_ptr element_size item numpy storage stride"
for _name in [*READERS.split(), *[n for n in dir(tg.Tensor) if n[-1] == "_" and n[0] != "_"]]:
    if _name not in ("copy_", "set_") and _name not in vars(UninitializedTensorMixin):
        setattr(UninitializedTensorMixin, _name, refused(_name))


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter that waits for its shape.

    >>> weight = nn.UninitializedParameter()
    >>> weight.materialize((2, 3))
    >>> weight.shape
    torch.Size([2, 3])
    """

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        made = _adopt(cls, tg.empty(0, device=device, dtype=dtype), requires_grad)
        made._special = INTERPRETED  # every op on it asks __torch_function__
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.data.device, self.data.dtype)
        return memo[id(self)]


class UninitializedBuffer(UninitializedTensorMixin, tg.Tensor):
    """A buffer that waits for its shape.

    >>> buffer = nn.parameter.UninitializedBuffer()
    >>> buffer.materialize((2, 3))
    >>> buffer.shape
    torch.Size([2, 3])
    """

    cls_to_become = tg.Tensor

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Any = None,
        dtype: Any = None,
        persistent: bool = True,
    ) -> Any:
        made = _adopt(cls, tg.empty(0, device=device, dtype=dtype), requires_grad)
        made._special = INTERPRETED
        made.persistent = persistent
        made._is_buffer = True
        return made


def is_lazy(param: Any) -> bool:
    """Whether a parameter or buffer still waits for its shape."""
    return isinstance(param, UninitializedTensorMixin)


def register_bias(module: Any, wanted: bool, size: int, device: Any, dtype: Any) -> None:
    """Give a module a bias that is not initialised, or none."""
    bias = Parameter(tg.empty(size, device=device, dtype=dtype)) if wanted else None
    module.register_parameter("bias", bias)
