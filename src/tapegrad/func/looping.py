"""`torch.func.loop_over`: which functions vmap may run entry by entry."""

from __future__ import annotations

from typing import Any

from ..api.publish import FAMILY_OF
from ..core.transforms.looping import ASKED, PLAIN, SPOKEN
from ..ops.block.definition import APIS


class loop_over:
    """Inside, vmap runs the named functions entry by entry where they have no batching rule.

    Names are those of torch, such as "unique" or "nn.functional.one_hot"; "index" and "index_put"
    mean `x[mask]` and `x[mask] = v`. The results of all entries must have one shape. Every
    line that needs a loop warns once.

    >>> import warnings
    >>> rows = tensor([[3, 1, 1], [2, 2, 5]])
    >>> with torch.func.loop_over("unique"), warnings.catch_warnings(action="ignore"):
    ...     torch.func.vmap(torch.unique)(rows)
    tensor([[1, 3],
            [2, 5]])
    """

    def __init__(self, *names: str) -> None:
        self.names = [checked_name(name) for name in names]

    def __enter__(self) -> loop_over:
        ASKED.names += self.names
        return self

    def __exit__(self, *error: object) -> None:
        for name in self.names:
            ASKED.names.remove(name)


def checked_name(name: Any) -> str:
    """The name of a function as its wrapper knows it."""
    if not isinstance(name, str):
        raise TypeError(f"loop_over(): names must be str, not {type(name).__name__}")
    short = name.removeprefix("torch.").removeprefix("Tensor.")
    known = {*APIS, *FAMILY_OF, *SPOKEN}
    found = {short, f"Tensor.{short}", short.removesuffix("_")} & known
    if not found:
        import difflib

        near = difflib.get_close_matches(short, [n.removeprefix("Tensor.") for n in known], 1)
        hint = f". Did you mean '{near[0]}'?" if near else ""
        raise ValueError(f"loop_over(): there is no function '{name}'{hint}")
    if short in PLAIN:
        raise ValueError(f"loop_over(): '{name}' gives no tensor that could be stacked")
    return short
