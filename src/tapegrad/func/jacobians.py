"""Jacobians and Hessians: one batched pass over all directions. And our own second derivatives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tapegrad as tg

from ..core.base import STATE, TensorBase, wrap
from ..core.transforms.batched import physical_array
from ..core.transforms.dual import bare, tangent_of
from ..core.transforms.levels import STACK
from ..core.transforms.opening import level_of
from ..utils import _pytree as pytree
from .derivatives import (
    check_outputs,
    checked_argnums,
    grad,
    jvp,
    moving,
    picked,
    pull_back,
    replaced,
)
from .vmapping import vmap

Function = Callable[..., Any]


def jacrev(
    func: Function,
    argnums: Any = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Function:
    """The Jacobian of a function, row by row from its outputs (reverse mode), all rows at once.

    >>> torch.func.jacrev(lambda x: x * x)(tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        numbers = checked_argnums(argnums, len(args))
        bound = functools.partial(func, **kwargs) if kwargs else func
        found = pull_back(bound, args, numbers, has_aux)
        out, pull = found[0], found[1]
        outputs, out_spec = pytree.tree_flatten(out)
        inputs, in_spec = pytree.tree_flatten(picked(args, numbers))
        rows = basis(outputs)

        def one_row(*cotangents: Any) -> Any:
            return pytree.tree_leaves(pull(pytree.tree_unflatten(list(cotangents), out_spec)))

        if rows[0].shape[0] == 1:
            # One row needs no batch.
            stacked = [g.unsqueeze(0) for g in one_row(*[row[0] for row in rows])]
        else:
            stacked = vmap(one_row, chunk_size=chunk_size)(*rows)
        blocks = [split_rows(column, outputs) for column in stacked]  # per input, per output
        per_output = [
            pytree.tree_unflatten(
                [
                    block.reshape((*o.shape, *x.shape))
                    for block, x in zip(column, inputs, strict=True)
                ],
                in_spec,
            )
            for column, o in zip(zip(*blocks, strict=True), outputs, strict=True)
        ]
        result = pytree.tree_unflatten(per_output, out_spec)
        return (result, found[2]) if has_aux else result

    return jacobian


def jacfwd(
    func: Function, argnums: Any = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Function:
    """The Jacobian of a function, column by column from its inputs (forward mode), all at once.

    >>> torch.func.jacfwd(lambda x: x * x)(tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        numbers = checked_argnums(argnums, len(args))
        inputs, in_spec = pytree.tree_flatten(picked(args, numbers))

        def of_inputs(*values: Any) -> Any:
            inside = replaced(args, numbers, pytree.tree_unflatten(list(values), in_spec))
            return func(*inside, **kwargs)

        specs: list[Any] = []

        def one_column(*tangents: Any) -> Any:
            STACK.levels[-1].directions = True
            found = jvp(of_inputs, tuple(inputs), tangents, has_aux=has_aux)
            moved, out_spec = pytree.tree_flatten(found[1])
            aux, aux_spec = pytree.tree_flatten(found[2] if has_aux else None)
            specs[:] = [out_spec, aux_spec, [t.shape for t in moved]]
            return moved, aux

        check_inputs(inputs)
        directions = basis(inputs)
        columns, aux = vmap(one_column, out_dims=(-1, None), randomness=randomness)(*directions)
        out_spec, aux_spec, shapes = specs
        per_output = []
        for column, shape in zip(columns, shapes, strict=True):
            blocks = column.split([x.numel() for x in inputs], -1)
            per_output.append(
                pytree.tree_unflatten(
                    [b.reshape((*shape, *x.shape)) for b, x in zip(blocks, inputs, strict=True)],
                    in_spec,
                )
            )
        result = pytree.tree_unflatten(per_output, out_spec)
        return (result, pytree.tree_unflatten(aux, aux_spec)) if has_aux else result

    return jacobian


def hessian(func: Function, argnums: Any = 0) -> Function:
    """The matrix of second derivatives: forward over reverse.

    >>> torch.func.hessian(lambda x: (x ** 3).sum())(tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)


def basis(tensors: Sequence[Any]) -> list[Any]:
    """Per tensor, the unit vectors of all tensors together: one direction per row."""
    total = sum([t.numel() for t in tensors])
    made = []
    start = 0
    for t in tensors:
        count = t.numel()
        if type(physical_array(t)) is np.ndarray and not STATE.modes_on:  # nobody looks on
            rows = np.eye(total, count, -start, t._array.dtype)
            made.append(wrap(rows.reshape(total, *t._array.shape)))
            start += count
            continue
        rows = tg.zeros(total, count, dtype=t.dtype, device=t.device)
        rows.diagonal(-start).fill_(1)
        made.append(rows.view(total, *t.shape))
        start += count
    return made


def split_rows(stacked: Any, outputs: Sequence[Any]) -> Any:
    return stacked.split([o.numel() for o in outputs], 0)


def check_inputs(inputs: Sequence[Any], name: str = "") -> None:
    """Refuse what has no derivatives: in the name of a function of ours, or as PyTorch does."""
    for x in inputs:
        if not isinstance(x, TensorBase):
            if name:
                raise TypeError(f"{name}: the inputs must be Tensors, got {type(x).__name__}")
            raise RuntimeError(
                "jvp(f, primals, tangents): Expected primals to only contain Tensors, got "
                f"{type(x)}"
            )
        if x._array.dtype.kind not in "fcV":
            if name:
                raise ValueError(
                    f"{name}: the inputs must be floating point or complex, got {x.dtype}"  # type: ignore[attr-defined]
                )
            raise ValueError(f"Expected primal to be floating point or complex, but got: {x.dtype}")  # type: ignore[attr-defined]


# ---------------------------------------------------------------------- ours


def hvp(func: Function, primals: Any, tangents: Any, *, has_aux: bool = False) -> Any:
    """The value's Hessian times a vector, without the Hessian: forward over reverse.

    `primals` and `tangents` are tuples, as for `jvp`; so is the result, unless there is one input.

    >>> torch.func.hvp(lambda x: (x ** 3).sum(), (tensor([1.0, 2.0]),), (tensor([1.0, 1.0]),))
    tensor([ 6., 12.])
    """
    count = len(primals) if isinstance(primals, tuple) else 1
    numbers = 0 if count == 1 else tuple(range(count))
    gradient = grad(func, numbers, has_aux)
    found = jvp(gradient, primals, tangents, has_aux=has_aux)
    return (found[1], found[2]) if has_aux else found[1]


def hessian_diag(func: Function, argnums: int = 0) -> Function:
    """The diagonal of the Hessian, in one forward pass over forward mode, all inputs at once.

    For a result with dimensions, the second derivatives of each of its elements: its shape followed
    by that of the input.

    >>> torch.func.hessian_diag(lambda x: (x ** 3).sum())(tensor([1.0, 2.0]))
    tensor([ 6., 12.])
    """

    @functools.wraps(func)
    def diagonal(*args: Any, **kwargs: Any) -> Any:
        x, along = second_along_axes(func, argnums, args, kwargs)
        return pytree.tree_map(lambda t: t.reshape((*t.shape[:-1], *x.shape)), along)

    return diagonal


def second_along_axes(
    func: Function, argnums: int, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, Any]:
    """The input, and the second derivatives along its axes: one more dimension at the end."""
    number = checked_argnums(argnums, len(args))
    if not isinstance(number, int):
        raise RuntimeError(f"argnums must be an int here, got: {type(argnums)}")
    x = args[number]
    check_inputs([x])

    def twice(direction: Any) -> Any:
        STACK.levels[-1].directions = True
        with level_of("jvp") as outer, level_of("jvp") as inner:
            moved = moving(moving(x, direction, outer), direction, inner)
            out = func(*replaced(args, number, moved), **kwargs)
            check_outputs(pytree.tree_leaves(out), "jvp(f, primals, tangents)")

            def second(t: Any) -> Any:
                first = tangent_of(t, inner)
                found = None if first is None else tangent_of(first, outer)
                if found is None:
                    return tg.zeros_like(bare(bare(t, inner), outer).detach())
                return found

            return pytree.tree_map(second, out)

    return x, vmap(twice, out_dims=-1)(*basis([x]))
