"""Anomaly mode: remember where each forward op ran, and stop at the first NaN in backward."""

from __future__ import annotations

import traceback
import warnings
from typing import Any

import numpy as np

from ..core.base import STATE, Node, TensorBase, user_frame
from ..core.modes import ANOMALY, MODES, count
from .hooks import differentiable_places


def switch(enabled: bool, check_nan: bool) -> None:
    if enabled != ANOMALY.enabled:
        count(1 if enabled else -1, 0)
    ANOMALY.enabled = STATE.anomaly = enabled
    ANOMALY.check_nan = check_nan


def is_anomaly_enabled() -> bool:
    return ANOMALY.enabled


def is_anomaly_check_nan_enabled() -> bool:
    return ANOMALY.check_nan


class set_detect_anomaly:
    """Switch anomaly mode on or off, for a `with` block or from here on."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.before = (ANOMALY.enabled, ANOMALY.check_nan)
        switch(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        switch(*self.before)


class detect_anomaly:
    """Anomaly mode for a `with` block: errors in backward show the forward line, NaN raises."""

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should "
            "only be enabled for debugging.",
            UserWarning,
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self.before = (ANOMALY.enabled, ANOMALY.check_nan)
        switch(True, self.check_nan)

    def __exit__(self, *error: object) -> None:
        switch(*self.before)


def remember(node: Node) -> None:
    """Keep the stack of the forward call; the frames of this package are left out."""
    frame = user_frame(1)
    if frame is not None:
        node.trace = traceback.extract_stack(frame), MODES.node


def guarded(node: Node, total: Any, record: bool) -> Any:
    """Run a node in anomaly mode."""
    before = MODES.node
    MODES.node = node
    try:
        grads = node.pull(total, record)
        if ANOMALY.check_nan:
            for i, place in enumerate(differentiable_places(node)):
                g = grads[place]
                if g is not None and has_nan(g):
                    raise RuntimeError(
                        f"Function '{node.name()}' returned nan values in its {i}th output."
                    )
    except Exception:
        warn_forward(node)
        raise
    finally:
        MODES.node = before
    return grads


def has_nan(g: Any) -> bool:
    array = g.array if isinstance(g, TensorBase) else g
    return array.dtype.kind in "fcV" and bool(np.isnan(array).any())


def warn_forward(node: Node) -> None:
    level = outside()
    if node.trace is None:
        text = (
            f"Error detected in {node.name()}. No forward pass information available. Enable "
            "detect anomaly during forward pass for more information."
        )
        warnings.warn(text, UserWarning, stacklevel=level)
        return
    stack, parent = node.trace
    lines = "".join(traceback.format_list(stack))
    text = (
        f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n"
        f"{lines}"
    )
    warnings.warn(text, UserWarning, stacklevel=level)
    while parent is not None and parent.trace is not None:
        # The node was recorded while another one ran in a backward with create_graph=True.
        stack, grandparent = parent.trace
        lines = "".join(traceback.format_list(stack))
        text = (
            f"Previous calculation was induced by {parent.name()}. Traceback of forward call that "
            f"induced the previous calculation:\n{lines}"
        )
        warnings.warn(text, UserWarning, stacklevel=level)
        parent = grandparent


def outside() -> int:
    """The stacklevel, for our caller, of the first frame outside this package."""
    import sys

    frame = sys._getframe(1)
    wanted = user_frame(1)
    level = 0
    while frame is not None and frame is not wanted:
        frame = frame.f_back  # type: ignore[assignment]
        level += 1
    return level + 1


__all__ = [
    "detect_anomaly",
    "guarded",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "remember",
    "set_detect_anomaly",
]
