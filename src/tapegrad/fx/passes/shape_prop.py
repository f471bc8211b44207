"""Shapes and dtypes of all nodes of a graph, for an example."""

from __future__ import annotations

from typing import Any, NamedTuple

import tapegrad as tg

from ..interpreter import Interpreter
from ..node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """Shape, dtype, strides and layout of a tensor, without its values."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Any, include_contiguity: bool = True) -> TensorMetadata:
    forms = (tg.contiguous_format, tg.channels_last, tg.channels_last_3d)
    fits = [
        form
        for form, rank in zip(forms, (None, 4, 5), strict=True)
        if rank in (None, result.dim()) and result.is_contiguous(memory_format=form)
    ]
    return TensorMetadata(
        result.shape,
        result.dtype,
        result.requires_grad,
        result.stride(),
        fits[0] if fits and include_contiguity else None,
        False,
        {},
    )


class ShapeProp(Interpreter):
    """Runs a graph on an example and notes in `node.meta` what comes out.

    >>> traced = torch.fx.symbolic_trace(lambda x: x.flatten(1))
    >>> _ = torch.fx.passes.shape_prop.ShapeProp(traced).propagate(ones(2, 3, 4))
    >>> [tuple(node.meta["tensor_meta"].shape) for node in traced.graph.nodes]
    [(2, 3, 4), (2, 12), (2, 12)]
    """

    def __init__(self, gm: Any, fake_mode: Any = None) -> None:
        super().__init__(gm)

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        found = False

        def note(value: Any) -> Any:
            nonlocal found
            if not isinstance(value, tg.Tensor):
                return value
            found = True
            return _extract_tensor_metadata(value)

        meta = map_aggregate(result, note)
        if found:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph; returns its result."""
        return super().run(*args)
