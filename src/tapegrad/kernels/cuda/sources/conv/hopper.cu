// Convolutions in TF32 on Hopper's tensor cores, which read one factor from shared memory by themselves
// and the other from registers.
//
// The factor in registers may lie anywhere: images are read as they are, at the distance of a tap, and
// places outside are read from a zero after each channel. So a block has all that its places need in
// shared memory once, for all taps. PITCH: how far apart channels lie in shared memory.
#pragma once
#include "conv/windows.cu"
#include "products/instructions.cu"

#define EVERY _Pragma("unroll")
#define BK 32

__device__ __forceinline__ unsigned address(const void* shared) {
    return (unsigned)__cvta_generic_to_shared(shared);
}
// What threads have copied is seen by the tensor cores.
__device__ __forceinline__ void fence_copies() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void mma_begin() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void mma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Wait until all but the newest N groups of products are done.
template <int N> __device__ __forceinline__ void mma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory");
}
#define D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D16(i) D4(i), D4(i + 4), D4(i + 8), D4(i + 12)
// d += a b, of 64 x 8 numbers in registers and 8 x 64 (or 128) in shared memory.
__device__ __forceinline__ void mma_wide(float (&d)[32], const unsigned (&a)[4],
        unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, 1, 1, 1;"
        : D16(0), D16(16) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ __forceinline__ void mma_wide(float (&d)[64], const unsigned (&a)[4],
        unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, 1, 1, 1;"
        : D16(0), D16(16), D16(32), D16(48)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
// How the tensor cores are told of rows of 128 bytes, in groups of eight.
__device__ __forceinline__ unsigned long long described(unsigned at) {
    return (unsigned long long)((at & 0x3ffff) >> 4) | 1ull << 16 | (1024ull >> 4) << 32
        | 1ull << 62;
}
// Where 16 bytes of such a row are: swapped by `x ^ (row % 8)`.
__device__ __forceinline__ int swapped(int row, int part) {
    return row * BK + (part ^ (row % 8)) * 4;
}
__device__ __forceinline__ unsigned bits_of(float x) { return __float_as_uint(x); }
__device__ __forceinline__ float* first_kilobyte(float* room) {
    return room + (1024 - address(room) % 1024) % 1024 / 4;
}

// Places that are made, and where they find what they are made of. Without `back` that is y from x.
// With it, x from y, places are taken by class: those that have the same remainders by the stride
// meet the same taps, and no others are looked at.
struct Class {
    int first[3], count[3], step[3], rest[3];
    bool back;
    __device__ __forceinline__ Class(const Windows& w, bool back, int z) : back(back) {
        EVERY for (int d = 2; d >= 0; d--) {
            int stride = w.stride[d].by;
            rest[d] = first[d] = 0;
            step[d] = 1;
            count[d] = w.out[d].by;
            if (back) {
                rest[d] = z % stride;
                z /= stride;
                first[d] = ((rest[d] - w.low[d]) % stride + stride) % stride;
                step[d] = stride;
                int left = (int)w.size[d].by - first[d];
                count[d] = left > 0 ? (left + stride - 1) / stride : 0;
            }
        }
    }
    __device__ __forceinline__ int inside() const { return count[0] * count[1] * count[2]; }
    // How far along a dimension tap k is from tap 0; `meets` is whether the class meets it.
    __device__ __forceinline__ int away(const Windows& w, int d, int k, bool& meets) const {
        int far = k * w.dilation[d];
        if (!back) return far;
        int stride = w.stride[d].by;
        meets &= (far - rest[d]) % stride == 0;
        return -((far - rest[d]) / stride);
    }
    // Where place `i` of the class finds tap 0 along each dimension; its own place is `made`.
    __device__ __forceinline__ void find(const Windows& w, int i, int* at, int& made) const {
        int place[3];
        EVERY for (int d = 2; d >= 0; d--) {
            int next = back ? i / count[d] : (int)quotient(i, w.out[d]);
            place[d] = first[d] + (i - next * count[d]) * step[d];
            i = next;
            at[d] = back ? (place[d] + w.low[d] - rest[d]) / (int)w.stride[d].by
                         : place[d] * (int)w.stride[d].by - w.low[d];
        }
        const Cut* to = back ? w.size : w.out;
        made = (place[0] * (int)to[1].by + place[1]) * (int)to[2].by + place[2];
    }
};
// The taps that a class meets: which, how far each is from tap 0, along dimensions and in all.
struct Taps { int count, low, high, tap[32], away[32], along[32][3]; };  // low, high: of `away`

// List them, by the first warp.
__device__ __forceinline__ void list_taps(const Windows& w, const Class& own, Taps& taps) {
    if (threadIdx.x >= 32) return;
    int tap = threadIdx.x, wide = w.kernel[2], area = w.kernel[1] * wide;
    const Cut* from = own.back ? w.out : w.size;
    bool meets = tap < w.kernel[0] * area;
    int k[3] = {tap / area, tap % area / wide, tap % wide}, along[3], away = 0;
    EVERY for (int d = 0; d < 3; d++) {
        along[d] = own.away(w, d, k[d], meets);
        away = away * (int)from[d].by + along[d];
    }
    unsigned all = __ballot_sync(0xffffffffu, meets);
    int i = __popc(all & ((1u << tap) - 1));
    if (meets) {
        taps.tap[i] = tap;
        taps.away[i] = away;
        EVERY for (int d = 0; d < 3; d++) taps.along[i][d] = along[d];
    }
    __syncwarp();
    if (tap == 0) {
        int n = taps.count = __popc(all);
        taps.low = n ? min(taps.away[0], taps.away[n - 1]) : 0;
        taps.high = n ? max(taps.away[0], taps.away[n - 1]) : 0;
    }
}
// Which of the listed taps lie inside, one bit each.
__device__ __forceinline__ unsigned seen(const Cut* from, const Taps& taps, const int* at) {
    unsigned bits = 0;
    for (int i = 0; i < taps.count; i++) {
        bool fits = true;
        EVERY for (int d = 0; d < 3; d++)
            fits &= (unsigned)(at[d] + taps.along[i][d]) < from[d].by;
        bits |= (unsigned)fits << i;
    }
    return bits;
}
__device__ __forceinline__ int linear(const Cut* sizes, const int* at) {
    return (at[0] * (int)sizes[1].by + at[1]) * (int)sizes[2].by + at[2];
}
