// Random floats of several distributions.
#include "random/philox.cu"

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
