// Running statistics of a batch norm.
#pragma once
#include "norms/dtypes.cu"

// Running statistics follow those of a batch, and batches are counted, where pointers are given.
#define RUNNING S* means, S* vars, i64* batches, A momentum, A unbiased
#define RUNNING_TOO means, vars, batches, momentum, unbiased
__device__ __forceinline__ void follow(RUNNING, unsigned channel, A mean, A var) {
    if (!means) return;
    S* m = means + channel; S* v = vars + channel;
    STORE_S(m, LOAD_S(m) * (1 - momentum) + mean * momentum);
    STORE_S(v, LOAD_S(v) * (1 - momentum) + var * unbiased * momentum);
    if (batches && channel == 0) *batches += 1;
}
