"""A call of an op that users defined: autograd, transforms, modes and classes, then the kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autograd.function import Function
from ..core.base import TensorBase
from ..core.modes import MODES
from ..core.python_dispatch import Call, ask_anyone, below_autograd, is_asked, leaves_of
from ..core.transforms.levels import STACK
from .registry import OpDef
from .schema import Argument

ALIASED = (
    "The output of this custom operator (1) must not also be an input to this custom operator and "
    "(2) may not alias any inputs to this custom operator or other returns. The most common way to "
    "trigger this error is if we have y = custom_op(x) and y and x are the same Tensor. Please "
    "instead return a clone of the offending output tensor(s) (e.g. return x.clone()) or refactor "
    "the custom operator to not return y."
)


def call(definition: OpDef, overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an op from the top."""
    args, kwargs = bound(definition, args, kwargs)
    tensors = [v for v in leaves_of((args, kwargs)) if isinstance(v, TensorBase)]
    if definition.autocast and MODES.autocast is not None:
        args, kwargs = cast(definition, tensors, args, kwargs)
    if not MODES.below:
        own = definition.kernels.get("Autograd") or definition.kernels.get("AutogradCPU")
        if own is not None:
            return own(*args, **kwargs)
        differentiable = definition.opaque or definition.backward is not None
        wanted = any([t.requires_grad for t in tensors])  # type: ignore[attr-defined]
        if differentiable and ((wanted and MODES.records) or STACK.levels):
            given, _ = without_defaults(definition, args, {})
            return as_function(definition, overload).apply(*given, Named(kwargs))
    return below(definition, overload, args, kwargs)


def below(definition: OpDef, overload: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
    """The rest of the way: modes and classes are asked, then the kernel runs."""
    tensors = [v for v in leaves_of((args, kwargs)) if isinstance(v, TensorBase)]

    def run(args: Any, kwargs: Any) -> Any:
        return run_kernel(definition, args, kwargs)

    if not is_asked(*tensors):
        return run(args, kwargs)
    shown = Call(overload, *without_defaults(definition, args, kwargs), run)
    shown.rules = definition.rules
    return ask_anyone(shown)


def run_kernel(definition: OpDef, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensors = [v for v in leaves_of((args, kwargs)) if isinstance(v, TensorBase)]
    place = tensors[0].device.type if tensors else "cpu"  # type: ignore[attr-defined]
    kernel = definition.kernel(place)
    if kernel is None and place == "meta":
        kernel = definition.fake
    if kernel is None:
        name = definition.schema.name
        raise NotImplementedError(
            f"Could not run '{name}' with arguments from the '{place.upper()}' backend. This could "
            "be because the operator doesn't exist for this backend, or was omitted during the "
            "selective/custom build process (if using custom build)."
            f"\n'{name}' is only available for these backends: {sorted(definition.kernels)}."
        )
    args, kwargs = without_defaults(definition, args, kwargs)
    if not definition.opaque:
        return kernel(*args, **kwargs)
    with below_autograd():
        found = kernel(*args, **kwargs)
    check_memory(definition, kernel, tensors, found)
    for argument, value in zip(definition.schema.arguments, args, strict=False):
        if argument.is_write:
            for t in leaves_of(value):
                if isinstance(t, TensorBase):
                    t._version_cell().bump(definition.schema.name)
    return found


def check_memory(definition: OpDef, kernel: Any, inputs: list[Any], found: Any) -> None:
    """No result may share its memory with an argument, or with another result."""
    import inspect

    results = [t for t in leaves_of(found) if isinstance(t, TensorBase)]
    others = list(inputs)
    for t in results:
        if any([t is o or np.may_share_memory(t._array, o._array) for o in others]):
            name = definition.schema.name.partition("::")[2]
            module = inspect.getmodule(kernel)
            raise RuntimeError(f"{name} (with implementation in {module}): {ALIASED}")
        others.append(t)


# ---------------------------------------------------------------------- arguments


def bound(
    definition: OpDef, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """All arguments: those that may be given by position there, with their defaults."""
    schema = definition.schema
    by_place = [a for a in schema.arguments if not a.kwarg_only]
    known = {a.name for a in schema.arguments}
    for name in kwargs:
        if name not in known:
            raise RuntimeError(
                f"Unknown keyword argument '{name}' for operator '{schema.name}'. Schema: {schema}"
            )
    if len(args) > len(by_place):
        raise RuntimeError(
            f"{schema.name}() expected at most {len(by_place)} argument(s) but received "
            f"{len(args)} argument(s). Declaration: {schema}"
        )
    found: list[Any] = []
    named: dict[str, Any] = {}
    for index, argument in enumerate(schema.arguments):
        if index < len(args) and not argument.kwarg_only:
            value = args[index]
        elif argument.name in kwargs:
            value = kwargs[argument.name]
        elif argument.has_default_value():
            value = argument.default_value
        else:
            raise RuntimeError(
                f"{schema.name}() is missing value for argument '{argument.name}'. "
                f"Declaration: {schema}"
            )
        check_type(definition, argument, value, index)
        if argument.kwarg_only:
            named[argument.name] = value
        else:
            found.append(value)
    return tuple(found), named


PYTHON_TYPES: dict[str, Any] = {
    "TensorType": TensorBase,
    "IntType": (int, np.integer),
    "FloatType": (float, int, np.number),
    "BoolType": (bool, int),
    "StringType": str,
    "NumberType": (bool, int, float, complex, np.number),
    "ListType": (list, tuple),
}


def check_type(definition: OpDef, argument: Argument, value: Any, index: int) -> None:
    kind = argument.type
    if kind.kind() == "OptionalType":
        if value is None:
            return
        kind = kind.getElementType()
    wanted = PYTHON_TYPES.get(kind.kind())
    words = argument.words.partition("?")[0]
    if wanted is None or words in ("ScalarType", "Layout", "MemoryFormat"):
        return
    if isinstance(value, wanted) or (isinstance(value, TensorBase) and kind.kind() != "ListType"):
        return  # a tensor of one number is one
    schema = definition.schema
    found = type(value).__name__
    raise RuntimeError(
        f"{schema.name}() Expected a value of type '{argument.type}' for argument "
        f"'{argument.name}' but instead found type '{found}'.\nPosition: {index}\n"
        f"Value: {value!r}\nDeclaration: {schema}\n"
        f"Cast error details: Unable to cast {value} to {argument.type}"
    )


def without_defaults(
    definition: OpDef, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments for a kernel: those at the end that have their default value are left out."""
    from .calls import same

    by_place = [a for a in definition.schema.arguments if not a.kwarg_only]
    kept = len(args)
    while kept and by_place[kept - 1].has_default_value():
        if not same(args[kept - 1], by_place[kept - 1].default_value):
            break
        kept -= 1
    defaults = {a.name: a for a in definition.schema.arguments if a.has_default_value()}
    named = {
        name: value
        for name, value in kwargs.items()
        if name not in defaults or not same(value, defaults[name].default_value)
    }
    return args[:kept], named


def cast(definition: OpDef, tensors: list[Any], args: Any, kwargs: Any) -> Any:
    """Arguments in the precision that `register_autocast` asks for, where autocast is on."""
    from ..utils._pytree import tree_map

    place = tensors[0].device.type if tensors else "cpu"
    dtype = definition.autocast.get(place)
    if dtype is None:
        return args, kwargs

    def one(value: Any) -> Any:
        floats = isinstance(value, TensorBase) and value._array.dtype.kind in "fV"
        return value.to(dtype) if floats else value  # type: ignore[attr-defined]

    return tree_map(one, args), tree_map(one, kwargs)


# ---------------------------------------------------------------------- autograd and vmap


class Named:
    """The keyword arguments of a call, as one argument that no transform looks into."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values


def as_function(definition: OpDef, overload: Any) -> Any:
    """The autograd.Function that stands for an op; its node has PyTorch's name."""
    if definition.function is not None:
        return definition.function

    def forward(*given: Any) -> Any:
        args, kwargs = bound(definition, given[:-1], given[-1].values)
        found = below(definition, overload, args, kwargs)
        return tuple(found) if isinstance(found, list) else found

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.needs_input_grad = ctx.needs_input_grad[:-1]
        ctx._given = len(inputs) - 1
        if definition.setup_context is not None:
            args, kwargs = bound(definition, inputs[:-1], inputs[-1].values)
            more = {"keyword_only_inputs": kwargs} if kwargs else {}
            definition.setup_context(ctx=ctx, inputs=args, output=output, **more)

    def backward(ctx: Any, *grads: Any) -> Any:
        if definition.backward is None:
            raise RuntimeError(
                f"Trying to backward through {overload} but no autograd formula was registered. "
                "Please use register_autograd to add one."
            )
        found = definition.backward(ctx, *grads)
        found = found if isinstance(found, tuple) else (found,)
        # Not for arguments that had their default, and not for those given by name.
        return (*found[: ctx._given], None)

    def vmap(info: Any, in_dims: tuple[Any, ...], *given: Any) -> Any:
        args, kwargs = given[:-1], given[-1].values
        if definition.vmap is not None:
            return definition.vmap(info, in_dims[:-1], *args, **kwargs)
        return entry_by_entry(definition, overload, info, in_dims[:-1], args, kwargs)

    body = {
        name: staticmethod(method)
        for name, method in (
            ("forward", forward),
            ("setup_context", setup_context),
            ("backward", backward),
            ("vmap", vmap),
        )
    }
    words = str(overload).replace(".", "_")
    definition.function = type(f"GeneratedBackwardFor_{words}", (Function,), body)
    return definition.function


def entry_by_entry(
    definition: OpDef, overload: Any, info: Any, in_dims: Any, args: Any, kwargs: Any
) -> Any:
    """Without a rule of its own, an op is mapped by running it on each entry of the batch."""
    import tapegrad as tg

    entries = []
    for i in range(info.batch_size):
        picked = [a if d is None else a.select(d, i) for a, d in zip(args, in_dims, strict=False)]
        entries.append(call(definition, overload, tuple(picked), kwargs))
    if isinstance(entries[0], (tuple, list)):
        stacked = [tg.stack(list(parts)) for parts in zip(*entries, strict=True)]
        return tuple(stacked), (0,) * len(stacked)
    return tg.stack(entries), 0
