// DOES(m, a, b, s): a choice by a mask, which is broadcast as in spread.cu.
#include "common/prelude.cu"

extern "C" __global__ void choice(const unsigned char* __restrict__ mask, const T* __restrict__ x,
        const T* __restrict__ y, T* __restrict__ z, unsigned n, unsigned run, unsigned size, A s) {
    EACH(i, n) {
        unsigned k = i;
        bool m = mask[size == n ? k : k / run % size] != 0;
        A a = LOAD(x + k), b = LOAD(y + k);
        STORE(z + k, DOES(m, a, b, s));
    }
}
