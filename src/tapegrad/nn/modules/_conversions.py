"""The methods of Module that convert and move its parameters and buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tapegrad as tg

from ...core.warned import warn
from ...errors import explain_call
from ...utils.swapping import swap_tensors
from ..parameter import Parameter

NO_DATA = "Cannot copy out of meta tensor; no data!"


class ConversionMethods:
    """The part of Module that converts and moves values, by `_apply`, which layers override."""

    _parameters: dict[str, Any]
    _buffers: dict[str, Any]

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> Any:
        """Replace all values: of parameters (which stay the same objects), gradients, buffers."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is not None:
                grad = parameter.grad
                with tg.no_grad():
                    self._parameters[name] = self._converted(name, parameter, fn)
                    if grad is not None:
                        self._parameters[name].grad = self._converted(f"{name}.grad", grad, fn)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def _converted(self, name: str, tensor: Any, fn: Callable[[Any], Any]) -> Any:
        """A parameter or gradient with other values: the same object, or a new one if that is
        not possible or not wanted (`torch.__future__`)."""
        made = fn(tensor)
        cls = Parameter if isinstance(tensor, Parameter) else None
        if tg.__future__.get_swap_module_params_on_conversion():
            if made is tensor:
                return tensor
            if cls is not None and not isinstance(made, cls):
                made = cls(made, tensor.requires_grad)
            tensor.grad = None
            try:
                swap_tensors(tensor, made)
            except Exception as error:
                raise RuntimeError(f"_apply(): Couldn't swap {self._get_name()}.{name}") from error
            return tensor
        if tg.__future__.get_overwrite_module_params_on_conversion() or (
            made.is_meta != tensor.is_meta
        ):
            return made if cls is None else cls(made, tensor.requires_grad)
        tensor.data = made
        return tensor

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Convert parameters and buffers: `to(device)`, `to(dtype)`, `to(tensor)`, in place.

        >>> nn.Linear(1, 1).to(float64).weight.dtype
        torch.float64
        """
        try:
            device, dtype, non_blocking, memory_format = parse_to(*args, **kwargs)
        except RuntimeError as error:
            explain_call(error, "", ("device",), args, kwargs)
            raise
        if dtype is not None:
            if not (dtype.is_floating_point or dtype.is_complex):
                raise TypeError(
                    "nn.Module.to only accepts floating point or complex dtypes, "
                    f"but got desired dtype={dtype}"
                )
            if dtype.is_complex:
                warn(
                    "Complex modules are a new feature under active development whose design may "
                    "change, and some modules might not work as expected when using complex "
                    "tensors as parameters or buffers. Please file an issue at "
                    "https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml if a "
                    "complex module does not work as expected.",
                )

        def convert(t: Any) -> Any:
            options: dict[str, Any] = {"non_blocking": non_blocking}
            if device is not None:
                options["device"] = device
            if dtype is not None and (t.is_floating_point() or t.is_complex()):
                options["dtype"] = dtype
            if memory_format is not None and t.dim() in (4, 5):
                options["memory_format"] = memory_format
            try:
                return t.to(**options)
            except NotImplementedError as error:
                if str(error) != NO_DATA:
                    raise
                raise NotImplementedError(
                    f"{NO_DATA} Please use torch.nn.Module.to_empty() instead of "
                    "torch.nn.Module.to() when moving module from meta to a different device."
                ) from None

        return self._apply(convert)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Any:
        """Move to a device without copying the values.

        >>> model = nn.Linear(2, 1, device="meta").to_empty(device="cpu")
        >>> model.weight.device, model.weight.shape
        (device(type='cpu'), torch.Size([1, 2]))
        """
        return self._apply(lambda t: tg.empty_like(t, device=device), recurse=recurse)

    def type(self, dst_type: Any) -> Any:
        """Convert all parameters and buffers to one type.

        >>> nn.Linear(2, 1).type(float64).weight.dtype
        torch.float64
        """
        return self._apply(lambda t: t.type(dst_type))

    def float(self) -> Any:
        """Convert floating point parameters and buffers to float32.

        >>> nn.Linear(2, 1, dtype=float64).float().weight.dtype
        torch.float32
        """
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self) -> Any:
        """Convert floating point parameters and buffers to float64.

        >>> nn.Linear(1, 1).double().weight.dtype
        torch.float64
        """
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self) -> Any:
        """Convert floating point parameters and buffers to float16.

        >>> nn.Linear(2, 1).half().weight.dtype
        torch.float16
        """
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self) -> Any:
        """Convert floating point parameters and buffers to bfloat16.

        >>> nn.Linear(2, 1).bfloat16().weight.dtype
        torch.bfloat16
        """
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def cpu(self) -> Any:
        """Move all parameters and buffers to the CPU.

        >>> nn.Linear(2, 1).cpu().weight.device
        device(type='cpu')
        """
        return self._apply(lambda t: t.cpu())

    def cuda(self, device: Any = None) -> Any:
        """Move all parameters and buffers to a GPU."""
        return self._apply(lambda t: t.cuda(device))

    def share_memory(self) -> Any:
        """Move all parameters and buffers to memory that other processes can see.

        >>> nn.Linear(2, 1).share_memory().weight.is_shared()
        True
        """
        return self._apply(lambda t: t.share_memory_())


def parse_to(
    *args: Any,
    device: Any = None,
    dtype: Any = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: Any = None,
    tensor: Any = None,
) -> tuple[Any, Any, bool, Any]:
    """Device, dtype, non_blocking and memory format from what `Module.to` was called with."""
    rest = list(args)
    if rest and isinstance(rest[0], tg.Tensor):
        tensor = rest.pop(0)
    elif rest and isinstance(rest[0], tg.dtype):
        dtype = rest.pop(0)
    elif rest and (rest[0] is None or isinstance(rest[0], (str, int, tg.device))):
        device = rest.pop(0)
        if rest and (rest[0] is None or isinstance(rest[0], tg.dtype)):
            dtype = rest.pop(0)
    if tensor is not None:
        device, dtype = tensor.device, tensor.dtype
    if rest and isinstance(rest[0], bool):
        non_blocking = rest.pop(0)
    if rest and isinstance(rest[0], bool):
        copy = rest.pop(0)
    if copy:
        raise RuntimeError(".to() does not accept copy argument")
    if rest:
        raise TypeError(
            "to() received an invalid combination of arguments - got "
            f"({', '.join(type(a).__name__ for a in args)}), but expected one of:\n"
            " * (torch.device device = None, torch.dtype dtype = None, bool non_blocking = False, "
            "bool copy = False, *, torch.memory_format memory_format = None)\n"
            " * (torch.dtype dtype, bool non_blocking = False, bool copy = False, *, "
            "torch.memory_format memory_format = None)\n"
            " * (Tensor tensor, bool non_blocking = False, bool copy = False, *, "
            "torch.memory_format memory_format = None)\n"
        )
    if device is not None and not isinstance(device, tg.device):
        device = tg.device(device)
    return device, dtype, non_blocking, memory_format
