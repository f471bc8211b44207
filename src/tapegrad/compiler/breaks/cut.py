"""A function cut in pieces at a line that cannot be recorded.

    def step(x, y):
        loss = ...                      # a function of its own, compiled
        losses.append(loss.item())      # as ordinary Python
        optimizer.step()                # compiled
        return loss

What is left of the function is a frame of ordinary Python: the statement in question, the loops and
blocks around it, and calls of pieces in the place of all other statements. The pieces are made of
the function's own source. Each takes the variables that it uses, and gives those that are needed
after it. What a piece cannot stand for (variables that inner functions see change, `locals()`,
generators) is not cut at all.
"""

from __future__ import annotations

import ast
import sys
import types
from collections.abc import Callable
from typing import Any

from ...errors import evidence
from ...utils._pytree import tree_is_leaf
from .calls import APART, SETTLED, STAYS, Callees, Parts, Place, call_at, unfolded
from .source import (
    MADE,
    ODD,
    SCOPES,
    SEES_FRAMES,
    SHIFT,
    all_arguments,
    arguments,
    as_function,
    assigned_in,
    blocks,
    computes,
    copied,
    deleted_in,
    does_nothing,
    is_switch,
    is_worth_it,
    jumps,
    needed_by,
    needed_by_one,
    only_reads,
    plain_targets,
    returns,
    set_for_sure,
    shares_variables,
    source_of,
    used_in,
    walk_here,
)

ABSENT = "__absent__"
PIECE = "__piece_{}__"
OVER, FOUND = "__over__", "__found__"
GUARDED = "__guarded__"  # of pieces: somebody may look at variables after an exception


class Absent:
    """The value that pieces pass for a variable which is not assigned."""

    def __repr__(self) -> str:
        return "no value"


NOTHING = Absent()


class Piece:
    """Some statements of a function: compiled as a function of their own, or left in place."""

    def __init__(
        self,
        run: list[Any],
        function: Any = None,
        takes: Any = (),
        gives: Any = (),
        lines: tuple[int, int] | None = None,
    ) -> None:
        self.function = function
        self.plain = getattr(function, "function", None)  # the same as ordinary Python
        self.takes = takes
        self.gives = gives
        self.calls: Any = None  # Callees
        own = [each for each in run if not hasattr(each, MADE)] or run
        self.lines = lines or (own[0].lineno, own[-1].end_lineno)
        self.only_read = {name for name in takes if only_reads(run, name)}

    def callees(self) -> list[tuple[Any, Any]]:
        """The calls of a statement that was left in place, with their compiled replacements."""
        return list(self.calls.known.values()) if self.calls is not None else []

    def spelled(self) -> str:
        first, last = self.lines
        return f"line {first}" if first == last else f"lines {first} to {last}"

    def __call__(self, *given: Any) -> Any:
        if all(map(tree_is_leaf, given)):
            return self.function(*given)
        for name, value in zip(self.takes, given, strict=True):
            if tree_is_leaf(value):
                continue
            # It may change a list, which others may have, too.
            if not is_shallow(value) or not (type(value) is tuple or name in self.only_read):
                self.function.cut_at([], name)
                return self.plain(*given) if self.function.split is None else self.function(*given)
        return self.function(*given)

    def left(self) -> Any:
        """The variables at the moment when an exception was raised in these statements."""
        place = sys.exc_info()[2]
        found: dict[str, Any] = {}
        codes = (self.plain.__code__, getattr(self.function.split, "code", None))
        while place is not None:
            if place.tb_frame.f_code in codes:
                found = place.tb_frame.f_locals
            place = place.tb_next
        return [found.get(name, NOTHING) for name in self.gives]


def is_shallow(value: Any) -> bool:
    """Whether no list or dict is in another one."""
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return tree_is_leaf(value)
    return all(map(tree_is_leaf, value))


class Split:
    """A function in pieces."""

    def __init__(self, function: Any, frame: Any, pieces: list[Piece]) -> None:
        owner = getattr(function, "__self__", None)
        self.code = frame.__code__
        self.run = frame if owner is None else types.MethodType(frame, owner)
        self.pieces = pieces

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.run(*args, **kwargs)


def cut(
    function: Any,
    places: list[Place],
    name: str,
    compiled: Callable[[Any, frozenset[str]], Any],
    counting: frozenset[str] = frozenset(),
) -> Split | None:
    """A function cut at some lines, or where a variable or an `.attribute` is named.

    `compiled` makes a piece of a function, given the variables that loops around it set, to which
    those in `counting` belong. None if that is not safe, or if there is nothing else in it.
    """
    base = getattr(function, "__func__", function)
    if why_whole(function):
        return None
    definition: Any = source_of(base)
    names = {*base.__code__.co_varnames, *base.__code__.co_cellvars}
    return Cutter(base, definition, names, places, name, compiled, counting).cut(function)


def why_whole(function: Any) -> str:
    """Why a function cannot be cut, wherever that would be; "" if it can."""
    base = getattr(function, "__func__", function)
    if not isinstance(base, types.FunctionType):
        return f"a {type(base).__name__} has no source"
    if base.__code__.co_flags & ODD:
        return "it is a generator or a coroutine"
    looks = sorted(SEES_FRAMES & set(base.__code__.co_names))
    if looks:
        return f"it uses {looks[0]}"
    definition = source_of(base)
    if definition is None:
        return "its source is not known"
    names = {*base.__code__.co_varnames, *base.__code__.co_cellvars}
    return "inner functions share its variables" if shares_variables(definition, names) else ""


def returned_at(function: Any) -> tuple[list[Place], Any]:
    """The `return` statements of a function, and the user's line if there is only one."""
    base = getattr(function, "__func__", function)
    if why_whole(function):
        return [], None
    body = source_of(base).body  # type: ignore[union-attr]
    lines = [each.lineno for each in body for each in walk_here(each) if is_answer(each)]
    starts = [start for start, *_ in base.__code__.co_positions()]
    if len(lines) != 1 or lines[0] not in starts:
        return [Place(line) for line in lines], None
    return [Place(lines[0])], evidence.place(base.__code__, 2 * starts.index(lines[0]))


def is_answer(statement: Any) -> bool:
    return isinstance(statement, ast.Return) and statement.value is not None


class Cutter:
    """The work of cutting one function."""

    def __init__(
        self,
        base: Any,
        definition: ast.FunctionDef,
        names: set[str],
        places: list[Place],
        name: str,
        compiled: Callable[[Any, frozenset[str]], Any],
        counting: frozenset[str],
    ) -> None:
        self.base = base
        self.definition = definition
        self.names = names
        self.places = places
        self.has_call = False  # that is compiled by itself
        self.name = name
        self.compiled = compiled
        self.counting = counting
        self.unsure = deleted_in([each for each in definition.body if not hasattr(each, MADE)])
        whose = (ast.Global, ast.Nonlocal)
        self.scope = [each for each in ast.walk(definition) if isinstance(each, whose)]
        self.pieces: list[Piece] = []
        self.around: dict[str, Any] = {ABSENT: NOTHING}

    def cut(self, function: Any) -> Split | None:
        given = {each.arg for each in all_arguments(self.definition.args)}
        if not any(map(self.is_meant, ast.walk(self.definition))) and self.name not in given:
            return None  # it is somewhere else
        guarded = getattr(self.base, GUARDED, False)
        sure = given - deleted_in(self.definition.body)
        body = self.block(self.definition.body, set(), sure, guarded)
        if not self.has_call and all([piece.function is None for piece in self.pieces]):
            return None  # there is nothing to compile
        args = copied(self.definition.args)
        frame = as_function(self.base, self.definition, body, args, self.around)
        frame.__defaults__ = self.base.__defaults__
        frame.__kwdefaults__ = self.base.__kwdefaults__
        return Split(function, frame, self.pieces)

    def block(self, body: list[Any], after: set[str], sure: set[str], guarded: bool) -> list[Any]:
        """Statements with calls of pieces in the place of most of them.

        `after`: what is needed when they are over; `sure`: variables that have a value before;
        `guarded`: somebody may look at variables after an exception.
        """
        made: list[Any] = []
        run: list[Any] = []
        sure = set(sure)
        body = self.taken_out(body)
        for i, each in enumerate(body):
            stays = self.is_there(each) or hasattr(each, MADE) or jumps(each)
            if not stays:
                run.append(each)
            if run and (stays or i == len(body) - 1):
                rest = body[i:] if stays else []
                made += self.called(run, needed_by(rest, after), sure, guarded)
                sure |= set_for_sure(run) - self.unsure
                run = []
            if stays:
                made += self.opened(each, needed_by(body[i + 1 :], after), sure, guarded)
                sure |= set_for_sure([each]) - self.unsure
        return made

    def taken_out(self, body: list[Any]) -> list[Any]:
        """Statements in which the calls that cannot be recorded are statements of their own."""
        shift = getattr(self.definition, SHIFT, 0)
        made: list[Any] = []
        for each in body:
            pairs = [(p, call_at(each, p.call, shift)) for p in self.places if p.call is not None]
            place, call = next((pair for pair in pairs if pair[1] is not None), (None, None))
            if place is None or hasattr(each, SETTLED):
                made.append(each)
                continue
            inner, names = unfolded(each, call)
            self.names |= names
            self.has_call = True
            if APART not in self.around:
                self.around[APART] = Callees(self.callee)
            self.around[APART].codes.add(place.code)
            made += inner
        return made

    def callee(self, function: Any) -> Any:
        return self.compiled(function, frozenset())

    def opened(self, statement: Any, after: set[str], sure: set[str], guarded: bool) -> list[Any]:
        """A statement that stays, with pieces inside of it."""
        inner = blocks(statement)
        if not inner:
            made = copied(statement)
            if not hasattr(statement, MADE) and computes(statement):
                self.pieces.append(Piece([statement]))
                if not hasattr(statement, STAYS) and not isinstance(statement, SCOPES):
                    made = Parts().visit(made)
                if APART not in self.around:
                    self.around[APART] = Callees(self.callee)
                self.pieces[-1].calls = self.around[APART]
            return [made]
        made = copied(statement)
        if not hasattr(statement, MADE):
            self.pieces.append(Piece([statement], lines=header_of(statement)))
        if isinstance(statement, (ast.For, ast.While)):
            after = after | needed_by_one(statement)
        counting = self.counting
        if isinstance(statement, ast.For):
            sure = sure | (plain_targets(statement.target) - self.unsure)
            self.counting = counting | plain_targets(statement.target)
        has_handlers = hasattr(statement, "handlers")
        if has_handlers:
            after = after | used_in([s for field, body in inner if field != "body" for s in body])
        may_go_on = isinstance(statement, ast.With) and not is_switch(statement)
        guarded = guarded or may_go_on or has_handlers
        handlers = iter(getattr(made, "handlers", ()))
        for field, body in inner:
            found = self.block(body, after, sure, guarded)
            if field == "handlers":
                next(handlers).body = found
            else:
                setattr(made, field, found)
        self.counting = counting
        return [made]

    def called(self, run: list[Any], after: set[str], sure: set[str], guarded: bool) -> list[Any]:
        """Turn statements into a piece; returns its call. Trivial statements at both ends stay."""
        places = [i for i, each in enumerate(run) if computes(each)]
        if not is_worth_it(run):
            return [copied(each) for each in run]
        first, last = places[0], places[-1] + 1
        before, run, behind = run[:first], run[first:last], run[last:]
        after = needed_by(behind, after)
        sure = sure | (set_for_sure(before) - self.unsure)
        certain = set_for_sure(run) - self.unsure
        gives = sorted(assigned_in(run) & self.names & after)
        takes = sorted((needed_by(run) | (set(gives) - certain)) & self.names)
        if guarded:
            takes = sorted({*takes, *gives})
        takes_unsure = [name for name in takes if name not in sure]
        gives_unsure = [name for name in gives if name not in certain | sure]
        ends = isinstance(run[-1], ast.Return)
        over = not ends and any(map(returns, run))
        name = PIECE.format(len(self.pieces))
        body = [copied(each) for each in run]
        begin = parsed([f"if {each} is {ABSENT}: del {each}" for each in takes_unsure], run[0])
        end: list[Any] = []
        if not ends:
            value = gives[0] if len(gives) == 1 else f"({', '.join(gives)})"
            value = f"(False, {value})" if over else value
            lines = [absent_if_unset(each) for each in gives_unsure]
            end = parsed([*lines, f"return {value if gives or over else None}"], run[-1])
            if over:
                body = [Returns().visit(each) for each in body]
        body = [*self.whose(run), *begin, *body, *end]
        made = as_function(self.base, self.definition, body, arguments(takes), {ABSENT: NOTHING})
        setattr(made, GUARDED, guarded)
        piece = Piece(run, self.compiled(made, self.counting), takes, gives)
        self.pieces.append(piece)
        self.around[name] = piece
        calling = self.calling(name, takes, gives, ends, over)
        both = sorted({*takes_unsure, *gives_unsure})
        settled = [f"if {each} is {ABSENT}: del {each}" for each in both]
        if guarded and gives:
            left = f"{', '.join(gives)}, = {name}.left()"
            checks = [f"if {each} is {ABSENT}: del {each}" for each in gives]
            lines = indented(["try:", *calling, "except BaseException:", left, *checks, "raise"])
            calling = ["\n".join(lines)]
        lines = [absent_if_unset(each) for each in takes_unsure] + calling + settled
        return [
            *[copied(each) for each in before],
            *parsed(lines, run[0]),
            *[copied(each) for each in behind],
        ]

    def whose(self, run: list[Any]) -> list[Any]:
        """The `nonlocal` and `global` declarations that these statements need."""
        named = used_in(run) | assigned_in(run)
        found = []
        for each in self.scope:
            names = [name for name in each.names if name in named]
            if names:
                found.append(ast.copy_location(type(each)(names), run[0]))
        return found

    def calling(
        self, name: str, takes: list[str], gives: list[str], ends: bool, over: bool
    ) -> list[str]:
        call = f"{name}({', '.join(takes)})"
        targets = ", ".join(gives)
        if ends:
            return [f"return {call}"]
        if over:
            lines = [f"{OVER}, {FOUND} = {call}", f"if {OVER}: return {FOUND}"]
            return [*lines, f"{targets} = {FOUND}"] if gives else lines
        return [f"{targets} = {call}" if gives else call]

    def is_there(self, statement: Any) -> bool:
        """Whether a statement contains a place that cannot be recorded, or does nothing."""
        return does_nothing(statement) or any(map(self.is_meant, ast.walk(statement)))

    def is_meant(self, node: Any) -> bool:
        if self.places:
            if hasattr(node, STAYS):
                return True
            if not isinstance(node, ast.stmt) or isinstance(node, SCOPES) or hasattr(node, MADE):
                return False
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            return not hasattr(node, SETTLED) and any([p.line in lines for p in self.places])
        if self.name.startswith("."):
            return isinstance(node, ast.Attribute) and node.attr == self.name[1:]
        if isinstance(node, SCOPES) and getattr(node, "name", "") == self.name:
            return True
        return isinstance(node, ast.Name) and node.id == self.name


def header_of(statement: Any) -> tuple[int, int]:
    """The first and the last line of a compound statement (`for …:`, `with …:`) before its body."""
    return statement.lineno, max(statement.lineno, statement.body[0].lineno - 1)


def absent_if_unset(name: str) -> str:
    return f"try: {name}\nexcept NameError: {name} = {ABSENT}"


def indented(lines: list[str]) -> list[str]:
    """Lines indented below the header of a block."""
    return [each if each.endswith(":") else "  " + each.replace("\n", "\n  ") for each in lines]


def parsed(lines: list[str], place: Any) -> list[Any]:
    """Parse generated statements, with the line numbers of one of the user's."""
    found = ast.parse("\n".join(lines)).body
    for each in found:
        setattr(each, MADE, True)
        for node in ast.walk(each):
            if hasattr(node, "lineno"):
                ast.copy_location(node, place)
    return found


class Returns(ast.NodeTransformer):
    """Rewrites `return v` to `return (True, v)`, so that callers see that a piece returned."""

    def visit_Return(self, node: ast.Return) -> Any:
        value = ast.Constant(None) if node.value is None else node.value
        both = ast.Tuple([ast.Constant(True), value], ast.Load())
        return ast.copy_location(ast.Return(ast.copy_location(both, node)), node)

    def visit(self, node: Any) -> Any:
        return node if isinstance(node, SCOPES) else super().visit(node)
