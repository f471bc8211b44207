"""Sums of products by subscripts."""

from __future__ import annotations

import functools
import math
from typing import Any

from ...core.base import F32, F64, STATE, TensorBase, View, cell_of, quiet, wrap
from ...core.dispatch import is_stale
from ...errors import no_tensor_in_list
from ..block import LOWER, Autocast, Case, api
from ..block.samples import Draw
from .matmul import Bmm, bmm, view

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def from_sublists(args: tuple[Any, ...]) -> tuple[str, list[Any]]:
    """`einsum(op1, [0, 1], op2, [1, 2], [0, 2])` in letters."""

    def letters_of(subscripts: Any) -> str:
        text = ""
        for s in subscripts:
            if s is Ellipsis:
                text += "..."
                continue
            if not 0 <= s < len(LETTERS):
                raise ValueError(
                    "einsum(): subscript in subscript list is not within the valid range [0, 52)"
                )
            text += LETTERS[s]
        return text

    operands = list(args[0 : len(args) - len(args) % 2 : 2])
    equation = ",".join([letters_of(s) for s in args[1::2]])
    if len(args) % 2:
        equation += "->" + letters_of(args[-1])
    return equation, operands


def labels_of(equation: str, start: int, end: int, operand: int | None) -> list[str]:
    """The subscripts in a piece of the equation, "..." as one of them; `operand` None is the "
    "output."""
    found: list[str] = []
    where = "output" if operand is None else f"operand {operand}"
    i = start
    while i < end:
        c = equation[i]
        if c == ".":
            if "..." in found:
                again = (
                    "but an ellipsis (...) was" if operand is None else "for which an ellipsis was"
                )
                raise RuntimeError(f"einsum(): found '.' for {where} {again} already found")
            if equation[i : min(i + 3, end)] != "...":
                mark = " (...)" if operand is None else ""
                raise RuntimeError(
                    f"einsum(): found '.' for {where} that is not part of any ellipsis{mark}"
                )
            found.append("...")
            i += 2
        elif c.isascii() and c.isalpha():
            found.append(c)
        elif c != " ":
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {i} in the equation string, "
                "subscripts must be in [a-zA-Z]"
            )
        i += 1
    return found


class Plan:
    """The dimensions of the whole: those of the output first, then those that are summed."""

    def __init__(self, equation: str, shapes: tuple[tuple[int, ...], ...]) -> None:
        arrow = equation.find("->")
        stop = len(equation) if arrow < 0 else arrow
        cuts = [-1, *[i for i in range(stop) if equation[i] == ","], stop]
        if len(cuts) - 1 > len(shapes):
            raise RuntimeError(
                "einsum(): fewer operands were provided than specified in the equation"
            )
        if len(cuts) - 1 < len(shapes):
            raise RuntimeError(
                "einsum(): more operands were provided than specified in the equation"
            )
        self.inputs = [labels_of(equation, cuts[i] + 1, cuts[i + 1], i) for i in range(len(shapes))]
        self.covered = 0
        self.check_ranks(shapes)
        counts: dict[str, int] = {}
        for labels in self.inputs:
            for label in labels:
                counts[label] = counts.get(label, 0) + 1
        given = None if arrow < 0 else labels_of(equation, arrow + 2, len(equation), None)
        self.check_output(given, counts)
        if given is None:
            names = sorted(
                [n for n, c in counts.items() if c == 1 and n != "..."], key=LETTERS.index
            )
            output = (["..."] if "..." in counts else []) + names
        else:
            output = given
        self.output = self.with_labels_for_ellipsis(output)
        names = (["..."] if "..." in counts else []) + sorted(
            counts.keys() - {"..."}, key=LETTERS.index
        )
        self.all = self.output + [
            n for n in self.with_labels_for_ellipsis(names) if n not in self.output
        ]
        self.check_sizes(shapes)
        self.at_once = None if len(shapes) != 2 else AtOnce.of(self, shapes)

    def check_ranks(self, shapes: tuple[tuple[int, ...], ...]) -> None:
        for i, (labels, shape) in enumerate(zip(self.inputs, shapes, strict=True)):
            ndim = len(shape)
            named = len([n for n in labels if n != "..."])
            if "..." in labels:
                if named > ndim:
                    raise RuntimeError(
                        f"einsum(): the number of subscripts in the equation ({named}) is more "
                        f"than the number of dimensions ({ndim}) for operand {i}"
                    )
                self.covered = max(self.covered, ndim - named)
            elif named != ndim:
                than = "does not match the number of dimensions"
                raise RuntimeError(
                    f"einsum(): the number of subscripts in the equation ({named}) {than} ({ndim}) "
                    f"for operand {i} and no ellipsis was given"
                )

    def check_output(self, given: list[str] | None, counts: dict[str, int]) -> None:
        seen: set[str] = set()
        for name in given or ():
            if name in seen:
                raise RuntimeError(
                    f"einsum(): output subscript {name} appears more than once in the output"
                )
            if name != "..." and name not in counts:
                raise RuntimeError(
                    f"einsum(): output subscript {name} does not appear in the equation for any "
                    "input operand"
                )
            seen.add(name)

    def with_labels_for_ellipsis(self, labels: list[str], covered: int | None = None) -> list[str]:
        """The ellipsis as so many labels of its own, counted from the back."""
        count = self.covered if covered is None else covered
        return [
            n
            for label in labels
            for n in ([f".{k}" for k in range(count - 1, -1, -1)] if label == "..." else [label])
        ]

    def labels(self, i: int, ndim: int) -> list[str]:
        """The subscripts of operand `i`, one per dimension."""
        named = len([n for n in self.inputs[i] if n != "..."])
        return self.with_labels_for_ellipsis(self.inputs[i], ndim - named)

    def check_sizes(self, shapes: tuple[tuple[int, ...], ...]) -> None:
        """Dimensions of one subscript must have one size, or 1."""
        seen: dict[str, int] = {}
        for i, shape in enumerate(shapes):
            own: dict[str, int] = {}
            for name, n in zip(self.labels(i, len(shape)), shape, strict=True):
                if own.setdefault(name, n) != n:
                    raise RuntimeError(
                        f"einsum(): subscript {name} is repeated for operand {i} but the sizes "
                        f"don't match, {n} != {own[name]}"
                    )
                before = seen.get(name, 1)
                if before != n and 1 not in (before, n):
                    raise no_broadcast(name, n, before, i, self.covered)
                seen[name] = max(before, n) if n else n

    def arrange(self, t: Any, i: int) -> Any:
        """Operand `i` with one dimension per label of the whole, in order, of size 1 where it has "
        "none."""
        labels = self.labels(i, t._array.ndim)
        for name in dict.fromkeys(labels):
            while labels.count(name) > 1:
                first = labels.index(name)
                second = labels.index(name, first + 1)
                t = t.diagonal(0, first, second).movedim(-1, first)
                del labels[second]
        for name in self.all:
            if name not in labels:
                t = t.unsqueeze(-1)
                labels.append(name)
        return t.permute(tuple([labels.index(n) for n in self.all]))


class AtOnce:
    """How a plan for two operands is one product of stacks of matrices, where it is no more."""

    def __init__(self, swaps: bool, arrange: list[tuple[Any, Any]], result: Any) -> None:
        self.swaps = swaps
        self.arrange = arrange  # per factor: the order of its dimensions, the shape of the stack
        self.result = result  # the shape of the product, and the order of its dimensions

    @staticmethod
    def of(plan: Plan, shapes: tuple[tuple[int, ...], ...]) -> AtOnce | None:
        labels = [plan.labels(i, len(shape)) for i, shape in enumerate(shapes)]
        sizes: dict[str, int] = {}
        for names, shape in zip(labels, shapes, strict=True):
            if len(set(names)) != len(names) or any([n < 2 for n in shape]):
                return None  # diagonals, and what broadcasts or is empty
            sizes.update(zip(names, shape, strict=True))
        a, b = labels
        inner = [n for n in plan.all if n not in plan.output]
        if not inner or any([n not in a or n not in b for n in inner]):
            return None
        both = [n for n in plan.output if n in a and n in b]
        left = [n for n in plan.output if n not in b]
        right = [n for n in plan.output if n not in a]
        swaps = bool(left and right) and plan.all.index(left[-1]) > plan.all.index(right[-1])
        if swaps:  # as in `contract`
            a, b, left, right = b, a, right, left

        def count(names: list[str]) -> int:
            return math.prod([sizes[n] for n in names])

        stack, depth = count(both), count(inner)
        arrange = [
            (tuple([a.index(n) for n in both + left + inner]), (stack, count(left), depth)),
            (tuple([b.index(n) for n in both + inner + right]), (stack, depth, count(right))),
        ]
        order = both + left + right
        shape = tuple([sizes[n] for n in order])
        return AtOnce(swaps, arrange, (shape, tuple([order.index(n) for n in plan.output])))

    def run(self, a: Any, b: Any) -> Any:
        """The view of the product that the steps one by one would end in; nothing is recorded."""
        first, second = (b, a) if self.swaps else (a, b)
        (order, shape), (other_order, other_shape) = self.arrange
        x = first._array.transpose(order).reshape(shape)
        y = second._array.transpose(other_order).reshape(other_shape)
        product = wrap(quiet(Bmm.kernel, x, y))
        shape, order = self.result
        result = wrap(product._array.reshape(shape).transpose(order))
        result._cut = product._cut = first._cut if first._cut is not None else second._cut
        cell = result._cell = cell_of(product)
        result._view_of = View(product, "", cell.n, ())
        return result


def is_unwatched(a: Any, b: Any) -> bool:
    """Two arrays of one kind of float, of which nothing is to be recorded or told."""
    return (
        not STATE.modes_on
        and not STATE.timing
        and not (a._special or b._special or a._wants_grad or b._wants_grad)
        and (a._array.dtype is F32 or a._array.dtype is F64)
        and b._array.dtype is a._array.dtype
        and not (is_stale(a) or is_stale(b))
    )


@functools.lru_cache(256)
def plan_for(equation: str, shapes: tuple[tuple[int, ...], ...]) -> Plan:
    return Plan(equation, shapes)


def no_broadcast(name: str, size: int, before: int, operand: int, covered: int) -> Exception:
    if name.startswith("."):
        dim = covered - 1 - int(name[1:])
        return RuntimeError(
            f"einsum(): dimension {dim} covered by ellipsis in operand {operand}has size {size} "
            f"which does not broadcast with previously seen ellipsis with size {before} for the "
            "respective dimension"
        )
    return RuntimeError(
        f"einsum(): subscript {name} has size {size} for operand {operand} which does not "
        f"broadcast with previously seen size {before}"
    )


@api(
    method=False,
    samples=[
        Case("ij,jk->ik", Draw(2, 3), Draw(3, 4)),
        Case("ij->ji", Draw(2, 3)),
        Case("ii->i", Draw(3, 3)),
        Case("ij->", Draw(2, 3)),
        Case("i,j->ij", Draw(2), Draw(3)),
        Case("i,i->", Draw(3), Draw(3)),
        Case("...ij,...jk->...ik", Draw(2, 2, 3), Draw(3, 4)),
        Case("bij,bjk->bk", Draw(2, 2, 3), Draw(2, 3, 2)),
        Case("ij,jk,k->i", Draw(2, 3), Draw(3, 2), Draw(2)),
    ],
    autocast=Autocast(gpu=LOWER),
    python=True,
)
def einsum(*args: Any) -> Any:
    """einsum(equation, *operands) -> Tensor: products summed over the subscripts not in the output.

    >>> einsum("ij,j->i", tensor([[1, 2], [3, 4]]), tensor([1, 10]))
    tensor([21, 43])
    """
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least "
            "one operand and its subscripts list"
        )
    if isinstance(args[0], TensorBase):
        equation, operands = from_sublists(args)
    else:
        equation, operands = args[0], list(args[1:])
        if not isinstance(equation, str):
            raise TypeError(
                "einsum(): argument 'equation' (position 1) must be str, "
                f"not {type(equation).__name__}"
            )
        if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
            operands = list(operands[0])
    for i, t in enumerate(operands):
        if not isinstance(t, TensorBase):
            raise no_tensor_in_list(i, 1, t)
    plan = plan_for(equation, tuple([t._array.shape for t in operands]))
    if plan.at_once is not None and is_unwatched(*operands):
        return plan.at_once.run(*operands)
    parts = [plan.arrange(t, i) for i, t in enumerate(operands)]
    kept = len(plan.output)
    result = parts[0]
    if len(parts) == 1:
        dims = tuple(range(kept, len(plan.all)))
        return result.sum(dims) if dims else result
    for i, part in enumerate(parts[1:], 1):
        later = parts[i + 1 :]
        # A dimension is summed as soon as nothing that follows has it.
        summed = [
            k
            for k in range(kept, len(plan.all))
            if all([t._array.shape[k] == 1 for t in later])
            and max(result._array.shape[k], part._array.shape[k]) != 1
        ]
        result = contract(result, part, summed)
    return result.reshape(result._array.shape[:kept]) if kept < len(plan.all) else result


def contract(a: Any, b: Any, summed: list[int]) -> Any:
    """The product of two tensors of one rank, summed (and kept as size 1) over some dimensions."""
    x, y = a._array.shape, b._array.shape
    both: list[int] = []
    left: list[int] = []
    right: list[int] = []
    inner: list[int] = []
    for k in range(len(x)):
        if k in summed:
            if x[k] != 1 and y[k] != 1:
                inner.append(k)
                continue
            if x[k] != 1:
                a = a.sum(k, keepdim=True)
            elif y[k] != 1:
                b = b.sum(k, keepdim=True)
            x, y = a._array.shape, b._array.shape
        if x[k] != 1 and y[k] != 1:
            both.append(k)
        elif x[k] != 1:
            left.append(k)
        else:
            right.append(k)
    if not inner:
        return a * b
    if left and right and left[-1] > right[-1]:
        # The other way round the product lies in memory as the output wants it.
        a, b, left, right = b, a, right, left
        x, y = y, x
    batch, rows = math.prod([x[k] for k in both]), math.prod([x[k] for k in left])
    depth, columns = math.prod([x[k] for k in inner]), math.prod([y[k] for k in right])
    first = a.permute(*both, *left, *inner, *right).reshape(batch, rows, depth)
    second = b.permute(*both, *inner, *right, *left).reshape(batch, depth, columns)
    order = [*both, *left, *inner, *right]
    shape = [x[k] for k in both + left] + [1] * len(inner) + [y[k] for k in right]
    result = view(bmm(first, second), tuple(shape))
    return result.permute(*[order.index(k) for k in range(len(order))])
