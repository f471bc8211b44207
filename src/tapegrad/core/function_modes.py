"""`__torch_function__` around public functions: modes, and classes of tensors that users wrote.

A function looks at `WATCHED` before anything else; while it is empty nobody wants to be asked.
Operators have no function of their own: their ops come here from dispatch, as those of the modes in
python_dispatch.py do.
"""

from __future__ import annotations

from typing import Any

from .late_bound import INTERPRETERS, ON_DEMAND, TENSOR
from .modes import MODES, WatchingBlock, switched
from .python_dispatch import Diversion
from .thread_modes import ASKED_CLASSES as ASKED_CLASSES
from .thread_modes import WATCHED as WATCHED
from .thread_modes import WATCHING as WATCHING

# Functions about no tensor, or about what a tensor is: nobody is asked about them.
NOT_ASKED = frozenset(
    """
    as_tensor asarray compile enable_grad finfo from_numpy frombuffer get_default_dtype
    get_num_threads get_rng_state iinfo initial_seed is_grad_enabled is_storage is_tensor load
    manual_seed no_grad promote_types save seed set_default_device set_default_dtype
    set_grad_enabled set_num_threads set_printoptions set_rng_state typename
    """.split()
)
A_CLASS_ASKS = "a class asks"  # the mark in WATCHED: which classes, ASKED_CLASSES knows


class WatchingMode(WatchingBlock):
    """A block in which public functions go through `__torch_function__`."""


def prepare_for_watching() -> None:
    """Install the checks that calls of public functions need before a mode is entered."""
    Diversion.install()
    Diversion.watching = WATCHING
    watch_attributes()


INTERPRETERS.prepare_for_watching = prepare_for_watching


class watching_set_to(switched):
    """In a `with` block, calls of public functions are shown to other modes."""

    def __init__(self, modes: tuple[Any, ...]) -> None:
        super().__init__(WATCHING, "modes", modes)


class DisableTorchFunction:
    """Inside, neither modes nor classes are asked."""

    def __enter__(self) -> None:
        self.before = WATCHING.off, MODES.subclasses_off
        WATCHING.off = MODES.subclasses_off = True

    def __exit__(self, *error: object) -> None:
        WATCHING.off, MODES.subclasses_off = self.before


def watch_class(cls: Any, attributes: bool = True) -> None:
    """Note a subclass of Tensor: from now on functions look for it in their arguments.

    Fields and methods that run no op only matter to classes with a `__torch_function__`.
    """
    if cls not in ASKED_CLASSES and cls.__module__.partition(".")[0] not in ("tapegrad", "torch"):
        ask_classes(cls)
        if attributes:
            watch_attributes()


def ask_classes(*classes: Any) -> None:
    """Make functions look for arguments of these classes from now on."""
    ASKED_CLASSES.update(classes)
    if A_CLASS_ASKS not in WATCHED:
        WATCHED.append(A_CLASS_ASKS)


def watch_attributes() -> None:
    from .function_mode_attributes import install  # when somebody wants to be asked

    install()


def asked_of(args: Any, kwargs: dict[str, Any]) -> list[Any]:
    """One tensor per class of the user's that wants to be asked, subclasses first."""
    if MODES.subclasses_off:
        return []
    found: list[Any] = []
    for value in (*args, *kwargs.values()):
        for t in value if isinstance(value, (list, tuple)) else (value,):
            if type(t) not in ASKED_CLASSES:
                continue
            cls = type(t)
            if not any([type(f) is cls for f in found]):
                at = [i for i, f in enumerate(found) if issubclass(cls, type(f))]
                found.insert(at[0] if at else len(found), t)
    return found


def is_watched(args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether a mode or a class with `__torch_function__` takes part in a call."""
    if WATCHING.modes and not WATCHING.off:
        return True
    return bool(asked_of(args, kwargs))


def ask_watchers(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The answer of the innermost mode to a call or, if it gives none, of the tensors' classes."""
    asked = asked_of(args, kwargs)
    types = tuple([type(t) for t in asked])
    refused = []
    modes = () if WATCHING.off else WATCHING.modes
    if modes:
        with watching_set_to(modes[:-1]):
            answer = modes[-1].__torch_function__(function, types, args, kwargs)
        if answer is not NotImplemented:
            return answer
        refused.append(f"  - mode object {modes[-1]!r}")
    for cls in types:
        answer = cls.__torch_function__(function, types, args, kwargs)
        if answer is not NotImplemented:
            return answer
        refused.append(f"  - tensor subclass {cls!r}")
    name = ON_DEMAND.resolve_name(function)
    raise TypeError(
        f"Multiple dispatch failed for '{name}'; all __torch_function__ handlers returned "
        "NotImplemented:\n\n" + "\n".join(refused) + "\n\nFor more information, try "
        "re-running with TORCH_LOGS=not_implemented"
    )


def ask_about_op(op: Any, tensors: Any, attrs: Any) -> Any:
    """Ask modes and classes about the op of an operator, which has no public function around it."""
    arguments = (tuple(tensors), *attrs) if op.variadic else (*tensors, *attrs)
    return ask_watchers(INTERPRETERS.function_of(op), arguments, {})


# What operators are called whose methods have other names than their functions.
OPERATORS = {
    "rsub": "__rsub__",
    "rdiv": "__rtruediv__",
    "floor_divide": "__floordiv__",
    "rfloordiv": "__rfloordiv__",
    "rmod": "__rmod__",
    "pow": "__pow__",
    "rpow": "__rpow__",
    "rlshift": "__rlshift__",
    "rrshift": "__rrshift__",
}


def method_of_operator(name: str) -> Any:
    """The function that `__torch_function__` gets for an operator made of several ops."""
    return getattr(TENSOR.cls, OPERATORS.get(name, name))


def ask_about_operator(name: str, a: Any, b: Any) -> Any:
    """Ask modes and classes about an operator that is a function of several ops."""
    return ask_watchers(method_of_operator(name), (a, b), {})


INTERPRETERS.watched = ask_about_op
INTERPRETERS.is_watched = is_watched
INTERPRETERS.watched_operator = ask_about_operator
