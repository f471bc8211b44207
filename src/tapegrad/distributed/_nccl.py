"""NCCL through CuPy: collectives of CUDA tensors that stay on their GPUs.

A group that has NCCL for CUDA tensors makes its communicator at the first collective of one; the
ranks learn its id through the group's other engine. Operations run on a stream of the
communicator's, behind what was started on the current stream before them, so that a backward pass
goes on beside them; wait() lets the current stream wait, not the host. What NCCL lacks (bitwise
reductions, small integers), and messages between two ranks, go through host memory.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import logging
import os
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import devices
from ..core.base import ON_DEVICE
from ..cuda import runtime
from ._buffers import Back, Host
from ._errors import DistBackendError
from ._objects import broadcast_object_list
from ._reduce_op import ON_BOOLS, RedOpType

if TYPE_CHECKING:
    from ._groups import ProcessGroup

# In what NCCL adds and compares; complex numbers are pairs. All else is moved as bytes.
TYPES = {
    "float16": "NCCL_FLOAT16",
    "bfloat16": "NCCL_BFLOAT16",
    "float32": "NCCL_FLOAT32",
    "float64": "NCCL_FLOAT64",
    "int8": "NCCL_INT8",
    "uint8": "NCCL_UINT8",
    "int32": "NCCL_INT32",
    "uint32": "NCCL_UINT32",
    "int64": "NCCL_INT64",
    "uint64": "NCCL_UINT64",
}
PAIRS = {"complex64": np.float32, "complex128": np.float64}
OPS = {
    RedOpType.SUM: "NCCL_SUM",
    RedOpType.AVG: "NCCL_AVG",
    RedOpType.PRODUCT: "NCCL_PROD",
    RedOpType.MIN: "NCCL_MIN",
    RedOpType.MAX: "NCCL_MAX",
}
# A bool is a byte of 0 or 1.
ON_BYTES = {RedOpType.BOR: RedOpType.MAX, RedOpType.BAND: RedOpType.MIN}


def find() -> Any:
    """CuPy's module of NCCL, which has to be asked for by name; None where its library is not."""
    cuda = runtime.start().cuda
    found = getattr(cuda, "nccl", None)
    if found is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a library that is not there
            try:
                found = importlib.import_module(f"{runtime.Found.module.__name__}.cuda.nccl")
            except ImportError:
                pass
    if found is not None and found.available:
        return found
    tell_once()
    return None


@functools.cache
def tell_once() -> None:
    logging.getLogger("tapegrad.distributed").warning(
        "CuPy finds no NCCL (pip install nvidia-nccl-cu13): CUDA tensors go through host memory"
    )


class Launched:
    """An operation on the communicator's stream: over when its event is."""

    def __init__(self, cuda: Any, event: Any) -> None:
        self.cuda, self.event = cuda, event

    def Test(self) -> bool:
        return bool(self.event.done)

    def join(self) -> None:
        """Make the current stream wait for the operation."""
        self.cuda.get_current_stream().wait_event(self.event)


class OverNCCL:
    """A communicator of NCCL, with the methods of the engines, on arrays of one GPU."""

    def __init__(self, group: ProcessGroup, device: Any) -> None:
        self.cuda = devices.DEVICE.xp.cuda
        self.nccl = find()
        self.rank, self.size = group.rank(), group.size()
        self.device = device
        box = [self.nccl.get_unique_id() if self.rank == 0 else None]
        broadcast_object_list(box, group=group, group_src=0)
        with device:
            try:
                self.comm = self.nccl.NcclCommunicator(self.size, box[0], self.rank)
            except self.nccl.NcclError as error:
                raise DistBackendError(
                    f"NCCL error: {error}\n  rank {self.rank} of {self.size} on GPU {device.id}: "
                    "each rank needs a GPU of its own, torch.cuda.set_device(local_rank)"
                ) from error
            self.stream = self.cuda.Stream(non_blocking=True)
        # Not when modules are taken down: NCCL needs CUDA to end.
        atexit.register(self.free)

    def free(self) -> None:
        """End the communicator, after what is under way."""
        comm, self.comm = self.comm, None
        if comm is not None:
            atexit.unregister(self.free)
            with self.device:
                self.stream.synchronize()
                comm.destroy()

    def launch(self, start: Callable[[int], None]) -> Launched:
        """Run on our stream what stands behind the current one."""
        with self.device:
            before = self.cuda.get_current_stream().record()
            self.stream.wait_event(before)
            start(self.stream.ptr)
            event = self.cuda.Event(disable_timing=True)
            event.record(self.stream)
        return Launched(self.cuda, event)

    def together(self, start: Callable[[int], None]) -> Launched:
        """Launch several sends and receives, which NCCL runs as one."""

        def grouped(stream: int) -> None:
            self.nccl.groupStart()
            try:
                start(stream)
            finally:
                self.nccl.groupEnd()

        return self.launch(grouped)

    def type(self, array: Any) -> int:
        return int(getattr(self.nccl, TYPES[array.dtype.name]))

    def op(self, op: RedOpType) -> int:
        return int(getattr(self.nccl, OPS[op]))

    @property
    def byte(self) -> int:
        return int(self.nccl.NCCL_UINT8)

    def all_reduce(self, array: Any, op: RedOpType) -> Launched:
        at, what = array.data.ptr, (array.size, self.type(array), self.op(op))
        return self.launch(lambda stream: self.comm.allReduce(at, at, *what, stream))

    def reduce(self, array: Any, op: RedOpType, root: int) -> Launched:
        at, what = array.data.ptr, (array.size, self.type(array), self.op(op), root)
        return self.launch(lambda stream: self.comm.reduce(at, at, *what, stream))

    def reduce_scatter(self, out: Any, array: Any, op: RedOpType) -> Launched:
        places = array.data.ptr, out.data.ptr
        what = out.size, self.type(array), self.op(op)
        return self.launch(lambda stream: self.comm.reduceScatter(*places, *what, stream))

    def broadcast(self, array: Any, root: int) -> Launched:
        at, what = array.data.ptr, (array.nbytes, self.byte, root)
        return self.launch(lambda stream: self.comm.broadcast(at, at, *what, stream))

    def all_gather(self, out: Any, array: Any) -> Launched:
        places, what = (array.data.ptr, out.data.ptr), (array.nbytes, self.byte)
        return self.launch(lambda stream: self.comm.allGather(*places, *what, stream))

    def gather(self, out: Any, array: Any, root: int) -> Launched:
        size = array.nbytes

        def start(stream: int) -> None:
            self.comm.send(array.data.ptr, size, self.byte, root, stream)
            for rank in range(self.size if self.rank == root else 0):
                self.comm.recv(out.data.ptr + rank * size, size, self.byte, rank, stream)

        return self.together(start)

    def scatter(self, out: Any, array: Any, root: int) -> Launched:
        size = out.nbytes

        def start(stream: int) -> None:
            self.comm.recv(out.data.ptr, size, self.byte, root, stream)
            for rank in range(self.size if self.rank == root else 0):
                self.comm.send(array.data.ptr + rank * size, size, self.byte, rank, stream)

        return self.together(start)

    def all_to_all(self, out: Any, array: Any, received: list[int], sent: list[int]) -> Launched:
        size = array.itemsize

        def start(stream: int) -> None:
            to, into = array.data.ptr, out.data.ptr
            for rank in range(self.size):
                self.comm.send(to, sent[rank] * size, self.byte, rank, stream)
                self.comm.recv(into, received[rank] * size, self.byte, rank, stream)
                to, into = to + sent[rank] * size, into + received[rank] * size

        return self.together(start)


class OnGPU(Host):
    """Arrays of CuPy, which NCCL carries: what Host is for those of NumPy."""

    on_gpu = True

    def empty(self, size: int, dtype: Any) -> Any:
        return devices.DEVICE.xp.empty(size, dtype)

    def outgoing(self, tensor: Any) -> Any:
        if tensor._special != ON_DEVICE:
            here = f"cuda:{self.engine.device.id}"
            tensor = tensor.detach().resolve_conj().resolve_neg().to(here)
        return devices.DEVICE.xp.ascontiguousarray(tensor._array).reshape(-1)

    def both_ways(self, tensor: Any) -> tuple[Any, Back | None]:
        if tensor._special == ON_DEVICE and tensor._array.flags.c_contiguous:
            return tensor._array.reshape(-1), None
        flat = self.outgoing(tensor)
        return flat, lambda: self.put(flat, tensor)

    def put(self, flat: Any, tensor: Any) -> None:
        if tensor._special == ON_DEVICE:
            tensor._array[...] = flat.reshape(tensor._array.shape)
        else:
            super().put(flat.get(), tensor)

    def joined(self, tensors: Sequence[Any]) -> Any:
        return devices.DEVICE.xp.concatenate([self.outgoing(t) for t in tensors])

    def apart(self, flat: Any, out: Any) -> Any:
        return flat.copy() if devices.DEVICE.xp.may_share_memory(out, flat) else flat

    def prepared(self, flat: Any, op: RedOpType) -> tuple[Any, RedOpType, Any]:
        if flat.dtype == np.bool_:
            op = ON_BOOLS.get(op, op)
            return flat.view(np.uint8), ON_BYTES[op], None
        pair = PAIRS.get(flat.dtype.name)
        return flat if pair is None else flat.view(pair), op, None


def reduces(nccl: Any, name: str, op: RedOpType) -> bool:
    """Whether NCCL combines values of a dtype so; that of a bool is one of bytes."""
    if name == "bool":
        return ON_BOOLS.get(op, op) in ON_BYTES
    if name in PAIRS:
        return op in (RedOpType.SUM, RedOpType.AVG)
    if op is RedOpType.AVG and not name.startswith(("float", "bfloat")):
        return False
    return op in OPS and hasattr(nccl, OPS[op]) and hasattr(nccl, TYPES.get(name, "none"))


def chosen_for(group: ProcessGroup, tensor: Any, op: RedOpType | None) -> OnGPU | None:
    """The memory of a collective that runs on the GPU; None where NCCL is missing, or lacks it."""
    nccl = find()
    if nccl is None or os.environ.get("TAPEGRAD_NCCL") == "0":
        return None
    if op is not None and not reduces(nccl, tensor._array.dtype.name, op):
        return None
    if group.nccl is None:
        group.nccl = OnGPU(OverNCCL(group, tensor._array.device))
    return group.nccl  # type: ignore[no-any-return]
