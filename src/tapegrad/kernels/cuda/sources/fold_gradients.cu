// Gradients of the reductions of folds.cu. Their formulas come from the blocks
// (launchers/fold_gradients.py): `g` and `h` are the gradients of the results, `out` the first
// result, per row; `h` and `out` may be missing. SUMS: `summed` of all elements of a row is added
// up before.
#include "prelude.cu"
#include "formula.cu"

struct Row { A a, c, d; };
__device__ __forceinline__ Row row(const T* g, const T* h, const T* out, i64 r, i64 g_step,
        i64 h_step) {
    return {LOAD(g + r * g_step), out ? LOAD(out + r) : (A)0, h ? LOAD(h + r * h_step) : (A)0};
}
extern "C" __global__ void __launch_bounds__(1024) back_rows(const T* __restrict__ g,
        const T* __restrict__ h, const T* __restrict__ out, const T* __restrict__ x,
        T* __restrict__ dx, i64 n, i64 g_step, i64 h_step NUMBER_PARAMETERS) {
    Row o = row(g, h, out, blockIdx.x, g_step, h_step);
    const T* p = x + blockIdx.x * n;
    T* q = dx + blockIdx.x * n;
    A m = 0;
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) m += summed(o.a, LOAD(p + i), o.c, o.d);
    m = block_sum(m);
    for (i64 i = threadIdx.x; i < n; i += blockDim.x)
        STORE(q + i, formula(o.a, LOAD(p + i), o.c, o.d, m NUMBER_ARGUMENTS));
}
extern "C" __global__ void __launch_bounds__(1024) back_columns(const T* __restrict__ g,
        const T* __restrict__ h, const T* __restrict__ out, const T* __restrict__ x,
        T* __restrict__ dx, i64 rows, i64 n, i64 g_step, i64 h_step NUMBER_PARAMETERS) {
    __shared__ A sums[32][33];
    i64 k = blockIdx.x * (i64)32 + threadIdx.x;
    Row o = {0, 0, 0};
    A m = 0;
    if (k < n) {
        o = row(g, h, out, k, g_step, h_step);
        for (i64 r = threadIdx.y; r < rows; r += 32)
            m += summed(o.a, LOAD(x + r * n + k), o.c, o.d);
    }
    sums[threadIdx.y][threadIdx.x] = m;
    __syncthreads();
    m = warp_sum(sums[threadIdx.x][threadIdx.y]);
    __syncthreads();
    if (threadIdx.x == 0) sums[0][threadIdx.y] = m;
    __syncthreads();
    m = sums[0][threadIdx.x];
    if (k < n) for (i64 r = threadIdx.y; r < rows; r += 32)
        STORE(dx + r * n + k, formula(o.a, LOAD(x + r * n + k), o.c, o.d, m NUMBER_ARGUMENTS));
}
// Any rows, or columns if `down`; sums over them, where they are needed, have been formed before.
extern "C" __global__ void back_each(const T* __restrict__ g, const T* __restrict__ h,
        const T* __restrict__ out, const T* __restrict__ x, T* __restrict__ dx,
        const T* __restrict__ total, i64 count, i64 n, int down, i64 g_step,
        i64 h_step NUMBER_PARAMETERS) {
    EACH(i, count) {
        i64 r = down ? i % n : i / n;
        Row o = row(g, h, out, r, g_step, h_step);
        A m = SUMS ? LOAD(total + r) : (A)0;
        STORE(dx + i, formula(o.a, LOAD(x + i), o.c, o.d, m NUMBER_ARGUMENTS));
    }
}
