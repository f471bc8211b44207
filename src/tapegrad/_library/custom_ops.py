"""`torch.library.custom_op`: a Python function as an op that autograd and modes see as one."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from . import registry
from .infer_schema import infer_schema
from .registry import OpDef, dispatch_key
from .tags import Tag, as_tags

DeviceTypes = str | Sequence[str] | None


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: DeviceTypes = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Make a function an op, reachable as `torch.ops.<namespace>.<name>` too.

    Its arguments and result are annotated. What it does inside is not recorded: its gradient is
    what `register_autograd` says.

    >>> import tapegrad as torch
    >>> @torch.library.custom_op("docs::twice", mutates_args=())
    ... def twice(x: torch.Tensor) -> torch.Tensor:
    ...     return x * 2
    >>> torch.ops.docs.twice(torch.ones(2))
    tensor([2., 2.])
    >>> twice.register_autograd(lambda ctx, grad: grad * 2)
    """

    def decorate(function: Callable[..., Any]) -> CustomOpDef:
        text = infer_schema(function, mutates_args=mutates_args) if schema is None else schema
        namespace, opname = name.split("::")
        made = CustomOpDef(namespace, opname, text, function)
        if schema is not None:
            check_mutated(text, mutates_args, made)
        made._definition.tags = [Tag.pt2_compliant_tag, *as_tags(tags)]
        made.register_kernel(device_types)(function)
        made._definition.first_kernel = function
        return made

    return decorate if fn is None else decorate(fn)


def check_mutated(text: str, mutates_args: str | Iterable[str], made: CustomOpDef) -> None:
    """A schema that was given must say the same about what is written."""
    written = {a.name for a in made._definition.schema.arguments if a.is_write}
    if mutates_args != "unknown" and written != set(mutates_args):
        raise ValueError(
            f"Attempted to create a custom op with `mutates_args={mutates_args}` and "
            f"`schema={text}. The schema suggests that the op mutates {written}which is different "
            "from what was provided to us in `mutates_args`. Please make these consistent."
        )


class CustomOpDef:
    """An op made by `custom_op`; it is called as the function that it was made of.

    >>> @torch.library.custom_op("shown::twice", mutates_args=())
    ... def twice(x: Tensor) -> Tensor:
    ...     return x * 2
    >>> isinstance(twice, torch.library.CustomOpDef), torch.ops.shown.twice(ones(2))
    (True, tensor([2., 2.]))
    """

    def __init__(self, namespace: str, name: str, schema: str, fn: Callable[..., Any]) -> None:
        self._namespace = namespace
        self._name = name
        self._schema = schema
        self._init_fn = fn
        key = f"{namespace}::{name}"
        registry.DEFS.pop(key, None)  # as in a notebook, where cells run twice
        self._definition: OpDef = registry.define(namespace, name + schema)
        self._definition.opaque = True
        CUSTOM[key] = self

    @property
    def _qualname(self) -> str:
        return f"{self._namespace}::{self._name}"

    @property
    def _opoverload(self) -> Any:
        from .._ops import ops_namespace

        return getattr(ops_namespace(self._namespace), self._name).default

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._opoverload(*args, **kwargs)

    def register_kernel(
        self, device_types: DeviceTypes, fn: Callable[..., Any] | None = None, /
    ) -> Any:
        """Set the function that runs on tensors of some devices; `None`: of all."""

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            names = [device_types] if isinstance(device_types, str) else device_types
            for name in names or [None]:
                key = "" if name is None else dispatch_key(name)
                self._definition.kernels[key] = function
            return function

        return decorate if fn is None else decorate(fn)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Set a function of tensors without values that returns the results' shapes and dtypes."""
        self._definition.fake = fn
        return fn

    def register_autograd(
        self,
        backward: Callable[..., Any],
        /,
        *,
        setup_context: Callable[..., Any] | None = None,
    ) -> None:
        """The gradient: `backward(ctx, *grads)`, with what `setup_context` puts on `ctx`."""
        set_autograd(self._definition, backward, setup_context)

    def register_vmap(self, func: Callable[..., Any] | None = None) -> Any:
        """How the op is mapped: `func(info, in_dims, *args)` gives results and their dims."""

        def decorate(function: Callable[..., Any]) -> None:
            self._definition.vmap = function

        return decorate if func is None else decorate(func)

    def register_torch_dispatch(
        self, torch_dispatch_class: Any, fn: Callable[..., Any] | None = None, /
    ) -> Any:
        """Set the function that a mode or a class of tensors runs in place of this op."""

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            self._definition.rules[torch_dispatch_class] = function
            return function

        return decorate if fn is None else decorate(fn)

    def register_autocast(self, device_type: str, cast_inputs: Any) -> None:
        """The dtype in which the op runs where autocast is on."""
        set_autocast(self._definition, device_type, cast_inputs)

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """For a block, run the function of the definition in the place of a kernel."""
        disabled = self._definition.disabled
        before = device_type in disabled
        (disabled.discard if enabled else disabled.add)(device_type)
        try:
            yield
        finally:
            (disabled.add if before else disabled.discard)(device_type)


CUSTOM: dict[str, CustomOpDef] = {}


def set_autograd(
    definition: OpDef, backward: Callable[..., Any], setup_context: Callable[..., Any] | None
) -> None:
    if definition.schema.is_mutable or any_view(definition):
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {spoken(definition)} "
            f"with schema {definition.schema}. Please create a functional operator and register an "
            "autograd formula for that."
        )
    if setup_context is not None:
        named = any(a.kwarg_only for a in definition.schema.arguments)
        expected = ["ctx", "inputs", *(["keyword_only_inputs"] if named else []), "output"]
        found = list(inspect.signature(setup_context).parameters)
        if not set(expected) <= set(found) and len(found) == len(expected):
            order = found
            plain = setup_context

            def setup_context(**given: Any) -> Any:
                return plain(*[given[n] for n in expected[: len(order)]])

    definition.backward = backward
    definition.setup_context = setup_context
    definition.function = None


def spoken(definition: OpDef) -> str:
    """The name of an op in messages."""
    found = CUSTOM.get(definition.schema.name)
    return str(found) if found is not None else definition.full_name


def any_view(definition: OpDef) -> bool:
    return any(r.alias_info is not None for r in definition.schema.returns)


def set_autocast(definition: OpDef, device_type: str, cast_inputs: Any) -> None:
    if device_type not in ("cpu", "cuda"):
        raise ValueError(f"Unknown device type: {device_type}")
    definition.autocast[device_type] = cast_inputs
