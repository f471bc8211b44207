"""Errors that leave a public function: what it was called with says more than the sentence.

The functions that users call, the operators, indexing and `Module.__call__` hand an exception to
`explain` on its way out. PyTorch's sentence decides which rule explains it, of shapes.py,
shapes_layers.py and ranges.py (E09), kinds.py (E10), arguments.py (both) or missing.py (E15); an
unknown sentence stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..core.base import STATE, TensorBase
from .evidence import describe, here, name_of, of_node, spell_module
from .report import attach


@dataclass
class Advice:
    """The advice of a rule; `tensor` is the argument that is to blame, if one is."""

    what: str
    fixes: list[str]
    details: list[tuple[str, str]]
    facts: dict[str, Any]
    tensor: str | None = None
    inner: bool = False  # a call nearer to the user may explain it better


@dataclass
class Call:
    """A call that failed."""

    name: str  # "linear", "add", "getitem"; "" for a module
    values: dict[str, Any]  # the arguments by name
    module: Any  # the module whose forward is running, or None
    parameters: tuple[str, ...] = ()  # the names that the function takes
    keywords: tuple[str, ...] = ()  # the names that were given
    rest: tuple[Any, ...] = ()  # positional arguments beyond the parameters: sizes one by one

    def tensors(self) -> Iterator[tuple[str, Any]]:
        """The tensors among the arguments; those of a list as `tensors[1]`."""
        for name, value in self.values.items():
            if isinstance(value, TensorBase):
                yield name, value
            elif isinstance(value, (list, tuple)):
                for i, item in enumerate(value):
                    if isinstance(item, TensorBase):
                        yield f"{name}[{i}]", item

    def get(self, argument: str) -> Any:
        """A tensor argument by name, None where there is none."""
        return dict(self.tensors()).get(argument)

    def shape(self, argument: str) -> tuple[int, ...]:
        t = self.get(argument)
        return () if t is None else tuple(t._array.shape)

    def spell(self, argument: str, otherwise: str | None = None) -> str:
        """The user's expression for an argument: for the text of a fix."""
        t = self.get(argument)
        name = None if t is None else name_of(t._array)
        if name is None or name.startswith("a view of"):
            return otherwise or argument
        return name

    def label(self, argument: str) -> str:
        """The name of an argument, with the user's expression for it: for a table."""
        name = self.spell(argument)
        return argument if name == argument else f"{argument} `{name}`"


Rule = Callable[[Call, "re.Match[str]"], Advice | None]


def explain(error: Exception, name: str, names: Any, args: Any, kwargs: Any) -> None:
    """Put what is known about a failed call below the sentence of its exception."""
    known = getattr(error, "diagnosis", None)
    if known is not None and known["noticed"] != here():
        return  # the user's own function between this call and the one that failed
    if not error.args or not isinstance(error.args[0], str) or not raised_here(error):
        return
    sentence = error.args[0] if known is None else known["message"]
    for identity, pattern, rule in rules():
        match = pattern.search(sentence)
        if match is None:
            continue
        call = call_of(name, names, args, kwargs)
        advice = rule(call, match)
        if advice is not None:
            error.args = (sentence,)
            put(error, identity, call, advice)
            return


def call_of(name: str, names: Any, args: Any, kwargs: Any) -> Call:
    """The call as data; a layer of ours counts as a function of its input and its parameters."""
    module = None if STATE.module is None else STATE.module()
    values = {**dict(zip(names, args, strict=False)), **kwargs}
    if "self" in values:
        values = {"input": values.pop("self"), **values}
    if not name and module is not None and is_ours(type(module).__module__):
        name = type(module).__name__.lower()
        for key in ("weight", "bias"):
            if isinstance(getattr(module, key, None), TensorBase):
                values.setdefault(key, getattr(module, key))
    rest = tuple(args[len(names) :])
    return Call(name.rpartition(".")[2], values, module, tuple(names), tuple(kwargs), rest)


OURS = str(__package__).partition(".")[0]


def raised_here(error: Exception) -> bool:
    """Whether the exception was raised in this package, not in code of the user's that it calls."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    # Compiled functions have no file of ours in their tracebacks, but their module.
    return trace is None or is_ours(trace.tb_frame.f_globals.get("__name__"))


def is_ours(module: Any) -> bool:
    """Whether a module, by its name, is of this package, which may answer for torch."""
    return str(module).partition(".")[0] in (OURS, "torch")


def put(error: Exception, identity: str, call: Call, advice: Advice) -> None:
    details = list(advice.details)
    path = None if call.module is None else spell_module(call.module)
    if path is not None:
        details.insert(0, ("module", path))
    culprit = None if advice.tensor is None else call.get(advice.tensor)
    made, tensor = None, None
    if culprit is not None:
        name = name_of(culprit._array)
        tensor = {"as": advice.tensor, **describe(culprit._array, name)}
        if culprit._node is not None and not culprit._node._is_leaf:
            made = of_node(culprit._node)
    now = here()
    attach(
        error,
        identity,
        what=advice.what,
        details=details,
        causes=[("made", f"{advice.tensor} at", None if made == now else made)]
        + [("noticed", "at", now)],
        tensor=tensor or "",
        fixes=advice.fixes,
        function=call.name or None,
        module=path,
        made=made,
        inner=advice.inner,
        **advice.facts,
    )


Rules = list[tuple[str, "re.Pattern[str]", Rule]]
_RULES: Rules = []


def rules() -> Rules:
    """Every rule with its id and the sentence that it explains."""
    if not _RULES:
        from . import arguments, kinds, missing, ranges, shapes, shapes_layers

        tables = (
            ("E09", shapes.RULES),
            ("E09", shapes_layers.RULES),
            ("E09", ranges.RULES),
            ("E09", arguments.SHAPES),
            ("E10", kinds.RULES),
            ("E10", arguments.TYPES),
            ("E15", missing.RULES),
        )
        for identity, table in tables:
            _RULES.extend([(identity, re.compile(p), rule) for p, rule in table.items()])
    return _RULES
