// The shares of a product that was split along k, added up in their order.
#include "common/prelude.cu"

extern "C" __global__ void add_shares(
        const float* __restrict__ parts, const float* __restrict__ bias, float* __restrict__ out,
        i64 size, int n, int shares) {
    i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (i >= size) return;
    float sum = parts[i];
#pragma unroll 4
    for (int s = 1; s < shares; s++) sum += parts[s * size + i];
    out[i] = bias ? sum + bias[i % n] : sum;
}
