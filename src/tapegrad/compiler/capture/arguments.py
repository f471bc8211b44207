"""What a compiled function is called with: which recording fits, and what stands for what."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import dtypes
from ...core import modes
from ...core.base import STATE, TensorBase
from ...core.late_bound import TENSOR, VIEWS
from ...core.modes import MODES
from ...utils import _pytree as pytree
from ..backward.of_results import standing_for
from ..backward.upstream import history, is_history

FLAT = (TensorBase, int, float, str, type(None))
ANY_FLOAT = "any float"  # in the place of one
ORDINARY = (True, False, None, False, np.dtype(np.float32).num)  # what is `around` mostly


def is_tensor(value: Any) -> bool:
    return isinstance(value, TensorBase)


def flat(args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments in a row, and how they were nested; None: they were not."""
    if not kwargs and all([isinstance(a, FLAT) or pytree.tree_is_leaf(a) for a in args]):
        return args, None
    return pytree.tree_flatten((args, kwargs))


def has_stand_in(t: Any, leaves_too: bool) -> bool:
    """Whether a tensor at a fixed place may stand for an argument; others are used as they are."""
    if type(t) is not TENSOR.cls or t._special:
        return False
    if not t._wants_grad:
        return True
    return t._gradient is None and (leaves_too or not is_leaf(t))


def is_leaf(t: Any) -> bool:
    if t._view_of is not None:
        VIEWS.refresh(t)
    return t._node is None or t._node._is_leaf


def described(value: Any, leaves_too: bool, histories: bool = False) -> Any:
    """What has to be the same for a recording to fit an argument: what is behind it, perhaps."""
    if isinstance(value, TensorBase):
        if not has_stand_in(value, leaves_too):
            return id(value)
        array = value._array
        found = type(value), array.shape, array.dtype, array.strides, value._wants_grad
        return (*found, history(value)) if histories and is_history(value) else found
    if type(value) is float:
        return float, value.hex()  # zeros have signs
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), value


def is_float(value: Any, part: Any) -> bool:
    return type(value) is float and type(part) is tuple and part[0] is float


def around() -> Any:
    """The switches that ops look at."""
    default = dtypes.default_np().num
    if not STATE.modes_on and not STATE.anomaly:
        return ORDINARY if default == ORDINARY[-1] else (*ORDINARY[:-1], default)
    return MODES.grad, MODES.inference, MODES.autocast, modes.ANOMALY.enabled, default


def static_input(value: Any, leaves_too: bool) -> Any:
    """A tensor at a fixed place for an argument; None where the argument itself is used."""
    if not isinstance(value, TensorBase) or not has_stand_in(value, leaves_too):
        return None
    return standing_for(value, value._array.copy(order="K"))
