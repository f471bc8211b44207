"""The CUDA C of convolutions and poolings, over up to three dimensions (the first ones may be 1).

Nothing is added up by atomics: whoever stores a number forms its whole sum, so that results are
the same every time. `T`, `A`, LOAD and STORE: see templates.py.
"""

from __future__ import annotations

# Positions are split up by divisions, which take long unless the divisor was prepared.
WINDOWS = r"""
struct Cut { unsigned by, times, shift; };
__device__ __forceinline__ unsigned quotient(unsigned n, const Cut& c) {
    return ((unsigned)((n * (unsigned long long)c.times) >> 32) + n) >> c.shift;
}
// Windows into volumes of `size`: `out` of them along each dimension, `stride` apart, the first
// `low` places before the first element.
struct Windows { Cut out[3], size[3], stride[3]; int kernel[3], low[3], dilation[3]; };
__device__ __forceinline__ unsigned volume(const Cut* sizes) {
    return sizes[0].by * sizes[1].by * sizes[2].by;
}
// An element of stacked volumes: which of them, where in it.
struct Spot { unsigned plane; int at[3]; };
__device__ __forceinline__ Spot spot(unsigned i, const Cut* sizes) {
    Spot s;
    #pragma unroll
    for (int d = 2; d >= 0; d--) {
        unsigned next = quotient(i, sizes[d]);
        s.at[d] = i - next * sizes[d].by;
        i = next;
    }
    s.plane = i;
    return s;
}
__device__ __forceinline__ bool within(int at, const Cut& size) { return (unsigned)at < size.by; }
"""

CONV = (
    WINDOWS
    + r"""
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
"""
)

# ADAPTIVE: windows that tile the volume, whose sizes follow from `out` and `size`.
POOLS = (
    WINDOWS
    + r"""
struct Range { int begin, end, step; };
#if ADAPTIVE
__device__ __forceinline__ Range places(const Windows& w, int d, int o) {
    unsigned n = w.size[d].by, out = w.out[d].by;
    return {(int)quotient(o * n, w.out[d]), (int)quotient((o + 1) * n + out - 1, w.out[d]), 1};
}
__device__ __forceinline__ Range windows(const Windows& w, int d, int at) {
    unsigned n = w.size[d].by, out = w.out[d].by;
    return {(int)quotient(at * out, w.size[d]), (int)quotient((at + 1) * out + n - 1, w.size[d]),
            1};
}
__device__ __forceinline__ int shared_by(const Windows& w, int d, int o, int) {
    Range r = places(w, d, o);
    return r.end - r.begin;
}
#else
// What a window covers of the volume.
__device__ __forceinline__ Range places(const Windows& w, int d, int o) {
    int begin = o * (int)w.stride[d].by - w.low[d], step = w.dilation[d];
    int end = begin + (w.kernel[d] - 1) * step + 1, size = w.size[d].by;
    if (begin < 0) begin += (step - 1 - begin) / step * step;
    return {begin, end < size ? end : size, step};
}
// The windows that may cover an element.
__device__ __forceinline__ Range windows(const Windows& w, int d, int at) {
    int last = at + w.low[d], reach = (w.kernel[d] - 1) * w.dilation[d], out = w.out[d].by;
    int begin = last > reach ? quotient(last - reach - 1, w.stride[d]) + 1 : 0;
    int end = quotient(last, w.stride[d]) + 1;
    return {begin, end < out ? end : out, 1};
}
// The elements of a window, for a mean.
__device__ __forceinline__ int shared_by(const Windows& w, int d, int o, int padded) {
    int begin = o * (int)w.stride[d].by - w.low[d], size = w.size[d].by;
    int end = begin + w.kernel[d], most = padded ? size + w.low[d] : size;
    if (!padded && begin < 0) begin = 0;
    return (end < most ? end : most) - begin;
}
#endif
__device__ __forceinline__ A divisor(const Windows& w, const int* o, int padded, A given) {
    if (given != 0) return given;
    return (A)((i64)shared_by(w, 0, o[0], padded) * shared_by(w, 1, o[1], padded)
               * shared_by(w, 2, o[2], padded));
}
#define ALONG(v, r) for (int v = (r).begin; v < (r).end; v += (r).step)

// Where in its volume the largest element of a window is: the first of equals, or the last NaN.
__device__ __forceinline__ int largest(const T* __restrict__ from, const Windows& w, const int* o,
        A* best) {
    int height = w.size[1].by, width = w.size[2].by;
    Range zs = places(w, 0, o[0]), ys = places(w, 1, o[1]), xs = places(w, 2, o[2]);
    int where = (zs.begin * height + ys.begin) * width + xs.begin;
    *best = -INFINITY;
    ALONG(z, zs) ALONG(y, ys) {
        int line = (z * height + y) * width;
        ALONG(q, xs) {
            A v = LOAD(from + line + q);
            if (v > *best || v != v) { *best = v; where = line + q; }
        }
    }
    return where;
}
// Maxima and where they are; either may be left out.
extern "C" __global__ void max_pool(const T* __restrict__ x, T* __restrict__ values,
        i64* __restrict__ indices, unsigned n, const __grid_constant__ Windows w) {
    unsigned whole = volume(w.size);
    EACH(i, n) {
        Spot s = spot(i, w.out);
        A best;
        int where = largest(x + (i64)s.plane * whole, w, s.at, &best);
        if (values) STORE(values + i, best);
        if (indices) indices[i] = where;
    }
}
extern "C" __global__ void max_pool_back(const T* __restrict__ g, const i64* __restrict__ indices,
        T* __restrict__ dx, unsigned n, const __grid_constant__ Windows w) {
    unsigned length = volume(w.out), whole = volume(w.size);
    EACH(i, n) {
        Spot s = spot(i, w.size);
        i64 first = (i64)s.plane * length, own = i - s.plane * whole;
        Range zs = windows(w, 0, s.at[0]), ys = windows(w, 1, s.at[1]);
        Range xs = windows(w, 2, s.at[2]);
        A total = 0;
        ALONG(z, zs) ALONG(y, ys) {
            i64 line = first + (z * w.out[1].by + y) * w.out[2].by;
            ALONG(q, xs) if (indices[line + q] == own) total += LOAD(g + line + q);
        }
        STORE(dx + i, total);
    }
}
// The same for small windows that do not overlap, without indices: elements look themselves.
extern "C" __global__ void max_pool_pull(const T* __restrict__ g, const T* __restrict__ x,
        T* __restrict__ dx, unsigned n, const __grid_constant__ Windows w) {
    unsigned length = volume(w.out), whole = volume(w.size);
    EACH(i, n) {
        Spot s = spot(i, w.size);
        int own = i - s.plane * whole;
        Range zs = windows(w, 0, s.at[0]), ys = windows(w, 1, s.at[1]);
        Range xs = windows(w, 2, s.at[2]);
        A total = 0, best;
        ALONG(z, zs) ALONG(y, ys) ALONG(q, xs) {
            int o[3] = {z, y, q};
            if (largest(x + (i64)s.plane * whole, w, o, &best) == own)
                total += LOAD(g + (i64)s.plane * length + (z * w.out[1].by + y) * w.out[2].by + q);
        }
        STORE(dx + i, total);
    }
}
// `given` takes the place of the number of elements, if it is not 0.
extern "C" __global__ void avg_pool(const T* __restrict__ x, T* __restrict__ out, unsigned n,
        const __grid_constant__ Windows w, int padded, A given) {
    unsigned whole = volume(w.size);
    int height = w.size[1].by, width = w.size[2].by;
    EACH(i, n) {
        Spot s = spot(i, w.out);
        const T* from = x + (i64)s.plane * whole;
        Range zs = places(w, 0, s.at[0]), ys = places(w, 1, s.at[1]), xs = places(w, 2, s.at[2]);
        A total = 0;
        ALONG(z, zs) ALONG(y, ys) {
            const T* line = from + (z * height + y) * width;
            ALONG(q, xs) total += LOAD(line + q);
        }
        STORE(out + i, total / divisor(w, s.at, padded, given));
    }
}
extern "C" __global__ void avg_pool_back(const T* __restrict__ g, T* __restrict__ dx, unsigned n,
        const __grid_constant__ Windows w, int padded, A given) {
    unsigned length = volume(w.out);
    EACH(i, n) {
        Spot s = spot(i, w.size);
        const T* from = g + (i64)s.plane * length;
        Range zs = windows(w, 0, s.at[0]), ys = windows(w, 1, s.at[1]);
        Range xs = windows(w, 2, s.at[2]);
        A total = 0;
        ALONG(z, zs) ALONG(y, ys) {
            const T* line = from + (z * w.out[1].by + y) * w.out[2].by;
            ALONG(q, xs) {
                int o[3] = {z, y, q};
                total += LOAD(line + q) / divisor(w, o, padded, given);
            }
        }
        STORE(dx + i, total);
    }
}
"""
)

# Resizing by tables (kernels/resampling_taps.py): per place along a dimension, `width` places of x
# with weights. The tables of the dimensions stand one after the other.
RESIZE = (
    WINDOWS
    + r"""
struct Axes { Cut out[3]; unsigned size[3], width[3], start[3]; };
extern "C" __global__ void resize(const T* __restrict__ x, const int* __restrict__ places,
        const A* __restrict__ weights, T* __restrict__ out, unsigned n,
        const __grid_constant__ Axes a) {
    unsigned whole = a.size[0] * a.size[1] * a.size[2];
    EACH(i, n) {
        Spot s = spot(i, a.out);
        const T* from = x + (i64)s.plane * whole;
        unsigned first[3];
        #pragma unroll
        for (int d = 0; d < 3; d++) first[d] = a.start[d] + s.at[d] * a.width[d];
        A total = 0;
        for (unsigned z = first[0]; z < first[0] + a.width[0]; z++) {
            for (unsigned y = first[1]; y < first[1] + a.width[1]; y++) {
                // What has no weight is no tap at all: infinities must not leave a NaN.
                A by = weights[z] * weights[y], some = 0;
                if (by == 0) continue;
                const T* line = from + (places[z] * a.size[1] + places[y]) * a.size[2];
                for (unsigned q = first[2]; q < first[2] + a.width[2]; q++)
                    if (weights[q] != 0) some += weights[q] * LOAD(line + places[q]);
                total += by * some;
            }
        }
        STORE(out + i, total);
    }
}
"""
)
