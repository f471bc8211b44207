"""`torch.library`: ops of one's own, as `torch.ops.<namespace>.<name>`.

>>> import tapegrad as torch
>>> lib = torch.library.Library("docs_lib", "DEF")
>>> lib.define("shift(Tensor x, float by=1.0) -> Tensor")
'shift'
>>> lib.impl("shift", lambda x, by=1.0: x + by, "CPU")
>>> torch.ops.docs_lib.shift(torch.zeros(2))
tensor([1., 1.])
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from ._library import registry
from ._library.custom_ops import CUSTOM, CustomOpDef, custom_op, set_autocast, set_autograd
from ._library.infer_schema import infer_schema
from ._library.opcheck import FakeContext, opcheck
from ._library.registry import OpDef, dispatch_key
from ._library.replaced import replace, restore
from ._ops import OpOverload, OpOverloadPacket, forget

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "get_kernel",
    "impl",
    "impl_abstract",
    "infer_schema",
    "opcheck",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_torch_dispatch",
    "register_vmap",
]

RESERVED = ("prim",)
DEFINED: set[str] = {"aten"}  # the namespaces that have their one "DEF"


def fallthrough_kernel() -> None:
    """Stands for "go on with the next kernel" in `impl`.

    >>> try:
    ...     torch.library.fallthrough_kernel()
    ... except NotImplementedError as error:
    ...     print(error)
    fallthrough_kernel() should never be called.
    """
    raise NotImplementedError("fallthrough_kernel() should never be called.")


class Library:
    """A namespace of ops: "DEF" a new one, "FRAGMENT" more of one, "IMPL" kernels for ops.

    >>> lib = torch.library.Library("shown_lib", "DEF")
    >>> name = lib.define("half(Tensor x) -> Tensor")
    >>> lib.impl("half", lambda x: x / 2, "CPU")
    >>> torch.ops.shown_lib.half(ones(2))
    tensor([0.5000, 0.5000])
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns in RESERVED and kind in ("DEF", "FRAGMENT"):
            raise ValueError(
                f"{ns} is a reserved namespace. Please try creating a library with another name."
            )
        if kind == "DEF":
            if ns in DEFINED:
                raise RuntimeError(
                    f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}; "
                    "please put all of your definitions in a single TORCH_LIBRARY block.  If you "
                    "were trying to specify implementations, consider using TORCH_LIBRARY_IMPL "
                    "(which can be duplicated).  If you really intended to define operators for a "
                    "single namespace in a distributed way, you can use TORCH_LIBRARY_FRAGMENT to "
                    "explicitly indicate this."
                )
            DEFINED.add(ns)
        self.ns = ns
        self.kind = kind
        self.dispatch_key = dispatch_key
        self.made: list[str] = []  # the full names of the ops defined here
        self.kernels: list[tuple[OpDef, str]] = []
        self.replaced: list[Any] = []  # what takes back the kernels of PyTorch's own ops

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Declare an op: "name.overload(Tensor x, …) -> Tensor"."""
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        made = registry.define(self.ns, schema, tags)
        self.made.append(made.full_name)
        return schema.partition("(")[0].strip()

    def impl(
        self,
        op_name: Any,
        fn: Callable[..., Any],
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:
        """Set the function that runs an op on a device or, for "Autograd", with gradients."""
        if not callable(fn):
            raise TypeError(
                f"Input function is required to be a callable but found type {type(fn)}"
            )
        if fn is fallthrough_kernel:
            return
        name = op_name if isinstance(op_name, str) else op_name.name()
        space, _, bare = name.rpartition("::")
        if space and space != self.ns:
            raise RuntimeError(
                f'impl("{name}", ...): Explicitly provided namespace ({space}) in operator name '
                f"does not match namespace of enclosing TORCH_LIBRARY block ({self.ns}).  Move "
                "this definition to the TORCH_LIBRARY block corresponding to this namespace (and "
                "consider deleting the namespace from your schema string.)"
            )
        name = bare
        key = registry.dispatch_key(
            dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        )
        full = f"{self.ns}::{name.removesuffix('.default')}"
        found = registry.DEFS.get(full)
        if self.ns == "aten" and found is None:
            if with_keyset:
                raise NotImplementedError(f"{full}: there are no sets of dispatch keys to be given")
            replace(full, key, fn)
            # PyTorch's own kernels are back when the library is gone.
            self.replaced.append(weakref.finalize(self, restore, full, key, fn))
            return
        if found is None:
            registry.WAITING.setdefault(full, {})[key] = fn
            return
        if key in found.kernels and not allow_override and (found, key) in self.kernels:
            raise RuntimeError(
                "This is not allowed since there's already a kernel registered from python "
                f"overriding {name}'s behavior for {key} dispatch key and {self.ns} namespace."
            )
        found.kernels[key] = fn
        self.kernels.append((found, key))

    def fallback(
        self, fn: Callable[..., Any], dispatch_key: str = "", *, with_keyset: bool = False
    ) -> None:
        """Set the function for ops without a kernel; PyTorch's own devices have kernels."""
        if self.ns != "_":
            raise RuntimeError(
                "Fallback can only be registered using library fragment on the global namespace "
                f'"_" but it is {self.ns}'
            )
        if not (dispatch_key or self.dispatch_key):
            raise AssertionError("dispatch_key must not be empty for fallback")
        raise NotImplementedError(
            "a fallback for all ops of a device is not supported; a TorchDispatchMode sees every op"
        )

    def _destroy(self) -> None:
        """Forget all that was defined here."""
        for definition, key in self.kernels:
            definition.kernels.pop(key, None)
        for restored in self.replaced:
            restored()
        for full in self.made:
            registry.DEFS.pop(full, None)
            forget(self.ns, full.partition("::")[2].partition(".")[0])
        if self.kind == "DEF":
            DEFINED.discard(self.ns)
        self.kernels, self.made, self.replaced = [], [], []


@contextlib.contextmanager
def _scoped_library(*args: Any, **kwargs: Any) -> Iterator[Library]:
    """A library for a block, for tests."""
    made = Library(*args, **kwargs)
    try:
        yield made
    finally:
        made._destroy()


def resolved(op: Any) -> OpDef:
    """An op by its name, as an object of `torch.ops`, or as `custom_op` made it."""
    if isinstance(op, CustomOpDef):
        return op._definition
    if isinstance(op, OpOverloadPacket):
        op = getattr(op, op.overloads()[0])
    if isinstance(op, OpOverload):
        op = op.name()
    if not isinstance(op, str):
        raise ValueError(f"got unexpected type for op: {type(op)}")
    return registry.lookup(op)


def add_kernel(op: Any, key: str, function: Callable[..., Any]) -> None:
    """A kernel for an op of the user's or, for good, for one of PyTorch's own."""
    name = op.name() if isinstance(op, OpOverload) else op
    if isinstance(name, str) and name.startswith("aten::") and name not in registry.DEFS:
        replace(name.removesuffix(".default"), key, function)
    else:
        resolved(op).kernels[key] = function


def define(qualname: str, schema: str, *, lib: Library | None = None, tags: Any = ()) -> Any:
    """Declare an op: `define("mylib::sin", "(Tensor x) -> Tensor")`.

    >>> torch.library.define("shown::three_times", "(Tensor x) -> Tensor")
    >>> torch.library.impl("shown::three_times", "CPU", lambda x: x * 3)
    >>> torch.ops.shown.three_times(ones(2))
    tensor([3., 3.])
    """
    namespace, _, name = qualname.partition("::")
    if not name:
        raise ValueError(
            f'torch.library.define(qualname, ...): expected qualname to be of the form "ns::name", '
            f"got {qualname}"
        )
    if lib is None:
        registry.define(namespace, name + schema, tags)
    else:
        lib.define(name + schema, tags=tags)


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Library | None = None) -> Any:
    """Register a kernel for devices: `impl("mylib::sin", "cpu", f)`; a decorator without `f`.

    The older form is a decorator: `@impl(library, "sin", "CPU")`.

    >>> torch.library.define("shown::plus_one", "(Tensor x) -> Tensor")
    >>> @torch.library.impl("shown::plus_one", "CPU")
    ... def plus_one(x):
    ...     return x + 1
    >>> torch.ops.shown.plus_one(zeros(2))
    tensor([1., 1.])
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        if isinstance(qualname, Library):
            qualname.impl(types, function, func or "")
            return function
        for name in [types] if isinstance(types, str) else types:
            key = "CompositeExplicitAutograd" if name == "default" else dispatch_key(name)
            add_kernel(qualname, key, function)
        return function

    if func is None or isinstance(qualname, Library):
        return decorate
    decorate(func)
    return None


def register_kernel(
    op: Any,
    device_types: Any,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
) -> Any:
    """Set the function that runs an op on tensors of some devices; `None`: of all.

    >>> @torch.library.custom_op("shown::negated", mutates_args=(), device_types="cuda")
    ... def negated(x: Tensor) -> Tensor:
    ...     return -x
    >>> @torch.library.register_kernel("shown::negated", "cpu")
    ... def _(x):
    ...     return -x
    >>> negated(ones(2))
    tensor([-1., -1.])
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        names = [device_types] if isinstance(device_types, str) else device_types
        for name in names or [None]:
            key = "CompositeExplicitAutograd" if name is None else dispatch_key(name)
            add_kernel(op, key, function)
        return function

    return decorate if func is None else decorate(func)


def register_fake(
    op: Any,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
    _stacklevel: int = 1,
    allow_override: bool = False,
) -> Any:
    """Set a function of tensors without values that returns the shapes and dtypes of an op's
    results.

    >>> @torch.library.custom_op("shown::rows", mutates_args=())
    ... def rows(x: Tensor) -> Tensor:
    ...     return x.sum(1)
    >>> @torch.library.register_fake("shown::rows")
    ... def _(x):
    ...     return x.new_empty(x.shape[0])
    >>> rows(zeros(2, 3, device="meta")).shape
    torch.Size([2])
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        resolved(op).fake = function
        return function

    return decorate if func is None else decorate(func)


impl_abstract = register_fake


def register_autograd(
    op: Any,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Library | None = None,
) -> None:
    """The gradient of an op: `backward(ctx, *grads)`.

    >>> @torch.library.custom_op("shown::cube", mutates_args=())
    ... def cube(x: Tensor) -> Tensor:
    ...     return x ** 3
    >>> def setup_context(ctx, inputs, output):
    ...     ctx.save_for_backward(*inputs)
    >>> def backward(ctx, grad):
    ...     (x,) = ctx.saved_tensors
    ...     return grad * 3 * x * x
    >>> torch.library.register_autograd("shown::cube", backward, setup_context=setup_context)
    >>> x = tensor([2.0], requires_grad=True)
    >>> cube(x).backward()
    >>> x.grad
    tensor([12.])
    """
    set_autograd(resolved(op), backward, setup_context)


def register_vmap(
    op: Any, func: Callable[..., Any] | None = None, /, *, lib: Library | None = None
) -> Any:
    """How an op is mapped: `func(info, in_dims, *args)` gives results and their dims.

    >>> @torch.library.custom_op("shown::tripled", mutates_args=())
    ... def tripled(x: Tensor) -> Tensor:
    ...     return x * 3
    >>> @torch.library.register_vmap("shown::tripled")
    ... def _(info, in_dims, x):
    ...     return tripled(x), in_dims[0]
    >>> torch.vmap(tripled)(ones(2, 2))
    tensor([[3., 3.],
            [3., 3.]])
    """

    def decorate(function: Callable[..., Any]) -> None:
        resolved(op).vmap = function

    return decorate if func is None else decorate(func)


def register_torch_dispatch(
    op: Any,
    torch_dispatch_class: Any,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
) -> Any:
    """Set the function that a mode or a class of tensors runs in place of an op.

    >>> @torch.library.custom_op("shown::seen", mutates_args=())
    ... def seen(x: Tensor) -> Tensor:
    ...     return x * 1
    >>> class Watch(torch.utils._python_dispatch.TorchDispatchMode):
    ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
    ...         return func(*args, **(kwargs or {}))
    >>> @torch.library.register_torch_dispatch("shown::seen", Watch)
    ... def _(mode, func, types, args, kwargs):
    ...     return args[0] + 10
    >>> with Watch():
    ...     print(seen(ones(2)))
    tensor([11., 11.])
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        resolved(op).rules[torch_dispatch_class] = function
        return function

    return decorate if func is None else decorate(func)


def register_autocast(
    op: Any, device_type: str, cast_inputs: Any, /, *, lib: Library | None = None
) -> None:
    """The dtype in which an op runs where autocast is on.

    >>> @torch.library.custom_op("shown::dtype_of", mutates_args=())
    ... def dtype_of(x: Tensor) -> Tensor:
    ...     return x * 1
    >>> _ = torch.library.register_autocast("shown::dtype_of", "cpu", torch.bfloat16)
    >>> with torch.autocast("cpu"):
    ...     print(dtype_of(ones(2)).dtype)
    torch.bfloat16
    """
    set_autocast(resolved(op), device_type, cast_inputs)


def get_ctx() -> Any:
    """Inside a fake kernel: what gives sizes that depend on values.

    >>> @torch.library.custom_op("shown::where_not_zero", mutates_args=())
    ... def where_not_zero(x: Tensor) -> Tensor:
    ...     return x.nonzero()
    >>> @where_not_zero.register_fake
    ... def _(x):
    ...     size = torch.library.get_ctx().new_dynamic_size()
    ...     return x.new_empty((size, x.dim()), dtype=torch.int64)
    >>> where_not_zero(tensor([0.0, 3.0]))
    tensor([[1]])
    """
    if FakeContext.active is None:
        raise RuntimeError(
            "Attempted to call get_ctx() for the meta implementation outside of a fake kernel"
        )
    return FakeContext.active


def get_kernel(op: Any, dispatch_key: str) -> Callable[..., Any]:
    """The kernel that was registered for an op.

    >>> torch.library.define("shown::plus_two", "(Tensor x) -> Tensor")
    >>> torch.library.impl("shown::plus_two", "CPU", lambda x: x + 2)
    >>> torch.library.get_kernel("shown::plus_two", "CPU") is not None
    True
    """
    definition = resolved(op)
    found = definition.kernels.get(registry.dispatch_key(dispatch_key))
    if found is None:
        raise RuntimeError(f"No kernel for {definition.full_name} and {dispatch_key}")
    return found


def _maybe_get_opdef(op: Any) -> CustomOpDef | None:
    """The op that `custom_op` made, by any of its names."""
    if isinstance(op, CustomOpDef):
        return op
    name = op.name() if isinstance(op, OpOverload) else op
    return CUSTOM.get(name) if isinstance(name, str) else None
