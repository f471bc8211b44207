// Convolutions. Nothing is added up by atomics: the thread that stores a number forms its whole
// sum, so that results are the same every time.
#include "windows.cu"

// The window that has an element at tap k along a dimension; negative if there is none.
__device__ __forceinline__ int window_at(const Windows& w, int d, int at, int k) {
    int from = at + w.low[d] - k * w.dilation[d];
    if (from < 0) return -1;
    int o = quotient(from, w.stride[d]);
    return o * (int)w.stride[d].by == from && o < (int)w.out[d].by ? o : -1;
}
// The first place of a window.
__device__ __forceinline__ int start_of(const Windows& w, int d, int o) {
    return o * (int)w.stride[d].by - w.low[d];
}
__device__ __forceinline__ int taps_of(const Windows& w) {
    return w.kernel[0] * w.kernel[1] * w.kernel[2];
}

// x (images, channels, size) as matrices: a row per channel and tap, a column per window. Rows are
// `row` elements apart, the columns of an image `step` behind those of the one before.
extern "C" __global__ void gather(const T* __restrict__ x, T* __restrict__ cols, unsigned n,
        const __grid_constant__ Windows w, const __grid_constant__ Cut channels, i64 row,
        i64 step) {
    unsigned length = volume(w.out), whole = volume(w.size);
    EACH(i, n) {
        Spot s = spot(i, w.out);
        unsigned image = quotient(s.plane, channels), c = s.plane - image * channels.by;
        const T* from = x + (i64)s.plane * whole;
        T* to = cols + (i64)c * taps_of(w) * row + image * step + (i - s.plane * length);
        int x0 = start_of(w, 2, s.at[2]);
        for (int kz = 0; kz < w.kernel[0]; kz++) {
            int z = start_of(w, 0, s.at[0]) + kz * w.dilation[0];
            for (int ky = 0; ky < w.kernel[1]; ky++) {
                int y = start_of(w, 1, s.at[1]) + ky * w.dilation[1];
                bool some = within(z, w.size[0]) && within(y, w.size[1]);
                const T* line = from + (some ? (z * w.size[1].by + y) * w.size[2].by : 0);
                for (int kx = 0; kx < w.kernel[2]; kx++) {
                    int q = x0 + kx * w.dilation[2];
                    *to = some && within(q, w.size[2]) ? line[q] : T();
                    to += row;
                }
            }
        }
    }
}
// The way back: every element of x adds up what stands for it in the matrix.
extern "C" __global__ void scatter(const A* __restrict__ cols, const T* __restrict__ bias,
        T* __restrict__ x, unsigned n, const __grid_constant__ Windows w,
        const __grid_constant__ Cut channels, i64 row, i64 step) {
    EACH(i, n) {
        Spot s = spot(i, w.size);
        unsigned image = quotient(s.plane, channels), c = s.plane - image * channels.by;
        const A* from = cols + (i64)c * taps_of(w) * row + image * step;
        A total = 0;
        if (bias) total = LOAD(bias + c);
        for (int kz = 0; kz < w.kernel[0]; kz++) {
            int oz = window_at(w, 0, s.at[0], kz);
            if (oz < 0) continue;
            for (int ky = 0; ky < w.kernel[1]; ky++) {
                int oy = window_at(w, 1, s.at[1], ky);
                if (oy < 0) continue;
                const A* line = from + (kz * w.kernel[1] + ky) * w.kernel[2] * row
                    + (oz * w.out[1].by + oy) * w.out[2].by;
                for (int kx = 0; kx < w.kernel[2]; kx++) {
                    int ox = window_at(w, 2, s.at[2], kx);
                    if (ox >= 0) total += line[kx * row + ox];
                }
            }
        }
        STORE(x + i, total);
    }
}
// A matrix (features, images * length) as y (images, features, length), with a bias.
extern "C" __global__ void part(const T* __restrict__ made, const T* __restrict__ bias,
        T* __restrict__ y, unsigned n, const __grid_constant__ Cut length,
        const __grid_constant__ Cut features, unsigned images) {
    EACH(i, n) {
        unsigned plane = quotient(i, length), image = quotient(plane, features);
        unsigned o = plane - image * features.by;
        i64 from = ((i64)o * images + image) * length.by + (i - plane * length.by);
        if (bias) STORE(y + i, LOAD(made + from) + LOAD(bias + o));
        else y[i] = made[from];
    }
}
extern "C" __global__ void add_bias(T* y, const T* __restrict__ bias, unsigned n,
        const __grid_constant__ Cut length, const __grid_constant__ Cut features) {
    EACH(i, n) {
        unsigned plane = quotient(i, length);
        unsigned o = plane - quotient(plane, features) * features.by;
        STORE(y + i, LOAD(y + i) + LOAD(bias + o));
    }
}
// The sum of each channel of y; a block has one.
extern "C" __global__ void __launch_bounds__(1024) channel_sums(const T* __restrict__ y,
        T* __restrict__ sums, unsigned n, const __grid_constant__ Cut length, unsigned features) {
    A some[4] = {0, 0, 0, 0};
    for (unsigned i = threadIdx.x; i < n; i += 4 * blockDim.x) {
        #pragma unroll
        for (int j = 0; j < 4; j++) {
            unsigned k = i + j * blockDim.x;
            if (k >= n) continue;
            unsigned image = quotient(k, length), p = k - image * length.by;
            some[j] += LOAD(y + ((i64)image * features + blockIdx.x) * length.by + p);
        }
    }
    A total = block_sum((some[0] + some[1]) + (some[2] + some[3]));
    if (threadIdx.x == 0) STORE(sums + blockIdx.x, total);
}

// One channel to a group, which has `times` features: their products are too small for cuBLAS.
extern "C" __global__ void each_channel(const T* __restrict__ x, const T* __restrict__ weight,
        const T* __restrict__ bias, T* __restrict__ y, unsigned n,
        const __grid_constant__ Windows w, const __grid_constant__ Cut channels,
        const __grid_constant__ Cut times) {
    unsigned features = channels.by * times.by, whole = volume(w.size);
    EACH(i, n) {
        Spot s = spot(i, w.out);
        unsigned group = quotient(s.plane, times), image = quotient(group, channels);
        unsigned o = s.plane - image * features;
        const T* from = x + (i64)group * whole;
        const T* tap = weight + o * taps_of(w);
        int x0 = start_of(w, 2, s.at[2]);
        A total = 0;
        if (bias) total = LOAD(bias + o);
        for (int kz = 0; kz < w.kernel[0]; kz++) {
            int z = start_of(w, 0, s.at[0]) + kz * w.dilation[0];
            for (int ky = 0; ky < w.kernel[1]; ky++) {
                int y = start_of(w, 1, s.at[1]) + ky * w.dilation[1];
                bool some = within(z, w.size[0]) && within(y, w.size[1]);
                const T* line = from + (some ? (z * w.size[1].by + y) * w.size[2].by : 0);
                for (int kx = 0; kx < w.kernel[2]; kx++, tap++) {
                    int q = x0 + kx * w.dilation[2];
                    if (some && within(q, w.size[2])) total += LOAD(line + q) * LOAD(tap);
                }
            }
        }
        STORE(y + i, total);
    }
}
extern "C" __global__ void each_channel_back(const T* __restrict__ y, const T* __restrict__ weight,
        const T* __restrict__ bias, T* __restrict__ x, unsigned n,
        const __grid_constant__ Windows w, const __grid_constant__ Cut channels,
        const __grid_constant__ Cut times) {
    unsigned length = volume(w.out);
    int taps = taps_of(w);
    EACH(i, n) {
        Spot s = spot(i, w.size);
        unsigned c = s.plane - quotient(s.plane, channels) * channels.by;
        A total = 0;
        if (bias) total = LOAD(bias + c);
        for (int kz = 0; kz < w.kernel[0]; kz++) {
            int oz = window_at(w, 0, s.at[0], kz);
            if (oz < 0) continue;
            for (int ky = 0; ky < w.kernel[1]; ky++) {
                int oy = window_at(w, 1, s.at[1], ky);
                if (oy < 0) continue;
                for (int kx = 0; kx < w.kernel[2]; kx++) {
                    int ox = window_at(w, 2, s.at[2], kx);
                    if (ox < 0) continue;
                    const T* from = y + (i64)s.plane * times.by * length
                        + (oz * w.out[1].by + oy) * w.out[2].by + ox;
                    const T* tap = weight + (i64)c * times.by * taps
                        + (kz * w.kernel[1] + ky) * w.kernel[2] + kx;
                    for (unsigned j = 0; j < times.by; j++)
                        total += LOAD(from + (i64)j * length) * LOAD(tap + j * taps);
                }
            }
        }
        STORE(x + i, total);
    }
}
// A block has one tap (blockIdx.x) of a feature (blockIdx.y): its neighbours read the same memory.
// n: images * windows.
extern "C" __global__ void each_channel_weight(const T* __restrict__ x, const T* __restrict__ y,
        T* __restrict__ weight, unsigned n, const __grid_constant__ Windows w,
        const __grid_constant__ Cut channels, const __grid_constant__ Cut times) {
    unsigned features = channels.by * times.by, length = volume(w.out), whole = volume(w.size);
    unsigned o = blockIdx.y, c = quotient(o, times), k = blockIdx.x;
    int kx = k % w.kernel[2], ky = k / w.kernel[2] % w.kernel[1];
    int kz = k / (w.kernel[2] * w.kernel[1]);
    A total = 0;
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
        Spot s = spot(i, w.out);
        int z = start_of(w, 0, s.at[0]) + kz * w.dilation[0];
        int v = start_of(w, 1, s.at[1]) + ky * w.dilation[1];
        int q = start_of(w, 2, s.at[2]) + kx * w.dilation[2];
        if (!within(z, w.size[0]) || !within(v, w.size[1]) || !within(q, w.size[2])) continue;
        i64 from = ((i64)s.plane * channels.by + c) * whole
            + (z * w.size[1].by + v) * w.size[2].by + q;
        i64 at = ((i64)s.plane * features + o) * length + (i - s.plane * length);
        total += LOAD(x + from) * LOAD(y + at);
    }
    total = block_sum(total);
    if (threadIdx.x == 0) STORE(weight + (i64)o * gridDim.x + k, total);
}
