"""Derivatives of higher order along paths: Taylor mode, and operators such as the Laplacian.

Nested `jvp` computes a derivative of order k with 2**k times the work of the function; Taylor mode
pushes k derivatives through each operation at once (core/transforms/series.py). A Laplacian sums
second derivatives over all axes: its *collapsed* form pushes the first derivatives along every axis
and a single sum of second derivatives.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import tapegrad as tg

from ..core.base import TensorBase
from ..core.modes import grad_set_to
from ..core.op import REGISTRY
from ..core.transforms.batched import batched, has_batched, lift, physical_array
from ..core.transforms.dual import bare, tangent_of
from ..core.transforms.opening import level_of
from ..core.transforms.series import Expansion, carrying, way_of
from ..utils import _pytree as pytree
from .derivatives import check_outputs, checked_argnums, jvp, replaced
from .jacobians import basis, check_inputs
from .vmapping import vmap

Function = Callable[..., Any]


def jet(func: Function, primals: Sequence[Any], series: Sequence[Sequence[Any]]) -> Any:
    """The value of a function, and its derivatives of all orders along a path.

    The path of each argument is given by its value (`primals`) and its derivatives with respect to
    the path's parameter, first order first (`series`: a list per argument, all of one length). The
    result is the value and the list of the derivatives of `func` along the path; for a function
    that returns several tensors, each derivative has the structure of the value.

    >>> path = [tensor(1.0), tensor(0.0)]
    >>> torch.func.jet(torch.exp, (tensor(0.0),), (path,))
    (tensor(1.), [tensor(1.), tensor(1.)])
    """
    check_function("jet", func)
    if not isinstance(primals, (tuple, list)) or not isinstance(series, (tuple, list)):
        raise TypeError("jet(f, primals, series): `primals` and `series` must be tuples or lists")
    if len(primals) != len(series):
        raise ValueError(
            f"jet(f, primals, series): {len(primals)} primals, but series for {len(series)}"
        )
    check_inputs(primals, "jet")
    orders = {len(each) for each in series}
    if len(orders) != 1 or 0 in orders:
        raise ValueError(
            "jet(f, primals, series): each series must have the same number of derivatives, at "
            f"least one, got {[len(each) for each in series]}"
        )
    for i, (x, each) in enumerate(zip(primals, series, strict=True)):
        for k, d in enumerate(each):
            check_derivative(f"series[{i}][{k}]", d, x)
    with ExitStack() as opened:
        levels = [opened.enter_context(level_of("jvp")) for _ in range(orders.pop())]
        Expansion(levels)
        moved = [
            carrying(x.view_as(x), list(each), levels)
            for x, each in zip(primals, series, strict=True)
        ]
        out = func(*moved)
        check_outputs(pytree.tree_leaves(out), "jet(f, primals, series)")
        derivatives = [
            pytree.tree_map(functools.partial(derivative_or_zero, level=v, levels=levels), out)
            for v in levels
        ]
        return pytree.tree_map(functools.partial(without, levels=levels), out), derivatives


def check_function(name: str, func: Any) -> None:
    if not callable(func):
        raise TypeError(f"{name}: the first argument must be a function, got {type(func).__name__}")


def check_derivative(name: str, d: Any, x: Any) -> None:
    if not isinstance(d, TensorBase):
        raise TypeError(f"jet(f, primals, series): {name} must be a Tensor, not {type(d).__name__}")
    if d.shape != x.shape or d.dtype != x.dtype:  # type: ignore[attr-defined]
        raise ValueError(
            f"jet(f, primals, series): {name} must have the shape {tuple(x.shape)} and the dtype "
            f"{x.dtype} of its primal, got {tuple(d.shape)} and {d.dtype}"  # type: ignore[attr-defined]
        )


def without(t: Any, levels: list[Any]) -> Any:
    """A result without the derivatives that it carries."""
    for level in reversed(levels):
        t = bare(t, level)
    return t


def derivative_or_zero(t: Any, level: Any, levels: list[Any]) -> Any:
    found = tangent_of(t, level)
    if found is None:
        return tg.zeros_like(without(t, levels).detach())
    if not found.requires_grad and physical_array(found).base is not None:
        return found.clone()  # it may be a small part of a large array (`carried` in series.py)
    return found


def coverage() -> dict[str, str]:
    """How `jet` differentiates each operation, by its name.

    "linear": the operation is applied to each derivative; "product": Leibniz's rule; "rule": its
    forward-mode rule is expanded; "none": it has no derivative.

    >>> torch.func.jet.coverage()["matmul"]
    'product'
    """
    return {name: way_of(op) for name, op in sorted(REGISTRY.items())}


jet.coverage = coverage  # type: ignore[attr-defined]


# ---------------------------------------------------------------------- operators


def laplacian(
    func: Function,
    argnums: int = 0,
    *,
    directions: int | Any = None,
    chunk_size: int | None = None,
    parts: Any = None,
) -> Function:
    """The sum of the second derivatives along all axes of an input, in one collapsed forward pass.

    `directions`: for large inputs, an estimate from that many random directions of +1 and -1
    (Hutchinson's), whose expectation is the Laplacian; or a tensor whose rows are the directions,
    whose second derivatives are averaged. `chunk_size`: how many directions are followed at a
    time; fewer take less memory.

    `parts`: for functions in which the rows of the input meet late, such as networks for many
    electrons. It is a function of one row; `func` gets the stacked results of all rows in place of
    the input. Derivatives inside it are followed for each row on its own: along the axes of a row,
    not of the whole input. A pair `(function, groups)`, where each row of the tensor `groups` has
    the numbers of some rows, gives a function of these rows together; a list of parts gives `func`
    several arguments.

    >>> torch.func.laplacian(lambda x: (x ** 3).sum())(tensor([1.0, 2.0]))
    tensor(18.)
    >>> rows = tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> torch.func.laplacian(lambda sums: sums.prod(), parts=lambda row: (row ** 2).sum())(rows)
    tensor(120.)
    """
    check_function("laplacian", func)
    listed = None if parts is None else checked_parts(parts, directions)

    @functools.wraps(func)
    def summed(*args: Any, **kwargs: Any) -> Any:
        x = the_input("laplacian", args, argnums)
        if listed is not None:
            return after_parts(func, args, kwargs, argnums, x, listed, chunk_size)
        rows = basis([x])[0] if directions is None else averaged(directions, x)
        return along_rows(func, args, kwargs, argnums, rows, None, None, chunk_size)

    return summed


def biharmonic(func: Function, argnums: int = 0, *, directions: int | Any = None) -> Function:
    """The Laplacian of the Laplacian of a function.

    `directions`: for large inputs, an estimate from fourth derivatives along that many normally
    distributed directions (the stochastic Taylor estimator of Shi et al., 2024), whose expectation
    is the result; or a tensor whose rows are such directions.

    >>> torch.func.biharmonic(lambda x: (x ** 4).sum())(tensor([1.0, 2.0]))
    tensor(48.)
    """
    check_function("biharmonic", func)
    if directions is None:
        return laplacian(laplacian(func, argnums), argnums)

    @functools.wraps(func)
    def estimated(*args: Any, **kwargs: Any) -> Any:
        x = the_input("biharmonic", args, argnums)
        rows = checked_directions(directions, x)
        if rows is None:
            with grad_set_to(False):
                rows = tg.randn(directions, *x.shape, dtype=x.dtype, device=x.device)

        def fourth(direction: Any) -> Any:
            zeros = [tg.zeros_like(x)] * 3
            moved = lambda x: func(*replaced(args, argnums, x), **kwargs)  # noqa: E731
            return jet(moved, (x,), ([direction, *zeros],))[1][3]

        # The mean of v_i v_j v_k v_l over normal v is 1 for each of the three pairings of indices.
        return pytree.tree_map(lambda d: d.mean(0) / 3, vmap(fourth)(rows))

    return estimated


def divergence(func: Function, argnums: int = 0, *, directions: int | Any = None) -> Function:
    """The trace of the Jacobian of a vector field: a function whose result has its input's shape.

    `directions`: an estimate from random directions, as for `laplacian`.

    >>> torch.func.divergence(lambda x: x ** 2)(tensor([1.0, 2.0]))
    tensor(6.)
    """
    check_function("divergence", func)

    @functools.wraps(func)
    def trace(*args: Any, **kwargs: Any) -> Any:
        x = the_input("divergence", args, argnums)
        rows = basis([x])[0] if directions is None else averaged(directions, x)

        def along(direction: Any) -> Any:
            _, moved = jvp(
                lambda x: func(*replaced(args, argnums, x), **kwargs), (x,), (direction,)
            )
            if not isinstance(moved, TensorBase) or moved.shape != x.shape:  # type: ignore[attr-defined]
                raise ValueError(
                    "divergence: the function must return a tensor of its input's shape "
                    f"{tuple(x.shape)}"
                )
            return (moved * direction).sum()  # type: ignore[operator]

        return vmap(along)(rows).sum(0)

    return trace


def operator(
    func: Function,
    second: Any,
    first: Any = None,
    zeroth: Any = None,
    argnums: int = 0,
    *,
    chunk_size: int | None = None,
) -> Function:
    """A linear differential operator of second order, applied to a function of n numbers.

    sum of second[i, j] d²f/dx_i dx_j + sum of first[i] df/dx_i + zeroth f

    `second` is a number, n numbers (a diagonal), or an n x n matrix; `first` a number or n numbers;
    `zeroth` a number. Each may also be a function that gets the input and returns one of these:
    coefficients that vary from point to point.

    >>> heat = torch.func.operator(lambda x: (x ** 2).sum(), 0.5, first=tensor([1.0, 0.0]))
    >>> heat(tensor([3.0, 4.0]))
    tensor(8.)
    """
    check_function("operator", func)
    given = {"second": second, "first": first, "zeroth": zeroth}

    @functools.wraps(func)
    def applied(*args: Any, **kwargs: Any) -> Any:
        x = the_input("operator", args, argnums)
        flat = x.reshape(-1)
        of_second, of_first, of_zeroth = [
            coefficient(name, c(x) if callable(c) else c, x) for name, c in given.items()
        ]
        rows, weights = directions_of(of_second, flat)
        drift = None if of_first is None else (of_first + tg.zeros_like(flat)).reshape(x.shape)
        found = along_rows(
            func,
            args,
            kwargs,
            argnums,
            rows.reshape(len(rows), *x.shape),
            weights,
            drift,
            chunk_size,
        )
        if of_zeroth is None:
            return found
        value = func(*args, **kwargs)
        return pytree.tree_map(lambda a, b: a + of_zeroth * b, found, value)

    return applied


def coefficient(name: str, c: Any, x: Any) -> Any:
    """A coefficient of `operator` as a tensor; None: there is none."""
    if c is None and name != "second":
        return None
    try:
        found = c if isinstance(c, TensorBase) else tg.as_tensor(c, dtype=x.dtype, device=x.device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"operator: `{name}` must be numbers or a function, got {type(c).__name__}"
        ) from error
    count = x.numel()
    shape = tuple(found.shape)
    if name == "first" and shape not in ((), (1,), (count,), tuple(x.shape)):
        raise ValueError(
            f"operator: `first` must be a number or {count} numbers, got shape {shape}"
        )
    if name == "zeroth" and shape not in ((), (1,)):
        raise ValueError(f"operator: `zeroth` must be a number, got shape {shape}")
    return found


def directions_of(matrix: Any, flat: Any) -> tuple[Any, Any]:
    """Directions v and signs w such that sum w (v v^T) is the matrix of second-order coefficients.

    A matrix that is known and constant is decomposed into its eigenvectors: at most n directions.
    One that varies with the point, or is itself differentiated, is taken apart as
    4 (u v^T + v u^T) / 2 = (u + v)(u + v)^T - (u - v)(u - v)^T with 2 n directions.
    """
    n = flat.numel()
    varies = has_batched((matrix,)) or matrix.requires_grad
    if matrix.ndim > 2 or (matrix.ndim and any([size != n for size in matrix.shape])):
        raise ValueError(
            f"operator: `second` must be a number, {n} numbers or a {n} x {n} matrix, got shape "
            f"{tuple(matrix.shape)}"
        )
    eye = basis([flat])[0]
    if matrix.ndim < 2:
        columns = eye * matrix
    else:
        columns = (matrix + matrix.mT) / 2
    if varies:
        signs = tg.ones(2 * n, dtype=flat.dtype, device=flat.device)
        signs[n:] = -1
        return tg.cat([eye + columns, eye - columns]) / 2, signs
    if matrix.ndim < 2:
        values = matrix.expand(n)
        rows = eye * values.abs().sqrt()
    else:
        values, vectors = tg.linalg.eigh(columns)
        rows = (vectors * values.abs().sqrt()).mT
    signs = values.sign()
    return rows, None if bool((signs == 1).all()) else signs


def the_input(name: str, args: tuple[Any, ...], argnums: int) -> Any:
    number = checked_argnums(argnums, len(args))
    if not isinstance(number, int):
        raise RuntimeError(f"{name}: argnums must be an int here, got: {type(argnums)}")
    x = args[number]
    if not isinstance(x, TensorBase):
        raise TypeError(f"{name}: argument {number} must be a Tensor, not {type(x).__name__}")
    check_inputs([x], name)
    return x


def checked_directions(directions: Any, x: Any) -> Any:
    """The directions if they are given; None for a number of random ones."""
    if isinstance(directions, TensorBase):
        if directions.ndim != x.ndim + 1 or directions.shape[1:] != x.shape:  # type: ignore[attr-defined]
            raise ValueError(
                f"`directions` must have the shape (count, {', '.join(map(str, x.shape))}), got "
                f"{tuple(directions.shape)}"  # type: ignore[attr-defined]
            )
        return directions
    if isinstance(directions, bool) or not isinstance(directions, int) or directions < 1:
        raise ValueError(f"`directions` must be a positive int or a tensor, got {directions!r}")
    return None


def averaged(directions: Any, x: Any) -> Any:
    """Directions whose second derivatives add up to the average over them."""
    rows = checked_directions(directions, x)
    if rows is not None:
        return rows / rows.shape[0] ** 0.5
    with grad_set_to(False):
        coins = tg.randint(0, 2, (directions, *x.shape), device=x.device)
        return (coins * 2 - 1).to(x.dtype) / directions**0.5


# ---------------------------------------------------------------------- parts of the input


def checked_parts(parts: Any, directions: Any) -> list[tuple[Function, Any]]:
    """The parts as pairs of a function and groups of rows; None for each row by itself."""
    if directions is not None:
        raise ValueError("laplacian: `parts` and `directions` cannot be used together")
    found = []
    for part in parts if isinstance(parts, list) else [parts]:
        function, groups = part if isinstance(part, tuple) and len(part) == 2 else (part, None)
        if not callable(function):
            raise TypeError(
                "laplacian: `parts` must be a function, a pair (function, groups) or a list of "
                f"these, got {type(function).__name__}"
            )
        if groups is not None:
            check_groups(groups)
        found.append((function, groups))
    if not found:
        raise ValueError("laplacian: `parts` is an empty list")
    return found


def check_groups(groups: Any) -> None:
    if not isinstance(groups, TensorBase):
        raise TypeError(
            f"laplacian: the groups of a part must be a tensor, got {type(groups).__name__}"
        )
    if groups._array.dtype.kind not in "iu" or groups._array.ndim != 2:
        raise ValueError(
            "laplacian: the groups of a part must be a matrix of row numbers, got shape "
            f"{tuple(groups.shape)} and {groups.dtype}"  # type: ignore[attr-defined]
        )
    if any([len(set(group)) < len(group) for group in groups.tolist()]):  # type: ignore[attr-defined]
        raise ValueError("laplacian: a group of rows has one of them twice")


def after_parts(
    func: Function,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    argnums: int,
    x: Any,
    parts: list[tuple[Function, Any]],
    chunk_size: int | None,
) -> Any:
    """The Laplacian of a function of parts, from the derivatives of each part.

    With t = part(x), the Laplacian of f(t(x)) is the sum of f's second derivatives along dt/dx_i,
    and f's first derivative along the Laplacian of t.
    """
    if x.ndim == 0:
        raise ValueError("laplacian: with `parts`, the input must have rows")
    values, rows, drifts = [], [], []
    for function, groups in parts:
        numbers = tg.arange(x.numel(), device=x.device).reshape(x.shape)
        pieces, places = (x, numbers) if groups is None else (x[groups], numbers[groups])
        value, first, second = vmap(functools.partial(expanded, function))(pieces)
        # Row d has the derivative of each part along x_d: those along the axes of its own piece.
        count, size = first.shape[:2]
        slopes = tg.zeros(x.numel(), *value.shape, dtype=value.dtype, device=x.device)
        at = (places.reshape(count, size), tg.arange(count, device=x.device)[:, None])
        values.append(value)
        rows.append(slopes.index_put(at, first))
        drifts.append(second)
    number = checked_argnums(argnums, len(args))
    before, after = args[:number], args[number + 1 :]  # type: ignore[operator]

    def whole(*given: Any) -> Any:
        return func(*before, *given, *after, **kwargs)

    return along_several(whole, values, rows, drifts, chunk_size)


def expanded(function: Function, piece: Any) -> tuple[Any, Any, Any]:
    """The value of a function, its derivatives along all axes in rows, and its Laplacian."""
    rows = basis([piece])[0]
    with level_of("vmap", rows.shape[0]) as paths, ExitStack() as opened:
        paths.directions = True
        levels = [opened.enter_context(level_of("jvp")) for _ in range(2)]
        Expansion(levels, paths)
        out = function(carrying(piece.view_as(piece), [batched(rows, paths), None], levels))
        if not isinstance(out, TensorBase):
            raise TypeError(f"laplacian: a part must return one tensor, got {type(out).__name__}")
        value = without(out, levels)
        first, second = [derivative_or_zero(out, level, levels) for level in levels]
        return value, lift(first, paths), second


def along_several(
    func: Function, values: list[Any], rows: list[Any], drifts: list[Any], chunk_size: int | None
) -> Any:
    """The second derivatives along rows of several arguments, and the first one along `drifts`."""
    count = rows[0].shape[0]
    step = checked_chunk(chunk_size, count)
    total = None
    for start in range(0, count, step) if count else (0,):
        some = [each[start : start + step] for each in rows] if step < count else rows
        with level_of("vmap", some[0].shape[0]) as paths, ExitStack() as opened:
            paths.directions = True
            levels = [opened.enter_context(level_of("jvp")) for _ in range(2)]
            Expansion(levels, paths)
            moved = [
                carrying(x.view_as(x), [batched(row, paths), None if start else drift], levels)
                for x, row, drift in zip(values, some, drifts, strict=True)
            ]
            out = func(*moved)
            check_outputs(pytree.tree_leaves(out), "laplacian")
            found = pytree.tree_map(
                functools.partial(derivative_or_zero, level=levels[1], levels=levels), out
            )
        total = found if total is None else pytree.tree_map(tg.add, total, found)
    return total


def checked_chunk(chunk_size: int | None, count: int) -> int:
    """How many directions are followed at a time."""
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"`chunk_size` should be None or greater than 0. (got {chunk_size})")
    return max(count if chunk_size is None else min(chunk_size, count), 1)


# ---------------------------------------------------------------------- one pass


def along_rows(
    func: Function,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    argnums: int,
    rows: Any,
    weights: Any,
    drift: Any,
    chunk_size: int | None,
) -> Any:
    """The weighted sum of second derivatives along rows, and the first derivative along `drift`."""
    count = rows.shape[0]
    step = checked_chunk(chunk_size, count)
    total = None
    for start in range(0, count, step) if count else (0,):
        some, of_some = rows, weights
        if step < count:
            part = slice(start, start + step)
            some, of_some = rows[part], None if weights is None else weights[part]
        found = one_pass(func, args, kwargs, argnums, some, of_some, drift)
        drift = None
        total = found if total is None else pytree.tree_map(tg.add, total, found)
    return total


def one_pass(
    func: Function,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    argnums: int,
    rows: Any,
    weights: Any,
    drift: Any,
) -> Any:
    x = args[checked_argnums(argnums, len(args))]
    with level_of("vmap", rows.shape[0]) as paths, ExitStack() as opened:
        paths.directions = True
        levels = [opened.enter_context(level_of("jvp")) for _ in range(2)]
        Expansion(levels, paths, weights)
        moved = carrying(x.view_as(x), [batched(rows, paths), drift], levels)
        out = func(*replaced(args, checked_argnums(argnums, len(args)), moved), **kwargs)
        check_outputs(pytree.tree_leaves(out), "laplacian")
        return pytree.tree_map(
            functools.partial(derivative_or_zero, level=levels[1], levels=levels), out
        )
