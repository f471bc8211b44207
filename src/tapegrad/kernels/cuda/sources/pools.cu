// Poolings. ADAPTIVE: windows that tile the volume, whose sizes follow from `out` and `size`.
#include "windows.cu"

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
