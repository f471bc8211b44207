"""A backend: an array module, and per op the exceptions to the reference."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..core.host_arrays import host


class Backend:
    """Gives every op its kernel: an override where there is one, else the block's own forward.

    Gradients are not written per backend, as rules are made of ops; `pulls` are for the few where
    one kernel makes several gradients.
    """

    def __init__(self, name: str, xp: Any) -> None:
        self.name = name
        self.xp = xp
        self.overrides: dict[str, Callable[..., Any]] = {}
        self.pulls: dict[str, Callable[..., Any]] = {}  # see DeviceSide
        self.mixed: dict[str, Callable[..., Any]] = {}  # see DeviceSide
        self.ranges: Any = None  # who looks for indices out of range, where the host cannot
        # Kernels for the functions of cuda/philox.py, by name.
        self.draws: dict[str, Callable[..., Any]] = {}

    def override(self, op: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorate the kernel that this backend runs for `op`."""

        def register(kernel: Callable[..., Any]) -> Callable[..., Any]:
            self.overrides[op] = kernel
            return kernel

        return register

    def add_into(self, target: Any, other: Any) -> None:
        """`target += other`: how the backward pass adds gradients up."""
        target += other

    def copied(self, x: Any) -> Any:
        """A contiguous copy."""
        return x.copy()

    def casts(self, arrays: list[Any], dtype: Any, apart: bool) -> list[Any] | None:
        """Cast several arrays of one dtype by one kernel; None: the caller casts them one by one.

        Unless they are to be `apart`, the new ones may share memory that is freed with the last.
        """
        return None

    def linear_gradients(
        self, grad: Any, x: Any, right: Any, wants: tuple[bool, ...]
    ) -> tuple[Any, Any, Any]:
        """The gradients of bias, x and the transpose of `right` in `x @ right + bias`."""
        kernel = self.in_rules
        return (
            kernel("sum")(grad, (0,), False, None) if wants[0] else None,
            kernel("mm")(grad, right.T) if wants[1] else None,
            kernel("mm")(grad.T, x) if wants[2] else None,
        )

    def in_rules(self, name: str) -> Any:
        """The kernel of an op by its name."""
        from ..core.op import REGISTRY

        return self.kernel(REGISTRY[name])

    def assign(self, target: Any, source: Any) -> None:
        """`target[...] = source`, cast and broadcast if need be."""
        target[...] = source

    def kernel(self, op: Any) -> Callable[..., Any]:
        found = self.overrides.get(op.name)
        if found is not None:
            return found
        forward = op.forward
        direct = getattr(forward, "ufunc", None)  # the block names a ufunc: no Python in between
        module = getattr(self.xp, "module", self.xp)
        return getattr(module, direct) if direct else functools.partial(forward, self.xp)

    def pull(self, op: Any) -> Callable[..., Any] | None:
        return self.pulls.get(op.name)


NUMPY = Backend("numpy", host)
