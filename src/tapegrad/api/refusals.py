"""Why a call of a published function failed, in PyTorch's words.

The op runs first. Most arguments are compared with PyTorch's signature only if it raises:
a call that is right pays little for the check.
"""

from __future__ import annotations

import inspect
import math
from typing import Any

from ..core import promote
from ..core.base import TensorBase
from ..core.op import REGISTRY
from ..errors import check_broadcast, must_be_tensor
from ..ops.block.checks import common, is_number
from ..ops.block.definition import APIS, Api

ANY_NUMBER = 1 << 30  # of positional arguments


def positional_limit(api: Api) -> int:
    """How many positional arguments a function takes; `run`, which may follow, is not for users."""
    code = getattr(api.call, "__wrapped__", api.call).__code__
    if code.co_flags & inspect.CO_VARARGS:
        return ANY_NUMBER
    names = code.co_varnames[: code.co_argcount]
    return names.index("run") if "run" in names else len(names)


def no_tensor(
    api: Api,
    error: AttributeError,
    args: Any,
    kwargs: dict[str, Any],
    method: bool = False,
    ending: str = "",
) -> Exception:
    """PyTorch's sentence for an argument that is no tensor; other errors as they are."""
    culprit = error.obj
    if isinstance(culprit, TensorBase):
        return wrong_kinds(api, args, kwargs, method, ending) or error
    for position, value in enumerate(args[: len(api.parameters)]):
        name = api.parameters[position]
        wanted = value is culprit or (position == 0 and name in ("input", "self"))
        if wanted and not isinstance(value, TensorBase):
            return must_be_tensor(api.spoken, name, position + 1, value)
    kind = type(culprit).__name__
    for name, value in kwargs.items():
        if value is culprit:
            return TypeError(f"{api.spoken}(): argument '{name}' must be Tensor, not {kind}")
    if error.name == "_array":
        return TypeError(
            f"{api.spoken}(): expected Tensor as element of a sequence, but got {kind}"
        )
    return wrong_kinds(api, args, kwargs, method, ending) or error


def wrong_kinds(
    api: Api, args: Any, kwargs: dict[str, Any], method: bool = False, ending: str = ""
) -> Exception | None:
    """PyTorch's error for arguments that are not of the kinds which its signature names."""
    from .._library.argument_kinds import refusal

    functional = api.name.startswith("nn.functional.")
    if functional:
        # Python functions in PyTorch, whose arguments stand in another order than the op's.
        kwargs = dict(zip(api.parameters, args, strict=False)) | kwargs
        kwargs.pop("reduction", None)  # a name there, a number in the op
        args = ()
    name = api.name.replace(".", "_").removeprefix("nn_functional_") + ending
    return refusal(name, api.spoken + ending, args, kwargs, method, functional)


# What NumPy says about an array whose size in bytes 64 bits cannot hold.
TOO_BIG = ("array is too big", "Maximum allowed dimension", "Maximum allowed size")


def refuse_kinds(
    api: Api,
    error: Exception,
    args: Any,
    kwargs: dict[str, Any],
    method: bool = False,
    ending: str = "",
) -> None:
    """Raise what PyTorch raises instead of an error that a wrong kind of argument caused.

    Errors for lack of memory are PyTorch's RuntimeErrors too. Returns where the error is right.
    """
    own = str(error).startswith(f"{api.spoken}{ending}(): ")
    if own and positional_limit(api) >= ANY_NUMBER:
        return  # the schema has a list in the place of arguments one by one
    too_big = isinstance(error, ValueError) and str(error).startswith(TOO_BIG)
    if api.python and isinstance(error, (RuntimeError, ValueError)) and not too_big:
        return  # a function in Python, which does not compare kinds first
    reason = wrong_kinds(api, args, kwargs, method, ending)
    if reason is None and isinstance(error, MemoryError):
        reason = no_memory(error)
    if reason is None and too_big:
        reason = RuntimeError(f"{api.spoken}{ending}(): Storage size calculation overflowed")
    op = REGISTRY.get(api.name)
    is_elementwise = api.inplace if op is None else op.elementwise
    shapes_first = is_elementwise and isinstance(error, NotImplementedError)
    if reason is None and (
        shapes_first or (isinstance(error, ValueError) and "be broadcast" in str(error))
    ):
        check_broadcast([v._array for v in args if isinstance(v, TensorBase)])
    if reason is None and ending and is_elementwise and isinstance(error, NotImplementedError):
        reason = lower_category(args)
    if reason is not None:
        raise reason from None


def lower_category(args: Any) -> RuntimeError | None:
    """PyTorch's error for `x_(y)` where x is a tensor of ints and y a float, raised before all
    others.
    """
    if len(args) != 2 or not isinstance(args[0], TensorBase) or not is_number(args[1]):
        return None
    own, found = args[0].dtype, common(args[0]._array, args[1])
    if promote.can_cast(found, own):
        return None
    return RuntimeError(
        f"result type {found.scalar_type} can't be cast to the desired output type "
        f"{own.scalar_type}"
    )


def no_memory(error: MemoryError) -> RuntimeError:
    """PyTorch's sentence for an array that there is no memory for."""
    shape, dtype = getattr(error, "shape", None), getattr(error, "dtype", None)
    if shape is None or dtype is None:
        return RuntimeError(f"DefaultCPUAllocator: can't allocate memory: {error}")
    size = math.prod(shape) * dtype.itemsize
    return RuntimeError(
        "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: "
        f"you tried to allocate {size} bytes. Error code 12 (Cannot allocate memory)"
    )


def is_spoken(api: Api, error: TypeError, reason: Exception) -> bool:
    """Whether a TypeError is PyTorch's sentence for the call, not Python's about a part of it."""
    text = str(error)
    if text.startswith(f"{api.spoken}(): argument"):
        # The same, but it may name the position in the method for that in the function.
        return "(position" not in text or "(position" not in str(reason)
    return "(): argument" in text or "() received an invalid" in text or "expected Tensor" in text


def explain(
    api: Api,
    error: TypeError,
    args: Any,
    kwargs: dict[str, Any],
    method: bool = False,
    ending: str = "",
) -> Exception:
    """PyTorch's sentence for arguments that do not fit the signature; other errors as they are."""
    at = error.__traceback__
    if at is None or at.tb_next is not None:
        reason = wrong_kinds(api, args, kwargs, method, ending)
        if reason is not None and (
            isinstance(reason, ValueError) or not is_spoken(api, error, reason)
        ):
            return reason
        if str(error).endswith("expected one of:"):  # the op leaves the list to us
            return several_signatures(api, api.spoken + ending, args, kwargs, method) or error
        # Raised inside the function, perhaps by an op that has another public name or none.
        head, found, rest = str(error).partition("(): argument")
        other = APIS.get(head)
        if found and head in REGISTRY and (other is None or other.call is api.call):
            return TypeError(api.spoken + found + rest)
        return error
    return misfit(api, api.spoken + ending, args, kwargs, method) or error


def misfit(
    api: Api, spoken: str, args: Any, kwargs: dict[str, Any], method: bool
) -> TypeError | None:
    """A description of the first argument that does not fit a call."""
    known = [p for p in inspect.signature(api.call).parameters.values() if p.name != "run"]
    positional = [p for p in known if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in known):
        return unexpected(api, spoken, known, args, kwargs, method)
    given = {p.name for p in positional[: len(args)]} | set(kwargs)
    missing = [
        p.name for p in known if p.default is inspect.Parameter.empty and p.name not in given
    ]
    if len(args) > len(positional):
        return too_many(spoken, positional, len(args), method)
    if missing:
        several = several_signatures(api, spoken, args, kwargs, method)
        return several or missing_arguments(api, spoken, missing)
    for p in positional[: len(args)]:
        if p.name in kwargs:
            return TypeError(f"{spoken}() got multiple values for argument '{p.name}'")
    return unexpected(api, spoken, known, args, kwargs, method)


def several_signatures(
    api: Api, spoken: str, args: Any, kwargs: dict[str, Any], method: bool
) -> TypeError | None:
    """PyTorch's error where none of a function's signatures takes the call; None: it has one."""
    from .._library.argument_kinds import no_overload

    if api.python or "." in api.name:
        return None
    return no_overload(spoken, args, kwargs, method)


def unexpected(
    api: Api, spoken: str, known: list[Any], args: Any, kwargs: dict[str, Any], method: bool
) -> TypeError | None:
    from .._library.argument_kinds import ambiguous

    for name in kwargs:
        if all(p.name != name for p in known):
            several = None if api.python else ambiguous(spoken, spoken, args, kwargs, method)
            return several or TypeError(f"{spoken}() got an unexpected keyword argument '{name}'")
    return None


# The modules whose functions are Python's in PyTorch, and complain as such.
PYTHON_SPACES = ("nn.functional.", "masked.", "signal.")


def missing_arguments(api: Api, spoken: str, names: list[str]) -> TypeError:
    count = len(names)
    if api.python or api.name.startswith(PYTHON_SPACES):
        quoted = [f"'{name}'" for name in names]
        listed = " and ".join([", ".join(quoted[:-1]), quoted[-1]] if count > 1 else quoted)
        plural = "s" if count > 1 else ""
        return TypeError(
            f"{spoken}() missing {count} required positional argument{plural}: {listed}"
        )
    listed = ", ".join(f'"{name}"' for name in names)
    plural = "s" if count == 1 else ""  # PyTorch has them the wrong way round
    return TypeError(f"{spoken}() missing {count} required positional argument{plural}: {listed}")


def too_many(spoken: str, positional: list[Any], count: int, method: bool) -> TypeError:
    least = sum(p.default is inspect.Parameter.empty for p in positional) - method
    most = len(positional) - method
    count -= method
    if method and most == 0:
        return TypeError(f"TensorBase.{spoken}() takes no arguments ({count} given)")
    range_ = f"from {least} to {most}" if least != most else str(most)
    plural = "" if least == most == 1 else "s"
    return TypeError(
        f"{spoken}() takes {range_} positional argument{plural} but {count} were given"
    )
