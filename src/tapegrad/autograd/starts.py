"""Where a backward pass starts and for what: from the user's tensors to nodes and first gradients.

Compiled, since every `backward()` and `grad()` comes through here; api.py has those.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from .. import dtypes, errors
from ..core.base import (
    CALLER,
    F32,
    F64,
    STATE,
    Node,
    TensorBase,
    as_array,
    ndarray,
    next_seq,
    user_frame,
    wrap,
)
from ..core.late_bound import GPU, VIEWS
from ..core.lazy_conj import plain
from ..core.modes import MODES
from ..core.node import AccumulateGrad, accumulate_node, only_follows
from ..core.python_dispatch import ACTIVE, is_asked
from ..core.rule_functions import RECORDED
from ..core.transforms.levels import STACK
from . import dispatched
from .edges import GradientEdge, output_facts
from .engine import Pass

Start = tuple[Node, int, Any, int]
ONES: Final = {dtype: np.ones((), dtype) for dtype in (F32, F64)}


def is_root(value: Any) -> bool:
    return isinstance(value, (TensorBase, GradientEdge))


def is_valueless(root: Any) -> bool:
    """Whether a root is on the device meta: the pass then runs ops on tensors, not arrays."""
    return isinstance(root, TensorBase) and type(root._array) is STATE.meta_type is not None


def runs_on_tensors(roots: tuple[Any, ...]) -> bool:
    """Whether the values of a pass from these roots are tensors even where it is not recorded:
    they have no values (the device meta), or `__torch_dispatch__` wants to see what is computed.
    """
    if (ACTIVE.modes or dispatched.Seen.nodes) and dispatched.on_tensors(roots):
        return True
    return STATE.meta_type is not None and any([is_valueless(t) for t in roots])


def edge_of(value: Any) -> tuple[Node, int] | None:
    """The (node, output) of a tensor or GradientEdge; None without history."""
    if not isinstance(value, TensorBase):
        edge: GradientEdge = value
        return edge.node, edge.output_nr
    if value._view_of is not None:
        VIEWS.refresh(value)
    if not value._wants_grad:
        return None
    return value._node or accumulate_node(value), value._slot


def leads_nowhere(node: Node) -> bool:
    """Whether a node belongs to a view made under no_grad, which gets no gradient."""
    return isinstance(node, AccumulateGrad) and node.follows


def prepare_starts(roots: tuple[Any, ...], grads: tuple[Any, ...], record: bool) -> list[Start]:
    """Where the engine starts and with which gradients; ones for scalars where none are given."""
    if len(grads) < len(roots):
        raise RuntimeError(f"got {len(roots)} tensors and {len(grads)} gradients")
    if len(roots) == 1 and grads[0] is None and not record:
        start = scalar_start(roots[0])
        if start is not None:
            return [start]
    starts: list[Start] = []
    if not all([is_root(root) for root in roots]):
        raise AssertionError("Expected output to be a torch.Tensor")
    seeds = [seed_of(root, g, i) for i, (root, g) in enumerate(zip(roots, grads, strict=False))]
    for i, root in enumerate(roots):
        edge = edge_of(root)
        seed = seeds[i]
        if edge is None or seed is None or leads_nowhere(edge[0]):
            raise errors.no_history(root, i)
        made = root_facts(root)
        value = seed
        if not record:
            value = plain(seed._array)
            if made is not None and value.dtype is not made[1]:
                value = value.astype(made[1])
        elif made is not None and seed._array.dtype != made[1]:
            value = RECORDED.cast(seed, made[1])
        starts.append((edge[0], edge[1], value, 0 if record or grads[i] is not None else 1))
    return starts


class Tools:
    """How many tools have replaced `api.launch`: while there are any, all passes go through it."""

    watching: int = 0


TOOLS: Final = Tools()


def plain_start(root: Any) -> Start | None:
    """The start for `loss.backward()` of a scalar with a history; None if anything is special.

    Special are transforms (`vmap`), `__torch_dispatch__`, sparse gradients, a pass inside of
    another one, and tools that watch whole passes: `api.backward` knows them.
    """
    if STACK.levels or ACTIVE.modes or dispatched.Seen.nodes or TOOLS.watching:
        return None
    return None if MODES.run is not None else scalar_start(root)


def scalar_start(root: Any) -> Start | None:
    """The start of a pass on arrays from a scalar with a history; None in all other cases."""
    if not isinstance(root, TensorBase):
        return None
    t: TensorBase = root
    node = t._node
    array = t._array
    if t._special or t._view_of is not None or node is None or node._is_leaf:
        return None
    if array.shape != () or not t._wants_grad:
        return None
    one = ONES.get(array.dtype)
    return None if one is None else (node, t._slot, one.copy(), 1)


def seed_of(root: Any, g: Any, index: int) -> Any:
    if g is None:
        return implicit_seed(root)
    if not isinstance(g, TensorBase):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
    check_seed(root, g, index)
    return g


def root_facts(root: Any) -> tuple[Any, Any] | None:
    """(shape, dtype) of what is differentiated; None where an edge's tensor was never seen."""
    if isinstance(root, TensorBase):
        return root._array.shape, root._array.dtype
    edge: GradientEdge = root
    facts = output_facts(edge.node)
    return None if facts is None else facts[edge.output_nr]


def implicit_seed(root: Any) -> Any:
    if not isinstance(root, TensorBase):
        facts = root_facts(root)
        if facts is None:
            return ones((), F32)
        if math.prod(facts[0]) != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        refuse_complex(facts[1])
        return ones(*facts)
    if not (root._wants_grad or root.requires_grad):  # type: ignore[attr-defined]
        return None
    array = root._array
    if array.size != 1:
        raise errors.not_scalar(root)
    refuse_complex(array.dtype)
    return dispatched.ones_like(root) if is_asked(root) else ones_at(array)


def refuse_complex(dtype: Any) -> None:
    if dtype.kind not in "fV":
        raise RuntimeError(
            "grad can be implicitly created only for real scalar outputs but got "
            f"{dtypes.of(dtype)}"
        )


def ones_at(array: Any) -> Any:
    """Ones of the shape, dtype and device of an array."""
    if type(array) is not ndarray:
        return wrap(np.ones_like(array))
    return ones(array.shape, array.dtype)


def ones(shape: Any, dtype: Any) -> Any:
    one = ONES.get(dtype) if shape == () else None
    if one is not None:
        return wrap(one.copy())
    array = np.empty(shape, dtype)
    array.fill(1)
    return wrap(array)


def check_seed(root: Any, g: Any, index: int) -> None:
    facts = root_facts(root)
    if facts is None:
        return
    shape, dtype = facts
    if shape != g._array.shape:
        raise errors.slips.seed_of_other_shape(
            f"Mismatch in shape: grad_output[{index}] has a shape of {g.shape} and "
            f"output[{index}] has "
            f"a shape of torch.Size({list(shape)}).",
            root,
            shape,
            g._array.shape,
        )
    if isinstance(root, TensorBase) and is_valueless(root) != is_valueless(g):
        raise RuntimeError(
            f"invalid gradient at index {index} - expected device {root.device} but got "  # type: ignore[attr-defined]
            f"{g.device}"
        )
    if (dtype.kind == "c") != (g._array.dtype.kind == "c"):
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. "
            f"Mismatch in dtype: grad_output[{index}] has a dtype of {g.dtype} and "
            f"output[{index}] has "
            f"a dtype of {dtypes.of(dtype)}."
        )


def pass_from(
    starts: list[Start],
    keep: bool,
    record: bool,
    captures: dict[Node, list[tuple[int, int]]] | None = None,
    observer: Any = None,
) -> Pass:
    """The pass that begins at `starts`; its class depends on where their gradients are."""
    # The line, root and time of the pass, for the error about a second one (E02).
    caller: Any = None
    frame = user_frame(CALLER)
    if frame is not None:
        seq = starts[0][0]._seq if starts else 0
        caller = frame.f_code, frame.f_lasti, seq, next_seq()
    if not record:
        for start in starts:
            if type(start[2]) is STATE.device_type:
                found: Pass = GPU.backward_pass(keep, record, captures, caller, observer)
                return found
    return Pass(keep, record, captures, caller, observer)


def targets(inputs: tuple[Any, ...]) -> dict[Node, list[tuple[int, int]]]:
    """The nodes whose gradients are asked for, each with (output, index among the inputs)."""
    captures: dict[Node, list[tuple[int, int]]] = {}
    for i, t in enumerate(inputs):
        if not is_root(t):
            raise RuntimeError(
                f"all inputs have to be Tensors or GradientEdges, but got {type(t).__name__}"
            )
        edge = edge_of(t)
        if isinstance(t, TensorBase) and only_follows(t):
            continue  # no gradient ever gets there
        if edge is None:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
        captures.setdefault(edge[0], []).append((edge[1], i))
    return captures


def leads_elsewhere(nodes: list[Any], inputs: list[Any]) -> bool:
    """Whether a graph ends in leaves other than `inputs`."""
    own = {t._node for t in inputs if t._node is not None}
    stack: list[Node] = [n for n in nodes if n is not None]
    seen = set(stack)
    while stack:
        node = stack.pop()
        if isinstance(node, AccumulateGrad) and node not in own:
            return True
        for edge in node._edges:
            if edge is not None and edge not in seen:
                seen.add(edge)
                stack.append(edge)
    return False


def as_result(value: Any) -> Any:
    return value if isinstance(value, TensorBase) else wrap(as_array(value))
