"""A batch norm layer in training on a GPU: one kernel for what takes three ops elsewhere."""

from __future__ import annotations

from typing import Any

from ...core.base import ON_DEVICE, STATE, TensorBase
from ...core.devices import DEVICE, kernel_of
from ...core.dispatch import is_stale
from ...core.function_modes import WATCHED
from ...core.record import finish
from .batch_norm import NativeBatchNorm
from .standardize import statistics_dtype


def layer_step(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    batches: Any,
    momentum: float,
    eps: float,
) -> Any:
    """The forward pass of a layer in training, counting the batch too, by one kernel of a GPU.

    None, and nothing is done, unless all is as simple as it mostly is.
    """
    if not isinstance(input, TensorBase) or input._special != ON_DEVICE or STATE.several:
        return None
    kernel = DEVICE.backend.overrides.get("batch_norm_step")
    x = input._array
    if kernel is None or x.ndim < 2 or not x.size or STATE.timing or STATE.anomaly:
        return None
    if WATCHED or STATE.modes_on != (STATE.only_casting if STATE.casting else 0):
        return None
    shape = (x.shape[1],)
    mask = 0
    for bit, t in ((1, input), (2, weight), (4, bias), (0, running_mean), (0, running_var)):
        if t is None and 2 <= bit <= 4:
            continue
        if not isinstance(t, TensorBase) or t._special != ON_DEVICE:
            return None
        if t._view_of is not None and is_stale(t):
            return None
        if bit != 1 and t._array.shape != shape:
            return None
        if t._wants_grad:
            if not bit:
                return None
            mask |= bit
    if batches._special != ON_DEVICE or batches._view_of is not None or eps <= 0.0:
        return None
    running = (running_mean._array, running_var._array, batches._array)
    arrays = [None if t is None else t._array for t in (weight, bias)]
    found = kernel(x, *arrays, running, eps, momentum)
    if found is None:
        return None
    if NativeBatchNorm.device.kernel is None:
        kernel_of(NativeBatchNorm)  # which finds what the backward pass runs, too
    kept = statistics_dtype(input, weight, bias, running_mean)
    made = finish(NativeBatchNorm, (input, weight, bias), (eps, kept), (), mask, found)[0]
    cell, how = batches._version_cell(), (False, None, None, -1, batches._cut)
    node = made._node
    if node is None or node._code is None:
        cell.bump("add_", how)
    else:  # of the same line
        cell.n += 1
        cell.note("add_", node._code, node._lasti, how)
    return made
