"""Taylor mode: tensors that carry their derivatives of several orders along a path.

An expansion of order K has K levels of forward mode (dual.py), one per derivative: the tangent of a
tensor at level k is its k-th derivative along the path. So views, in-place writes and batches treat
each derivative as they treat any tangent; only the derivatives of an op's result are made here:

- a linear op is applied to each derivative, and so is one that is linear in what moves;
- an op that is linear in each of two tensors follows Leibniz's product rule;
- every other op has a forward-mode rule y' = jvp(x, x'). The rule, run with tensors that carry the
  derivatives up to k, gives y' with its derivatives up to k, and these are the derivatives 1 to
  k + 1 of y. Its work grows with a power of the order; nested forward mode doubles with each order.

A *collapsed* expansion has order 2 and follows many paths at once: the first derivatives have the
paths as a batch, the second ones are kept only as their (weighted) sum over the paths. Their sum is
all that a Laplacian needs, and it is pushed through linear ops once, not once per path.
"""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np

from ..base import INTERPRETED, ORDINARY, STATE, TensorBase, wrap
from ..dispatch import apply, is_unrecorded
from ..late_bound import HOST_KERNELS, TENSOR
from ..op import Op
from ..record import FLOATS
from ..rule_functions import RECORDED
from .batched import batch_of, batched, grounded, is_batched, lift, mirrored
from .dual import (
    Dual,
    alive,
    attach,
    bare,
    dual_of,
    fitted,
    remember_tangents,
    same_tensor,
    set_dual,
    source_of,
    tangent_of,
    unshared,
)
from .levels import Level

Path = list[Any]  # the derivatives of a tensor along the path, first order first; None is zero


class Expansion:
    """The levels of one Taylor expansion, and up to which order results are made at present."""

    def __init__(
        self, levels: list[Level], paths: Level | None = None, weights: Any = None
    ) -> None:
        self.levels = levels
        self.order = len(levels)
        self.paths = paths  # the batch over which second derivatives are summed, if collapsed
        self.weights = weights  # of the paths in that sum; None: all are 1
        self.by_kernels = paths is not None and weights is None
        for level in levels:
            level.expansion = self

    def push(self, op: Op, tensors: Any, attrs: Any, watch: Any) -> Any:
        """`apply` for tensors that carry derivatives of this expansion."""
        return push(op, tensors, attrs, watch, self)

    def derivatives(self, t: Any, order: int) -> Path:
        return [tangent_of(t, level) for level in self.levels[:order]]

    def of_function(self, rule: Any, tensors: Any, paths: list[Path], outs: Any) -> list[Any]:
        """The derivatives of outputs that no op has made, from their forward-mode rule.

        `rule` has the signature of `Op.jvp`; the tensors come without derivatives (`strip`).
        """
        op = Op()
        op.jvp = rule
        op.single = False
        op.jvp_reads_outs = True
        op.tensors = ("input",) * len(paths)
        op.needed_by = (op.outs,) * len(paths)
        return results(op, tensors, paths, outs, (), self)

    def summed(self, t: Any) -> Any:
        """The weighted sum of a tensor over the paths of a collapsed expansion."""
        assert self.paths is not None
        whole = lift(t, self.paths)
        if self.weights is None:
            return RECORDED.sum(whole, (0,), False, None)
        weights = self.weights.reshape(-1, *(1,) * (whole.ndim - 1))
        return RECORDED.sum(whole * weights, (0,), False, None)

    def with_order(self, order: int, function: Any, *args: Any) -> Any:
        """Call a function that makes no derivatives beyond an order."""
        before, self.order = self.order, order
        try:
            return function(*args)
        finally:
            self.order = before


def push(op: Op, tensors: Any, attrs: Any, watch: Any, expansion: Expansion) -> Any:
    """Run an op on the values, and give its results their derivatives."""
    order = expansion.order
    levels = expansion.levels
    if expansion.by_kernels and order == 2:
        made = directly(op, tensors, attrs, watch, expansion)
        if made is not None:
            return made
    paths = [
        expansion.derivatives(t, order) if isinstance(t, TensorBase) else [None] * order
        for t in tensors
    ]
    taken = strip(tensors, expansion)
    try:
        result = apply(op, tensors, attrs, watch)
        if not op.differentiable:
            return result
        outs = (result,) if op.single else tuple(result)
        made = results(op, tensors, paths, outs, attrs, expansion)
    finally:
        restore(taken)
    for k, (level, pushed) in enumerate(zip(levels, made, strict=False)):
        given = [path[k] for path in paths]
        for i, (out, derivative) in enumerate(zip(outs, pushed, strict=True)):
            if derivative is None or i in op.plain_outs or out._array.dtype.kind not in FLOATS:
                continue
            if not (op.view or op.multi_view):
                derivative = lent(op, tensors, derivative, given, expansion)
            attach(out, fitted(derivative, out), level, source_of(out, level))
        remember_tangents(outs, given, level)
    return result


def strip(tensors: Any, expansion: Expansion) -> list[tuple[Any, Dual, Dual | None]]:
    """Take the derivatives of an expansion from tensors; `restore` gives them back."""
    taken: list[tuple[Any, Dual, Dual | None]] = []
    for t in tensors:
        if isinstance(t, TensorBase):
            if t._special == INTERPRETED:
                t, _ = grounded(t)
                take(t, expansion, taken)
            if t._view_of is not None:
                take(t._view_of.base, expansion, taken)  # a view would ask it
    return taken


def take(t: Any, expansion: Expansion, taken: list[tuple[Any, Dual, Dual | None]]) -> None:
    found = dual_of(t)
    rest = found
    while rest is not None and rest.level.expansion is expansion:
        rest = alive(rest.below)
    if found is not None and rest is not found:
        set_dual(t, rest)
        taken.append((t, found, rest))


def restore(taken: list[tuple[Any, Dual, Dual | None]]) -> None:
    for t, found, rest in taken:
        if dual_of(t) is rest:
            set_dual(t, found)
            continue
        each: Dual | None = found
        while each is not None and each is not rest:
            attach(t, each.tangent, each.level, each.source)
            each = alive(each.below)


def results(
    op: Op, tensors: Any, paths: list[Path], outs: Any, attrs: Any, expansion: Expansion
) -> list[Any]:
    """Per order, the derivatives of the outputs: a tuple with None for those that are zero."""
    if op.jvp is None:
        raise NotImplementedError(
            f"Trying to use Taylor mode with {op.name}, which has no forward-mode rule."
        )
    order = expansion.order
    way = way_of(op)
    if way == "linear" or affine(op, paths):
        return [linear(op, tensors, paths, outs, attrs, k) for k in range(order)]
    if expansion.paths is not None and order == 2:
        return collapsed(op, tensors, paths, outs, attrs, expansion)
    if way == "product":
        return [product(op, tensors, paths, outs, attrs, k, expansion) for k in range(1, order + 1)]
    return by_rule(op, tensors, paths, outs, attrs, expansion, order)


def way_of(op: Op) -> str:
    """How the derivatives of an op's results are made: none, linear, product or rule."""
    if op.jvp is None or not op.differentiable:
        return "none"
    if op.linear and (op.variadic or movable(op) == 1):
        return "linear"
    return "product" if op.multilinear and movable(op) == 2 else "rule"


def affine(op: Op, paths: list[Path]) -> bool:
    """Whether the gradient rules of the tensors that move read none of these, and no output.

    Then the op's derivative does not change along the paths, as that of a product with a constant.
    """
    if op.variadic:
        return False
    moving = [i for i, path in enumerate(paths) if any([d is not None for d in path])]
    names = [op.tensors[i] for i in moving]
    for i in moving:
        for name in op.needed_by[i]:
            if name in names or name in op.outs:
                return False
    return True


def movable(op: Op) -> int:
    """The number of tensor arguments of an op that can carry derivatives."""
    return len([name for name in op.tensors if name not in op.plain_tensors])


def as_outs(op: Op, made: Any) -> tuple[Any, ...]:
    return (made,) if op.single else tuple(made)


def first_order(op: Op, tensors: Any, tangents: Any, outs: Any, attrs: Any) -> tuple[Any, ...]:
    """One application of the forward-mode rule; None for each output if no tensor moves."""
    if all([t is None for t in tangents]):
        return (None,) * len(outs)
    return as_outs(op, op.jvp(RECORDED, tensors, tangents, outs, attrs))


def linear(op: Op, tensors: Any, paths: list[Path], outs: Any, attrs: Any, k: int) -> Any:
    tangents = [path[k] for path in paths]
    if k == 0 and op.row_by_row:
        made = of_one_row(op, tensors, tangents, outs, attrs)
        if made is not None:
            return made
    return first_order(op, tensors, tangents, outs, attrs)


def of_one_row(op: Op, tensors: Any, tangents: list[Any], outs: Any, attrs: Any) -> Any:
    """`first_order` where all rows of a tangent are one row in memory; None: they are not.

    The directions of a Laplacian are such at first, at all points of an outer `vmap`.
    """
    place = op.tensors.index(op.row_by_row)
    tangent = tangents[place]
    if not is_batched(tangent) or any([t is not None for t in tangents if t is not tangent]):
        return None
    batch = batch_of(tangent)
    physical = batch.physical
    array = physical._array
    if type(array) is not np.ndarray or array.ndim != 3 or array.shape[1] < 2 or array.strides[1]:
        return None
    one = RECORDED.unsqueeze(RECORDED.select(physical, 1, 0), 1)
    moved = [batched(one, batch.level) if t is tangent else t for t in tangents]
    (made,) = first_order(op, tensors, moved, outs, attrs)
    found = batch_of(made).physical
    shape = (array.shape[0], *outs[0]._array.shape)
    return (batched(RECORDED.expand(found, shape), batch.level),)


def lent(op: Op, tensors: Any, derivative: Any, given: list[Any], expansion: Expansion) -> Any:
    """`unshared`; in a collapsed expansion two tensors may have one derivative until a write."""
    if expansion.paths is not None:
        for t, own in zip(tensors, given, strict=True):
            if own is derivative and isinstance(t, TensorBase) and t._view_of is None:
                if not is_batched(t):
                    derivative.__dict__["_borrowed"] = True
                    return derivative
    return unshared(derivative, given)


def product(
    op: Op, tensors: Any, paths: list[Path], outs: Any, attrs: Any, k: int, expansion: Expansion
) -> Any:
    """Leibniz's rule for the k-th derivative of an op that is linear in each of two tensors."""
    a, b = [i for i, name in enumerate(op.tensors) if name not in op.plain_tensors]
    total = first_order(op, tensors, [path[k - 1] for path in paths], outs, attrs)
    for j in range(1, k):
        left, right = paths[a][j - 1], paths[b][k - j - 1]
        if left is None or right is None:
            continue
        moved = list(tensors)
        moved[a], moved[b] = left, right
        term = as_outs(op, getattr(RECORDED, op.name)(*moved, *attrs))
        if comb(k, j) != 1:
            term = tuple([t * comb(k, j) for t in term])
        total = added(total, term)
    return total


def added(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    """The sums of two tuples of derivatives, where None is zero."""
    return tuple([y if x is None else x if y is None else x + y for x, y in zip(a, b, strict=True)])


def by_rule(
    op: Op, tensors: Any, paths: list[Path], outs: Any, attrs: Any, expansion: Expansion, order: int
) -> list[Any]:
    """The derivatives of an op's results from its forward-mode rule, run on expansions.

    A rule that reads the op's outputs needs their derivatives: they are found order by order.
    """
    found: list[Any] = []
    known: list[Path] = [[] for _ in outs]
    while len(found) < order:
        k = len(found) if op.jvp_reads_outs else order - 1
        moved = expansion.with_order(
            k, rule_on_paths, op, tensors, paths, outs, known, attrs, k, expansion
        )
        found += moved[len(found) :]
        known = [[each[i] for each in found] for i in range(len(outs))]
    return found


def rule_on_paths(
    op: Op,
    tensors: Any,
    paths: list[Path],
    outs: Any,
    known: list[Path],
    attrs: Any,
    order: int,
    expansion: Expansion,
) -> list[Any]:
    """Run y' = jvp(x, x') where all tensors carry derivatives up to an order."""
    levels = expansion.levels
    points = [carrying(t, path[:order], levels) for t, path in zip(tensors, paths, strict=True)]
    values = [carrying(t, path[:order], levels) for t, path in zip(outs, known, strict=True)]
    slopes = [
        velocity(t, path[: order + 1], levels) for t, path in zip(tensors, paths, strict=True)
    ]
    made = first_order(op, tuple(points), slopes, tuple(values), attrs)
    found = []
    for k in range(order + 1):
        found.append(tuple([None if y is None else derivative(y, k, levels, order) for y in made]))
    return found


def velocity(t: Any, path: Path, levels: list[Level]) -> Any:
    """x' as a tensor that carries its own derivatives; None if the tensor does not move."""
    if all([d is None for d in path]):
        return None
    start = RECORDED.zeros_like(t) if path[0] is None else path[0]
    return carrying(start, path[1:], levels)


def derivative(y: Any, k: int, levels: list[Level], order: int) -> Any:
    """The value (k = 0) or the k-th derivative of what a rule returned."""
    if not isinstance(y, TensorBase):
        return y if k == 0 else None
    if k > 0:
        return tangent_of(y, levels[k - 1])
    for level in reversed(levels[:order]):
        y = bare(y, level)
    return y


def carrying(t: Any, path: Path, levels: list[Level]) -> Any:
    """A tensor with the memory, the history and the tangents of `t` that carries derivatives."""
    if all([d is None for d in path]):
        return t
    if is_batched(t):
        batch = batch_of(t)
        lowered = [None if d is None else lift(d, batch.level) for d in path]
        return mirrored(carrying(batch.physical, lowered, levels), batch)
    made = same_tensor(t)
    outer = dual_of(t)  # its tangents at the levels of other transforms
    if outer is not None:
        set_dual(made, outer)
    for level, d in zip(levels, path, strict=False):
        if d is not None:
            attach(made, d, level)
    return made


# ---------------------------------------------------------------------- collapsed


def collapsed(
    op: Op, tensors: Any, paths: list[Path], outs: Any, attrs: Any, expansion: Expansion
) -> list[Any]:
    """First derivatives along every path, and the sum of the second ones over the paths."""
    firsts = [path[0] for path in paths]
    seconds = [path[1] for path in paths]
    moving = [i for i, d in enumerate(firsts) if d is not None]
    if op.elementwise and op.single and len(moving) == 1:
        i = moving[0]
        if tensors[i]._array.dtype.kind != "c":  # of complex ones, derivatives depend on directions
            made = one_moves(op, tensors, firsts, seconds, outs, attrs, i, expansion)
            return [(d,) for d in made]
    slopes = first_order(op, tensors, seconds, outs, attrs)
    if not moving:
        return [(None,) * len(outs), slopes]
    single = [[d, None] for d in firsts]
    if way_of(op) == "product":
        pushed = first_order(op, tensors, firsts, outs, attrs)
        bends = product(op, tensors, single, outs, attrs, 2, expansion)
    else:
        pushed, bends = by_rule(op, tensors, single, outs, attrs, expansion, 2)
    summed = tuple([None if y is None else expansion.summed(y) for y in bends])
    return [pushed, added(slopes, summed)]


def one_moves(
    op: Op,
    tensors: Any,
    firsts: list[Any],
    seconds: list[Any],
    outs: Any,
    attrs: Any,
    i: int,
    expansion: Expansion,
) -> Any:
    """An elementwise op of which one tensor moves along paths: y'' = f'(x) x'' + f''(x) x'².

    f' and f'' do not depend on the path: they are made once, not once per path.
    """
    slope, bend = slope_and_bend(op, tensors, outs, attrs, i, expansion)
    if slope is None:
        return None, first_order(op, tensors, seconds, outs, attrs)[0]
    first = slope * firsts[i]
    second = None if seconds[i] is None else slope * seconds[i]
    if bend is not None:
        part = bend * expansion.summed(firsts[i] * firsts[i])
        second = part if second is None else second + part
    others = [None if j == i else d for j, d in enumerate(seconds)]
    (rest,) = first_order(op, tensors, others, outs, attrs)
    return first, rest if second is None else second if rest is None else second + rest


def slope_and_bend(
    op: Op, tensors: Any, outs: Any, attrs: Any, i: int, expansion: Expansion
) -> tuple[Any, Any]:
    """f' and f'' of an elementwise op as a function of one tensor; None for an f'' of zero."""
    x = tensors[i]
    ones = RECORDED.ones_like(x)
    tangents: list[Any] = [None] * len(tensors)
    tangents[i] = ones
    slope: Any = None
    values = outs
    if op.jvp_reads_outs:
        (slope,) = first_order(op, tensors, tangents, outs, attrs)
        if slope is None:
            return None, None
        values = (carrying(outs[0], [slope], expansion.levels),)
    points = list(tensors)
    points[i] = carrying(x, [ones], expansion.levels)
    (made,) = expansion.with_order(
        1, first_order, op, tuple(points), tangents, tuple(values), attrs
    )
    if made is None:
        return None, None
    bend = derivative(made, 1, expansion.levels, 1)
    return derivative(made, 0, expansion.levels, 1) if slope is None else slope, bend


# ---------------------------------------------------------------------- by kernels

Parts = tuple[Any, Any, Any, Any]  # an array of y', y and y'', and the three tensors that it holds


def directly(op: Op, tensors: Any, attrs: Any, watch: Any, expansion: Expansion) -> Any:
    """`push` of a collapsed expansion on arrays, where one tensor moves; None: not for kernels.

    Nothing is recorded, and the results of an op lie in one array: a product after it is one
    product. The first Laplacian of benchmarks/derivatives.py takes 0.6 of the time.
    """
    if watch or not op.single or op.view or not op.differentiable or STATE.timing or STATE.anomaly:
        return None
    if STATE.modes_on and not is_unrecorded(STATE.modes_on):
        return None
    if not (op.elementwise or op.row_by_row) or HOST_KERNELS.elementwise_along is None:
        return None
    place = -1
    args: list[Any] = []
    for i, t in enumerate(tensors):
        if isinstance(t, TensorBase):
            if t._wants_grad or type(t) is not TENSOR.cls:
                return None
            if t._special != ORDINARY:
                if place >= 0:
                    return None
                place = i
            args.append(t._array)
        elif type(t) is int or type(t) is float:
            args.append(t)
        else:
            return None
    if place < 0:
        return None
    x = tensors[place]
    first, second = expansion.derivatives(x, 2)
    if not carries_only(x, first, second, expansion):
        return None
    if op.elementwise:
        if op.joint or op.rules[place] is None or not alike(args):
            return None
        physical = batch_of(first).physical._array
        following = None if second is None else second._array
        if HOST_KERNELS.has_tape():
            return None
        made = HOST_KERNELS.elementwise_along(op, place, (*args, *attrs), physical, following)
        return None if made is None else carried(made, expansion)
    if not op.multilinear or op.tensors[place] != op.row_by_row or not alike(args):
        return None
    found = first.__dict__.get("_parts")
    if found is None or found[1] is not x._array or found[2] is not second:
        return None
    whole = found[0]
    rows = (whole.shape[0] * whole.shape[1], whole.shape[2])
    args[place] = whole.reshape(rows)
    made = op.kernel(*args, *attrs)
    if not made.flags.c_contiguous:
        return None
    return carried(made.reshape(*whole.shape[:2], made.shape[1]), expansion)


def carries_only(x: Any, first: Any, second: Any, expansion: Expansion) -> bool:
    """Whether a tensor is an array with derivatives of an expansion, which are arrays."""
    found = dual_of(x)
    while found is not None:
        if found.level.expansion is not expansion:
            return False
        found = alive(found.below)
    if first is None or not is_batched(first) or batch_of(first).level is not expansion.paths:
        return False
    physical = batch_of(first).physical
    if second is not None and (second._special != ORDINARY or second._wants_grad):
        return False
    return physical._special == ORDINARY and not physical._wants_grad


def alike(args: list[Any]) -> bool:
    """Whether all arrays are of one dtype, and none is empty."""
    arrays = [a for a in args if type(a) is np.ndarray]
    return len({a.dtype for a in arrays}) == 1 and all([a.size for a in arrays])


def carried(made: Any, expansion: Expansion) -> Any:
    """The tensor of a value with its derivatives, from an array of all: y', y and y''."""
    count = made.shape[0] - 2
    value, second = wrap(apart(made, count)), wrap(apart(made, count + 1))
    first = batched(wrap(made[:count]), expansion.paths)  # type: ignore[arg-type]
    first.__dict__["_parts"] = (made, value._array, second)
    attach(value, first, expansion.levels[0])
    attach(value, second, expansion.levels[1])
    return value


def apart(made: Any, place: int) -> Any:
    """An entry of an array, as an array that no other is the base of: a storage of its own."""
    size = made.size // made.shape[0]
    entry = np.frombuffer(made.data, made.dtype, size, place * size * made.itemsize)
    return entry.reshape(made.shape[1:])
