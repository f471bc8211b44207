"""The fast path of public functions: calls in which there is nothing to check, in C."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import dtypes
from ..autograd.inplace import write
from ..core.base import STATE, Node, TensorBase
from ..core.dispatch import binary, unary
from ..core.function_modes import WATCHED
from ..core.late_bound import HOST_KERNELS
from ..core.op import Op
from ..core.thread_modes import MODES, Unrepeated
from ..core.transforms.levels import BATCHES, TANGENTS
from ..kernels.cpu import KERNELS
from ..ops.block.definition import Api, apply_one

LOOK_FLAG, LOOK_WHOLE = 1, 2  # what c/runtime/public_call.c looks at in an argument
MOST_FORWARDED = 9  # positional arguments that it takes
NO_OUTPUT: tuple[Any, ...] = (None, None, False, False)


def fields_of(cls: Any) -> tuple[str, ...]:
    """The names of the fields of a class, which may be compiled."""
    compiled = getattr(cls, "__mypyc_attrs__", None)
    names = compiled or [
        name for each in cls.__mro__ for name in vars(each).get("__annotations__", ())
    ]
    return tuple([name for name in names if not name.startswith("__")])


NOTED_WRITE: Any = None
if KERNELS is not None:
    FIELDS = fields_of(TensorBase), fields_of(Node)
    LEVELS = BATCHES, TANGENTS
    KERNELS.know_calls(STATE, TensorBase, dtypes, Unrepeated, Op, MODES, *FIELDS, LEVELS)
    NOTED_WRITE = KERNELS.Noted(write)


def with_fast_path(
    api: Api,
    general: Any,
    failed: Callable[..., Any],
    flags: list[tuple[int, str, frozenset[type]]],
    most: int,
    switches: tuple[str, ...],
    least: int = 0,
    kind: type | None = None,
    writes: bool = False,
    output: tuple[Any, ...] = NO_OUTPUT,
) -> Any:
    """A public function with a fast path in C in front of its Python function, `general`.

    It takes calls in which `general` has nothing to do but to call `api.call`, or the op's
    function in dispatch. `failed(error, args, kwargs)` is what `general` does about errors;
    `switches` are fields of STATE that have to be false. `output`: the name under which writes into
    `out=` are counted, what stores a result of another shape or dtype, whether `out` may be no
    argument, whether its dtype is that of the result. Without the kernels in C: `general`.
    """
    if HOST_KERNELS.public_function is None:
        return general
    call, first, alone = api.call, None, getattr(api.call, "op", None)
    two = getattr(api.call, "op_of_two", None)
    looks = {name: LOOK_FLAG if bool in types else LOOK_WHOLE for _, name, types in flags}
    places = {i: looks[name] for i, name, _ in flags}
    names = {
        name: looks.get(name, 0)
        for name in api.parameters
        if name not in ("run", "out", "device", api.keywords_only_with)
    }
    if alone is not None:
        first = alone
        call = write if writes else unary if alone.elementwise else apply_one
        least, most, kind, names = 1, 1, TensorBase, {}
    elif two is not None and not writes:
        call, first = binary, two
        least, most, names = 2, 2, {}
    return HOST_KERNELS.public_function(
        general=general,
        failed=failed,
        call=call,
        first=first,
        run=write if writes and alone is None else None,
        watched=WATCHED,
        state=STATE,
        switches=switches,
        kind=kind,
        names=names,
        positions=bytes([places.get(i, 0) for i in range(min(most, MOST_FORWARDED))]),
        in_tuple=writes and alone is not None,
        least=least,
        remembers=not api.name.endswith("_"),
        noted_run=NOTED_WRITE if writes and alone is None else None,
        output=output,
    )


def with_memory(method: Any) -> Any:
    """A method that has no record of its own (`view(2, 3)`), with its calls remembered in C."""
    if HOST_KERNELS.public_function is None:
        return method

    def failed(error: Exception, args: Any, kwargs: Any) -> Any:
        raise error

    return HOST_KERNELS.public_function(
        general=method,
        failed=failed,
        call=method,
        first=None,
        run=None,
        watched=WATCHED,
        state=STATE,
        switches=(),
        kind=TensorBase,
        names={},
        positions=bytes(MOST_FORWARDED),
        in_tuple=False,
        least=1,
        remembers=True,
        noted_run=None,
        output=NO_OUTPUT,
    )
