// Casts of many arrays at once, from GIVEN_DTYPE to DTYPE; blockIdx.y is the array. LIMIT: how many
// fit into a launch.
#include "common/prelude.cu"

typedef OF_DTYPE(stored, GIVEN_DTYPE) S;
#define READ(p) OF_DTYPE(load, GIVEN_DTYPE)(p)
struct Casts { unsigned long long x[LIMIT], y[LIMIT]; i64 n[LIMIT]; };
extern "C" __global__ void cast_together(const __grid_constant__ Casts t) {
    const S* x = (const S*)t.x[blockIdx.y];
    T* y = (T*)t.y[blockIdx.y];
    i64 n = t.n[blockIdx.y], fours = aligned(x, y) ? n / 4 : 0;
    EACH(i, fours) {
        Four<S> f = ((const Four<S>*)x)[i]; Four<T> g;
        #pragma unroll
        for (int j = 0; j < 4; j++) STORE(g.v + j, READ(f.v + j));
        ((Four<T>*)y)[i] = g;
    }
    EACH(i, n - 4 * fours) { i64 k = 4 * fours + i; STORE(y + k, READ(x + k)); }
}
