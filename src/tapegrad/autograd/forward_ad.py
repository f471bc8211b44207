"""Forward-mode differentiation: dual tensors inside a `dual_level`.

>>> import tapegrad as torch
>>> import tapegrad.autograd.forward_ad as fwAD
>>> with fwAD.dual_level():
...     x = fwAD.make_dual(torch.tensor(3.0), torch.tensor(1.0))
...     fwAD.unpack_dual(x * x).tangent
tensor(6.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..core.base import TensorBase
from ..core.dispatch import apply
from ..core.op import REGISTRY
from ..core.per_thread import PerThread
from ..core.transforms import dual
from ..core.transforms.batched import has_batched
from ..core.transforms.levels import STACK, Level
from ..core.transforms.opening import close_level, open_level
from .grad_mode import Mode

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]


def __getattr__(name: str) -> Any:
    if name == "_current_level":  # of this thread
        return -1 if current() is None else 0
    raise AttributeError(f"module 'torch.autograd.forward_ad' has no attribute '{name}'")


class UnpackedDualTensor(NamedTuple):
    """The value and the tangent of a dual tensor; the tangent is None if it has none.

    >>> fwAD = autograd.forward_ad
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(tensor([1.0]), tensor([2.0]))
    ...     pair = fwAD.unpack_dual(x * 3)
    >>> isinstance(pair, fwAD.UnpackedDualTensor), pair.tangent
    (True, tensor([6.]))
    """

    primal: Any
    tangent: Any


class Former(PerThread):
    """How many calls of the vmap that PyTorch had first are going on: there, entries are duals."""

    vmaps: int = 0


FORMER = Former()


def current() -> Level | None:
    """The level that `dual_level` opened in this thread."""
    return next((level for level in STACK.levels if level.kind == "dual"), None)


def enter_dual_level() -> int:
    """Open a level and return its number; `dual_level` also closes it.

    >>> fwAD = autograd.forward_ad
    >>> level = fwAD.enter_dual_level()
    >>> x = fwAD.make_dual(tensor([3.0]), tensor([1.0]))
    >>> print(fwAD.unpack_dual(x * x).tangent)
    tensor([6.])
    >>> fwAD.exit_dual_level()
    """
    if any([level.kind in ("dual", "jvp") for level in STACK.levels]):
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    open_level("dual")
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level: its duals become plain tensors again.

    >>> fwAD = autograd.forward_ad
    >>> level = fwAD.enter_dual_level()
    >>> fwAD.exit_dual_level(level=level)
    >>> level
    0
    """
    found = current()
    if found is None and level is None:
        raise RuntimeError("Dual level must be a positive number.")
    if found is None or (level is not None and level != 0):
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is "
            "not supported."
        )
    close_level(found)


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """A view of `tensor` that carries `tangent`.

    >>> fwAD = autograd.forward_ad
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(tensor([0.0]), tensor([2.0]))
    ...     print(fwAD.unpack_dual(x.exp()).tangent)
    tensor([2.])
    """
    opened = current()
    if (opened is None and level is None) or (level is not None and level < 0):
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first."
        )
    for name, value in (("primal", tensor), ("tangent", tangent)):
        if not (value.is_floating_point() or value.is_complex()):
            raise ValueError(
                f"Expected {name} to be floating point or complex, but got: {value.dtype}"
            )
    if level:
        raise RuntimeError("Invalid level given to _make_dual")
    if opened is None:
        raise RuntimeError(
            "Trying to access a forward AD level with an invalid index. This index was either not "
            "created or is already deleted."
        )
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original "
            f"Tensor, this is not supported. Tensor is of size {list(tensor.shape)} while the "
            f"given forward gradient is of size {list(tangent.shape)}."
        )
    if dual.tangent_of(tensor, opened) is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the "
            "same level 0 is not supported."
        )
    if dual.tangent_of(tangent, opened) is not None:
        raise RuntimeError(
            "Setting a forward grad that itself has a forward gradient at the same level0 is not "
            "supported."
        )
    if has_batched((tensor, tangent)) and not FORMER.vmaps:
        raise RuntimeError(
            "Batching rule not implemented for aten::_make_dual; the fallback path doesn't work on "
            "out= or view ops."
        )
    return dual.made_dual(tensor, tangent, opened)


def dual_from(tensor: Any, tangent: Any) -> Any:
    """A dual of the open level; the tangent may be batched."""
    opened = current()
    assert opened is not None
    return dual.made_dual(tensor, tangent, opened)


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """The value of a dual tensor, without its tangent, and the tangent.

    >>> fwAD = autograd.forward_ad
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(tensor([0.0]), tensor([2.0]))
    ...     primal, tangent = fwAD.unpack_dual(x.sin())
    >>> primal, tangent
    (tensor([0.]), tensor([2.]))
    """
    if not isinstance(tensor, TensorBase):
        raise TypeError(
            "_unpack_dual(): argument 'dual' (position 1) must be Tensor, not "
            f"{type(tensor).__name__}"
        )
    opened = current()
    if (opened is None and level is None) or (level is not None and level < 0):
        return UnpackedDualTensor(tensor, None)
    if level:
        raise RuntimeError("Invalid level given to _fw_primal")
    if opened is None:
        raise RuntimeError(
            "Trying to access a forward AD level with an invalid index. This index was either not "
            "created or is already deleted."
        )
    # Not a view of the dual itself, which would give it the tangent again.
    primal = apply(REGISTRY["fw_primal"], (dual.bare(tensor, opened),))
    return UnpackedDualTensor(primal, dual.tangent_of(tensor, opened))


def _is_fwd_grad_enabled() -> bool:
    """Whether tangents are seen in this thread."""
    return STACK.forward


class _set_fwd_grad_enabled(Mode):  # noqa: N801
    """Forward mode on or off, at once and until the end of a block."""

    def __init__(self, mode: bool) -> None:
        self.before = STACK.forward
        self.mode = mode
        STACK.forward = mode

    def clone(self) -> _set_fwd_grad_enabled:
        return type(self)(self.mode)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        STACK.forward = self.before


class dual_level(Mode):  # noqa: N801
    """A context in which dual tensors can be made; they lose their tangents at its end.

    >>> fwAD = autograd.forward_ad
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(tensor([3.0]), tensor([1.0]))
    ...     print(fwAD.unpack_dual(x * x).tangent)
    tensor([6.])
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *error: object) -> None:
        exit_dual_level()
