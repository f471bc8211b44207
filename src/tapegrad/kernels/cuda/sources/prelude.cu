// What every program begins with: how memory of a dtype is read and written, and how work is
// shared.
//
// DTYPE says what memory holds: `T`. Computed is with `A`: single precision for half precision too.
// Half precision is stored as 16 bits and converted by hand, so that no header is needed.
#pragma once

typedef unsigned short u16;
typedef long long i64;
#undef INFINITY
#define INFINITY __int_as_float(0x7f800000)
__device__ __forceinline__ float from_half(u16 h) {
    float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f;
}
__device__ __forceinline__ u16 to_half(float f) {
    u16 h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h;
}
__device__ __forceinline__ float from_bfloat16(u16 b) {
    return __uint_as_float(((unsigned)b) << 16);
}
__device__ __forceinline__ u16 to_bfloat16(float f) {
    if (f != f) return (u16)0x7fc0;
#if __CUDA_ARCH__ >= 800
    u16 b; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(b) : "f"(f)); return b;
#else
    unsigned u = __float_as_uint(f);
    return (u16)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
#endif
}
template <typename X> __device__ __forceinline__ X warp_sum(X x) {
    for (int o = 16; o; o >>= 1) x += __shfl_xor_sync(0xffffffffu, x, o);
    return x;
}
template <typename X> __device__ __forceinline__ X warp_max(X x) {
    for (int o = 16; o; o >>= 1) { X y = __shfl_xor_sync(0xffffffffu, x, o); x = y > x ? y : x; }
    return x;
}

// Of each dtype: how it is stored, what is computed with, how it is read and written.
#define PLAIN_LOAD(p) (*(p))
#define PLAIN_STORE(p, v) (*(p) = (v))
typedef float stored_float32, computed_float32;
#define load_float32 PLAIN_LOAD
#define store_float32 PLAIN_STORE
typedef double stored_float64, computed_float64;
#define load_float64 PLAIN_LOAD
#define store_float64 PLAIN_STORE
typedef u16 stored_float16;
typedef float computed_float16;
#define load_float16(p) from_half(*(p))
#define store_float16(p, v) (*(p) = to_half(v))
typedef u16 stored_bfloat16;
typedef float computed_bfloat16;
#define load_bfloat16(p) from_bfloat16(*(p))
#define store_bfloat16(p, v) (*(p) = to_bfloat16(v))
typedef unsigned char stored_bool;  // masks
typedef float computed_bool;
#define load_bool PLAIN_LOAD
#define store_bool(p, v) (*(p) = (stored_bool)(v))
typedef i64 stored_index64, computed_index64;
#define load_index64 PLAIN_LOAD
#define store_index64 PLAIN_STORE
typedef int stored_index32, computed_index32;
#define load_index32 PLAIN_LOAD
#define store_index32 PLAIN_STORE
// Memory that is only moved, by the size of its items.
typedef unsigned char stored_raw1, computed_raw1;
typedef u16 stored_raw2, computed_raw2;
typedef unsigned stored_raw4, computed_raw4;
typedef unsigned long long stored_raw8, computed_raw8;
typedef ulonglong2 stored_raw16, computed_raw16;
#define load_raw1 PLAIN_LOAD
#define load_raw2 PLAIN_LOAD
#define load_raw4 PLAIN_LOAD
#define load_raw8 PLAIN_LOAD
#define load_raw16 PLAIN_LOAD
#define store_raw1 PLAIN_STORE
#define store_raw2 PLAIN_STORE
#define store_raw4 PLAIN_STORE
#define store_raw8 PLAIN_STORE
#define store_raw16 PLAIN_STORE

#define PASTED(a, b) a##_##b
#define OF_DTYPE(what, dtype) PASTED(what, dtype)
typedef OF_DTYPE(stored, DTYPE) T;
typedef OF_DTYPE(computed, DTYPE) A;
#define LOAD(p) OF_DTYPE(load, DTYPE)(p)
#define STORE(p, v) OF_DTYPE(store, DTYPE)(p, v)

#define EACH(i, n) for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < (n); \
                        i += (i64)gridDim.x * blockDim.x)
// Four neighbours, which move at once where all addresses are multiples of 16.
template <typename X> struct alignas(sizeof(X) < 4 ? 4 * sizeof(X) : 16) Four { X v[4]; };
__device__ __forceinline__ bool aligned(const void* a, const void* b, const void* c = 0) {
    return (((unsigned long long)a | (unsigned long long)b | (unsigned long long)c) & 15) == 0;
}
// The sum over a block, for every thread of it.
template <typename X> __device__ __forceinline__ X block_sum(X x) {
    __shared__ X sums[32];
    int id = threadIdx.y * blockDim.x + threadIdx.x, warps = blockDim.x * blockDim.y / 32;
    x = warp_sum(x);
    if (id % 32 == 0) sums[id / 32] = x;
    __syncthreads();
    x = warp_sum(id % 32 < warps ? sums[id % 32] : (X)0);
    __syncthreads();
    return x;
}
