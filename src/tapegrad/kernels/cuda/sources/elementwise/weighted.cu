// A formula of two arrays and weights (weights.cu), element by element.
#include "common/prelude.cu"
#include "formula.cu"

extern "C" __global__ void weighted(const T* __restrict__ x, const T* __restrict__ y,
        const T* __restrict__ w, unsigned stays, unsigned size, T* __restrict__ out,
        unsigned n NUMBER_PARAMETERS) {
    EACH(i, n) {
        A a = LOAD(x + i), b = LOAD(y + i), c = LOAD(w + (unsigned)i / stays % size);
        STORE(out + i, formula(a, b, c NUMBER_ARGUMENTS));
    }
}
