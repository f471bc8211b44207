"""Averaging, and averaging in half precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tapegrad as tg

from ..._combining import all_reduce
from ..._groups import default_group

Hook = Callable[[Any, Any], Any]

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
    "noop_hook",
]


def averaged(process_group: Any, tensor: Any) -> Any:
    """A future of the average of a tensor over ranks."""
    group = process_group or default_group()
    tensor.div_(group.size())
    return all_reduce(tensor, group=group, async_op=True).get_future().then(lambda f: f.value()[0])


def allreduce_hook(process_group: Any, bucket: Any) -> Any:
    """The average: what DDP does by itself."""
    return averaged(process_group, bucket.buffer())


def compressed(process_group: Any, bucket: Any, dtype: Any) -> Any:
    buffer = bucket.buffer()
    return averaged(process_group, buffer.to(dtype)).then(lambda f: buffer.copy_(f.value()))


def fp16_compress_hook(process_group: Any, bucket: Any) -> Any:
    """The average in float16: half the bytes."""
    return compressed(process_group, bucket, tg.float16)


def bf16_compress_hook(process_group: Any, bucket: Any) -> Any:
    """The average in bfloat16."""
    return compressed(process_group, bucket, tg.bfloat16)


def wrapped(hook: Hook, dtype: Any) -> Hook:
    def in_dtype(state: Any, bucket: Any) -> Any:
        # The hook works on a bucket of its own, in the smaller dtype.
        buffer = bucket.buffer().to(dtype)
        narrow = type(bucket)(bucket.index(), bucket.parameters(), buffer=buffer)
        narrow.last = bucket.is_last()
        return hook(state, narrow).then(lambda f: bucket.buffer().copy_(f.value()))

    return in_dtype


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that gets and gives float16."""
    return wrapped(hook, tg.float16)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that gets and gives bfloat16."""
    return wrapped(hook, tg.bfloat16)


def noop_hook(_: Any, bucket: Any) -> Any:
    """No communication: every rank keeps its own gradients. For measurements."""
    future: Any = tg.futures.Future()
    future.set_result(bucket.buffer())
    return future
