// What is done to all gradients at once: their norm, clipping, taking a scale out; and the scale of
// a GradScaler after a step. LIMIT: how many tensors fit into a launch.
#include "tensors.cu"

// The elements of many tensors, each put through `change`. LIMIT: how many tensors fit into a
// launch.
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

#ifdef NORMS
// A norm of all gradients: one number from each block, and one block that takes them together.
// SIZE(a) is what an element counts, JOINED(a, b) the sum, END(total) the norm.
__device__ __forceinline__ A size(A a) { return SIZE(a); }
__device__ __forceinline__ A joined(A a, A b) { return JOINED(a, b); }
__device__ __forceinline__ A block_joined(A a) {
    __shared__ A of_warps[THREADS / 32];
    for (int o = 16; o; o >>= 1) a = joined(a, __shfl_xor_sync(0xffffffffu, a, o));
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = a;
    __syncthreads();
    a = of_warps[0];
    for (int i = 1; i < THREADS / 32; i++) a = joined(a, of_warps[i]);
    return a;
}
extern "C" __global__ void __launch_bounds__(THREADS) norm_parts(const __grid_constant__ Launch l,
        A* __restrict__ parts) {
    A total = 0;
    each_element(l, false, [&](A a) { total = joined(total, size(a)); return a; });
    total = block_joined(total);
    if (threadIdx.x == 0) parts[blockIdx.x] = total;
}
extern "C" __global__ void __launch_bounds__(THREADS) norm_end(const A* __restrict__ parts,
        T* __restrict__ out, int count) {
    A total = 0;
    #pragma unroll 4
    for (int i = threadIdx.x; i < count; i += THREADS) total = joined(total, parts[i]);
    total = block_joined(total);
    if (threadIdx.x == 0) STORE(out, END(total));
}
#endif

#ifdef CHANGES
// What is done to all gradients at once: clipping, and taking a scale out.
// Down to `most`, where the norm of all is more. Every step is rounded as tensors are.
extern "C" __global__ void __launch_bounds__(THREADS) shorten(const __grid_constant__ Launch l,
        const T* __restrict__ norm, A most) {
    T t;
    STORE(&t, LOAD(norm) + (A)1e-6);
    STORE(&t, most / LOAD(&t));
    A scale = LOAD(&t);
    if (scale > 1) scale = 1;
    each_element(l, true, [&](A a) { return a * scale; });
}
extern "C" __global__ void __launch_bounds__(THREADS) limit(const __grid_constant__ Launch l,
        A most) {
    each_element(l, true, [&](A a) { return a > most ? most : a < -most ? -most : a; });
}
extern "C" __global__ void __launch_bounds__(THREADS) unscale(const __grid_constant__ Launch l,
        const float* __restrict__ inverse, float* found) {
    A scale = *inverse;
    bool infinite = false;
    each_element(l, true, [&](A a) {
        infinite |= a - a != 0;  // of a NaN too
        return scale == 1 ? a : a * scale;
    });
    if (infinite) *found = 1;
}
#endif

// The scale of a GradScaler after a step.
extern "C" __global__ void next_scale(float* scale, int* tracker, const float* found,
        float growth, float backoff, int interval) {
    if (*found != 0) { *scale *= backoff; *tracker = 0; return; }
    int count = *tracker + 1;
    if (count == interval) {
        float grown = *scale * growth;
        if (grown - grown == 0) *scale = grown;
        count = 0;
    }
    *tracker = count;
}
