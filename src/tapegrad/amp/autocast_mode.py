"""`autocast` and the switches behind it. What is cast to what is said in casting.py."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import tapegrad as tg

from ..core.autocast_state import STATE
from ..core.casting import CACHE, CACHING, AutocastBlock, follow
from ..core.warned import warn

__all__ = ["autocast", "autocast_decorator", "custom_bwd", "custom_fwd", "is_autocast_available"]

LOW_PRECISION = (tg.bfloat16, tg.float16)
AVAILABLE = frozenset("cpu cuda hpu ipu maia mps mtia privateuseone xla xpu".split())


def checked_type(device_type: str, function: str = "") -> str:
    """A device type that exists; `device` words the complaint about others.

    `function`: one of PyTorch's in C++, which compare the kinds of their arguments.
    """
    if not isinstance(device_type, str):
        if function:
            raise wrong_kind(function, "device_type", 1, "str", device_type)
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    return str(tg.device(device_type).type)


def wrong_kind(function: str, name: str, position: int, wanted: str, value: Any) -> TypeError:
    return TypeError(
        f"{function}(): argument '{name}' (position {position}) must be {wanted}, "
        f"not {type(value).__name__}"
    )


def warn_deprecated(old: str, new: str) -> None:
    warn(
        f"torch.{old} is deprecated. Please use torch.{new} instead.",
        DeprecationWarning,
    )


# --- the switches, as functions of torch -----------------------------------------------------


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on for a type of device.

    >>> with torch.autocast("cpu"):
    ...     print(torch.is_autocast_enabled("cpu"))
    True
    >>> torch.is_autocast_enabled("cpu")
    False
    """
    return STATE.enabled.get(checked_type(device_type, "is_autocast_enabled"), False)


def set_autocast_enabled(*args: Any) -> None:
    """set_autocast_enabled(device_type, enabled): switch autocast on or off.

    >>> torch.set_autocast_enabled("cpu", True)
    >>> (ones(1, 2) @ ones(2, 1)).dtype
    torch.bfloat16
    >>> torch.set_autocast_enabled("cpu", False)
    """
    device_type, enabled = args if len(args) == 2 else ("cuda", *args)
    device = checked_type(device_type, "set_autocast_enabled")
    if not isinstance(enabled, bool):
        raise wrong_kind("set_autocast_enabled", "enabled", len(args), "bool", enabled)
    STATE.enabled[device] = enabled
    follow()


def get_autocast_dtype(device_type: str) -> Any:
    """The dtype that autocast casts to.

    >>> torch.get_autocast_dtype("cpu")
    torch.bfloat16
    """
    return STATE.dtype.get(checked_type(device_type, "get_autocast_dtype"), tg.float16)


def set_autocast_dtype(device_type: str, dtype: Any) -> None:
    """Choose the dtype that autocast casts to.

    >>> torch.set_autocast_dtype("cpu", torch.float16)
    >>> torch.get_autocast_dtype("cpu")
    torch.float16
    >>> torch.set_autocast_dtype("cpu", torch.bfloat16)
    """
    device = checked_type(device_type, "set_autocast_dtype")
    if not isinstance(dtype, tg.dtype):
        raise wrong_kind("set_autocast_dtype", "dtype", 2, "torch.dtype", dtype)
    STATE.dtype[device] = dtype
    follow()


def is_autocast_cpu_enabled() -> bool:
    """Whether autocast is on for the CPU."""
    warn_deprecated("is_autocast_cpu_enabled()", "is_autocast_enabled('cpu')")
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Switch autocast for the CPU, without a block."""
    warn_deprecated("set_autocast_cpu_enabled(enabled)", "set_autocast_enabled('cpu', enabled)")
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> Any:
    """The dtype that autocast computes in on the CPU."""
    warn_deprecated("get_autocast_cpu_dtype()", "get_autocast_dtype('cpu')")
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: Any) -> None:
    """Set the dtype that autocast computes in on the CPU."""
    warn_deprecated("set_autocast_cpu_dtype(dtype)", "set_autocast_dtype('cpu', dtype)")
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> Any:
    """The dtype that autocast computes in on GPUs."""
    warn_deprecated("get_autocast_gpu_dtype()", "get_autocast_dtype('cuda')")
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: Any) -> None:
    """Set the dtype that autocast computes in on GPUs."""
    warn_deprecated("set_autocast_gpu_dtype(dtype)", "set_autocast_dtype('cuda', dtype)")
    set_autocast_dtype("cuda", dtype)


def is_autocast_cache_enabled() -> bool:
    """Whether parameters are cast once per outermost block.

    >>> torch.is_autocast_cache_enabled()
    True
    """
    return CACHING[0]


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Whether autocast keeps weights that it has cast."""
    CACHING[0] = bool(enabled)


def clear_autocast_cache() -> None:
    """Forget the parameters that were cast.

    >>> torch.clear_autocast_cache()
    """
    CACHE.clear()


def autocast_increment_nesting() -> int:
    """Enter a block of autocast; how deep it is nested."""
    STATE.nesting += 1
    return STATE.nesting


def autocast_decrement_nesting() -> int:
    """Leave a block of autocast; how deep it was nested."""
    STATE.nesting -= 1
    return STATE.nesting


def is_autocast_available(device_type: str) -> bool:
    """Whether PyTorch knows autocast for a type of device.

    >>> torch.amp.is_autocast_available("cpu")
    True
    """
    return checked_type(device_type) in AVAILABLE


# --- the context manager ---------------------------------------------------------------------


class autocast(AutocastBlock):
    """Inside, products and convolutions run in half precision, delicate functions in float32.

    >>> with torch.autocast("cpu", dtype=torch.float16):
    ...     (torch.ones(1, 2) @ torch.ones(2, 1)).dtype
    torch.float16
    """

    def __init__(
        self,
        device_type: str,
        dtype: Any = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        kind = checked_type(device_type)
        if not is_autocast_available(kind):
            raise RuntimeError(f"User specified an unsupported autocast device_type '{kind}'")
        super().__init__()
        self.fast_dtype = get_autocast_dtype(kind) if dtype is None else dtype
        self.device = device_type
        self._cache_enabled = CACHING[0] if cache_enabled is None else cache_enabled
        if kind == "cuda" and enabled and not tg.cuda.is_available():
            warn("CUDA is not available or torch_xla is imported. Disabling autocast.")
            enabled = False
        elif kind == "cuda" and enabled and self.fast_dtype not in LOW_PRECISION:
            warn(
                "In CUDA autocast, but the target dtype is not supported. Disabling autocast.\n"
                "CUDA Autocast only supports dtypes of torch.bfloat16, torch.float16, "
                "torch.float32 currently.",
            )
            enabled = False
        elif kind == "cpu" and enabled and self.fast_dtype not in LOW_PRECISION:
            warn(
                "In CPU autocast, but the target dtype is not supported. Disabling autocast.\n"
                "CPU Autocast only supports dtypes of torch.bfloat16, torch.float16 currently.",
            )
            enabled = False
        self._enabled = enabled

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        return autocast_decorator(self, func)


def autocast_decorator(autocast_instance: autocast, func: Callable[..., Any]) -> Callable[..., Any]:
    """`func` run inside an autocast block."""

    @functools.wraps(func)
    def decorate_autocast(*args: Any, **kwargs: Any) -> Any:
        with autocast_instance:
            return func(*args, **kwargs)

    return decorate_autocast


def _enter_autocast(*vals: Any) -> autocast:
    mode = autocast(*vals)
    mode.__enter__()
    return mode


def _exit_autocast(mode: autocast) -> None:
    mode.__exit__(None, None, None)


# --- autograd functions ----------------------------------------------------------------------


def cast_nested(value: Any, device_type: str, dtype: Any) -> Any:
    """Float tensors of the device in `dtype`, through mappings and sequences; not doubles."""
    if isinstance(value, tg.Tensor):
        takes_part = value.is_floating_point() and value.dtype is not tg.float64
        return value.to(dtype) if takes_part and value.device.type == device_type else value
    if isinstance(value, (str, bytes)):
        return value
    if isinstance(value, Mapping):
        return {
            cast_nested(k, device_type, dtype): cast_nested(v, device_type, dtype)
            for k, v in value.items()
        }
    if isinstance(value, (list, tuple)):
        return type(value)([cast_nested(v, device_type, dtype) for v in value])
    return value


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: Any = None
) -> Callable[..., Any]:
    """For `forward` of a Function: remember autocast's state, or cast the inputs and switch it off.

    With `cast_inputs`, tensors come in that dtype and the function itself runs without autocast.

    >>> class Exact(autograd.Function):
    ...     @staticmethod
    ...     @torch.amp.custom_fwd(device_type="cpu", cast_inputs=float32)
    ...     def forward(ctx, x):
    ...         return x.exp()
    >>> with torch.autocast("cpu"):
    ...     y = Exact.apply(zeros(2, dtype=torch.bfloat16))
    >>> y
    tensor([1., 1.])
    """
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorate_fwd(*args: Any, **kwargs: Any) -> Any:
        assert fwd is not None
        args[0]._dtype = get_autocast_dtype(device_type)
        enabled = is_autocast_enabled(device_type)
        if cast_inputs is None:
            args[0]._fwd_used_autocast = enabled
            return fwd(*args, **kwargs)
        args[0]._fwd_used_autocast = False
        if not enabled:
            return fwd(*args, **kwargs)
        with autocast(device_type=device_type, enabled=False):
            args = tuple([cast_nested(a, device_type, cast_inputs) for a in args])
            return fwd(*args, **cast_nested(kwargs, device_type, cast_inputs))

    return decorate_fwd


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Callable[..., Any]:
    """For `backward` of a Function: run with the autocast state that `forward` ran with.

    >>> class Double(autograd.Function):
    ...     @staticmethod
    ...     @torch.amp.custom_fwd(device_type="cpu", cast_inputs=float32)
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     @torch.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, grad):
    ...         return grad * 2
    >>> x = ones(2, dtype=torch.bfloat16, requires_grad=True)
    >>> with torch.autocast("cpu"):
    ...     y = Double.apply(x)
    >>> y.sum().backward()
    >>> y.dtype, x.grad
    (torch.float32, tensor([2., 2.], dtype=torch.bfloat16))
    """
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorate_bwd(*args: Any, **kwargs: Any) -> Any:
        assert bwd is not None
        used, dtype = args[0]._fwd_used_autocast, args[0]._dtype
        with autocast(device_type=device_type, enabled=used, dtype=dtype):
            return bwd(*args, **kwargs)

    return decorate_bwd
