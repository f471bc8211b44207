// Copies and casts, from GIVEN_DTYPE to DTYPE.
#include "moves/layout.cu"

typedef OF_DTYPE(stored, GIVEN_DTYPE) S;
#define READ(p) OF_DTYPE(load, GIVEN_DTYPE)(p)
extern "C" __global__ void copy_line(const S* __restrict__ x, T* __restrict__ y, i64 n) {
    i64 fours = aligned(x, y) ? n / 4 : 0;
    EACH(i, fours) {
        Four<S> f = ((const Four<S>*)x)[i]; Four<T> g;
        #pragma unroll
        for (int j = 0; j < 4; j++) STORE(g.v + j, READ(f.v + j));
        ((Four<T>*)y)[i] = g;
    }
    EACH(i, n - 4 * fours) { i64 k = 4 * fours + i; STORE(y + k, READ(x + k)); }
}
extern "C" __global__ void copy_from(const S* __restrict__ x, T* __restrict__ y,
        const __grid_constant__ Layout l, unsigned n) {
    EACH(i, n) STORE(y + i, READ(x + place(l.rank, l.size, l.stride, i)));
}
extern "C" __global__ void copy_between(const S* x, T* y, const __grid_constant__ Layout from,
        const __grid_constant__ Layout to, unsigned n) {
    EACH(i, n) {
        i64 there = place(to.rank, to.size, to.stride, i);
        STORE(y + there, READ(x + place(from.rank, from.size, from.stride, i)));
    }
}
