// Copies, casts, concatenations, sums in place and choices by a mask. One of the words ACCUMULATE,
// COPIES, CASTS, JOIN and CHOICE is defined: what is wanted.
#include "prelude.cu"

// Where the elements of an array are: dimensions from the fastest to the slowest, at least one.
#define RANK 5
struct Layout { int rank; unsigned size[RANK]; i64 stride[RANK]; };
__device__ __forceinline__ i64 place(int rank, const unsigned* size, const i64* stride,
        unsigned i) {
    i64 at = 0;
    #pragma unroll
    for (int d = 0; d < RANK; d++) {
        if (d == rank - 1) return at + i * stride[d];
        unsigned next = i / size[d];
        at += (i - next * size[d]) * stride[d];
        i = next;
    }
    return at;
}

#ifdef ACCUMULATE
// x += y, of contiguous arrays.
extern "C" __global__ void accumulate(T* x, const T* y, i64 n) {
    i64 fours = aligned(x, y) ? n / 4 : 0;
    EACH(i, fours) {
        Four<T> f = ((const Four<T>*)x)[i], g = ((const Four<T>*)y)[i];
        #pragma unroll
        for (int j = 0; j < 4; j++) STORE(f.v + j, LOAD(f.v + j) + LOAD(g.v + j));
        ((Four<T>*)x)[i] = f;
    }
    EACH(i, n - 4 * fours) { i64 k = 4 * fours + i; STORE(x + k, LOAD(x + k) + LOAD(y + k)); }
}
#endif

#ifdef COPIES
// Copies and casts, from GIVEN_DTYPE to DTYPE.
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
#endif

#ifdef CASTS
// Casts of many arrays at once, from GIVEN_DTYPE to DTYPE; blockIdx.y is the array. LIMIT: how many
// fit into a launch.
typedef OF_DTYPE(stored, GIVEN_DTYPE) S;
#define READ(p) OF_DTYPE(load, GIVEN_DTYPE)(p)
struct Casts { unsigned long long x[LIMIT], y[LIMIT]; i64 n[LIMIT]; };
extern "C" __global__ void cast_together(const __grid_constant__ Casts t) {
    const S* x = (const S*)t.x[blockIdx.y];
    T* y = (T*)t.y[blockIdx.y];
    i64 n = t.n[blockIdx.y], fours = aligned(x, y) ? n / 4 : 0;
    EACH(i, fours) {
        Four<S> f = ((const Four<S>*)x)[i]; Four<T> g;
        #pragma unroll
        for (int j = 0; j < 4; j++) STORE(g.v + j, READ(f.v + j));
        ((Four<T>*)y)[i] = g;
    }
    EACH(i, n - 4 * fours) { i64 k = 4 * fours + i; STORE(y + k, READ(x + k)); }
}
#endif

#ifdef JOIN
// Several arrays one after the other along a dimension: blockIdx.y is the array, zeros if its
// pointer is null. A `row` of the result has `width` elements of it, from `start` on. LIMIT: how
// many fit into a launch.
struct Parts {
    unsigned long long p[LIMIT]; unsigned n[LIMIT], width[LIMIT]; i64 start[LIMIT];
    int rank[LIMIT]; unsigned size[LIMIT][RANK]; i64 stride[LIMIT][RANK];
};
extern "C" __global__ void join(const __grid_constant__ Parts a, T* __restrict__ out, i64 row) {
    int k = blockIdx.y;
    const T* x = (const T*)a.p[k];
    unsigned width = a.width[k];
    T* to = out + a.start[k];
    EACH(i, a.n[k]) {
        unsigned line = (unsigned)i / width;
        T v = T();
        if (x) v = x[place(a.rank[k], a.size[k], a.stride[k], i)];
        to[line * row + ((unsigned)i - line * width)] = v;
    }
}
#endif

#ifdef CHOICE
// DOES(m, a, b, s): a choice by a mask, whose elements are used `run` times in a row;
// after its `size` elements it begins anew.
extern "C" __global__ void choice(const unsigned char* __restrict__ mask, const T* __restrict__ x,
        const T* __restrict__ y, T* __restrict__ z, unsigned n, unsigned run, unsigned size, A s) {
    EACH(i, n) {
        unsigned k = i;
        bool m = mask[size == n ? k : k / run % size] != 0;
        A a = LOAD(x + k), b = LOAD(y + k);
        STORE(z + k, DOES(m, a, b, s));
    }
}
#endif
