"""Switches of the process: threads, determinism, precision of products; and what an object is."""

from __future__ import annotations

import os
import types
from typing import Any

from ..core.base import TensorBase
from ..core.settings import Settings
from ..core.warned import warn
from ..kernels.cpu import KERNELS
from ..kernels.cpu.blas import blas_function
from ..utils.naming import public_module
from ..utils.naming import typename as typename_of
from .tensor.conversion import TypedStorage, UntypedStorage

__all__ = [
    "are_deterministic_algorithms_enabled",
    "compiled_with_cxx11_abi",
    "get_deterministic_debug_mode",
    "get_device_module",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "get_num_threads",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_storage",
    "is_vulkan_available",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_num_interop_threads",
    "set_num_threads",
    "typename",
    "use_deterministic_algorithms",
]


# --- threads ---------------------------------------------------------------------------------


def checked_threads(function: str, value: Any) -> int:
    if type(value) is not int:
        raise RuntimeError(f"{function} expects an int, but got {type(value).__name__}")
    if value <= 0:
        raise RuntimeError(f"{function} expects a positive integer")
    return value


def get_num_threads() -> int:
    """How many threads kernels and products of matrices may use.

    >>> torch.get_num_threads() >= 1
    True
    """
    if not Settings.threads:
        ask = blas_function("get_num_threads")
        Settings.threads = int(ask()) if ask is not None else os.cpu_count() or 1
    return Settings.threads


def set_num_threads(num: int) -> None:
    """Let kernels in C, and products of matrices where NumPy uses OpenBLAS, use `num` threads.

    >>> before = torch.get_num_threads()
    >>> torch.set_num_threads(1)
    >>> torch.get_num_threads()
    1
    >>> torch.set_num_threads(before)
    """
    Settings.threads = checked_threads("set_num_threads", num)
    if KERNELS is not None:
        KERNELS.set_threads(num)
    tell = blas_function("set_num_threads")
    if tell is not None:
        tell(num)


def get_num_interop_threads() -> int:
    """How many operations may run at the same time; Python runs one.

    >>> torch.get_num_interop_threads() >= 1
    True
    """
    return 1 if Settings.interop is None else Settings.interop


def set_num_interop_threads(num: int) -> None:
    """Accepted once, as in PyTorch; operations do not run side by side here."""
    num = checked_threads("set_num_interop_threads", num)
    if Settings.interop is not None:
        raise RuntimeError(
            "Error: cannot set number of interop threads after parallel work has started or "
            "set_num_interop_threads called"
        )
    Settings.interop = num


# --- determinism and precision ---------------------------------------------------------------


def use_deterministic_algorithms(mode: bool | str, *, warn_only: bool = False) -> None:
    """Ask for deterministic algorithms; all of them are, here.

    >>> torch.use_deterministic_algorithms(True)
    >>> torch.are_deterministic_algorithms_enabled()
    True
    >>> torch.use_deterministic_algorithms(False)

    With "portable", which PyTorch does not have, results on the CPU have the same bits on every
    processor, with and without the kernels in C. An op that cannot keep this promise raises, or
    warns with `warn_only`. TAPEGRAD_PORTABLE=1 in the environment asks for it from the start.

    >>> torch.use_deterministic_algorithms("portable")
    >>> tensor([1.0]).exp()
    tensor([2.7183])
    >>> torch.use_deterministic_algorithms(False)
    """
    portable = mode == "portable"
    mode = portable or mode
    if not isinstance(mode, bool):
        raise TypeError(
            "_set_deterministic_algorithms(): argument 'mode' (position 1) must be bool, not "
            f"{type(mode).__name__}"
        )
    if not isinstance(warn_only, bool):
        raise TypeError(
            "_set_deterministic_algorithms(): argument 'warn_only' must be bool, not "
            f"{type(warn_only).__name__}"
        )
    Settings.deterministic, Settings.warn_only = mode, warn_only
    if portable is not Settings.portable:
        from ..kernels.portable.switch import use_portable

        use_portable(portable)


def are_deterministic_algorithms_enabled() -> bool:
    """Whether `use_deterministic_algorithms` is on."""
    return Settings.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether it only warns of what is not deterministic."""
    return Settings.warn_only


MODES = ("default", "warn", "error")


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """ "default" (0), "warn" (1) or "error" (2) about algorithms that are not deterministic.

    >>> torch.set_deterministic_debug_mode("warn")
    >>> torch.get_deterministic_debug_mode()
    1
    >>> torch.set_deterministic_debug_mode("default")
    """
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if isinstance(debug_mode, str):
        if debug_mode not in MODES:
            raise RuntimeError(
                "invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got "
                f"{debug_mode}"
            )
        debug_mode = MODES.index(debug_mode)
    if not 0 <= debug_mode <= 2:
        raise RuntimeError(
            f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}"
        )
    use_deterministic_algorithms(debug_mode > 0, warn_only=debug_mode == 1)


def get_deterministic_debug_mode() -> int:
    """0, 1 or 2: what is done about what is not deterministic."""
    if not Settings.deterministic:
        return 0
    return 1 if Settings.warn_only else 2


MIXED = (
    "{},Current status indicate that you have used mix of the legacy and new APIs to set the {}. "
    "We suggest only using the new API {}. See also: "
    "https://pytorch.org/docs/main/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices"
)


def get_float32_matmul_precision() -> str:
    """The word that `set_float32_matmul_precision` was given."""
    if Settings.matmul_precision == "highest" and Settings.matmul_fp32 == "tf32":
        asked = "PyTorch is checking the matmul precision without a specific backend name"
        raise RuntimeError(MIXED.format(asked, "matmul precision", "for matmul precision"))
    return Settings.matmul_precision


def set_float32_matmul_precision(precision: str) -> None:
    """Allow less than float32 inside products: GPUs make use of it, the CPU does not.

    >>> torch.set_float32_matmul_precision("high")
    >>> torch.get_float32_matmul_precision()
    'high'
    >>> torch.set_float32_matmul_precision("highest")
    """
    if not isinstance(precision, str):
        raise RuntimeError(
            f"set_float32_matmul_precision expects a str, but got {type(precision).__name__}"
        )
    if precision not in ("highest", "high", "medium"):
        warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the current"
            "setFloat32MatmulPrecision call has no effect.",
        )
        return
    Settings.matmul_precision = precision
    Settings.matmul_fp32 = "ieee" if precision == "highest" else "tf32"


def set_flush_denormal(mode: bool) -> bool:
    """Flush denormal numbers to zero, and whether it is so now: here they are always kept.

    >>> torch.set_flush_denormal(False)
    True
    """
    if not isinstance(mode, bool):
        raise RuntimeError(f"flush_denormal expects a bool, but got {type(mode).__name__}")
    return not mode


# --- what is this ----------------------------------------------------------------------------


def typename(obj: Any, /) -> str:
    """The type of an object, or the full name of a class, function or module.

    >>> torch.typename(torch.tensor([1.0])), torch.typename(torch.nn.Linear)
    ('torch.FloatTensor', 'torch.nn.modules.linear.Linear')
    """
    if isinstance(obj, types.ModuleType):
        return public_module(obj.__name__)
    named = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(named, "__module__", None) or ""
    if isinstance(obj, TensorBase) or module in ("", "builtins"):
        return typename_of(obj) if named is not obj else str(obj.__qualname__)
    import tapegrad as tg

    if isinstance(named, type) and vars(tg).get(named.__name__) is named:
        module = "torch"  # where users know it from
    return f"{public_module(module)}.{named.__qualname__}"


def is_storage(obj: Any, /) -> bool:
    """Whether an object is the memory of a tensor.

    >>> torch.is_storage(zeros(2)), torch.is_storage(zeros(2).untyped_storage())
    (False, True)
    """
    return isinstance(obj, (TypedStorage, UntypedStorage))


def get_device_module(device: Any = None) -> Any:
    """The module of a type of device: `torch.cpu`, `torch.cuda`.

    >>> torch.get_device_module("cpu") is torch.cpu
    True
    """
    import tapegrad as tg

    hash(device)
    if not isinstance(device, (str, tg.device, type(None))):
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    kind = tg.device("cpu" if device is None else device).type
    if kind not in ("cpu", "cuda"):
        raise RuntimeError(
            f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'."
        )
    return getattr(tg, kind)


def is_vulkan_available(*_: Any, **__: Any) -> bool:
    """Always False: there is no such backend. Arguments are ignored, as in PyTorch."""
    return False


def compiled_with_cxx11_abi() -> bool:
    """Always True: there is no C++ here to differ in it."""
    return True
