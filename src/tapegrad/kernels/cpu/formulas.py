"""Kernels that are programs of the vector machine, made from the formula of an op's block."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.base import F32, F64, ndarray, quiet
from . import KERNELS
from .result_order import order_of_result

I64, BOOL = np.dtype(np.int64), np.dtype(np.bool_)


def formula(op: Any, reference: Any) -> Any:
    """The kernel of an elementwise op, with the reference as fallback."""
    otherwise = Otherwise(op, reference)
    otherwise.formula = KERNELS.Formula(Traces(op).forward, otherwise, op.width)
    return otherwise.formula


class Otherwise:
    """Fallback of a formula: one without the missing optional tensors, or the NumPy forward."""

    __slots__ = ("as_numpy_orders", "formula", "op", "reference", "without")

    def __init__(self, op: Any, reference: Any) -> None:
        self.op = op
        self.reference = reference
        self.as_numpy_orders = getattr(reference, "reference", reference)
        self.formula: Any = None
        self.without: dict[tuple[int, ...], Any] = {}

    def __call__(self, *args: Any) -> Any:
        width = self.op.width
        missing = ()
        if width > 2:  # a third tensor is an optional weight of a loss
            missing = tuple([i for i, value in enumerate(args[:width]) if value is None])
        if not missing:
            found = on_tape(self.op, args) if KERNELS.has_tape() else None
            if found is None:
                found = self.in_one_order(args)
            return quiet(self.reference, *args) if found is None else found
        found = self.without.get(missing)
        if found is None:
            found = self.without[missing] = formula(
                Without(self.op, missing), Without(self.reference, missing)
            )
        return found(*[value for i, value in enumerate(args) if i not in missing])

    def in_one_order(self, args: tuple[Any, ...]) -> Any:
        """The formula of copies that are laid out alike, if different layouts are all it refuses.

        NumPy's functions round differently: bits would depend on the layout. The first tensor's
        order wins, as in PyTorch.
        """
        is_exact = bool(getattr(self.op, "sign", ""))  # arithmetic has the same bits everywhere
        if is_exact and type(args[0]) is ndarray:
            if args[0].flags.c_contiguous:
                return None
            made = self.of_turned_matrix(args)
            if made is not None:
                return made
        arrays = [x for x in args if type(x) is ndarray]
        kinds = {x.dtype for x in arrays} - {BOOL}
        if len(kinds) != 1 or kinds.pop() not in (F32, F64):
            return None
        layouts = [x.flags for x in arrays]
        if all([f.c_contiguous for f in layouts]) or all([f.f_contiguous for f in layouts]):
            return None  # something else was refused
        if not self.formula.has_program(*args):
            return None
        ndim = max([x.ndim for x in arrays])
        leading = getattr(getattr(self.op, "whole", self.op), "ordered_by", 0)
        try:
            axes = order_of_result(
                *[(x.shape, x.strides) for x in (*arrays[leading:], *arrays[:leading])]
            )
        except ValueError:
            return None  # the fallback says which shapes do not go together
        turns = axes != list(range(ndim))
        if turns:
            ones = (1,) * ndim
            turned = iter([x.reshape(ones[x.ndim :] + x.shape).transpose(axes) for x in arrays])
            args = tuple([next(turned) if type(x) is ndarray else x for x in args])
        elif is_exact:
            return None
        if is_exact:
            made = quiet(self.reference, *args)
        else:
            made = self.formula(*[KERNELS.copied(x) if type(x) is ndarray else x for x in args])
        if type(made) is not ndarray:
            return None
        return made.transpose(np.argsort(axes)) if turns else made

    def of_turned_matrix(self, args: tuple[Any, ...]) -> Any:
        """Arithmetic of a transposed matrix and another one, in the order of the first; or None.

        2 us where the general way of `in_one_order` takes 8.5 (4 x 4).
        """
        if len(args) != 2 or type(args[1]) is not ndarray:
            return None
        first, second = args
        shape = first.shape
        if len(shape) != 2 or second.shape != shape or 1 in shape or first.dtype != second.dtype:
            return None
        if first.dtype not in (F32, F64) or not first.flags.f_contiguous:
            return None
        made = quiet(self.as_numpy_orders, first.T, second.T).T
        return made if made.flags.f_contiguous else None


# In the order of the codes in c/tape/integers.c
NAMES = (
    *("eq", "ne", "lt", "le", "gt", "ge", "add", "sub", "mul", "remainder_scalar"),
    *("bitwise_and", "bitwise_or", "bitwise_xor"),
)
WHOLE = {name: code for code, name in enumerate(NAMES)}
OF_TRUTHS = frozenset(("eq", "ne", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"))
MOST_DIMS = 8


def on_tape(op: Any, args: tuple[Any, ...]) -> Any:
    """Run an int64 or bool op by c/tape/integers.c, so that a tape can replay it; else None."""
    first = args[0]
    if type(first) is not ndarray or first.dtype not in (I64, BOOL):
        return None
    name = getattr(op, "name", "")
    if name == "bitwise_not" and first.dtype == BOOL:
        name, args = "bitwise_xor", (first, True)
    if name not in WHOLE or len(args) != 2 or (first.dtype == BOOL and name not in OF_TRUTHS):
        return None
    second = args[1]
    if type(second) in (int, bool) and -(1 << 63) <= second < 1 << 63:
        second = np.array(second, first.dtype)
    elif isinstance(second, np.generic):
        second = np.asarray(second)
    if type(second) is not ndarray or second.dtype != first.dtype:
        return None
    if name == "remainder_scalar" and not second:
        return None
    shape = np.broadcast_shapes(first.shape, second.shape)
    if len(shape) > MOST_DIMS or 0 in shape:
        return None
    axes = order_of_result((first.shape, first.strides), (second.shape, second.strides))
    operands = [np.broadcast_to(x, shape).transpose(axes) for x in (first, second)]
    steps = [step // x.itemsize for x in operands for step in x.strides]
    shape = operands[0].shape
    out = np.empty(shape, BOOL if WHOLE[name] < WHOLE["add"] else first.dtype)
    lines = (len(shape), *shape, *steps) if shape else (1, 1, 0, 0)
    sizes = (WHOLE[name], first.itemsize, out.itemsize, *lines)
    KERNELS.KERNELS["whole"]((first, second, out), sizes)
    return out.transpose(np.argsort(axes)) if axes else out


class Without:
    """A call of an op without its optional tensors, which passes None in their places."""

    __slots__ = ("missing", "whole", "width")

    def __init__(self, whole: Any, missing: tuple[int, ...]) -> None:
        self.whole = whole
        self.missing = missing
        self.width = getattr(whole, "width", 0) - len(missing)

    def all_of(self, given: tuple[Any, ...]) -> list[Any]:
        args = list(given)
        for i in self.missing:
            args.insert(i, None)
        return args

    def __call__(self, *given: Any) -> Any:
        return self.whole(*self.all_of(given))

    def forward(self, xp: Any, *given: Any) -> Any:
        return self.whole.forward(xp, *self.all_of(given))


class Traces:
    """Answers the C side's questions about an op; expressions/ is imported with the first one."""

    __slots__ = ("op",)

    def __init__(self, op: Any) -> None:
        self.op = op

    def forward(self, *question: Any) -> Any:
        from ...expressions.trace import Tracer

        return Tracer(self.op, KERNELS.STEPS).forward(*question)

    def gradients(self, *question: Any) -> Any:
        from ...expressions.trace import Tracer

        return Tracer(self.op, KERNELS.STEPS).gradients(*question)
