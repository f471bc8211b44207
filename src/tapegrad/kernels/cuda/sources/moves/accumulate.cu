// x += y, of contiguous arrays.
#include "common/prelude.cu"

extern "C" __global__ void accumulate(T* x, const T* y, i64 n) {
    i64 fours = aligned(x, y) ? n / 4 : 0;
    EACH(i, fours) {
        Four<T> f = ((const Four<T>*)x)[i], g = ((const Four<T>*)y)[i];
        #pragma unroll
        for (int j = 0; j < 4; j++) STORE(f.v + j, LOAD(f.v + j) + LOAD(g.v + j));
        ((Four<T>*)x)[i] = f;
    }
    EACH(i, n - 4 * fours) { i64 k = 4 * fours + i; STORE(x + k, LOAD(x + k) + LOAD(y + k)); }
}
