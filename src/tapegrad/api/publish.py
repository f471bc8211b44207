"""From the published blocks to what users call: functions, methods, in-place methods, `out=`."""

from __future__ import annotations

import gc
import importlib
import inspect
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes
from ..autograd.inplace import prefer_refusal, write
from ..core import promote
from ..core.base import STATE, TensorBase
from ..core.dispatch import unary
from ..core.function_modes import NOT_ASKED, WATCHED, ask_watchers, is_watched
from ..core.late_bound import AUTOCAST, DISPATCHED, GPU, INTERPRETERS, TENSOR
from ..core.op import REGISTRY
from ..core.operators import OPS
from ..core.python_dispatch import is_asked
from ..core.transforms.levels import BATCHES
from ..core.transforms.looping import looped
from ..core.warned import warn
from ..errors import (
    check_broadcast,
    explain_call,
    must_be_tensor,
    no_method,
    no_such_name,
    of_tensors,
)
from ..ops import ON_DEMAND, files_of, load
from ..ops.block.checks import common, is_number
from ..ops.block.definition import APIS, UNPUBLISHED, Api, apply_one
from ..ops.block.lazy_names import NAMES
from ..ops.block.out_argument import write_outputs
from ..ops.block.public import public
from . import removed_names

# NumPy's spellings, accepted wherever PyTorch's parameter exists.
NUMPY_NAMES = {
    "axis": "dim",
    "keepdims": "keepdim",
    "x": "input",
    "a": "input",
    "x1": "input",
    "x2": "other",
}


def tidy(api: Api, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments with NumPy's spellings replaced by PyTorch's."""
    parameters = api.parameters
    if all([name in parameters for name in kwargs]):
        return kwargs
    for name, ours in NUMPY_NAMES.items():
        if name in kwargs and ours in parameters and name not in parameters:
            kwargs[ours] = kwargs.pop(name)
    return kwargs


ANY_NUMBER = 1 << 30  # of positional arguments


def positional_limit(api: Api) -> int:
    """How many positional arguments a function takes; `run`, which may follow, is not for users."""
    code = getattr(api.call, "__wrapped__", api.call).__code__
    if code.co_flags & inspect.CO_VARARGS:
        return ANY_NUMBER
    names = code.co_varnames[: code.co_argcount]
    return names.index("run") if "run" in names else len(names)


# Flags that the ops look at themselves, or that no schema has.
NOT_FLAGS = ("keepdim", "requires_grad", "pin_memory", "return_inverse", "return_counts")
# Flags that some functions have without a default; and parameters that are whole numbers.
FLAGS = (
    *("training", "train", "has_biases", "bidirectional", "batch_first", "cudnn_enabled"),
    *("align_corners", "accumulate", "periodic", "return_complex", "onesided", "stable"),
    *("transposed", "use_input_stats", "upper"),
)
WHOLE = "diagonal offset k n bins step decimals interpolation_mode padding_mode".split()
LARGE = 1 << 63
IS_FLAG = frozenset((bool, type(None)))
IS_WHOLE = frozenset((int, str, type(None)))  # padding_mode is a word in other functions


def flags_of(api: Api) -> list[tuple[int, str, frozenset[type]]]:
    """Positions and names of the parameters that are True or False, or whole numbers, and the
    types for which nothing has to be looked up.

    Read from the code object: `inspect.signature` of all functions would slow the import down.
    """
    function = getattr(api.call, "__wrapped__", api.call)
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    first = len(names) - len(defaults)
    found = [(first + i, names[first + i]) for i, v in enumerate(defaults) if isinstance(v, bool)]
    found += [(i, name) for i, name in enumerate(names) if name in FLAGS and (i, name) not in found]
    only_named = (function.__kwdefaults__ or {}).items()
    found += [(1 << 30, name) for name, v in only_named if isinstance(v, bool) or name in FLAGS]
    flags = [(i, name, IS_FLAG) for i, name in found if name not in NOT_FLAGS]
    op = REGISTRY.get(api.spoken)
    tensors = () if op is None else op.tensors  # of some functions the `n` is one
    whole = [(i, name) for i, name in enumerate(names) if name in WHOLE and name not in tensors]
    flags += [(i, name, IS_WHOLE) for i, name in whole]
    return sorted(flags, key=lambda flag: flag[0])


def plain_arguments(most: int, flags: list[tuple[int, str, frozenset[type]]]) -> int:
    """How many positional arguments a call may have before one of them is checked: no flags yet."""
    return min(most, flags[0][0]) if flags else most


def check_flags(
    api: Api,
    flags: list[tuple[int, str, frozenset[type]]],
    args: Any,
    kwargs: dict[str, Any],
    method: bool,
    ending: str = "",
) -> None:
    """Refuse a flag that is neither True nor False, if PyTorch does: `upper="no"` would be true."""
    for position, name, types in flags:
        value = args[position] if position < len(args) else kwargs.get(name)
        if type(value) not in types or (type(value) is int and not -LARGE < value < LARGE):
            reason = wrong_kinds(api, args, kwargs, method, ending)
            if reason is not None:
                raise reason


def check_dtype(api: Api, kwargs: dict[str, Any]) -> None:
    """Refuse what is no dtype before the device is looked at, as PyTorch does."""
    value = kwargs.get("dtype")
    if value is not None and not isinstance(value, (dtypes.dtype, type)):
        kind = type(value).__name__
        raise TypeError(f"{api.spoken}(): argument 'dtype' must be torch.dtype, not {kind}")


def make_function(api: Api) -> Callable[..., Any]:
    """The function `tapegrad.<name>`; `out=` goes to outputs.py."""
    call = api.call
    most = positional_limit(api)
    functional = api.name.startswith("nn.functional.") and not api.functional_out
    own_out = "out" in api.parameters or functional
    casts = api.autocast is not None
    places = "device" in api.parameters
    likes = api.name.endswith("_like")
    asks = api.name not in NOT_ASKED
    flags = flags_of(api)
    plain = plain_arguments(most, flags)

    def function(*args: Any, **kwargs: Any) -> Any:
        if WATCHED and asks and is_watched(args, kwargs):
            return ask_watchers(function, args, kwargs)
        if kwargs:
            kwargs = tidy(api, kwargs)
            if "out" in kwargs and not own_out:
                out = kwargs.pop("out")
                if out is not None:
                    return write_outputs(api.spoken, out, call, args, kwargs, api)
        try:
            if kwargs or len(args) > plain:
                if len(args) > most:
                    raise TypeError
                check_flags(api, flags, args, kwargs, False)
            if casts and STATE.casting:
                return AUTOCAST.call(call, args, kwargs)
            if places and (STATE.modes_on or likes) and wants_to_create(args):
                return DISPATCHED.created(api, call, args, kwargs)
            if places and (STATE.elsewhere or "device" in kwargs):
                check_dtype(api, kwargs)
                return GPU.created(api, call, args, kwargs)
            return call(*args, **kwargs) if kwargs else call(*args)
        except TypeError as error:
            reason: Exception = explain(api, error, args, kwargs)
        except AttributeError as error:
            reason = no_tensor(api, error, args, kwargs)
        except Exception as error:
            if BATCHES and hasattr(error, "unbatched"):
                return looped(error, api.name, function, args, kwargs)
            refuse_kinds(api, error, args, kwargs)
            explain_call(error, api.name, api.parameters, args, kwargs)
            raise
        return answered(api, function, reason, args, kwargs)

    return named(function, api.name, api.doc, "tapegrad", call)


def make_method(api: Api) -> Callable[..., Any]:
    call = api.call
    op = getattr(call, "op", None)
    if op is not None:
        run_one = unary if op.elementwise else apply_one

        def of_one_tensor(self: Any, *args: Any) -> Any:
            if WATCHED and is_watched((self,), {}):
                return ask_watchers(of_one_tensor, (self, *args), {})
            if args:
                raise TypeError(f"TensorBase.{api.spoken}() takes no arguments ({len(args)} given)")
            try:
                return run_one(op, self)
            except RuntimeError as error:
                if BATCHES and hasattr(error, "unbatched"):
                    return looped(error, api.name, of_one_tensor, (self,), {})
                explain_call(error, api.name, api.parameters, (self,))
                raise

        return named(of_one_tensor, api.name, api.doc, "tapegrad.Tensor")

    writes = api.name.endswith("_")
    most = positional_limit(api) - 1
    casts = api.autocast is not None
    places = "device" in api.parameters and api.name.startswith("new_")
    flags = flags_of(api)
    plain = plain_arguments(most + 1, flags) - 1
    takes_numbers = api.inplace  # elementwise functions, mostly, in which a number may come first

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if WATCHED and is_watched((self, *args), kwargs):
            return ask_watchers(method, (self, *args), kwargs)
        if takes_numbers and not isinstance(self, TensorBase):
            raise no_method(api.name, self)
        if kwargs:
            kwargs = tidy(api, kwargs)
        try:
            if kwargs or len(args) > plain:
                if len(args) > most:
                    raise TypeError
                check_flags(api, flags, (self, *args), kwargs, True)
            if casts and STATE.casting:
                return AUTOCAST.call(call, (self, *args), kwargs)
            if places and wants_to_create((self,)):
                return DISPATCHED.created(api, call, (self, *args), kwargs)
            if places and STATE.elsewhere:
                return GPU.created(api, call, (self, *args), kwargs)
            return call(self, *args, **kwargs) if kwargs else call(self, *args)
        except TypeError as error:
            reason: Exception = explain(api, error, (self, *args), kwargs, True)
        except AttributeError as error:
            reason = no_tensor(api, error, (self, *args), kwargs, True)
        except Exception as error:
            if BATCHES and hasattr(error, "unbatched"):
                return looped(error, api.name, method, (self, *args), kwargs)
            refuse_kinds(api, error, (self, *args), kwargs, True)
            if writes and isinstance(error, (IndexError, RuntimeError)):
                prefer_refusal(self, error)
            explain_call(error, api.name, api.parameters, (self, *args), kwargs)
            raise
        return answered(api, method, reason, (self, *args), kwargs)

    return named(method, api.name, api.doc, "tapegrad.Tensor", call)


def wants_to_create(args: tuple[Any, ...]) -> bool:
    """Whether a mode, or the class of the tensor that is the model, makes a tensor itself."""
    if STATE.modes_on or (args and isinstance(args[0], TensorBase) and args[0]._special):
        return is_asked(*args[:1])
    return False


def answered(api: Api, function: Any, reason: Exception, args: Any, kwargs: dict[str, Any]) -> Any:
    """The call in today's form if it was in an old one; else what an argument with
    `__torch_function__` that is no tensor says; else the error."""
    from ..overrides import ask_foreign

    today = todays_form(api, args, kwargs)
    if today is not None:
        return function(*today[0], **today[1])
    found = ask_foreign(function, args, kwargs)
    if found is NotImplemented:
        explain_call(reason, api.name, api.parameters, args, kwargs)
        raise reason
    return found


def todays_form(api: Api, args: Any, kwargs: dict[str, Any]) -> Any:
    """The arguments of an old call `add(input, alpha, other)`, `addmm(beta, input, alpha, …)` in
    today's form, where such numbers are keywords; None if this is no such call."""
    known = [p for p in inspect.signature(api.call).parameters.values() if p.name != "run"]
    names = [p.name for p in known if p.kind is inspect.Parameter.KEYWORD_ONLY]
    if not names or not {"alpha", "beta", "value"}.issuperset(names):
        return None
    tensors = [a for a in args if isinstance(a, TensorBase)]
    numbers = [a for a in args if isinstance(a, (int, float, complex))]
    fits = len(tensors) == len(known) - len(names) and 0 < len(numbers) <= len(names)
    if not fits or len(tensors) + len(numbers) < len(args) or args[-1] is not tensors[-1]:
        return None
    if not OLD_FORMS_MET:
        OLD_FORMS_MET.append(api.name)
        left = iter(names)
        order = ["Tensor" if isinstance(a, TensorBase) else next(left) for a in args]
        warn(
            f"This overload of {api.spoken} is deprecated: the numbers among its arguments "
            f"({', '.join(order)}) are keywords now: {', '.join([f'{n}=' for n in names])}",
            UserWarning,
        )
    return tensors, {**kwargs, **dict(zip(names, numbers, strict=False))}


OLD_FORMS_MET: list[str] = []  # PyTorch warns of the first one in a process


def foreign(name: str, tensor: Any, other: Any) -> Any:
    """An operator whose other operand is neither tensor nor number, but may know what to do."""
    if not hasattr(type(other), "__torch_function__"):
        return NotImplemented
    from ..overrides import ask_foreign

    return ask_foreign(getattr(Places.cls, name), (tensor, other), {})


INTERPRETERS.ask_foreign = foreign


def make_inplace(api: Api) -> Callable[..., Any]:
    call = api.call
    flags = flags_of(api)
    plain = plain_arguments(ANY_NUMBER, flags) - 1
    op = getattr(call, "op", None)  # of one tensor and nothing else

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if WATCHED and is_watched((self, *args), kwargs):
            return ask_watchers(method, (self, *args), kwargs)
        if kwargs:
            kwargs = tidy(api, kwargs)
        try:
            if kwargs or len(args) > plain:
                check_flags(api, flags, (self, *args), kwargs, True, "_")
            if op is not None and not (args or kwargs):
                return write(op, (self,))
            return call(self, *args, **kwargs, run=write)
        except TypeError as error:
            reason: Exception = explain(api, error, (self, *args), kwargs, True, "_")
        except AttributeError as error:
            reason = no_tensor(api, error, (self, *args), kwargs, True, "_")
        except Exception as error:
            if BATCHES and hasattr(error, "unbatched"):
                return looped(error, f"{api.name}_", method, (self, *args), kwargs)
            refuse_kinds(api, error, (self, *args), kwargs, True, "_")
            if isinstance(error, (IndexError, RuntimeError)):
                prefer_refusal(self, error)
            explain_call(error, f"{api.name}_", api.parameters, (self, *args), kwargs)
            raise
        return answered(api, method, reason, (self, *args), kwargs)

    return named(
        method, api.name + "_", f"In-place version of `{api.name}`.\n\n{api.doc}", "tapegrad.Tensor"
    )


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
    if reason is None and ending and isinstance(error, NotImplementedError):
        reason = lower_category(args)
    if reason is not None:
        raise reason from None


def lower_category(args: Any) -> RuntimeError | None:
    """What PyTorch says of `x_(y)` where x is a tensor of ints and y a float, before all else."""
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
    """What is wrong with the arguments of a call."""
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
        return missing_arguments(api, spoken, missing)
    for p in positional[: len(args)]:
        if p.name in kwargs:
            return TypeError(f"{spoken}() got multiple values for argument '{p.name}'")
    return unexpected(api, spoken, known, args, kwargs, method)


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
    return TypeError(f"{spoken}() missing {count} required positional arguments: {listed}")


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


class Signed:
    """A function whose signature, made when it is asked for, is the one that users see."""

    __slots__ = ("__wrapped__",)

    def __init__(self, call: Callable[..., Any]) -> None:
        self.__wrapped__ = call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)

    @property
    def __signature__(self) -> inspect.Signature:
        found = inspect.signature(self.__wrapped__)
        known = [
            p.replace(annotation=p.empty)
            for p in found.parameters.values()
            if p.name != "run" and p.kind is not p.VAR_KEYWORD
        ]
        return found.replace(parameters=known, return_annotation=found.empty)


def named(
    function: Any, name: str, doc: str, module: str, wrapped: Any = None
) -> Callable[..., Any]:
    """A function with a name and a help text, and the signature of the one that it calls."""
    if wrapped is not None:  # as functools.wraps does, in a third of the time
        function.__wrapped__ = Signed(wrapped)
        function.__annotations__ = wrapped.__annotations__
    last = name.rpartition(".")[2]
    function.__name__ = last
    function.__qualname__ = last if module == "tapegrad" else f"Tensor.{last}"
    function.__doc__ = doc
    function.__module__ = "tapegrad"
    return function  # type: ignore[no-any-return]


# `x += y` and friends: the in-place method behind each operator.
AUGMENTED = {
    "__iadd__": "add_",
    "__isub__": "sub_",
    "__imul__": "mul_",
    "__itruediv__": "div_",
    "__ifloordiv__": "floor_divide_",
    "__imod__": "remainder_",
    "__ipow__": "pow_",
    "__iand__": "bitwise_and_",
    "__ior__": "bitwise_or_",
    "__ixor__": "bitwise_xor_",
    "__ilshift__": "bitwise_left_shift_",
    "__irshift__": "bitwise_right_shift_",
}


# Besides the families of ops, the modules whose functions are public.
LIBRARY = (
    "api.tensor.conversion",
    "api.tensor.sparse_questions",
    "api.tensor.small_methods",
    "ops.creation.sized",
    "ops.creation.like",
    "ops.creation.from_data",
    "ops.creation.ranges",
    "random",
    "ops.draws.tensors",
    "ops.draws.fill",
    "ops.draws.sampling",
)


class Places:
    """Where public names go. Filled by `publish`."""

    namespace: dict[str, Any]
    cls: type


# Which family has a name that is not there yet: "linalg.det", "Tensor.det", "bincount".
FAMILY_OF = {name: family for family, names in NAMES.items() for name in names.split()}
# The functions that live in a module of their own, by dotted name.
ELSEWHERE: dict[str, Callable[..., Any]] = {}


def publish(namespace: dict[str, Any], cls: type) -> None:
    """Fill the package's namespace and the Tensor class from everything that was published."""
    Places.namespace = namespace
    Places.cls = cls
    public.package = sys.modules[namespace["__name__"]]
    collects = gc.isenabled()
    gc.disable()  # thousands of objects are made, and all of them stay
    try:
        modules = load()
        modules += [importlib.import_module(f"tapegrad.{name}") for name in LIBRARY]
    finally:
        if collects:
            gc.enable()
    for module in modules:
        special_methods(module)
    for name, field in list(vars(cls).items()):
        if isinstance(field, property) and not name.startswith("__"):
            setattr(cls, name, refusing(name, field))
    hand_out()
    for name in FAMILY_OF:
        space, _, last = name.partition(".")
        if space == "Tensor":
            setattr(cls, last, loading_method(last))
    for operator, name in AUGMENTED.items():
        setattr(cls, operator, augmented(getattr(cls, name)))
    OPS.fill({name: api.call for name, api in APIS.items()})


# Methods that are called often, and look themselves whether they are called on a tensor.
OWN_CHECK = {"permute", "reshape", "view"}


def special_methods(module: Any) -> None:
    """What a method does otherwise than the function of its name, and what looks like a field."""
    for name, method in getattr(module, "METHODS", {}).items():
        refuses = method.__module__ == removed_names.__name__  # whatever it is called on
        checks = name in OWN_CHECK or refuses
        setattr(Places.cls, name, method if checks else of_tensors(method))
    for name, getter in getattr(module, "PROPERTIES", {}).items():
        field = getter if isinstance(getter, property) else property(getter)
        setattr(Places.cls, name, refusing(name, field))


def refusing(name: str, field: property) -> property:
    """A property that says as PyTorch does that it cannot be set, unless it can."""

    def refuse(self: Any, value: Any) -> None:
        raise AttributeError(f"attribute '{name}' of 'torch._C.TensorBase' objects is not writable")

    return field.setter(refuse) if field.fset is None else field


def hand_out() -> None:
    """Put what was published since the last time where users find it."""
    namespace, cls = Places.namespace, Places.cls
    while UNPUBLISHED:
        api = UNPUBLISHED.pop(0)
        name = api.name
        if "." in name:
            ELSEWHERE[name] = make_function(api)
            continue
        if api.function:
            namespace[name] = make_function(api)
            if name in REGISTRY:
                REGISTRY[name].public = namespace[name]
        if api.method and (name not in cls.__dict__ or f"Tensor.{name}" in FAMILY_OF):
            setattr(cls, name, make_method(api))
        written = f"{name}_"
        if api.inplace and (written not in cls.__dict__ or f"Tensor.{written}" in FAMILY_OF):
            setattr(cls, written, make_inplace(api))
        for each in (name, written):
            if each in api.inplace_functions:
                namespace[each] = getattr(cls, each)


def load_family(family: str) -> None:
    module = importlib.import_module(f"tapegrad.ops.{family}")
    hand_out()
    special_methods(module)


def load_everything() -> None:
    """Load the lazy families too: for tests and for tools that go through the whole table."""
    for family in files_of(ON_DEMAND):
        load_family(family)


def loading_method(name: str) -> Callable[..., Any]:
    """A method that loads the family that has it, and is replaced by that."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        load_family(FAMILY_OF[f"Tensor.{name}"])
        return getattr(TENSOR.cls, name)(self, *args, **kwargs)  # past a subclass's own

    return named(method, name, "", "tapegrad.Tensor")


def find(path: str) -> Any:
    """The public function of a dotted name, or None."""
    if path in FAMILY_OF:
        load_family(FAMILY_OF[path])
    return ELSEWHERE.get(path) if "." in path else Places.namespace.get(path)


def lazy_space(space: str, namespace: dict[str, Any]) -> tuple[Any, Any, list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a module whose functions are published by ops."""
    prefix = f"{space}."
    names = sorted(
        {n.removeprefix(prefix) for n in (*ELSEWHERE, *FAMILY_OF) if n.startswith(prefix)}
    )

    def get(name: str) -> Any:
        found = find(prefix + name)
        if found is None:
            raise no_such_name(f"torch.{space}", name, listed)
        namespace[name] = found
        return found

    def listed() -> list[str]:
        return sorted({*namespace, *names})

    return get, listed, names


def augmented(method: Callable[..., Any]) -> Callable[..., Any]:
    def operator(self: Any, other: Any) -> Any:
        if not isinstance(other, (TensorBase, int, float, complex, np.generic)):
            return NotImplemented
        return method(self, other)

    return operator
