"""ZeroRedundancyOptimizer: every rank keeps the optimizer state of its share of the parameters."""

from __future__ import annotations

import copy
from typing import Any

import tapegrad as tg

from ...optim import Optimizer
from .._groups import default_group
from .._objects import broadcast_object_list
from .._spreading import broadcast
from ..algorithms.join import Joinable, JoinHook

__all__ = ["ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """An optimizer whose state is dealt out: each rank updates its share and sends the result.

    Parameters go to the rank with the fewest elements so far, the largest first.
    """

    def __init__(
        self,
        params: Any,
        optimizer_class: Any,
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        self.process_group = process_group or default_group()
        self.rank, self.world_size = self.process_group.rank(), self.process_group.size()
        self._optim_class, self._optim_defaults = optimizer_class, defaults
        self._all_states: list[dict[str, Any]] = []
        super().__init__(params, dict(defaults))
        self._deal_out()

    def _deal_out(self) -> None:
        """Which rank owns which parameter, and the optimizer of this rank's own."""
        loads = [0] * self.world_size
        self._owner: dict[int, int] = {}
        every = [p for group in self.param_groups for p in group["params"]]
        for p in sorted(every, key=lambda p: -p.numel()):
            rank = loads.index(min(loads))
            self._owner[id(p)] = rank
            loads[rank] += p.numel()
        groups = [
            {**group, "params": [p for p in group["params"] if self._owner[id(p)] == self.rank]}
            for group in self.param_groups
        ]
        self._own_groups = [i for i, group in enumerate(groups) if group["params"]]
        own = [groups[i] for i in self._own_groups]
        self.optim = self._optim_class(own, **self._optim_defaults) if own else None

    def _share_settings(self) -> None:
        """Learning rates and the like, which schedulers change here, for the rank's optimizer."""
        if self.optim is None:
            return
        for i, group in zip(self._own_groups, self.optim.param_groups, strict=True):
            group.update({k: v for k, v in self.param_groups[i].items() if k != "params"})

    def step(self, closure: Any = None, **kwargs: Any) -> Any:
        """Update the parameters of this rank, then give and get all of them."""
        loss = None
        if closure is not None:
            with tg.enable_grad():
                loss = closure()
        self._share_settings()
        if self.optim is not None:
            self.optim.step(**kwargs)
        works = []
        for group in self.param_groups:
            for p in group["params"]:
                owner = self._owner[id(p)]
                works.append(
                    broadcast(p.detach(), group=self.process_group, group_src=owner, async_op=True)
                )
        for work in works:
            work.wait()
        return loss

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        if hasattr(self, "_owner"):
            state = {} if self.optim is None else dict(self.optim.state)
            self._deal_out()
            if self.optim is not None:
                self.optim.state.update(state)

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Collect the states of all ranks on rank `to`, which may call state_dict() then."""
        self._all_states = []
        for rank in range(self.world_size):
            box = [self._own_state() if rank == self.rank else None]
            broadcast_object_list(box, group=self.process_group, group_src=rank)
            if self.rank == to:
                self._all_states.append(box[0])

    def _own_state(self) -> dict[int, Any]:
        """State by the number of the parameter among all."""
        places = self._places()
        if self.optim is None:
            return {}
        return {places[id(p)]: copy.copy(state) for p, state in self.optim.state.items()}

    def _places(self) -> dict[int, int]:
        every = [p for group in self.param_groups for p in group["params"]]
        return {id(p): i for i, p in enumerate(every)}

    def state_dict(self) -> dict[str, Any]:
        """The state that the optimizer of one process would have; after consolidate_state_dict on
        this rank.
        """
        if not self._all_states:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. "
                f"Please call `consolidate_state_dict(to={self.rank})` on all ranks beforehand if "
                "you meant to save the global state."
            )
        places = self._places()
        merged = {i: state for part in self._all_states for i, state in part.items()}
        groups = [
            {**group, "params": [places[id(p)] for p in group["params"]]}
            for group in self.param_groups
        ]
        return {"state": dict(sorted(merged.items())), "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take this rank's part of a whole state; the number of ranks may have changed."""
        every = [p for group in self.param_groups for p in group["params"]]
        for group, saved in zip(self.param_groups, state_dict["param_groups"], strict=True):
            group.update({k: v for k, v in saved.items() if k != "params"})
        self._share_settings()
        if self.optim is None:
            return
        for i, state in state_dict["state"].items():
            p = every[i]
            if self._owner[id(p)] == self.rank:
                self.optim.state[p] = copy.deepcopy(state)

    def join_hook(self, **kwargs: Any) -> JoinHook:
        return _ZeroJoinHook(self)

    @property
    def join_device(self) -> Any:
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self) -> Any:
        return self.process_group


class _ZeroJoinHook(JoinHook):
    def __init__(self, zero: ZeroRedundancyOptimizer) -> None:
        self.zero = zero

    def main_hook(self) -> None:
        self.zero.step()
