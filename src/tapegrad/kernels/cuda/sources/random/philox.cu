// PyTorch's random numbers: the words of Philox, and which thread draws which (cuda/philox.py).
#pragma once
#include "common/prelude.cu"

typedef unsigned int u32;
typedef unsigned long long u64;
// Where a draw starts; in a recorded graph `cell` holds the seed and the round to count from.
#define START const u64* __restrict__ cell, u64 seed, u64 round
#define BEGIN if (cell) { seed = cell[0]; round += cell[1]; } \
    const i64 thread = blockIdx.x * 256ll + threadIdx.x, threads = gridDim.x * 256ll; \
    i64 turn = 0;
// The rounds of a thread that makes PER numbers of a block: `first`, `first + threads`, ...
#define TURNS for (i64 first = thread; first < n; first += threads * PER, turn++)
#define EACH_NUMBER(j, at) for (int j = 0; j < PER; j++) \
    for (i64 at = first + threads * j; at < n; at = n)

struct Words { u32 w[4]; };
__device__ __forceinline__ Words philox(u64 seed, u64 thread, u64 round) {
    u32 c0 = (u32)round, c1 = (u32)(round >> 32), c2 = (u32)thread, c3 = (u32)(thread >> 32);
    u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
    #pragma unroll
    for (int i = 0; i < 10; i++) {
        u32 low0 = 0xD2511F53u * c0, high0 = __umulhi(0xD2511F53u, c0);
        u32 low1 = 0xCD9E8D57u * c2, high1 = __umulhi(0xCD9E8D57u, c2);
        c0 = high1 ^ c1 ^ k0; c1 = low1;
        c2 = high0 ^ c3 ^ k1; c3 = low0;
        k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
    }
    Words out = {{c0, c1, c2, c3}};
    return out;
}
// In (0, 1].
__device__ __forceinline__ float single(u32 word) {
    return word * 2.3283064365386963e-10f + 1.16415321826934814453125e-10f;
}
__device__ __forceinline__ double wide(u32 low, u32 high) {
    return (double)(low ^ (u64)high << 21) * 1.1102230246251565e-16 + 5.5511151231257827e-17;
}
