"""Attention on the GPU: cuBLAS for the products, one kernel for scale, mask and softmax.

Heads are wherever the caller has them in memory: the products take lists of addresses, so nothing
is copied to make them contiguous, and the result is laid out like the query.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import cublas
from .cublas import NAMES

I32, I64 = np.int32, np.int64
NOTHING = np.uint64(0)
LIMIT = 12  # arrays whose heads are listed at once
ARRAYS = np.dtype(
    [("base", np.uint64, (LIMIT,)), ("outer", np.int64, (LIMIT,)), ("inner", np.int64, (LIMIT,))]
)


class Heads:
    """Addresses of the matrices (sample, head) of several arrays, in one list on the GPU."""

    def __init__(self, gpu: Any, arrays: list[Any]) -> None:
        outer, inner = arrays[0].shape[:2]
        self.count = outer * inner
        self.list = gpu.empty((len(arrays), self.count), np.dtype(np.uint64))
        table = np.zeros((), ARRAYS)
        count = len(arrays)
        table["base"][:count] = [x.data.ptr for x in arrays]
        table["outer"][:count] = [x.strides[0] for x in arrays]
        table["inner"][:count] = [x.strides[1] for x in arrays]
        run = gpu.kernel("ADDRESSES", "float32", "addresses", limit=LIMIT)
        grid = ((self.count + 127) // 128, count)
        run(grid, (128,), (self.list, table, I32(outer), I32(inner)))

    def of(self, place: int) -> int:
        return int(self.list.data.ptr) + place * self.count * 8


def layout(x: Any) -> tuple[int, int] | None:
    """(turned?, leading dimension) of the last two dimensions; None if cuBLAS cannot take them."""
    item = x.dtype.itemsize
    down, right = x.strides[-2:]
    if right == item and down >= x.shape[-1] * item:
        return 0, down // item
    if down == item and right >= x.shape[-2] * item:
        return 1, right // item
    return None


def register(backend: Any, gpu: Any, reference: Any) -> None:
    name = "scaled_dot_product_flash_attention_for_cpu"
    other, other_pull = reference(name), reference(f"{name}_backward")

    def fits(*arrays: Any) -> bool:
        kind = NAMES.get(arrays[0].dtype)
        if kind not in ("float32", "float16", "bfloat16"):
            return False
        return all([NAMES.get(x.dtype) == kind and layout(x) is not None for x in arrays])

    def turned(x: Any) -> tuple[int, int]:
        way = layout(x)
        assert way is not None
        return 1 - way[0], way[1]

    def room(q: Any, k: Any) -> tuple[Any, Any]:
        """Memory for the scores and for the weights; in single precision the same."""
        scores = gpu.empty((*q.shape[:3], k.shape[2]), np.dtype(np.float32))
        return scores, scores if NAMES[q.dtype] == "float32" else gpu.empty(scores.shape, q.dtype)

    def weigh(heads: Heads, q: Any, k: Any, mask: Any, scale: float, scores: Any, p: Any) -> None:
        """How much every query looks at every key. Of the list, 0 to 2 are q, k and the scores."""
        count, queries, width = q.shape[1:]
        keys = k.shape[2]
        kind = NAMES[q.dtype]
        cublas.listed_product(
            gpu.blas,
            (queries, width, keys),
            (heads.of(0), *layout(q)),  # type: ignore[misc]
            (heads.of(1), *turned(k)),
            (heads.of(2), keys),
            kind,
            "float32",
            heads.count,
        )
        rows = heads.count * queries
        steps = mask_steps(mask, scores.shape)
        args = (
            *(scores, p, NOTHING if mask is None else mask),
            *(I64(steps[0]), I64(steps[2]), I64(steps[3]), I32(count), I64(steps[1])),
            *(np.float32(scale), I64(rows), I32(queries), I32(keys)),
        )
        gpu.rows("attend", kind, rows, args)

    @backend.override(name)
    def attention(query: Any, key: Any, value: Any, mask: Any, scale: float) -> Any:
        if not fits(query, key, value) or (mask is not None and mask.dtype != query.dtype):
            return other(query, key, value, mask, scale)
        out = like(gpu, query, value.shape[3])
        scores, p = room(query, key)
        heads = Heads(gpu, [query, key, scores, p, value, out])
        weigh(heads, query, key, mask, scale, scores, p)
        queries, keys = query.shape[2], key.shape[2]
        cublas.listed_product(
            gpu.blas,
            (queries, keys, value.shape[3]),
            (heads.of(3), 0, keys),
            (heads.of(4), *layout(value)),  # type: ignore[misc]
            (heads.of(5), out.strides[2] // out.itemsize),
            NAMES[query.dtype],
            NAMES[query.dtype],
            heads.count,
        )
        return out

    @backend.override(f"{name}_backward")
    def pull(grad: Any, query: Any, key: Any, value: Any, mask: Any, scale: float) -> Any:
        if not fits(query, key, value) or (mask is not None and mask.dtype != query.dtype):
            return other_pull(grad, query, key, value, mask, scale)
        if layout(grad) is None:
            grad = grad.copy()
        kind = NAMES[query.dtype]
        to_query, to_key = like(gpu, query, query.shape[3]), like(gpu, key, key.shape[3])
        to_value = like(gpu, value, value.shape[3])
        scores, p = room(query, key)
        slopes = gpu.empty(p.shape, np.dtype(np.float32))
        to_scores = slopes if kind == "float32" else gpu.empty(p.shape, query.dtype)
        results = [to_query, to_key, to_value]
        arrays = [query, key, scores, p, value, grad, slopes, to_scores, *results]
        heads = Heads(gpu, arrays)
        weigh(heads, query, key, mask, scale, scores, p)
        queries, keys, width = query.shape[2], key.shape[2], value.shape[3]
        count = heads.count
        item = query.dtype.itemsize

        def run(sizes: Any, left: Any, right: Any, out: Any, out_kind: str) -> None:
            cublas.listed_product(gpu.blas, sizes, left, right, out, kind, out_kind, count)

        def step(x: Any) -> int:
            return int(x.strides[2]) // item

        grad_way, key_way, query_way = layout(grad), layout(key), layout(query)
        assert grad_way is not None and key_way is not None and query_way is not None
        turned_p, from_grad = (heads.of(3), 1, keys), (heads.of(5), *grad_way)
        run((keys, queries, width), turned_p, from_grad, (heads.of(10), step(to_value)), kind)
        by_value = (heads.of(4), *turned(value))
        run((queries, width, keys), from_grad, by_value, (heads.of(6), keys), "float32")
        rows = count * queries
        args = (slopes, p, to_scores, np.float32(scale), I64(rows), I32(keys))
        gpu.rows("attend_back", kind, rows, args)
        inner = query.shape[3]
        straight, across = (heads.of(7), 0, keys), (heads.of(7), 1, keys)
        by_key, by_query = (heads.of(1), *key_way), (heads.of(0), *query_way)
        run((queries, keys, inner), straight, by_key, (heads.of(8), step(to_query)), kind)
        run((keys, queries, inner), across, by_query, (heads.of(9), step(to_key)), kind)
        return to_query, to_key, to_value


def mask_steps(mask: Any, shape: Any) -> tuple[int, int, int, int]:
    """How far apart, in elements, the places of a mask are that broadcasts to `shape`."""
    if mask is None:
        return 0, 0, 0, 0
    steps = [s // mask.itemsize if n > 1 else 0 for s, n in zip(mask.strides, mask.shape)]  # noqa: B905
    steps = [0] * (4 - len(steps)) + steps
    return steps[0], steps[1], steps[2], steps[3]


def like(gpu: Any, x: Any, width: int) -> Any:
    """Memory for a result with the dimensions in the order that `x` has them in memory."""
    samples, count, length = x.shape[:3]
    if x.strides[1] < x.strides[2]:  # heads side by side, as after a transpose
        made = gpu.empty((samples, length, count, width), x.dtype)
        return made.transpose(0, 2, 1, 3)
    return gpu.empty((samples, count, length, width), x.dtype)
