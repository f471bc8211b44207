#include "random/stream.cu"

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
