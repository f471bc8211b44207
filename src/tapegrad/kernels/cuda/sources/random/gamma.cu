#include "random/stream.cu"

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
