"""Uneven inputs: ranks that have run out shadow the collectives of those that have not."""

from __future__ import annotations

from types import TracebackType
from typing import Any, NamedTuple

import tapegrad as tg

from .._combining import all_reduce
from .._work import Work

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """Called on a rank that has used up its inputs while others go on."""

    def main_hook(self) -> None:
        """Shadow the collectives of one step of the others."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """After all ranks have joined."""


class _JoinConfig(NamedTuple):
    enable: bool
    throw_on_early_termination: bool
    is_first_joinable: bool
    active_ranks: int = 0

    @staticmethod
    def construct_disabled_join_config() -> _JoinConfig:
        return _JoinConfig(False, False, False)


class Joinable:
    """Something whose steps other ranks can shadow: DDP, a sharded optimizer."""

    _join_hook: JoinHook | None = None
    _join_config = _JoinConfig.construct_disabled_join_config()

    def join_hook(self, **kwargs: Any) -> JoinHook:
        raise NotImplementedError

    @property
    def join_device(self) -> Any:
        raise NotImplementedError

    @property
    def join_process_group(self) -> Any:
        raise NotImplementedError


class Join:
    """`with Join([ddp]):` a loop in which ranks may have different numbers of inputs."""

    def __init__(
        self,
        joinables: list[Joinable],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables = joinables
        self._hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        self._enable = enable
        self._throw = throw_on_early_termination
        for i, joinable in enumerate(joinables):
            joinable._join_config = _JoinConfig(enable, throw_on_early_termination, i == 0)
        self._group = joinables[0].join_process_group

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._enable or kind:
            return
        last, joined_before = True, False
        while True:
            active = self._active()
            if active == 0:
                break
            if self._throw:
                self._raise()
            joined_before = True
            last = False
            for hook in self._hooks:
                hook.main_hook()
        last = not joined_before
        for hook in self._hooks:
            hook.post_hook(last)
        for joinable in self._joinables:
            joinable._join_config = _JoinConfig.construct_disabled_join_config()

    def _active(self) -> int:
        """How many ranks still have inputs; this one has none."""
        count = tg.zeros(1)
        all_reduce(count, group=self._group)
        return int(count.item())

    def _raise(self) -> None:
        raise RuntimeError(f"Rank {self._group.rank()} exhausted all inputs.")

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Work | None:
        """Tell the ranks that have joined that this one does another step."""
        config = joinable._join_config
        if not config.is_first_joinable or not config.enable:
            return None
        group = joinable.join_process_group
        count = tg.ones(1)
        work: Any = all_reduce(count, group=group, async_op=True)
        work.wait()
        active = int(count.item())
        if config.throw_on_early_termination and active < group.size():
            raise RuntimeError(
                "Detected at least one rank that exhausted inputs. Throwing across all ranks."
            )
        joinable._join_config = config._replace(active_ranks=active)
        return work  # type: ignore[no-any-return]
