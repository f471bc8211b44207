// Sums.
#include "prelude.cu"

// Sums, divided by a number. Few long rows and columns of long matrices go in chunks: their sums
// are `parts`, which a second kernel adds up; without them a chunk is all there is.
#define SHARE(start, end, all, chunk) i64 start = blockIdx.y * (i64)(chunk), \
    end = start + (chunk) < (all) ? start + (chunk) : (all)
// 32 columns to a block of 32 * 32; a warp ends up with the sum of the column of its number.
__device__ __forceinline__ A gathered(A total) {
    __shared__ A sums[32][33];
    sums[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    return warp_sum(sums[threadIdx.x][threadIdx.y]);
}
extern "C" __global__ void __launch_bounds__(1024) columns(const T* __restrict__ x,
        A* __restrict__ parts, T* __restrict__ out, A by, i64 rows, int n, int chunk) {
    SHARE(start, end, rows, chunk);
    int c = blockIdx.x * 32 + threadIdx.x;
    A some[4] = {0, 0, 0, 0};
    i64 r = start + threadIdx.y;
    if (c < n) {
        for (; r + 96 < end; r += 128) {
            #pragma unroll
            for (int j = 0; j < 4; j++) some[j] += LOAD(x + (r + 32 * j) * n + c);
        }
        for (; r < end; r += 32) some[0] += LOAD(x + r * n + c);
    }
    A total = gathered((some[0] + some[1]) + (some[2] + some[3]));
    c = blockIdx.x * 32 + threadIdx.y;
    if (threadIdx.x == 0 && c < n) {
        if (parts) parts[(i64)blockIdx.y * n + c] = total;
        else STORE(out + c, total / by);
    }
}
// One or two matrices of parts, one after the other; blockIdx.y says which.
extern "C" __global__ void __launch_bounds__(1024) columns_end(const A* __restrict__ parts,
        T* __restrict__ first, T* __restrict__ second, A by, int count, int n) {
    T* out = blockIdx.y ? second : first;
    if (!out) return;
    const A* p = parts + (i64)blockIdx.y * count * n;
    int c = blockIdx.x * 32 + threadIdx.x;
    A total = 0;
    if (c < n) {
        #pragma unroll 4
        for (int i = threadIdx.y; i < count; i += 32) total += p[(i64)i * n + c];
    }
    total = gathered(total);
    c = blockIdx.x * 32 + threadIdx.y;
    if (threadIdx.x == 0 && c < n) STORE(out + c, total / by);
}
// Few long rows: blockIdx.x is the row.
extern "C" __global__ void __launch_bounds__(1024) long_rows(const T* __restrict__ x,
        A* __restrict__ parts, T* __restrict__ out, A by, i64 n, i64 chunk) {
    SHARE(start, end, n, chunk);
    const T* p = x + blockIdx.x * n;
    A some[4] = {0, 0, 0, 0};
    i64 i = start + threadIdx.x;
    for (; i + 3 * blockDim.x < end; i += 4 * blockDim.x) {
        #pragma unroll
        for (int j = 0; j < 4; j++) some[j] += LOAD(p + i + j * blockDim.x);
    }
    for (; i < end; i += blockDim.x) some[0] += LOAD(p + i);
    A total = block_sum((some[0] + some[1]) + (some[2] + some[3]));
    if (threadIdx.x == 0) {
        if (parts) parts[(i64)blockIdx.x * gridDim.y + blockIdx.y] = total;
        else STORE(out + blockIdx.x, total / by);
    }
}
extern "C" __global__ void long_rows_end(const A* __restrict__ parts, T* __restrict__ out, A by,
        int count) {
    const A* p = parts + blockIdx.x * (i64)count;
    A total = 0;
    for (int i = threadIdx.x; i < count; i += blockDim.x) total += p[i];
    total = block_sum(total);
    if (threadIdx.x == 0) STORE(out + blockIdx.x, total / by);
}
// Many short rows, one warp each: there are no parts.
extern "C" __global__ void short_rows(const T* __restrict__ x, A*, T* __restrict__ out, A by,
        i64 rows, int n) {
    i64 r = blockIdx.x * (i64)blockDim.y + threadIdx.y; if (r >= rows) return;
    A total = 0;
    #pragma unroll 4
    for (int i = threadIdx.x; i < n; i += 32) total += LOAD(x + r * n + i);
    total = warp_sum(total);
    if (threadIdx.x == 0) STORE(out + r, total / by);
}

// The shares of a product that was split along k, added up in their order.
extern "C" __global__ void add_shares(
        const float* __restrict__ parts, const float* __restrict__ bias, float* __restrict__ out,
        i64 size, int n, int shares) {
    i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (i >= size) return;
    float sum = parts[i];
#pragma unroll 4
    for (int s = 1; s < shares; s++) sum += parts[s * size + i];
    out[i] = bias ? sum + bias[i % n] : sum;
}
