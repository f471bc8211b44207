"""A linear layer: the nodes that PyTorch has for it, recorded at once.

`view`, `t`, `addmm` and `view` one by one cost more time than a small product itself. Here the
kernel runs once, and the nodes are made without a dispatch for each. On a GPU the last of them also
knows the others (`Node._chain`), so that a pass which nobody watches can run all of them as one
(kernels/cuda/layers.py); for everybody else they are nodes like all others.
"""

from __future__ import annotations

from typing import Any

from .base import (
    ON_DEVICE,
    STATE,
    Node,
    Stamped,
    TensorBase,
    View,
    cell_of,
    next_seq,
    stamp,
    wrap,
)
from .late_bound import HOST_KERNELS
from .node import OpNode, accumulate_node
from .op import Op
from .record import BFLOAT16, saved_cell


class Chain:
    """The nodes of a linear layer behind its last one."""

    def __init__(self, product: OpNode | None, flat: OpNode | None, turned: OpNode | None) -> None:
        self.product = product  # of addmm; None: it is the last one
        self.flat = flat  # of the view of the input; None: that is a matrix, or needs no gradient
        self.turned = turned  # of the weight's transpose; None: that needs no gradient


def edge_of(t: TensorBase) -> Node:
    edge = t._node
    return accumulate_node(t) if edge is None else edge


def view_node(
    op: Op, t: TensorBase, attrs: tuple[Any, ...], metas: tuple[Any, ...], origin: Stamped
) -> OpNode:
    """The node of a view of `t`, which saves nothing; `origin` knows the user's line."""
    edge = t._node
    if edge is None:
        edge = accumulate_node(t)
    node = OpNode()
    node._code = origin._code
    node._lasti = origin._lasti
    node._module = origin._module
    node._op = op
    node._edges = (edge,)
    if edge._is_leaf:
        node._leaves = t
    if t._slot:
        node._edge_slots = (t._slot,)
    node._kept = (None, None, *attrs, *metas)
    node._seq = next_seq()
    return node


def cast(op: Op, t: TensorBase, array: Any, origin: Stamped) -> TensorBase:
    """A tensor around `array`, which a cast made of `t`, with the node of that."""
    made = wrap(array)
    if not t._wants_grad:
        made._cut = t._cut
        return made
    x = t._array
    dtype = x.dtype
    node = view_node(op, t, (array.dtype,), (dtype,), origin)
    node._fixes = ((x.shape, dtype),)
    made._node = node
    made._wants_grad = True
    return made


def linear(
    ops: tuple[Op, Op, Op],
    input: TensorBase,
    weight: TensorBase,
    bias: TensorBase,
    rows: int,
    origin: Stamped | None = None,
) -> Any:
    """`input @ weight.T + bias` of tensors that fit; None: by the ops one by one.

    `ops` are t, view and addmm; `rows` those of the input as a matrix; `origin` knows the line, if
    somebody has looked for it.
    """
    turning, viewing, adding = ops
    on_gpu = input._special == ON_DEVICE
    kernel = adding.device.kernel if on_gpu else HOST_KERNELS.product
    wants = bias._wants_grad, input._wants_grad, weight._wants_grad
    if kernel is None or STATE.timing or STATE.anomaly or True not in wants:
        return None
    x = input._array
    w = weight._array
    b = bias._array
    rank: int = x.ndim
    columns, inner = w.shape
    flat = x if rank == 2 else x.reshape(rows, inner)
    turned = w.T
    try:
        out = kernel(b, flat, turned, 1, 1) if on_gpu else kernel(flat, turned, b)
    except (MemoryError, ValueError):
        return None  # `apply` says what is wrong
    if out is None:
        return None

    if origin is None:
        origin = Stamped()
        if STATE.recording:
            stamp(origin)
    turned_node: OpNode | None = None
    flat_node: OpNode | None = None
    if weight._wants_grad:
        turned_node = view_node(turning, weight, (), (), origin)
    if input._wants_grad and rank != 2:
        flat_node = view_node(viewing, input, ((rows, inner),), (x.shape,), origin)
    node = OpNode()
    node._code = origin._code
    node._lasti = origin._lasti
    node._module = origin._module
    node._op = adding
    plan = adding.plan((1 if wants[0] else 0) | (2 if wants[1] else 0) | (4 if wants[2] else 0))
    cells: tuple[Any, ...] = ()
    if plan.inputs[1]:
        cell = saved_cell(input)
        cells = (1, cell, cell.n)
    if plan.inputs[2]:
        cell = saved_cell(weight)
        cells = (*cells, 2, cell, cell.n)
    node._cells = cells
    node._kept = (
        None,
        flat if plan.inputs[1] else None,
        turned if plan.inputs[2] else None,
        *(None, 1, 1),
        *(flat.strides, turned.strides),
    )
    node._frees = plan.saves
    to_bias: Node | None = None
    to_input: Node | None = flat_node
    leaves: list[Any] = []
    if wants[0]:
        to_bias = edge_of(bias)
        if to_bias._is_leaf:
            leaves.append(bias)
    elif bias._cut is not None:
        node._cut = bias._cut
    if not wants[1]:
        if input._cut is not None:
            node._cut = input._cut
    elif rank == 2:
        to_input = edge_of(input)
        if to_input._is_leaf:
            leaves.append(input)
        if input._slot:
            node._edge_slots = (bias._slot, input._slot, 0)
    if not wants[2] and weight._cut is not None:
        node._cut = weight._cut
    if bias._slot and wants[0] and node._edge_slots is None:
        node._edge_slots = (bias._slot, 0, 0)
    if leaves:
        node._leaves = leaves
    node._edges = (to_bias, to_input, turned_node)
    shape = (rows, columns)
    dtype = w.dtype
    # As record.fixes_of has them: for matrices of the result's shape there is nothing to undo.
    every = dtype.kind == BFLOAT16 and not on_gpu
    fix_bias = ((columns,), dtype) if wants[0] else None
    fix_input = ((rows, inner), dtype) if wants[1] and (every or inner != columns) else None
    fix_weight = ((inner, columns), dtype) if wants[2] and (every or inner != rows) else None
    if fix_bias is not None or fix_input is not None or fix_weight is not None:
        node._fixes = (fix_bias, fix_input, fix_weight)
    node._seq = next_seq()
    t = wrap(out)
    t._node = node
    t._wants_grad = True
    last = node
    if rank != 2:
        base = t
        full = (*x.shape[:-1], columns)
        t = wrap(out.reshape(full))
        last = view_node(viewing, base, (full,), (shape,), origin)
        t._node = last
        t._wants_grad = True
        cell = cell_of(base)
        t._cell = cell
        view = View(base, "", cell.n, ())
        view._code = origin._code
        view._lasti = origin._lasti
        t._view_of = view
    if on_gpu:
        last._chain = Chain(None if last is node else node, flat_node, turned_node)
    return t
