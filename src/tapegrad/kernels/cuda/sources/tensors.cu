// Many tensors in one launch, and how a step of an optimizer rounds.
#pragma once
#include "prelude.cu"

// Many tensors in one launch: which of them a block works on. `first` holds the tensors' first
// blocks.
#define THREADS 256
template <typename L> __device__ __forceinline__ int tensor_of(const L& l) {
    int low = 0, high = l.count - 1, block = blockIdx.x;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (l.first[middle] <= block) low = middle; else high = middle - 1;
    }
    return low;
}

// How a step of an optimizer rounds, and how means move.
// A product that is rounded by itself, not as a part of what it is added to.
__device__ __forceinline__ float product(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ double product(double a, double b) { return __dmul_rn(a, b); }
__device__ __forceinline__ A toward(A a, A b, A weight) {
    return weight < (A)0.5 ? a + weight * (b - a) : b - (b - a) * (1 - weight);
}
