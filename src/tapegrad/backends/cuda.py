"""The switches of CUDA: products look at the precision of `matmul`, the others are only kept."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ..api.settings import MIXED, Settings, set_float32_matmul_precision
from ..core.warned import warn
from ..cuda import runtime

__all__ = [
    "cudnn_sdp_enabled",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "is_built",
    "is_flash_attention_available",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
    "preferred_blas_library",
    "preferred_linalg_library",
    "sdp_kernel",
]


def is_built() -> bool:
    """Whether CuPy is installed and sees a GPU: nothing has to be built."""
    return runtime.look() > 0


class Library:
    """The library that is used, as PyTorch names it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


class Libraries:
    """A choice between libraries for GPUs: there is one of each kind here, and nothing changes."""

    def __init__(self, names: str, only: str) -> None:
        self.names = names.split()
        self.only = Library(only)

    def __call__(self, backend: Any = None) -> Library:
        if backend is not None and not isinstance(backend, (str, Library)):
            raise RuntimeError("Unknown input value type.")
        if isinstance(backend, str) and backend not in self.names:
            raise RuntimeError(f"Unknown input value. Choose from: {', '.join(self.names)}.")
        return self.only


preferred_linalg_library = Libraries("default cusolver magma", "_LinalgBackend.Default")
preferred_blas_library = Libraries(
    "default cublas hipblas cublaslt hipblaslt ck", "_BlasBackend.Cublas"
)


class cuBLASModule:
    """`torch.backends.cuda.matmul`: what products on a GPU may do."""

    def __init__(self) -> None:
        self.__dict__.update(
            allow_fp16_reduced_precision_reduction=True,
            allow_bf16_reduced_precision_reduction=True,
            allow_fp16_accumulation=False,
        )

    @property
    def allow_tf32(self) -> bool:
        """Whether float32 products may round their factors to ten binary digits."""
        allowed = Settings.matmul_precision != "highest"
        if allowed != (Settings.matmul_fp32 == "tf32"):
            asked = "PyTorch is checking whether allow_tf32_new is enabled for cuBlas matmul"
            what = "TF32 status for cublas matmul"
            raise RuntimeError(MIXED.format(asked, what, "to set the TF32 flag"))
        return allowed

    @property
    def fp32_precision(self) -> str:
        """`"tf32"`, `"ieee"`, or `"none"`: float32's accuracy, by whatever is fastest."""
        return Settings.matmul_fp32

    def __getattr__(self, name: str) -> Any:
        raise AttributeError("Unknown attribute " + name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "allow_tf32":
            if not isinstance(value, bool):
                raise RuntimeError(
                    f"set_allow_tf32_cublas expects a bool, but got {type(value).__name__}"
                )
            set_float32_matmul_precision("high" if value else "highest")
        elif name == "fp32_precision":
            if value not in ("none", "ieee", "tf32", "bf16"):
                raise RuntimeError(f"Unknown precision: {value}")
            if value == "bf16":
                raise RuntimeError("backend 'cuda' does not support precision 'bf16'")
            Settings.matmul_fp32 = value
        elif name in self.__dict__:
            self.__dict__[name] = value
        else:
            raise AttributeError("Unknown attribute " + name)


matmul = cuBLASModule()

# Which ways of computing attention may be chosen.
_attention = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def flash_sdp_enabled() -> bool:
    return _attention["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    _attention["flash"] = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    return _attention["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    _attention["mem_efficient"] = bool(enabled)


def math_sdp_enabled() -> bool:
    return _attention["math"]


def enable_math_sdp(enabled: bool) -> None:
    _attention["math"] = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    return _attention["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    _attention["cudnn"] = bool(enabled)


def is_flash_attention_available() -> bool:
    return False


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[dict[Any, Any]]:
    """Ways of computing attention for a block (deprecated)."""
    warn(
        "`torch.backends.cuda.sdp_kernel()` is deprecated. In the future, this context manager "
        "will be removed. Please see `torch.nn.attention.sdpa_kernel()` for the new context "
        "manager, with updated signature.",
        FutureWarning,
    )
    before = dict(_attention)
    _attention.update(
        flash=enable_flash, mem_efficient=enable_mem_efficient, math=enable_math, cudnn=enable_cudnn
    )
    try:
        yield {}
    finally:
        _attention.update(before)
