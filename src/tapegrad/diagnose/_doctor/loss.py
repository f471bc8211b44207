"""Losses that compute something else than was meant (D10 to D14), read from the graph."""

from __future__ import annotations

import functools
import re
from typing import Any

from ...errors import evidence
from ...ops.index.gather import Gather
from ...ops.nn.loss_class import NllLoss, NllLoss2D
from ...ops.nn.loss_likelihood import BinaryCrossEntropyWithLogits
from ...ops.nn.loss_pointwise import HuberLoss, MseLoss, MseLossMixed, SmoothL1Loss
from ...ops.pointwise.arithmetic import Mul, Neg, Rsub, Sub, SubAlpha
from ...ops.pointwise.transcendental import Sigmoid
from ...ops.reduce.softmax import LogSoftmax, Softmax
from ...ops.reduce.sums import Mean, MeanAll, Sum, SumAll
from ...ops.shape.dim_views import Expand, Unsqueeze
from .state import Patient
from .walk import Walk, op_name, op_of, through_views
from .watch import BackwardCall, Listener

LOOKS = 3  # backward passes from one line whose graphs are read; then every 50th
REDUCTIONS = (MeanAll, SumAll, Mean, Sum)
PAIRED_LOSSES = (MseLoss, MseLossMixed, SmoothL1Loss, HuberLoss)
# Spelled on purpose: a column against a row.
ON_PURPOSE = re.compile(r"\bNone\b|unsqueeze|newaxis|view\(-1,\s*1\)|reshape\(-1,\s*1\)")


class Losses(Listener):
    """Reads how a loss was computed, from the loss down."""

    def __init__(self, patient: Patient) -> None:
        self.patient = patient
        self.looks: dict[Any, int] = {}
        self.add = functools.partial(patient.report.add, sampled=True)

    def before_backward(self, call: BackwardCall) -> None:
        count = self.looks[call.where] = self.looks.get(call.where, 0) + 1
        if count > LOOKS and count % 50:
            return
        for node in call.graph.nodes:
            op = op_of(node)
            if op is LogSoftmax:
                self.check_log_softmax(node, call.graph)
            elif op in (NllLoss, NllLoss2D):
                self.check_nll(node)
            elif op is BinaryCrossEntropyWithLogits:
                self.check_bce(node)
            elif op in (Sub, Rsub, SubAlpha):
                self.check_pair(node, call.graph)
            elif op is Expand:
                self.check_expand(node, call.graph)

    # ------------------------------------------------------------------ activations twice

    def check_log_softmax(self, node: Any, graph: Walk) -> None:
        below = through_views(node._edges[0])
        where = evidence.of_node(node)
        made = evidence.of_node(below)
        if op_of(below) is Softmax and self.is_loss(node, graph):
            self.add(
                "D11",
                "cross_entropy applies log_softmax itself; its input went through softmax "
                f"{at(made)}",
                where,
                "pass the raw scores (logits) to cross_entropy and leave softmax out",
                ["for probabilities, apply softmax after the loss: probs = logits.softmax(-1)"],
            )
        elif op_of(below) is LogSoftmax:
            self.add(
                "D12",
                f"the input is the result of log_softmax already {at(made)}; cross_entropy "
                "contains one",
                where,
                "use nll_loss on log-probabilities, or cross_entropy on raw scores",
            )

    @staticmethod
    def is_loss(node: Any, graph: Walk) -> bool:
        """Whether log_softmax is cross_entropy's own, or near a reduction anyway."""
        users = [op_of(user) for user, _ in graph.users.get(node, [])]
        return any(u in (NllLoss, NllLoss2D, Mul, Neg, Gather, Sum) for u in users)

    def check_nll(self, node: Any) -> None:
        below = through_views(node._edges[0])
        if op_of(below) in (Softmax, Sigmoid):
            made = evidence.of_node(below)
            self.add(
                "D13",
                "nll_loss wants log-probabilities; its input is the result of "
                f"{op_name(below)} {at(made)}, without the logarithm",
                evidence.of_node(node),
                "use log_softmax in the place of softmax",
                ["use cross_entropy on the raw scores, which does both"],
            )

    def check_bce(self, node: Any) -> None:
        below = through_views(node._edges[0])
        if op_of(below) is Sigmoid:
            made = evidence.of_node(below)
            self.add(
                "D14",
                "binary_cross_entropy_with_logits applies sigmoid itself; its input went through "
                f"sigmoid {at(made)}",
                evidence.of_node(node),
                "pass the raw scores and leave sigmoid out",
                ["keep sigmoid and use binary_cross_entropy (less accurate)"],
            )

    # ------------------------------------------------------------------ (N, 1) against (N,)

    def check_pair(self, node: Any, graph: Walk) -> None:
        """prediction - target where one is a column and the other is flat."""
        fixes = node._fixes
        if fixes is None or len(fixes) != 2 or (node._edges[0] is None) == (node._edges[1] is None):
            return
        shapes = [None if fix is None else tuple(fix[0]) for fix in fixes]
        if not is_mixed(shapes):
            # Where the dtypes differ too, the shape of what needs no gradient is not noted.
            result = self.result_shape(node, graph)
            known = shapes[0] if node._edges[0] is not None else shapes[1]
            if result is None or known is None or not stretched(known, result):
                return
            other = (result[0],) if known == (result[0], 1) else (result[0], 1)
            shapes = [known, other] if node._edges[0] is not None else [other, known]
        predicted = node._edges[0] if node._edges[0] is not None else node._edges[1]
        where = evidence.of_node(node)
        if predicted._is_leaf or where is None or ON_PURPOSE.search(where["text"]):
            return
        if op_of(predicted) is Unsqueeze or not leads_to_loss(node, graph):
            return
        predicts = 0 if node._edges[0] is not None else 1
        self.tell_mixed(shapes[predicts], shapes[1 - predicts], where)

    def check_expand(self, node: Any, graph: Walk) -> None:
        """Report a (N,) against (N, 1) inside mse_loss and its relatives, which broadcast first."""
        shape = shape_of(node)
        wide = wide_shape(node)
        if shape is None or wide is None or not stretched(shape, wide):
            return
        users = [user for user, _ in graph.users.get(node, [])]
        where = evidence.of_node(node)
        if where is None or ON_PURPOSE.search(where["text"]):
            return
        direct = any(op_of(u) in PAIRED_LOSSES for u in users)
        inside = any(op_of(u) is Sub and leads_to_loss(u, graph) for u in users)
        if (direct or inside) and not re.search(r"\bexpand\b", where["text"]):
            size = wide[0]
            self.tell_mixed(shape, (size,) if len(shape) == 2 else (size, 1), where)

    @staticmethod
    def result_shape(node: Any, graph: Walk) -> tuple[int, ...] | None:
        """The shape of what a node made, where somebody who used it knows."""
        for user, i in graph.users.get(node, []):
            if user._kept is not None and user._op is not None and i < user._op.width:
                saved = user._kept[i]
                if hasattr(saved, "shape"):
                    return tuple(saved.shape)
        return None

    def tell_mixed(self, prediction: Any, target: Any, where: evidence.Place) -> None:
        size = prediction[0]
        fix = "squeeze the prediction: pred.squeeze(-1)"
        if len(prediction) == 1:
            fix = "squeeze the target: target.squeeze(-1)"
        self.add(
            "D10",
            f"the prediction has shape {tuple(prediction)} and the target {tuple(target)}: they "
            f"broadcast to ({size}, {size}), and the loss is taken over all pairs",
            where,
            fix,
            ["give both the same shape before the loss: pred.view_as(target)"],
        )


def at(made: evidence.Place | None) -> str:
    return "" if made is None else f"at {evidence.spell(made)}"


def is_mixed(shapes: list[Any]) -> bool:
    """(N, 1) and (N,), in either order, with N > 1."""
    if None in shapes:
        return False
    flat, column = sorted(shapes, key=len)
    return len(flat) == 1 and flat[0] > 1 and column == (flat[0], 1)


def stretched(shape: tuple[int, ...], wide: tuple[int, ...]) -> bool:
    """Whether (N,) or (N, 1) became (N, N)."""
    if len(wide) != 2 or wide[0] != wide[1] or wide[0] < 2:
        return False
    return shape in ((wide[0],), (wide[0], 1))


def shape_of(node: Any) -> tuple[int, ...] | None:
    """The shape that an expand came from."""
    found = node._op.named(node._kept).input_shape if node._kept else None
    return tuple(found) if isinstance(found, tuple) else None


def wide_shape(node: Any) -> tuple[int, ...] | None:
    """The shape that an expand made."""
    found = node._op.named(node._kept).shape if node._kept else None
    return tuple(found) if isinstance(found, tuple) else None


def leads_to_loss(node: Any, graph: Walk) -> bool:
    """Whether only elementwise ops lie between a node and a sum or mean."""
    stack, seen = [node], {node}
    while stack and len(seen) < 100:
        for user, _ in graph.users.get(stack.pop(), []):
            if op_of(user) in REDUCTIONS:
                return True
            if user._op is not None and user._op.elementwise and user not in seen:
                seen.add(user)
                stack.append(user)
    return False
