"""Whether a value is an array: the one question about arrays that errors ask too."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import STATE


def is_array(value: Any) -> bool:
    """Whether a value is an array with values, here or on a GPU; tensors are not.

    >>> is_array(np.zeros(2)), is_array([0.0, 0.0]), is_array(np.float64(0.0))
    (True, False, False)
    """
    kind = type(value)
    return isinstance(value, np.ndarray) or kind in (STATE.device_type, STATE.bits_type)
