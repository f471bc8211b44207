"""Linear equations by products with the matrix alone, many at a time.

Each of the equations has a vector in the trailing dimensions of its tensors; `rank` counts the
dimensions in front, over which they are batched. One that is solved waits unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tapegrad as tg

RESTART = 40  # vectors that GMRES keeps, and Lanczos's method makes


def widened(t: Any) -> Any:
    """Half precision as float32, for which there are decompositions."""
    return t.float() if t.dtype.itemsize == 2 else t


def inner(a: Any, b: Any, rank: int) -> Any:
    """The inner product of each equation's vectors."""
    return (a * b).sum(list(range(rank, a.ndim))) if a.ndim > rank else a * b


def norm(a: Any, rank: int) -> Any:
    return inner(a, a, rank).sqrt()


def beside(number: Any, v: Any, rank: int) -> Any:
    """A number of each equation, in a shape that broadcasts over its vector."""
    return number.reshape(tuple(number.shape) + (1,) * (v.ndim - rank))


def times(scale: Any, v: Any, rank: int) -> Any:
    """Each equation's vector times its number."""
    return beside(scale, v, rank) * v


def quotient(a: Any, b: Any) -> Any:
    """a / b, zero where b is zero: where an equation is solved."""
    return tg.where(b == 0, 0, a / tg.where(b == 0, 1, b))


def conjugate_gradients(
    product: Callable[[Any], Any], b: Any, x: Any, rank: int, tol: float, most: int
) -> tuple[Any, Any, Any, int]:
    """x, the residual's norm, where it is at most `tol` times that of b, and the steps taken."""
    limit = tol * norm(b, rank)
    r = p = b - product(x)
    square = inner(r, r, rank)
    step = 0
    while step < most and not bool((square.sqrt() <= limit).all()):
        step += 1
        moved = product(p)
        length = tg.where(square.sqrt() <= limit, 0, quotient(square, inner(p, moved, rank)))
        x = x + times(length, p, rank)
        r = r - times(length, moved, rank)
        before, square = square, inner(r, r, rank)
        p = r + times(quotient(square, before), p, rank)
    return x, square.sqrt(), square.sqrt() <= limit, step


def gmres(
    product: Callable[[Any], Any], b: Any, x: Any, rank: int, tol: float, most: int
) -> tuple[Any, Any, Any, int]:
    """`conjugate_gradients` for any matrix: the least residual in a growing space."""
    limit = tol * norm(b, rank)
    step = 0
    r = b - product(x)
    size = norm(r, rank)
    while step < most and not bool((size <= limit).all()):
        vectors = [times(quotient(tg.ones_like(size), size), r, rank)]
        columns: list[Any] = []
        while step < most and len(columns) < min(RESTART, b[(0,) * rank].numel()):
            step += 1
            w = product(vectors[-1])
            column = []
            for v in vectors:
                column.append(inner(v, w, rank))
                w = w - times(column[-1], v, rank)
            column.append(norm(w, rank))
            columns.append(column)
            vectors.append(times(quotient(tg.ones_like(size), column[-1]), w, rank))
            weights, left = least_residual(columns, size)
            if bool((left <= limit).all()):
                break
        moved = times(weights[..., 0], vectors[0], rank)
        for i in range(1, len(columns)):
            moved = moved + times(weights[..., i], vectors[i], rank)
        x = tg.where(beside(size <= limit, x, rank), x, x + moved)
        before = size
        r = b - product(x)
        size = norm(r, rank)
        if not bool(((size < 0.999 * before) | (size <= limit)).all()):
            break
    return x, size, size <= limit, step


def least_residual(columns: list[list[Any]], size: Any) -> tuple[Any, Any]:
    """The weights of the vectors for which the residual is least, and its norm."""
    n = len(columns)
    zero = tg.zeros_like(size)
    rows = [tg.stack([c[i] if i < len(c) else zero for c in columns], -1) for i in range(n + 1)]
    matrix = tg.stack(rows, -2)
    target = tg.cat([size[..., None], tg.zeros(*size.shape, n, dtype=size.dtype)], -1)[..., None]
    weights = tg.linalg.pinv(widened(matrix)).to(matrix.dtype) @ target
    return weights[..., 0], (target - matrix @ weights)[..., 0].norm(dim=-1)


def lanczos(product: Callable[[Any], Any], x: Any, rank: int) -> tuple[Any, Any]:
    """Of symmetric matrices, known by products with vectors like x: V^T A V, and V.

    The columns of V are orthonormal, or zero once they span all that the first of them reaches.
    """
    shape, count = x.shape, x.shape[rank:].numel()
    start = tg.arange(count, dtype=x.dtype, device=x.device)
    v = (start * start + 1).cos().expand(*shape[:rank], count).reshape(shape)
    v = times(1 / norm(v, rank), v, rank)
    vectors, products = [v], [product(v)]
    while len(vectors) < min(RESTART, count):
        w = products[-1]
        size = norm(w, rank)
        for _ in range(2):  # once loses digits
            for v in vectors:
                w = w - times(inner(v, w, rank), v, rank)
        left = norm(w, rank)
        left = tg.where(left <= 10 * tg.finfo(x.dtype).eps * size, 0, left)
        v = times(quotient(tg.ones_like(left), left), w, rank)
        vectors.append(v)
        products.append(product(v))
    matrices = [
        tg.stack(some, -1).reshape(*shape[:rank], count, -1) for some in (vectors, products)
    ]
    return matrices[0].mT @ matrices[1], matrices[0]
