// The elements of many tensors, each put through `change`. LIMIT: how many tensors fit into a launch.
#pragma once
#include "optim/blocks.cu"

struct Launch {
    unsigned long long p[LIMIT]; i64 n[LIMIT]; int first[LIMIT]; int count, chunk;
};
template <typename F> __device__ __forceinline__ void each_element(const Launch& l, bool writes,
        F change) {
    int k = tensor_of(l);
    i64 start = (blockIdx.x - l.first[k]) * (i64)l.chunk;
    i64 n = l.n[k] - start < l.chunk ? l.n[k] - start : l.chunk;
    T* at = (T*)l.p[k] + start;
    i64 fours = l.p[k] % 16 ? 0 : n / 4;
    for (i64 i = threadIdx.x; i < fours; i += THREADS) {
        Four<T> v = ((const Four<T>*)at)[i];
        #pragma unroll
        for (int j = 0; j < 4; j++) { A a = change(LOAD(v.v + j)); STORE(v.v + j, a); }
        if (writes) ((Four<T>*)at)[i] = v;
    }
    for (i64 i = 4 * fours + threadIdx.x; i < n; i += THREADS) {
        A a = change(LOAD(at + i));
        if (writes) STORE(at + i, a);
    }
}
