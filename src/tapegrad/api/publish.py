"""From the published blocks to what users call: functions, methods, in-place methods, `out=`."""

from __future__ import annotations

import gc
import importlib
import inspect
import sys
from collections.abc import Callable
from typing import Any

from ..autograd.inplace import prefer_refusal, write
from ..core.base import STATE, TensorBase
from ..core.dispatch import unary
from ..core.function_modes import NOT_ASKED, WATCHED, ask_watchers, is_watched
from ..core.late_bound import AUTOCAST, DISPATCHED, GPU, INTERPRETERS, TENSOR
from ..core.op import REGISTRY
from ..core.operators import OPS
from ..core.python_dispatch import is_asked
from ..core.transforms.levels import BATCHES
from ..core.transforms.looping import looped
from ..errors import explain_call, must_be_tensor, no_such_name
from ..ops import ON_DEMAND, files_of, load
from ..ops.block.definition import APIS, UNPUBLISHED, Api, apply_one
from ..ops.block.lazy_names import NAMES
from ..ops.block.out_argument import write_outputs
from ..ops.block.public import public

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
    for name, ours in NUMPY_NAMES.items():
        if name in kwargs and ours in parameters and name not in parameters:
            kwargs[ours] = kwargs.pop(name)
    return kwargs


def positional_limit(api: Api) -> int:
    """How many positional arguments a function takes; `run`, which may follow, is not for users."""
    code = getattr(api.call, "__wrapped__", api.call).__code__
    if code.co_flags & inspect.CO_VARARGS:
        return 1 << 30
    names = code.co_varnames[: code.co_argcount]
    return names.index("run") if "run" in names else len(names)


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
            if len(args) > most:
                raise TypeError
            if casts and STATE.casting:
                return AUTOCAST.call(call, args, kwargs)
            if places and (STATE.modes_on or likes) and wants_to_create(args):
                return DISPATCHED.created(api, call, args, kwargs)
            if places and (STATE.elsewhere or "device" in kwargs):
                return GPU.created(api, call, args, kwargs)
            return call(*args, **kwargs)
        except TypeError as error:
            reason: Exception = explain(api, error, args, kwargs)
        except AttributeError as error:
            reason = no_tensor(api, error, args, kwargs)
        except (IndexError, RuntimeError, ValueError) as error:
            if BATCHES and hasattr(error, "unbatched"):
                return looped(error, api.name, function, args, kwargs)
            explain_call(error, api.name, api.parameters, args, kwargs)
            raise
        return answered(function, reason, args, kwargs)

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

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if WATCHED and is_watched((self, *args), kwargs):
            return ask_watchers(method, (self, *args), kwargs)
        if kwargs:
            kwargs = tidy(api, kwargs)
        try:
            if len(args) > most:
                raise TypeError
            if casts and STATE.casting:
                return AUTOCAST.call(call, (self, *args), kwargs)
            if places and wants_to_create((self,)):
                return DISPATCHED.created(api, call, (self, *args), kwargs)
            if places and STATE.elsewhere:
                return GPU.created(api, call, (self, *args), kwargs)
            return call(self, *args, **kwargs)
        except TypeError as error:
            reason: Exception = explain(api, error, (self, *args), kwargs, True)
        except AttributeError as error:
            reason = no_tensor(api, error, (self, *args), kwargs)
        except (IndexError, RuntimeError, ValueError) as error:
            if BATCHES and hasattr(error, "unbatched"):
                return looped(error, api.name, method, (self, *args), kwargs)
            if writes and not isinstance(error, ValueError):
                prefer_refusal(self, error)
            explain_call(error, api.name, api.parameters, (self, *args), kwargs)
            raise
        return answered(method, reason, (self, *args), kwargs)

    return named(method, api.name, api.doc, "tapegrad.Tensor", call)


def wants_to_create(args: tuple[Any, ...]) -> bool:
    """Whether a mode, or the class of the tensor that is the model, makes a tensor itself."""
    if STATE.modes_on or (args and isinstance(args[0], TensorBase) and args[0]._special):
        return is_asked(*args[:1])
    return False


def answered(function: Any, reason: Exception, args: Any, kwargs: dict[str, Any]) -> Any:
    """What an argument with `__torch_function__` that is no tensor says, else the error."""
    from ..overrides import ask_foreign

    found = ask_foreign(function, args, kwargs)
    if found is NotImplemented:
        raise reason
    return found


def foreign(name: str, tensor: Any, other: Any) -> Any:
    """An operator whose other operand is neither tensor nor number, but may know what to do."""
    if not hasattr(type(other), "__torch_function__"):
        return NotImplemented
    from ..overrides import ask_foreign

    return ask_foreign(getattr(Places.cls, name), (tensor, other), {})


INTERPRETERS.ask_foreign = foreign


def make_inplace(api: Api) -> Callable[..., Any]:
    call = api.call

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if WATCHED and is_watched((self, *args), kwargs):
            return ask_watchers(method, (self, *args), kwargs)
        if kwargs:
            kwargs = tidy(api, kwargs)
        try:
            return call(self, *args, **kwargs, run=write)
        except TypeError as error:
            raise explain(api, error, (self, *args), kwargs, True, "_") from None
        except AttributeError as error:
            raise no_tensor(api, error, (self, *args), kwargs) from None
        except (IndexError, RuntimeError) as error:
            if BATCHES and hasattr(error, "unbatched"):
                return looped(error, f"{api.name}_", method, (self, *args), kwargs)
            prefer_refusal(self, error)
            explain_call(error, f"{api.name}_", api.parameters, (self, *args), kwargs)
            raise

    return named(
        method, api.name + "_", f"In-place version of `{api.name}`.\n\n{api.doc}", "tapegrad.Tensor"
    )


def no_tensor(
    api: Api, error: AttributeError, args: Any, kwargs: dict[str, Any]
) -> TypeError | AttributeError:
    """PyTorch's sentence for an argument that is no tensor; other errors as they are."""
    culprit = error.obj
    if isinstance(culprit, TensorBase):
        return error
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
    return error


def explain(
    api: Api,
    error: TypeError,
    args: Any,
    kwargs: dict[str, Any],
    method: bool = False,
    ending: str = "",
) -> TypeError:
    """PyTorch's sentence for arguments that do not fit the signature; other errors as they are."""
    at = error.__traceback__
    if at is None or at.tb_next is not None:
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
        return unexpected(spoken, known, kwargs)
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
    return unexpected(spoken, known, kwargs)


def unexpected(spoken: str, known: list[Any], kwargs: dict[str, Any]) -> TypeError | None:
    for name in kwargs:
        if all(p.name != name for p in known):
            return TypeError(f"{spoken}() got an unexpected keyword argument '{name}'")
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


def named(
    function: Any, name: str, doc: str, module: str, wrapped: Any = None
) -> Callable[..., Any]:
    """A function with a name and a help text, and the signature of the one that it calls."""
    if wrapped is not None:  # as functools.wraps does, in a third of the time
        function.__wrapped__ = wrapped
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


def special_methods(module: Any) -> None:
    """What a method does otherwise than the function of its name, and what looks like a field."""
    for name, method in getattr(module, "METHODS", {}).items():
        setattr(Places.cls, name, method)
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
        if not isinstance(other, (TensorBase, int, float, complex)) and not hasattr(other, "dtype"):
            return NotImplemented
        return method(self, other)

    return operator
