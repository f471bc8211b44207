"""The backend of the CPU: an op's kernel in C where there is one, else its forward on NumPy.

docs/notes/kernels.md shows how a kernel comes from a block.
"""

from __future__ import annotations

import functools
from typing import Any

from ...core.base import allocate_by
from ...core.late_bound import HOST_KERNELS
from ...core.op import Op
from ...core.settings import Settings
from ..backend import NUMPY, Backend
from . import KERNELS
from .blas import CONNECTED
from .directions import elementwise_along
from .formulas import Traces, formula
from .overrides import HOME, behind_formula, override, override_into
from .overrides.rows import half_of, single_of
from .result_order import InOrder
from .steps import lstm_step_kernel

# PyTorch's results of these are contiguous, however their input lies; a program's lie as that does.
CONTIGUOUS = frozenset(
    """
    log_sigmoid rrelu_with_noise rrelu_with_noise_write rrelu_on_average rrelu_on_average_write
    """.split()
)


PRODUCTS = ("addmm", "mm")  # their gradients are made in c/kernels/products.c


# Kernels by hand that move elements, compare them, or add them up one after the other: they have
# the bits of the reference on every processor.
SAME_BITS = frozenset(
    """
    max_pool2d max_pool2d_with_indices max_pool_indices max_pool3d max_pool3d_with_indices
    adaptive_max_pool2d adaptive_max_pool3d cumsum cumprod linear_scan max min
    whole_product argmax argmin all any cast masked_fill tril triu clone max_pool2d_backward
    max_pool3d_backward adaptive_max_pool2d_backward adaptive_max_pool3d_backward embedding
    embedding_dense_backward index_select index_add gather scatter_into select_backward
    slice_backward scatter_add scatter_src scatter_value index index_into index_put
    masked_select nextafter sort sort_stable topk
    """.split()
)


class Native(Backend):
    """Runs an op by its kernel in C, an elementwise op by a program, else by NumPy.

    While the same bits are wanted on every machine, all ops run on NumPy (kernels/portable).
    """

    def __init__(self, name: str, xp: Any) -> None:
        super().__init__(name, xp)
        self.changes: dict[str, Any] = {}  # the `into` of blocks, by op

    def kernel(self, op: Op) -> Any:
        found = self.chosen(op)
        op.by_rows = found.reference if type(found) is InOrder else found
        return found

    def chosen(self, op: Op) -> Any:
        reference = NUMPY.kernel(op)
        if Settings.portable:
            from ..portable.switch import portable_kernel

            reference = portable_kernel(op, reference)
        if (op.elementwise or op.ordered) and op.width > 1 and op.name not in CONTIGUOUS:
            reference = InOrder(reference, op.ordered_by)
        if KERNELS is None:
            return reference
        if Settings.portable:
            from ..portable.rows import OVERRIDES

            along_rows = OVERRIDES.get(op.name)
            if along_rows is not None:
                return along_rows(reference)
        if not Settings.portable or op.name in SAME_BITS:
            by_hand = override(op.name, reference)
            if by_hand is not None:
                return by_hand
        if op.view:
            return KERNELS.KnownViews(reference)
        if not op.elementwise or op.variadic or op.name in CONTIGUOUS or op.name in HOME:
            return reference
        op.native = True
        if not Settings.portable:
            reference = behind_formula(op.name, reference)
        return formula(op, reference)

    def into(self, op: Op, change: Any) -> Any:
        """The function that turns an op's first array into the result; `change` is the block's."""
        self.changes[op.name] = change
        reference = functools.partial(change, self.xp)
        if KERNELS is None or (Settings.portable and op.name not in SAME_BITS):
            return reference
        return override_into(op.name, reference)

    def fit(self, op: Op) -> None:
        """Give an op its kernels once more, after `Settings.portable` has changed."""
        op.native = False
        op.kernel = self.kernel(op)
        change = self.changes.get(op.name)
        op.into = None if change is None else self.into(op, change)
        op.gradients = self.gradients(op)

    def helper(self, name: str, reference: Any) -> Any:
        """Register a kernel for a function of the library that is not an op."""
        native = None if KERNELS is None else override(name, reference)
        if native is None:
            return reference

        def run(*args: Any) -> Any:
            return reference(*args) if Settings.portable else native(*args)

        return run

    def gradients(self, op: Op) -> Any:
        """All gradients at once: (gradient, kept, edges) -> list, or None to use the rules."""
        if KERNELS is not None and op.name in PRODUCTS and not Settings.portable:
            return getattr(KERNELS, f"{op.name}_gradients") if asks_strides(op) else None
        if KERNELS is None or not op.native or not op.rules or op.joint or not op.single:
            return None
        return KERNELS.Gradients(Traces(op).gradients, op.width + 1, len(op.attrs))


def asks_strides(op: Op) -> bool:
    """Whether a product saves for its rules the values that c/kernels/products.c reads."""
    return op.metas == ((op.width - 2, "strides"), (op.width - 1, "strides"))


HOST = Native("native", NUMPY.xp)
if KERNELS is not None:
    allocate_by(KERNELS.use_memory)
    HOST_KERNELS.sum_to = KERNELS.sum_to
    HOST_KERNELS.alike = KERNELS.alike
    HOST_KERNELS.is_fresh = KERNELS.is_fresh
    HOST_KERNELS.lies_as = KERNELS.lies_as
    HOST_KERNELS.meet = KERNELS.meet
    HOST_KERNELS.strided = KERNELS.strided
    HOST_KERNELS.has_tape = KERNELS.has_tape
    HOST_KERNELS.elementwise_along = elementwise_along()
    HOST_KERNELS.product = KERNELS.product if CONNECTED else None
    HOST_KERNELS.as_single = single_of
    HOST_KERNELS.as_half = half_of
    HOST_KERNELS.lstm_step = lstm_step_kernel()
    HOST_KERNELS.public_function = KERNELS.PublicFunction
    HOST_KERNELS.user_line = KERNELS.user_line
