// Numbers that are drawn by rejection: Poisson, binomial and gamma; and rrelu's.
//
// How many words such a number takes depends on the words, so a thread reads its words one by one. The
// formulas are those of PyTorch's kernels and of curand, down to where they round: `narrow` is what
// arithmetic of half precision does after each step, and constants are double where theirs are.
#pragma once
#include "random/philox.cu"

__device__ __forceinline__ A narrow(A v) { T t; STORE(&t, v); return LOAD(&t); }
__device__ __forceinline__ float ln(float x) { return logf(x); }
__device__ __forceinline__ double ln(double x) { return log(x); }
__device__ __forceinline__ float root(float x) { return sqrtf(x); }
__device__ __forceinline__ double root(double x) { return sqrt(x); }
__device__ __forceinline__ float fused(float x, float y, float z) { return fmaf(x, y, z); }
__device__ __forceinline__ double fused(double x, double y, double z) { return fma(x, y, z); }

// The words of a thread, one after the other.
struct Stream {
    u64 seed, thread, round;
    Words block;
    int used;
    float kept;  // the second normal of a pair, until it is asked for
    bool keeps;

    __device__ Stream(u64 seed, u64 thread, u64 round)
        : seed(seed), thread(thread), round(round), used(0), kept(0), keeps(false) {}
    __device__ u32 word() {
        if (used == 0) block = philox(seed, thread, round++);
        u32 found = used == 0 ? block.w[0] : used == 1 ? block.w[1] : used == 2 ? block.w[2]
            : block.w[3];
        used = (used + 1) & 3;
        return found;
    }
    // In (0, 1].
    __device__ float unit() { return single(word()); }
    // In [0, 1), of 24 bits.
    __device__ float bits() { return (word() & 0xffffffu) * 5.9604644775390625e-8f; }
    __device__ float normal() {
        if (keeps) { keeps = false; return kept; }
        float length = sqrtf(-2.0f * logf(unit())), s, c;
        float angle = word() * 1.46291807926715968105133780430979e-9f
            + 0.73145903963357984052566890215489e-9f;
        __sincosf(angle, &s, &c);
        kept = c * length; keeps = true;
        return s * length;
    }
    __device__ double wide_normal() {
        u32 a = word(), b = word(), c = word(), d = word();
        double sine, cosine;
        sincospi(2.0 * wide(c, d), &sine, &cosine);
        return sine * sqrt(-2.0 * log(wide(a, b)));
    }
};
// A thread to a number, whatever the launch: number i has the words of thread i.
#define NUMBERS(i) BEGIN for (i64 i = thread; i < n; i += threads)
