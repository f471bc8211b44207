"""`loop_over`: functions without a batching rule that run entry by entry inside vmap, if asked.

A refusal of batched.py that leaves a public function comes here (`looped`). It leaves for the
user with its line and the ways out (E15), unless `loop_over` named the function: then it runs once
for every entry of the batch, and the results are stacked. Nothing here runs unless something was
refused.
"""

from __future__ import annotations

import warnings
from typing import Any

from ...errors.evidence import here
from ..base import TensorBase
from ..per_thread import PerThread
from ..rule_functions import RECORDED
from .batched import batched, innermost, is_batched, physical_at
from .levels import Level

# What comes near a function that depends on its data too much for a batch.
NEAREST = {
    "argwhere": "torch.nonzero_static(input, size=n), which has room for n places",
    "bincount": "torch.nn.functional.one_hot(input, n).sum(0), with a number n of bins",
    "histc": "(torch.bucketize(input, edges).unsqueeze(-1) == torch.arange(n)).sum(0)",
    "histogram": "(torch.bucketize(input, edges).unsqueeze(-1) == torch.arange(n)).sum(0)",
    "index": "torch.where(mask, x, 0), which keeps the shape",
    "index_put": "x = torch.where(mask, value, x)",
    "masked_select": "torch.where(mask, input, 0), which keeps the shape",
    "nonzero": "torch.nonzero_static(input, size=n), which has room for n places",
    "where": "torch.nonzero_static(condition, size=n), which has room for n places",
}
# These give no tensors: there is nothing to stack.
PLAIN = frozenset(
    "__bool__ __complex__ __float__ __index__ __int__ allclose equal is_nonzero is_set_to item "
    "numpy tolist".split()
)
# What users wrote where they called no function by its name.
SPOKEN = {
    "index": "x[mask]",
    "index_put": "x[mask] = v",
    "__bool__": "bool(x)",
    "__index__": "a tensor as an index",
}


class Asked(PerThread):
    """The names that the open `loop_over` blocks of a thread gave."""

    def __init__(self) -> None:
        self.names: list[str] = []


ASKED = Asked()
WARNED: set[tuple[str, str, int]] = set()


def looped(
    error: Exception, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The results of `function` entry by entry, stacked; or the error of vmap, explained."""
    if name not in ASKED.names:
        raise explained(error, name)
    from ...utils import _pytree as pytree

    flat, spec = pytree.tree_flatten((args, kwargs))
    level = innermost([t for t in flat if isinstance(t, TensorBase)])
    if not level.size:
        raise explained(error, name)
    warn(name, level.size)
    rows: list[list[Any]] = []
    for k in range(level.size):
        entry_args, entry_kwargs = pytree.tree_unflatten([at(t, k, level) for t in flat], spec)
        out = function(*entry_args, **entry_kwargs)
        if name.endswith("_") or name == "index_put":
            continue  # what was written is there
        row, out_spec = pytree.tree_flatten(out)
        rows.append(row)
    if not rows:
        return args[0]
    stacked = [stack(name, column, level) for column in zip(*rows, strict=True)]
    return pytree.tree_unflatten(stacked, out_spec)


def at(t: Any, k: int, level: Level) -> Any:
    """The k-th entry of a batched tensor; all else is the same for every entry."""
    if not is_batched(t):
        return t
    physical, in_front = physical_at(t, level)
    return RECORDED.select(physical, 0, k) if in_front else t


def stack(name: str, column: Any, level: Level) -> Any:
    for k, t in enumerate(column):
        if not isinstance(t, TensorBase):
            raise RuntimeError(f"loop_over: {name}() gives a {type(t).__name__}, not a tensor")
        if t._array.shape != column[0]._array.shape:
            sizes = [list(column[i]._array.shape) for i in (0, k)]
            raise explained(
                RuntimeError(
                    f"stack expects each tensor to be equal size, but got {sizes[0]} at entry 0 "
                    f"and {sizes[1]} at entry {k}"
                ),
                name,
                f"{spoken(name)} gave the entries of the batch results of different shapes",
            ) from None
    return batched(RECORDED.stack(list(column), 0), level)


def spoken(name: str) -> str:
    return SPOKEN.get(name, f"{name}()")


def explained(error: Exception, name: str, what: str = "") -> Exception:
    """E15: the refusal with the user's line and the ways out."""
    from ...errors.report import attach

    if hasattr(error, "diagnosis"):
        return error
    asked = name in ASKED.names
    fixes = [f"instead: {NEAREST[name]}"] if name in NEAREST else []
    if name in ("__bool__", "is_nonzero"):
        fixes.append("torch.where(condition, a, b) in the place of `if`")
    elif name in PLAIN:
        fixes.append("compute with tensors: a number belongs to one entry, vmap has all at once")
    elif not asked:
        fixes.append(f'entry by entry: with torch.func.loop_over("{name}"): ...')
    attach(
        error,
        "E15",
        what=what or f"{spoken(name)} cannot be computed for all entries of a batch at once",
        causes=[("noticed", "at", here())],
        fixes=fixes or ["results of one shape for every entry"],
        op=name,
        nearest=NEAREST.get(name),
    )
    return error


def warn(name: str, size: int) -> None:
    """Once for every function and line of the user's."""
    where = here() or {"file": "<unknown>", "line": 0, "text": ""}
    key = (name, where["file"], where["line"])
    if key in WARNED:
        return
    WARNED.add(key)
    line = f"{where['file']}:{where['line']}"
    warnings.warn_explicit(
        f"There is a performance drop because {spoken(name)} has no batching rule: vmap runs it "
        f"entry by entry, here {size} times, as loop_over asked for. {line}: {where['text']}",
        UserWarning,
        where["file"],
        where["line"],
    )
