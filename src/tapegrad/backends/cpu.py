"""Capabilities of the processor."""

from __future__ import annotations

__all__ = ["get_cpu_capability"]


def get_cpu_capability() -> str:
    """The widest vector instructions that NumPy uses, in PyTorch's words."""
    from numpy._core._multiarray_umath import __cpu_features__ as features

    if features.get("AVX512F"):
        return "AVX512"
    return "AVX2" if features.get("AVX2") else "DEFAULT"
