"""Connectionist temporal classification: the likelihood of a label sequence over all alignments.

A target of L labels becomes 2L + 1 states, with a blank before, between and after the labels; the
recursions go over time, with all states of all sequences at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arguments import REDUCTIONS
from ...core.array_kind import refuse_meta
from ...core.base import TensorBase, wrap
from ...core.host_arrays import host
from ...core.python_dispatch import same_always
from ..block import SINGLE, Autocast, Block, api, apply, looks_at_values, op
from ..block.batching import join, lift, part
from ..block.checks import invalid_call, not_implemented
from ..block.public import public
from . import reduction as _reduction
from .loss_pointwise import by_number

# Kernels get targets in rows, one per sequence; what stands behind a row's length is not read.
# ruff: noqa: N805

# ---------------------------------------------------------------------- the recursions


class Alignment:
    """The states of every sequence, and what each of them may follow."""

    def __init__(self, xp: Any, log_probs: Any, targets: Any, lengths: Any, blank: int) -> None:
        count = log_probs.shape[1]
        width = 2 * targets.shape[1] + 1
        states = xp.full((count, width), blank, np.int64)
        states[:, 1::2] = targets
        self.last = 2 * lengths[:, None]
        self.inside = xp.arange(width) <= self.last
        self.states = xp.where(self.inside, states, blank)
        # A label may follow the label before it directly, unless it is the same.
        self.skips = xp.zeros((count, width), bool)
        self.skips[:, 3::2] = states[:, 3::2] != states[:, 1:-2:2]
        # By step, sequence and state: the log probability of what the state stands for.
        self.emitted = log_probs[:, xp.arange(count)[:, None], self.states]
        self.emitted[:, ~self.inside] = -xp.inf


def log_sum(xp: Any, a: Any, b: Any, c: Any) -> Any:
    """log(exp(a) + exp(b) + exp(c)), with -inf for nothing."""
    top = xp.maximum(xp.maximum(a, b), c)
    level = xp.where(xp.isinf(top), a.dtype.type(0), top)
    return xp.log(xp.exp(a - level) + xp.exp(b - level) + xp.exp(c - level)) + level


def moved(xp: Any, row: Any, by: int) -> Any:
    """States moved up by `by`, or down if it is negative, with -inf behind them."""
    out = xp.full(row.shape, -xp.inf, row.dtype)
    if by > 0:
        out[:, by:] = row[:, :-by]
    else:
        out[:, :by] = row[:, -by:]
    return out


def forward_sums(xp: Any, a: Alignment) -> Any:
    """The log probability of all ways to be in a state after each step."""
    out = xp.full(a.emitted.shape, -xp.inf, a.emitted.dtype)
    out[0, :, :2] = a.emitted[0, :, :2]
    for t in range(1, out.shape[0]):
        before = out[t - 1]
        jumps = xp.where(a.skips, moved(xp, before, 2), -xp.inf)
        out[t] = log_sum(xp, before, moved(xp, before, 1), jumps) + a.emitted[t]
    return out


def backward_sums(xp: Any, a: Alignment, input_lengths: Any) -> Any:
    """The log probability of all ways to go on from a state, with each step's own part."""
    out = xp.full(a.emitted.shape, -xp.inf, a.emitted.dtype)
    place = xp.arange(out.shape[2])
    end = xp.where((place == a.last) | (place == a.last - 1), 0, -xp.inf).astype(out.dtype)
    final = input_lengths[:, None] - 1
    after = out[0]
    for t in range(out.shape[0] - 1, -1, -1):
        jumps = moved(xp, xp.where(a.skips, after, -xp.inf), -2)
        row = log_sum(xp, after, moved(xp, after, -1), jumps)
        out[t] = xp.where(final == t, end, row) + a.emitted[t]
        after = out[t]
    return out


@op
class CtcLoss(Block):
    """ctc_loss(log_probs, targets, input_lengths, target_lengths, …) -> (Tensor, Tensor).

    The negative log likelihood of each sequence, and the sums that the gradient starts from.
    """

    aten = "ctc_loss.IntList"
    tensors = ("log_probs", "targets", "input_lengths", "target_lengths")
    plain_tensors = ("targets", "input_lengths", "target_lengths")
    outs = ("out", "sums")
    plain_outs = (1,)
    public = False
    autocast = Autocast(cpu=SINGLE)

    def fwd(xp, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity):
        a = Alignment(xp, log_probs, targets, target_lengths, blank)
        sums = forward_sums(xp, a)
        each = xp.arange(log_probs.shape[1])
        ends = sums[xp.maximum(input_lengths - 1, 0), each]
        tail = ends[each, 2 * target_lengths]
        label = ends[each, xp.maximum(2 * target_lengths - 1, 0)]
        label = xp.where(target_lengths > 0, label, -xp.inf).astype(sums.dtype)
        total = xp.logaddexp(tail, label)
        # Without any step, only the empty target is certain.
        total = xp.where(input_lengths > 0, total, xp.where(target_lengths > 0, -xp.inf, 0))
        return -total.astype(sums.dtype), sums

    def d_log_probs(
        F,
        grad,
        log_probs,
        targets,
        input_lengths,
        target_lengths,
        out,
        sums,
        blank,
        zero_infinity,
    ):
        given = (log_probs, targets, input_lengths, target_lengths, out, sums)
        return F.ctc_loss_backward(grad[0], *given, blank, zero_infinity)

    def jvp(
        F,
        log_probs,
        t_log_probs,
        targets,
        input_lengths,
        target_lengths,
        out,
        sums,
        blank,
        zero_infinity,
    ):
        given = (log_probs, targets, input_lengths, target_lengths, out, sums)
        slope = F.ctc_loss_backward(F.ones_like(out), *given, blank, zero_infinity)
        return F.sum(slope * t_log_probs, (0, 2), False, None), None

    def batch(
        F,
        size,
        batched,
        log_probs,
        targets,
        input_lengths,
        target_lengths,
        blank,
        zero_infinity,
    ):
        given = targets, input_lengths, target_lengths
        rows = [join(F, lift(F, x, size, b)) for x, b in zip(given, batched[1:], strict=True)]
        steps = over_time(F, size, log_probs, batched[0])
        out, sums = F.ctc_loss(steps, *rows, blank, zero_infinity)
        return part(F, size, out), by_entry(F, size, sums)


def over_time(F: Any, size: int, x: Any, batched: bool) -> Any:
    """(batch, steps, sequences, …) with the sequences of all entries beside each other."""
    whole = F.permute(lift(F, x, size, batched), (1, 0, 2, 3))
    return F.reshape(whole, (whole.shape[0], whole.shape[1] * whole.shape[2], whole.shape[3]))


def by_entry(F: Any, size: int, x: Any) -> Any:
    """The reverse of `over_time`."""
    time, count, width = x.shape
    return F.permute(F.reshape(x, (time, size, count // size, width)), (1, 0, 2, 3))


@op
class CtcLossBackward(Block):
    """ctc_loss_backward(grad_output, log_probs, …) -> Tensor: the gradient of `ctc_loss`.

    As in PyTorch it is the one of probabilities that sum to one, and has no derivative.
    """

    tensors = (
        "grad_output",
        "log_probs",
        "targets",
        "input_lengths",
        "target_lengths",
        "loss",
        "sums",
    )
    plain_tensors = ("targets", "input_lengths", "target_lengths", "loss", "sums")
    node = "NotImplemented"
    aten = "_ctc_loss_backward"
    public = False
    nearest = "first-order gradients only: create_graph=False"

    def fwd(
        xp,
        grad_output,
        log_probs,
        targets,
        input_lengths,
        target_lengths,
        loss,
        sums,
        blank,
        zero_infinity,
    ):
        a = Alignment(xp, log_probs, targets, target_lengths, blank)
        possible = xp.isfinite(loss)
        # Where all ways together are impossible, so is each: -inf, not the difference of two.
        level = xp.where(possible, loss, 0)[:, None]
        passing = sums + backward_sums(xp, a, input_lengths) + level
        visits = xp.exp(xp.where(xp.isinf(a.emitted), -xp.inf, passing - a.emitted))
        steps, count, classes = log_probs.shape
        where = xp.arange(steps * count).reshape(steps, count, 1) * classes + a.states
        if xp is host:
            seen = xp.bincount(where.reshape(-1), visits.reshape(-1), steps * count * classes)
        else:
            seen = xp.zeros(steps * count * classes, visits.dtype)
            xp.add.at(seen, where.reshape(-1), visits.reshape(-1))
        out = xp.exp(log_probs) - seen.reshape(log_probs.shape)
        out = xp.where(xp.isinf(log_probs), xp.nan, out)
        if not zero_infinity:
            out = xp.where(possible[:, None], out, xp.nan)
        used = xp.arange(steps)[:, None] < input_lengths
        if zero_infinity:
            used = used & possible
        out = xp.where(used[:, :, None], out * grad_output[:, None], 0)
        return out.astype(log_probs.dtype)

    def d_grad_output(F, grad):
        raise RuntimeError("derivative for aten::_ctc_loss_backward is not implemented")

    def d_log_probs(F, grad):
        raise RuntimeError("derivative for aten::_ctc_loss_backward is not implemented")

    def jvp(F, grad_output):
        raise NotImplementedError(
            "Trying to use forward AD with _ctc_loss_backward that does not support it because it "
            "has not been implemented yet."
        )

    def batch(
        F,
        size,
        batched,
        grad_output,
        log_probs,
        targets,
        input_lengths,
        target_lengths,
        loss,
        sums,
        blank,
        zero_infinity,
    ):
        def row(x: Any, place: int) -> Any:
            return join(F, lift(F, x, size, batched[place]))

        out = F.ctc_loss_backward(
            row(grad_output, 0),
            over_time(F, size, log_probs, batched[1]),
            row(targets, 2),
            row(input_lengths, 3),
            row(target_lengths, 4),
            row(loss, 5),
            over_time(F, size, sums, batched[6]),
            blank,
            zero_infinity,
        )
        return by_entry(F, size, out)


# ---------------------------------------------------------------------- arguments

CHECKING = "(while checking arguments for ctc_loss_allocate_outputs)"


def lengths_of(name: str, lengths: Any) -> Any:
    """Lengths as an int64 vector."""
    if isinstance(lengths, TensorBase):
        if lengths._array.dtype.kind not in "iu":
            raise RuntimeError(f"{name} must be integral")
        check_lengths(lengths, lengths._array.tolist())
        return lengths._array.astype(np.int64).reshape(-1)
    return np.array(lengths, np.int64)


@looks_at_values
def check_lengths(lengths: Any, known: Any) -> bool:
    """Whether lengths are those which a recorded call was made with."""
    return bool(lengths._array.tolist() == known)


def is_lengths(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and all([isinstance(n, int) for n in value])


def check_ctc(log_probs: Any, targets: Any, inputs: Any, labels: Any, blank: int) -> None:
    if log_probs.ndim != 3:
        raise RuntimeError(
            f"Expected 3-dimensional tensor, but got {log_probs.ndim}-dimensional tensor for "
            f"argument #1 'log_probs' {CHECKING}"
        )
    steps, count, classes = log_probs.shape
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    for name, lengths in (("input_lengths", inputs), ("target_lengths", labels)):
        if lengths.size != count:
            raise RuntimeError(f"{name} must be of size batch_size")
    for name, lengths in (("input_lengths", inputs), ("target_lengths", labels)):
        for n in lengths[lengths < 0][:1]:
            raise RuntimeError(
                f"Expected {name} to have value at least 0, but got value {n} {CHECKING}"
            )
    if targets.ndim == 1:
        check_size(targets, 0, int(labels.sum()), "")
    elif targets.ndim == 2:
        check_size(targets, 0, count, "")
        check_size(targets, 1, int(labels.max()), "at least ")
    else:
        raise RuntimeError(
            f"Expected 1 to 2 dimensions, but got {targets.ndim}-dimensional tensor for argument "
            f"#2 'targets' {CHECKING}"
        )
    if inputs.max() > steps:
        raise RuntimeError(
            f"Expected input_lengths to have value at most {steps}, but got value {inputs.max()} "
            f"{CHECKING}"
        )


def check_size(targets: Any, dim: int, wanted: int, least: str) -> None:
    size = targets.shape[dim]
    if size < wanted or (size > wanted and not least):
        raise RuntimeError(
            f"Expected tensor to have size {least}{wanted} at dimension {dim}, but got size {size} "
            f"for argument #2 'targets' {CHECKING}"
        )


def in_rows(targets: Any, lengths: Any) -> Any:
    """Targets that stand behind each other, one row per sequence."""
    width = int(lengths.max())
    out = np.zeros((lengths.size, width), np.int64)
    out[np.arange(width) < lengths[:, None]] = targets
    return out


@api(name="ctc_loss", method=False, autocast=Autocast(cpu=SINGLE))
def ctc_loss_by_number(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = 0,
    zero_infinity: bool = False,
) -> Any:
    """ctc_loss(log_probs, targets, input_lengths, target_lengths, …) -> Tensor: connectionist
    temporal classification: sequences without alignment.

    `nn.functional` has the usual spelling.

    >>> log_probs = tensor([[[0.5, 0.5]], [[0.5, 0.5]]]).log()
    >>> ctc_loss(log_probs, tensor([[1]]), [2], [1])
    tensor([0.2877])
    """
    given = (input_lengths, target_lengths)
    tensors = [isinstance(x, TensorBase) for x in (log_probs, targets, *given)]
    if not all(tensors[:2]) or not (all(tensors[2:]) or all([is_lengths(n) for n in given])):
        raise invalid_call(
            "ctc_loss",
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            blank,
            reduction,
            zero_infinity,
        )
    how = by_number("ctc_loss", reduction)
    if tensors[2]:
        refuse_meta("_ctc_loss.Tensor", log_probs)
    inputs = lengths_of("input_lengths", input_lengths)
    labels = lengths_of("target_lengths", target_lengths)
    if not log_probs._array.size:
        raise RuntimeError("log_probs tensor must not be empty")
    batched = log_probs.dim() == 3
    steps = log_probs if batched else log_probs.unsqueeze(1)
    if not batched and targets.dim() == 1:
        targets = targets.unsqueeze(0)
    check_ctc(steps._array, targets._array, inputs, labels, blank)
    if steps.dtype not in (public.float32, public.float64):
        raise not_implemented("ctc_loss_cpu", steps.dtype)
    if targets.dim() == 1:
        rows = wrap(in_rows(targets._array, labels))
    else:
        rows = targets.to(public.int64)
    made = [steps, rows, same_always(wrap(inputs)), same_always(wrap(labels))]
    divisors = same_always(wrap(np.maximum(labels, 1).astype(steps._array.dtype)))
    if steps.is_meta:
        divisors, *made = [t.to("meta") for t in (divisors, *made)]  # type: ignore[attr-defined]
    losses, _ = apply(CtcLoss, tuple(made), (blank, bool(zero_infinity)))
    if zero_infinity:
        losses = public.where(losses == public.inf, public.zeros_like(losses), losses)
    if how == "mean":
        return (losses / divisors).mean()
    if how == "sum":
        return losses.sum()
    return losses if batched else losses.squeeze(0)


# No samples: the gradient is not that of freely chosen `log_probs`.
@api(name="nn.functional.ctc_loss", method=False, autocast=Autocast(cpu=SINGLE))
def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:
    """ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, …) -> Tensor: the
    connectionist temporal classification loss.

    The negative log likelihood of each target, summed over all ways to lay its labels, with
    blanks between them, along the steps of `log_probs` (steps, sequences, classes).

    >>> log_probs = tensor([[[0.5, 0.5]], [[0.5, 0.5]]]).log()
    >>> nn.functional.ctc_loss(log_probs, tensor([[1]]), tensor([2]), tensor([1]))
    tensor(0.2877)
    """
    how = REDUCTIONS.index(_reduction.known_reduction(reduction))
    return ctc_loss_by_number(
        log_probs, targets, input_lengths, target_lengths, blank, how, zero_infinity
    )
