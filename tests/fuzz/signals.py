"""Ctrl-C at random moments, and what is left behind: run as `signals.py WAY COUNT SEED`.

`signals.py every_point_of_a_save` interrupts one save at each place in turn.

Each interrupt happens in a forked child of one warm process. WAY says how its moment is chosen:
`timer` sends a signal after a random time; `points` raises KeyboardInterrupt at a random one of the
places where CPython runs signal handlers (entry of a Python function, after a call, jump back).
Afterwards the child compares every switch of the library with what it was before, and trains a
model whose result is known. A child that hangs is killed. Prints the counts as JSON.
"""

from __future__ import annotations

import collections
import dis
import functools
import json
import os
import pickle
import random
import re
import select
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import tapegrad as torch
from tapegrad import nn
from tapegrad.__config__ import is_compiled
from tapegrad.core.base import STATE
from tapegrad.core.modes import ANOMALY, MODES
from tapegrad.core.per_thread import MADE

SECONDS = 60.0  # after which a child counts as hanging: a busy disk alone takes more than 20
LONGEST = 0.01  # seconds: the latest moment of a timer
HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = tempfile.mkdtemp(prefix="signals-")
PATH = os.path.join(FOLDER, "model.pt")


# ---------------------------------------------------------------------- programs


def model_and_data() -> tuple[Any, Any, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    return model, torch.randn(16, 4), torch.randn(16, 1)


def eager_training() -> None:
    model, x, y = model_and_data()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()


@torch.no_grad()
def unrecorded(x: Any) -> Any:
    return x * 2


@torch.inference_mode()
def inferred(x: Any) -> Any:
    return x * 2


@torch.no_grad()
def unrecorded_parts(x: Any) -> Any:
    for _ in range(2):
        yield x * 2


def mode_blocks() -> None:
    """Blocks that switch a mode when they begin.

    `with set_grad_enabled(False)` is not among them: like PyTorch's, it switches when it is made,
    and an interrupt before the block begins finds what a plain call of it leaves behind.
    """
    x = torch.ones(3, requires_grad=True)
    for _ in range(2):
        with torch.no_grad():
            x * 2
            with torch.enable_grad():
                x * 2
        with torch.inference_mode():
            x * 2
        with torch.autocast("cpu", dtype=torch.bfloat16):
            x.reshape(1, 3) @ x.reshape(3, 1)
            with torch.autocast("cpu", enabled=False):
                x * 2
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            x.exp()
        unrecorded(x)
        inferred(x)
        list(unrecorded_parts(x))
        torch.set_grad_enabled(True)


def backward() -> None:
    x = torch.randn(5, requires_grad=True)
    handle = x.register_hook(lambda g: g * 1)
    y = (x * x).sin().sum()
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    g.sum().backward()
    z = torch.utils.checkpoint.checkpoint(lambda t: t.exp(), x, use_reentrant=False)
    z.sum().backward()
    handle.remove()


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


def functions_and_transforms() -> None:
    x = torch.randn(5, requires_grad=True)
    Double.apply(x).sum().backward()
    torch.func.vmap(torch.func.grad(lambda t: t * t))(x.detach())
    torch.func.jvp(torch.sin, (x.detach(),), (torch.ones(5),))
    torch.add(x.detach(), 1, out=torch.empty(5))
    with torch.random.fork_rng():
        torch.randn(3)


def optimizers() -> None:
    model, x, y = model_and_data()
    optimizer = torch.optim.Adam(model.parameters())
    nn.functional.mse_loss(model(x), y).backward()
    for _ in range(3):
        optimizer.step()

    def closure() -> Any:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    optimizer.step(closure)


MODEL, X, Y = model_and_data()
OPTIMIZER = torch.optim.SGD(MODEL.parameters(), lr=0.01)


@torch.compile
def compiled_step(x: Any, y: Any) -> Any:
    OPTIMIZER.zero_grad()
    loss = nn.functional.mse_loss(MODEL(x), y)
    loss.backward()
    OPTIMIZER.step()
    return loss


@torch.compile
def compiled_loss(x: Any, y: Any) -> Any:
    return nn.functional.mse_loss(MODEL(x), y)


def compiled_replays() -> None:
    for _ in range(3):
        compiled_step(X, Y)
        compiled_loss(X, Y).backward()


def saves() -> None:
    model, x, _ = model_and_data()
    for _ in range(2):
        torch.save(model.state_dict(), PATH)


PROGRAMS: list[Callable[[], None]] = [
    *(eager_training, mode_blocks, backward, functions_and_transforms, optimizers),
    *(compiled_replays, saves),
]


# ---------------------------------------------------------------------- what must be as before


def plain_values(state: dict[str, Any]) -> dict[str, Any]:
    """The switches among a state's fields; lists and the like by what they hold."""
    kept = (bool, int, float, str, type(None), tuple, list, dict)
    return {k: repr(v) for k, v in state.items() if isinstance(v, kept) and k != "numbered"}


def switches() -> dict[str, Any]:
    """Every switch of this thread and of the process."""
    found: dict[str, Any] = {
        "is_grad_enabled": torch.is_grad_enabled(),
        "is_inference_mode_enabled": torch.is_inference_mode_enabled(),
        "is_autocast_enabled": torch.is_autocast_enabled("cpu"),
        "is_anomaly_enabled": torch.is_anomaly_enabled(),
        "records": MODES.records,
        "anomaly": plain_values(vars(ANOMALY)),
    }
    for name in dir(STATE):
        value = getattr(STATE, name)
        if isinstance(value, (bool, int)) and name not in ("numbered", "detached"):
            found[f"STATE.{name}"] = value
    found["STATE.maker"], found["STATE.writer"] = STATE.maker, STATE.writer
    for each in MADE:
        for name, value in plain_values(vars(each)).items():
            found[f"{type(each).__module__}.{type(each).__name__}.{name}"] = value
    return found


def known_training() -> list[float]:
    """A few steps of everything; the losses."""
    model, x, y = model_and_data()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        losses.append(model(x).sum().item())
    return losses


EXPECTED = known_training()
for _ in range(6):
    for warm in PROGRAMS:
        warm()
# `vars` of a thread's state gets its fields with the first change.
BEFORE = switches()
SAVED = torch.load(PATH)


def what_is_wrong() -> str:
    """How the state of the library differs from before; empty: it is as it was."""
    now = switches()
    wrong = [f"{k}: {BEFORE.get(k)} -> {now.get(k)}" for k in {**now, **BEFORE} if k not in IGNORED]
    wrong = [w for w in wrong if w.split(": ", 1)[1].split(" -> ")[0] != w.split(" -> ")[1]]
    if wrong:
        return "; ".join(sorted(wrong))
    if known_training() != EXPECTED:
        return "training gives other losses"
    worker = threading.Thread(target=known_training)  # locks that this thread still holds
    worker.start()
    worker.join()
    replayed = compiled_loss(X, Y)
    if abs(replayed.item() - nn.functional.mse_loss(MODEL(X), Y).item()) > 1e-6:
        return "a compiled function gives another result"
    if compiled_loss.lock._is_owned():
        return "a compiled function counts as running"
    loaded = torch.load(PATH)
    if any(not torch.equal(loaded[k], SAVED[k]) for k in SAVED):
        return "the saved file changed"
    left = [name for name in os.listdir(FOLDER) if name != os.path.basename(PATH)]
    for name in left:
        os.unlink(os.path.join(FOLDER, name))
    return f"files were left: {len(left)}" if left else ""


IGNORED: set[str] = set()


# ---------------------------------------------------------------------- interrupts


CALLS = {"CALL", "CALL_FUNCTION_EX", "CALL_KW"}
BACK = {"JUMP_BACKWARD", "RESUME"}


def compiled_files() -> set[str]:
    """The files that are compiled where a compiler is found: no handler runs inside them."""
    setup = os.path.join(HERE, "..", "..", "setup.py")
    with open(setup, encoding="utf-8") as file:
        listed = re.findall(r'"src/tapegrad/(.+\.py)"', file.read())
    package = os.path.dirname(torch.__file__)
    return {os.path.join(package, *name.split("/")) for name in listed}


COMPILED_FILES = compiled_files()


def handlers(code: Any) -> Callable[[int], Any]:
    """(offset) -> the exception handler of the instruction there."""
    entries = dis._parse_exception_table(code)  # type: ignore[attr-defined]

    def find(offset: int) -> Any:
        return [(e.target, e.depth) for e in entries if e.start <= offset < e.end]

    return find


class Points:
    """Counts the places where CPython would run a signal handler, and interrupts at one of them.

    That is: entering a Python function, jumping back, and after the call of a function in C. (After
    a Python function the caller goes on at once.) Files that setup.py compiles have none.
    """

    kinds: dict[Any, dict[int, str]] = {}  # per code object: the offsets of such places

    def __init__(self, target: int) -> None:
        self.target = target
        self.count = 0
        self.where = ""
        self.previous: Any = None  # the frame of the last instruction

    def offsets(self, code: Any) -> dict[int, str]:
        found = Points.kinds.get(code)
        if found is None:
            found, call, handler = {}, -1, handlers(code)
            for instruction in dis.get_instructions(code):
                at = instruction.offset
                if instruction.opname in BACK:
                    found[at] = instruction.opname
                elif call >= 0 and handler(call) == handler(at):
                    found[at] = "call"
                call = at if instruction.opname in CALLS else -1
            Points.kinds[code] = found
        return found

    def trace(self, frame: Any, event: str, _: Any) -> Any:
        code = frame.f_code
        if code.co_filename == __file__ and code.co_name == "run":
            return None
        if code.co_filename in COMPILED_FILES:
            self.previous = frame
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        previous, self.previous = self.previous, frame
        if event == "opcode":
            kind = self.offsets(code).get(frame.f_lasti)
            if kind and (kind != "call" or previous is frame):
                self.count += 1
                if self.count == self.target:
                    self.where = f"{code.co_qualname}:{frame.f_lineno} ({kind})"
                    raise KeyboardInterrupt
        return self.trace

    def run(self, program: Callable[[], None]) -> None:
        before = sys.gettrace()
        sys._getframe().f_trace_opcodes = True  # else Python 3.12 traces none, in no frame
        sys.settrace(self.trace)
        try:
            program()
        finally:
            sys.settrace(before)


def interrupted_by_timer(program: Callable[[], None], moment: float) -> str:
    fired: list[int] = []

    def interrupt(number: int, frame: Any) -> None:
        fired.append(number)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, max(moment * LONGEST, 1e-5))
        while not fired:
            program()
        return "lost by Python, which ignores exceptions in callbacks of weak references"
    except KeyboardInterrupt as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return IN_A_BLOCK if frame.filename in COMPILED_FILES else frame.name


def interrupted_at_point(program: Callable[[], None], moment: float) -> str:
    points = Points(1 + int(moment * POINTS[program]))
    try:
        points.run(program)
    except KeyboardInterrupt:
        pass
    return points.where


# Where an interrupt cannot happen in the compiled build: there, a handler runs in Python code only.
IN_A_BLOCK = "in a block's own code"
WAYS = {"timer": interrupted_by_timer, "points": interrupted_at_point}
POINTS: dict[Any, int] = {}


def in_child(work: Callable[[], Any]) -> Any:
    """The result of `work()` in a forked child; None: it hangs, and was killed."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            answer = work()
        except BaseException:
            answer = ("error", traceback.format_exc(limit=-4))
        with os.fdopen(writing, "wb") as file:
            pickle.dump(answer, file)
        os._exit(0)
    os.close(writing)
    answer = None
    with os.fdopen(reading, "rb") as file:
        if select.select([file], [], [], SECONDS)[0]:
            data = file.read()
            answer = pickle.loads(data) if data else ("error", "the child died")
        else:
            os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return answer


def one(way: str, program: Callable[[], None], moment: float) -> tuple[str, str, str]:
    where = WAYS[way](program, moment)
    wrong = what_is_wrong()
    if wrong and where == IN_A_BLOCK:
        return (IN_A_BLOCK, wrong, where)
    return ("wrong" if wrong else "well", wrong, where)


def every_point_of_a_save() -> dict[str, Any]:
    """Interrupt one save at each place in turn; which leave a file or change the old one."""
    value = {"weight": torch.ones(3)}
    save = functools.partial(torch.save, value, PATH)
    save()
    points = Points(-1)
    points.run(save)
    assert points.count > 500, "no places were counted"
    found = []
    for target in range(1, points.count + 1):
        interrupted = Points(target)
        try:
            interrupted.run(save)
        except KeyboardInterrupt:
            pass
        left = [name for name in os.listdir(FOLDER) if name != os.path.basename(PATH)]
        for name in left:
            os.unlink(os.path.join(FOLDER, name))
        if left or not torch.equal(torch.load(PATH)["weight"], value["weight"]):
            found.append(interrupted.where)
    return {"compiled": is_compiled(), "count": points.count, "found": found}


def main(way: str, count: int, seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    if way == "points":
        for program in PROGRAMS:
            points = Points(-1)
            points.run(program)
            assert points.count, f"no places were counted in {program.__name__}"
            POINTS[program] = points.count
    ends: collections.Counter[str] = collections.Counter()
    found: list[str] = []
    for i in range(count):
        program, moment = PROGRAMS[i % len(PROGRAMS)], rng.random()
        answer = in_child(functools.partial(one, way, program, moment))
        answer = ("hang", f"no end within {SECONDS} s", "") if answer is None else answer
        ends[answer[0]] += 1
        if answer[0] != "well":
            found.append(f"{program.__name__} at {moment!r}: {' | '.join(answer)}")
    return {"compiled": is_compiled(), "ends": dict(ends), "found": found}


if __name__ == "__main__":
    started = time.time()
    if sys.argv[1] == "every_point_of_a_save":
        result = every_point_of_a_save()
    else:
        result = main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    print(json.dumps({**result, "seconds": round(time.time() - started, 1)}))
    sys.stdout.flush()
    os._exit(0)  # Python 3.12.1 crashes while it ends, once so many traced frames have raised
