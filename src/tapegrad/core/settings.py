"""Switches of the process that kernels read; the functions that set them are in api/settings.py."""

from __future__ import annotations

from typing import Any


class Settings:
    """Switches that users set. No result on the CPU depends on them: it is exact in any case."""

    threads = 0  # 0: not asked yet
    interop: int | None = None
    deterministic = False
    warn_only = False
    portable = False  # the same bits on every machine: kernels/portable
    matmul_precision = "highest"
    matmul_fp32 = "none"  # on GPUs: "ieee", "tf32", or nothing said
    fill_uninitialized_memory = True


class Default:
    """The device of `set_default_device`."""

    device: Any = None
