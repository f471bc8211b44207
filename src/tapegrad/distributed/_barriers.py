"""Meeting points: barrier and monitored_barrier."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ._errors import DistBackendError
from ._running import member, run


def barrier(
    group: Any = None, async_op: bool = False, device_ids: Any = None, timeout: Any = None
) -> Any:
    """Go on when all ranks have come here."""
    pg = member(group, "barrier")
    if pg is None:
        return None
    work = run(pg, pg.host, "barrier", "", lambda engine: engine.barrier(), True)
    if async_op:
        return work
    assert work is not None
    work.wait(timeout)
    return None


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """A barrier that names the ranks which do not come within `timeout`."""
    pg = member(group, "monitored_barrier")
    if pg is None:
        return
    if timeout is None:
        timeout = pg.timeout
    elif isinstance(timeout, (int, float)):
        timeout = timedelta(seconds=timeout)
    work = run(pg, pg.host, "monitored_barrier", "", lambda engine: engine.barrier(), True)
    assert work is not None
    try:
        work.wait(timeout)
    except DistBackendError as error:
        late = getattr(error, "diagnosis", {}).get("late")
        if not late:
            raise
        who = ", ".join(map(str, late)) if wait_all_ranks else late[0]
        word = "Ranks" if wait_all_ranks and len(late) > 1 else "Rank"
        limit = int(timeout.total_seconds() * 1000)
        said = f"[Rank {pg.rank()}]: {word} {who} failed to pass monitoredBarrier in {limit} ms"
        named = RuntimeError("\n".join([said, *str(error).split("\n")[1:]]))
        named.diagnosis = {**error.diagnosis, "message": said}  # type: ignore[attr-defined]
        raise named from None
