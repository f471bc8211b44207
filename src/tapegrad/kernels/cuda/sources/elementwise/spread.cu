// A formula of two arrays that are broadcast: each element of an array is used `run` times in a row,
// and the array begins anew after its `size` elements.
#include "common/prelude.cu"
#include "formula.cu"

extern "C" __global__ void spread(const T* __restrict__ x, const T* __restrict__ y,
        T* __restrict__ z, unsigned n, unsigned x_run, unsigned x_size, unsigned y_run,
        unsigned y_size NUMBER_PARAMETERS) {
    EACH(i, n) {
        unsigned k = i;
        A a = LOAD(x + (x_size == n ? k : k / x_run % x_size));
        A b = LOAD(y + (y_size == n ? k : k / y_run % y_size));
        STORE(z + k, formula(a, b NUMBER_ARGUMENTS));
    }
}
