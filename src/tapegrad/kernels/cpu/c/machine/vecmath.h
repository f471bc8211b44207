/* Exponentials, logarithms and friends, written without branches so that loops over them become
   vector instructions. Errors: about 1 unit in the last place at most (tests/test_native_formulas.py
   measures them); NaN, infinities, signed zeros and subnormal numbers as in the C library.

   The polynomials are minimax fits of our own. Fused multiply-adds stand where the error bound needs
   them; the compiler makes no others (-ffp-contract=off). */

#ifndef TAPEGRAD_VECMATH_H
#define TAPEGRAD_VECMATH_H

#include <math.h>
#include <string.h>

#include "tapegrad.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

#define FMA32 __builtin_fmaf
#define FMA64 __builtin_fma

TG_INLINE float f32_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
TG_INLINE uint32_t bits_of_f32(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}
TG_INLINE double f64_of(uint64_t bits) {
    double x;
    memcpy(&x, &bits, 8);
    return x;
}
TG_INLINE uint64_t bits_of_f64(double x) {
    uint64_t bits;
    memcpy(&bits, &x, 8);
    return bits;
}

/* bfloat16: the upper half of a float. */
TG_INLINE float f32_of_bf16(uint16_t half) { return f32_of((uint32_t)half << 16); }
TG_INLINE uint16_t bf16_of(float x) {
    uint32_t bits = bits_of_f32(x);
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    return (uint16_t)(x != x ? (bits >> 16 & 0x8000u) | 0x7fc0u : rounded);
}
TG_INLINE float round_bf16_f32(float x) {
    uint32_t bits = bits_of_f32(x);
    float rounded = f32_of((bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u);
    return x != x ? x : rounded;
}
TG_INLINE void widen_bf16(float *restrict to, const uint16_t *restrict from, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        to[i] = f32_of_bf16(from[i]);
}
TG_INLINE void narrow_bf16(uint16_t *restrict to, const float *restrict from, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        to[i] = bf16_of(from[i]);
}

/* float16, without branches: the same bits as the instructions of F16C, which `widen_f16` and
   `narrow_f16` use where the build may. */
TG_INLINE float f32_of_f16(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, rest = (uint32_t)(half & 0x7fffu) << 13;
    const uint32_t normal = rest + (112u << 23);
    const uint32_t tiny = bits_of_f32(f32_of(rest + (113u << 23)) - 0x1p-14f);
    const uint32_t special = rest | 0x7f800000u | (rest > (31u << 23) ? 0x400000u : 0);
    return f32_of(sign | (rest >= 31u << 23 ? special : rest < 1u << 23 ? tiny : normal));
}
TG_INLINE uint16_t f16_of(float x) {
    const uint32_t bits = bits_of_f32(x), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    const uint32_t normal = (rest - (112u << 23) + 0xfffu + (rest >> 13 & 1u)) >> 13;
    const uint32_t tiny = bits_of_f32(f32_of(rest) + 0.5f) - 0x3f000000u;
    const uint32_t finite = rest < 113u << 23 ? tiny : normal;
    const uint32_t nan = 0x7e00u | (rest >> 13 & 0x3ffu);
    return (uint16_t)(sign | (rest > 255u << 23 ? nan : rest >= 0x477ff000u ? 0x7c00u : finite));
}
TG_INLINE float round_f16_f32(float x) { return f32_of_f16(f16_of(x)); }

TG_INLINE void widen_f16(float *restrict to, const uint16_t *restrict from, int64_t n) {
    int64_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(to + i,
                         _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + i))));
#endif
    for (; i < n; i++)
        to[i] = f32_of_f16(from[i]);
}
TG_INLINE void narrow_f16(uint16_t *restrict to, const float *restrict from, int64_t n) {
    int64_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < n; i++)
        to[i] = f16_of(from[i]);
}

/* ------------------------------------------------------------------ float */

/* 2^n e^r, |r| <= ln(2)/2, n being in the last bits of `t`; `low` is added to r. The power of two is
   in two factors, so that subnormal results are rounded once. */
TG_INLINE float scaled_exp_f32(float t, float r, float low) {
    float q = 0x1.6a2466p-10f;
    q = FMA32(q, r, 0x1.1239e2p-7f);
    q = FMA32(q, r, 0x1.5558f2p-5f);
    q = FMA32(q, r, 0x1.555492p-3f);
    q = FMA32(q, r, 0x1.fffffcp-2f);
    q = FMA32(q, r, 1.0f);
    float p = FMA32(q, r, 1.0f + low);
    uint32_t k = bits_of_f32(t), half = k >> 1; /* magic's own bits are shifted out below */
    float a = f32_of((half << 23) + 0x3f800000u), b = f32_of(((k - half) << 23) + 0x3f800000u);
    return p * a * b;
}
TG_INLINE float exp_f32(float x) {
    const float magic = 0x1.8p23f;
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    float t = FMA32(x, 0x1.715476p0f, magic);
    float n = t - magic;
    float r = FMA32(n, -0x1.62e400p-1f, x);
    r = FMA32(n, -0x1.7f7d1cp-20f, r);
    return scaled_exp_f32(t, r, 0.0f);
}
TG_INLINE float exp2_f32(float x) {
    const float magic = 0x1.8p23f;
    x = x > 129.0f ? 129.0f : x;
    x = x < -151.0f ? -151.0f : x;
    float t = x + magic, f = x - (t - magic);
    float r = f * 0x1.62e430p-1f;
    return scaled_exp_f32(t, r, FMA32(f, -0x1.05c610p-29f, FMA32(f, 0x1.62e430p-1f, -r)));
}

/* log(x / 2^less) = k log(2) + log(1 + f), 1 + f in [sqrt(1/2), sqrt(2)); x is normal. */
TG_INLINE float log_normal_f32(float x, int less) {
    uint32_t bits = bits_of_f32(x);
    int32_t k = (int32_t)(bits - 0x3f3504f3u) >> 23;
    float m = f32_of(bits - ((uint32_t)k << 23));
    float n = (float)(k - less);
    float f = m - 1.0f;
    float q = -0x1.38b3c0p-4f;
    q = FMA32(q, f, 0x1.055a90p-3f);
    q = FMA32(q, f, -0x1.0d8530p-3f);
    q = FMA32(q, f, 0x1.22da3cp-3f);
    q = FMA32(q, f, -0x1.54724ap-3f);
    q = FMA32(q, f, 0x1.99a008p-3f);
    q = FMA32(q, f, -0x1.000226p-2f);
    q = FMA32(q, f, 0x1.555554p-2f);
    float f2 = f * f;
    float low = FMA32(n, 0x1.7f7d1cp-20f, FMA32(f2 * f, q, -0.5f * f2));
    return FMA32(n, 0x1.62e400p-1f, low + f);
}
TG_INLINE float log_f32(float x) {
    int tiny = x < 0x1p-126f;
    float r = log_normal_f32(tiny ? x * 0x1p23f : x, tiny ? 23 : 0);
    r = x == INFINITY ? x : r;
    r = x < 0.0f ? NAN : r;
    r = x == 0.0f ? -INFINITY : r;
    return x != x ? x : r;
}

TG_INLINE double exp_f64(double x) {
    const double magic = 0x1.8p52;
    x = x > 710.0 ? 710.0 : x;
    x = x < -746.0 ? -746.0 : x;
    double t = FMA64(x, 0x1.71547652b82fep0, magic);
    double n = t - magic;
    double r = FMA64(n, -0x1.62e42fefa39efp-1, x);
    double c = n * 0x1.abc9e3b39803fp-56; /* what the product above leaves out */
    r = r - c;
    double q = 0x1.100ba4c597b53p-29;
    q = FMA64(q, r, 0x1.ae98178fb1822p-26);
    q = FMA64(q, r, 0x1.27eaf17446deap-22);
    q = FMA64(q, r, 0x1.71de4b977fe4dp-19);
    q = FMA64(q, r, 0x1.a01a00185a83bp-16);
    q = FMA64(q, r, 0x1.a01a019889e1ap-13);
    q = FMA64(q, r, 0x1.6c16c16c3a244p-10);
    q = FMA64(q, r, 0x1.1111111111e72p-7);
    q = FMA64(q, r, 0x1.555555555553ep-5);
    q = FMA64(q, r, 0x1.5555555555554p-3);
    q = FMA64(q, r, 0.5);
    double p = FMA64(q * r, r, r) + 1.0;
    int64_t k = (int64_t)(bits_of_f64(t) - bits_of_f64(magic));
    int64_t half = (int64_t)((int32_t)k >> 1);
    double a = f64_of((uint64_t)(half + 1023) << 52), b = f64_of((uint64_t)(k - half + 1023) << 52);
    return p * a * b;
}

TG_INLINE double log_f64(double x) {
    int tiny = x < 0x1p-1022;
    double y = tiny ? x * 0x1p54 : x;
    uint64_t bits = bits_of_f64(y);
    int64_t k = (int64_t)((bits - 0x3fe6a09e667f3bcdull) >> 52);
    k = (k ^ 0x800) - 0x800; /* twelve bits with a sign */
    double m = f64_of(bits - ((uint64_t)k << 52));
    double n = (double)(int32_t)(k - (tiny ? 54 : 0));
    double f = m - 1.0;
    double s = f / (2.0 + f), z = s * s;
    double w = 0x1.2f0db39397d5ap-3;
    w = FMA64(w, z, 0x1.39a0f0e201e0fp-3);
    w = FMA64(w, z, 0x1.7466465b4b833p-3);
    w = FMA64(w, z, 0x1.c71c51e6edc59p-3);
    w = FMA64(w, z, 0x1.249249421929bp-2);
    w = FMA64(w, z, 0x1.999999997fb0fp-2);
    w = FMA64(w, z, 0x1.5555555555593p-1);
    /* log(1+f) = f - f^2/2 + s (f^2/2 + z w) */
    double h = 0.5 * f * f;
    double low = FMA64(n, 0x1.a39ef35793c76p-33, s * FMA64(w, z, h));
    double r = FMA64(n, 0x1.62e42fee00000p-1, f - (h - low));
    r = x == (double)INFINITY ? x : r;
    r = x < 0.0 ? (double)NAN : r;
    r = x == 0.0 ? (double)-INFINITY : r;
    return x != x ? x : r;
}

/* For floats, computed in double: its rounding errors are far below float's last place. */
TG_INLINE float expm1_f32(float x) {
    float y = (float)(exp_f64((double)x) - 1.0);
    return fabsf(x) < 0x1p-24f ? x : y;
}
TG_INLINE float log1p_f32(float x) {
    float y = (float)log_f64(1.0 + (double)x);
    return fabsf(x) < 0x1p-24f ? x : y;
}

/* Up to 3/4 a polynomial; from there on 1 - 2 / (e^2a + 1), with e^2a = 2^n (1 + r p): 2^n + 1 is
   exact, so that the sum below is rounded once. NaN takes the first way. */
TG_INLINE float tanh_f32(float x) {
    const float magic = 0x1.8p23f;
    float a = fabsf(x), z = x * x;
    float q = 0x1.c9377ap-10f;
    q = FMA32(q, z, -0x1.f69c50p-8f);
    q = FMA32(q, z, 0x1.5f9768p-6f);
    q = FMA32(q, z, -0x1.b98198p-5f);
    q = FMA32(q, z, 0x1.110ddap-3f);
    q = FMA32(q, z, -0x1.55554ap-2f);
    float near = FMA32(q * z, a, a);
    float b = a > 10.0f ? 10.0f : a;
    float t = FMA32(b, 0x1.715476p1f, magic);
    float r = FMA32(t - magic, -0x1.62e430p-2f, b);
    float p = 0x1.6dce6ep-4f;
    p = FMA32(p, r, 0x1.12704cp-2f);
    p = FMA32(p, r, 0x1.555434p-1f);
    p = FMA32(p, r, 0x1.555404p+0f);
    p = FMA32(p, r, 2.0f);
    p = FMA32(p, r, 2.0f);
    float two = f32_of((bits_of_f32(t) << 23) + 0x3f000000u); /* half of 2^n */
    float far = 1.0f - 1.0f / FMA32(p * two, r, two + 0.5f);
    return copysignf(a >= 0.75f ? far : near, x);
}

TG_INLINE float erf_f32(float x) {
    float a = fabsf(x), z = x * x;
    float q = 0x1.aa2514p-21f;
    q = FMA32(q, z, -0x1.a6d808p-17f);
    q = FMA32(q, z, 0x1.ea5a98p-14f);
    q = FMA32(q, z, -0x1.be6458p-11f);
    q = FMA32(q, z, 0x1.563c38p-8f);
    q = FMA32(q, z, -0x1.b82a74p-6f);
    q = FMA32(q, z, 0x1.ce2f0ap-4f);
    q = FMA32(q, z, -0x1.812746p-2f);
    /* 2/sqrt(pi) = 1 + 0.128...: the sum below is rounded once */
    float near = FMA32(FMA32(q, z, 0x1.06eba8p-3f), a, a);
    float b = a > 4.0f ? 4.0f : a;
    float t = -0x1.67cc50p-16f;
    t = FMA32(t, b, 0x1.cbd52ep-12f);
    t = FMA32(t, b, -0x1.12a6f2p-8f);
    t = FMA32(t, b, 0x1.9c6a3ep-6f);
    t = FMA32(t, b, -0x1.bbd954p-4f);
    t = FMA32(t, b, -0x1.443c48p-1f);
    t = FMA32(t, b, -0x1.212a52p0f);
    t = FMA32(t, b, 0x1.7ea5a0p-13f);
    float far = 1.0f - exp_f32(t);
    float y = copysignf(a < 1.05f ? near : far, x);
    return x != x ? x : y;
}

/* e^x for x <= 0; 0 below -87, where it is nothing beside what it is added to. */
TG_INLINE float exp_below_f32(float x) {
    const float magic = 0x1.8p23f;
    float t = FMA32(x, 0x1.715476p0f, magic);
    float n = t - magic;
    float r = FMA32(n, -0x1.62e400p-1f, x);
    r = FMA32(n, -0x1.7f7d1cp-20f, r);
    float q = 0x1.6a2466p-10f;
    q = FMA32(q, r, 0x1.1239e2p-7f);
    q = FMA32(q, r, 0x1.5558f2p-5f);
    q = FMA32(q, r, 0x1.555492p-3f);
    q = FMA32(q, r, 0x1.fffffcp-2f);
    q = FMA32(q, r, 1.0f);
    float p = FMA32(q, r, 1.0f);
    float two = f32_of((bits_of_f32(t) << 23) + 0x3f800000u); /* as above */
    return x < -87.0f ? 0.0f : p * two;
}

/* The share of the normal distribution below x, given e = exp(-x^2 / 2). The tail beyond |x| is e
   times a polynomial in (3 - |x|) / (3 + |x|). Within 1e-7. */
TG_INLINE float normal_share_f32(float x, float e) {
    float a = fabsf(x);
    a = a > 20.0f ? 20.0f : a;
    float s = (3.0f - a) / (3.0f + a);
    float q = -0x1.c63e96p-15f;
    q = FMA32(q, s, 0x1.e6b194p-14f);
    q = FMA32(q, s, 0x1.646c0ep-12f);
    q = FMA32(q, s, -0x1.01ff5cp-10f);
    q = FMA32(q, s, -0x1.7cb9a4p-9f);
    q = FMA32(q, s, 0x1.91e0f6p-8f);
    q = FMA32(q, s, 0x1.7a9458p-5f);
    q = FMA32(q, s, 0x1.f8baccp-4f);
    q = FMA32(q, s, 0x1.a6b66ap-3f);
    q = FMA32(q, s, 0x1.f1b89cp-4f);
    float beyond = q * e;
    return x < 0.0f ? beyond : 1.0f - beyond;
}
/* x times that share, and the slope of it. */
TG_INLINE float gelu_value_f32(float x) {
    return x * normal_share_f32(x, exp_below_f32(-0.5f * (x * x)));
}
TG_INLINE float gelu_slope_f32(float x) {
    float e = exp_below_f32(-0.5f * (x * x));
    return FMA32(x * 0x1.988454p-2f, e, normal_share_f32(x, e));
}

/* Up to 3/4 a polynomial in x^2; from there on one in sqrt(-log(1 - |x|)), where 1 - |x| is exact. */
TG_INLINE float erfinv_f32(float x) {
    float a = fabsf(x), z = x * x;
    float q = 0x1.7c38d0p-1f;
    q = FMA32(q, z, -0x1.477214p+0f);
    q = FMA32(q, z, 0x1.1c03bcp+0f);
    q = FMA32(q, z, -0x1.c7f618p-2f);
    q = FMA32(q, z, 0x1.774feap-3f);
    q = FMA32(q, z, 0x1.681ecap-5f);
    q = FMA32(q, z, 0x1.6a425ep-4f);
    q = FMA32(q, z, 0x1.050f84p-3f);
    q = FMA32(q, z, 0x1.db2ac0p-3f);
    float near = FMA32(q, z, 0x1.c5bf88p-1f) * a;
    float w = sqrtf(-log_normal_f32(1.0f - a, 0)), t = w - 2.625f;
    float p = 0x1.3d9e22p-21f;
    p = FMA32(p, t, -0x1.7f9972p-20f);
    p = FMA32(p, t, -0x1.5f2a32p-20f);
    p = FMA32(p, t, 0x1.d8c398p-18f);
    p = FMA32(p, t, -0x1.2b882ep-16f);
    p = FMA32(p, t, 0x1.403a78p-14f);
    p = FMA32(p, t, -0x1.39bc56p-12f);
    p = FMA32(p, t, 0x1.0879f4p-10f);
    p = FMA32(p, t, -0x1.9e57bep-9f);
    p = FMA32(p, t, 0x1.305ac6p-7f);
    p = FMA32(p, t, -0x1.9dc0d0p-6f);
    p = FMA32(p, t, 0x1.f57198p-5f);
    float far = FMA32(p, t, 0x1.c529a4p-1f) * w;
    float y = a <= 0.75f ? near : a < 1.0f ? far : a == 1.0f ? INFINITY : NAN;
    return copysignf(y, x);
}

/* tanh of double: (e^2a - 1) / (e^2a + 1) by way of expm1. */
TG_INLINE double expm1_f64(double x) {
    /* e^x - 1 = 2^n (e^r - 1) + (2^n - 1), with e^r - 1 from the polynomial itself */
    const double magic = 0x1.8p52;
    double c = x > 710.0 ? 710.0 : x;
    c = c < -60.0 ? -60.0 : c;
    double t = FMA64(c, 0x1.71547652b82fep0, magic);
    double n = t - magic;
    double r0 = FMA64(n, -0x1.62e42fefa39efp-1, c);
    double tail = n * 0x1.abc9e3b39803fp-56;
    double r = r0 - tail;
    double lost = (r0 - r) - tail;
    double q = 0x1.100ba4c597b53p-29;
    q = FMA64(q, r, 0x1.ae98178fb1822p-26);
    q = FMA64(q, r, 0x1.27eaf17446deap-22);
    q = FMA64(q, r, 0x1.71de4b977fe4dp-19);
    q = FMA64(q, r, 0x1.a01a00185a83bp-16);
    q = FMA64(q, r, 0x1.a01a019889e1ap-13);
    q = FMA64(q, r, 0x1.6c16c16c3a244p-10);
    q = FMA64(q, r, 0x1.1111111111e72p-7);
    q = FMA64(q, r, 0x1.555555555553ep-5);
    q = FMA64(q, r, 0x1.5555555555554p-3);
    q = FMA64(q, r, 0.5);
    double rest = FMA64(q * r, r, lost); /* e^r - 1 = r + rest */
    int64_t k = (int64_t)(bits_of_f64(t) - bits_of_f64(magic));
    int64_t half = (int64_t)((int32_t)k >> 1);
    double a = f64_of((uint64_t)(half + 1023) << 52), b = f64_of((uint64_t)(k - half + 1023) << 52);
    double two = a * b;
    /* 2^n - 1 is exact where it matters (|n| <= 53); r two + (two - 1) with its rounding error */
    double high = FMA64(r, two, two - 1.0);
    double err = FMA64(r, two, (two - 1.0) - high);
    double y = high + FMA64(rest, two, err);
    y = n == 0.0 ? r + rest : y;
    y = k >= 1024 ? (r + rest + 1.0) * a * b : y; /* two is infinite there, the result may not be */
    return fabs(x) < 0x1p-54 ? x : (x != x ? x : y);
}
TG_INLINE double tanh_f64(double x) {
    double a = fabs(x);
    double e = expm1_f64(2.0 * (a > 22.0 ? 22.0 : a));
    double y = copysign(e / (e + 2.0), x);
    return x != x ? x : y;
}
TG_INLINE double log1p_f64(double x) {
    /* log(u) with u = 1 + x rounded, and the first-order correction for what was rounded away */
    double u = 1.0 + x;
    double c = (x - (u - 1.0)) / u;
    double y = log_f64(u) + c;
    y = u == (double)INFINITY ? x : y;
    y = x == -1.0 ? (double)-INFINITY : y;
    return fabs(x) < 0x1p-53 ? x : y;
}

TG_INLINE float sigmoid_f32(float x) { return 1.0f / (1.0f + exp_f32(-x)); }
TG_INLINE double sigmoid_f64(double x) { return 1.0 / (1.0 + exp_f64(-x)); }

/* Sine and cosine of the rest after whole quarters of a turn, in double, and how many quarters. Of
   floats: pi/2 in two parts, good up to a billion, and as many terms as a float needs. */
#define TRIG_LIMIT_F32 1e9f
TG_INLINE uint64_t quarters_f32(float x, double *sine, double *cosine) {
    const double magic = 0x1.8p52;
    double t = FMA64((double)x, 0x1.45f306dc9c883p-1, magic);
    double n = t - magic;
    double r = FMA64(n, -0x1.921fb54442d18p0, (double)x);
    r = FMA64(n, -0x1.1a62633145c07p-54, r);
    double zz = r * r;
    double a = 0x1.6cd7340000000p-19;
    a = FMA64(a, zz, -0x1.a00f980000000p-13);
    a = FMA64(a, zz, 0x1.1111080000000p-7);
    a = FMA64(a, zz, -0x1.5555560000000p-3);
    *sine = FMA64(a * zz, r, r);
    double b = -0x1.2429fe0000000p-22;
    b = FMA64(b, zz, 0x1.a0111c0000000p-16);
    b = FMA64(b, zz, -0x1.6c16b80000000p-10);
    b = FMA64(b, zz, 0x1.5555560000000p-5);
    *cosine = FMA64(b * zz, zz, FMA64(zz, -0.5, 1.0));
    return bits_of_f64(t);
}
/* Of doubles: three parts, good up to a million, and Taylor's terms. */
#define TRIG_LIMIT_F64 0x1p20
TG_INLINE uint64_t quarters_f64(double x, double *sine, double *cosine) {
    const double magic = 0x1.8p52;
    double t = FMA64(x, 0x1.45f306dc9c883p-1, magic);
    double n = t - magic;
    double first = FMA64(n, -0x1.921fb54442d18p0, x);
    double r = FMA64(n, -0x1.1a62633145c07p-54, first);
    double left = FMA64(n, -0x1.1a62633145c07p-54, first - r); /* what rounding left out */
    left = FMA64(n, 0x1.f1976b7ed8fbcp-110, left);
    double zz = r * r;
    double a = 0x1.952c77030ad4ap-49;
    a = FMA64(a, zz, -0x1.ae7f3e733b81fp-41);
    a = FMA64(a, zz, 0x1.6124613a86d09p-33);
    a = FMA64(a, zz, -0x1.ae64567f544e4p-26);
    a = FMA64(a, zz, 0x1.71de3a556c734p-19);
    a = FMA64(a, zz, -0x1.a01a01a01a01ap-13);
    a = FMA64(a, zz, 0x1.1111111111111p-7);
    a = FMA64(a, zz, -0x1.5555555555555p-3);
    double b = 0x1.ae7f3e733b81fp-45;
    b = FMA64(b, zz, -0x1.93974a8c07c9dp-37);
    b = FMA64(b, zz, 0x1.1eed8eff8d898p-29);
    b = FMA64(b, zz, -0x1.27e4fb7789f5cp-22);
    b = FMA64(b, zz, 0x1.a01a01a01a01ap-16);
    b = FMA64(b, zz, -0x1.6c16c16c16c17p-10);
    b = FMA64(b, zz, 0x1.5555555555555p-5);
    *sine = FMA64(a * zz, r, left) + r;
    double half = 0.5 * zz, whole = 1.0 - half;
    *cosine = whole + FMA64(b * zz, zz, ((1.0 - whole) - half) - r * left);
    return bits_of_f64(t);
}

#define TRIGONOMETRY(T, kind)                                                                      \
    TG_INLINE T sin_##kind(T x) {                                                                  \
        double s, c;                                                                               \
        const uint64_t k = quarters_##kind(x, &s, &c);                                             \
        const T one = (T)(k & 1 ? c : s);                                                          \
        return x == 0 ? x : (k & 2) ? -one : one;                                                  \
    }                                                                                              \
    TG_INLINE T cos_##kind(T x) {                                                                  \
        double s, c;                                                                               \
        const uint64_t k = quarters_##kind(x, &s, &c);                                             \
        const T one = (T)(k & 1 ? s : c);                                                          \
        return ((k + 1) & 2) ? -one : one;                                                         \
    }
TRIGONOMETRY(float, f32)
TRIGONOMETRY(double, f64)
TG_INLINE float tan_f32(float x) {
    double s, c;
    const uint64_t k = quarters_f32(x, &s, &c);
    const double over = k & 1 ? -c : s, under = k & 1 ? s : c;
    return x == 0 ? x : (float)(over / under);
}

#endif
