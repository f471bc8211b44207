// An optimizer's step for many tensors in one launch.
//
// `rule.cu` is made from the optimizer's update (update_sources.py): `Factors`, the numbers that all
// elements share; `factors`, which finds them in double precision, as on the host, by one thread of
// each block; `element`, the step of one element; and `advance`, what becomes of the numbers that
// change from step to step. NUMBERS are these, the learning rate first; OPTIONS those of the
// optimizer; ROWS: of parameters, gradients and state; LIMIT: how many tensors fit into a launch.
// `narrow` says that the state keeps its numbers in single precision.
#include "tensors.cu"

struct Numbers { double NUMBERS; };
struct Options { double OPTIONS; };
struct Launch {
    unsigned long long p[ROWS][LIMIT]; i64 n[LIMIT]; int first[LIMIT];
    Numbers now; Options o; const Numbers* device; int count, chunk, narrow;
};
// A number as the state keeps it.
__device__ __forceinline__ double kept(double x, int narrow) {
    return narrow ? (double)(float)x : x;
}
// The sign of a product of two elements, or 0 where it rounds to zero (at TINY): CuPy's compiler takes
// numbers for zero sooner than PyTorch's does.
__device__ __forceinline__ A sign_of_product(A a, A b) {
    double way = (double)a * (double)b;
    return way > TINY ? (A)1 : way < -TINY ? (A)-1 : (A)0;
}
#include "rule.cu"
// Row 0 holds the parameters, row 1 the gradients, the others the state.
extern "C" __global__ void __launch_bounds__(THREADS) update(const __grid_constant__ Launch l) {
    int k = tensor_of(l);
    i64 start = (blockIdx.x - l.first[k]) * (i64)l.chunk;
    i64 n = l.n[k] - start < l.chunk ? l.n[k] - start : l.chunk;
    __shared__ Factors shared;
    if (threadIdx.x == 0) shared = factors(l.device ? *l.device : l.now, l.o, l.narrow);
    __syncthreads();
    const Factors f = shared;
    T* at[ROWS];
    unsigned long long places = 0;
    #pragma unroll
    for (int r = 0; r < ROWS; r++) { places |= l.p[r][k]; at[r] = (T*)l.p[r][k] + start; }
    i64 fours = places % 16 ? 0 : n / 4;
    for (i64 i = threadIdx.x; i < fours; i += THREADS) {
        Four<T> v[ROWS];
        #pragma unroll
        for (int r = 0; r < ROWS; r++) v[r] = ((const Four<T>*)at[r])[i];
        #pragma unroll
        for (int j = 0; j < 4; j++) {
            A a[ROWS];
            #pragma unroll
            for (int r = 0; r < ROWS; r++) a[r] = LOAD(v[r].v + j);
            element(f, a);
            #pragma unroll
            for (int r = 0; r < ROWS; r++) if (r != 1) STORE(v[r].v + j, a[r]);
        }
        #pragma unroll
        for (int r = 0; r < ROWS; r++) if (r != 1) ((Four<T>*)at[r])[i] = v[r];
    }
    for (i64 i = 4 * fours + threadIdx.x; i < n; i += THREADS) {
        A a[ROWS];
        #pragma unroll
        for (int r = 0; r < ROWS; r++) a[r] = LOAD(at[r] + i);
        element(f, a);
        #pragma unroll
        for (int r = 0; r < ROWS; r++) if (r != 1) STORE(at[r] + i, a[r]);
    }
}
// After a captured step.
extern "C" __global__ void next_numbers(Numbers* at, const Options o, int narrow) {
    Numbers now = *at;
    advance(now, o, narrow);
    *at = now;
}
