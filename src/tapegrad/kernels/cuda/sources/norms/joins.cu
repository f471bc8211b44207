// What a norm's kernel does besides, said by `joined.cu` (join_sources.py), or nothing.
//
// After the norm: TAIL is run on what was standardized, and stores what is to be kept of it; other
// arrays are read by TAIL_READ, at the same time as the norm's input. Before its gradient: PULLED
// computes the gradient that arrives from that of an elementwise op's result, whose input or result
// it computes again. All values are rounded as if they had been in memory.
#pragma once
#include "common/prelude.cu"
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
