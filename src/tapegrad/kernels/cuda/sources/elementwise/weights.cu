// The sum of a formula over two arrays and weights, divided by a number (see total.cu for `parts`).
// Each weight is used for `stays` elements in a row; after `size` weights the first one is next.
#include "common/prelude.cu"
#include "formula.cu"

extern "C" __global__ void __launch_bounds__(1024) weights(const T* __restrict__ x,
        const T* __restrict__ y, const T* __restrict__ w, unsigned stays, unsigned size,
        A* __restrict__ parts, T* __restrict__ out, A by, i64 n, i64 chunk NUMBER_PARAMETERS) {
    i64 start = blockIdx.x * chunk, end = start + chunk < n ? start + chunk : n;
    A sum = 0;
    for (i64 i = start + threadIdx.x; i < end; i += blockDim.x) {
        A a = LOAD(x + i), b = LOAD(y + i), c = LOAD(w + (unsigned)i / stays % size);
        sum += formula(a, b, c NUMBER_ARGUMENTS);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        if (parts) parts[blockIdx.x] = sum;
        else STORE(out, sum / by);
    }
}
