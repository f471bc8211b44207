"""`torch.Tag`: what can be said of an op besides its schema."""

from __future__ import annotations

import enum
from typing import Any


class Tag(enum.Enum):
    """Facts about an op, set by `Library.define(…, tags=…)` and read from `OpOverload.tags`.

    >>> torch.library.define("shown::tagged", "(Tensor x) -> Tensor", tags=(torch.Tag.core,))
    >>> torch.ops.shown.tagged.default.tags
    [<Tag.core: 0>]
    """

    core = 0
    cudagraph_unsafe = 1
    data_dependent_output = 2
    dynamic_output_shape = 3
    flexible_layout = 4
    generated = 5
    inplace = 6
    inplace_view = 7
    maybe_aliasing_or_mutating = 8
    needs_contiguous_strides = 9
    needs_exact_strides = 10
    needs_fixed_stride_order = 11
    nondeterministic_bitwise = 12
    nondeterministic_seeded = 13
    out = 14
    out_variant = 15
    pointwise = 16
    pt2_compliant_tag = 17
    reduction = 18
    view_copy = 19


def as_tags(tags: Any) -> list[Tag]:
    """The `tags` argument, one tag or several, as a list."""
    given = [tags] if isinstance(tags, Tag) else list(tags or ())
    if not all(isinstance(tag, Tag) for tag in given):
        raise TypeError(
            "define(): incompatible function arguments. The following argument types are supported:"
            f"\n    1. tags: torch.Tag or a sequence of them; got {tags!r}"
        )
    return given
