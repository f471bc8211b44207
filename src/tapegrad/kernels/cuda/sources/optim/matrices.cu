// Optimizers that look at whole matrices: Adafactor and Muon.
//
// One launch works on many tensors (LIMIT at most): each has some of the blocks, and `first_…` holds the
// first ones. Numbers that all elements share are found in double precision, as on the host.
#pragma once
#include "optim/kept.cu"

#define THREADS 256
__device__ __forceinline__ int which(const int* first, int count) {
    int low = 0, high = count - 1, block = blockIdx.x;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (first[middle] <= block) low = middle; else high = middle - 1;
    }
    return low;
}
// The elements that a block works on: some of tensor k.
template <typename Launch> struct Chunk {
    int k;
    i64 start, end;
    __device__ __forceinline__ Chunk(const Launch& l) : k(which(l.first, l.count)) {
        start = (blockIdx.x - l.first[k]) * (i64)l.chunk;
        end = start + l.chunk < l.n[k] ? start + l.chunk : l.n[k];
    }
};
// The sum of what the blocks of tensor k have found.
template <typename Launch> __device__ __forceinline__ double total(const Launch& l, int k,
        const double* parts) {
    i64 blocks = (l.n[k] + l.chunk - 1) / l.chunk;
    double sum = 0;
    for (i64 b = threadIdx.x; b < blocks; b += THREADS) sum += parts[l.first[k] + b];
    return block_sum(sum);
}
// As Python's max: what is no number does not count.
__device__ __forceinline__ double at_least(double least, double x) { return x > least ? x : least; }
