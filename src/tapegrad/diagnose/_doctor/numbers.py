"""Numbers that are not well: NaN, gradients by depth, updates, a still loss (D18 to D25)."""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any

import numpy as np

from ...errors import evidence
from ...errors.evidence import Place
from ...ops.nn.conv import Convolution
from ...ops.pointwise.rounding_sign import Relu
from ...ops.products.addmm import Addmm, Baddbmm
from ...ops.products.matmul import Bmm, Mm
from ..words import digits
from .nan import suspects, where_nan_began
from .state import Patient
from .values import array_of, copied, double_norm, finite, grad_of, is_zero, named, scalar, wide
from .walk import Walk, op_name, op_of, saved_outputs
from .watch import BackwardCall, Listener, Spot, StepCall, place_of_spot

EARLY = 2  # steps that are not judged: layers that start at zero, warm-up
ROW = 5  # steps in a row that have to agree about depth
FEWEST_LAYERS = 5
VANISHED, EXPLODED = 1e-5, 1e3  # first layers' gradients against the last layers'
LARGE, LARGE_ROW = 0.2, 8  # update to weight
SMALL, SMALL_ROW = 1e-6, 20
STILL = 8  # equal losses in a row, from the first one on
DEAD, DEAD_VALUES = 10, 500  # backward passes in a row with nothing but zeros, and how many zeros
CARRIERS = (Addmm, Mm, Bmm, Baddbmm, Convolution)


class Course:
    """How one optimizer's numbers went."""

    def __init__(self) -> None:
        self.steps = 0
        self.depth: deque[float] = deque(maxlen=ROW)
        self.ratios: deque[float] = deque(maxlen=SMALL_ROW)
        self.checked = 0
        self.rate: float | None = None  # the learning rate of the first step
        self.first_loss: float | None = None
        self.before: dict[int, Any] = {}  # weights before the step that is running


class Losses:
    """The values of the loss at one line."""

    def __init__(self) -> None:
        self.first: float | None = None
        self.last: float | None = None
        self.equal = 0  # steps that changed nothing
        self.moved = False
        self.step = 0


class Numbers(Listener):
    """Looks at values, never through the tape: nothing of this can be seen in a graph."""

    def __init__(self, patient: Patient) -> None:
        self.patient = patient
        self.courses: weakref.WeakKeyDictionary[Any, Course] = weakref.WeakKeyDictionary()
        self.lines: dict[Any, Losses] = {}
        self.last: Losses | None = None
        self.last_line: Any = None
        # Passes in a row with nothing but zeros, and how many zeros, by line and module.
        self.dead: dict[tuple[Any, int, int], tuple[int, int]] = {}
        self.depths: dict[int, Spot] = {}  # the parameters of this step, in the order of use
        self.danger: list[Any] = []  # what NaN gradients may come from
        self.nan_loss: tuple[str, Place | None, str] | None = None
        self.nan_told = False

    # ------------------------------------------------------------------ backward

    def before_backward(self, call: BackwardCall) -> None:
        self.nan_loss = None
        for loss in call.roots:
            array = array_of(loss)
            if array is not None and not finite(array) and not self.nan_told:
                self.nan_loss = self.about_nan(loss, call)
        if len(call.roots) == 1:
            self.note_loss(call)
        for key, node in call.graph.depths().items():
            self.depths.setdefault(key, (node._code, node._lasti))
        self.danger = suspects(call.graph)
        self.check_dead(call.graph)

    def after_backward(self, call: BackwardCall) -> None:
        bad = [
            leaf.tensor()
            for leaf in call.graph.leaves
            if (grad := grad_of(leaf.tensor())) is not None and not finite(grad)
        ]
        # Only a node that had the trouble at hand is named; the values go with the graph.
        self.danger = [d.told() for d in self.danger if bad and d.bad()]

    def about_nan(self, loss: Any, call: BackwardCall) -> tuple[str, Place | None, str]:
        """The finding D18, reported only if a step follows: a GradScaler skips such a step."""
        value = scalar(loss)
        kind = "not finite" if value is None else f"{value}"
        before = self.lines.get(call.where)
        if before is not None and grew(before):
            where = place_of_spot(call.where)
            how = (
                f"it grew from {digits(before.first)} to {digits(before.last)} in the steps before"
            )
            fix = "a smaller learning rate, or clip_grad_norm_() before step()"
        else:
            where, how, fix = where_nan_began(call.graph)
        return f"the loss is {kind}: {how}", where or place_of_spot(call.where), fix

    def tell_nan_loss(self) -> None:
        if self.nan_loss is not None and not self.nan_told:
            self.nan_told = True  # everything after it is NaN too
            self.patient.report.add("D18", *self.nan_loss)

    def note_loss(self, call: BackwardCall) -> None:
        value = scalar(call.roots[0])
        line = self.lines.setdefault(call.where, Losses())
        self.last, self.last_line = line, call.where
        if value is None:
            return
        if line.first is None:
            line.first = value
        elif line.last is None or not abs(value - line.last) <= 1e-7 * abs(line.last):
            line.moved = True
        elif self.patient.step > line.step:  # several backward passes per step prove nothing
            line.equal += 1
        line.moved |= call.roots[0]._array.dtype.itemsize < 4  # half precision: too coarse to tell
        line.last, line.step = value, self.patient.step

    def check_dead(self, graph: Walk) -> None:
        """A ReLU before a layer whose output was zero in every backward of late."""
        for node in graph.nodes:
            if op_of(node) is not Relu or not feeds_layer(node, graph):
                continue
            outputs = saved_outputs(node)
            module = evidence.module_of(node)
            key = (node._code, node._lasti, id(module))
            zero = bool(outputs) and all(is_zero(o) for o in outputs)
            if not zero:
                self.dead.pop(key, None)
                continue
            passes, values = self.dead.get(key, (0, 0))
            told = passes >= DEAD and values >= DEAD_VALUES
            passes, values = passes + 1, values + sum(o.size for o in outputs)
            self.dead[key] = passes, values
            if not told and passes >= DEAD and values >= DEAD_VALUES:
                name = "" if module is None else f" in `{self.patient.module_name(module)}`"
                self.patient.report.add(
                    "D25",
                    f"relu{name} gave nothing but zeros in {passes} passes: no gradient gets "
                    "past it",
                    evidence.of_node(node),
                    "a smaller learning rate, and inputs around zero",
                    ["leaky_relu or gelu, which let a little through", "initialise the layer anew"],
                )

    # ------------------------------------------------------------------ step

    def before_step(self, call: StepCall) -> None:
        course = self.courses.setdefault(call.optimizer, Course())
        course.steps += 1
        course.before = {}
        if call.closure:
            return
        self.tell_nan_loss()
        self.check_finite(call)
        if course.steps > EARLY and often(course.steps):
            self.check_depth(call, course)
        if often(course.steps):
            self.remember_weights(call, course)
        self.check_still(call, course)

    def after_step(self, call: StepCall) -> None:
        course = self.courses.setdefault(call.optimizer, Course())
        self.tell_nan_loss()  # of a closure
        if course.before:
            self.check_update(call, course)
        course.before = {}
        self.depths = {}

    def finish(self) -> None:
        if not self.patient.step:  # no optimizer: somebody updates by hand
            self.tell_nan_loss()

    def check_finite(self, call: StepCall) -> None:
        if self.nan_told:
            return
        bad = [p for p in call.parameters if (g := grad_of(p)) is not None and not finite(g)]
        if not bad:
            return
        self.nan_told = True
        names = named([self.patient.name(p) for p in bad], 3)
        what = f"step() was called with NaN or infinite gradients in {names}"
        where, fix = place_of_spot(call.where), "run it once under torch.autograd.detect_anomaly()"
        also = []
        if self.danger:
            where, reason, cure = self.danger[0]
            also, fix = [f"{fix} to see the op that made them"], cure
            what += f"; {reason}"
        else:
            also = ["clip_grad_norm_() before step(), or a smaller learning rate"]
        self.patient.report.add("D19", what, where, fix, also)

    # ------------------------------------------------------------------ depth

    def check_depth(self, call: StepCall, course: Course) -> None:
        sizes = []
        by_id = {id(p): p for p in call.parameters}
        for key, spot in self.depths.items():
            p = by_id.get(key)
            grad = None if p is None or p._array.ndim < 2 else grad_of(p)
            if grad is not None and (size := typical(grad)) > 0:
                sizes.append((size, p, spot))
        if len(sizes) < FEWEST_LAYERS:
            course.depth.clear()
            return
        logs = np.log10([size for size, _, _ in sizes])
        quarter = max(1, len(logs) // 4)
        gap = float(np.median(logs[:quarter]) - np.median(logs[-quarter:]))
        steps = np.diff(logs)
        steady = float(np.mean(steps > 0 if gap < 0 else steps < 0)) >= 0.7
        course.depth.append(gap if steady else 0.0)
        if len(course.depth) < ROW:
            return
        first, last = sizes[0], sizes[-1]
        where = place_of_spot(first[2]) or place_of_spot(call.where)
        facts = (
            f"the gradients of `{self.patient.name(first[1])}` are about {digits(first[0])}, those "
            f"of `{self.patient.name(last[1])}` {digits(last[0])}, {len(sizes) - 1} layers later"
        )
        if max(course.depth) < np.log10(VANISHED):
            self.patient.report.add(
                "D20",
                facts + ": the first layers hardly learn",
                where,
                "relu or gelu in the place of sigmoid and tanh, and an initialisation made for "
                "them (nn.init.kaiming_normal_)",
                ["batch norm, layer norm or residual connections between the layers"],
            )
        elif min(course.depth) > np.log10(EXPLODED):
            self.patient.report.add(
                "D21",
                facts,
                where,
                "smaller initial weights (nn.init.kaiming_normal_, xavier_uniform_)",
                ["batch norm or layer norm", "nn.utils.clip_grad_norm_() before step()"],
            )

    # ------------------------------------------------------------------ updates

    def remember_weights(self, call: StepCall, course: Course) -> None:
        weights = [p for p in call.parameters if p._array.ndim > 1 and grad_of(p) is not None]
        weights = weights or [p for p in call.parameters if grad_of(p) is not None]
        course.before = {id(p): copied(x) for p in weights if (x := array_of(p)) is not None}

    def check_update(self, call: StepCall, course: Course) -> None:
        moved = whole = 0.0
        for p in call.parameters:
            before = course.before.get(id(p))
            if before is not None and before.shape == p._array.shape:
                moved += double_norm(copied(array_of(p)) - before) ** 2
                whole += double_norm(before) ** 2
        rate = learning_rate(call.optimizer)
        loss = None if self.last is None else self.last.last
        if course.checked == 0:
            course.rate, course.first_loss = rate, loss
        course.checked += 1
        ratio = (moved / whole) ** 0.5 if whole > 0 else 0.0
        if not np.isfinite(ratio):
            return
        course.ratios.append(ratio)
        recent = list(course.ratios)[-LARGE_ROW:]
        if len(recent) == LARGE_ROW and min(recent) > LARGE and not fell(course.first_loss, loss):
            self.patient.report.add(
                "D22",
                f"a step moves the weights by {digits(100 * float(np.median(recent)))} % of their "
                f"size (0.1 % is usual), and the loss went from {digits(course.first_loss)} to "
                f"{digits(loss)}",
                place_of_spot(call.where),
                f"a smaller learning rate (now {digits(rate)})",
                ["nn.utils.clip_grad_norm_() before step(); inputs scaled to about 1"],
            )
        elif course.checked == SMALL_ROW and 0 < max(course.ratios) < SMALL:
            rising = rate is not None and course.rate is not None and rate > course.rate
            if not rising and not fell(course.first_loss, loss, 0.999):
                self.patient.report.add(
                    "D23",
                    f"a step moves the weights by {100 * max(course.ratios):.1e} % of their size "
                    f"(0.1 % is usual), and the loss stays at {digits(loss)}",
                    place_of_spot(call.where),
                    f"a larger learning rate (now {digits(rate)})",
                )

    # ------------------------------------------------------------------ a loss that stands still

    def check_still(self, call: StepCall, course: Course) -> None:
        line = self.last
        if line is None or line.moved or line.equal < STILL - 1 or not line.last:
            return
        grads = [g for g in map(grad_of, call.parameters) if g is not None]
        if not grads:
            why, fix = "no parameter has a gradient", "compute the loss from the model's output"
        elif all(is_zero(g) for g in grads):
            why = "all gradients are zero"
            fix = "look for a dead relu, a saturated sigmoid, round(), sign(), argmax() or a clamp "
            fix += "in the way: they let no gradient through"
        elif not learning_rate(call.optimizer):
            why, fix = "the learning rate is 0", "set lr, and look at the schedule"
        else:
            why = "the gradients are not zero, but the steps do not change the loss"
            fix = "make sure that the optimizer has the parameters of the model that runs"
        where: Place | None = place_of_spot(self.last_line)
        self.patient.report.add(
            "D24",
            f"the loss has been {digits(line.last)} from the first step on: {why}",
            where,
            fix,
        )


def often(step: int) -> bool:
    return step <= 40 or step % 10 == 0


def typical(grad: Any) -> float:
    """The root mean square of the values that are not zero (rows that a batch did not use are)."""
    size = double_norm(grad)
    count = int(np.count_nonzero(wide(grad)))
    return size / count**0.5 if count and np.isfinite(size) else 0.0


def learning_rate(optimizer: Any) -> float | None:
    rate = optimizer.param_groups[0].get("lr")
    try:
        return None if rate is None else float(rate)
    except (TypeError, ValueError):
        return None


def fell(first: float | None, last: float | None, share: float = 0.9) -> bool:
    """Whether the loss went down; unknown counts as yes."""
    if first is None or last is None or not np.isfinite(last):
        return first is None or last is None
    return last < first - (1 - share) * abs(first)


def grew(line: Losses) -> bool:
    """Whether the loss was running away."""
    return None not in (line.first, line.last) and abs(line.last) > 1e3 * (abs(line.first) + 1)  # type: ignore[arg-type]


def feeds_layer(node: Any, graph: Walk) -> bool:
    """Whether a node's result goes into a layer with weights, past pooling, dropout and views."""
    stack, seen = [(node, 0)], {node}
    while stack:
        current, hops = stack.pop()
        for user, _ in graph.users.get(current, []):
            if op_of(user) in CARRIERS:
                return True
            easy = user._op is not None and (user._op.elementwise or user._op.view)
            if (easy or "pool" in op_name(user)) and user not in seen and hops < 6:
                seen.add(user)
                stack.append((user, hops + 1))
    return False
