// Running statistics follow those of a batch, which are means, reciprocal deviations, variances.
#include "prelude.cu"

typedef OF_DTYPE(stored, P_DTYPE) P;
#define LOAD_P(p) OF_DTYPE(load, P_DTYPE)(p)
#define STORE_P(p, v) OF_DTYPE(store, P_DTYPE)(p, v)
extern "C" __global__ void follow(P* __restrict__ mean, P* __restrict__ var,
        const A* __restrict__ stats, A momentum, A unbiased, int n) {
    EACH(i, n) {
        STORE_P(mean + i, LOAD_P(mean + i) * (1 - momentum) + stats[i] * momentum);
        A spread = stats[2 * n + i] * unbiased;
        STORE_P(var + i, LOAD_P(var + i) * (1 - momentum) + spread * momentum);
    }
}
