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

from ..core import dual
from ..core.base import TensorBase
from ..core.dual import LEVELS, Level
from .grad_mode import Mode

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]


class UnpackedDualTensor(NamedTuple):
    """The value and the tangent of a dual tensor; the tangent is None if it has none."""

    primal: Any
    tangent: Any


def enter_dual_level() -> int:
    """Open a level and return its number; `dual_level` also closes it."""
    if LEVELS:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    LEVELS.append(Level(len(LEVELS)))
    return LEVELS[-1].number


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level: its duals become plain tensors again."""
    if not LEVELS:
        raise RuntimeError("Dual level must be a positive number.")
    if level is not None and level != LEVELS[-1].number:
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is "
            "not supported."
        )
    LEVELS.pop().open = False


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """A view of `tensor` that carries `tangent`."""
    if not LEVELS:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first."
        )
    for name, value in (("primal", tensor), ("tangent", tangent)):
        if not (value.is_floating_point() or value.is_complex()):
            raise ValueError(
                f"Expected {name} to be floating point or complex, but got: {value.dtype}"
            )
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original "
            f"Tensor, this is not supported. Tensor is of size {list(tensor.shape)} while the "
            f"given forward gradient is of size {list(tangent.shape)}."
        )
    if tensor.dtype != tangent.dtype:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different dtype than that of the original "
            "Tensor, this is not supported."
        )
    if dual.tangent_of(tensor) is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the "
            f"same level {LEVELS[-1].number} is not supported."
        )
    made = tensor.view_as(tensor)
    dual.attach(made, tangent)
    return made


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """The value of a dual tensor, without its tangent, and the tangent."""
    if not isinstance(tensor, TensorBase):
        raise TypeError(
            "_unpack_dual(): argument 'dual' (position 1) must be Tensor, not "
            f"{type(tensor).__name__}"
        )
    if not LEVELS:
        return UnpackedDualTensor(tensor, None)
    primal = dual.bare(tensor)
    return UnpackedDualTensor(primal.view_as(primal), dual.tangent_of(tensor))


class dual_level(Mode):  # noqa: N801
    """A context in which dual tensors can be made; they lose their tangents at its end."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *error: object) -> None:
        exit_dual_level()
