"""`torch.library.opcheck`: does an op do what was registered for it?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tapegrad as tg

from ..core.base import TensorBase
from ..core.python_dispatch import leaves_of
from ..utils._pytree import tree_map
from . import registry
from .custom_ops import CUSTOM, CustomOpDef, spoken
from .registry import OpDef

DEFAULT_UTILS = (
    "test_schema",
    "test_autograd_registration",
    "test_faketensor",
    "test_aot_dispatch_dynamic",
)


class OpCheckError(Exception):
    """A check of an op failed."""


def tensors_in(value: Any) -> list[Any]:
    return [t for t in leaves_of(value) if isinstance(t, TensorBase)]


def copied(value: Any) -> Any:
    """Arguments of their own for each run."""

    def one(v: Any) -> Any:
        if not isinstance(v, TensorBase):
            return v
        t: Any = v
        return t.detach().clone().requires_grad_(t.requires_grad)

    return tree_map(one, value)


class Check:
    """One op with one set of arguments."""

    def __init__(
        self, op: Any, definition: OpDef | None, args: Any, kwargs: Any, rtol: Any, atol: Any
    ) -> None:
        self.op = op
        self.definition = definition
        self.args = args
        self.kwargs = kwargs
        self.tolerance = {} if rtol is None and atol is None else {"rtol": rtol, "atol": atol}

    def schema(self) -> None:
        """Nothing is written that the schema does not say, and no results look into arguments."""
        declared = self.op._schema if self.definition is None else self.definition.schema
        args, kwargs = copied((self.args, self.kwargs))
        before = copied((args, kwargs))
        with tg.no_grad():
            found = self.op(*args, **kwargs)
        given = dict(zip([a.name for a in declared.arguments], args, strict=False)) | kwargs
        values = dict(zip([a.name for a in declared.arguments], before[0], strict=False))
        values |= before[1]
        for argument in declared.arguments:
            pairs = zip(
                tensors_in(given.get(argument.name)),
                tensors_in(values.get(argument.name)),
                strict=True,
            )
            if not argument.is_write and any([not tg.equal(a, b) for a, b in pairs]):
                raise RuntimeError(
                    f"Argument {argument.name} is not defined as mutable but was mutated"
                )
            if argument.alias_info is None:
                for t in tensors_in(given.get(argument.name)):
                    for i, r in enumerate(tensors_in(found)):
                        if shares(t, r):
                            raise RuntimeError(
                                f"Argument {argument.name} is not defined to alias output but was "
                                "aliasing"
                                if r is not t
                                else f"Output {i} is {argument.name} itself"
                            )

    def autograd_registration(self) -> None:
        """Check that the op has a gradient formula if its result can be differentiated."""
        tensors = tensors_in((self.args, self.kwargs))
        if self.definition is None or not any([t.requires_grad for t in tensors]):
            return
        own = {"Autograd", "AutogradCPU", "CompositeImplicitAutograd"}
        if self.definition.opaque or self.definition.backward is not None:
            return
        if not own & set(self.definition.kernels):
            raise AssertionError(
                f"{self.op}: an input requires grad and the op has no kernel for autograd: please "
                "use register_autograd, or CompositeImplicitAutograd for a function of other ops."
            )

    def faketensor(self) -> None:
        """The fake kernel says the shapes and dtypes that the real one gives."""
        if self.definition is None:
            return
        fake = self.definition.fake
        if fake is None:
            fake = self.definition.kernels.get("CompositeImplicitAutograd")
        name = self.definition.schema.name
        if fake is None:
            made = CUSTOM.get(name)
            function = name if made is None else made._init_fn.__name__
            raise RuntimeError(
                f"There was no fake impl registered for {spoken(self.definition)}. This is "
                "necessary for torch.compile/export/fx tracing to work. Please use "
                f"`{function}.register_fake` to add an fake impl."
            )
        args, kwargs = copied((self.args, self.kwargs))
        with tg.no_grad():
            real = tensors_in(self.op(*args, **kwargs))
            context = FakeContext()
            FakeContext.active = context
            try:
                told = tensors_in(fake(*fakes(args), **fakes(kwargs)))
            finally:
                FakeContext.active = None
        if len(told) != len(real):
            raise AssertionError(
                f"{name}: {len(real)} results, and the fake impl gives {len(told)}"
            )
        for a, b in zip(real, told, strict=True):
            if a.dtype != b.dtype:
                raise AssertionError(f"Dtypes {a.dtype} and {b.dtype} are not equal!")
            if a.dim() != b.dim() or (a.shape != b.shape and not context.dynamic):
                raise AssertionError(f"Shapes {a.shape} and {b.shape} are not equal!")

    def aot_dispatch_dynamic(self) -> None:
        """Two runs agree, forward and backward, on arguments laid out otherwise too."""
        self.faketensor()
        first = self.outcome(copied((self.args, self.kwargs)))
        second = self.outcome(copied((self.args, self.kwargs)))
        for a, b in zip(first, second, strict=True):
            tg.testing.assert_close(a, b, equal_nan=True, **self.tolerance)

    def outcome(self, given: Any) -> list[Any]:
        found = tensors_in(self.op(*given[0], **given[1]))
        leaves = [t for t in tensors_in(given) if t.requires_grad]
        roots = [t for t in found if t.requires_grad]
        results = [t.detach() for t in found]
        if leaves and roots:
            grads = tg.autograd.grad(
                [t.sum() for t in roots], leaves, allow_unused=True, materialize_grads=True
            )
            results += list(grads)
        return results


def shares(a: Any, b: Any) -> bool:
    from ..ops.block.out_argument import shares as share

    return a._array.size > 0 and b._array.size > 0 and share(a._array, b._array)


class FakeContext:
    """Gives a fake kernel sizes that depend on the values."""

    active: FakeContext | None = None

    def __init__(self) -> None:
        self.dynamic = False

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> int:
        """A size that is not known before the op has run."""
        self.dynamic = True
        return min

    create_unbacked_symint = new_dynamic_size


def fakes(value: Any) -> Any:
    """Arguments without values: on the meta device, where there is one."""

    def one(v: Any) -> Any:
        if not isinstance(v, TensorBase):
            return v
        t: Any = v
        try:
            return tg.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta")
        except (NotImplementedError, RuntimeError):
            return tg.empty_strided(t.shape, t.stride(), dtype=t.dtype)

    return tree_map(one, value)


def opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = DEFAULT_UTILS,
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, Any]:
    """Run an op and compare with what was registered for it; "SUCCESS" or an error per test.

    >>> @torch.library.custom_op("shown::square", mutates_args=())
    ... def square(x: Tensor) -> Tensor:
    ...     return x * x
    >>> @square.register_fake
    ... def _(x):
    ...     return torch.empty_like(x)
    >>> torch.library.opcheck(square, (ones(2),), test_utils=["test_schema"])
    {'test_schema': 'SUCCESS'}
    """
    overload = op._opoverload if isinstance(op, CustomOpDef) else op
    if hasattr(overload, "overloads"):
        overload = getattr(overload, overload.overloads()[0])
    definition = registry.DEFS.get(overload.name())
    check = Check(overload, definition, args, kwargs or {}, rtol, atol)
    names = [test_utils] if isinstance(test_utils, str) else list(test_utils)
    found: dict[str, Any] = {}
    for name in names:
        if name not in DEFAULT_UTILS:
            raise ValueError(
                f"opcheck(op, ...): Invalid test_utils: unknown {[name]}; available: "
                f"{list(DEFAULT_UTILS)}"
            )
        test: Callable[[], None] = getattr(check, name.removeprefix("test_"))
        try:
            test()
            found[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(
                    f"opcheck(op, ...): {name} failed with {error} (scroll up for stack trace)"
                ) from error
            found[name] = error
    return found
