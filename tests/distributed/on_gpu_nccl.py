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


def start(backend="nccl"):
    """tapegrad with a group of one rank; on the stand-in of the tests where that is asked for."""
    alone()
    import tapegrad as torch
    import tapegrad.distributed as dist

    if os.environ.get("STAND_IN"):
        sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "cuda"))
        import stand_in
        import stand_in_nccl

        from tapegrad.cuda import runtime

        runtime.use(stand_in)
        stand_in.cuda.nccl = stand_in_nccl
    dist.init_process_group(backend)
    return torch, dist


def by_nccl(dist):
    engine = dist.group.WORLD.nccl.engine
    assert type(engine).__name__ == "OverNCCL", engine
    return engine


@part
def collectives():
    torch, dist = start()
    dtypes = "float32 float64 float16 bfloat16 complex64 int8 uint8 int16 int32 int64 bool"
    for name in dtypes.split():
        dtype = getattr(torch, name)
        x = torch.tensor([[0, 1, 2], [3, 4, 5]], device="cuda").to(dtype)
        told, done = x.tolist(), []
        ops = ["SUM"]
        if not dtype.is_complex:
            ops += ["MIN", "MAX", "PRODUCT"]
            ops += ["AVG"] if dtype.is_floating_point else ["BAND", "BOR"]
        for op in ops:
            for tensor in (x.clone(), x.t().contiguous().t(), torch.cat([x, x], 1)[:, :3]):
                dist.all_reduce(tensor, getattr(dist.ReduceOp, op))
                dist.reduce(tensor, 0, getattr(dist.ReduceOp, op))
                dist.broadcast(tensor, 0)
                assert tensor.tolist() == told, (name, op, tensor)
            done.append(op)
        for call in (
            lambda out: dist.all_gather([out], x),  # noqa: B023
            lambda out: dist.all_gather_into_tensor(out, x),  # noqa: B023
            lambda out: dist.reduce_scatter([out][0], [x]),  # noqa: B023
            lambda out: dist.reduce_scatter_tensor(out, x),  # noqa: B023
            lambda out: dist.gather(x, [out]),  # noqa: B023
            lambda out: dist.scatter(out, [x]),  # noqa: B023
            lambda out: dist.all_to_all([out], [x]),  # noqa: B023
            lambda out: dist.all_to_all_single(out, x),  # noqa: B023
        ):
            for out in (torch.zeros(2, 3), torch.zeros(3, 2).t()):
                out = out.to("cuda", dtype)
                call(out)
                assert out.tolist() == told, (name, out)
        print(name, *done, flush=True)
    works = [dist.all_reduce(torch.ones(1000, device="cuda"), async_op=True) for _ in range(20)]
    for work in reversed(works):
        assert work.wait() and work.is_completed() and work.is_success()
    future = dist.all_reduce(torch.ones(3, device="cuda"), async_op=True).get_future()
    assert future.then(lambda f: f.wait()[0] * 2).wait().tolist() == [2, 2, 2]
    dist.all_reduce(torch.ones(3, device="cuda"), async_op=True)  # nobody waits
    dist.all_reduce(torch.zeros(0, device="cuda"))
    got = [None]
    dist.all_gather_object(got, {"a": torch.ones(2, device="cuda")})
    dist.barrier()
    print("communicator", by_nccl(dist).comm, "objects", got[0]["a"].device)
    group = dist.new_group([0])
    dist.all_reduce(torch.ones(3, device="cuda"), group=group)
    dist.destroy_process_group(group)
    dist.destroy_process_group()
    dist.init_process_group("cpu:gloo,cuda:nccl")
    dist.all_reduce(torch.ones(3, device="cuda"))
    by_nccl(dist)


@part
def order_of_streams():
    """What is reduced is what the kernels before have written, and those behind see the result."""
    torch, dist = start()
    x = torch.zeros(1 << 24, device="cuda")
    for _ in range(29):
        x.add_(1)
        work = dist.all_reduce(x, async_op=True)
        work.wait()
        x.mul_(1)
    assert (x == 29).all().item()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = torch.zeros(1 << 24, device="cuda")
        for _ in range(29):
            y.add_(1)
            dist.all_reduce(y)
        assert (y == 29).all().item()
    print("in order on the default stream and on another")


def trained(torch, wrap, steps=20):
    from tapegrad import nn

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 10)).cuda()
    model = wrap(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        x = torch.randn(64, 784, generator=generator).cuda()
        y = torch.randint(0, 10, (64,), generator=generator).cuda()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    weights = [p.detach().float().cpu().numpy() for p in model.parameters()]
    return loss.item(), weights


@part
def data_parallel():
    import numpy as np

    torch, dist = start()
    from tapegrad.distributed.algorithms.ddp_comm_hooks import default_hooks
    from tapegrad.nn.parallel import DistributedDataParallel as DDP

    def hooked(model):
        ddp = DDP(model, bucket_cap_mb=0.5)
        ddp.register_comm_hook(None, default_hooks.allreduce_hook)
        return ddp

    plain = trained(torch, lambda model: model)
    for name, wrap in (
        ("DDP", DDP),
        ("small buckets", lambda model: DDP(model, bucket_cap_mb=0.1)),
        ("found unused", lambda model: DDP(model, find_unused_parameters=True)),
        ("hook", hooked),
    ):
        loss, weights = trained(torch, wrap)
        same = all(np.array_equal(a, b) for a, b in zip(weights, plain[1], strict=True))
        print(name, "loss", loss, "without", plain[0], "equal bits", same, flush=True)
        assert same
    by_nccl(dist)
    dist.destroy_process_group()


@part
def sharded():
    import numpy as np

    torch, dist = start()
    from tapegrad.distributed.fsdp import FullyShardedDataParallel as FSDP

    plain, shards = trained(torch, lambda model: model), trained(torch, FSDP)
    print("loss", shards[0], "without", plain[0])
    assert np.isclose(plain[0], shards[0], atol=1e-6)
    by_nccl(dist)


@part
def speed():
    torch, dist = start()
    for size in (4, 1 << 20):
        x = torch.ones(size, device="cuda")
        for backend in ("nccl", "host"):
            os.environ["TAPEGRAD_NCCL"] = "1" if backend == "nccl" else "0"
            best = 1.0
            for _ in range(5):
                torch.cuda.synchronize()
                begin = time.perf_counter()
                for _ in range(50):
                    dist.all_reduce(x)
                torch.cuda.synchronize()
                best = min(best, (time.perf_counter() - begin) / 50)
            print(f"{size * 4} bytes by {backend}: {best * 1e6:.1f} us", flush=True)


@part
def beside_pytorch():
    """Both libraries, and both NCCLs, in one process."""
    pytorch()
    torch, dist = start()
    x = torch.ones(4, device="cuda")
    dist.all_reduce(x)
    print(x.tolist(), by_nccl(dist))


@part
def without_an_end():
    """Nobody destroys the group: the process ends all the same."""
    torch, dist = start()
    dist.all_reduce(torch.ones(4, device="cuda"), async_op=True)
    by_nccl(dist)


@part
def failing():
    """An error behind the first collective: no more than its traceback."""
    torch, dist = start()
    dist.all_reduce(torch.ones(4, device="cuda"))
    try:
        dist.send(torch.ones(1, device="cuda"), 0)
    except ValueError as error:
        print(error)


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
