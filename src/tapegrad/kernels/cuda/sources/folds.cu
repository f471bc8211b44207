// Reductions that are more than sums: moments, norms, logarithms of sums.
//
// Every thread folds numbers into a `State`; the states of threads are merged. MOMENTS, LOGARITHM,
// LARGEST or SMALLEST say what a state is (none of them: a sum of TAKEN(x, s)), and ENDED(a, s)
// what the result is; `s` is a number that comes with the call. TWO_RESULTS: the mean is a result
// too.
#include "prelude.cu"

#define ALL 0xffffffffu
#if MOMENTS
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
#elif LOGARITHM
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
#else
struct State { A total; };
__device__ __forceinline__ State moved(State a, int lane) {
    return {__shfl_xor_sync(ALL, a.total, lane)};
}
#if SMALLEST
__device__ __forceinline__ State nothing() { return {(A)INFINITY}; }
#else
__device__ __forceinline__ State nothing() { return {0}; }
#endif
__device__ __forceinline__ State merged(State a, State b) {
#if LARGEST
    return {a.total != a.total || a.total > b.total ? a.total : b.total};
#elif SMALLEST
    return {a.total != a.total || a.total < b.total ? a.total : b.total};
#else
    return {a.total + b.total};
#endif
}
__device__ __forceinline__ State with(State a, A x, A s) { return merged(a, {TAKEN(x, s)}); }
#endif
__device__ __forceinline__ A ended(State a, A s) { return ENDED(a, s); }
#if TWO_RESULTS
#define SECOND , T* __restrict__ second
// Means that move from number to number lose infinities, which sums keep.
#define ALSO(k) STORE(second + (k), a.mean - a.mean == 0 ? a.mean : a.total / a.n);
#else
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
