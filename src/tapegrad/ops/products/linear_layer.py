"""A linear layer on floats of one dtype: one kernel, and the nodes that PyTorch has for its ops.

`view`, `t`, `addmm` and `view` one by one take longer than a small product itself. Here the kernel
runs once and the nodes are made without a dispatch for each; tests/test_node_layouts.py compares
them with those of the ops. They are written out: nn.Linear(4, 4) takes 17 % longer where record.py
lays out the nodes (a training step of two layers 3 %), 27 % where a table of ops is read. On a GPU
the last node knows the others (`Node._chain`), so that a backward pass without observers can run
all of them as one (kernels/cuda/layers.py).
"""

from __future__ import annotations

from typing import Any, Final, cast

from ...core.base import (
    ON_DEVICE,
    ORDINARY,
    STATE,
    Node,
    Stamped,
    TensorBase,
    cell_of,
    next_seq,
    stamp,
    wrap,
)
from ...core.base import View as Recipe
from ...core.casting import cast_at_once
from ...core.dispatch import REALS, apply, is_stale
from ...core.late_bound import HOST_KERNELS
from ...core.modes import MODES
from ...core.node import OpNode, accumulate_node
from ...core.op import Op
from ...core.record import BFLOAT16, saved_cell
from ..shape.dim_order import T
from ..shape.views import View
from .addmm import Addmm

# Blocks are classes to a type checker; in fact `@op` has replaced each by its Op record.
TURN: Final = cast(Op, T)
VIEW: Final = cast(Op, View)
ADDMM: Final = cast(Op, Addmm)


def linear_of_floats(input: Any, weight: Any, bias: Any) -> Any:
    """`linear` where everything fits: floats of one dtype, nothing to refuse; else None."""
    if not (
        isinstance(input, TensorBase)
        and isinstance(weight, TensorBase)
        and isinstance(bias, TensorBase)
    ):
        return None
    rows = rows_of(input._array, weight._array, bias._array)
    if rows < 0:
        return None
    x = input._array
    shape: tuple[int, ...] = x.shape
    columns, inner = weight._array.shape
    if rows and inner:
        found = at_once(input, weight, bias, rows)
        if found is not None:
            return found
    if len(shape) == 2:
        return apply(ADDMM, (bias, input, apply(TURN, (weight,))), (1, 1))
    if not x.flags.c_contiguous or not rows or not inner:
        return None
    turned = apply(TURN, (weight,))
    flat = apply(VIEW, (input,), ((rows, inner),))
    out = apply(ADDMM, (bias, flat, turned), (1, 1))
    return apply(VIEW, (out,), ((*shape[:-1], columns),))


def rows_of(x: Any, w: Any, b: Any) -> int:
    """How many rows the input of a linear layer has as a matrix; -1 if the arrays do not fit."""
    dtype = x.dtype
    if dtype.kind not in REALS or w.dtype is not dtype or b.dtype is not dtype:
        return -1
    shape: tuple[int, ...] = x.shape
    rank = len(shape)
    if rank < 2 or w.ndim != 2:
        return -1
    columns, inner = w.shape
    if shape[rank - 1] != inner or b.shape != (columns,):
        return -1
    rows = 1
    for n in shape[:-1]:
        rows *= n
    return rows


def at_once(input: TensorBase, weight: TensorBase, bias: TensorBase, rows: int) -> Any:
    """The layer by one kernel; None: its ops have to run one by one."""
    special = input._special
    if weight._special != special or bias._special != special:
        return None
    if special != ORDINARY and (special != ON_DEVICE or STATE.several):
        return None
    if STATE.modes_on != (STATE.only_casting if STATE.casting else 0):
        return None
    for t in (input, weight, bias):
        if t._view_of is not None and is_stale(t):
            return None
    x = input._array
    if x.ndim != 2 and not (x._c_contiguous if special == ON_DEVICE else x.flags.c_contiguous):
        return None
    return record_at_once(input, weight, bias, rows)


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


def record_at_once(input: TensorBase, weight: TensorBase, bias: TensorBase, rows: int) -> Any:
    """The result with the nodes of all ops; None: no kernel for it, or no gradient is wanted."""
    on_gpu = input._special == ON_DEVICE
    kernel = ADDMM.device.kernel if on_gpu else HOST_KERNELS.product
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

    origin = Stamped()
    if STATE.recording:
        stamp(origin)
    turned_node: OpNode | None = None
    flat_node: OpNode | None = None
    if weight._wants_grad:
        turned_node = view_node(TURN, weight, (), (), origin)
    if input._wants_grad and rank != 2:
        flat_node = view_node(VIEW, input, ((rows, inner),), (x.shape,), origin)
    node = OpNode()
    node._code = origin._code
    node._lasti = origin._lasti
    node._module = origin._module
    node._op = ADDMM
    plan = ADDMM.plan((1 if wants[0] else 0) | (2 if wants[1] else 0) | (4 if wants[2] else 0))
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
        last = view_node(VIEW, base, (full,), (shape,), origin)
        t._node = last
        t._wants_grad = True
        cell = cell_of(base)
        t._cell = cell
        view = Recipe(base, "", cell.n, ())
        view._code = origin._code
        view._lasti = origin._lasti
        t._view_of = view
    if on_gpu:
        last._chain = (None if last is node else node, flat_node, turned_node)
    return t


def cast_linear(input: Any, weight: Any, bias: Any) -> tuple[Any, Any, Any, Any]:
    """Under autocast: the tensors of a linear layer on a GPU, cast, and its result.

    The result is None where `cast_call` has to run the layer.
    """
    low = MODES.autocast[1]
    if low is None or bias is None:
        return input, weight, bias, None
    for t in (input, weight, bias):
        if not isinstance(t, TensorBase) or t._special != ON_DEVICE:
            return input, weight, bias, None
    simple = STATE.modes_on == STATE.only_casting and not STATE.several
    simple = simple and not STATE.timing and not STATE.anomaly
    bias = cast_at_once(bias, low, simple)
    weight = cast_at_once(weight, low, simple)
    input = cast_at_once(input, low, simple)
    rows = rows_of(input._array, weight._array, bias._array)
    if rows <= 0 or not weight._array.shape[1]:
        return input, weight, bias, None
    return input, weight, bias, at_once(input, weight, bias, rows)
