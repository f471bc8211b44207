"""From the annotations of a function to a schema."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import operator
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Union

import tapegrad as tg

from .. import dtypes
from ..device import device

__all__ = ["infer_schema"]

WORDS: dict[Any, str] = {
    int: "SymInt",
    float: "float",
    bool: "bool",
    str: "str",
    complex: "complex",
    int | float | bool: "Scalar",
}
LISTED = (list, collections.abc.Sequence)


def words() -> dict[Any, str]:
    """The names of single types in a schema."""
    tensor = {tg.Tensor: "Tensor"}
    return tensor | WORDS | {dtypes.dtype: "ScalarType", device: "Device"}


def type_word(annotation: Any) -> str | None:
    """A type in a schema; None if there is none for it."""
    known = words()
    if annotation in known:
        return known[annotation]
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (Union, types.UnionType):
        rest = tuple([a for a in inside if a is not type(None)])
        if len(rest) < len(inside):
            inner = type_word(functools.reduce(operator.or_, rest))
            return None if inner is None else f"{inner}?"
        return known.get(functools.reduce(operator.or_, rest))
    if origin in LISTED and len(inside) == 1:
        inner = type_word(inside[0])
        return None if inner is None else f"{inner}[]"
    return None


def returned_word(annotation: Any) -> str | None:
    """The results of a function."""
    if annotation is None or annotation is type(None):
        return "()"
    if typing.get_origin(annotation) is tuple:
        inner = [type_word(a) for a in typing.get_args(annotation)]
        return None if None in inner else f"({', '.join(map(str, inner))})"
    return type_word(annotation)


def default_text(value: Any) -> str | None:
    if value is None or isinstance(value, (bool, int, float)):
        return str(value)
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, dtypes.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, device):
        return f'"{value}"'
    return None


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: str | Iterable[str],
    op_name: str | None = None,
) -> str:
    """The schema that the annotations of a function say.

    >>> import tapegrad as torch
    >>> def scale(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
    ...     return x * by
    >>> torch.library.infer_schema(scale, mutates_args=())
    '(Tensor x, float by=2.0) -> Tensor'
    """
    signature = inspect.signature(prototype_function)
    hints = typing.get_type_hints(prototype_function, include_extras=False)

    def wrong(what: str) -> ValueError:
        text = f"infer_schema(func): {what} Got func with signature {signature})"
        return ValueError(text.replace("tapegrad.api.tensor.tensor.", "torch."))

    written = set() if isinstance(mutates_args, str) else set(mutates_args)
    parts: list[str] = []
    for index, (name, p) in enumerate(signature.parameters.items()):
        if p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
            raise wrong("We do not support positional-only args, varargs, or varkwargs.")
        if p.kind is p.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        if p.annotation is p.empty:
            raise wrong(f"Parameter {name} must have a type annotation.")
        word = type_word(hints[name])
        if word is None:
            raise wrong(
                f"Parameter {name} has unsupported type {p.annotation}. The valid types are: "
                f"{valid_types()}."
            )
        if name in written or (mutates_args == "unknown" and word.startswith("Tensor")):
            if not word.startswith("Tensor"):
                raise wrong(
                    f"Parameter {name} is in mutable_args but only Tensors or collections of "
                    "Tensors can be mutated"
                )
            word = f"Tensor(a{index}!){word.removeprefix('Tensor')}"
        parts.append(f"{word} {name}{default_of(p, wrong)}")
    unknown = written - set(signature.parameters)
    if unknown:
        raise wrong(
            f"{unknown} in mutates_args were not found in the custom op's signature. mutates_args "
            "should contain the names of all args that the custom op mutates, or just the string "
            "'unknown' if you don't know."
        )
    if signature.return_annotation is signature.empty:
        raise wrong("No return type annotation was provided. Please add one.")
    returned = returned_word(hints.get("return"))
    if returned is None:
        raise wrong(
            f"Return has unsupported type {signature.return_annotation}. The valid types are: "
            f"{valid_types()}."
        )
    return f"{op_name or ''}({', '.join(parts)}) -> {returned}"


def default_of(p: inspect.Parameter, wrong: Callable[[str], ValueError]) -> str:
    if p.default is p.empty:
        return ""
    text = default_text(p.default)
    if text is None:
        raise wrong(
            f"Parameter {p.name} has an unsupported default value type {type(p.default)}. Please "
            "file an issue on GitHub so we can prioritize this."
        )
    return f"={text}"


def valid_types() -> str:
    """The types that a parameter may have, as a list of words."""
    found: list[Any] = []
    for kind in words():
        found += [kind, kind | None, Sequence[kind], list[kind]]
    return str(dict.fromkeys(found).keys())
