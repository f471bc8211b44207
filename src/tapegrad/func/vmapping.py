"""vmap: a function of one example becomes a function of a batch of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import tapegrad as tg

from ..core.base import TensorBase
from ..core.transforms.batched import batch_of, batched, is_batched, physical_at
from ..core.transforms.levels import Level
from ..core.transforms.opening import level_of
from ..utils import _pytree as pytree

Function = Callable[..., Any]


def vmap(
    func: Function,
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Function:
    """`func` mapped over a dimension of its arguments, all entries at once.

    >>> rows = tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> torch.func.vmap(torch.dot)(rows, rows)
    tensor([ 5., 25.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            "Only allowed values for randomness are 'error', 'different', or 'same'. "
            f"Got {randomness}"
        )
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        name = name_of(func)
        size, dims, flat, spec = mapped_arguments(name, in_dims, args)

        def run(count: int, some: list[Any]) -> Any:
            return one_batch(name, func, count, dims, some, spec, out_dims, randomness, kwargs)

        if chunk_size is None or chunk_size >= size:
            return run(size, flat)
        return in_chunks(run, name, size, chunk_size, dims, flat, out_dims, randomness)

    return mapped


def name_of(func: Function) -> str:
    return getattr(func, "__name__", None) or repr(func)


# ---------------------------------------------------------------------- arguments


def mapped_arguments(
    name: str, in_dims: Any, args: tuple[Any, ...]
) -> tuple[int, list[Any], list[Any], Any]:
    """The size of the batch, and per leaf of the arguments its dimension (or None) and value."""
    head = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): "
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"{head}expected `in_dims` to be int or a (potentially nested) tuple matching the "
            f"structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are "
            "trying to vmap over a function with no inputs. The latter is unsupported."
        )
    flat, spec = pytree.tree_flatten(args)
    dims = pytree._broadcast_to_and_flatten(in_dims, spec)
    if dims is None:
        raise ValueError(
            f"{head}in_dims is not compatible with the structure of `inputs`. in_dims has "
            f"structure {pytree.tree_flatten(in_dims)[1]} but inputs has structure {spec}."
        )
    dims = [checked_dim(head, value, dim) for value, dim in zip(flat, dims, strict=True)]
    sizes = [x.shape[d] for x, d in zip(flat, dims, strict=True) if d is not None]
    if not sizes:
        raise ValueError(
            f"{head}expected at least one input to be mapped over: got None for every in_dim."
        )
    if any([size != sizes[0] for size in sizes]):
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return sizes[0], dims, flat, spec


def checked_dim(head: str, value: Any, dim: Any) -> int | None:
    """A dimension of an argument counted from the front; None where it is not mapped."""
    if dim is None:
        return None
    if not isinstance(dim, int):
        raise ValueError(
            f"{head}Got in_dim={dim} for an input but in_dim must be either an integer dimension "
            "or None."
        )
    if not isinstance(value, TensorBase):
        raise ValueError(
            f"{head}Got in_dim={dim} for an input but the input is of type {type(value)}. We "
            "cannot vmap over non-Tensor arguments, please use None as the respective in_dim"
        )
    ndim = value._array.ndim
    if not -ndim <= dim < ndim:
        raise ValueError(
            f"{head}Got in_dim={dim} for some input, but that input is a Tensor of dimensionality "
            f"{ndim} so expected in_dim to satisfy -{ndim} <= in_dim < {ndim}."
        )
    return dim % ndim


def one_batch(
    name: str,
    func: Function,
    size: int,
    dims: list[Any],
    flat: list[Any],
    spec: Any,
    out_dims: Any,
    randomness: str,
    kwargs: dict[str, Any],
) -> Any:
    with level_of("vmap", size, randomness) as level:
        inside = [enter(x, dim, level) for x, dim in zip(flat, dims, strict=True)]
        out = func(*pytree.tree_unflatten(inside, spec), **kwargs)
        return outside(name, out, out_dims, level)


def enter(x: Any, dim: int | None, level: Level) -> Any:
    if dim is None:
        return x
    return batched(x if dim == 0 else x.movedim(dim, 0), level)


# ---------------------------------------------------------------------- results


def outside(name: str, out: Any, out_dims: Any, level: Level) -> Any:
    """The results of the function with the batch as a dimension that everybody sees."""
    flat, spec = pytree.tree_flatten(out)
    dims = result_dims(name, out, spec, out_dims)
    return pytree.tree_unflatten(
        [leave(name, x, dim, level) for x, dim in zip(flat, dims, strict=True)], spec
    )


def result_dims(name: str, out: Any, spec: Any, out_dims: Any) -> list[Any]:
    if isinstance(out, TensorBase) and not isinstance(out_dims, (int, tuple, list, dict)):
        if out_dims is None:
            return [None]
        raise bad_out_dims(name, out_dims)
    if isinstance(out, TensorBase) and isinstance(out_dims, int):
        return [out_dims]
    if isinstance(out, TensorBase) and isinstance(out_dims, tuple) and len(out_dims) == 1:
        found: Any = list(out_dims)
    else:
        found = pytree._broadcast_to_and_flatten(out_dims, spec)
    if found is None:
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with "
            "the structure of `outputs`. out_dims has structure "
            f"{pytree.tree_flatten(out_dims)[1]} but outputs has structure {spec}."
        )
    if not all([dim is None or isinstance(dim, int) for dim in found]):
        raise bad_out_dims(name, out_dims)
    return list(found)


def bad_out_dims(name: str, out_dims: Any) -> Exception:
    return ValueError(
        f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python "
        "collection of ints representing where in the outputs the vmapped dimension should appear."
    )


def leave(name: str, x: Any, dim: int | None, level: Level) -> Any:
    if dim is None:
        if is_batched(x) and batch_of(x).level is level:
            raise ValueError(
                f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None"
            )
        return x
    if not isinstance(x, TensorBase):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(x)}. Did you "
            "mean to set out_dims= to None for output?"
        )
    physical, in_front = physical_at(x, level)
    if not in_front:
        physical = physical.unsqueeze(0).expand(level.size, *physical.shape)  # type: ignore[attr-defined]
    return physical if dim == 0 else physical.movedim(0, dim)


# ---------------------------------------------------------------------- in chunks


def in_chunks(
    run: Callable[[int, list[Any]], Any],
    name: str,
    size: int,
    chunk_size: int,
    dims: list[Any],
    flat: list[Any],
    out_dims: Any,
    randomness: str,
) -> Any:
    """`chunk_size` entries at a time, the results joined: less memory for some time."""
    if randomness == "same":
        state = tg.get_rng_state()
    parts = []
    for start, stop in bounds(size, chunk_size):
        if randomness == "same":
            tg.set_rng_state(state)
        some = [
            x if dim is None else x.narrow(dim, start, stop - start)
            for x, dim in zip(flat, dims, strict=True)
        ]
        parts.append(run(stop - start, some))
    columns = [pytree.tree_flatten(part)[0] for part in parts]
    out_spec = pytree.tree_flatten(parts[0])[1]
    where = result_dims(name, parts[0], out_spec, out_dims)
    joined = [
        pieces[0] if dim is None else tg.cat(pieces, dim)
        for pieces, dim in zip(zip(*columns, strict=True), where, strict=True)
    ]
    return pytree.tree_unflatten(joined, out_spec)


def bounds(size: int, step: int) -> Iterator[tuple[int, int]]:
    for start in range(0, size, step):
        yield start, min(start + step, size)


def debug_unwrap(tensor: Any, *, recurse: bool = True) -> Any:
    """The values of a batched tensor, to look at while debugging; other tensors as they are.

    >>> torch.func.vmap(lambda x: print(torch.func.debug_unwrap(x)) or x)(tensor([1.0, 2.0]))
    tensor([1., 2.])
    tensor([1., 2.])
    """
    if not isinstance(tensor, TensorBase):
        raise TypeError(f"debug_unwrap(): argument 'tensor' must be Tensor, not {type(tensor)}")
    while is_batched(tensor):
        tensor = batch_of(tensor).physical
        if not recurse:
            break
    return tensor
