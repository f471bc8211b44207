"""Switching recording off and on: no_grad, enable_grad, set_grad_enabled, inference_mode.

Each is a context manager and a decorator (also of generators and coroutines), and acts on this
thread only.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from ..core.base import TensorBase
from ..core.modes import MODES, GradBlock, InferenceBlock, SetGradBlock, ThreadsBlock, set_mode
from ..core.warned import warn

__all__ = [
    "enable_grad",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]

F = TypeVar("F", bound=Callable[..., Any])


def is_grad_enabled() -> bool:
    """Whether operations are being recorded in this thread.

    >>> with no_grad():
    ...     print(is_grad_enabled())
    False
    >>> is_grad_enabled()
    True
    """
    return MODES.grad


def is_inference_mode_enabled() -> bool:
    """Whether inference mode is on."""
    return MODES.inference


class Mode:
    """A context manager that can also decorate functions, generators and classes' methods."""

    def clone(self) -> Any:
        return type(self)()

    def __call__(self, function: F) -> F:
        return self.wrapped(function)  # type: ignore[no-any-return]

    def wrapped(self, function: Any) -> Any:
        """A function that runs in this mode."""
        if inspect.isclass(function):
            warn(
                "Decorating classes is deprecated and will be disabled in future versions. You "
                "should only decorate functions or methods. To preserve the current behavior of "
                "class decoration, you can directly decorate the `__init__` method and nothing "
                "else.",
                FutureWarning,
            )
        if inspect.isgeneratorfunction(function):
            return self.wrap_generator(function)

        def decorated(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return decorated if inspect.isclass(function) else functools.wraps(function)(decorated)

    def wrap_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The mode holds while the generator runs and not while it is suspended."""

        @functools.wraps(function)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            generator = function(*args, **kwargs)
            try:
                with self.clone():
                    value = generator.send(None)
                while True:
                    try:
                        request = yield value
                    except GeneratorExit:
                        with self.clone():
                            generator.close()
                        raise
                    except BaseException as error:
                        with self.clone():
                            value = generator.throw(error)
                    else:
                        with self.clone():
                            value = generator.send(request)
            except StopIteration as end:
                return end.value

        return decorated


class DecoratorMode(Mode, GradBlock):
    """A mode without arguments: `@no_grad` works as well as `@no_grad()`."""

    turns_on = True

    if TYPE_CHECKING:

        @overload
        def __new__(cls, function: F) -> F: ...  # type: ignore[misc]
        @overload
        def __new__(cls) -> Self: ...

    def __new__(cls, function: Any = None) -> Any:
        self = super().__new__(cls)
        self.wanted = cls.turns_on
        return self if function is None else self(function)


class no_grad(DecoratorMode):
    """Nothing that runs inside is recorded.

    >>> x = tensor([1.0], requires_grad=True)
    >>> with no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    turns_on = False


class enable_grad(DecoratorMode):
    """Recording is on again inside, within `no_grad`.

    >>> x = tensor([1.0], requires_grad=True)
    >>> with no_grad(), autograd.enable_grad():
    ...     y = x * 2
    >>> y.requires_grad
    True
    """


class set_grad_enabled(Mode, SetGradBlock):
    """Switch recording by a flag; also a plain function call.

    >>> x = tensor([1.0], requires_grad=True)
    >>> with autograd.set_grad_enabled(False):
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    def __call__(self, function: F) -> F:
        set_mode("grad", self.before)
        return super().__call__(function)

    def __str__(self) -> str:
        return f"torch.set_grad_enabled(mode={self.mode})"

    __repr__ = __str__

    def clone(self) -> Any:
        return type(self)(self.mode)


class set_multithreading_enabled(Mode, ThreadsBlock):
    """Whether backward may use several threads; a CPU's is done by the caller's in any case.

    >>> x = tensor([3.0], requires_grad=True)
    >>> with autograd.set_multithreading_enabled(False):
    ...     (x * x).backward()
    >>> x.grad
    tensor([6.])
    """

    def clone(self) -> Any:
        return type(self)(self.mode)


def is_multithreading_enabled() -> bool:
    """Whether `backward` may use several threads."""
    return MODES.threads


def is_view_replay_enabled() -> bool:
    """Whether views are always made again step by step; they are where strides do not suffice."""
    return False


class _unsafe_preserve_version_counter:
    """In a `with` block, writes to some tensors are not counted, so no check can notice them."""

    def __init__(self, tensors: Any) -> None:
        self.tensors = (tensors,) if isinstance(tensors, TensorBase) else tuple(tensors)
        self.before = [t._version_cell().n for t in self.tensors]

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        for t, n in zip(self.tensors, self.before, strict=True):
            t._version_cell().n = n


class inference_mode(Mode, InferenceBlock):
    """Like no_grad, and tensors made inside can never take part in recording.

    >>> x = tensor([1.0], requires_grad=True)
    >>> with autograd.inference_mode():
    ...     y = x * 2
    >>> y.requires_grad, y.is_inference()
    (False, True)
    """

    def __new__(cls, mode: Any = True) -> Any:
        self = super().__new__(cls)
        if isinstance(mode, bool):
            return self
        self.__init__(True)  # type: ignore[misc]
        return self(mode)

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode

    def clone(self) -> Any:
        return type(self)(self.mode)
