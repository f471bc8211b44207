// A norm of all gradients: one number from each block, and one block that takes them together.
// SIZE(a) is what an element counts, JOINED(a, b) the sum, END(total) the norm.
#include "optim/gradients.cu"

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
