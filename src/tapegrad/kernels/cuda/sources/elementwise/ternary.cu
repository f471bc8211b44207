// A formula of three contiguous arrays. ONCE: the first one is a single element, as in binary.cu.
#include "elementwise/neighbours.cu"
#include "formula.cu"

extern "C" __global__ void ternary(const T* __restrict__ x, const T* __restrict__ y,
        const T* __restrict__ z, T* __restrict__ out, i64 n NUMBER_PARAMETERS) {
    const bool once = ONCE;
    i64 many = aligned(once ? y : x, y) && aligned(z, out) ? n / MANY : 0;
    A a = LOAD(x);
    EACH(i, many) {
        Many f, g = ((const Many*)y)[i], h = ((const Many*)z)[i];
        if (!once) f = ((const Many*)x)[i];
        #pragma unroll
        for (int j = 0; j < MANY; j++) {
            if (!once) a = LOAD(f.v + j);
            A b = LOAD(g.v + j), c = LOAD(h.v + j); STORE(g.v + j, formula(a, b, c NUMBER_ARGUMENTS));
        }
        ((Many*)out)[i] = g;
    }
    EACH(i, n - MANY * many) {
        i64 k = MANY * many + i;
        if (!once) a = LOAD(x + k);
        A b = LOAD(y + k), c = LOAD(z + k); STORE(out + k, formula(a, b, c NUMBER_ARGUMENTS));
    }
}
