"""NCCL with one rank on a GPU: run by hand where there is one, with CuPy; needs no MPI.

    PYTHONPATH=src python3 tests/distributed/on_gpu_nccl.py

Every part is a process of its own, so that one that ends it by a signal is seen and the others run:
first CuPy's NCCL alone, then PyTorch's where it is installed, then collectives and DDP of tapegrad.
Where CuPy's alone fails, it is tried again with other settings of NCCL, and in a debugger.
"""

from __future__ import annotations

import faulthandler
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

PARTS = {}
LIMIT = 25  # seconds of one part


def part(function):
    PARTS[function.__name__] = function
    return function


# ---------------------------------------------------------------------- what is here


@part
def about():
    import platform
    import resource
    import socket

    print("python", sys.version.split()[0], "kernel", platform.release())
    print("interfaces", socket.if_nameindex(), "shm", shutil.disk_usage("/dev/shm"))
    print("locked memory, stack", [resource.getrlimit(k) for k in (8, 3)])
    print("PCI", os.path.isdir("/sys/bus/pci/devices") and os.listdir("/sys/bus/pci/devices")[:20])
    import cupy
    from cupy.cuda import nccl

    print("cupy", cupy.__version__, "runtime", cupy.cuda.runtime.runtimeGetVersion())
    print("driver", cupy.cuda.runtime.driverGetVersion(), "nccl available", nccl.available)
    print("nccl built", nccl.get_build_version(), "runs", nccl.get_version())
    print("constants", {k: v for k, v in vars(nccl).items() if k.startswith("NCCL_")})
    print("bus", cupy.cuda.runtime.deviceGetPCIBusId(0))
    with open("/proc/self/maps") as maps:
        print("mapped", {line.split()[-1] for line in maps if "nccl" in line})


# ---------------------------------------------------------------------- CuPy's NCCL alone


def communicator():
    import cupy
    from cupy.cuda import nccl

    cupy.zeros(4)
    identity = nccl.get_unique_id()
    print("id", type(identity).__name__, len(identity), flush=True)
    made = nccl.NcclCommunicator(1, identity, 0)
    print("communicator", made.device_id(), made.rank_id(), made.size(), flush=True)
    return cupy, nccl, made


@part
def raw_id():
    from cupy.cuda import nccl

    print(len(nccl.get_unique_id()))


@part
def raw_communicator():
    communicator()[2].destroy()


@part
def raw_all_devices():
    import cupy
    from cupy.cuda import nccl

    cupy.zeros(4)
    comms = nccl.NcclCommunicator.initAll(1)
    print("made", comms)


@part
def raw_collectives():
    cupy, nccl, comm = communicator()
    own = cupy.cuda.Stream(non_blocking=True)
    for name, stream in (("default", cupy.cuda.get_current_stream()), ("own", own)):
        with stream:
            x, y = cupy.arange(8, dtype="f"), cupy.zeros(8, "f")
            a, b, kind, at = x.data.ptr, y.data.ptr, nccl.NCCL_FLOAT32, stream.ptr
            for call, arguments in (
                ("allReduce", (a, b, 8, kind, nccl.NCCL_SUM, at)),
                ("allReduce", (b, b, 8, kind, nccl.NCCL_AVG, at)),
                ("broadcast", (b, b, 8, kind, 0, at)),
                ("reduce", (b, b, 8, kind, nccl.NCCL_MAX, 0, at)),
                ("allGather", (a, b, 8, kind, at)),
                ("reduceScatter", (a, b, 8, kind, nccl.NCCL_PROD, at)),
            ):
                getattr(comm, call)(*arguments)
                stream.synchronize()
                print(name, call, y.tolist() == x.tolist(), flush=True)
            nccl.groupStart()
            comm.send(a, 8, kind, 0, at)
            comm.recv(b, 8, kind, 0, at)
            nccl.groupEnd()
            stream.synchronize()
            print(name, "send and recv", y.tolist() == x.tolist(), flush=True)


# ---------------------------------------------------------------------- PyTorch's, to compare


@part
def pytorch():
    import torch
    import torch.distributed as dist

    print("torch", torch.__version__, "nccl", torch.cuda.nccl.version(), flush=True)
    alone()
    dist.init_process_group("nccl")
    x = torch.ones(4, device="cuda")
    dist.all_reduce(x)
    print(x.tolist())
    dist.destroy_process_group()


def alone():
    os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29555")


# ---------------------------------------------------------------------- tapegrad


@part
def first_collective():
    os.environ["TAPEGRAD_NCCL"] = "1"
    alone()
    import tapegrad as torch
    import tapegrad.distributed as dist

    dist.init_process_group("nccl")
    x = torch.ones(4, device="cuda")
    dist.all_reduce(x)
    print(x.tolist(), dist.group.WORLD.nccl)
    dist.destroy_process_group()


# ---------------------------------------------------------------------- running the parts

SETTINGS = [
    "NCCL_SOCKET_IFNAME=lo",
    "NCCL_CUMEM_ENABLE=0 NCCL_CUMEM_HOST_ENABLE=0",
    "NCCL_NVLS_ENABLE=0",
    "NCCL_IB_DISABLE=1 NCCL_NET=Socket NCCL_NET_PLUGIN=none",
    "NCCL_RAS_ENABLE=0",
    "NCCL_TUNER_PLUGIN=none NCCL_PROFILER_PLUGIN=none",
    "NCCL_IGNORE_CPU_AFFINITY=1",
    "NCCL_SHM_DISABLE=1 NCCL_P2P_DISABLE=1",
    "NCCL_MNNVL_ENABLE=0",
]


def child(name, extra="", limit=LIMIT, front=()):
    """(how it ended, what it said)"""
    environ = {**os.environ, "PYTHONUNBUFFERED": "1", **dict(s.split("=") for s in extra.split())}
    start = time.monotonic()
    command = [*front, sys.executable, "-X", "faulthandler", __file__, name]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, env=environ, check=False
        )
        said, code = done.stdout + done.stderr, done.returncode
        end = signal.Signals(-code).name if code < 0 else f"status {code}"
    except subprocess.TimeoutExpired as late:
        said = b"".join(text or b"" for text in (late.stdout, late.stderr)).decode()
        end = f"no end in {limit} s"
    return f"{end} after {time.monotonic() - start:.1f} s", said


def show(name, end, said, lines=30):
    word = "passed" if end.startswith("status 0 ") else "FAILED"
    print(f"== {name}: {word}, {end}", flush=True)
    for line in said.splitlines()[-lines:]:
        print("   ", line[:300], flush=True)
    return word == "passed"


def main():
    with ThreadPoolExecutor(4) as pool:
        ends = dict(zip(PARTS, pool.map(child, PARTS), strict=True))
        passed = {name: show(name, *end) for name, end in ends.items()}
        if not passed["raw_communicator"]:
            show("with NCCL_DEBUG", *child("raw_communicator", "NCCL_DEBUG=INFO"), lines=80)
            tries = [*SETTINGS, " ".join(SETTINGS)]
            for name, end in zip(
                tries, pool.map(lambda s: child("raw_communicator", s, 12), tries), strict=True
            ):
                show(name, *end, lines=4)
            debugger = next((d for d in ("gdb", "cuda-gdb") if shutil.which(d)), None)
            if debugger:
                asked = ("run", "bt 30", "info threads")
                front = [debugger, "-batch", *(w for e in asked for w in ("-ex", e)), "--args"]
                show("debugger", *child("raw_communicator", front=front), lines=60)
    print("passed:", *(name for name, well in passed.items() if well))
    print("failed:", *(name for name, well in passed.items() if not well))
    return 0 if all(passed.values()) else 1


if __name__ == "__main__":
    faulthandler.enable()
    if len(sys.argv) > 1:
        PARTS[sys.argv[1]]()
    else:
        sys.exit(main())
