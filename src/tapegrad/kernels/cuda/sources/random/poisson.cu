#include "random/stream.cu"

// log((k - 1)!) by Stirling's series.
__device__ __forceinline__ double log_factorial(double k) {
    if (k <= 8) return lgamma(k);
    double s = 1.0 / k, t = s * s, sum = -0.1633436431e-2;
    sum = sum * t + 0.83645878922e-3;
    sum = sum * t - 0.5951896861197e-3;
    sum = sum * t + 0.793650576493454e-3;
    sum = sum * t - 0.277777777735865004e-2;
    sum = sum * t + 0.833333333333331018375e-1;
    sum = sum * s + 0.918938533204672;
    s = 0.5 * log(k) * (k - 0.5);
    return (s - k) + (s + sum);
}
// Uniforms are multiplied until exp(rate) is used up.
__device__ __forceinline__ u32 few(Stream& s, float rate) {
    u32 k = 0;
    float rest = expf(rate);
    do { k++; rest *= s.unit(); } while (rest > 1.0f);
    return k - 1;
}
// Proposals from an approximation of the gamma distribution that is easy to invert:
// F(x) = (1 + exp(slope * (rate - x) - shift)) ** -2.
__device__ __forceinline__ float below(float slope, float shift, float rate, float x) {
    float t = 1.0f + __expf(slope * (rate - x) - shift);
    return __fdividef(1.0f, t * t);
}
__device__ __forceinline__ u32 many(Stream& s, float rate) {
    float slope = 1.43248035075540910f * rsqrtf(rate - 0.12400979329655655f)
        + 0.00025361074907033f;
    float shift = 0.21096734870196546f * rsqrtf(rate - 1.97381164089999420f)
        + 0.94201734077887530f;
    float log_rate = __logf(rate);
    for (;;) {
        float t = shift + __logf(rsqrtf(s.unit()) - 1.0f);
        float x = floorf(-t * __fdividef(1.0f, slope) + rate);
        float v = (below(slope, shift, rate, x + 1.0f) - below(slope, shift, rate, x)) * 1.3f;
        float z = s.unit() * v;
        float chance = __expf(-rate + x * log_rate - (float)log_factorial(1.0f + x));
        if (z < chance && v >= 1e-20f && x >= 0.0f) return (u32)x;
    }
}
extern "C" __global__ void poisson(const T* __restrict__ rates, T* __restrict__ y, START, i64 n) {
    NUMBERS(i) {
        double rate = LOAD(rates + i);
        if (rate != rate) { STORE(y + i, (A)rate); continue; }
        Stream s(seed, i, round);
        u32 k;
        if (rate < 64.0) k = few(s, (float)rate);
        else if (rate <= 4000.0) k = many(s, (float)rate);
        else k = (u32)(s.wide_normal() * sqrt(rate) + rate + 0.5);
        STORE(y + i, (A)k);
    }
}
