"""Equations with a triangular CSR matrix, row by row, and their derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np

import tapegrad as tg

from ..autograd.function import Function
from ..autograd.function_transforms import at_levels
from ..core.base import wrap
from ..core.transforms.batched import has_batched
from ..core.transforms.levels import STACK
from ..ops.linalg.solve import TriangularSolve
from .history import named


class Triangle:
    """The places of a triangle's entries off the diagonal, in the order of rows."""

    def __init__(self, rows: Any, columns: Any, size: int, upper: bool) -> None:
        self.rows, self.columns = rows, columns
        self.size = size
        self.upper = upper

    def turned(self) -> tuple[Triangle, Any]:
        """The transpose, and the order of its entries among ours."""
        order = np.argsort(self.columns, kind="stable")
        other = Triangle(self.columns[order], self.rows[order], self.size, not self.upper)
        return other, wrap(order)

    def substituted(self, entries: Any, diagonal: Any, b: Any) -> Any:
        """The x of (triangle + diagonal) x = b, from bare arrays; no diagonal: ones."""
        x = np.array(b)
        bounds = np.searchsorted(self.rows, np.arange(self.size + 1)).tolist()
        columns = self.columns
        for i in range(self.size)[:: -1 if self.upper else 1]:
            start, stop = bounds[i], bounds[i + 1]
            if stop > start:
                x[i] -= entries[start:stop] @ x[columns[start:stop]]
            if diagonal is not None:
                x[i] /= diagonal[i]
        return x


class Substitution(Function):
    """The x of (triangle + diagonal) x = b, as a function of entries, diagonal and b."""

    @staticmethod
    def forward(triangle: Triangle, entries: Any, diagonal: Any, b: Any) -> Any:  # type: ignore[override]
        arrays = [None if t is None else t.resolve_conj().numpy() for t in (entries, diagonal, b)]
        with np.errstate(all="ignore"):  # a pivot of zero gives inf and nan, as in dense matrices
            return wrap(triangle.substituted(*arrays))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.triangle = inputs[0]
        ctx.save_for_backward(output, *inputs[1:3])
        ctx.save_for_forward(output, *inputs[1:3])

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, entries, diagonal = ctx.saved_tensors
        other, order = ctx.triangle.turned()
        pivots = None if diagonal is None else diagonal.conj()
        back = solution(other, entries[order].conj(), pivots, g)
        rows, columns = wrap(ctx.triangle.rows), wrap(ctx.triangle.columns)
        seen = x.conj()
        slope = -(back[rows] * seen[columns]).sum(1)
        return None, slope, None if diagonal is None else -(back * seen).sum(1), back

    @staticmethod
    def jvp(ctx: Any, _: Any, t_entries: Any, t_diagonal: Any, t_b: Any) -> Any:
        x, entries, diagonal = ctx.saved_tensors
        change = tg.zeros_like(x) if t_b is None else t_b
        if t_entries is not None:
            moved = t_entries.unsqueeze(1) * x[wrap(ctx.triangle.columns)]
            change = change.index_add(0, wrap(ctx.triangle.rows), moved, alpha=-1)
        if t_diagonal is not None:
            change = change - t_diagonal.unsqueeze(1) * x
        return solution(ctx.triangle, entries, diagonal, change)

    @staticmethod
    def vmap(
        info: Any, in_dims: Any, triangle: Triangle, entries: Any, diagonal: Any, b: Any
    ) -> Any:  # type: ignore[override]
        if in_dims[1] is None and in_dims[2] is None:  # one matrix: all columns at once
            b = b.movedim(in_dims[3], 1)
            x = Substitution.apply(triangle, entries, diagonal, b.flatten(1))
            return x.unflatten(1, b.shape[1:]), 1
        given = [
            [t] * info.batch_size if d is None else t.unbind(d)
            for t, d in zip((entries, diagonal, b), in_dims[1:], strict=True)
        ]
        return tg.stack([Substitution.apply(triangle, *g) for g in zip(*given, strict=True)]), 0


def solution(*args: Any) -> Any:
    """`Substitution.apply`; with `is_grads_batched`, by its rule for batches."""
    if has_batched(args) and not STACK.transforms():
        return at_levels(Substitution, args, STACK.levels)
    return Substitution.apply(*args)


def triangular_solve(b: Any, a: Any, upper: bool, transpose: bool, unitriangular: bool) -> Any:
    """`torch.triangular_solve` for a CSR matrix, of which one triangle is read."""
    if not getattr(a, "is_sparse_csr", False):
        raise ValueError("triangular_solve: unsupported sparse layout.")
    if b.dim() != 2 or a.dim() != 2:
        raise RuntimeError(
            f"triangular_solve: a sparse A takes one matrix b, got the shapes {tuple(b.shape)} and "
            f"{tuple(a.shape)}"
        )
    whole = a._coordinates()
    rows, columns = whole._places._array
    inside = rows < columns if upper else rows > columns
    size = len(b)
    triangle = Triangle(rows[inside], columns[inside], size, upper)
    entries, diagonal = a._entries[wrap(inside)], None
    if not unitriangular:
        on = rows == columns
        diagonal = a._entries.new_zeros(size).index_put((wrap(rows[on]),), a._entries[wrap(on)])
    if transpose:
        triangle, order = triangle.turned()
        entries = entries[order]
    x = named(solution(triangle, entries, diagonal, b), "TriangularSolveBackward0")
    return TriangularSolve.result((x, b.new_empty(0)))
