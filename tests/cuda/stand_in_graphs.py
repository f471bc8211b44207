"""CUDA graphs of the stand-in: what is done on the device while one is recorded is done again.

A real GPU runs nothing while it records. Here the work is run, since NumPy finds out shapes and
dtypes by running; at the end all that was written is put back as it was before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


class Recorder:
    """Device work from `begin_capture` to `end_capture`."""

    current: Any = None

    def __init__(self) -> None:
        self.work: list[Callable[[], Any]] = []
        self.before: list[tuple[Any, Any]] = []  # written memory, and what it held

    def end(self) -> Graph:
        for memory, values in reversed(self.before):
            memory[...] = values
        return Graph(self.work)


class Graph:
    """`cupy.cuda.Graph`."""

    def __init__(self, work: list[Callable[[], Any]]) -> None:
        self.work = work

    def launch(self, stream: Any = None) -> None:
        assert Recorder.current is None
        for each in self.work:
            each()

    def upload(self, stream: Any = None) -> None:
        pass


def refuse() -> None:
    """What a GPU refuses while it records."""
    if Recorder.current is not None:
        raise RuntimeError("cudaErrorStreamCaptureUnsupported: operation not permitted")


def computed(run: Callable[[], Any], sources: Any) -> Any:
    """The result of `run`; its memory, if it has one of its own, is filled again by a replay."""
    result = run()
    recorder = Recorder.current
    if recorder is None:
        return result
    several = isinstance(result, (tuple, list))
    inputs = [x for x in flat(sources) if isinstance(x, np.ndarray)]
    places = [np.asarray(r) for r in result] if several else [np.asarray(result)]
    views = [True in [np.may_share_memory(p, x) for x in inputs] for p in places]
    if False not in views:
        return result  # views: what they look at is filled

    def again() -> None:
        new = run()
        for place, value, view in zip(places, new if several else [new], views, strict=True):
            if not view:
                place[...] = value

    with_memory = type(result)(places) if several and type(result) in (tuple, list) else result
    recorder.work.append(again)
    return with_memory if several else places[0]


def written(target: Any, run: Callable[[], Any]) -> Any:
    """Do what writes to `target`, a NumPy array; again in every replay."""
    recorder = Recorder.current
    if recorder is not None:
        recorder.before.append((target, target.copy()))
        recorder.work.append(run)
    return run()


def flat(values: Any) -> list[Any]:
    out: list[Any] = []
    for v in values:
        out.extend(flat(v) if isinstance(v, (tuple, list)) else [v])
    return out
