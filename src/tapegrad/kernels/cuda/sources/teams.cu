// Sums and moments over teams of threads. WIDE: neighbours that a thread moves at once.
//
// Variances come from numbers in registers, sixteen or eight at a time, whose means and squared
// distances are merged: one pass over memory, and no difference of large numbers.
#pragma once
#include "prelude.cu"

#define ALL 0xffffffffu
template <typename X>
struct alignas(sizeof(X) * WIDE < 16 ? sizeof(X) * WIDE : 16) Wide { X v[WIDE]; };
template <typename X> __device__ __forceinline__ Wide<X> wide_at(const X* p) {
    return *(const Wide<X>*)p;
}
// A team is a row of the block: a part of a warp, a warp, or all of the block.
__device__ __forceinline__ int team_width() { return blockDim.x < 32 ? blockDim.x : 32; }

struct Sums { A one, two; };
__device__ __forceinline__ Sums of_lanes(Sums s, int width) {
    for (int o = width / 2; o; o >>= 1) {
        s.one += __shfl_xor_sync(ALL, s.one, o);
        s.two += __shfl_xor_sync(ALL, s.two, o);
    }
    return s;
}
__device__ __forceinline__ Sums of_team(Sums s) {
    __shared__ Sums warps[32];
    s = of_lanes(s, team_width());
    if (blockDim.x > 32) {
        if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = s;
        __syncthreads();
        Sums none = {0, 0};
        s = of_lanes(threadIdx.x % 32 < blockDim.x / 32 ? warps[threadIdx.x % 32] : none, 32);
        __syncthreads();
    }
    return s;
}

// Of some numbers: how many, their mean, and the sum of their squared distances from it.
struct Moments { A n, mean, square; };
__device__ __forceinline__ Moments merged(Moments a, Moments b) {
    if (b.n == 0) return a;
    if (a.n == 0) return b;
    A n = a.n + b.n, d = b.mean - a.mean, share = b.n / n;
    Moments m = {n, a.mean + d * share, a.square + b.square + d * d * a.n * share};
    return m;
}
template <int N> __device__ __forceinline__ Moments moments(const A (&v)[N]) {
    A total = 0, square = 0;
    #pragma unroll
    for (int i = 0; i < N; i++) total += v[i];
    A mean = total / N;
    #pragma unroll
    for (int i = 0; i < N; i++) { A d = v[i] - mean; square += d * d; }
    Moments m = {(A)N, mean, square};
    return m;
}
__device__ __forceinline__ Moments of_lanes(Moments m, int width) {
    for (int o = width / 2; o; o >>= 1) {
        Moments b = {__shfl_xor_sync(ALL, m.n, o), __shfl_xor_sync(ALL, m.mean, o),
                     __shfl_xor_sync(ALL, m.square, o)};
        m = merged(m, b);
    }
    // Two lanes merge in two orders, so that they may round apart: all take the first one's.
    m.mean = __shfl_sync(ALL, m.mean, 0, width);
    m.square = __shfl_sync(ALL, m.square, 0, width);
    return m;
}
__device__ __forceinline__ Moments of_team(Moments m) {
    __shared__ Moments warps[32];
    m = of_lanes(m, team_width());
    if (blockDim.x > 32) {
        if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = m;
        __syncthreads();
        Moments none = {0, 0, 0};
        m = of_lanes(threadIdx.x % 32 < blockDim.x / 32 ? warps[threadIdx.x % 32] : none, 32);
    }
    return m;
}
__device__ __forceinline__ A inverse_of(A var, A eps) { return 1 / sqrt(var + eps); }
__device__ __forceinline__ A affine(A x, A mean, A scale, A shift) {
    return fma(x - mean, scale, shift);
}
