"""A softmax that draws: samples of a choice through which gradients flow."""

from __future__ import annotations

from typing import Any

from ...core.warned import warn
from ..block import api
from ..block.public import public


# No samples: every call draws others.
@api(name="nn.functional.gumbel_softmax", method=False)
def gumbel_softmax(
    logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Any:
    """gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1) -> Tensor: a class drawn from
    `logits`, so that gradients pass.

    Softmax of `logits` with Gumbel noise, at temperature `tau`. With `hard` the result is one-hot
    and its gradient that of the soft one.

    >>> nn.functional.gumbel_softmax(tensor([[0.0, 200.0]]), hard=True)
    tensor([[0., 1.]])
    """
    if eps != 1e-10:
        warn("`eps` parameter is deprecated and has no effect.")
    noise = -public.empty_like(logits, memory_format=public.contiguous_format).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    choice = soft.max(dim, keepdim=True).indices
    chosen = public.zeros_like(logits, memory_format=public.contiguous_format).scatter_(
        dim, choice, 1.0
    )
    return chosen - soft.detach() + soft
