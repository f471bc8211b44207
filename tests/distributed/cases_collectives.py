"""Every collective on all dtypes, layouts and groups, against NumPy. Run by test_collectives.py."""

from __future__ import annotations

import datetime
import itertools
import sys
import threading
import time

import ml_dtypes
import numpy as np
from ranks import HERE, run_cases

import tapegrad as torch
import tapegrad.distributed as dist

DTYPES = [
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64),
    *(torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool),
]


def values(rank, dtype, shape=(2, 3), seed=0):
    """What a rank has: small integers, so that every dtype holds sums and products exactly."""
    draw = np.random.default_rng(100 * seed + rank).integers(0, 3, shape)
    return torch.tensor(draw, dtype=torch.int64).to(dtype)


def arrays(ranks, dtype, shape=(2, 3), seed=0):
    return [as_numpy(values(rank, dtype, shape, seed)) for rank in ranks]


def as_numpy(tensor):
    if tensor.dtype is torch.bfloat16:
        return tensor.float().cpu().numpy()
    return tensor.cpu().numpy()


def layouts(tensor):
    """The same values contiguous, transposed, with gaps, and in no dimension at all."""
    yield tensor.clone()
    yield tensor.t().contiguous().t()
    wide = torch.zeros(2, 6, dtype=tensor.dtype)
    wide[:, ::2] = tensor
    yield wide[:, ::2]


def check(tensor, expected):
    np.testing.assert_array_equal(as_numpy(tensor), expected.astype(as_numpy(tensor).dtype))


def reduced(op, parts):
    stack = np.stack(parts)
    if stack.dtype == np.bool_:
        anyone = op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.BOR)
        if op is dist.ReduceOp.BXOR:
            return np.logical_xor.reduce(stack)
        return stack.any(0) if anyone else stack.all(0)
    return {
        dist.ReduceOp.SUM: np.add,
        dist.ReduceOp.PRODUCT: np.multiply,
        dist.ReduceOp.MIN: np.minimum,
        dist.ReduceOp.MAX: np.maximum,
        dist.ReduceOp.BAND: np.bitwise_and,
        dist.ReduceOp.BOR: np.bitwise_or,
        dist.ReduceOp.BXOR: np.bitwise_xor,
    }[op].reduce(stack)


def ops_of(dtype):
    yield dist.ReduceOp.SUM
    if dtype.is_complex:
        return
    yield from (dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX)
    if not dtype.is_floating_point:
        yield from (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR)


def all_reduce(ranks, group):
    for dtype in DTYPES:
        for op in ops_of(dtype):
            for tensor in layouts(values(dist.get_rank(), dtype)):
                assert dist.all_reduce(tensor, op, group) is None
                check(tensor, reduced(op, arrays(ranks, dtype)))
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        tensor = values(dist.get_rank(), dtype)
        dist.all_reduce(tensor, dist.ReduceOp.AVG, group)
        mean = np.stack(arrays(ranks, dtype)).astype(np.float32).sum(0) / np.float32(len(ranks))
        if dtype is torch.bfloat16:
            mean = mean.astype(ml_dtypes.bfloat16).astype(np.float32)
        check(tensor, mean)
    for empty in (torch.zeros(0), torch.zeros(3, 0, dtype=torch.bool)):
        dist.all_reduce(empty, group=group)
    scalar = torch.tensor(2.0)
    dist.all_reduce(scalar, group=group)
    assert scalar.item() == 2.0 * len(ranks)


def leaves_and_views(ranks, group):
    weight = torch.nn.Parameter(torch.ones(3))
    dist.all_reduce(weight, group=group)
    assert weight.tolist() == [float(len(ranks))] * 3
    assert weight.is_leaf and weight.requires_grad and weight._version == 0
    whole = torch.zeros(4)
    dist.all_reduce(whole[1:3].add_(1), group=group)
    assert whole.tolist() == [0, len(ranks), len(ranks), 0]
    conjugate = torch.ones(2, dtype=torch.complex64).mul(1j).conj()
    dist.all_reduce(conjugate, group=group)
    assert conjugate.tolist() == [-1j * len(ranks)] * 2


def broadcast(ranks, group):
    for dtype, root in itertools.product(DTYPES, ranks):
        for tensor in layouts(values(dist.get_rank(), dtype)):
            dist.broadcast(tensor, root, group)
            check(tensor, arrays([root], dtype)[0])
    tensor = values(dist.get_rank(), torch.float32)
    dist.broadcast(tensor, group=group, group_src=len(ranks) - 1)
    check(tensor, arrays([ranks[-1]], torch.float32)[0])


def reduce(ranks, group):
    for dtype, root in itertools.product(DTYPES, ranks):
        for tensor in layouts(values(dist.get_rank(), dtype)):
            dist.reduce(tensor, root, group=group)
            if dist.get_rank() == root:
                check(tensor, reduced(dist.ReduceOp.SUM, arrays(ranks, dtype)))


def all_gather(ranks, group):
    for dtype in DTYPES:
        for tensor in layouts(values(dist.get_rank(), dtype)):
            got = [torch.zeros(3, 2, dtype=dtype).t() for _ in ranks]
            dist.all_gather(got, tensor, group)
            for part, expected in zip(got, arrays(ranks, dtype), strict=True):
                check(part, expected)
            whole = torch.zeros(2 * len(ranks), 3, dtype=dtype)
            dist.all_gather_into_tensor(whole, tensor, group)
            check(whole, np.concatenate(arrays(ranks, dtype)))


def gather_and_scatter(ranks, group):
    me = dist.get_rank()
    for dtype, root in itertools.product(DTYPES, ranks):
        got = [torch.zeros(2, 3, dtype=dtype) for _ in ranks] if me == root else None
        dist.gather(values(me, dtype), got, root, group)
        for part, expected in zip(got or [], arrays(ranks, dtype), strict=bool(got)):
            check(part, expected)
        parts = [values(rank, dtype, seed=7).t().contiguous().t() for rank in ranks]
        out = torch.zeros(2, 3, dtype=dtype)
        dist.scatter(out, parts if me == root else None, root, group)
        check(out, arrays([me], dtype, seed=7)[0])


def reduce_scatter(ranks, group):
    me, size = dist.get_rank(), len(ranks)
    for dtype in DTYPES:
        expected = reduced(dist.ReduceOp.SUM, arrays(ranks, dtype, (size, 3)))
        own = values(me, dtype, (size, 3))
        out = torch.zeros(3, dtype=dtype)
        dist.reduce_scatter(out, list(own.unbind()), group=group)
        check(out, expected[ranks.index(me)])
        out = torch.zeros(1, 3, dtype=dtype)
        dist.reduce_scatter_tensor(out, own, group=group)
        check(out, expected[ranks.index(me)][None])
    out = torch.zeros(3)
    dist.reduce_scatter(out, [torch.full((3,), 1.0 + me)] * size, dist.ReduceOp.AVG, group)
    assert out.tolist() == [1 + sum(ranks) / size] * 3


def all_to_all(ranks, group):
    me, size = dist.get_rank(), len(ranks)
    place = ranks.index(me)
    for dtype in DTYPES:
        out = torch.zeros(size, 2, dtype=dtype)
        dist.all_to_all_single(out, values(me, dtype, (size, 2)), group=group)
        check(out, np.stack([a[place] for a in arrays(ranks, dtype, (size, 2))]))
    # Rank i sends j + 1 rows to rank j.
    sent = torch.full((size * (size + 1) // 2, 2), float(me))
    out = torch.zeros(size * (place + 1), 2)
    dist.all_to_all_single(out, sent, [place + 1] * size, list(range(1, size + 1)), group)
    assert out[:, 0].tolist() == [float(r) for r in ranks for _ in range(place + 1)]
    got = [torch.zeros(place + 1) for _ in ranks]
    dist.all_to_all(got, [torch.full((j + 1,), float(me)) for j in range(size)], group)
    assert [t[0].item() for t in got] == [float(r) for r in ranks]


def messages(ranks, group):
    me, size = dist.get_rank(), len(ranks)
    place = ranks.index(me)
    after, before = ranks[(place + 1) % size], ranks[place - 1]
    for dtype in DTYPES:
        sending = dist.isend(values(me, dtype).t(), after, group)
        got = torch.zeros(2, 3, dtype=dtype).t()
        assert dist.recv(got, before, group) == before
        sending.wait()
        check(got, arrays([before], dtype)[0].T)
    got = torch.zeros(1)
    ops = [
        dist.P2POp(dist.isend, torch.tensor([float(me)]), after, group),
        dist.P2POp(dist.irecv, got, before, group),
    ]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    assert got.item() == before
    # By tag, in the other order; and from anyone.
    works = [dist.isend(torch.tensor([t]), after, group, tag=t) for t in (1, 2)]
    first, second = torch.tensor([0]), torch.tensor([0])
    dist.recv(second, before, group, tag=2)
    assert dist.recv(first, None, group, tag=1) == before
    assert (first.item(), second.item()) == (1, 2)
    for work in works:
        work.wait()


def objects(ranks, group):
    me, size = dist.get_rank(), len(ranks)
    got = [None] * size
    dist.all_gather_object(got, {"rank": me, "long": "x" * me}, group)
    assert got == [{"rank": r, "long": "x" * r} for r in ranks]
    shared = [me, None] if me == ranks[0] else [None, None]
    dist.broadcast_object_list(shared, ranks[0], group)
    assert shared == [ranks[0], None]
    got = [None] * size if me == ranks[-1] else None
    dist.gather_object((me, torch.tensor(me)), got, ranks[-1], group)
    assert got is None or [r for r, _ in got] == ranks
    out = [None]
    dist.scatter_object_list(out, [f"for {r}" for r in ranks], ranks[0], group)
    assert out == [f"for {me}"]
    place = ranks.index(me)
    if place == 0:
        dist.send_object_list(["a", 2], ranks[1], group)
    elif place == 1:
        received = [None, None]
        assert dist.recv_object_list(received, ranks[0], group) == ranks[0]
        assert received == ["a", 2]


def asynchronous(ranks, group):
    size = len(ranks)
    tensors = [torch.full((1000,), float(i)) for i in range(8)]
    works = [dist.all_reduce(t, group=group, async_op=True) for t in tensors]
    for work in reversed(works):
        assert work.wait() is True and work.is_completed() and work.is_success()
    assert [t[0].item() for t in tensors] == [float(i * size) for i in range(8)]
    half = torch.full((3, 2), 0.5, dtype=torch.bfloat16).t()
    work = dist.all_reduce(half, group=group, async_op=True)
    future = work.get_future().then(lambda f: f.wait()[0].float() * 2)
    assert future.wait().tolist() == [[float(size)] * 3] * 2
    dropped = torch.ones(3)
    dist.all_reduce(dropped, group=group, async_op=True)  # nobody waits for it
    dist.barrier(group)
    work = dist.barrier(group, async_op=True)
    while not work.is_completed():
        time.sleep(0.001)
    works = dist.all_reduce_coalesced([torch.ones(2), torch.ones(3)], group=group, async_op=True)
    assert works.wait()


def in_a_thread(ranks, group):
    found = []
    tensor = torch.ones(5)

    def body():
        dist.all_reduce(tensor, group=group)
        found.append(tensor[0].item())

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert found == [float(len(ranks))]


def wrong_use(ranks, group):
    me = dist.get_rank()
    cases = [
        (TypeError, "Invalid function argument. Expected parameter `tensor` of type torch.Tensor",
         lambda: dist.all_reduce([1], group=group)),
        (ValueError, "all_reduce does not support RedOpType.MAX on complex tensors",
         lambda: dist.all_reduce(torch.ones(1) + 0j, dist.ReduceOp.MAX, group)),
        (RuntimeError, "Cannot use ReduceOp.BAND with non-integral dtype",
         lambda: dist.all_reduce(torch.ones(1), dist.ReduceOp.BAND, group)),
        (ValueError, "Invalid destination rank: destination rank should not be the same as the "
         "rank of the current process.", lambda: dist.send(torch.ones(1), me, group)),
        (ValueError, "Invalid usage of tensors with different dtypesFound torch.float64 and  "
         "torch.float32", lambda: dist.all_gather([torch.ones(1).double()], torch.ones(1), group)),
        (ValueError, "trying to initialize the default process group twice!",
         lambda: dist.init_process_group("gloo")),
        (ValueError, "Must specify global_rank or group_rank",
         lambda: dist.broadcast(torch.ones(1), group=group)),
        (ValueError, "Expecting a ProcessGroup, but got a <class 'int'>.",
         lambda: dist.all_reduce(torch.ones(1), group=5)),
    ]  # fmt: skip
    for kind, line, call in cases:
        try:
            call()
        except kind as error:
            assert str(error).split("\n")[0] == line, error
        else:
            raise AssertionError(line)


def groups():
    me, size = dist.get_rank(), dist.get_world_size()
    assert dist.get_process_group_ranks(dist.group.WORLD) == list(range(size))
    for ranks in ([0], [0, size - 1], list(range(1, size))):
        group = dist.new_group(ranks, timeout=datetime.timedelta(seconds=60))
        if me not in ranks:
            assert group == dist.GroupMember.NON_GROUP_MEMBER
            assert dist.get_rank(group) == -1
            continue
        assert dist.get_rank(group) == ranks.index(me)
        assert dist.get_global_rank(group, ranks.index(me)) == me
        tensor = torch.tensor([me])
        dist.all_reduce(tensor, group=group)
        assert tensor.item() == sum(ranks)
        dist.destroy_process_group(group)
    own, every = dist.new_subgroups(2)
    assert len(every) == size // 2 and dist.get_process_group_ranks(own) == [
        me // 2 * 2,
        me // 2 * 2 + 1,
    ]


CASES = [
    *(all_reduce, leaves_and_views, broadcast, reduce, all_gather, gather_and_scatter),
    *(reduce_scatter, all_to_all, messages, objects, asynchronous, in_a_thread, wrong_use),
]


def on_a_stand_in():
    """From now on tensors are made on a GPU that is none: the way they take is the same."""
    sys.path.insert(0, str(HERE.parent / "cuda"))
    import stand_in
    import stand_in_nccl

    from tapegrad.core import devices
    from tapegrad.cuda import runtime

    runtime.use(stand_in)
    devices.DEVICE.xp.cuda.nccl = stand_in_nccl
    torch.set_default_device("cuda")
    return stand_in_nccl.Calls.names


if __name__ == "__main__":
    backend = sys.argv[1] if len(sys.argv) > 1 else "mpi"
    calls = on_a_stand_in() if len(sys.argv) > 1 else []
    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=60))
    everyone = list(range(dist.get_world_size()))
    run_cases([groups])
    run_cases(CASES, everyone, None)
    if backend == "nccl":
        expected = {"allReduce", "reduce", "reduceScatter", "broadcast", "allGather", "send"}
        assert expected < set(calls)
    else:
        assert not calls
    if len(everyone) == 4:
        some = [1, 3]
        part = dist.new_group(some)
        if dist.get_rank() in some:
            for case in CASES:
                case(some, part)
        dist.barrier()
        print("ok on_a_part", flush=True)
    dist.destroy_process_group()
