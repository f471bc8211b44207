"""Whether the arguments of a call that failed are of the kinds that PyTorch's signature names.

PyTorch compares kinds (int, bool, Tensor, tuple of ints …) before it looks at any value. The ops
here look at values first, because that is faster where all is well. So a public function that fails
asks here whether PyTorch would have refused the kinds, and raises PyTorch's error for that instead.
A call that succeeds never comes here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.base import TensorBase
from ..ops.block.checks import kind_of
from .schema import Argument, FunctionSchema, Type, aten_schemas

OVERFLOW = "Overflow when unpacking long long"
LEAST, MOST = -(1 << 63), (1 << 63) - 1
# Keywords that every function takes, or that the signature has and the schema does not.
ALWAYS = {"out", "requires_grad", "dtype", "layout", "device", "pin_memory", "memory_format"}


def is_one(value: Any, dtype_kinds: str) -> bool:
    """Whether a value is a 0-d tensor of such a dtype that needs no gradient: it is a number."""
    if not isinstance(value, TensorBase) or value._wants_grad or value._array.ndim:
        return False
    return value._array.dtype.kind in dtype_kinds


def is_whole(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, (int, np.integer)) or is_one(value, "iu") or is_symbol(value)


def is_symbol(value: Any) -> bool:
    """A number that a tracer stands in for."""
    return type(value).__name__ in ("SymInt", "SymFloat", "SymBool", "Proxy")


def is_number(value: Any) -> bool:
    if isinstance(value, (int, float, complex, np.number, np.bool_)):
        return True
    return is_one(value, "biufcV") or is_symbol(value)


def is_list_of(value: Any, element: Type, size: int | None) -> bool:
    """Whether PyTorch takes a value for a list; of numbers it looks at the first one only."""
    if not isinstance(value, (list, tuple)):
        return bool(size) and element.word != "Tensor" and fits_type(value, element, None)
    if element.word == "Tensor" or element.kind() == "OptionalType":
        return all([fits_type(v, element, None) for v in value])
    # None stands for a size that is not changed, in adaptive pooling; a bool tensor is refused by
    # what reads the size.
    if not value or value[0] is None or fits_type(value[0], element, None):
        return True
    return element.word == "SymInt" and is_one(value[0], "b")


def fits_type(value: Any, wanted: Type, size: int | None) -> bool:
    """Whether a value is of the kind that a schema names; other kinds are not judged."""
    kind = wanted.kind()
    if kind == "OptionalType":
        return value is None or fits_type(value, wanted.getElementType(), size)
    if kind == "ListType":
        return is_list_of(value, wanted.getElementType(), size)
    word = wanted.word
    if word == "Tensor":
        return isinstance(value, TensorBase)
    if word in ("int", "SymInt"):
        return is_whole(value)
    if word == "float":
        return not isinstance(value, complex) and is_number(value)
    if word in ("Scalar", "complex"):
        return is_number(value)
    if word in ("bool", "SymBool"):
        return isinstance(value, (bool, np.bool_)) or is_one(value, "b") or is_symbol(value)
    if word == "str":
        return isinstance(value, str)
    return True


def spoken_kind(wanted: Type) -> str:
    """The name of a kind in PyTorch's messages."""
    if wanted.kind() == "OptionalType":
        return spoken_kind(wanted.getElementType())
    if wanted.kind() == "ListType":
        inner = spoken_kind(wanted.getElementType())
        return f"tuple of {inner}s"
    return {"SymInt": "int", "Scalar": "Number", "SymBool": "bool"}.get(wanted.word, wanted.word)


class Matched:
    """The arguments of a call in the places of a schema."""

    def __init__(self, schema: FunctionSchema, args: tuple[Any, ...], kwargs: Any) -> None:
        places = [a for a in schema.arguments if not a.kwarg_only]
        self.values: list[tuple[Argument, int, Any]] = []
        # `f(1, 2)` where `f((1, 2))` is meant: only the last place can be such a list.
        spread = len(args) > len(places) and len(places) < 3 and is_sizes(places)
        spread = spread and is_whole(args[len(places) - 1])
        if spread:
            args = (*args[: len(places) - 1], args[len(places) - 1 :])
        elif len(args) == len(places) and places and is_sizes(places) and not places[-1].N:
            if not isinstance(args[-1], (list, tuple)) and is_whole(args[-1]):
                args = (*args[:-1], (args[-1],))
        self.surplus = len(args) > len(places)
        for position, (argument, value) in enumerate(zip(places, args, strict=False)):
            self.values.append((argument, position, value))
        named = {a.name: a for a in schema.arguments}
        for name, value in kwargs.items():
            argument = named.get(name) or named.get("self" if name == "input" else name)
            if argument is not None:
                self.values.append((argument, -1, value))
            elif name not in ALWAYS:
                self.surplus = True
        given = {a.name for a, _, _ in self.values}
        self.missing = [
            a for a in schema.arguments if a.name not in given and not a.has_default_value()
        ]

    def misfit(self, method: bool) -> tuple[Argument, int, Any] | None:
        """The first argument that is not of its kind."""
        for argument, position, value in self.values:
            if not fits_type(value, argument.real_type, argument.N):
                if position == 0 and not method and is_number(value):
                    continue  # a number may stand for the first tensor of some functions
                return argument, position, value
        return None


def is_sizes(places: list[Argument]) -> bool:
    last = places[-1].real_type
    return last.kind() == "ListType" and last.getElementType().word in ("int", "SymInt")


def refusal(
    name: str,
    spoken: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    method: bool,
    partial: bool = False,
) -> Exception | None:
    """PyTorch's error for arguments of the wrong kind or beyond 64 bits; None if they are neither.

    `name` is the op's in the schemas, `spoken` the function's in messages; `partial`: a function
    in Python supplies the arguments that are missing.

    >>> from tapegrad._library.argument_kinds import refusal
    >>> refusal("trace", "trace", ([],), {}, False)
    TypeError("trace(): argument 'input' (position 1) must be Tensor, not list")
    >>> refusal("trace", "trace", (torch.ones(2, 2),), {}, False)
    >>> refusal("unsqueeze", "unsqueeze", (torch.ones(2), 10**30), {}, False)
    ValueError('Overflow when unpacking long long')
    """
    schemas = aten_schemas(name) or aten_schemas(name.removesuffix("_"))
    matches = [
        Matched(schema, args, kwargs)
        for schema in schemas
        if all(["Dimname" not in a.words for a in schema.arguments])
    ]
    near = [m for m in matches if not m.surplus and (partial or not m.missing)]
    if not near:
        return None
    wrong = [m.misfit(method) for m in near]
    for match, misfit in zip(near, wrong, strict=True):
        if misfit is None:
            return too_large(spoken, match)
    if len(near) > 1:
        shown = args[1:] if method else args
        kinds = [kind_of(v) for v in shown] + [f"{k}={kind_of(v)}" for k, v in kwargs.items()]
        return TypeError(
            f"{spoken}() received an invalid combination of arguments - got ({', '.join(kinds)}), "
            "but expected one of:\n" + "\n".join([f" * {m}" for m in signatures(matches)])
        )
    assert wrong[0] is not None
    argument, position, value = wrong[0]
    shown_name = "input" if argument.name == "self" else argument.name
    place = f" (position {position + (not method)})" if position >= 0 else ""
    found = f"not {kind_of(value)}"
    if isinstance(value, (list, tuple)) and is_sizes([argument]):
        found = f"but found element of type {kind_of(value[0])} at pos 0"
    return TypeError(
        f"{spoken}(): argument '{shown_name}'{place} must be {spoken_kind(argument.real_type)}, "
        f"{found}"
    )


def ambiguous(
    name: str, spoken: str, args: tuple[Any, ...], kwargs: dict[str, Any], method: bool
) -> TypeError | None:
    """PyTorch's error for an unknown keyword where several overloads take that many arguments."""
    schemas = [
        schema
        for schema in aten_schemas(name)
        if "out" not in schema.overload_name
        and not schema.overload_name.startswith("Scalar")  # a Tensor or a number, in one signature
        and all(["Dimname" not in a.words for a in schema.arguments])
        and len(schema.arguments) + (not method) >= len(args) + len(kwargs)
    ]
    if len(schemas) < 2:
        return None
    matches = [Matched(schema, args, {}) for schema in schemas]
    shown = args[1:] if method else args
    kinds = [kind_of(v) for v in shown] + [f"{k}={kind_of(v)}" for k, v in kwargs.items()]
    got = ", ".join(kinds) + (", " if len(kinds) == 1 else "")
    return TypeError(
        f"{spoken}() received an invalid combination of arguments - got ({got}), "
        "but expected one of:\n" + "\n".join([f" * {m}" for m in signatures(matches)])
    )


def signatures(matches: list[Matched]) -> list[str]:
    """The parameters of each overload, for a message."""
    found = []
    for match in matches:
        known = [a for a, _, _ in match.values] + match.missing
        found.append(", ".join([f"{spoken_kind(a.real_type)} {a.name}" for a in known]))
    return [f"({text})" for text in found]


# A number is taken for a tensor here: the overload for it is no signature of its own.
NUMBER_IS_TENSOR = {"add.Scalar", "sub.Scalar", "mul.Scalar", "div.Scalar"}
IN_PYTHON = {"ScalarType": "torch.dtype", "Layout": "torch.layout", "Device": "torch.device"}
IN_PYTHON |= {"MemoryFormat": "torch.memory_format", "Generator": "torch.Generator"}


def no_overload(
    spoken: str, args: tuple[Any, ...], kwargs: dict[str, Any], method: bool
) -> TypeError | None:
    """PyTorch's error for a call that no signature of a function takes; None if it has one only."""
    plain = spoken.removesuffix("_")
    schemas = []
    for schema in aten_schemas(spoken):
        full = f"{plain}.{schema.overload_name}"
        words = [a.words for a in schema.arguments]
        hidden = full in NUMBER_IS_TENSOR or "Dimname" in " ".join(words)
        if method:  # the first tensor is the object; only functions name a dtype of the result
            hidden |= not words[0].startswith("Tensor") or schema.overload_name == "dtype"
        if not hidden:
            schemas.append(schema)
    if len(schemas) < 2 and not any([has_deprecated_form(s) for s in schemas]):
        return None
    schemas.sort(key=tensors_first)
    texts = [signature(schema, method) for schema in schemas]
    shown = args[1:] if method else args
    kinds = [kind_of(v) for v in shown] + [f"{k}={kind_of(v)}" for k, v in kwargs.items()]
    expected = texts[0] if len(texts) == 1 else "one of:\n" + "".join([f" * {t}\n" for t in texts])
    return TypeError(
        f"{spoken}() received an invalid combination of arguments - got ({', '.join(kinds)}), "
        f"but expected {expected}"
    )


def has_deprecated_form(schema: FunctionSchema) -> bool:
    """Whether PyTorch also takes a factor first, as in `add(input, alpha, other)`.

    So with the functions of tensors that have a factor as keyword; messages do not show the form.
    """
    factors = [a for a in schema.arguments if a.kwarg_only and a.words == "Scalar"]
    places = [a.words[:6] == "Tensor" for a in schema.arguments if not a.kwarg_only]
    return all(places) and any([a.default_text == "1" for a in factors])


def tensors_first(schema: FunctionSchema) -> tuple[list[bool], int]:
    """The order in which PyTorch tries overloads: tensors before numbers, few before many."""
    places = [a for a in schema.arguments if not a.kwarg_only]
    return [a.words[:6] != "Tensor" for a in reversed(places)], len(schema.arguments)


def signature(schema: FunctionSchema, method: bool) -> str:
    """The parameters of a schema as PyTorch's messages list them."""
    places, named = [], []
    for argument in schema.arguments[method:]:
        kind = spoken_kind(argument.real_type)
        name = argument.name
        if name == "self" and kind == "Tensor":
            name = "input"
        text = f"{IN_PYTHON.get(kind, kind)} {name}"
        if argument.has_default_value():
            text += f" = {argument.default_text}"
        (named if argument.kwarg_only else places).append(text)
    if not method and all([r.words == "Tensor" for r in schema.returns]):
        many = len(schema.returns) > 1  # the schemas leave `out` away
        named.append(f"{'tuple of Tensors' if many else 'Tensor'} out = None")
    return f"({', '.join([*places, *(['*'] if named else []), *named])})"


def too_large(spoken: str, match: Matched) -> Exception | None:
    """The error for an int, alone or in a list, that 64 bits do not hold."""
    for argument, _, value in match.values:
        kind = argument.real_type
        inner = kind
        while inner.element is not None:
            inner = inner.element
        if inner.word not in ("int", "SymInt"):
            continue
        if isinstance(value, int) and not LEAST <= value <= MOST:
            return ValueError(OVERFLOW)
        for position, each in enumerate(value if isinstance(value, (list, tuple)) else (), 1):
            if isinstance(each, int) and not LEAST <= each <= MOST:
                return TypeError(
                    f"{spoken}(): argument '{argument.name}' failed to unpack the object at pos "
                    f'{position} with error "{OVERFLOW}"'
                )
    return None
