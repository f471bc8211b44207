"""Sparse Jacobians and Hessians: the pattern is found, its columns are colored, and one derivative
along the sum of all columns of a color gives the entries of all of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import tapegrad as tg

from ..core.base import TensorBase, wrap
from ..core.modes import grad_set_to
from ..core.transforms.levels import STACK
from ..nn.modules.module import Module
from ..sparse.compressed import compressed, to_scipy
from ..sparse.coo import sparse as coordinates
from ..utils import _pytree as pytree
from .dependence import Sets, Tracer, empty
from .derivatives import checked_argnums, grad, jvp, replaced, vjp
from .jacobians import check_inputs, jacrev
from .jacobians import hessian as dense_hessian
from .taylor import check_function
from .vmapping import vmap

Function = Callable[..., Any]
LAYOUTS = ("coo", "csr", "csc", "scipy")
PICTURE = (16, 48)  # lines and columns of a pattern's text, at most


class Pattern:
    """Which elements of the result of a function depend on which elements of its inputs.

    `rows` and `columns` are the places of the entries that may be non-zero, row by row.
    """

    def __init__(self, rows: Any, columns: Any, shape: tuple[int, int]) -> None:
        self.rows = rows
        self.columns = columns
        self.shape = shape

    @property
    def nnz(self) -> int:
        """How many entries may be non-zero."""
        return len(self.rows)

    def indices(self) -> Any:
        """The places as a tensor of two rows, as those of a sparse tensor."""
        return wrap(np.stack([self.rows, self.columns]))

    def to_dense(self) -> Any:
        """The pattern as a matrix of bools."""
        made = np.zeros(self.shape, bool)
        made[self.rows, self.columns] = True
        return wrap(made)

    def most(self) -> tuple[int, int]:
        """The most entries in one row, and in one column."""
        found = [np.bincount(each, minlength=1).max() for each in (self.rows, self.columns)]
        return int(found[0]), int(found[1])

    def __repr__(self) -> str:
        """The numbers, and a picture: `*` where a block is used as a whole, `+` in part."""
        (m, n), (across, down) = self.shape, self.most()
        text = (
            f"Pattern({m} x {n}, {self.nnz} entries, at most {across} in a row and {down} in a "
            "column)"
        )
        lines, width = min(m, PICTURE[0]), min(n, PICTURE[1])
        if not lines or not width:
            return text
        counts = np.zeros((lines, width), np.int64)
        np.add.at(counts, (self.rows * lines // m, self.columns * width // n), 1)
        high = np.bincount(np.arange(m) * lines // m)
        wide = np.bincount(np.arange(n) * width // n)
        marks = np.where(counts == np.outer(high, wide), "*", np.where(counts > 0, "+", "."))
        return "\n".join([text, *["".join(line) for line in marks]])

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw the pattern with matplotlib, as `spy` does, and return the axes."""
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.gca()
        options = {"marker": "s", "linestyle": "none", "markersize": 2, **options}
        ax.plot(self.columns, self.rows, **options)
        ax.set(xlim=(-0.5, self.shape[1] - 0.5), ylim=(self.shape[0] - 0.5, -0.5), aspect="equal")
        return ax


def sparsity(func: Function, *args: Any, argnums: Any = 0) -> Pattern:
    """Which elements of the result of a function may depend on which elements of an input.

    The function is run once, and dependence is followed through its operations; no derivative is
    computed. An entry that is not in the pattern is zero whatever the values are, as long as Python
    takes the same path (`if`, loops, shapes); an entry in it may be zero all the same. Several
    inputs (`argnums`) or results are followed as one vector, in their order.

    >>> torch.func.sparsity(lambda x: x[1:] - x[:-1], torch.zeros(4))
    Pattern(3 x 4, 6 entries, at most 2 in a row and 2 in a column)
    **..
    .**.
    ..**
    """
    check_function("sparsity", func)
    if STACK.levels:
        raise RuntimeError("sparsity: it cannot be called inside another transform")
    if not args:
        raise TypeError("sparsity: it takes the inputs of the function, or tensors like them")
    numbers = checked_argnums(argnums, len(args))
    numbers = (numbers,) if isinstance(numbers, int) else numbers
    leaves, spec = pytree.tree_flatten([args[i] for i in numbers])
    check_followed(leaves)
    width = sum([x.numel() for x in leaves])
    tracer = Tracer(width)
    inside, start = [], 0
    for x in leaves:
        inside.append(copied(x))
        own = np.arange(start, start + x.numel())
        full = np.full(len(own), width == 1)
        sets = empty(len(own), True) if width == 1 else Sets(np.arange(len(own) + 1), own, full)
        tracer.give(inside[-1], sets)
        start += x.numel()
    values = dict(zip(numbers, pytree.tree_unflatten(inside, spec), strict=True))
    given = []
    for i, arg in enumerate(args):
        if i in values:
            given.append(values[i])
            continue
        flat, other = pytree.tree_flatten(arg)
        for k, t in enumerate(flat):
            if isinstance(t, TensorBase) and not t._special:
                flat[k] = copied(t)
                tracer.give(flat[k], empty(t.numel()))  # type: ignore[attr-defined]
        given.append(pytree.tree_unflatten(flat, other))
    state = tg.get_rng_state()  # random operations run again in trials
    try:
        with grad_set_to(True), tracer:
            outs = [t for t in pytree.tree_leaves(func(*given)) if isinstance(t, TensorBase)]
            found = [tracer.meet(t).sets.listed(width) for t in outs]
    finally:
        tg.set_rng_state(state)
    sizes = [t.numel() for t in outs]  # type: ignore[attr-defined]
    before = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    none = [np.zeros(0, np.int64)]
    rows = np.concatenate(none + [r + at for (r, _), at in zip(found, before, strict=False)])
    columns = np.concatenate(none + [c for _, c in found])
    return Pattern(rows, columns, (int(before[-1]), width))


def copied(t: Any) -> Any:
    """A leaf with the values of an argument, in memory of its own."""
    made = t.detach().clone(memory_format=tg.contiguous_format)
    return made.requires_grad_(t.is_floating_point() or t.is_complex())


def check_followed(leaves: Any) -> None:
    check_inputs(leaves, "sparsity")
    for x in leaves:
        if type(x._array) is not np.ndarray or x._special:
            raise NotImplementedError(
                "sparsity: dependence is followed on the CPU, in tensors with values; got a "
                f"{type(x).__name__} on {x.device}"
            )


# ---------------------------------------------------------------------- colors


def column_colors(pattern: Pattern) -> Any:
    """A number per column, such that columns of one color share no row; -1: the column is empty.

    Columns are taken in order, and then those with many entries first; the better result counts.
    """
    rows, columns, count = pattern.rows, pattern.columns, pattern.shape[1]
    best = spread_evenly(pattern)
    least = pattern.most()[0]
    if best.max(initial=-1) + 1 == least:
        return best
    if least == count:  # a full row
        return np.arange(count)
    in_rows = lists(rows, columns, pattern.shape[0])
    in_columns = lists(columns, rows, count)
    natural = range(count)
    for order in (natural, sorted(natural, key=lambda j: -len(in_columns[j]))):
        found = np.full(count, -1)
        color_of: list[int] = [-1] * count
        for j in order:
            taken = {color_of[k] for i in in_columns[j] for k in in_rows[i]}
            if in_columns[j]:
                color_of[j] = first_free(taken)
        found[:] = color_of
        if found.max(initial=-1) < best.max(initial=-1):
            best = found
    return best


def spread_evenly(pattern: Pattern) -> Any:
    """Colors by the remainder of the column: the best for bands, found at once."""
    rows, columns, count = pattern.rows, pattern.columns, pattern.shape[1]
    least = pattern.most()[0]
    for colors in range(max(least, 1), min(2 * least + 8, count) + 1):
        if np.bincount(rows * colors + columns % colors, minlength=1).max() <= 1:
            break
    else:
        colors = max(count, 1)
    used = np.bincount(columns, minlength=count) > 0
    return np.where(used, np.arange(count) % colors, -1)


def star_colors(pattern: Pattern) -> Any:
    """A number per column of a symmetric pattern: neighbours differ, and so do two of any four in a
    path, so that each entry is alone in its row or in its column.
    """
    near = [
        [j for j in each if j != i]
        for i, each in enumerate(lists(pattern.rows, pattern.columns, pattern.shape[0]))
    ]
    color_of = [-1] * len(near)
    for v in sorted(range(len(near)), key=lambda j: -len(near[j])):
        taken = set()
        for w in near[v]:
            taken.add(color_of[w])
            for x in near[w]:
                if x == v or color_of[x] < 0 or color_of[x] in taken:
                    continue
                if color_of[w] < 0 or any([y != w and color_of[y] == color_of[w] for y in near[x]]):
                    taken.add(color_of[x])
        color_of[v] = first_free(taken)
    return np.array(color_of, np.int64)


def first_free(taken: set[int]) -> int:
    color = 0
    while color in taken:
        color += 1
    return color


def lists(keys: Any, values: Any, count: int) -> list[list[int]]:
    """The values of each key, as lists."""
    order = np.argsort(keys, kind="stable")
    ends = np.cumsum(np.bincount(keys, minlength=count))[:-1]
    return [part.tolist() for part in np.split(values[order], ends)] if count else []


# ---------------------------------------------------------------------- derivatives


class Prepared(Module):
    """A sparse Jacobian or Hessian whose pattern and colors are known: call it with arguments of
    the shapes that it was prepared for. `values` gives the entries alone, row by row, as a tensor.

    It is a module because `compile` looks for tensors in modules.
    """

    def __init__(
        self,
        func: Function,
        argnums: int,
        args: tuple[Any, ...],
        pattern: Pattern,
        layout: str,
        chunk_size: int | None,
        symmetric: bool,
    ) -> None:
        super().__init__()
        x = args[argnums]
        self.func = func
        self.argnums = argnums
        self.pattern = pattern
        self.layout = layout
        self.chunk_size = chunk_size
        self.mode = "jvp"  # which derivative is taken along each color
        self.shape = tuple(x.shape)
        self.dtype = x.dtype
        rows, columns = pattern.rows, pattern.columns
        color_of = column_colors(pattern)
        if symmetric:
            self.mode = "hvp"
            stars = star_colors(pattern)
            if stars.max(initial=-1) < color_of.max(initial=-1):
                color_of = stars
                rows, columns = alone_in_row(pattern, stars)
        else:
            turned = Pattern(columns, rows, pattern.shape[::-1])
            across = column_colors(turned)
            if across.max(initial=-1) < color_of.max(initial=-1):
                self.mode, color_of, rows, columns = "vjp", across, columns, rows
        self.colors = int(color_of.max(initial=-1)) + 1
        seeds = np.zeros((self.colors, len(color_of)))
        used = np.flatnonzero(color_of >= 0)
        seeds[color_of[used], used] = 1
        length = pattern.shape[1 if self.mode == "vjp" else 0]
        entry = pattern.shape[:1] if self.mode == "vjp" else self.shape
        self.entries: Function = self.values
        self.keep("seeds", wrap(seeds.reshape(self.colors, *entry)).to(x.dtype))
        self.keep("places", wrap(color_of[columns] * length + rows))
        self.keep("indices", pattern.indices())
        by_row = layout != "csc"
        lines, inner = pattern.rows, pattern.columns
        if layout == "csc":
            order = np.lexsort((lines, inner))
            self.keep("order", wrap(order))
            lines, inner = inner[order], lines[order]
        start = wrap(starts(lines, pattern.shape[0 if by_row else 1]))
        self.model = compressed(start, wrap(inner), self.places, pattern.shape, by_row)

    def keep(self, name: str, t: Any) -> None:
        self.register_buffer(name, t, persistent=False)

    def values(self, *args: Any) -> Any:
        """The entries at the places of the pattern, row by row: a dense tensor, for `compile`."""
        x = args[self.argnums]
        if tuple(x.shape) != self.shape or x.dtype != self.dtype:
            raise ValueError(
                f"sparse derivative prepared for {list(self.shape)} and {self.dtype}, got "
                f"{list(x.shape)} and {x.dtype}"
            )
        if not self.colors:
            return x.new_zeros(0)

        def of_input(value: Any) -> Any:
            return self.func(*replaced(args, self.argnums, value))

        if self.mode == "vjp":
            out, pull = vjp(lambda v: of_input(v).reshape(-1), x)
            found = vmap(lambda seed: pull(seed)[0], chunk_size=self.chunk_size)(self.seeds)
        else:

            def along(seed: Any) -> Any:
                STACK.levels[-1].directions = True
                return jvp(of_input, (x,), (seed,))[1]

            found = vmap(along, chunk_size=self.chunk_size)(self.seeds)
        return found.reshape(-1).index_select(0, self.places)

    def forward(self, *args: Any) -> Any:
        return self.assemble(self.entries(*args))

    def assemble(self, values: Any) -> Any:
        """The matrix with these entries, in the layout that was asked for."""
        shape = self.pattern.shape
        if self.layout == "coo":
            return coordinates(self.indices, values, shape, True)
        if self.layout == "csr":
            return self.model._with(values)
        if self.layout == "csc":
            return self.model._with(values[self.order])
        if values.dtype not in (tg.float32, tg.float64):
            raise TypeError(f'layout="scipy": SciPy has no sparse matrices of {values.dtype}')
        return to_scipy(self.model._with(values))

    def __repr__(self) -> str:
        kind = {"hvp": "Hessian"}.get(self.mode, "Jacobian")
        return f"Prepared({kind}, {self.colors} colors, mode {self.mode}, {self.pattern!r})"


def starts(rows: Any, count: int) -> Any:
    """Where the entries of each row begin, and where the last one's end."""
    return np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))])


def alone_in_row(pattern: Pattern, colors: Any) -> tuple[Any, Any]:
    """Where each entry of a symmetric matrix is read: as it is, or from its mirror image."""
    rows, columns = pattern.rows, pattern.columns
    count = int(colors.max(initial=0)) + 1
    seen = np.bincount(rows * count + colors[columns], minlength=pattern.shape[0] * count)
    alone = seen[rows * count + colors[columns]] == 1
    return np.where(alone, rows, columns), np.where(alone, columns, rows)


def scipy_sparse() -> Any:
    try:
        from scipy import sparse
    except ImportError as error:
        raise ImportError('layout="scipy" needs SciPy, which is not installed') from error
    return sparse


class SparseDerivative:
    """A function that returns a sparse Jacobian or Hessian; `prepare` finds its pattern once."""

    def __init__(
        self, func: Function, argnums: int, layout: str, chunk_size: int | None, second: bool
    ) -> None:
        check_function("hessian" if second else "jacobian", func)
        if layout not in LAYOUTS:
            raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}, got {layout!r}")
        if isinstance(argnums, bool) or not isinstance(argnums, int):
            raise TypeError(f"sparse=True: argnums must be an int, got {argnums!r}")
        if not (chunk_size is None or chunk_size > 0):
            raise ValueError("`chunk_size` should be greater than 0.")
        if layout == "scipy":
            scipy_sparse()
        self.func = func
        self.argnums = argnums
        self.layout = layout
        self.chunk_size = chunk_size
        self.second = second
        functools.update_wrapper(self, func, updated=())

    def prepare(
        self, *args: Any, pattern: Pattern | None = None, compile: bool = False
    ) -> Prepared:
        """Find the pattern at these arguments, unless it is given, and color it.

        With `compile`, the entries are computed by a compiled function.
        """
        number = checked_argnums(self.argnums, len(args))
        if not isinstance(args[number], TensorBase):
            kind = type(args[number]).__name__
            raise TypeError(f"sparse=True: argument {number} must be a Tensor, not {kind}")
        check_inputs([args[number]], "sparse=True")
        if args[number]._array.dtype.kind == "c":
            raise NotImplementedError("sparse=True: complex inputs are not supported")
        func = grad(self.func, number) if self.second else self.func
        if pattern is None:
            pattern = sparsity(checked_result(func), *args, argnums=number)
        elif not isinstance(pattern, Pattern):
            kind = type(pattern).__name__
            raise TypeError(f"prepare: `pattern` must be what func.sparsity returns, not {kind}")
        elif pattern.shape[1] != args[number].numel():
            raise ValueError(
                f"prepare: the pattern has {pattern.shape[1]} columns, the input "
                f"{args[number].numel()} elements"
            )
        if self.second:
            pattern = symmetric(pattern)
        made = Prepared(func, number, args, pattern, self.layout, self.chunk_size, self.second)
        if compile:
            made.entries = tg.compile(made.values)
        return made

    def __call__(self, *args: Any) -> Any:
        return self.prepare(*args)(*args)


def checked_result(func: Function) -> Function:
    def checked(*args: Any) -> Any:
        out = func(*args)
        if not isinstance(out, TensorBase):
            raise TypeError(
                f"sparse=True: the function must return one Tensor, not {type(out).__name__}"
            )
        if out._array.dtype.kind not in "fV":
            raise TypeError(f"sparse=True: the result must be real, got {out.dtype}")  # type: ignore[attr-defined]
        return out

    return checked


def symmetric(pattern: Pattern) -> Pattern:
    """The pattern with the mirror image of each entry, and the diagonal."""
    count = pattern.shape[1]
    own = np.arange(count)
    both = np.concatenate(
        [
            pattern.rows * count + pattern.columns,
            pattern.columns * count + pattern.rows,
            own * (count + 1),
        ]
    )
    key = np.unique(both)
    return Pattern(key // max(count, 1), key % max(count, 1), (count, count))


def check_sparse(name: str, sparse: Any, layout: Any) -> None:
    if not isinstance(sparse, bool):
        wanted = sparse if isinstance(sparse, str) and sparse in LAYOUTS else "csr"
        raise TypeError(
            f"{name}: `sparse` must be True or False, got {sparse!r}; the layout is another "
            f"argument: sparse=True, layout={wanted!r}"
        )
    if not sparse and layout != "coo":
        raise ValueError(f"{name}: layout={layout!r} needs sparse=True")


def jacobian(
    func: Function,
    argnums: Any = 0,
    *,
    sparse: bool = False,
    layout: str = "coo",
    chunk_size: int | None = None,
) -> Function:
    """The Jacobian of a function; with `sparse=True`, as a sparse matrix whose pattern is found.

    The sparse matrix has a row per element of the result and a column per element of the input.
    `layout`: "coo", "csr", "csc", or "scipy" for a `scipy.sparse.csr_array`. Each call traces the
    function again; `jacobian(func, sparse=True).prepare(x)` does it once, and gives an object to be
    called with arguments of the same shapes. Without `sparse`, it is `jacrev`.

    >>> torch.func.jacobian(lambda x: x ** 2, sparse=True)(tensor([1.0, 2.0]))
    tensor(indices=tensor([[0, 1],
                           [0, 1]]),
           values=tensor([2., 4.]),
           size=(2, 2), nnz=2, layout=torch.sparse_coo)
    """
    check_sparse("jacobian", sparse, layout)
    if not sparse:
        return jacrev(func, argnums, chunk_size=chunk_size)
    return SparseDerivative(func, argnums, layout, chunk_size, False)


def hessian(
    func: Function, argnums: Any = 0, *, sparse: bool = False, layout: str = "coo"
) -> Function:
    """The matrix of second derivatives: forward over reverse.

    With `sparse=True`, a sparse matrix whose pattern is found, as for `jacobian`.

    >>> torch.func.hessian(lambda x: (x ** 3).sum())(tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    check_sparse("hessian", sparse, layout)
    if not sparse:
        return dense_hessian(func, argnums)
    return SparseDerivative(func, argnums, layout, None, True)
