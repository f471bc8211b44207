"""What blocks are made of: the `op` decorator, base classes, samples, batching rules, checks."""

from __future__ import annotations

from .definition import (
    APIS,
    AS_IS,
    PROMOTE,
    PROMOTE_FLOAT,
    Block,
    Case,
    Elementwise,
    Linear,
    ViewOp,
    api,
    apply,
    helper,
    op,
    publish,
    ufunc,
)
