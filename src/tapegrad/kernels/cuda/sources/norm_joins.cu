// What a norm's kernel does besides, said by `joined.cu` (join_sources.py), or nothing.
//
// After the norm: TAIL is run on what was standardized, and stores what is to be kept of it; other
// arrays are read by TAIL_READ, at the same time as the norm's input. Before its gradient: PULLED
// computes the gradient that arrives from that of an elementwise op's result, whose input or result
// it computes again. All values are rounded as if they had been in memory.
#pragma once
#include "prelude.cu"
#include "joined.cu"

#ifndef TAIL
#define TAIL_PARAMS
#define TAIL_TOO
#define LINE(set, first, scale, shift)
#define TAIL_READ(at)
#define TAIL(at, f)
#endif
#ifndef PULLED
#define PULL_PARAMS
#define PULL_TOO
#define PULLED(at, f, h, set)
#define KEEP(at, f)
#endif
// A product of one op and the sum of the next must not become one instruction, which rounds once.
// Nothing is fused with these products, and the compiler does not know that `one` is 1.
__device__ __forceinline__ void settle(float& v, float one) { v = __fmul_rn(v, one); }
__device__ __forceinline__ void settle(double& v, double one) { v = __dmul_rn(v, one); }
__device__ __forceinline__ void settle(u16& v, float one) {}

// The other dtypes of a norm: P of its parameters (P_DTYPE), S of running statistics (S_DTYPE).
typedef OF_DTYPE(stored, P_DTYPE) P;
#define LOAD_P(p) OF_DTYPE(load, P_DTYPE)(p)
#define STORE_P(p, v) OF_DTYPE(store, P_DTYPE)(p, v)
typedef OF_DTYPE(stored, S_DTYPE) S;
#define LOAD_S(p) OF_DTYPE(load, S_DTYPE)(p)
#define STORE_S(p, v) OF_DTYPE(store, S_DTYPE)(p, v)

// Running statistics of a batch norm.
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
