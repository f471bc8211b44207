// Where the elements of an array are: dimensions from the fastest to the slowest, at least one.
#pragma once
#include "common/prelude.cu"

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
