"""Saved values that take most of the memory that the process can have (D29)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...core.array_kind import owner_of
from ...errors import evidence
from ...utils._memory_budget import shown
from .loss import LOOKS
from .state import Patient
from .watch import BackwardCall, Listener

LEAST = 16 << 20  # bytes of saved values that are worth a look at what is free
SHARE = 0.5  # of the memory that is free without the graph


class Room(Listener):
    """Compares what a graph has saved with the memory that is left."""

    def __init__(self, patient: Patient) -> None:
        self.patient = patient
        self.looks: dict[Any, int] = {}

    def before_backward(self, call: BackwardCall) -> None:
        count = self.looks[call.where] = self.looks.get(call.where, 0) + 1
        if count > LOOKS and count % 50:
            return
        saved, node = saved_by(call)
        if saved < LEAST:
            return
        free = free_bytes()
        if free is None or saved < SHARE * (free + saved):
            return
        self.patient.report.add(
            "D29",
            f"the graph has saved {shown(saved)} for backward(), and {shown(free)} are left to the "
            "process; a larger batch or model may end it",
            evidence.of_node(node),
            f'with utils.checkpoint.budget("{shown(saved // 2)}"): around forward and backward '
            "keeps half of it, and computes the rest again",
            ["a smaller batch, and gradients of several batches per step"],
            sampled=True,
        )


def saved_by(call: BackwardCall) -> tuple[int, Any]:
    """The bytes of host memory that a graph has saved, and a node of the line that saved most."""
    seen = {id(evidence.memory(leaf.tensor()._array)) for leaf in call.graph.leaves}
    lines: dict[Any, list[Any]] = {}
    for node in call.graph.nodes:
        line = lines.setdefault((node._code, node._lasti), [0, node])
        for value in node._kept or ():
            if type(value) is np.ndarray:
                owner, whole = owner_of(value)
                if id(owner) not in seen:
                    seen.add(id(owner))
                    line[0] += whole
    sizes = [size for size, _ in lines.values()]
    return sum(sizes), max(lines.values(), key=lambda line: line[0])[1] if lines else None


def free_bytes() -> int | None:
    """How much more memory this process can have; None where the system does not say."""
    found = [
        size
        for size in (free_of_machine(), free_of_container(), free_of_limit())
        if size is not None
    ]
    return max(min(found), 0) if found else None


def fields(path: str) -> dict[str, int]:
    """The numbers of a file of lines such as `MemAvailable:  123 kB`, in bytes."""
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return {}
    parts = [line.split() for line in lines]
    return {p[0].rstrip(":"): int(p[1]) * 1024 for p in parts if len(p) == 3 and p[2] == "kB"}


def free_of_machine() -> int | None:
    return fields("/proc/meminfo").get("MemAvailable")


def free_of_container() -> int | None:
    try:
        limit, used = [
            int(Path(f"/sys/fs/cgroup/{name}").read_text())
            for name in ("memory.max", "memory.current")
        ]
    except (OSError, ValueError):  # no container, or one without a limit ("max")
        return None
    return limit - used


def free_of_limit() -> int | None:
    """The memory that `ulimit -d` and `ulimit -v` leave to the process."""
    try:
        import resource
    except ImportError:
        return None
    used = fields("/proc/self/status")
    found = []
    for kind, name in ((resource.RLIMIT_DATA, "VmData"), (resource.RLIMIT_AS, "VmSize")):
        limit = resource.getrlimit(kind)[0]
        if limit != resource.RLIM_INFINITY and name in used:
            found.append(limit - used[name])
    return min(found, default=None)
