"""The CUDA C of reductions that are more than sums: moments, norms, logarithms of sums.

Every thread folds numbers into a `State`; states of threads are merged. What they are is said by
FOLDS, per kind of reduction; before it stand PRELUDE, MEANINGS and EACH of templates.py.
"""

from __future__ import annotations

# `s` and `t` are numbers that come with the call.
MOMENTS = r"""
struct State { A n, mean, square; };
__device__ __forceinline__ State nothing() { return {0, 0, 0}; }
__device__ __forceinline__ State merged(State a, State b) {
    if (b.n == 0) return a;
    if (a.n == 0) return b;
    A n = a.n + b.n, d = b.mean - a.mean, share = b.n / n;
    return {n, a.mean + d * share, a.square + b.square + d * d * a.n * share};
}
__device__ __forceinline__ State with(State a, A x, A s) { return merged(a, {1, x, 0}); }
__device__ __forceinline__ State moved(State a, int lane) {
    return {__shfl_xor_sync(ALL, a.n, lane), __shfl_xor_sync(ALL, a.mean, lane),
            __shfl_xor_sync(ALL, a.square, lane)};
}
"""
ONE_NUMBER = r"""
struct State { A total; };
__device__ __forceinline__ State moved(State a, int lane) {
    return {__shfl_xor_sync(ALL, a.total, lane)};
}
"""
ADDED = (
    ONE_NUMBER
    + r"""
__device__ __forceinline__ State nothing() { return {0}; }
__device__ __forceinline__ State merged(State a, State b) { return {a.total + b.total}; }
"""
)
LARGEST = (
    ONE_NUMBER
    + r"""
__device__ __forceinline__ State nothing() { return {0}; }
__device__ __forceinline__ State merged(State a, State b) {
    return {a.total != a.total || a.total > b.total ? a.total : b.total};
}
"""
)
SMALLEST = (
    ONE_NUMBER
    + r"""
__device__ __forceinline__ State nothing() { return {(A)INFINITY}; }
__device__ __forceinline__ State merged(State a, State b) {
    return {a.total != a.total || a.total < b.total ? a.total : b.total};
}
"""
)
LOGARITHM = r"""
struct State { A most, total; };
__device__ __forceinline__ State nothing() { return {-(A)INFINITY, 0}; }
__device__ __forceinline__ State merged(State a, State b) {
    if (b.most > a.most || a.most != a.most) { State c = a; a = b; b = c; }
    if (b.most != b.most) return b;
    if (b.total == 0) return a;
    if (a.most == b.most) return {a.most, a.total + b.total};
    return {a.most, a.total + b.total * exp(b.most - a.most)};
}
__device__ __forceinline__ State with(State a, A x, A s) { return merged(a, {x, 1}); }
__device__ __forceinline__ State moved(State a, int lane) {
    return {__shfl_xor_sync(ALL, a.most, lane), __shfl_xor_sync(ALL, a.total, lane)};
}
"""
TAKE = "__device__ __forceinline__ State with(State a, A x, A s) { return merged(a, {%s}); }\n"
END = "__device__ __forceinline__ A ended(State a, A s) { return %s; }\n"
SIZE = "fabs(x)"

# By the name of a reduction: what a state is, what it is in the end.
FOLDS = {
    "var": MOMENTS + END % "a.square / s",
    "std": MOMENTS + END % "sqrt(a.square / s)",
    "logsumexp": LOGARITHM + END % "a.total == 0 ? a.most : a.most + log(a.total)",
    "norm0": ADDED + TAKE % "(A)(x != 0)" + END % "a.total",
    "norm1": ADDED + TAKE % SIZE + END % "a.total",
    "norm2": ADDED + TAKE % "x * x" + END % "sqrt(a.total)",
    "norm": ADDED + TAKE % f"pow({SIZE}, s)" + END % "pow(a.total, 1 / s)",
    "norm_max": LARGEST + TAKE % SIZE + END % "a.total",
    "norm_min": SMALLEST + TAKE % SIZE + END % "a.total",
}

KERNELS = r"""
// A block to a row; blockDim.x is a power of two, at least a warp.
extern "C" __global__ void __launch_bounds__(1024) fold_rows(const T* __restrict__ x,
        T* __restrict__ out, A s, i64 n) {
    __shared__ State warps[32];
    const T* p = x + blockIdx.x * n;
    State a = nothing();
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) a = with(a, LOAD(p + i), s);
    for (int o = 16; o; o >>= 1) a = merged(a, moved(a, o));
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = a;
    __syncthreads();
    if (threadIdx.x >= 32) return;
    a = threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : nothing();
    for (int o = 16; o; o >>= 1) a = merged(a, moved(a, o));
    if (threadIdx.x == 0) STORE(out + blockIdx.x, ended(a, s));
}
// 32 columns to a block of 32 * 32.
extern "C" __global__ void __launch_bounds__(1024) fold_columns(const T* __restrict__ x,
        T* __restrict__ out, A s, i64 rows, i64 n) {
    __shared__ State states[32][33];
    i64 c = blockIdx.x * (i64)32 + threadIdx.x;
    State a = nothing();
    if (c < n) for (i64 r = threadIdx.y; r < rows; r += 32) a = with(a, LOAD(x + r * n + c), s);
    states[threadIdx.y][threadIdx.x] = a;
    __syncthreads();
    a = states[threadIdx.x][threadIdx.y];
    for (int o = 16; o; o >>= 1) a = merged(a, moved(a, o));
    c = blockIdx.x * (i64)32 + threadIdx.y;
    if (threadIdx.x == 0 && c < n) STORE(out + c, ended(a, s));
}
"""


def text(kind: str) -> str:
    """The program of a kind of reduction."""
    return "#define ALL 0xffffffffu\n" + FOLDS[kind] + KERNELS
