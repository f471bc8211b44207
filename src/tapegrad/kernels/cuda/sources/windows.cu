// Windows of convolutions and poolings over up to three dimensions (the first ones may be 1).
// Positions are split up by divisions, which take long unless the divisor was prepared.
#pragma once
#include "prelude.cu"

struct Cut { unsigned by, times, shift; };
__device__ __forceinline__ unsigned quotient(unsigned n, const Cut& c) {
    return ((unsigned)((n * (unsigned long long)c.times) >> 32) + n) >> c.shift;
}
// Windows into volumes of `size`: `out` of them along each dimension, `stride` apart, the first
// `low` places before the first element.
struct Windows { Cut out[3], size[3], stride[3]; int kernel[3], low[3], dilation[3]; };
__device__ __forceinline__ unsigned volume(const Cut* sizes) {
    return sizes[0].by * sizes[1].by * sizes[2].by;
}
// An element of stacked volumes: which of them, where in it.
struct Spot { unsigned plane; int at[3]; };
__device__ __forceinline__ Spot spot(unsigned i, const Cut* sizes) {
    Spot s;
    #pragma unroll
    for (int d = 2; d >= 0; d--) {
        unsigned next = quotient(i, sizes[d]);
        s.at[d] = i - next * sizes[d].by;
        i = next;
    }
    s.plane = i;
    return s;
}
__device__ __forceinline__ bool within(int at, const Cut& size) { return (unsigned)at < size.by; }
