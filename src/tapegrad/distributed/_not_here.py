"""Names of torch.distributed that can be imported and raise when used (E15)."""

from __future__ import annotations

from typing import Any

from ..errors.evidence import here
from ..errors.report import build


def refuse(name: str, instead: str) -> Exception:
    """The error of a name that is not implemented."""
    return build(
        NotImplementedError,
        f"torch.distributed.{name} is not implemented",
        "E15",
        what="tapegrad's processes are data-parallel: whole tensors, or shards made by FSDP",
        causes=[("noticed", "at", here())],
        fixes=[instead],
        name=name,
    )


def missing_class(name: str, instead: str) -> Any:
    """A class for isinstance checks and annotations; making one raises."""

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        raise refuse(name, instead)

    short = name.rpartition(".")[2]
    body = {"__init__": init, "__doc__": f"{name}: can be named, not made.", "__module__": __name__}
    return type(short, (), body)


def missing_function(name: str, instead: str) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        raise refuse(name, instead)

    call.__name__ = call.__qualname__ = name.rpartition(".")[2]
    call.__doc__ = f"{name}: not implemented."
    return call
