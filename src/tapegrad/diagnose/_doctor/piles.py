"""Graphs that live longer than their iteration, and the line that keeps them (D26, D27)."""

from __future__ import annotations

import re
import weakref
from collections import deque
from typing import Any

from ...core.base import TensorBase
from ...errors import evidence
from ...errors.evidence import Place
from .state import Patient
from .values import line_in, line_of_attribute, reachable, source_of, tensors_in
from .watch import BackwardCall, ForwardCall, Listener, StepCall, place_of_spot

OLD = 2  # steps after which nobody should need a graph any more
PILE = 4  # old ones at the same time
CHAIN = 3  # earlier losses in the history of one tensor
GROWING = 3  # iterations in a row
MOST = 256
MAX_CHAIN = 20_000


class Piles(Listener):
    """Remembers losses and results weakly, and looks now and then who is still there."""

    def __init__(self, patient: Patient) -> None:
        self.patient = patient
        self.stepped = 0  # by an optimizer, or by hand
        self.by_hand = 0
        self.kept: deque[tuple[int, Any, bool]] = deque(maxlen=MOST)  # (step, tensor, is a loss)
        self.roots: deque[tuple[int, int]] = deque(maxlen=MOST)  # (step, seq) of losses
        self.ends: deque[int] = deque(maxlen=8)  # seq of the last loss before each step
        self.last_root = 0
        self.old_nodes = 0
        self.growing = 0

    # ------------------------------------------------------------------ remembering

    def after_forward(self, call: ForwardCall) -> None:
        if call.recording:
            for t in tensors_in(call.result):
                if t._node is not None and not t._node._is_leaf:
                    self.kept.append((self.stepped, weakref.ref(t), False))

    def before_backward(self, call: BackwardCall) -> None:
        if self.patient.report.by_hand > self.by_hand:  # HandSteps has looked before
            self.by_hand = self.patient.report.by_hand
            self.after_a_step()
        for t in call.roots:
            if t._node is not None and not t._node._is_leaf:
                self.kept.append((self.stepped, weakref.ref(t), True))
                self.roots.append((self.stepped, t._node._seq))
                self.last_root = max(self.last_root, t._node._seq)
        self.check_growth(call)

    def after_step(self, call: StepCall) -> None:
        self.after_a_step()

    def after_a_step(self) -> None:
        self.stepped += 1
        if self.last_root:
            self.ends.append(self.last_root)
        if self.stepped in (6, 12, 25) or self.stepped % 50 == 0:
            self.look()

    def finish(self) -> None:
        if self.stepped > OLD + PILE:
            self.look()

    # ------------------------------------------------------------------ D26

    def look(self) -> None:
        if self.patient.report.has("D26"):
            return
        alive: dict[int, list[Any]] = {}
        for step, ref, _ in self.kept:
            t = ref()
            if t is not None and self.stepped - step > OLD:
                alive.setdefault(step, []).append(t)
        if len(alive) >= PILE:
            stored = [ts[0] for ts in alive.values()]
            if self.tell_stored(stored):
                return
        old = {seq for step, seq in self.roots if self.stepped - step > 1}
        if len(old) >= CHAIN:
            self.look_for_chains(old)

    def tell_stored(self, stored: list[Any]) -> bool:
        """Name the container that holds them; without one they only wait for the collector."""
        ids = {id(t) for t in stored}
        for name, value in reachable():
            if isinstance(value, dict):
                items = list(value.values())
            elif isinstance(value, (list, tuple, deque, set)):
                items = list(value)
            else:
                continue
            flat = [i for item in items for i in (item if isinstance(item, tuple) else (item,))]
            if sum(id(i) in ids for i in flat) >= PILE:
                self.patient.report.add(
                    "D26",
                    f"`{name}` holds {len(flat)} tensors, each with the graph of its iteration",
                    line_that_stores(name),
                    f"store numbers: {name}.append(loss.item())",
                    ["loss.detach() for a tensor without its history"],
                )
                return True
        return False

    def look_for_chains(self, old: set[int]) -> None:
        """`total += loss`: one tensor whose history has many losses in it."""
        for name, value in reachable():
            if not isinstance(value, TensorBase) or value._node is None or value._node._is_leaf:
                continue
            inside = 0
            stack, seen = [value._node], {value._node}
            while stack and len(seen) < MAX_CHAIN and inside < CHAIN:
                node = stack.pop()
                inside += node._seq in old
                for edge in node._edges:
                    if edge is not None and not edge._is_leaf and edge not in seen:
                        seen.add(edge)
                        stack.append(edge)
            if inside >= CHAIN:
                self.patient.report.add(
                    "D26",
                    f"the history of `{name}` contains the losses of earlier iterations, and keeps "
                    "their graphs alive",
                    evidence.of_node(value._node),
                    f"add up numbers: {name} += loss.item()",
                    [f"{name} += loss.detach()"],
                )
                return

    # ------------------------------------------------------------------ D27

    def check_growth(self, call: BackwardCall) -> None:
        """Nodes of two iterations ago in this one's graph, and more of them each time."""
        if len(self.ends) < OLD:
            return
        border = self.ends[-OLD]
        old = sum(node._seq <= border for node in call.graph.nodes)
        self.growing = self.growing + 1 if old > self.old_nodes else 0
        self.old_nodes = old
        if self.growing < GROWING:
            return
        where, name = self.crossing(call, self.ends[-1])
        self.patient.report.add(
            "D27",
            f"{old} of {len(call.graph.nodes)} nodes behind the loss were recorded before the last "
            f"steps; {name} carries them over",
            where or place_of_spot(call.where),
            "detach() what is carried from one iteration to the next: h = h.detach()",
            ["leave out retain_graph=True: it hides the error that would have told you"],
        )

    @staticmethod
    def crossing(call: BackwardCall, border: int) -> tuple[Place | None, str]:
        """Where this iteration uses something of the last one."""
        newest: Any = None
        for node, users in call.graph.users.items():
            if node._is_leaf or node._seq > border:
                continue
            for user, _ in users:
                if user._seq > border and (newest is None or user._seq < newest[0]._seq):
                    newest = (user, node)
        if newest is None:
            return None, "a tensor"
        name, _ = evidence.name_of_node(newest[1])
        return evidence.of_node(newest[0]), "a tensor" if name is None else f"`{name}`"


def line_that_stores(name: str) -> Place | None:
    """Where the user's code puts something into the container of that name."""
    base = re.sub(r"\[.*\]$", "", name)
    last = re.escape(base.split(".")[-1])
    pattern = (
        rf"\b{last}\b(\[[^]]*\])*(\.(append|add|extend|insert|appendleft)\(|\[[^]]*\]\s*=|\s*\+=)"
    )
    for frame in evidence.user_frames():
        source = source_of(frame.f_code)
        found = None if source is None else line_in(*source, pattern)
        if found is not None:
            return found
    owner_name, _, attribute = base.rpartition(".")
    for other, value in reachable() if owner_name else ():
        if other == owner_name:
            owner: Any = type(value)
            source = source_of(owner)
            found = None if source is None else line_in(*source, pattern)
            return found or line_of_attribute(value, attribute)
    return None
