// A formula of two contiguous arrays of dtypes X_DTYPE and Y_DTYPE.
#include "common/prelude.cu"
#include "formula.cu"

typedef OF_DTYPE(stored, X_DTYPE) X;
typedef OF_DTYPE(stored, Y_DTYPE) Y;
__device__ __forceinline__ A read_x(const X* p) { return OF_DTYPE(load, X_DTYPE)(p); }
__device__ __forceinline__ A read_y(const Y* p) { return OF_DTYPE(load, Y_DTYPE)(p); }
extern "C" __global__ void mixed(const X* __restrict__ x, const Y* __restrict__ y,
        T* __restrict__ z, i64 n) {
    i64 fours = aligned(x, y, z) ? n / 4 : 0;
    EACH(i, fours) {
        Four<X> f = ((const Four<X>*)x)[i]; Four<Y> g = ((const Four<Y>*)y)[i]; Four<T> h;
        #pragma unroll
        for (int j = 0; j < 4; j++) {
            A a = read_x(f.v + j), b = read_y(g.v + j); STORE(h.v + j, formula(a, b));
        }
        ((Four<T>*)z)[i] = h;
    }
    EACH(i, n - 4 * fours) {
        i64 k = 4 * fours + i;
        A a = read_x(x + k), b = read_y(y + k); STORE(z + k, formula(a, b));
    }
}
