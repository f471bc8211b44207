// A formula of one contiguous array. `formula.cu` has the function, made from the block of an op
// (formulas.py), and the numbers that it takes besides.
#include "elementwise/neighbours.cu"
#include "formula.cu"

extern "C" __global__ void unary(const T* __restrict__ x, T* __restrict__ y, i64 n NUMBER_PARAMETERS) {
    i64 many = aligned(x, y) ? n / MANY : 0;
    EACH(i, many) {
        Many f = ((const Many*)x)[i];
        #pragma unroll
        for (int j = 0; j < MANY; j++) { A a = LOAD(f.v + j); STORE(f.v + j, formula(a NUMBER_ARGUMENTS)); }
        ((Many*)y)[i] = f;
    }
    EACH(i, n - MANY * many) {
        i64 k = MANY * many + i;
        A a = LOAD(x + k); STORE(y + k, formula(a NUMBER_ARGUMENTS));
    }
}
