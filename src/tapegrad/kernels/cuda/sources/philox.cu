// PyTorch's random numbers: the words of Philox, and which thread draws which (cuda/philox.py).
// WORDS, FLOATS or DROPOUT is defined, or none of them: what is wanted besides.
#pragma once
#include "prelude.cu"

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

#ifdef WORDS
// Random words as they are, and permutations.
extern "C" __global__ void words(u32* __restrict__ y, START, i64 n) {
    const int PER = 4;
    BEGIN
    TURNS {
        Words w = philox(seed, thread, round + turn);
        EACH_NUMBER(j, at) y[at] = w.w[j];
    }
}
extern "C" __global__ void long_words(u64* __restrict__ y, START, i64 n) {
    const int PER = 2;
    BEGIN
    TURNS {
        Words w = philox(seed, thread, round + turn);
        EACH_NUMBER(j, at) y[at] = (u64)w.w[2 * j] << 32 | w.w[2 * j + 1];
    }
}
extern "C" __global__ void fours(float* __restrict__ y, START, i64 n) {
    BEGIN
    for (i64 g = thread; g < (n + 3) / 4; g += threads) {
        Words w = philox(seed, g, round);
        for (int j = 0; j < 4; j++) if (4 * g + j < n) y[4 * g + j] = single(w.w[j]);
    }
}
// Shuffles the places of equal keys; the thread of the first of them does it.
extern "C" __global__ void untied(const u64* __restrict__ keys, i64* __restrict__ order, START,
                                  i64 n) {
    BEGIN
    for (i64 g = thread; g < n - 1; g += threads) {
        u64 key = keys[g];
        if (key != keys[g + 1] || (g && key == keys[g - 1])) continue;
        i64 end = g + 2;
        while (end < n && keys[end] == key) end++;
        Words w;
        int k = 0;
        for (i64 i = end - g - 1; i > 0; i--, k++) {
            if (k % 4 == 0) w = philox(seed, g, round + k / 4);
            i64 other = w.w[k % 4] % (u32)(i + 1), kept = order[g + i];
            order[g + i] = order[g + other]; order[g + other] = kept;
        }
    }
}
extern "C" __global__ void fill_cell(u64* cell, u64 seed, u64 round) {
    if (blockIdx.x == 0 && threadIdx.x == 0) { cell[0] = seed; cell[1] = round; }
}
#endif

#ifdef FLOATS
// Random floats of several distributions.
const int PER = sizeof(A) == 8 ? 2 : 4;
__device__ __forceinline__ void units(const Words& w, float* v) {
    for (int j = 0; j < 4; j++) v[j] = single(w.w[j]);
}
__device__ __forceinline__ void units(const Words& w, double* v) {
    for (int j = 0; j < 2; j++) v[j] = wide(w.w[2 * j], w.w[2 * j + 1]);
}
// Box and Muller, with the functions that curand has: sines and cosines are the quick ones.
__device__ __forceinline__ void normals(const Words& w, float* v) {
    for (int j = 0; j < 4; j += 2) {
        float angle = w.w[j + 1] * 1.46291807926715968105133780430979e-9f
            + 0.73145903963357984052566890215489e-9f;
        float length = sqrtf(-2.0f * logf(single(w.w[j]))), s, c;
        __sincosf(angle, &s, &c);
        v[j] = s * length; v[j + 1] = c * length;
    }
}
__device__ __forceinline__ void normals(const Words& w, double* v) {
    double length = sqrt(-2.0 * log(wide(w.w[0], w.w[1]))), s, c;
    sincospi(2.0 * wide(w.w[2], w.w[3]), &s, &c);
    v[0] = s * length; v[1] = c * length;
}

extern "C" __global__ void uniform(T* __restrict__ y, START, i64 n) {
    BEGIN
    TURNS {
        A v[PER];
        units(philox(seed, thread, round + turn), v);
        EACH_NUMBER(j, at) STORE(y + at, v[j]);
    }
}
// `open` and `closed` are the ends of the range as T has them: no number is the open end.
extern "C" __global__ void between(T* __restrict__ y, START, A low, A range, A closed, A open,
                                   i64 n) {
    BEGIN
    TURNS {
        A v[PER];
        units(philox(seed, thread, round + turn), v);
        EACH_NUMBER(j, at) {
            STORE(y + at, v[j] * range + low);
            if (LOAD(y + at) == open) STORE(y + at, closed);
        }
    }
}
extern "C" __global__ void normal(T* __restrict__ y, START, A mean, A std, i64 n) {
    BEGIN
    TURNS {
        A v[PER];
        normals(philox(seed, thread, round + turn), v);
        EACH_NUMBER(j, at) STORE(y + at, v[j] * std + mean);
    }
}
// Of a uniform or a normal `v`, with the quick functions that PyTorch takes for single precision.
__device__ __forceinline__ float quick_log(float x) { return __logf(x); }
__device__ __forceinline__ double quick_log(double x) { return log(x); }
__device__ __forceinline__ float log_of_rest(float p) { return __logf(1.0f - p); }
__device__ __forceinline__ double log_of_rest(double p) { return log1p(-p); }
__device__ __forceinline__ float quick_exp(float x) { return __expf(x); }
__device__ __forceinline__ double quick_exp(double x) { return exp(x); }
#define EPS (sizeof(A) == 8 ? (A)2.220446049250313e-16 : (A)1.1920928955078125e-7)
__device__ __forceinline__ float angle_of(float v) {
    v = v > 1 - EPS ? 1 - EPS : v < EPS ? EPS : v;
    return __tanf(3.14159265358979f * (v - 0.5f));
}
__device__ __forceinline__ double angle_of(double v) {
    return tan(3.14159265358979323846 * (v - 0.5));
}
#define MAPPED(name, from, number) \
extern "C" __global__ void name(T* __restrict__ y, START, A s, A t, i64 n) { \
    BEGIN \
    TURNS { \
        A all[PER]; \
        from(philox(seed, thread, round + turn), all); \
        EACH_NUMBER(j, at) { A v = all[j]; STORE(y + at, (number)); } \
    } \
}
MAPPED(exponential, units, (-1 / s) * (v >= 1 - EPS / 2 ? -EPS / 2 : quick_log(v)))
MAPPED(cauchy, units, s + t * angle_of(v))
MAPPED(log_normal, normals, quick_exp(v * t + s))
MAPPED(geometric, units, ceil(quick_log(v) / log_of_rest(s)))

extern "C" __global__ void bernoulli(T* __restrict__ y, START, A chance, i64 n) {
    BEGIN
    TURNS {
        A v[PER];
        units(philox(seed, thread, round + turn), v);
        EACH_NUMBER(j, at) STORE(y + at, v[j] < chance ? (A)1 : (A)0);
    }
}
#endif

#ifdef DROPOUT
// Dropout, and the same with a mask that is given. SIDE: numbers that a thread makes side by side.
// K numbers side by side, moved at once where the address allows.
template <typename X, int K> struct __align__(sizeof(X) * K < 16 ? sizeof(X) * K : 16) Pack {
    X v[K];
};
template <int K, typename X> __device__ __forceinline__ void write(X* y, i64 first, i64 n,
                                                                   const Pack<X, K>& p) {
    if (first + K <= n) *(Pack<X, K>*)(y + first) = p;
    else for (int j = 0; j < K; j++) if (first + j < n) y[first + j] = p.v[j];
}
template <int K, typename X> __device__ __forceinline__ Pack<X, K> read(const X* x, i64 first,
                                                                        i64 n) {
    if (first + K <= n && (u64)x % sizeof(Pack<X, K>) == 0) return *(const Pack<X, K>*)(x + first);
    Pack<X, K> p;
    for (int j = 0; j < K; j++) p.v[j] = first + j < n ? x[first + j] : (X)0;
    return p;
}
extern "C" __global__ void dropout(const T* __restrict__ x, T* __restrict__ y,
        unsigned char* __restrict__ mask, START, A keep, A scale, i64 n) {
    BEGIN
#if SIDE == 1
    const int PER = 4;
    TURNS {
        Words w = philox(seed, thread, round + turn);
        EACH_NUMBER(j, at) {
            unsigned char kept = (A)single(w.w[j]) < keep;
            STORE(y + at, LOAD(x + at) * (A)kept * scale);
            mask[at] = kept;
        }
    }
#else
    const int BLOCKS = SIDE > 4 ? SIDE / 4 : 1;
    for (i64 g = thread; g < n / SIDE; g += threads, turn++) {
        Pack<T, SIDE> p = read<SIDE>(x, SIDE * g, n);
        Pack<unsigned char, SIDE> m;
        Words w;
        #pragma unroll
        for (int j = 0; j < SIDE; j++) {
            if (j % 4 == 0) w = philox(seed, thread, round + turn * BLOCKS + j / 4);
            m.v[j] = (A)single(w.w[j % 4]) < keep;
            STORE(p.v + j, LOAD(p.v + j) * (A)m.v[j] * scale);
        }
        write<SIDE>(y, SIDE * g, n, p);
        write<SIDE>(mask, SIDE * g, n, m);
    }
#endif
}
extern "C" __global__ void masked(const T* __restrict__ x, const unsigned char* __restrict__ mask,
        T* __restrict__ y, A scale, i64 n) {
    EACH(g, (n + 3) / 4) {
        Pack<T, 4> p = read<4>(x, 4 * g, n);
        Pack<unsigned char, 4> m = read<4>(mask, 4 * g, n);
        for (int j = 0; j < 4; j++) STORE(p.v + j, LOAD(p.v + j) * (A)m.v[j] * scale);
        write<4>(y, 4 * g, n, p);
    }
}
#endif
