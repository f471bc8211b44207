"""From the published blocks to what users call: functions, methods, in-place methods, `out=`."""

from __future__ import annotations

import gc
import importlib
import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes
from ..autograd.inplace import prefer_refusal, write
from ..core.base import STATE, TensorBase
from ..core.dispatch import unary
from ..core.function_modes import NOT_ASKED, WATCHED, ask_watchers, is_watched, method_of_operator
from ..core.late_bound import AUTOCAST, DISPATCHED, GPU, INTERPRETERS, TENSOR
from ..core.op import REGISTRY
from ..core.operators import OPS
from ..core.python_dispatch import is_asked
from ..core.transforms.levels import BATCHES
from ..core.transforms.looping import looped
from ..errors import (
    explain_call,
    no_method,
    no_such_name,
    of_tensors,
)
from ..ops import ON_DEMAND, files_of, load
from ..ops.block.checks import invalid_call
from ..ops.block.definition import APIS, UNPUBLISHED, Api, apply_one
from ..ops.block.lazy_names import NAMES
from ..ops.block.out_argument import flatten, store_all, write_outputs
from ..ops.block.public import public
from . import removed_names
from .fast_path import NO_OUTPUT, with_fast_path, with_memory
from .old_forms import todays_form
from .refusals import ANY_NUMBER, explain, no_tensor, positional_limit, refuse_kinds, wrong_kinds

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
    if len(args) > 1 and api.keywords_only_with in kwargs:
        raise invalid_call(api.spoken + ending, *args[method:], **kwargs)
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
            return ask_watchers(public, args, kwargs)
        if kwargs:
            out = None if own_out else kwargs.pop("out", None)
            if kwargs:
                kwargs = tidy(api, kwargs)
            if out is not None:
                try:
                    return write_outputs(api.spoken, out, call, args, kwargs, api)
                except TypeError:
                    today = todays_form(api, args, kwargs, False)
                    if today is None:
                        raise
                return public(*today[0], **today[1], out=out)
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
        except Exception as error:
            reason = below(error)
        try:
            return failed(reason, args, kwargs)
        finally:
            del reason  # its traceback has this frame

    def failed(raised: Exception, args: Any, kwargs: dict[str, Any]) -> Any:
        try:
            raise raised
        except TypeError as error:
            reason: Exception = explain(api, error, args, kwargs)
        except AttributeError as error:
            reason = no_tensor(api, error, args, kwargs)
        except Exception as error:
            if BATCHES and hasattr(error, "unbatched"):
                return looped(error, api.name, public, args, kwargs)
            refuse_kinds(api, error, args, kwargs)
            explain_call(error, api.name, api.parameters, args, kwargs)
            raise
        finally:
            del raised
        return answered(api, public, reason, args, kwargs, False)

    def stored(out: Any, result: Any, args: tuple[Any, ...]) -> Any:
        sources = [t._array for t in flatten(args)] if api.out_apart else ()
        return store_all(api.spoken, out, result, api, sources)

    named(function, api.name, api.doc, "tapegrad", call)
    public = function
    if not likes:
        switches = ("casting",) * casts + ("modes_on", "elsewhere") * places
        output = NO_OUTPUT if own_out else (api.spoken, stored, api.out_apart, api.out_decides)
        public = with_fast_path(api, function, failed, flags, most, switches, output=output)
    return public


def make_method(api: Api) -> Callable[..., Any]:
    call = api.call
    op = getattr(call, "op", None)
    if op is not None:
        run_one = unary if op.elementwise else apply_one

        def of_one_tensor(self: Any, *args: Any) -> Any:
            if WATCHED and is_watched((self,), {}):
                return ask_watchers(public, (self, *args), {})
            if args:
                raise TypeError(f"TensorBase.{api.spoken}() takes no arguments ({len(args)} given)")
            try:
                return run_one(op, self)
            except RuntimeError as error:
                reason = below(error)
            try:
                return failed(reason, (self,), {})
            finally:
                del reason  # its traceback has this frame

        def failed(raised: Exception, args: Any, kwargs: dict[str, Any]) -> Any:
            try:
                raise raised
            except RuntimeError as error:
                if BATCHES and hasattr(error, "unbatched"):
                    return looped(error, api.name, public, args, kwargs)
                explain_call(error, api.name, api.parameters, args)
                raise
            finally:
                del raised

        named(of_one_tensor, api.name, api.doc, "tapegrad.Tensor")
        public = with_fast_path(api, of_one_tensor, failed, [], 1, (), least=1, kind=TensorBase)
        return public

    writes = api.name.endswith("_")
    most = positional_limit(api) - 1
    casts = api.autocast is not None
    places = "device" in api.parameters and api.name.startswith("new_")
    flags = flags_of(api)
    plain = plain_arguments(most + 1, flags) - 1
    takes_numbers = api.inplace  # elementwise functions, mostly, in which a number may come first

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if WATCHED and is_watched((self, *args), kwargs):
            return ask_watchers(public, (self, *args), kwargs)
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
        except Exception as error:
            reason = below(error)
        try:
            return failed(reason, (self, *args), kwargs)
        finally:
            del reason  # its traceback has this frame

    def failed(raised: Exception, args: Any, kwargs: dict[str, Any]) -> Any:
        try:
            raise raised
        except TypeError as error:
            reason: Exception = explain(api, error, args, kwargs, True)
        except AttributeError as error:
            reason = no_tensor(api, error, args, kwargs, True)
        except Exception as error:
            if BATCHES and hasattr(error, "unbatched"):
                return looped(error, api.name, public, args, kwargs)
            refuse_kinds(api, error, args, kwargs, True)
            if writes and isinstance(error, (IndexError, RuntimeError)):
                prefer_refusal(args[0], error)
            explain_call(error, api.name, api.parameters, args, kwargs)
            raise
        finally:
            del raised
        return answered(api, public, reason, args, kwargs, True)

    named(method, api.name, api.doc, "tapegrad.Tensor", call)
    public = method
    if not places:
        public = with_fast_path(
            api, method, failed, flags, most + 1, ("casting",) * casts, least=1, kind=TensorBase
        )
    return public


def wants_to_create(args: tuple[Any, ...]) -> bool:
    """Whether a mode, or the class of the tensor that is the model, makes a tensor itself."""
    if STATE.modes_on or (args and isinstance(args[0], TensorBase) and args[0]._special):
        return is_asked(*args[:1])
    return False


def answered(
    api: Api, function: Any, reason: Exception, args: Any, kwargs: dict[str, Any], method: bool
) -> Any:
    """The call in today's form if it was in an old one; else what an argument with
    `__torch_function__` that is no tensor says; else the error."""
    from ..overrides import ask_foreign

    today = todays_form(api, args, kwargs, method, function)
    if today is not None:
        return function(*today[0], **today[1])
    if method and api.spread_ints and len(args) > 2 and not kwargs:
        if all([type(a) is int for a in args[1:]]):
            return function(args[0], args[1:])
    found = ask_foreign(function, args, kwargs)
    if found is NotImplemented:
        explain_call(reason, api.name, api.parameters, args, kwargs)
        raise reason
    return found


def foreign(operator: str | Callable[..., Any], tensor: Any, other: Any) -> Any:
    """An operator whose other operand is neither tensor nor number, but may know what to do."""
    if not hasattr(type(other), "__torch_function__"):
        return NotImplemented
    from ..overrides import ask_foreign

    method = method_of_operator(operator) if isinstance(operator, str) else operator
    return ask_foreign(method, (tensor, other), {})


INTERPRETERS.ask_foreign = foreign


def make_inplace(api: Api) -> Callable[..., Any]:
    call = api.call
    flags = flags_of(api)
    plain = plain_arguments(ANY_NUMBER, flags) - 1
    op = getattr(call, "op", None)  # of one tensor and nothing else

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if WATCHED and is_watched((self, *args), kwargs):
            return ask_watchers(public, (self, *args), kwargs)
        if kwargs:
            kwargs = tidy(api, kwargs)
        try:
            if kwargs or len(args) > plain:
                check_flags(api, flags, (self, *args), kwargs, True, "_")
            if op is not None and not (args or kwargs):
                return write(op, (self,))
            return call(self, *args, **kwargs, run=write)
        except Exception as error:
            reason = below(error)
        try:
            return failed(reason, (self, *args), kwargs)
        finally:
            del reason  # its traceback has this frame

    def failed(raised: Exception, args: Any, kwargs: dict[str, Any]) -> Any:
        try:
            raise raised
        except TypeError as error:
            reason: Exception = explain(api, error, args, kwargs, True, "_")
        except AttributeError as error:
            reason = no_tensor(api, error, args, kwargs, True, "_")
        except Exception as error:
            if BATCHES and hasattr(error, "unbatched"):
                return looped(error, f"{api.name}_", public, args, kwargs)
            refuse_kinds(api, error, args, kwargs, True, "_")
            if isinstance(error, (IndexError, RuntimeError)):
                prefer_refusal(args[0], error)
            explain_call(error, f"{api.name}_", api.parameters, args, kwargs)
            raise
        finally:
            del raised
        return answered(api, public, reason, args, kwargs, True)

    named(
        method, api.name + "_", f"In-place version of `{api.name}`.\n\n{api.doc}", "tapegrad.Tensor"
    )
    most = positional_limit(api)
    public = with_fast_path(
        api, method, failed, flags, most, (), least=1, kind=TensorBase, writes=True
    )
    return public


def below(error: Exception) -> Exception:
    """An error without the frame that caught it: it is raised again by `failed`."""
    assert error.__traceback__ is not None
    return error.with_traceback(error.__traceback__.tb_next)


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
    cls.__getitem__ = with_memory(cls.__getitem__)
    OPS.fill({name: api.call for name, api in APIS.items()})


# Methods that are called often, and look themselves whether they are called on a tensor.
OWN_CHECK = "permute reshape view".split()


def special_methods(module: Any) -> None:
    """Publish methods that differ from the function of their name, and properties."""
    for name, method in getattr(module, "METHODS", {}).items():
        refuses = method.__module__ == removed_names.__name__  # whatever it is called on
        checks = name in OWN_CHECK or refuses
        if name in OWN_CHECK:
            method = with_memory(method)
        setattr(Places.cls, name, method if checks else of_tensors(method))
    for name, getter in getattr(module, "PROPERTIES", {}).items():
        field = getter if isinstance(getter, property) else property(getter)
        setattr(Places.cls, name, refusing(name, field))


def refusing(name: str, field: property) -> property:
    """A property that says as PyTorch does that it cannot be set, unless it can."""

    def refuse(self: Any, value: Any) -> None:
        raise AttributeError(f"attribute '{name}' of 'torch._C.TensorBase' objects is not writable")

    def refuse_deletion(self: Any) -> None:
        if name == "requires_grad":
            raise RuntimeError("requires_grad must be a bool")
        refuse(self, None)

    field = field.setter(refuse) if field.fset is None else field
    return field.deleter(refuse_deletion) if field.fdel is None else field


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
            return foreign(method, self, other)
        return method(self, other)

    return operator
