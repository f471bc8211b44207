"""The CUDA C of our kernels, as templates: `T` is what memory holds, `A` what is computed with.

Half precision is stored as 16 bits and converted by hand, so that no header is needed.
"""

from __future__ import annotations

from typing import Any

PRELUDE = r"""
typedef unsigned short u16;
typedef long long i64;
#define INFINITY __int_as_float(0x7f800000)
__device__ __forceinline__ float from_half(u16 h) {
    float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f;
}
__device__ __forceinline__ u16 to_half(float f) {
    u16 h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h;
}
__device__ __forceinline__ float from_bfloat16(u16 b) {
    return __uint_as_float(((unsigned)b) << 16);
}
__device__ __forceinline__ u16 to_bfloat16(float f) {
    if (f != f) return (u16)0x7fc0;
#if __CUDA_ARCH__ >= 800
    u16 b; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(b) : "f"(f)); return b;
#else
    unsigned u = __float_as_uint(f);
    return (u16)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
#endif
}
template <typename X> __device__ __forceinline__ X warp_sum(X x) {
    for (int o = 16; o; o >>= 1) x += __shfl_xor_sync(0xffffffffu, x, o);
    return x;
}
template <typename X> __device__ __forceinline__ X warp_max(X x) {
    for (int o = 16; o; o >>= 1) { X y = __shfl_xor_sync(0xffffffffu, x, o); x = y > x ? y : x; }
    return x;
}
"""

# How each dtype is stored, read and written; half precision is computed with floats.
ACCESS = {
    "float32": ("float", "(*(p))", "(*(p) = (v))"),
    "float64": ("double", "(*(p))", "(*(p) = (v))"),
    "float16": ("u16", "from_half(*(p))", "(*(p) = to_half(v))"),
    "bfloat16": ("u16", "from_bfloat16(*(p))", "(*(p) = to_bfloat16(v))"),
}
# Memory that is only moved, by the size of its items.
RAW = {1: "unsigned char", 2: "u16", 4: "unsigned", 8: "unsigned long long", 16: "ulonglong2"}


def meaning(stored: str, computed: str, read: str = "(*(p))", write: str = "(*(p) = (v))") -> str:
    """What T, A, LOAD and STORE are."""
    return (
        f"typedef {stored} T; typedef {computed} A;\n"
        f"#define LOAD(p) {read}\n#define STORE(p, v) {write}\n"
    )


MEANINGS = {
    **{
        kind: meaning(stored, "double" if kind == "float64" else "float", read, write)
        for kind, (stored, read, write) in ACCESS.items()
    },
    "bool": meaning("unsigned char", "float", write="(*(p) = (T)(v))"),  # masks
    "index64": meaning("i64", "T"),
    "index32": meaning("int", "T"),
    **{f"raw{size}": meaning(stored, "T") for size, stored in RAW.items()},
}

EACH = r"""
#define EACH(i, n) for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < (n); \
                        i += (i64)gridDim.x * blockDim.x)
// Four neighbours, which move at once where all addresses are multiples of 16.
template <typename X> struct alignas(sizeof(X) < 4 ? 4 * sizeof(X) : 16) Four { X v[4]; };
__device__ __forceinline__ bool aligned(const void* a, const void* b, const void* c = 0) {
    return (((unsigned long long)a | (unsigned long long)b | (unsigned long long)c) & 15) == 0;
}
// The sum over a block, for every thread of it.
template <typename X> __device__ __forceinline__ X block_sum(X x) {
    __shared__ X sums[32];
    int id = threadIdx.y * blockDim.x + threadIdx.x, warps = blockDim.x * blockDim.y / 32;
    x = warp_sum(x);
    if (id % 32 == 0) sums[id / 32] = x;
    __syncthreads();
    x = warp_sum(id % 32 < warps ? sums[id % 32] : (X)0);
    __syncthreads();
    return x;
}
"""


def program(kind: str) -> str:
    """What stands before every program for a dtype."""
    return "".join([PRELUDE, MEANINGS[kind], EACH])


def compiled(xp: Any, kind: str, name: str, *parts: str, together: bool = False) -> Any:
    """The kernel `name` of a program, for a dtype; it is compiled when it is first started.

    The blocks of some wait for each other: those have to run `together`.
    """
    code = "".join([program(kind), *parts])
    options = {"enable_cooperative_groups": True} if together else {}
    return xp.RawKernel(code, name, ("--std=c++14",), **options)


ACCUMULATE = r"""
extern "C" __global__ void accumulate(T* x, const T* y, i64 n) {
    i64 fours = aligned(x, y) ? n / 4 : 0;
    EACH(i, fours) {
        Four<T> f = ((const Four<T>*)x)[i], g = ((const Four<T>*)y)[i];
        #pragma unroll
        for (int j = 0; j < 4; j++) STORE(f.v + j, LOAD(f.v + j) + LOAD(g.v + j));
        ((Four<T>*)x)[i] = f;
    }
    EACH(i, n - 4 * fours) { i64 k = 4 * fours + i; STORE(x + k, LOAD(x + k) + LOAD(y + k)); }
}
"""

# Where the elements of an array lie: dimensions from the fastest to the slowest, at least one.
LAYOUT = r"""
#define RANK 5
struct Layout { int rank; unsigned size[RANK]; i64 stride[RANK]; };
__device__ __forceinline__ i64 place(int rank, const unsigned* size, const i64* stride,
        unsigned i) {
    i64 at = 0;
    #pragma unroll
    for (int d = 0; d < RANK; d++) {
        if (d == rank - 1) return at + i * stride[d];
        unsigned next = i / size[d];
        at += (i - next * size[d]) * stride[d];
        i = next;
    }
    return at;
}
"""

# Copies and casts, from what READ reads to what STORE stores.
COPIES = (
    LAYOUT
    + r"""
typedef %(given)s S;
#define READ(p) %(read)s
extern "C" __global__ void copy_line(const S* __restrict__ x, T* __restrict__ y, i64 n) {
    i64 fours = aligned(x, y) ? n / 4 : 0;
    EACH(i, fours) {
        Four<S> f = ((const Four<S>*)x)[i]; Four<T> g;
        #pragma unroll
        for (int j = 0; j < 4; j++) STORE(g.v + j, READ(f.v + j));
        ((Four<T>*)y)[i] = g;
    }
    EACH(i, n - 4 * fours) { i64 k = 4 * fours + i; STORE(y + k, READ(x + k)); }
}
extern "C" __global__ void copy_from(const S* __restrict__ x, T* __restrict__ y,
        const __grid_constant__ Layout l, unsigned n) {
    EACH(i, n) STORE(y + i, READ(x + place(l.rank, l.size, l.stride, i)));
}
extern "C" __global__ void copy_between(const S* x, T* y, const __grid_constant__ Layout from,
        const __grid_constant__ Layout to, unsigned n) {
    EACH(i, n) {
        i64 there = place(to.rank, to.size, to.stride, i);
        STORE(y + there, READ(x + place(from.rank, from.size, from.stride, i)));
    }
}
"""
)

# Several arrays one after the other along a dimension: blockIdx.y is the array, zeros if it is
# null. A `row` of the result has `width` elements of it, from `start` on.
JOIN = (
    LAYOUT
    + r"""
struct Parts {
    unsigned long long p[%(limit)d]; unsigned n[%(limit)d], width[%(limit)d]; i64 start[%(limit)d];
    int rank[%(limit)d]; unsigned size[%(limit)d][RANK]; i64 stride[%(limit)d][RANK];
};
extern "C" __global__ void join(const __grid_constant__ Parts a, T* __restrict__ out, i64 row) {
    int k = blockIdx.y;
    const T* x = (const T*)a.p[k];
    unsigned width = a.width[k];
    T* to = out + a.start[k];
    EACH(i, a.n[k]) {
        unsigned line = (unsigned)i / width;
        T v = T();
        if (x) v = x[place(a.rank[k], a.size[k], a.stride[k], i)];
        to[line * row + ((unsigned)i - line * width)] = v;
    }
}
"""
)

# Sums, divided by a number. Few long rows and columns of long matrices go in chunks: their sums
# are `parts`, which a second kernel adds up; without them a chunk is all there is.
SUMS = r"""
#define SHARE(start, end, all, chunk) i64 start = blockIdx.y * (i64)(chunk), \
    end = start + (chunk) < (all) ? start + (chunk) : (all)
// 32 columns to a block of 32 * 32; a warp ends up with the sum of the column of its number.
__device__ __forceinline__ A gathered(A total) {
    __shared__ A sums[32][33];
    sums[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    return warp_sum(sums[threadIdx.x][threadIdx.y]);
}
extern "C" __global__ void __launch_bounds__(1024) columns(const T* __restrict__ x,
        A* __restrict__ parts, T* __restrict__ out, A by, i64 rows, int n, int chunk) {
    SHARE(start, end, rows, chunk);
    int c = blockIdx.x * 32 + threadIdx.x;
    A some[4] = {0, 0, 0, 0};
    i64 r = start + threadIdx.y;
    if (c < n) {
        for (; r + 96 < end; r += 128) {
            #pragma unroll
            for (int j = 0; j < 4; j++) some[j] += LOAD(x + (r + 32 * j) * n + c);
        }
        for (; r < end; r += 32) some[0] += LOAD(x + r * n + c);
    }
    A total = gathered((some[0] + some[1]) + (some[2] + some[3]));
    c = blockIdx.x * 32 + threadIdx.y;
    if (threadIdx.x == 0 && c < n) {
        if (parts) parts[(i64)blockIdx.y * n + c] = total;
        else STORE(out + c, total / by);
    }
}
// One or two matrices of parts, one after the other; blockIdx.y says which.
extern "C" __global__ void __launch_bounds__(1024) columns_end(const A* __restrict__ parts,
        T* __restrict__ first, T* __restrict__ second, A by, int count, int n) {
    T* out = blockIdx.y ? second : first;
    if (!out) return;
    const A* p = parts + (i64)blockIdx.y * count * n;
    int c = blockIdx.x * 32 + threadIdx.x;
    A total = 0;
    if (c < n) {
        #pragma unroll 4
        for (int i = threadIdx.y; i < count; i += 32) total += p[(i64)i * n + c];
    }
    total = gathered(total);
    c = blockIdx.x * 32 + threadIdx.y;
    if (threadIdx.x == 0 && c < n) STORE(out + c, total / by);
}
// Few long rows: blockIdx.x is the row.
extern "C" __global__ void __launch_bounds__(1024) long_rows(const T* __restrict__ x,
        A* __restrict__ parts, T* __restrict__ out, A by, i64 n, i64 chunk) {
    SHARE(start, end, n, chunk);
    const T* p = x + blockIdx.x * n;
    A some[4] = {0, 0, 0, 0};
    i64 i = start + threadIdx.x;
    for (; i + 3 * blockDim.x < end; i += 4 * blockDim.x) {
        #pragma unroll
        for (int j = 0; j < 4; j++) some[j] += LOAD(p + i + j * blockDim.x);
    }
    for (; i < end; i += blockDim.x) some[0] += LOAD(p + i);
    A total = block_sum((some[0] + some[1]) + (some[2] + some[3]));
    if (threadIdx.x == 0) {
        if (parts) parts[(i64)blockIdx.x * gridDim.y + blockIdx.y] = total;
        else STORE(out + blockIdx.x, total / by);
    }
}
extern "C" __global__ void long_rows_end(const A* __restrict__ parts, T* __restrict__ out, A by,
        int count) {
    const A* p = parts + blockIdx.x * (i64)count;
    A total = 0;
    for (int i = threadIdx.x; i < count; i += blockDim.x) total += p[i];
    total = block_sum(total);
    if (threadIdx.x == 0) STORE(out + blockIdx.x, total / by);
}
// Many short rows, one warp each: there are no parts.
extern "C" __global__ void short_rows(const T* __restrict__ x, A*, T* __restrict__ out, A by,
        i64 rows, int n) {
    i64 r = blockIdx.x * (i64)blockDim.y + threadIdx.y; if (r >= rows) return;
    A total = 0;
    #pragma unroll 4
    for (int i = threadIdx.x; i < n; i += 32) total += LOAD(x + r * n + i);
    total = warp_sum(total);
    if (threadIdx.x == 0) STORE(out + r, total / by);
}
"""

# Rows of a matrix, one warp each, eight rows to a block.
ROWS = r"""
#define ROW (blockIdx.x * (i64)blockDim.y + threadIdx.y)
#define LANE threadIdx.x

extern "C" __global__ void layer_norm(const T* __restrict__ x, const T* __restrict__ w,
        const T* __restrict__ b, T* __restrict__ y, A* __restrict__ stats, A eps, i64 rows, int n) {
    i64 r = ROW; if (r >= rows) return;
    const T* p = x + r * n; A total = 0;
    for (int i = LANE; i < n; i += 32) total += LOAD(p + i);
    A mean = warp_sum(total) / n; A square = 0;
    for (int i = LANE; i < n; i += 32) { A d = LOAD(p + i) - mean; square += d * d; }
    A inv = 1 / sqrt(warp_sum(square) / n + eps);
    T* q = y + r * n;
    for (int i = LANE; i < n; i += 32) {
        A v = (LOAD(p + i) - mean) * inv;
        if (w) v *= LOAD(w + i);
        if (b) v += LOAD(b + i);
        STORE(q + i, v);
    }
    if (LANE == 0) { stats[r] = mean; stats[rows + r] = inv; }
}

// A block takes a chunk of rows: its warps the input's gradient of one after the other, then all
// threads the chunk's share of the sums down the columns, of g and of g times the standardized x.
extern "C" __global__ void layer_norm_back(const T* __restrict__ g, const T* __restrict__ x,
        const A* __restrict__ stats, const T* __restrict__ w, T* __restrict__ dx,
        A* __restrict__ parts, i64 rows, int n, int chunk) {
    i64 start = blockIdx.x * (i64)chunk, end = start + chunk < rows ? start + chunk : rows;
    for (i64 r = start + threadIdx.y; r < end; r += blockDim.y) {
        A mean = stats[r], inv = stats[rows + r], one = 0, two = 0;
        const T* p = x + r * n; const T* q = g + r * n;
        for (int i = LANE; i < n; i += 32) {
            A v = LOAD(q + i); if (w) v *= LOAD(w + i);
            one += v; two += v * (LOAD(p + i) - mean) * inv;
        }
        one = warp_sum(one) / n; two = warp_sum(two) / n;
        T* d = dx + r * n;
        for (int i = LANE; i < n; i += 32) {
            A v = LOAD(q + i); if (w) v *= LOAD(w + i);
            A hat = (LOAD(p + i) - mean) * inv;
            STORE(d + i, (v - one - hat * two) * inv);
        }
    }
    if (!parts) return;
    for (int c = threadIdx.y * 32 + LANE; c < n; c += 32 * blockDim.y) {
        A one = 0, two = 0;
        #pragma unroll 4
        for (i64 r = start; r < end; r++) {
            A v = LOAD(g + r * n + c);
            one += v; two += v * (LOAD(x + r * n + c) - stats[r]) * stats[rows + r];
        }
        parts[blockIdx.x * (i64)n + c] = one;
        parts[((i64)gridDim.x + blockIdx.x) * n + c] = two;
    }
}

extern "C" __global__ void softmax(const T* __restrict__ x, T* __restrict__ y, int logs,
        i64 rows, int n) {
    i64 r = ROW; if (r >= rows) return;
    const T* p = x + r * n; T* q = y + r * n;
    A most = -INFINITY;
    for (int i = LANE; i < n; i += 32) { A v = LOAD(p + i); most = v > most ? v : most; }
    most = warp_max(most); A total = 0;
    for (int i = LANE; i < n; i += 32) total += exp(LOAD(p + i) - most);
    total = warp_sum(total);
    A shift = log(total), inv = 1 / total;
    for (int i = LANE; i < n; i += 32) {
        A v = LOAD(p + i) - most;
        STORE(q + i, logs ? v - shift : exp(v) * inv);
    }
}
extern "C" __global__ void softmax_back(const T* __restrict__ g, const T* __restrict__ y,
        T* __restrict__ dx, int logs, i64 rows, int n) {
    i64 r = ROW; if (r >= rows) return;
    const T* p = g + r * n; const T* q = y + r * n; T* d = dx + r * n;
    A total = 0;
    for (int i = LANE; i < n; i += 32) {
        A v = LOAD(p + i); total += logs ? v : v * LOAD(q + i);
    }
    total = warp_sum(total);
    for (int i = LANE; i < n; i += 32) {
        A v = LOAD(p + i), o = LOAD(q + i);
        STORE(d + i, logs ? v - exp(o) * total : (v - total) * o);
    }
}

// Targets as rows' classes: the mean (or sum) of minus the chosen elements; one block.
// `w` are weights of the classes, if there are any; `seen` is their sum.
extern "C" __global__ void chosen(const T* __restrict__ x, const i64* __restrict__ t,
        const T* __restrict__ w, T* __restrict__ out, A* __restrict__ count, int mean, i64 skip,
        i64 rows, int n) {
    A total = 0, seen = 0;
    for (i64 r = threadIdx.x; r < rows; r += blockDim.x) {
        i64 c = t[r];
        if (c != skip && c >= 0 && c < n) {
            A by = w ? LOAD(w + c) : (A)1;
            if (x) total -= LOAD(x + r * n + c) * by;
            seen += by;
        }
    }
    total = block_sum(total); seen = block_sum(seen);
    if (threadIdx.x == 0) {
        if (out) STORE(out, mean ? total / seen : total);
        if (count) *count = seen;
    }
}
// For a mean, every block counts the targets that are not skipped, unless their number is given.
extern "C" __global__ void chosen_back(const T* __restrict__ g, const i64* __restrict__ t,
        const T* __restrict__ w, const A* __restrict__ count, T* __restrict__ dx, int mean,
        int each, i64 skip, i64 rows, int n) {
    A seen = 0;
    if (mean && count) seen = *count;
    else if (mean) {
        for (i64 r = threadIdx.x; r < rows; r += blockDim.x) {
            i64 c = t[r]; if (c != skip && c >= 0 && c < n) seen += w ? LOAD(w + c) : (A)1;
        }
        seen = block_sum(seen);
    }
    EACH(i, rows * n) {
        i64 r = i / n; i64 c = t[r];
        A v = 0;
        if (c == i % n && c != skip) {
            v = -LOAD(g + (each ? r : 0));
            if (w) v *= LOAD(w + c);
            if (mean) v /= seen;
        }
        STORE(dx + i, v);
    }
}
"""

# Many arrays at once, from what READ reads to what STORE stores; blockIdx.y says which.
CASTS = r"""
typedef %(given)s S;
#define READ(p) %(read)s
struct Casts { unsigned long long x[%(limit)d], y[%(limit)d]; i64 n[%(limit)d]; };
extern "C" __global__ void cast_together(const __grid_constant__ Casts t) {
    const S* x = (const S*)t.x[blockIdx.y];
    T* y = (T*)t.y[blockIdx.y];
    i64 n = t.n[blockIdx.y], fours = aligned(x, y) ? n / 4 : 0;
    EACH(i, fours) {
        Four<S> f = ((const Four<S>*)x)[i]; Four<T> g;
        #pragma unroll
        for (int j = 0; j < 4; j++) STORE(g.v + j, READ(f.v + j));
        ((Four<T>*)y)[i] = g;
    }
    EACH(i, n - 4 * fours) { i64 k = 4 * fours + i; STORE(y + k, READ(x + k)); }
}
"""

GATHER = r"""
extern "C" __global__ void take_rows(const T* __restrict__ w, const i64* __restrict__ t,
        T* __restrict__ y, i64 count, int n, i64 rows) {
    EACH(i, count * n) {
        i64 r = t[i / n]; if (r < 0) r += rows;
        y[i] = (r >= 0 && r < rows) ? w[r * n + i % n] : (T)0;
    }
}
// One 1 in every row: a product with it adds rows up.
extern "C" __global__ void one_hot(const i64* __restrict__ t, T* __restrict__ y, i64 skip,
        i64 count, int rows) {
    EACH(i, count * rows) {
        i64 c = t[i / rows];
        STORE(y + i, (c == i % rows && c != skip) ? (A)1 : (A)0);
    }
}
extern "C" __global__ void add_rows(const T* __restrict__ g, const i64* __restrict__ t,
        A* __restrict__ w, i64 skip, i64 count, int n) {
    EACH(i, count * n) {
        i64 r = t[i / n];
        if (r != skip) atomicAdd(w + r * n + i % n, LOAD(g + i));
    }
}
"""
