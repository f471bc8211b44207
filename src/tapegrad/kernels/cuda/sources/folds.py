"""The CUDA C of reductions that are more than sums: moments, norms, logarithms of sums.

Every thread folds numbers into a `State`; states of threads are merged. What they are is said by
FOLDS, per kind of reduction; before it stand PRELUDE, MEANINGS and EACH of templates.py.

Gradients have no formula here: it comes from the blocks (launchers/fold_gradients.py).
"""

from __future__ import annotations

from ....expressions.cuda import FUNCTIONS

# `s` and `t` are numbers that come with the call.
MOMENTS = r"""
struct State { A n, mean, square, total; };
__device__ __forceinline__ State nothing() { return {0, 0, 0, 0}; }
__device__ __forceinline__ State merged(State a, State b) {
    if (b.n == 0) return a;
    if (a.n == 0) return b;
    A n = a.n + b.n, d = b.mean - a.mean, share = b.n / n;
    return {n, a.mean + d * share, a.square + b.square + d * d * a.n * share, a.total + b.total};
}
__device__ __forceinline__ State with(State a, A x, A s) { return merged(a, {1, x, 0, x}); }
__device__ __forceinline__ State moved(State a, int lane) {
    return {__shfl_xor_sync(ALL, a.n, lane), __shfl_xor_sync(ALL, a.mean, lane),
            __shfl_xor_sync(ALL, a.square, lane), __shfl_xor_sync(ALL, a.total, lane)};
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
MEAN_TOO = """
#define TWO_RESULTS
#define SECOND , T* __restrict__ second
// Means that move from number to number lose infinities, which sums keep.
#define ALSO(k) STORE(second + (k), a.mean - a.mean == 0 ? a.mean : a.total / a.n);
"""

# By the name of a reduction: what a state is, what it is in the end.
FOLDS = {
    "var": MOMENTS + END % "a.square / s",
    "std": MOMENTS + END % "sqrt(a.square / s)",
    "logsumexp": LOGARITHM + END % "a.total == 0 ? a.most : a.most + log(a.total)",
    "var_mean": MOMENTS + END % "a.square / s" + MEAN_TOO,
    "std_mean": MOMENTS + END % "sqrt(a.square / s)" + MEAN_TOO,
    "norm0": ADDED + TAKE % "(A)(x != 0)" + END % "a.total",
    "norm1": ADDED + TAKE % SIZE + END % "a.total",
    "norm2": ADDED + TAKE % "x * x" + END % "sqrt(a.total)",
    "norm": ADDED + TAKE % f"pow({SIZE}, s)" + END % "pow(a.total, 1 / s)",
    "norm_max": LARGEST + TAKE % SIZE + END % "a.total",
    "norm_min": SMALLEST + TAKE % SIZE + END % "a.total",
}

KERNELS = r"""
#ifndef TWO_RESULTS
#define SECOND
#define ALSO(k)
#endif
// A block to a row; blockDim.x is a power of two, at least a warp.
extern "C" __global__ void __launch_bounds__(1024) fold_rows(const T* __restrict__ x,
        T* __restrict__ out SECOND, A s, i64 n) {
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
    if (threadIdx.x == 0) { STORE(out + blockIdx.x, ended(a, s)); ALSO(blockIdx.x) }
}
// 32 columns to a block of 32 * 32.
extern "C" __global__ void __launch_bounds__(1024) fold_columns(const T* __restrict__ x,
        T* __restrict__ out SECOND, A s, i64 rows, i64 n) {
    __shared__ State states[32][33];
    i64 c = blockIdx.x * (i64)32 + threadIdx.x;
    State a = nothing();
    if (c < n) for (i64 r = threadIdx.y; r < rows; r += 32) a = with(a, LOAD(x + r * n + c), s);
    states[threadIdx.y][threadIdx.x] = a;
    __syncthreads();
    a = states[threadIdx.x][threadIdx.y];
    for (int o = 16; o; o >>= 1) a = merged(a, moved(a, o));
    c = blockIdx.x * (i64)32 + threadIdx.y;
    if (threadIdx.x == 0 && c < n) { STORE(out + c, ended(a, s)); ALSO(c) }
}
"""


def text(kind: str) -> str:
    """The program of a kind of reduction."""
    return "#define ALL 0xffffffffu\n" + FOLDS[kind] + KERNELS


# `g` and `h` are the gradients of the results, `out` the first result, per row; `h` and `out` may
# be missing. With SUMS, `summed` of all elements of a row is added up before.
GRADIENTS = (
    FUNCTIONS
    + r"""%(functions)s
#define SUMS %(sums)s
struct Row { A a, c, d; };
__device__ __forceinline__ Row row(const T* g, const T* h, const T* out, i64 r, i64 g_step,
        i64 h_step) {
    return {LOAD(g + r * g_step), out ? LOAD(out + r) : (A)0, h ? LOAD(h + r * h_step) : (A)0};
}
extern "C" __global__ void __launch_bounds__(1024) back_rows(const T* __restrict__ g,
        const T* __restrict__ h, const T* __restrict__ out, const T* __restrict__ x,
        T* __restrict__ dx, i64 n, i64 g_step, i64 h_step%(numbers)s) {
    Row o = row(g, h, out, blockIdx.x, g_step, h_step);
    const T* p = x + blockIdx.x * n;
    T* q = dx + blockIdx.x * n;
    A m = 0;
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) m += summed(o.a, LOAD(p + i), o.c, o.d);
    m = block_sum(m);
    for (i64 i = threadIdx.x; i < n; i += blockDim.x)
        STORE(q + i, formula(o.a, LOAD(p + i), o.c, o.d, m%(given)s));
}
extern "C" __global__ void __launch_bounds__(1024) back_columns(const T* __restrict__ g,
        const T* __restrict__ h, const T* __restrict__ out, const T* __restrict__ x,
        T* __restrict__ dx, i64 rows, i64 n, i64 g_step, i64 h_step%(numbers)s) {
    __shared__ A sums[32][33];
    i64 k = blockIdx.x * (i64)32 + threadIdx.x;
    Row o = {0, 0, 0};
    A m = 0;
    if (k < n) {
        o = row(g, h, out, k, g_step, h_step);
        for (i64 r = threadIdx.y; r < rows; r += 32)
            m += summed(o.a, LOAD(x + r * n + k), o.c, o.d);
    }
    sums[threadIdx.y][threadIdx.x] = m;
    __syncthreads();
    m = warp_sum(sums[threadIdx.x][threadIdx.y]);
    __syncthreads();
    if (threadIdx.x == 0) sums[0][threadIdx.y] = m;
    __syncthreads();
    m = sums[0][threadIdx.x];
    if (k < n) for (i64 r = threadIdx.y; r < rows; r += 32)
        STORE(dx + r * n + k, formula(o.a, LOAD(x + r * n + k), o.c, o.d, m%(given)s));
}
// Any rows, or columns if `down`; sums over them, where they are needed, have been formed before.
extern "C" __global__ void back_each(const T* __restrict__ g, const T* __restrict__ h,
        const T* __restrict__ out, const T* __restrict__ x, T* __restrict__ dx,
        const T* __restrict__ total, i64 count, i64 n, int down, i64 g_step,
        i64 h_step%(numbers)s) {
    EACH(i, count) {
        i64 r = down ? i %% n : i / n;
        Row o = row(g, h, out, r, g_step, h_step);
        STORE(dx + i, formula(o.a, LOAD(x + i), o.c, o.d, SUMS ? LOAD(total + r) : (A)0%(given)s));
    }
}
"""
)


def gradient_text(functions: str, sums: bool, letters: list[str]) -> str:
    """The program of a gradient, around its functions `summed` and `formula`."""
    return GRADIENTS % {
        "functions": functions,
        "sums": "true" if sums else "false",
        "numbers": "".join([f", A {s}" for s in letters]),
        "given": "".join([f", {s}" for s in letters]),
    }
