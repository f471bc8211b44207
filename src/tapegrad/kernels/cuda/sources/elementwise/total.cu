// The sum of a formula over two arrays, divided by a number. Without `parts` there is one block; with
// them each block sums a chunk, and the kernel long_rows_end (rows/sums.cu) adds the parts up.
#include "common/prelude.cu"
#include "formula.cu"

extern "C" __global__ void __launch_bounds__(1024) total(const T* __restrict__ x,
        const T* __restrict__ y, A* __restrict__ parts, T* __restrict__ out, A by, i64 n,
        i64 chunk NUMBER_PARAMETERS) {
    i64 start = blockIdx.x * chunk, end = start + chunk < n ? start + chunk : n;
    A some[4] = {0, 0, 0, 0};
    i64 i = start + threadIdx.x;
    for (; i + 3 * blockDim.x < end; i += 4 * blockDim.x) {
        #pragma unroll
        for (int j = 0; j < 4; j++) {
            A a = LOAD(x + i + j * blockDim.x), b = LOAD(y + i + j * blockDim.x);
            some[j] += formula(a, b NUMBER_ARGUMENTS);
        }
    }
    for (; i < end; i += blockDim.x) {
        A a = LOAD(x + i), b = LOAD(y + i);
        some[0] += formula(a, b NUMBER_ARGUMENTS);
    }
    A sum = block_sum((some[0] + some[1]) + (some[2] + some[3]));
    if (threadIdx.x == 0) {
        if (parts) parts[blockIdx.x] = sum;
        else STORE(out, sum / by);
    }
}
