"""The ops that users define: their declarations, and all that was registered for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .schema import FunctionSchema, parse_schema
from .tags import Tag, as_tags

# What programs say for a device, and the name that the dispatcher has for it.
DEVICE_KEYS = {"cpu": "CPU", "cuda": "CUDA", "meta": "Meta"}
# The kernels for tensors wherever they are, best first.
ANYWHERE = ("CompositeExplicitAutograd", "CompositeImplicitAutograd", "")


class OpDef:
    """One overload of an op in a namespace of the user's."""

    def __init__(self, schema: FunctionSchema) -> None:
        self.schema = schema
        self.tags: list[Tag] = []
        self.kernels: dict[str, Callable[..., Any]] = {}
        self.fake: Callable[..., Any] | None = None
        self.backward: Callable[..., Any] | None = None
        self.setup_context: Callable[..., Any] | None = None
        self.vmap: Callable[..., Any] | None = None
        self.rules: dict[Any, Callable[..., Any]] = {}  # for classes and modes: (cls, …)
        self.autocast: dict[str, Any] = {}  # the dtype to cast inputs to, by device
        self.opaque = False  # of `custom_op`: nothing inside is recorded
        self.function: Any = None  # the autograd.Function that it is for autograd
        self.disabled: set[str] = set()  # the devices whose kernel is switched off
        self.first_kernel: Callable[..., Any] | None = None  # that of the definition

    @property
    def full_name(self) -> str:
        name = self.schema.overload_name
        return f"{self.schema.name}.{name}" if name else self.schema.name

    def kernel(self, device: str) -> Callable[..., Any] | None:
        """The function that runs on tensors of a device."""
        keys = (DEVICE_KEYS.get(device, device.upper()), *ANYWHERE)
        if device in self.disabled:
            return self.first_kernel
        return next((self.kernels[key] for key in keys if key in self.kernels), None)


DEFS: dict[str, OpDef] = {}
# Kernels that came before their op: by its name, then by dispatch key.
WAITING: dict[str, dict[str, Callable[..., Any]]] = {}


def define(namespace: str, text: str, tags: Any = ()) -> OpDef:
    """Make an op of a declaration without its namespace."""
    from .._ops import forget

    known = as_tags(tags)
    schema = parse_schema(f"{namespace}::{text}")
    made = OpDef(schema)
    made.tags = known
    if made.full_name in DEFS:
        raise RuntimeError(
            f"Tried to register an operator ({schema}) with the same name and overload name "
            "multiple times. Each overload's schema should only be registered with a single call "
            "to def()."
        )
    DEFS[made.full_name] = made
    made.kernels.update(WAITING.pop(made.full_name, {}))
    forget(namespace, schema.name.partition("::")[2])
    return made


def overloads_of(namespace: str, name: str) -> list[str]:
    """The overloads that were defined of an op."""
    full = f"{namespace}::{name}"
    return [d.schema.overload_name or "default" for d in DEFS.values() if d.schema.name == full]


def lookup(name: str) -> OpDef:
    """An op by its name, "ns::op" or "ns::op.overload"."""
    found = DEFS.get(name.removesuffix(".default"))
    if found is None:
        raise RuntimeError(f"operator {name} does not exist")
    return found


def dispatch_key(name: str) -> str:
    """ "cpu" and "CPU" are the same."""
    return DEVICE_KEYS.get(name, name)
