"""The machinery of blocks: the `op` decorator, base classes, samples, batching rules, checks."""

from __future__ import annotations

from ...core.op import (
    AS_IS,
    LOWER,
    PROMOTE,
    PROMOTE_FLOAT,
    SINGLE,
    UNSAFE,
    WIDEST,
    Autocast,
)
from .definition import (
    APIS,
    Block,
    Case,
    Elementwise,
    Linear,
    ViewOp,
    api,
    apply,
    helper,
    looks_at_values,
    noted,
    op,
    reads_as,
    ufunc,
)
