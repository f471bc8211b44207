"""``python -m tapegrad torchrun``: start a program as several ranks, with PyTorch's options."""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

from ._board import ended_by
from ._desk import Desk
from ._hosts import placed
from ._starting import free_port

GRACE = 3.0  # seconds in which the others may notice a death by themselves, and name it


def get_args_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tapegrad torchrun",
        description="Run a PyTorch program as several processes, with torch answered by tapegrad. "
        "mpiexec starts them; every line that they print has the rank in front.",
        epilog="Example: tapegrad torchrun --nproc-per-node=2 train.py --epochs 3",
        allow_abbrev=False,
    )

    def add(name: str, *short: str, **kwargs: Any) -> None:
        names = [*short, f"--{name}", f"--{name.replace('-', '_')}"]
        parser.add_argument(*dict.fromkeys(names), **kwargs)

    add("nproc-per-node", default="", metavar="N", help="processes on a machine; cpu, gpu, auto")
    add("nnodes", default="1", metavar="N", help="machines, with --hosts or --hostfile")
    add("hosts", default="", metavar="A,B", help="the machines, by name; ssh reaches them")
    add("hostfile", default="", metavar="FILE", help="the same, a line for each")
    add("max-restarts", type=int, default=0, metavar="N", help="start all again after a failure")
    add("monitor-interval", type=float, default=0.1, metavar="S", help="seconds between looks")
    add("master-addr", default="", metavar="HOST", help="MASTER_ADDR of the program")
    add("master-port", default="", metavar="PORT", help="MASTER_PORT of the program")
    add("no-prefix", action="store_true", help="no rank in front of the lines")
    add("log-dir", default="", metavar="DIR", help="write what the ranks print to files there")
    add("tee", "-t", default="0", metavar="N", help="with --log-dir: 3 shows it here as well")
    add("local-ranks-filter", default="", metavar="0,1", help="show the lines of these ranks only")
    parser.add_argument("-m", "--module", action="store_true", help="run a module, like python -m")
    add("no-python", action="store_true", help="the program is no Python script")
    # Of PyTorch's launcher, where machines find each other by themselves; mpiexec knows them.
    add("redirects", "-r", default="", help=argparse.SUPPRESS)
    for name in ("standalone", "run-path", "virtual-local-rank"):
        add(name, action="store_true", help=argparse.SUPPRESS)
    for name in (
        *("node-rank", "rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf", "role"),
        *("start-method", "local-addr", "event-log-handler", "logs-specs", "numa-binding"),
        *("signals-to-handle", "shutdown-timeout", "duplicate-stdout-filters"),
        "duplicate-stderr-filters",
    ):
        add(name, default="", help=argparse.SUPPRESS)
    parser.add_argument("training_script", metavar="SCRIPT")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER, metavar="ARG")
    return parser


def processes(asked: str) -> int | None:
    """The number that --nproc-per-node means; None if it was not given."""
    if not asked:
        return None
    if asked in ("cpu", "auto"):
        return os.cpu_count() or 1
    if asked == "gpu":
        from ..cuda import device_count

        if device_count() == 0:
            raise ValueError("Cuda is not available.")
        return device_count()
    if not asked.isdigit() or not int(asked):
        raise ValueError(f"Unsupported nproc_per_node value: {asked}")
    return int(asked)


def mpiexec() -> str:
    """The launcher that mpich's wheel puts beside Python, or the system's."""
    beside = pathlib.Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        from ._engines import HOW_TO_INSTALL

        raise SystemExit(f"torchrun: there is no mpiexec\n  {HOW_TO_INSTALL}")
    return found


def program(options: argparse.Namespace) -> list[str]:
    """The command of one rank."""
    own = [options.training_script, *options.training_script_args]
    if options.no_python:
        return own
    alias = [sys.executable, "-u", "-m", "tapegrad", "run"]
    return [*alias, "-m", *own] if options.module else [*alias, *own]


def environment(
    options: argparse.Namespace, first: str, ranks: int, restart: int
) -> dict[str, str]:
    """The variables of all ranks; `first` is the machine of rank 0, if machines are named."""
    environ = dict(os.environ)
    environ["MASTER_ADDR"] = options.master_addr or environ.get("MASTER_ADDR", first or "127.0.0.1")
    environ["MASTER_PORT"] = options.master_port or environ.get("MASTER_PORT", str(free_port()))
    environ["TORCHELASTIC_RUN_ID"] = environ.get("TORCHELASTIC_RUN_ID", "none")
    environ["TORCHELASTIC_RESTART_COUNT"] = str(restart)
    environ["TORCHELASTIC_MAX_RESTARTS"] = str(options.max_restarts)
    # Ranks that share a machine share its cores; as PyTorch's launcher does.
    if ranks > 1:
        environ.setdefault("OMP_NUM_THREADS", "1")
        environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    return environ


def spell(note: dict[str, Any]) -> str:
    """`rank 1 (pid 123) was killed by SIGKILL (signal 9)`"""
    return f"rank {note['rank']} (pid {note['pid']}) {ended_by(note['status'])}"


def shown(options: argparse.Namespace, restart: int) -> dict[str, str]:
    """Environment variables that tell the supervisors of the ranks where lines of output go."""
    told = {}
    if options.log_dir:
        os.makedirs(options.log_dir, exist_ok=True)
        told["TAPEGRAD_LOG"] = os.path.abspath(
            os.path.join(options.log_dir, f"attempt{restart}-rank")
        )
        told["TAPEGRAD_TEE"] = options.tee
    if options.local_ranks_filter:
        told["TAPEGRAD_SHOW"] = options.local_ranks_filter
    return told


def start_once(
    options: argparse.Namespace, places: list[tuple[str, int]], restart: int
) -> list[dict[str, Any]]:
    """Run the program on all ranks; how they ended."""
    ranks = sum(number for _, number in places)
    command = [mpiexec(), "-disable-auto-cleanup", "-n", str(ranks)]
    if places[0][0]:
        command += ["-hosts", ",".join(f"{host}:{number}" for host, number in places)]
    supervisor = str(pathlib.Path(__file__).with_name("_supervise.py"))
    desk = Desk(near=all(host in ("", "localhost", "127.0.0.1") for host, _ in places))
    try:
        prefix = "" if options.no_prefix else "[RANK] "
        command += [sys.executable, "-u", supervisor, prefix, *program(options)]
        environ = environment(options, places[0][0], ranks, restart)
        environ.update(shown(options, restart))
        environ.update(TAPEGRAD_DESK=desk.address, TAPEGRAD_TOKEN=desk.token)
        job = subprocess.Popen(command, env=environ)
        try:
            watch(job, desk, options.monitor_interval)
        except KeyboardInterrupt:
            job.send_signal(signal.SIGINT)
            job.wait()
            raise
    finally:
        desk.close()
    notes = desk.endings()
    for note in desk.silent():
        note["silent"] = True
    # A status of mpiexec's own counts only if it hides that of a rank.
    if job.returncode and len(notes) < ranks and all(note["status"] == 0 for note in notes):
        code = job.returncode if job.returncode > 0 else 128 - job.returncode
        notes.append({"rank": "?", "pid": job.pid, "status": code, "time": time.time()})
    return notes


def watch(job: subprocess.Popen[bytes], desk: Desk, interval: float) -> None:
    """Wait for the end; when a rank failed, the others have a moment, then they are ended."""
    failed_at = None
    while job.poll() is None:
        time.sleep(interval)
        if failed_at is None and any(note["status"] for note in desk.endings()):
            failed_at = time.monotonic()
        missed = desk.missed()
        if failed_at is None and missed is not None:
            failed_at = time.monotonic()
            print(
                f"torchrun: rank {missed} has ended without init_process_group, in which others "
                "wait for it",
                file=sys.stderr,
            )
        if failed_at is not None and time.monotonic() - failed_at > GRACE:
            job.terminate()
            try:
                job.wait(5)
            except subprocess.TimeoutExpired:
                job.kill()
                job.wait()


def main(args: list[str] | None = None) -> int:
    """Run a program as several ranks; the status of the first that failed, or 0."""
    parser = get_args_parser()
    options = parser.parse_args(args)
    if sys.platform == "win32":
        parser.error(
            "torchrun needs pipes and signals that Windows has not; start the program by "
            "`mpiexec -n 2 python script.py` (MS-MPI), or use WSL"
        )
    try:
        each = processes(options.nproc_per_node)
        places = placed(options.hosts, options.hostfile, options.nnodes, each)
    except ValueError as error:
        parser.error(str(error))
    for restart in range(options.max_restarts + 1):
        notes = start_once(options, places, restart)
        failed = [note for note in notes if note["status"]]
        if not failed:
            return 0
        left = options.max_restarts - restart
        for note in notes:
            if note.get("silent"):
                print(
                    f"torchrun: {spell(note)} without leaving the process group, in which others "
                    "waited for it",
                    file=sys.stderr,
                )
        print(f"torchrun: {spell(failed[0])}", file=sys.stderr)
        for note in failed[1:]:
            print(f"torchrun:   then {spell(note)}", file=sys.stderr)
        if left:
            print(f"torchrun: starting all ranks again ({left} restarts left)", file=sys.stderr)
    status = int(failed[0]["status"])
    return status if status > 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
