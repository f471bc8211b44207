"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tapegrad as tg

from ...utils.naming import typename

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Any]) -> Any:
    """One vector of all parameters, one after the other.

    >>> nn.utils.parameters_to_vector([tensor([[1.0, 2.0]]), tensor([3.0])])
    tensor([1., 2., 3.])
    """
    return tg.cat([p.view(-1) for p in parameters])


def vector_to_parameters(vec: Any, parameters: Iterable[Any]) -> None:
    """Give the parameters the values of a vector; they then look at its memory.

    >>> layer = nn.Linear(1, 1)
    >>> nn.utils.vector_to_parameters(tensor([2.0, 3.0]), layer.parameters())
    >>> layer.weight.item(), layer.bias.item()
    (2.0, 3.0)
    """
    if not isinstance(vec, tg.Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {typename(vec)}")
    start = 0
    for p in parameters:
        end = start + p.numel()
        p.data = vec[start:end].view_as(p).data
        start = end
