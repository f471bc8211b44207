"""`torch._C._nn`: the functions of nn.functional that PyTorch writes in C++."""

from __future__ import annotations

from typing import Any

from tapegrad.nn import functional


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """Parse the arguments of `Tensor.to`: device, dtype, non_blocking, memory format.

    >>> torch._C._nn._parse_to("cpu", torch.float64)
    (device(type='cpu'), torch.float64, False, None)
    """
    import tapegrad as tg

    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    rest = list(args)
    if rest and isinstance(rest[0], tg.Tensor):
        other = rest.pop(0)
        device, dtype = other.device, other.dtype
    elif rest and isinstance(rest[0], tg.dtype):
        dtype = rest.pop(0)
    elif rest:
        device = rest.pop(0)
        if rest and (rest[0] is None or isinstance(rest[0], tg.dtype)):
            dtype = rest.pop(0)
    if dtype is not None and not isinstance(dtype, tg.dtype):
        raise TypeError(f"to(): argument 'dtype' must be torch.dtype, not {type(dtype).__name__}")
    non_blocking = bool(rest[0] if rest else kwargs.get("non_blocking", False))
    form = kwargs.get("memory_format")
    return None if device is None else tg.device(device), dtype, non_blocking, form


def __getattr__(name: str) -> Any:
    return getattr(functional, name)
