"""`__torch_function__`: objects that answer torch functions themselves.

Subclasses of Tensor are asked in core/subclass.py. Objects that are no tensors are asked when a
function finds them among its arguments, which costs nothing as long as there are none.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tapegrad as tg

from .core.base import TensorBase
from .core.function_modes import NOT_ASKED, WATCHING, WatchingMode, watching_set_to
from .core.modes import MODES
from .core.python_dispatch import below_autograd
from .core.subclass import takes_part

__all__ = [
    "BaseTorchFunctionMode",
    "TorchFunctionMode",
    "enable_reentrant_dispatch",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]


# What PyTorch asks no argument about, besides NOT_ASKED: there is none that could answer.
IGNORED = """
    arange are_deterministic_algorithms_enabled as_strided autocast_decrement_nesting
    autocast_increment_nesting bartlett_window blackman_window broadcast_shapes can_cast
    clear_autocast_cache cond device dtype empty empty_permuted empty_strided eye fill fork
    from_file full get_autocast_cpu_dtype get_autocast_dtype get_autocast_gpu_dtype
    get_default_device get_deterministic_debug_mode get_device_module get_float32_matmul_precision
    get_num_interop_threads hamming_window hann_window inference_mode init_num_threads
    is_anomaly_check_nan_enabled is_anomaly_enabled is_autocast_cache_enabled
    is_autocast_cpu_enabled is_autocast_enabled is_deterministic_algorithms_warn_only_enabled
    is_inference_mode_enabled is_vulkan_available is_warn_always_enabled kaiser_window layout
    linspace logspace memory_format normal ones rand rand_like randint randint_like randn
    randn_like randperm range result_type scalar_tensor set_anomaly_enabled
    set_autocast_cache_enabled set_autocast_cpu_dtype set_autocast_cpu_enabled set_autocast_dtype
    set_autocast_enabled set_autocast_gpu_dtype set_default_tensor_type
    set_deterministic_debug_mode set_float32_matmul_precision set_flush_denormal
    set_num_interop_threads set_warn_always sparse_coo_tensor tensor thread_safe_generator
    tril_indices triu_indices use_deterministic_algorithms vander vmap wait zeros
""".split()


class TorchFunctionMode(WatchingMode):
    """A block in which every public function goes through `__torch_function__`.

    >>> class Names(torch.overrides.TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         print(torch.overrides.resolve_name(func))
    ...         return func(*args, **(kwargs or {}))
    >>> with Names():
    ...     x = torch.ones(2) + 1
    torch.ones
    torch.Tensor.add
    """

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """The old way to enter a mode."""
        return cls(*args, **kwargs)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        raise NotImplementedError


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing.

    >>> with torch.overrides.BaseTorchFunctionMode():
    ...     print(ones(2) + 1)
    tensor([2., 2.])
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


def _get_current_function_mode() -> Any:
    """The innermost mode, or None."""
    return WATCHING.modes[-1] if WATCHING.modes else None


def _get_current_function_mode_stack() -> list[Any]:
    """All modes, innermost last."""
    return list(WATCHING.modes)


def _len_torch_function_stack() -> int:
    return len(WATCHING.modes)


def _is_torch_function_mode_enabled() -> bool:
    return bool(WATCHING.modes) and not WATCHING.off


def _push_mode(mode: Any) -> None:
    WatchingMode.__enter__(mode)


def _pop_mode() -> Any:
    mode = WATCHING.modes[-1]
    WatchingMode.__exit__(mode)
    return mode


@contextlib.contextmanager
def _pop_mode_temporarily() -> Iterator[Any]:
    """Without the innermost mode, which is what `with … as` gives."""
    mode = WATCHING.modes[-1]
    with watching_set_to(WATCHING.modes[:-1]):
        yield mode


@contextlib.contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """Inside a `__torch_dispatch__`: autograd records again, as it does above.

    >>> try:
    ...     with torch.overrides.enable_reentrant_dispatch():
    ...         pass
    ... except RuntimeError as error:
    ...     print(error)
    Accessing torch dispatch state outside of '__torch_dispatch__' is not allowed.
    """
    if not MODES.below:
        raise RuntimeError(
            "Accessing torch dispatch state outside of '__torch_dispatch__' is not allowed."
        )
    with below_autograd(False):
        yield


def has_torch_function_unary(value: Any) -> bool:
    """Whether a value, or a mode, wants to answer torch functions.

    >>> class Mine(Tensor):
    ...     pass
    >>> x = zeros(2)
    >>> [torch.overrides.has_torch_function_unary(each) for each in (x, x.as_subclass(Mine))]
    [False, True]
    """
    if _is_torch_function_mode_enabled():
        return True
    return wants_to_answer(value)


def wants_to_answer(value: Any) -> bool:
    """Whether a value wants to answer torch functions itself."""
    if isinstance(value, TensorBase):
        return takes_part(type(value)) and not MODES.subclasses_off
    return hasattr(type(value), "__torch_function__")


def has_torch_function_variadic(*values: Any) -> bool:
    """Whether one of the arguments does.

    >>> class Mine(Tensor):
    ...     pass
    >>> torch.overrides.has_torch_function_variadic(zeros(2), zeros(2).as_subclass(Mine))
    True
    """
    return _is_torch_function_mode_enabled() or any(map(wants_to_answer, values))


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether one of the values does.

    >>> torch.overrides.has_torch_function((torch.ones(1), 2))
    False
    """
    return _is_torch_function_mode_enabled() or any(map(wants_to_answer, relevant_args))


def is_tensor_like(inp: Any) -> bool:
    """Whether this is a tensor, or something that answers torch functions.

    >>> torch.overrides.is_tensor_like(zeros(2)), torch.overrides.is_tensor_like(3)
    (True, False)
    """
    return isinstance(inp, TensorBase) or hasattr(inp, "__torch_function__")


def one_per_class(values: Iterable[Any]) -> list[Any]:
    """One value per class, subclasses before the classes that they extend."""
    found: list[Any] = []
    for value in values:
        cls = type(value)
        if not hasattr(cls, "__torch_function__") or any(type(f) is cls for f in found):
            continue
        place = next((i for i, f in enumerate(found) if issubclass(cls, type(f))), len(found))
        found.insert(place, value)
    return found


def _get_overloaded_args(relevant_args: Iterable[Any], get_type_fn: Any = None) -> list[Any]:
    """The values that are asked, one per class, in the order in which they are."""
    return one_per_class(relevant_args)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Let the values answer `public_api(*args, **kwargs)`, the first that does.

    >>> class Name:
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return f"{func.__name__} of a Name"
    >>> def size_of(x):
    ...     if torch.overrides.has_torch_function((x,)):
    ...         return torch.overrides.handle_torch_function(size_of, (x,), x)
    ...     return x.numel()
    >>> size_of(zeros(2, 3)), size_of(Name())
    (6, 'size_of of a Name')
    """
    asked = one_per_class(relevant_args)
    kinds = tuple(type(value) for value in asked)
    if _is_torch_function_mode_enabled():
        with _pop_mode_temporarily() as mode:
            answer = mode.__torch_function__(public_api, kinds, args, kwargs)
        if answer is not NotImplemented:
            return answer
    for value in asked:
        answer = value.__torch_function__(public_api, kinds, args, kwargs)
        if answer is not NotImplemented:
            return answer
    name = resolve_name(public_api) or f"{public_api.__module__}.{public_api.__name__}"
    raise TypeError(
        f"no implementation found for '{name}' on types that implement __torch_function__: "
        f"{list(kinds)}"
    )


def wrap_torch_function(dispatcher: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator: the function asks the arguments that `dispatcher` names before it runs.

    >>> @torch.overrides.wrap_torch_function(lambda x: (x,))
    ... def double(x):
    ...     return x * 2
    >>> double(tensor([1.0]))
    tensor([2.])
    """

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return decorate


@functools.cache
def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """The functions that ask their arguments, by the module or class that has them."""
    found: dict[Any, list[Callable[..., Any]]] = {}
    ignored = get_ignored_functions()
    for owner in places().values():
        names = [n for n in dir(owner) if not n.startswith("_")]
        functions = [getattr(owner, n, None) for n in names]
        found[owner] = [
            f for f in functions if isinstance(f, types.FunctionType) and f not in ignored
        ]
    return found


def is_tensor_method_or_property(func: Any) -> bool:
    """Whether a function belongs to Tensor.

    >>> [torch.overrides.is_tensor_method_or_property(f) for f in (Tensor.add, torch.add)]
    [True, False]
    """
    qualified = getattr(func, "__qualname__", "")
    return qualified.startswith("Tensor.") or getattr(func, "__name__", "") == "__get__"


def resolve_name(f: Any) -> str | None:
    """The public name of a function: `torch.add`, `torch.Tensor.add`; None for others.

    >>> [torch.overrides.resolve_name(f) for f in (Tensor.add, torch.nn.functional.linear)]
    ['torch.Tensor.add', 'torch.nn.functional.linear']
    """
    name = getattr(f, "__name__", "")
    owner = getattr(f, "__self__", None)
    if isinstance(owner, property):
        fields = [n for n, value in vars(tg.Tensor).items() if value is owner]
        return f"torch.Tensor.{fields[0]}.{name}" if fields else None
    for place, found in places().items():
        if getattr(found, name, None) is f:
            return f"{place}.{name}"
    return None


def places() -> dict[str, Any]:
    """Where public functions are, by the name of the place."""
    return {
        "torch": tg,
        "torch.nn.functional": tg.nn.functional,
        "torch.nn.init": tg.nn.init,
        "torch.linalg": tg.linalg,
        "torch.fft": tg.fft,
        "torch.special": tg.special,
        "torch.Tensor": tg.Tensor,
    }


@functools.cache
def get_ignored_functions() -> set[Callable[..., Any]]:
    """The functions that ask nobody."""
    found = [getattr(tg, name, None) for name in (*NOT_ASKED, *IGNORED)]
    own = [value for name, value in vars(tg.Tensor).items() if name in ("__new__", "__init__")]
    return {f for f in (*found, *own, handle_torch_function, has_torch_function) if callable(f)}


@functools.cache
def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """For every function that asks, one with its signature that returns -1: for tests."""
    found: dict[Callable[..., Any], Callable[..., Any]] = {}
    for functions in get_overridable_functions().values():
        for f in functions:
            found[f] = standing_in(f)
    return found


def standing_in(f: Callable[..., Any]) -> Callable[..., Any]:
    def stand_in(*args: Any, **kwargs: Any) -> int:
        return -1

    stand_in.__signature__ = inspect.signature(f)  # type: ignore[attr-defined]
    return stand_in


def get_default_nowrap_functions() -> set[Any]:
    """Functions whose results `Tensor.__torch_function__` does not convert: fields that are tensors
    of their own.

    >>> Tensor.grad.__get__ in torch.overrides.get_default_nowrap_functions()
    True
    """
    fields = (vars(tg.Tensor).get(name) for name in ("_base", "grad", "_grad"))
    return {f.__get__ for f in fields if f is not None}


def ask_foreign(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The answer of an argument that is no tensor; NotImplemented if there is none to ask."""
    values = [*args, *kwargs.values()]
    values += [v for value in values if isinstance(value, (list, tuple)) for v in value]
    foreign = [v for v in values if not isinstance(v, (TensorBase, type))]
    if not any(map(wants_to_answer, foreign)):
        return NotImplemented
    asked = [v for v in values if not isinstance(v, type) and wants_to_answer(v)]
    return handle_torch_function(function, asked, *args, **kwargs)
