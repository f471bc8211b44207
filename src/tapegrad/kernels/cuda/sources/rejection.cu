// Numbers that are drawn by rejection: Poisson, binomial and gamma; and rrelu's.
//
// How many words such a number takes depends on the words, so a thread reads its words one by one.
// The formulas are those of PyTorch's kernels and of curand, down to where they round: `narrow` is
// what arithmetic of half precision does after each step, and constants are double where theirs
// are.
#include "philox.cu"

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

#ifdef POISSON
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
#endif

#ifdef GAMMA
// Marsaglia and Tsang; shapes below one are raised by one, and the number is scaled down.
__device__ __forceinline__ A gamma_of(Stream& s, A shape) {
    A scale = 1;
    if (shape < 1) {
        if (shape == 0) return 0;
        A base = 1 - (A)s.unit();
        scale = sizeof(A) == 8 ? (A)pow((double)base, (double)(1 / shape))
            : (A)powf((float)base, (float)(1 / shape));
        shape = narrow(shape + 1);
    }
    const A d = shape - (A)(1.0f / 3.0f), c = 1 / root(9 * d);
    for (;;) {
        A x, y;
        do {
            x = s.normal();
            y = fused(c, x, (A)1);
        } while (y <= 0);
        const A v = y * y * y, u = 1 - (A)s.unit(), square = x * x;
        if (u < 1 - (A)0.0331f * square * square) return narrow(scale * d * v);
        if (ln(u) < (A)0.5f * square + d * (1 - v + ln(v))) return narrow(scale * d * v);
    }
}
extern "C" __global__ void standard_gamma(const T* __restrict__ shapes, T* __restrict__ y, A least,
                                          START, i64 n) {
    NUMBERS(i) {
        Stream s(seed, i, round);
        A found = gamma_of(s, LOAD(shapes + i));
        STORE(y + i, least > found ? least : found);
    }
}
#endif

#ifdef BINOMIAL
__constant__ A TAILS[10] = {
    (A)0.0810614667953272, (A)0.0413406959554092, (A)0.0276779256849983, (A)0.02079067210376509,
    (A)0.0166446911898211, (A)0.0138761288230707, (A)0.0118967099458917, (A)0.0104112652619720,
    (A)0.00925546218271273, (A)0.00833056343336287};
// What Stirling's formula for log(k!) leaves out.
__device__ __forceinline__ A tail(A k) {
    if (k <= 9) return TAILS[(int)k];
    A square = (k + 1) * (k + 1);
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}
// From success to success.
__device__ __forceinline__ A jumps(Stream& s, A count, A p) {
    A reached = 0, found = 0;
    const A log_miss = sizeof(A) == 8 ? (A)log1p((double)-p) : (A)log1pf((float)-p);
    for (;;) {
        reached += ceil(ln((A)s.bits()) / log_miss);
        if (reached > count) return found;
        found = narrow(found + 1);
    }
}
// Transformed rejection (Hormann 1993).
__device__ __forceinline__ A btrs(Stream& s, A count, A p) {
    const A rest = narrow(1 - p), mean = narrow(count * p), more = narrow(count + 1);
    const A spread = root(narrow(mean * rest));
    const A b = 1.15 + 2.53 * spread;
    const A a = -0.0873 + 0.0248 * b + 0.01 * p;
    const A c = mean + 0.5;
    const A v_r = 0.92 - 4.2 / b;
    const A odds = narrow(p / rest);
    const A alpha = (2.83 + 5.1 / b) * spread;
    const A m = floor(narrow(more * p));
    for (;;) {
        A u = s.bits() - 0.5, v = s.bits();
        A us = 0.5 - (u < 0 ? -u : u);
        A k = narrow(floor(fused(2 * a / us + b, u, c)));
        if (k < 0 || k > count) continue;
        if (us >= 0.07 && v <= v_r) return k;
        v = ln(v * alpha / (a / (us * us) + b));
        A misses = narrow(narrow(count - k) + 1);
        A bound = (m + 0.5) * ln((m + 1) / (odds * (count - m + 1)))
            + more * ln((count - m + 1) / misses)
            + (k + 0.5) * ln(odds * misses / narrow(k + 1))
            + tail(m) + tail(count - m) - tail(k) - tail(narrow(count - k));
        if (v <= bound) return k;
    }
}
__device__ __forceinline__ A successes(Stream& s, A count, A p) {
    if (count <= 0 || p <= 0) return 0;
    if (p >= 1) return count;
    if (p != p || count != count) return p + count;
    bool turned = p > 0.5;
    if (turned) p = narrow((A)(1.0 - p));
    A k = narrow(count * p) >= 10 ? btrs(s, count, p) : jumps(s, count, p);
    return turned ? narrow(count - k) : k;
}
// A thread takes eight numbers that are 128 apart, with the words of one stream.
extern "C" __global__ void binomial(const T* __restrict__ counts, const T* __restrict__ chances,
                                    T* __restrict__ y, START, i64 n) {
    BEGIN
    for (i64 t = thread; t / 128 * 1024 < n; t += threads) {
        Stream s(seed, t, round);
        for (int k = 0; k < 8; k++) {
            i64 i = t / 128 * 1024 + k * 128 + t % 128;
            if (i < n) STORE(y + i, successes(s, LOAD(counts + i), LOAD(chances + i)));
        }
    }
}
#endif

#ifdef SLOPES
// The slopes of rrelu.
const int PER = sizeof(A) == 8 ? 2 : 4;
extern "C" __global__ void slopes(const T* __restrict__ x, T* __restrict__ y, double lower,
                                  double range, START, i64 n) {
    BEGIN
    TURNS {
        Words w = philox(seed, thread, round + turn);
        EACH_NUMBER(j, at) {
            A unit = PER == 2 ? (A)wide(w.w[2 * j & 3], w.w[2 * j + 1 & 3]) : (A)single(w.w[j]);
            A slope = fma((double)narrow(unit), range, lower);
            STORE(y + at, LOAD(x + at) <= 0 ? slope : (A)1);
        }
    }
}
#endif
