"""Hooks, captured gradients and observers of a backward pass.

`Pass.visit` calls this for a node that has hooks, and for all nodes of a pass for `autograd.grad`,
`backward(inputs=...)`, anomaly mode or an observer. engine.py has the pass itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..core.base import STATE, Node
from ..core.late_bound import PROFILER

if TYPE_CHECKING:
    from .engine import Pass, Pending

# Called as observer(node, grad, grads) after each node; anomaly mode and diagnose put theirs here.
observers: Final[list[Any]] = []


def visit_watched(run: Pass, pending: Pending, total: Any) -> None:
    """Run one node of a watched pass, or one with hooks, and show its gradients to who asked."""
    node = pending.node
    hooks = node._hooks
    if hooks is None and run.only_captures:
        visit_captured(run, pending, total)
        return
    owned = pending.owned
    record = run.record
    if not (run.is_whole() or pending.useful or node is run.only_root):
        run.hand_on(node, None, 0, None)
        return
    goes_on = has_to_run(run, pending)
    if run.shared or (hooks is not None and not node._is_leaf):
        owned = 0
    if goes_on:
        # PyTorch: before the tensor hooks here, after them at the end.
        capture(run, node, total)
    if hooks is not None:
        if node._is_leaf and goes_on:
            total, owned = hooks.on_leaf(node, total, record, owned)
        else:
            total = hooks.on_tensors(node, total, record)
    if not goes_on:
        capture(run, node, total)
        run.hand_on(node, None, 0, None)
        return
    grads: Any = ()
    had_hooks = True
    if not node._is_leaf:
        if hooks is not None:
            total = hooks.before(node, total, record)
        if STATE.timing and total is not None:
            PROFILER.start(node.name(), None)
        had_hooks = hooks is not None and len(hooks.after_node) != 0
        # A copy of several gradients: hooks see None where nothing arrived.
        grads = run.pull(node, list(total) if type(total) is list else total)
        hooks = node._hooks  # an unpack hook may have made some, which do not see what arrived
        if grads is not None and not run.is_whole():
            grads = wanted(run, node, grads)
    elif total is not None:
        node._accumulate(total, record, owned, run.caller)
    if hooks is not None:
        grads = hooks.after(node, grads, total if had_hooks else (), record)
    if total is not None:
        if not node._is_leaf:
            for observer in observers:
                observer(node, total, grads)
        if run.observer is not None:
            run.observer(node, total, grads)
    run.hand_on(node, total, owned, grads)


def visit_captured(run: Pass, pending: Pending, total: Any) -> None:
    """Fast path of `visit_watched` for autograd.grad() without hooks or observers."""
    grads: Any = None
    node = pending.node
    if pending.useful or node is run.only_root:
        capture(run, node, total)
        if pending.leads_on:
            grads = run.pull(node, total)
    run.hand_on(node, total, 0, grads)


def has_to_run(run: Pass, pending: Pending) -> bool:
    """Whether a node has to run: grad() may only want what arrives there, or not even that."""
    if run.captures is not None:
        return pending.leads_on
    return run.only_for is None or pending.node in run.only_for or pending.leads_on


def capture(run: Pass, node: Node, total: Any) -> None:
    """Keep a gradient that has arrived at `node` if grad() asks for it."""
    captures = run.captures
    if total is not None and captures is not None and node in captures:
        for slot, place in captures[node]:
            value = total[slot] if type(total) is list else total
            if value is not None:
                run.found[place] = value


def keep_useful(pending: dict[Node, Pending], targets: Any) -> None:
    """Mark the nodes from which no target can be reached; targets themselves are useful."""
    for each in pending.values():
        each.useful = each.leads_on = False
        for edge in each.node._edges:
            if edge is not None:
                below = pending[edge]
                if below.users is None:
                    below.users = [each]
                else:
                    below.users.append(each)
    stack: list[Pending] = [pending[node] for node in targets if node in pending]
    while stack:
        each = stack.pop()
        if not each.useful:
            each.useful = True
            users = each.users
            if users is not None:
                each.users = None
                for user in users:
                    user.leads_on = True
                    if not user.useful:
                        stack.append(user)


def wanted(run: Pass, node: Node, grads: Any) -> list[Any]:
    """`grads` with None for the edges that lead to nothing useful."""
    pairs = zip(node._edges, grads, strict=True)
    return [g if e is not None and run.pending[e].useful else None for e, g in pairs]
