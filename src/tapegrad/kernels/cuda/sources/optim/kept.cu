// How a step of an optimizer rounds, and how means move.
#pragma once
#include "common/prelude.cu"

// A product that is rounded by itself, not as a part of what it is added to.
__device__ __forceinline__ float product(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ double product(double a, double b) { return __dmul_rn(a, b); }
__device__ __forceinline__ A toward(A a, A b, A weight) {
    return weight < (A)0.5 ? a + weight * (b - a) : b - (b - a) * (1 - weight);
}
