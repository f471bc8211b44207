// What matrix products need of PTX: the product of a tensor core, copies to shared memory.
#pragma once
#include "prelude.cu"

#define DYNAMIC_SHARED(type, name) extern __shared__ __align__(16) type name[]
// d += a b: 16x8 += 16x8 by 8x8, of which the tensor core reads the upper 19 bits of each number.
__device__ __forceinline__ void mma_tf32(
        float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// Start a copy of 16 bytes, of which only the first `bytes` are read; the others become zeros.
__device__ __forceinline__ void copy_async(void* shared, const void* global, int bytes) {
    unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(to), "l"(global), "r"(bytes) : "memory");
}
__device__ __forceinline__ void copy_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
// Wait until all but the newest N groups of copies have landed.
template <int N> __device__ __forceinline__ void copy_wait() {
    asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");
}
