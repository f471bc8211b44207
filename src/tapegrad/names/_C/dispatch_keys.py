"""PyTorch's dispatch keys, for programs that name them. Nothing here is dispatched by them."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any

NAMES = """
    Undefined CPU CUDA Meta SparseCPU SparseCUDA QuantizedCPU QuantizedCUDA BackendSelect Python
    Functionalize Conjugate Negative ADInplaceOrView AutogradOther AutogradFunctionality AutogradCPU
    AutogradCUDA Autograd Tracer AutocastCPU AutocastCUDA AutocastXPU AutocastMPS AutocastHPU
    FuncTorchBatched Batched PythonTLSSnapshot CompositeImplicitAutograd CompositeExplicitAutograd
""".split()

DispatchKey = enum.Enum("DispatchKey", NAMES, start=0, module=__name__)  # type: ignore[misc]


class DispatchKeySet:
    """A set of keys."""

    def __init__(self, *keys: Any) -> None:
        self.keys = frozenset(
            k for key in keys for k in (key.keys if isinstance(key, DispatchKeySet) else (key,))
        )

    def has(self, key: Any) -> bool:
        return key in self.keys

    def add(self, key: Any) -> DispatchKeySet:
        return DispatchKeySet(*self.keys, key)

    def remove(self, key: Any) -> DispatchKeySet:
        return DispatchKeySet(*(self.keys - {key}))

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*self.keys, *other.keys)

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*(self.keys & other.keys))

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*(self.keys - other.keys))

    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(self.keys, key=lambda key: key.value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKeySet) and other.keys == self.keys

    def __hash__(self) -> int:
        return hash(self.keys)

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(key.name for key in self)})"


class _ExcludeDispatchKeyGuard:
    """Without some keys for a block. Without those of autocast, autocast is off."""

    def __init__(self, keys: DispatchKeySet) -> None:
        self.keys = keys

    def __enter__(self) -> None:
        from tapegrad.amp.autocast_mode import autocast

        kinds = {key.name.removeprefix("Autocast").lower() for key in self.keys}
        self.blocks = [autocast(kind, enabled=False) for kind in ("cpu", "cuda") if kind in kinds]
        for block in self.blocks:
            block.__enter__()

    def __exit__(self, *error: Any) -> None:
        for block in reversed(self.blocks):
            block.__exit__(*error)
