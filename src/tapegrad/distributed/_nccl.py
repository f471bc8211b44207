"""NCCL through CuPy: collectives of CUDA tensors that stay on their GPUs.

A group with the backend "nccl" makes its communicator at the first collective of CUDA tensors; the
ranks learn its id through the group's other engine. Operations run on the current stream, in order
with the kernels before and after them, so that there is nothing to wait for on the host. What is
not here (all_to_all, messages, dtypes that NCCL lacks) goes through host memory.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..core import devices
from ._engines import DONE, Done
from ._objects import broadcast_object_list
from ._reduce_op import RedOpType

if TYPE_CHECKING:
    from ._groups import ProcessGroup

TYPES = {
    "float16": "NCCL_FLOAT16",
    "float32": "NCCL_FLOAT32",
    "float64": "NCCL_FLOAT64",
    "int8": "NCCL_INT8",
    "uint8": "NCCL_UINT8",
    "bool": "NCCL_UINT8",
    "int32": "NCCL_INT32",
    "int64": "NCCL_INT64",
}
OPS = {
    RedOpType.SUM: "NCCL_SUM",
    RedOpType.AVG: "NCCL_SUM",
    RedOpType.PRODUCT: "NCCL_PROD",
    RedOpType.MIN: "NCCL_MIN",
    RedOpType.MAX: "NCCL_MAX",
}


class OverNCCL:
    """A communicator of NCCL, with the methods of the engines, on arrays of the GPU."""

    def __init__(self, group: ProcessGroup) -> None:
        self.xp = devices.DEVICE.xp
        self.nccl = self.xp.cuda.nccl
        self.rank, self.size = group.rank(), group.size()
        box = [self.nccl.get_unique_id() if self.rank == 0 else None]
        broadcast_object_list(box, group=group, group_src=0)
        self.comm = self.nccl.NcclCommunicator(self.size, box[0], self.rank)

    def call(self, method: str, array: Any, *arguments: Any) -> Done:
        """A method of the communicator on the current stream."""
        stream = self.xp.cuda.get_current_stream().ptr
        getattr(self.comm, method)(*arguments, stream)
        return DONE

    def type(self, array: Any) -> Any:
        return getattr(self.nccl, TYPES[array.dtype.name])

    def op(self, op: RedOpType) -> Any:
        return getattr(self.nccl, OPS[op])

    def all_reduce(self, array: Any, op: RedOpType) -> Done:
        at = array.data.ptr
        kind = self.type(array)
        return self.call("allReduce", array, at, at, array.size, kind, self.op(op))

    def broadcast(self, array: Any, root: int) -> Done:
        at = array.data.ptr
        return self.call("broadcast", array, at, at, array.size, self.type(array), root)

    def reduce(self, array: Any, op: RedOpType, root: int) -> Done:
        at = array.data.ptr
        kind = self.type(array)
        return self.call("reduce", array, at, at, array.size, kind, self.op(op), root)

    def all_gather(self, out: Any, array: Any) -> Done:
        place = array.data.ptr, out.data.ptr
        return self.call("allGather", array, *place, array.size, self.type(array))

    def reduce_scatter(self, out: Any, array: Any, op: RedOpType) -> Done:
        place = array.data.ptr, out.data.ptr
        kind = self.type(array)
        return self.call("reduceScatter", array, *place, out.size, kind, self.op(op))


class OnGPU:
    """One collective of a CUDA tensor: its memory as a vector, and the communicator."""

    def __init__(self, group: ProcessGroup, tensor: Any) -> None:
        if group.nccl is None:
            group.nccl = OverNCCL(group)
        self.group, self.tensor = group, tensor
        array = tensor.array
        self.own = array.flags.c_contiguous
        self.flat = array.reshape(-1) if self.own else self.other(tensor)

    def other(self, tensor: Any) -> Any:
        """The values of a tensor as a vector."""
        return devices.DEVICE.xp.ascontiguousarray(tensor.array).reshape(-1)

    def run(
        self, run: Any, kind: str, words: str, start: Any, async_op: bool, op: Any = None
    ) -> Any:
        def finish() -> None:
            if op is RedOpType.AVG:
                self.flat /= self.group.size()
            if not self.own:
                self.tensor.array[...] = self.flat.reshape(self.tensor.array.shape)

        engine = self.group.nccl
        return run(
            self.group, kind, words, start, async_op, finish, [self.tensor], self.flat, engine
        )


def chosen_for(group: ProcessGroup, tensor: Any, op: RedOpType | None) -> OnGPU | None:
    """How a collective runs on the GPU; None where NCCL is missing, or lacks the dtype or op.

    Only where it is asked for: on a machine with one H200 the first collective ended the process.
    """
    if os.environ.get("TAPEGRAD_NCCL") != "1":
        return None
    nccl = getattr(devices.DEVICE.xp.cuda, "nccl", None)
    name = tensor.array.dtype.name
    if not getattr(nccl, "available", False) or name not in TYPES:
        return None
    if op is not None and (op not in OPS or name == "bool"):
        return None
    if op is RedOpType.AVG and not tensor.dtype.is_floating_point:
        return None
    return OnGPU(group, tensor)
