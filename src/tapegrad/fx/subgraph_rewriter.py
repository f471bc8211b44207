"""Find a pattern in a graph and put something else in its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..nn import Module
from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule
from .node import Node

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


class Match(NamedTuple):
    """Where a pattern was found: its last node in the graph, and which node is which."""

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """A match, and the nodes that replaced it."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def _graph_of(pattern: Any) -> Graph:
    if isinstance(pattern, Graph):
        return pattern
    graph: Graph = (
        pattern.graph if isinstance(pattern, GraphModule) else symbolic_trace(pattern).graph
    )
    return graph


def _fits(pattern: Node, node: Any, found: dict[Node, Node]) -> bool:
    """Whether a node is what the pattern says, with all that it is made of."""
    if pattern in found:
        return found[pattern] is node
    if not isinstance(node, Node):
        return False
    found[pattern] = node
    if pattern.op != "placeholder":
        same = pattern.op == node.op and pattern.target == node.target
        if not same or not _same(pattern.args, node.args, found):
            return False
        if not _same(dict(pattern.kwargs), dict(node.kwargs), found):
            return False
    return True


def _same(pattern: Any, given: Any, found: dict[Node, Node]) -> bool:
    if isinstance(pattern, Node):
        return _fits(pattern, given, found)
    if isinstance(pattern, (list, tuple)):
        return (
            isinstance(given, (list, tuple))
            and len(pattern) == len(given)
            and all(_same(p, g, found) for p, g in zip(pattern, given, strict=True))
        )
    if isinstance(pattern, dict):
        return pattern.keys() == given.keys() and all(
            _same(value, given[key], found) for key, value in pattern.items()
        )
    return type(pattern) is type(given) and pattern == given


def _is_closed(found: dict[Node, Node], results: list[Node]) -> bool:
    """Whether nobody outside uses what is inside."""
    inside = {node for pattern, node in found.items() if pattern.op != "placeholder"}
    ends = {found[result] for result in results}
    return all(user in inside for node in inside - ends for user in node.users)


def replace_pattern(
    gm: GraphModule, pattern: Callable[..., Any] | Module, replacement: Callable[..., Any] | Module
) -> list[Match]:
    """Replace every place where a graph does what `pattern` does.

    >>> traced = torch.fx.symbolic_trace(lambda x: torch.neg(x) * 2)
    >>> def pattern(x): return torch.neg(x)
    >>> def instead(x): return torch.relu(x)
    >>> len(torch.fx.replace_pattern(traced, pattern, instead))
    1
    >>> traced(tensor([3.0]))
    tensor([6.])
    """
    return [
        Match(r.anchor, r.nodes_map) for r in replace_pattern_with_filters(gm, pattern, replacement)
    ]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Any,
    replacement: Any = None,
    match_filters: list[Callable[..., bool]] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Any = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """`replace_pattern`, only for matches that every filter accepts."""
    wanted = _graph_of(pattern)
    instead = _graph_of(replacement)
    results = wanted.output_node().all_input_nodes
    inputs = [node for node in wanted.nodes if node.op == "placeholder"]
    done: list[ReplacedPatterns] = []
    taken: set[Node] = set()
    for node in list(gm.graph.nodes):
        found: dict[Node, Node] = {}
        if node._erased or node in taken or not _fits(results[-1], node, found):
            continue
        if len(results) > 1 and not all(result in found for result in results):
            continue
        inside = [n for p, n in found.items() if p.op != "placeholder"]
        if taken.intersection(inside) or not _is_closed(found, results):
            continue
        match = Match(node, found)
        if not all(f(match, gm.graph, wanted) for f in match_filters or ()):
            continue
        given = [node for node in instead.nodes if node.op == "placeholder"]
        values = {new: found[old] for new, old in zip(given, inputs, strict=True)}
        last = max(inside, key=list(gm.graph.nodes).index)
        known = set(gm.graph.nodes)
        with gm.graph.inserting_before(last):
            made = gm.graph.graph_copy(instead, values)
        new = [n for n in gm.graph.nodes if n not in known]
        ends = made if isinstance(made, (list, tuple)) else [made]
        for result, end in zip(results, ends, strict=True):
            found[result].replace_all_uses_with(end)
        for old in sorted(inside, key=list(gm.graph.nodes).index, reverse=True):
            gm.graph.erase_node(old)
        taken.update(inside)
        done.append(ReplacedPatterns(results[-1], found, new))
    gm.recompile()
    return done
