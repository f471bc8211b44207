"""The order of calls in a loop: zero_grad, backward, step, and the schedule (D01 to D05)."""

from __future__ import annotations

import weakref
from typing import Any

from ...errors import evidence
from .state import Patient
from .values import fingerprint, grad_of, is_zero, named
from .watch import BackwardCall, Listener, Spot, StepCall, place_of_spot

SURE = 2  # a fault is reported when it happened for the second time


class Order:
    """Records what happened to the gradients of one optimizer since its last step."""

    def __init__(self) -> None:
        self.after_step: dict[int, tuple[int, int]] = {}  # fingerprints of the gradients used
        self.stacked: set[int] = set()  # gradients that were used and then added to
        self.backwards = 0  # calls of backward, whatever they reached
        self.reached = False  # one of them reached these parameters
        self.detached = False
        self.zeroed: Spot = None  # the last zero_grad() after such a backward
        self.backward_line: Spot = None
        self.steps = 0
        self.faults: dict[str, int] = {}

    def again(self, id: str) -> bool:
        """Count a fault; True from the second time on."""
        self.faults[id] = self.faults.get(id, 0) + 1
        return self.faults[id] >= SURE


class LoopOrder(Listener):
    """Follows the gradients of every optimizer from backward to step and back to zero.

    Gradients are recognised by their values, so that it does not matter how they were reset. Adding
    up several backward passes before a step is fine, and so is anything that happens to gradients
    which no step uses (the discriminator's, while a generator is trained).
    """

    def __init__(self, patient: Patient) -> None:
        self.patient = patient
        self.orders: weakref.WeakKeyDictionary[Any, Order] = weakref.WeakKeyDictionary()
        self.backwards = 0  # before any optimizer is known
        self.early: weakref.WeakKeyDictionary[Any, Spot] = weakref.WeakKeyDictionary()
        self.detached: dict[tuple[Any, int], int] = {}

    def order_of(self, optimizer: Any) -> Order:
        found = self.orders.get(optimizer)
        if found is None:
            found = self.orders[optimizer] = Order()
            found.backwards = self.backwards
        return found

    def optimizer_made(self, optimizer: Any, where: Spot) -> None:
        self.patient.made[optimizer] = where
        self.order_of(optimizer)

    # ------------------------------------------------------------------ backward

    def before_backward(self, call: BackwardCall) -> None:
        self.backwards += 1
        for optimizer, order in list(self.orders.items()):
            order.backwards += 1
            for p in parameters_of(optimizer):
                self.look_before(p, order)

    def look_before(self, p: Any, order: Order) -> None:
        """Is what backward will add to left over from the last step?"""
        grad = grad_of(p)
        used = order.after_step.pop(id(p), None)
        if grad is None or is_zero(grad):
            order.stacked.discard(id(p))
        elif used is not None and fingerprint(p._gradient) == used:
            order.stacked.add(id(p))

    def after_backward(self, call: BackwardCall) -> None:
        # Larger leaves are parameters whose gradient somebody hands in.
        cut = all((t._node is None or t._node._is_leaf) and t._array.size == 1 for t in call.roots)
        cut = cut and bool(call.roots)
        diagnosis = getattr(call.error, "diagnosis", None) or {}
        if cut and (call.error is None or diagnosis.get("id") == "E03"):
            self.note_detached(call)
            return
        leaves = call.graph.leaf_ids
        for optimizer, order in list(self.orders.items()):
            if any(id(p) in leaves for p in parameters_of(optimizer)):
                order.reached = True
                order.zeroed = None
                order.backward_line = call.where

    def note_detached(self, call: BackwardCall) -> None:
        for order in self.orders.values():
            order.detached = True
        if call.where is None:
            return
        self.detached[call.where] = self.detached.get(call.where, 0) + 1
        if self.detached[call.where] < SURE:
            return
        loss = call.roots[0]
        name = evidence.name_of(loss._array) or "the loss"
        cut = evidence.of_cut(loss._cut)
        how = "has no history, so that no gradient reaches a parameter"
        fix = f"compute `{name}` from the model's output with tensor operations only"
        if cut is not None and loss._cut is not None:
            how = f"was cut off by {loss._cut.what} at {evidence.spell(cut)}"
            fix = f"leave out {loss._cut.what}"
        self.patient.report.add(
            "D04",
            f"`{name}` {how}",
            place_of_spot(call.where),
            fix,
            ["do not set requires_grad on a loss: it hides the error that would have told you"],
            count=SURE,
        )

    # ------------------------------------------------------------------ zero_grad and step

    def zero_grad(self, parameters: list[Any], where: Spot) -> None:
        touched = {id(p) for p in parameters}
        for optimizer, order in list(self.orders.items()):
            if order.reached and any(id(p) in touched for p in parameters_of(optimizer)):
                order.zeroed = where

    def before_step(self, call: StepCall) -> None:
        order = self.order_of(call.optimizer)
        if not call.closure:
            self.check_stacked(call, order)
            self.check_empty(call, order)

    def after_step(self, call: StepCall) -> None:
        order = self.order_of(call.optimizer)
        if call.closure:
            self.check_stacked(call, order)
        self.check_early(call, order)
        order.after_step = {
            id(p): fingerprint(p._gradient) for p in call.parameters if grad_of(p) is not None
        }
        order.stacked.clear()
        order.backwards = 0
        order.reached = order.detached = False
        order.zeroed = None
        order.steps += 1

    def check_stacked(self, call: StepCall, order: Order) -> None:
        stale = [p for p in call.parameters if id(p) in order.stacked]
        if not stale or not order.again("D01"):
            return
        names = named([self.patient.name(p) for p in stale], 3)
        self.patient.report.add(
            "D01",
            f"{names}: the gradients of earlier steps are still in .grad, and the new ones were "
            "added to them",
            place_of_spot(call.where),
            "call optimizer.zero_grad() in every iteration, before loss.backward() or right after "
            "optimizer.step()",
            count=SURE,
        )

    def check_empty(self, call: StepCall, order: Order) -> None:
        """Nothing to step with: it was thrown away, or never computed."""
        trained = [p for p in call.parameters if p.requires_grad]
        grads = [g for g in map(grad_of, trained) if g is not None]
        gone = all(is_zero(g) for g in grads)
        if trained and order.reached and gone and (order.zeroed is not None or not grads):
            if order.again("D02"):
                step = place_of_spot(call.where)
                backward = place_of_spot(order.backward_line)
                came = "" if backward is None else f" from {evidence.spell(backward)}"
                self.patient.report.add(
                    "D02",
                    f"every gradient{came} was reset before step() could use it",
                    place_of_spot(order.zeroed) or step,
                    "the order is optimizer.zero_grad(), loss.backward(), optimizer.step()",
                    count=SURE,
                )
            return
        if order.backwards or order.detached or not trained:
            return
        used = order.after_step
        if all(
            p._gradient is None or used.get(id(p)) == fingerprint(p._gradient)
            for p in trained
            if p._gradient is None or grad_of(p) is not None
        ) and order.again("D03"):
            state = "the gradients are still those of the last step"
            self.patient.report.add(
                "D03",
                f"no backward() has run since the last step: {state if grads else 'no gradients'}",
                place_of_spot(call.where),
                "call loss.backward() before every optimizer.step()",
                count=SURE,
            )

    # ------------------------------------------------------------------ the schedule

    def scheduler_step(self, scheduler: Any, too_early: bool, where: Spot) -> None:
        optimizer = scheduler.optimizer
        if too_early and not uses_grad_scaler():
            self.early[optimizer] = where
        else:
            # Several at once: somebody winds a schedule forward to where a run stopped.
            self.early.pop(optimizer, None)

    def check_early(self, call: StepCall, order: Order) -> None:
        where = self.early.pop(call.optimizer, None)
        if where is not None:
            self.patient.report.add(
                "D05",
                "the first learning rate of the schedule was never used",
                place_of_spot(where),
                "call scheduler.step() after optimizer.step()",
            )


def uses_grad_scaler() -> bool:
    """Whether a GradScaler is in sight: it leaves steps out, the first ones above all."""
    return any(
        type(value).__name__ == "GradScaler" and getattr(value, "_enabled", False)
        for frame in evidence.user_frames()
        for value in list(frame.f_locals.values())
    )


def parameters_of(optimizer: Any) -> list[Any]:
    return [p for group in optimizer.param_groups for p in group["params"]]
