// A formula of two contiguous arrays. ONCE: the first one is a single element, which goes with all
// elements of the second.
#include "elementwise/neighbours.cu"
#include "formula.cu"

extern "C" __global__ void binary(const T* __restrict__ x, const T* __restrict__ y,
        T* __restrict__ z, i64 n NUMBER_PARAMETERS) {
    const bool once = ONCE;
    i64 many = aligned(once ? y : x, y, z) ? n / MANY : 0;
    A a = LOAD(x);
    EACH(i, many) {
        Many f, g = ((const Many*)y)[i];
        if (!once) f = ((const Many*)x)[i];
        #pragma unroll
        for (int j = 0; j < MANY; j++) {
            if (!once) a = LOAD(f.v + j);
            A b = LOAD(g.v + j); STORE(g.v + j, formula(a, b NUMBER_ARGUMENTS));
        }
        ((Many*)z)[i] = g;
    }
    EACH(i, n - MANY * many) {
        i64 k = MANY * many + i;
        if (!once) a = LOAD(x + k);
        A b = LOAD(y + k); STORE(z + k, formula(a, b NUMBER_ARGUMENTS));
    }
}
