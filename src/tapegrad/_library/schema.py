"""Schemas: the declaration of an op in PyTorch's notation, read and printed.

>>> from tapegrad._library.schema import parse_schema
>>> parse_schema("my::scale(Tensor x, float by=2., *, int[2] dims=0) -> Tensor").arguments[1]
<torch.Argument 'by'>
"""

from __future__ import annotations

import ast
import functools
import pathlib
import re
from typing import Any

BASES = {
    "Tensor": ("Tensor", "TensorType"),
    "int": ("int", "IntType"),
    "SymInt": ("int", "IntType"),
    "float": ("float", "FloatType"),
    "bool": ("bool", "BoolType"),
    "SymBool": ("bool", "BoolType"),
    "str": ("str", "StringType"),
    "complex": ("complex", "ComplexType"),
    "Scalar": ("number", "NumberType"),
    "ScalarType": ("int", "IntType"),
    "Layout": ("int", "IntType"),
    "MemoryFormat": ("int", "IntType"),
    "QScheme": ("int", "QSchemeType"),
    "Device": ("Device", "DeviceObjType"),
    "DeviceIndex": ("int", "IntType"),
    "Generator": ("Generator", "GeneratorType"),
    "Storage": ("Storage", "StorageType"),
    "Stream": ("Stream", "StreamObjType"),
    "Dimname": ("str", "StringType"),
    "Any": ("Any", "AnyType"),
    "AnyEnumType": ("AnyEnumType", "AnyEnumType"),
    "t": ("t", "VarType"),
}

TOKEN = re.compile(
    r"""\s*(->|::|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|-?\d+\.?\d*(?:[eE][-+]?\d+)?"""
    r"""|[A-Za-z_][\w.]*|[()\[\]?!*,=|:])"""
)

UNKNOWN_TYPE = (
    "unknown type specifier. Common valid schema types include Tensor, SymInt, int, float, bool, "
    "Scalar; for a full list, please see "
    "https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/README.md#func "
)


class Type:
    """The type of an argument: a word, or an optional or a list of another type."""

    def __init__(self, word: str, kind: str, element: Type | None = None) -> None:
        self.word = word  # as the schema has it
        self._kind = kind
        self.element = element

    def kind(self) -> str:
        return self._kind

    def getElementType(self) -> Type:  # noqa: N802 - PyTorch's name
        assert self.element is not None, f"{self} has no elements"
        return self.element

    @property
    def annotation_str(self) -> str:
        return str(self)

    def holds_tensors(self) -> bool:
        """Whether tensors are, or may be, in a value of this type."""
        inner = self
        while inner.element is not None:
            inner = inner.element
        return inner.word == "Tensor"

    def __str__(self) -> str:
        if self.element is None:
            return BASES[self.word][0]
        return f"{'List' if self._kind == 'ListType' else 'Optional'}[{self.element}]"

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Type) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


class AliasInfo:
    """Which memory an argument or a result shares with others, `(a!)` if it is written."""

    def __init__(self, before: set[str], after: set[str], is_write: bool) -> None:
        self.before_set = before
        self.after_set = after
        self.is_write = is_write


class Argument:
    """An argument, or a result, of a schema."""

    def __init__(self, name: str, type: Type, words: str) -> None:
        self.name = name
        self.type = type
        self.words = words  # the type as it is written, with memory: "Tensor(a!)?"
        self.N: int | None = None  # the length of a list
        self.default_value: Any = None
        self.default_text: str | None = None
        self.kwarg_only = False
        self.alias_info: AliasInfo | None = None
        self.is_out = False

    def has_default_value(self) -> bool:
        return self.default_text is not None

    @property
    def real_type(self) -> Type:
        return self.type

    @property
    def is_write(self) -> bool:
        return self.alias_info is not None and self.alias_info.is_write

    def __str__(self) -> str:
        text = f"{self.words} {self.name}" if self.name else self.words
        return text if self.default_text is None else f"{text}={self.default_text}"

    def __repr__(self) -> str:
        return f"<torch.Argument {self.name!r}>"


class FunctionSchema:
    """A name, arguments and results."""

    def __init__(
        self, name: str, overload_name: str, arguments: list[Argument], returns: list[Argument]
    ) -> None:
        self.name = name
        self.overload_name = overload_name
        self.arguments = arguments
        self.returns = returns

    @property
    def is_mutable(self) -> bool:
        return any(a.is_write for a in self.arguments)

    def __str__(self) -> str:
        parts = []
        for a in self.arguments:
            if a.kwarg_only and "*" not in parts:
                parts.append("*")
            parts.append(str(a))
        results = ", ".join(map(str, self.returns))
        bare = len(self.returns) == 1 and not self.returns[0].name
        name = self.name + (f".{self.overload_name}" if self.overload_name else "")
        return f"{name}({', '.join(parts)}) -> {results if bare else f'({results})'}"

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionSchema) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


class Reader:
    """Reads one schema, token by token."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.start = 0  # of the last token

    def peek(self) -> str:
        match = TOKEN.match(self.text, self.at)
        return match[1] if match else ""

    def take(self, wanted: str = "") -> str:
        match = TOKEN.match(self.text, self.at)
        found = match[1] if match else ""
        if match is None or (wanted and found != wanted):
            raise self.wrong(f"expected {wanted or 'a name'} but found '{found or 'eof'}' here")
        self.start, self.at = match.start(1), match.end()
        return found

    def takes(self, wanted: str) -> bool:
        if self.peek() != wanted:
            return False
        self.take()
        return True

    def wrong(self, what: str) -> RuntimeError:
        return RuntimeError(f"{what}:\n{self.text}\n{' ' * self.start}~~~~ <--- HERE\n")

    def schema(self) -> FunctionSchema:
        name = self.take()
        if self.takes("::"):
            name += "::" + self.take()
        name, _, overload = name.partition(".")
        arguments = self.arguments()
        self.take("->")
        returns = self.arguments(False) if self.peek() == "(" else [self.argument(False)]
        if self.peek():
            raise self.wrong(f"expected eof but found '{self.peek()}' here")
        return FunctionSchema(name, overload, arguments, returns)

    def arguments(self, named: bool = True) -> list[Argument]:
        self.take("(")
        found: list[Argument] = []
        kwarg_only = False
        first = True
        while not self.takes(")"):
            if not first and not self.takes(","):
                self.take(")")  # which is not there, and the error says so
            first = False
            if self.takes("*"):
                kwarg_only = True
                continue
            argument = self.argument(named)
            argument.kwarg_only = kwarg_only
            argument.is_out = kwarg_only and argument.is_write
            found.append(argument)
        return found

    def argument(self, named: bool) -> Argument:
        word = self.take()
        if word not in BASES:
            raise self.wrong("\n" + UNKNOWN_TYPE)
        kind = Type(word, BASES[word][1])
        alias, words = self.alias(word)
        length = None
        while self.peek() in ("?", "["):
            if self.takes("?"):
                kind = Type(words, "OptionalType", kind)
                words += "?"
                continue
            self.take("[")
            size = "" if self.peek() == "]" else self.take()
            self.take("]")
            kind = Type(words, "ListType", kind)
            words += f"[{size}]"
            length = int(size) if size else None
            if alias is None and self.peek() == "(":
                alias, words = self.alias(words)
        name = ""
        if self.peek() not in (",", ")", "") or named:
            name = self.take()
        made = Argument(name, kind, words)
        made.alias_info = alias
        made.N = length
        if self.takes("="):
            begin = self.at
            self.default()
            made.default_text = self.text[begin : self.at].strip()
            made.default_value = value_of(made.default_text, made)
        return made

    def alias(self, words: str) -> tuple[AliasInfo | None, str]:
        """`(a)`, `(a!)`, `(a -> *)` after a type."""
        if not self.takes("("):
            return None, words
        before, after = set[str](), set[str]()
        here, write, text = before, False, "("
        while not self.takes(")"):
            token = self.take()
            if token == "->":
                here = after
                text += " -> "
                continue
            text += token
            if token == "!":
                write = True
            elif token != "|":
                here.add(token)
        return AliasInfo(before, after or set(before), write), f"{words}{text})"

    def default(self) -> None:
        depth = 0
        while True:
            token = self.take()
            depth += (token == "[") - (token == "]")
            if depth == 0:
                return


def value_of(text: str, argument: Argument) -> Any:
    """A default as a Python value; a list may be given as one of its elements."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text  # Mean, contiguous_format …: names that stand for numbers
    if argument.N and isinstance(value, (int, float)) and not isinstance(value, bool):
        return [value] * argument.N
    return value


def parse_schema(text: str) -> FunctionSchema:
    """A schema from its text."""
    return Reader(text).schema()


@functools.cache
def aten_text() -> str:
    """The schemas of PyTorch's own ops, a line each, without "aten::"; tools/aten_schemas.py."""
    return pathlib.Path(__file__).with_name("aten_schemas.txt").read_text("utf8")


@functools.cache
def aten_schemas(name: str) -> tuple[FunctionSchema, ...]:
    """The schemas of all overloads of an op of PyTorch's."""
    found = re.findall(rf"^{re.escape(name)}(?:\.\w+)?\(.*$", aten_text(), re.MULTILINE)
    return tuple([parse_schema(f"aten::{line}") for line in found])


def aten_schema(name: str, overload: str) -> FunctionSchema | None:
    """The schema of one overload ("default" is the one without a name), or None."""
    wanted = "" if overload == "default" else overload
    return next((s for s in aten_schemas(name) if s.overload_name == wanted), None)
