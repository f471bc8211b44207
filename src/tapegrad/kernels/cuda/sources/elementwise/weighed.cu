// The gradient of weights.cu and weighted.cu from that of the loss, which is one number, or (`each` is
// 1) one for every element.
#include "common/prelude.cu"
#include "formula.cu"

extern "C" __global__ void weighed(const T* __restrict__ g, const T* __restrict__ x,
        const T* __restrict__ y, const T* __restrict__ w, unsigned stays, unsigned size,
        T* __restrict__ out, unsigned n, unsigned each NUMBER_PARAMETERS) {
    EACH(i, n) {
        A a = LOAD(g + i * each), b = LOAD(x + i), c = LOAD(y + i);
        A d = LOAD(w + (unsigned)i / stays % size);
        STORE(out + i, formula(a, b, c, d NUMBER_ARGUMENTS));
    }
}
