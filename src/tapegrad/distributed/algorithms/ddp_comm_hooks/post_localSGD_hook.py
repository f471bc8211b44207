"""Post-local SGD: averages over all ranks at first, later over those of a machine only."""

from __future__ import annotations

from typing import Any

from ..._groups import default_group, new_subgroups
from . import default_hooks
from .powerSGD_hook import finished

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]


class PostLocalSGDState:
    """When the averages become local, and of which ranks they are then."""

    def __init__(
        self,
        process_group: Any,
        subgroup: Any,
        start_localSGD_iter: int,
        post_local_gradient_allreduce: bool = True,
    ) -> None:
        self.process_group, self.subgroup = process_group, subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0


def post_localSGD_hook(state: PostLocalSGDState, bucket: Any) -> Any:
    """The average of a bucket: global, then local. Models are averaged from time to time by
    `model_averaging.averagers`."""
    buffer = bucket.buffer()
    whole = state.iter < state.start_localSGD_iter
    state.iter += bucket.is_last()
    if whole:
        return default_hooks.averaged(state.process_group or default_group(), buffer)
    if not state.post_local_gradient_allreduce:
        return finished(buffer)
    if state.subgroup is None:
        state.subgroup, _ = new_subgroups()
    return default_hooks.averaged(state.subgroup, buffer)
