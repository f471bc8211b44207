// Layer norm, softmax and the cross entropy of classes: rows of a matrix, one warp each, eight rows
// to a block.
#include "prelude.cu"

#define ROW (blockIdx.x * (i64)blockDim.y + threadIdx.y)
#define LANE threadIdx.x

extern "C" __global__ void layer_norm(const T* __restrict__ x, const T* __restrict__ w,
        const T* __restrict__ b, T* __restrict__ y, A* __restrict__ stats, A eps, i64 rows, int n) {
    i64 r = ROW; if (r >= rows) return;
    const T* p = x + r * n; A total = 0;
    for (int i = LANE; i < n; i += 32) total += LOAD(p + i);
    A mean = warp_sum(total) / n; A square = 0;
    for (int i = LANE; i < n; i += 32) { A d = LOAD(p + i) - mean; square += d * d; }
    A inv = 1 / sqrt(warp_sum(square) / n + eps);
    T* q = y + r * n;
    for (int i = LANE; i < n; i += 32) {
        A v = (LOAD(p + i) - mean) * inv;
        if (w) v *= LOAD(w + i);
        if (b) v += LOAD(b + i);
        STORE(q + i, v);
    }
    if (LANE == 0) { stats[r] = mean; stats[rows + r] = inv; }
}

// A block takes a chunk of rows: its warps the input's gradient of one after the other, then all
// threads the chunk's share of the sums down the columns, of g and of g times the standardized x.
extern "C" __global__ void layer_norm_back(const T* __restrict__ g, const T* __restrict__ x,
        const A* __restrict__ stats, const T* __restrict__ w, T* __restrict__ dx,
        A* __restrict__ parts, i64 rows, int n, int chunk) {
    i64 start = blockIdx.x * (i64)chunk, end = start + chunk < rows ? start + chunk : rows;
    for (i64 r = start + threadIdx.y; r < end; r += blockDim.y) {
        A mean = stats[r], inv = stats[rows + r], one = 0, two = 0;
        const T* p = x + r * n; const T* q = g + r * n;
        for (int i = LANE; i < n; i += 32) {
            A v = LOAD(q + i); if (w) v *= LOAD(w + i);
            one += v; two += v * (LOAD(p + i) - mean) * inv;
        }
        one = warp_sum(one) / n; two = warp_sum(two) / n;
        T* d = dx + r * n;
        for (int i = LANE; i < n; i += 32) {
            A v = LOAD(q + i); if (w) v *= LOAD(w + i);
            A hat = (LOAD(p + i) - mean) * inv;
            STORE(d + i, (v - one - hat * two) * inv);
        }
    }
    if (!parts) return;
    for (int c = threadIdx.y * 32 + LANE; c < n; c += 32 * blockDim.y) {
        A one = 0, two = 0;
        #pragma unroll 4
        for (i64 r = start; r < end; r++) {
            A v = LOAD(g + r * n + c);
            one += v; two += v * (LOAD(x + r * n + c) - stats[r]) * stats[rows + r];
        }
        parts[blockIdx.x * (i64)n + c] = one;
        parts[((i64)gridDim.x + blockIdx.x) * n + c] = two;
    }
}

extern "C" __global__ void softmax(const T* __restrict__ x, T* __restrict__ y, int logs,
        i64 rows, int n) {
    i64 r = ROW; if (r >= rows) return;
    const T* p = x + r * n; T* q = y + r * n;
    A most = -INFINITY;
    for (int i = LANE; i < n; i += 32) { A v = LOAD(p + i); most = v > most ? v : most; }
    most = warp_max(most); A total = 0;
    for (int i = LANE; i < n; i += 32) total += exp(LOAD(p + i) - most);
    total = warp_sum(total);
    A shift = log(total), inv = 1 / total;
    for (int i = LANE; i < n; i += 32) {
        A v = LOAD(p + i) - most;
        STORE(q + i, logs ? v - shift : exp(v) * inv);
    }
}
extern "C" __global__ void softmax_back(const T* __restrict__ g, const T* __restrict__ y,
        T* __restrict__ dx, int logs, i64 rows, int n) {
    i64 r = ROW; if (r >= rows) return;
    const T* p = g + r * n; const T* q = y + r * n; T* d = dx + r * n;
    A total = 0;
    for (int i = LANE; i < n; i += 32) {
        A v = LOAD(p + i); total += logs ? v : v * LOAD(q + i);
    }
    total = warp_sum(total);
    for (int i = LANE; i < n; i += 32) {
        A v = LOAD(p + i), o = LOAD(q + i);
        STORE(d + i, logs ? v - exp(o) * total : (v - total) * o);
    }
}

// Targets as rows' classes: the mean (or sum) of minus the chosen elements; one block.
// `w` are weights of the classes, if there are any; `seen` is their sum.
extern "C" __global__ void chosen(const T* __restrict__ x, const i64* __restrict__ t,
        const T* __restrict__ w, T* __restrict__ out, A* __restrict__ count, int mean, i64 skip,
        i64 rows, int n) {
    A total = 0, seen = 0;
    for (i64 r = threadIdx.x; r < rows; r += blockDim.x) {
        i64 c = t[r];
        if (c != skip && c >= 0 && c < n) {
            A by = w ? LOAD(w + c) : (A)1;
            if (x) total -= LOAD(x + r * n + c) * by;
            seen += by;
        }
    }
    total = block_sum(total); seen = block_sum(seen);
    if (threadIdx.x == 0) {
        if (out) STORE(out, mean ? total / seen : total);
        if (count) *count = seen;
    }
}
// For a mean, every block counts the targets that are not skipped, unless their number is given.
extern "C" __global__ void chosen_back(const T* __restrict__ g, const i64* __restrict__ t,
        const T* __restrict__ w, const A* __restrict__ count, T* __restrict__ dx, int mean,
        int each, i64 skip, i64 rows, int n) {
    A seen = 0;
    if (mean && count) seen = *count;
    else if (mean) {
        for (i64 r = threadIdx.x; r < rows; r += blockDim.x) {
            i64 c = t[r]; if (c != skip && c >= 0 && c < n) seen += w ? LOAD(w + c) : (A)1;
        }
        seen = block_sum(seen);
    }
    EACH(i, rows * n) {
        i64 r = i / n; i64 c = t[r];
        A v = 0;
        if (c == i % n && c != skip) {
            v = -LOAD(g + (each ? r : 0));
            if (w) v *= LOAD(w + c);
            if (mean) v /= seen;
        }
        STORE(dx + i, v);
    }
}
