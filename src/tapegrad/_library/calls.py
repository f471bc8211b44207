"""How a call of an op of ours looks as a call of one of PyTorch's: the arguments of its schema."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from .. import dtypes
from .._ops import OpOverload, overload_named, overload_of, public
from ..core.arguments import reduction_number
from ..core.base import STATE, TensorBase, wrap
from ..core.op import Op
from ..core.python_dispatch import leaves_of
from ..device import CPU, channels_last, channels_last_3d, contiguous_format, device
from .schema import Argument, FunctionSchema, aten_schemas

# What schemas call the arguments of ops, where our names differ.
SCHEMA_NAMES = {
    "self": ("input",),
    "dim": ("dims",),
    "dims": ("dim",),
    "indices": ("index",),
    "memory_format": ("format",),
    "min": ("low",),
    "max": ("high",),
    "storage_offset": ("offset",),
    "size": ("shape", "sizes"),
    "stride": ("strides",),
    "tensors": ("input",),
    "other": ("number",),
}
# Memory formats of kernels; one that is preserved is not told.
FORMATS = {
    "preserve": None,
    "contiguous": contiguous_format,
    "channels_last": channels_last,
    "channels_last_3d": channels_last_3d,
}


class Unplaced:
    """No value for an argument."""


def present(
    op: Op, tensors: tuple[Any, ...], attrs: tuple[Any, ...], watch: Any, written: bool = False
) -> tuple[OpOverload, tuple[Any, ...], dict[str, Any]]:
    """The overload that an op of ours is, and the arguments as PyTorch has them."""
    overload = overload_of(op, tensors, attrs, written)
    values = values_of(op, tensors, attrs, watch)
    found = placed(overload, tensors, values)
    if found is not None:
        return overload, *found
    return overload, without_trailing_none(list(values.values()), len(op.tensors)), {}


def values_of(op: Op, tensors: tuple[Any, ...], attrs: tuple[Any, ...], watch: Any) -> Any:
    """The arguments of an op, by our names for them."""
    operands = [list(tensors)] if op.variadic else tensors
    values = dict(zip(op.tensors, operands, strict=False))
    values.update(zip(op.attrs, [shown(a, watch) for a in attrs], strict=False))
    if values.get("format") == "channels_last" and tensors[0]._array.ndim == 5:
        values["format"] = "channels_last_3d"
    return values


def placed(
    overload: OpOverload, tensors: tuple[Any, ...], values: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The arguments in the places of an overload's schema; None if they do not fit it."""
    found = by_schema(overload._schema, values)
    if found is None:
        return None
    there = list(map(id, leaves_of(found)))
    fits = all([id(t) in there for t in tensors if isinstance(t, TensorBase)])
    return found if fits else None


def written_call(name: str, target: Any, values: dict[str, Any]) -> tuple[OpOverload, Any, Any]:
    """A function that overwrites a tensor, `normal_`, with the arguments that it was given."""
    for schema in aten_schemas(name):
        kinds = {a.name: a.type.kind() for a in schema.arguments}
        if any([kinds.get(n) in (None, "TensorType") for n in values]):
            continue  # these are numbers
        found = by_schema(schema, {"self": target, **values})
        if found is not None:
            overload = overload_named(f"{name}.{schema.overload_name or 'default'}")
            return overload, *found
    return overload_named(name), (target, *values.values()), {}


def tells_all(op: Op, overload: OpOverload, tensors: Any, values: dict[str, Any]) -> bool:
    """Whether a call of the overload, as it is shown, does what the op does with these values."""
    found = placed(overload, tensors, values)
    if found is None:
        return False
    names = [a.name for a in overload._schema.arguments]
    told = {*names, *[each for name in names for each in SCHEMA_NAMES.get(name, ())]}
    untold = [values[name] for name in (*op.tensors, *op.attrs) if name not in told]
    function = public(op.aten_name()) if op.aten_call is None else None
    if op.aten_call is None and function is None:
        return not untold
    if function is not None and not takes(function, names, *found):
        return False
    # The function takes what it is given; what is left over means nothing then.
    return all([v is None or (type(v) in (bool, int) and v in (0, 1)) for v in untold])


def takes(function: Any, names: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the arguments mean to a public function what they mean to the schema."""
    given = inspect.signature(function).parameters.values()
    if any([p.kind is p.VAR_POSITIONAL for p in given]):
        # Sizes in a list, which `view` and its like take too.
        return len(args) == 2 and isinstance(args[1], list) and not kwargs
    ours = [p.name for p in given]
    if len(args) > len(ours) or any(
        [v is None and p.default is p.empty for v, p in zip(args, given, strict=False)]
    ):
        return False
    same_names = [a == b or b in SCHEMA_NAMES.get(a, ()) for a, b in zip(names, ours, strict=False)]
    return all(same_names[1 : len(args)]) and all([name in ours for name in kwargs])


def without_trailing_none(args: list[Any], least: int) -> tuple[Any, ...]:
    while len(args) > least and args[-1] is None:
        args.pop()
    return tuple(args)


def shown(value: Any, watch: Any) -> Any:
    """An attribute as PyTorch has it: dtypes, lists, and tensors in the place of their arrays."""
    if isinstance(value, np.dtype):
        return dtypes.of(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (tuple, list)):
        return [shown(v, watch) for v in value]
    if isinstance(value, np.ndarray) or type(value) is STATE.device_type:
        same = [t for t in watch if isinstance(t, TensorBase) and t._array is value]
        return same[0] if same else wrap(value)
    return value


def by_schema(
    schema: FunctionSchema, values: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Positional and keyword arguments, without trailing defaults; None if one cannot be told."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    needed = 0  # how many positional arguments are no defaults
    for argument in schema.arguments:
        value = fitted(argument, value_for(argument, values))
        if value is Unplaced:
            return None
        default = argument.has_default_value() and same(value, argument.default_value)
        if argument.kwarg_only:
            if not default:
                kwargs[argument.name] = value
            continue
        args.append(value)
        if not default:
            needed = len(args)
    return tuple(args[:needed]), kwargs


def value_for(argument: Argument, values: dict[str, Any]) -> Any:
    for name in (argument.name, *SCHEMA_NAMES.get(argument.name, ())):
        if name in values:
            return values[name]
    return Unplaced


def fitted(argument: Argument, value: Any) -> Any:
    """A value as the type of an argument wants it."""
    kind = argument.type
    if argument.name == "memory_format" and isinstance(value, str):
        return FORMATS[value]
    if value is Unplaced:
        if argument.has_default_value():
            return argument.default_value
        missing = {"OptionalType": None, "BoolType": False}
        return missing.get(kind.kind(), Unplaced)
    if kind.kind() == "OptionalType":
        kind = kind.getElementType()
        if value is None:
            return None
    elif value is None and argument.has_default_value():
        return argument.default_value  # no padding_idx is -1 there
    if argument.name == "indices" and isinstance(value, list):
        whole = [None if isinstance(v, slice) and v == slice(None) else v for v in value]
        return whole if all([v is None or isinstance(v, TensorBase) for v in whole]) else Unplaced
    if kind.kind() == "ListType":
        return [value] if isinstance(value, (int, float)) else list(value)
    if kind.kind() == "FloatType" and isinstance(value, int):
        return float(value)
    if kind.kind() == "IntType":
        if isinstance(value, str):
            return reduction_number(value)
        if isinstance(value, list) and len(value) == 1:
            return value[0]
    return value


def same(a: Any, b: Any) -> bool:
    """Equal, for values that are no tensors."""
    if a is b:
        return True
    if isinstance(a, (TensorBase, np.ndarray)):
        return False
    numbers = isinstance(a, (int, float)) and isinstance(b, (int, float))
    if numbers and isinstance(a, bool) is not isinstance(b, bool):
        return False
    return (numbers or type(a) is type(b)) and bool(a == b)


# Arguments that say nothing about the op itself.
OPTIONS = frozenset({"out", "requires_grad", "layout", "names", "device", "pin_memory", "dtype"})


def factory_call(
    name: str, call: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[OpOverload, tuple[Any, ...], dict[str, Any]] | None:
    """A function that makes a tensor, `zeros` or `ones_like`, as an overload of PyTorch's."""
    signature = inspect.signature(call)
    try:
        values = dict(signature.bind(*args, **kwargs).arguments)
    except TypeError:
        return None
    by_place: tuple[Any, ...] = ()
    for parameter, p in signature.parameters.items():
        if p.kind is p.VAR_POSITIONAL and parameter in values:
            if parameter == "args":  # as many as an overload has
                by_place = values.pop(parameter)
            else:
                values[parameter] = sizes(values[parameter])
    if name not in ("tensor", "as_tensor", "asarray"):
        for schema in sorted(aten_schemas(name), key=lambda s: len(s.arguments)):
            found = factory_arguments(schema, values, by_place)
            if found is not None:
                full = schema.name.removeprefix("aten::")
                return overload_named(f"{full}.{schema.overload_name or 'default'}"), *found
    return None


def factory_arguments(
    schema: FunctionSchema, values: dict[str, Any], by_place: tuple[Any, ...]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The arguments of a schema; None if it does not take all that is given."""
    places = [a.name for a in schema.arguments if not a.kwarg_only]
    if len(by_place) > len(places):
        return None
    values = dict(zip(places, by_place, strict=False)) | values
    named = {a.name for a in schema.arguments}
    taken = {name for each in named for name in (each, *SCHEMA_NAMES.get(each, ()))}
    if "names" in named or any(n not in taken and n not in OPTIONS for n in values):
        return None
    found = by_schema(schema, values)
    if found is None:
        return None
    args, kwargs = found
    if "device" in named and not any(isinstance(a, TensorBase) for a in args):
        place = kwargs.pop("device", None)
        kwargs["device"] = CPU if place is None else device(place)
    if "pin_memory" in named:
        kwargs["pin_memory"] = bool(kwargs.pop("pin_memory", False))
    order = [a.name for a in schema.arguments]
    return args, dict(sorted(kwargs.items(), key=lambda item: order.index(item[0])))


def sizes(given: tuple[Any, ...]) -> list[Any]:
    """`zeros(2, 3)` and `zeros((2, 3))`."""
    if len(given) == 1 and isinstance(given[0], (tuple, list)):
        return list(given[0])
    return list(given)
