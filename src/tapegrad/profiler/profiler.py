"""`torch.profiler.profile`, on top of the timers in autograd/profiler.py."""

from __future__ import annotations

import gzip
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from ..autograd import profiler as timers
from ..autograd.profiler_util import EventList

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


class ProfilerActivity(Enum):
    """Kinds of events to watch. CUDA may be asked for; there is nothing to see.

    >>> torch.profiler.ProfilerActivity.CPU in torch.profiler.supported_activities()
    True
    """

    CPU = 0
    CUDA = 2


def supported_activities() -> set[ProfilerActivity]:
    """The activities that a profile can watch here."""
    return {ProfilerActivity.CPU}


class ProfilerAction(Enum):
    """The profiler's action in one iteration.

    >>> [action.name for action in torch.profiler.ProfilerAction]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'DEVICE_STOPPED']
    """

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """Skip some iterations, then in turns wait, warm up and record.

    >>> when = torch.profiler.schedule(wait=1, warmup=0, active=1)
    >>> [when(i).name for i in range(3)]
    ['NONE', 'RECORD_AND_SAVE', 'NONE']
    """
    if wait < 0 or warmup < 0 or active <= 0 or repeat < 0 or skip_first < 0:
        raise AssertionError("Invalid profiler schedule arguments")

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait != 0:
            step += wait
        length = wait + warmup + active
        if repeat > 0 and step / length >= repeat:
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        last = place == length - 1
        return ProfilerAction.RECORD_AND_SAVE if last else ProfilerAction.RECORD

    return action


def always(step: int) -> ProfilerAction:
    return ProfilerAction.RECORD


RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


class profile:
    """Time the ops of a block, or of the iterations that a schedule chooses.

    >>> with torch.profiler.profile() as prof:
    ...     with torch.profiler.record_function("sums"):
    ...         _ = torch.ones(2).exp()
    >>> sorted(event.key for event in prof.key_averages())
    ['aten::exp', 'sums']
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        **options: Any,
    ) -> None:
        self.activities = set(activities) if activities else supported_activities()
        if not self.activities:
            raise AssertionError("No valid profiler activities found")
        self.schedule = schedule or always
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.record_shapes = record_shapes
        self.step_num = 0
        self.current_action = self.schedule(0)
        self.profiler: timers.profile | None = None  # the timers of the recording that is going on
        self.metadata: dict[str, str] = {}
        self.step_block: timers.record_function | None = None

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin; what is done now the schedule says."""
        if self.current_action in RECORDING:
            self.begin_recording()
        self.name_step()

    def stop(self) -> None:
        """End, and hand over what was recorded last."""
        self.end_step()
        if self.current_action in RECORDING and self.end_recording():
            self.hand_over()

    def step(self) -> None:
        """The next iteration begins."""
        self.end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        if before is ProfilerAction.RECORD_AND_SAVE:
            if self.end_recording():
                self.hand_over()
            before = ProfilerAction.NONE
        recording = self.current_action in RECORDING
        if recording and before not in RECORDING:
            self.begin_recording()
        elif before in RECORDING and not recording:
            self.end_recording()
        self.name_step()

    def name_step(self) -> None:
        if self.record_steps:
            self.step_block = timers.record_function(f"ProfilerStep#{self.step_num}")
            self.step_block.__enter__()

    def end_step(self) -> None:
        if self.step_block is not None:
            self.step_block.__exit__(None, None, None)
            self.step_block = None

    def begin_recording(self) -> None:
        self.profiler = timers.profile(record_shapes=self.record_shapes)
        self.profiler.__enter__()

    def end_recording(self) -> bool:
        """Whether something was being recorded."""
        if self.profiler not in timers.RUNNING:
            return False
        assert self.profiler is not None
        self.profiler.__exit__(None, None, None)
        return True

    def hand_over(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    # --- results ---------------------------------------------------------------------------

    def recorded(self) -> timers.profile:
        if self.profiler is None:
            raise AssertionError("Profiler must be initialized before getting key averages")
        return self.profiler

    def events(self) -> EventList:
        """The events of the last recording, one by one."""
        return self.recorded().function_events

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, **options: Any
    ) -> EventList:
        """The events of the last recording, one entry per name."""
        return self.recorded().key_averages(group_by_input_shape)

    def add_metadata(self, key: str, value: str) -> None:
        """Put a text into the trace."""
        self.metadata[key] = value

    add_metadata_json = add_metadata

    def export_chrome_trace(self, path: str) -> None:
        """Write a trace for chrome://tracing and Perfetto; compressed if the name ends in .gz."""
        events = EventList(self.events(), **self.metadata)
        if not path.endswith(".gz"):
            events.export_chrome_trace(path)
            return
        with tempfile.TemporaryDirectory() as folder:
            plain = os.path.join(folder, "trace.json")
            events.export_chrome_trace(plain)
            with open(plain, "rb") as source, gzip.open(path, "wb") as packed:
                shutil.copyfileobj(source, packed)


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """For `on_trace_ready`: write each recording to a file in a folder.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     handler = torch.profiler.tensorboard_trace_handler(folder)
    ...     with torch.profiler.profile(on_trace_ready=handler):
    ...         x = ones(2) + 1
    ...     print(len(os.listdir(folder)))
    1
    """

    def handler(prof: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        who = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        ending = ".json.gz" if use_gzip else ".json"
        name = f"{who}.{time.time_ns()}.pt.trace{ending}"
        prof.export_chrome_trace(os.path.join(dir_name, name))

    return handler
