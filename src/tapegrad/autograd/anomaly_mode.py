"""Anomaly mode: remember where each forward op ran, and stop at the first NaN in backward.

While the mode is on, every op's result is looked at too (one pass over the memory, nothing is kept
of healthy values), so that the error can name the op that made the first non-finite value; see
errors/nonfinite.py for what is said about it.
"""

from __future__ import annotations

import math
import sys
import traceback
import weakref
from collections import deque
from typing import Any

import numpy as np

from ..core.base import F32, F64, Node, TensorBase
from ..core.late_bound import ANOMALY_MODE
from ..core.modes import ANOMALY, MODES, AnomalyBlock, set_anomaly
from ..core.per_thread import PerThread
from ..core.transforms.batched import physical_array
from ..core.warned import warn
from ..kernels.cpu import KERNELS
from .hooks import differentiable_places


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on."""
    return ANOMALY.enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode looks for NaN."""
    return ANOMALY.check_nan


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Switch anomaly mode on or off, from here on.

    >>> torch.set_anomaly_enabled(True)
    >>> torch.is_anomaly_enabled()
    True
    >>> torch.set_anomaly_enabled(False)
    """
    set_anomaly(enabled, check_nan, False)


class set_detect_anomaly(AnomalyBlock):
    """Switch anomaly mode on or off, for a `with` block or from here on.

    `check_inf` is tapegrad's own: stop at infinite gradients too.

    >>> x = tensor([-1.0], requires_grad=True)
    >>> with autograd.set_detect_anomaly(True):
    ...     try:
    ...         x.sqrt().sum().backward()
    ...     except RuntimeError as error:
    ...         print(str(error).splitlines()[0])
    Function 'SqrtBackward0' returned nan values in its 0th output.
    """

    def __init__(self, mode: bool, check_nan: bool = True, check_inf: bool = False) -> None:
        super().__init__((mode, check_nan, check_inf), True)


class detect_anomaly(AnomalyBlock):
    """Anomaly mode for a `with` block: errors in backward show the forward line, NaN raises.

    `check_inf` is tapegrad's own: stop at infinite gradients too.

    >>> x = tensor([-1.0], requires_grad=True)
    >>> with autograd.detect_anomaly():
    ...     x.sqrt().sum().backward()
    Traceback (most recent call last):
    RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output.
      ...
    """

    def __init__(self, check_nan: bool = True, check_inf: bool = False) -> None:
        super().__init__((True, check_nan, check_inf), False)
        warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should "
            "only be enabled for debugging.",
            UserWarning,
        )


# ---------------------------------------------------------------------- the forward pass


class Trace:
    """Anomaly mode's record of a node: the user's stack at its creation, and non-finite values."""

    __slots__ = ("birth", "calls", "parent")

    def __init__(self, calls: list[Any], parent: Node | None, birth: Any) -> None:
        # Offset, code, offset, code …, innermost first: one flat list is all there is to collect.
        self.calls = calls
        self.parent = parent  # the node that ran in backward when this one was recorded
        self.birth = birth  # of the first non-finite value: see errors/nonfinite.py

    def __str__(self) -> str:
        pairs = list(zip(self.calls[1::2], self.calls[::2], strict=True))[::-1]
        lines = traceback.StackSummary.from_list(
            [(code.co_filename, line_of(code, i), code.co_name, None) for code, i in pairs]
        )
        return "".join(lines.format())


def line_of(code: Any, lasti: int) -> int:
    line: int = code.co_firstlineno
    for start, end, found in code.co_lines():
        if start <= lasti < end and found is not None:
            line = found
    return line


class Watch(PerThread):
    """The non-finite values that were seen in this thread."""

    frame: Any = None  # where the last node was made; released in backward and when the mode ends
    calls: list[Any]  # and the calls that led there
    pending: Any = None  # the birth of the op whose node is being made
    run: Any = None  # who asked for the backward pass that `first` belongs to
    first: Any = None  # the first non-finite gradient of that pass

    def __init__(self) -> None:
        # (weak reference to the array, its birth) of the latest, recorded or not.
        self.births: deque[tuple[Any, Any]] = deque(maxlen=32)


WATCH = Watch()


def release_frame() -> None:
    """Release the frame in which the last node was recorded."""
    WATCH.frame = None


def remember(node: Node) -> None:
    """Keep where the forward call came from: formatted only if something goes wrong."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code is not node._code:  # the user's, as recorded just now
        frame = frame.f_back
    if frame is None:
        return
    if frame is WATCH.frame and frame.f_lasti == WATCH.calls[0]:
        calls = WATCH.calls  # the same line in the same call as the node before
    else:
        calls = calls_from(frame)
        WATCH.frame, WATCH.calls = frame, calls
    birth = WATCH.pending
    WATCH.pending = None
    if birth is not None and birth["op_record"] != id(node._op):
        birth = None
    node._trace = Trace(calls, MODES.node, birth)


def calls_from(frame: Any) -> list[Any]:
    calls: list[Any] = []
    while frame is not None:
        calls.append(frame.f_lasti)
        calls.append(frame.f_code)
        frame = frame.f_back
    return calls


def check_forward(op: Any, tensors: Any, attrs: tuple[Any, ...], outs: tuple[Any, ...]) -> None:
    """Check the results of an op; note it if they are the first that are not finite."""
    WATCH.pending = None
    if op.view or op.keeps_finite:
        return
    for out in outs:
        if out.dtype.kind in "fcV" and not is_finite(out):
            from ..errors.nonfinite import birth_of

            birth = birth_of(op, tensors, attrs, outs)
            if birth is not None:
                WATCH.pending = birth
                WATCH.births.append((weakref.ref(out), birth))
            return


ANOMALY_MODE.check_forward = check_forward
ANOMALY_MODE.release_frame = release_frame


# ---------------------------------------------------------------------- the backward pass


def guarded(node: Node, total: Any, record: bool) -> Any:
    """Run a node in anomaly mode."""
    before = MODES.node
    MODES.node = node
    WATCH.frame = None
    try:
        grads = node._pull(total, record)
        for g in grads:
            if g is not None and not is_finite(array_of(g)):
                check_gradients(node, total, grads)
                break
    except Exception:
        warn_forward(node)
        raise
    finally:
        MODES.node = before
    return grads


def check_gradients(node: Node, total: Any, grads: Any) -> None:
    """Raise for NaN (or infinity) in gradients; note the first non-finite one of a pass."""
    from ..errors import nonfinite

    caller = MODES.run.caller
    if WATCH.run is not caller:
        WATCH.run = caller
        WATCH.first = None
    found = "", -1
    for i, place in enumerate(differentiable_places(node)):
        kind = nonfinite_kind(grads[place])
        wanted = ANOMALY.check_nan if kind == "nan" else kind == "inf" and ANOMALY.check_inf
        if wanted and not found[0]:
            found = kind, i
    if WATCH.first is None:
        WATCH.first = nonfinite.cause(node, total, grads)
    if found[0]:
        raise nonfinite.returned(node, *found, WATCH.first)


def array_of(g: Any) -> Any:
    """The values of a gradient; inside of vmap those of all entries."""
    if isinstance(g, TensorBase):
        return physical_array(g._values() if g.is_sparse else g)  # type: ignore[attr-defined]
    return g


# Products of longer vectors are shared out among threads, which costs more than it saves.
PIECE = 8192


def is_finite(x: Any) -> bool:
    """Whether there is neither NaN nor infinity: one pass over the memory, in the healthy case."""
    if KERNELS is not None:
        found = KERNELS.all_finite(x)
        if found is not None:
            return bool(found)
    dtype = x.dtype
    if dtype is F32 or dtype is F64:
        # A sum of squares is finite if all its parts are; if it is not, it may just be too large.
        if x.size <= PIECE:
            if math.isfinite(np.vdot(x, x)):
                return True
        else:
            flat = x.ravel("K")
            pieces = [flat[i : i + PIECE] for i in range(0, flat.size, PIECE)]
            if all([math.isfinite(np.vdot(part, part)) for part in pieces]):
                return True
    elif dtype.kind not in "fcV":
        return True
    return bool(np.isfinite(x).all())


def nonfinite_kind(g: Any) -> str:
    """ "nan", "inf", or "" for finite values and None."""
    if g is None or is_finite(array_of(g)):
        return ""
    return "nan" if np.isnan(array_of(g)).any() else "inf"


def warn_or_print(text: str) -> None:
    """A warning that is turned into an error must not hide the error that it explains."""
    try:
        warn(text, UserWarning)
    except UserWarning as warning:
        print(f"UserWarning: {warning}", file=sys.stderr)


def warn_forward(node: Node) -> None:
    trace: Trace | None = node._trace
    if trace is None:
        text = (
            f"Error detected in {node.name()}. No forward pass information available. Enable "
            "detect anomaly during forward pass for more information."
        )
        warn_or_print(text)
        return
    text = (
        f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n"
        f"{trace}"
    )
    warn_or_print(text)
    parent = trace.parent
    while parent is not None and parent._trace is not None:
        # The node was recorded while another one ran in a backward with create_graph=True.
        text = (
            f"Previous calculation was induced by {parent.name()}. Traceback of forward call that "
            f"induced the previous calculation:\n{parent._trace}"
        )
        warn_or_print(text)
        parent = parent._trace.parent


__all__ = [
    "detect_anomaly",
    "guarded",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "remember",
    "set_detect_anomaly",
]
