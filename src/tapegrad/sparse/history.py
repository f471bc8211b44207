"""Placeholders that sparse tensors have instead of arrays, and names of PyTorch's nodes."""

from __future__ import annotations

import math
from typing import Any

from ..core.base import Node, next_seq, stamp, wrap
from ..core.modes import MODES
from ..core.node import accumulate_node
from ..core.transforms.dual import dual_of, has_dual, set_dual


def could_not_run(name: str, backend: str = "SparseCPU") -> NotImplementedError:
    return NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the '{backend}' backend. This could be "
        "because the operator doesn't exist for this backend, or was omitted during the "
        "selective/custom build process (if using custom build). If you are a Facebook employee "
        "using PyTorch on mobile, please visit https://fburl.com/ptmfixes for possible resolutions."
    )


def no_strides(backend: str = "SparseCPU") -> NotImplementedError:
    return could_not_run("as_strided", backend)


class NoElements:
    """Stands where other tensors have their array: it knows shape and dtype and refuses the rest.

    Code that looks at `tensor.array` without asking dispatch so gets an error, never numbers.
    """

    __slots__ = ("dtype", "itemsize", "ndim", "shape", "size")

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape = shape
        self.dtype = dtype
        self.ndim = len(shape)
        self.size = math.prod(shape)
        self.itemsize = dtype.itemsize

    def __getattr__(self, name: str) -> Any:
        raise could_not_run("as_strided" if name in ("base", "flags", "strides") else name)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise could_not_run("numpy")

    def __getitem__(self, index: Any) -> Any:
        raise no_strides()

    def __setitem__(self, index: Any, value: Any) -> None:
        raise could_not_run("copy_")

    # The one question that Python would answer by itself.
    def __eq__(self, other: object) -> bool:
        raise could_not_run("equal")

    __hash__ = None  # type: ignore[assignment]


class NamedNode(Node):
    """Hands the gradient through; it gives several small steps the one name that PyTorch has."""

    label: str = ""

    def _pull(self, grad: Any, record: bool) -> Any:
        return [grad]

    def name(self) -> str:
        return self.label


def named(t: Any, label: str) -> Any:
    """A tensor with these values and a node called `label` as the last step of their history."""
    if not t.requires_grad:
        return t
    if not MODES.records:
        return without_history(t)
    node = NamedNode()
    node.label = label
    # grad_fn brings a view's history up to date first.
    edge = t.grad_fn or t._node or accumulate_node(t)
    node._edges = (edge,)
    if t._slot:
        node._edge_slots = (t._slot,)
    if edge._is_leaf:
        node._leaves = t
    node._seq = next_seq()
    stamp(node, 1)
    made = wrap(t._array)
    made._wants_grad = True
    made._node = node
    made._cell = t._version_cell()
    if has_dual((t,)):
        set_dual(made, dual_of(t))
    return made


def without_history(t: Any) -> Any:
    """`t.detach()` that keeps the tangents of forward mode."""
    return t.view_as(t) if has_dual((t,)) else t.detach()
