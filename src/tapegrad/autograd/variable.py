"""Variable: the wrapper of PyTorch before 0.4. Today it is the tensor itself."""

from __future__ import annotations

import warnings
from typing import Any

from ..core.base import TensorBase
from ..core.upward import TENSOR


class VariableMeta(type):
    def __instancecheck__(cls, other: Any) -> bool:
        return isinstance(other, TensorBase)


class Variable(metaclass=VariableMeta):
    """Variable(data, requires_grad=False): a tensor that looks at `data`'s memory.

    >>> autograd.Variable(tensor([1.0]), requires_grad=True)
    tensor([1.], requires_grad=True)
    """

    def __new__(
        cls, data: Any = None, requires_grad: bool = False, volatile: Any = None, **kwargs: Any
    ) -> Any:
        if volatile is not None:
            warnings.warn(
                "volatile was removed and now has no effect. Use `with torch.no_grad():` instead.",
                UserWarning,
                stacklevel=2,
            )
        if data is None:
            data = TENSOR.cls()
        if not isinstance(data, TensorBase):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        made: Any = data.data  # type: ignore[attr-defined]
        made.cut = None
        if requires_grad:
            made.requires_grad_(True)
        return made
