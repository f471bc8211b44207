// Batch, group and instance norm.
#include "norm_joins.cu"
#include "teams.cu"

// A set is what is standardized together: `size` elements, in pieces of `length` neighbours. For
// batch norm that is a channel with a piece per sample, for group norm a group of a sample with a
// piece per channel. The teams of blockIdx.y take `part` elements each of a set.
struct Sets {
    unsigned count, size, length, part, groups, set_channels, piece_channels, per_statistic;
    i64 set_step, piece_step;
};
#define SHARE \
    unsigned set = blockIdx.x * blockDim.y + threadIdx.y, start = blockIdx.y * p.part, end = 0; \
    if (set < p.count) end = start + p.part < p.size ? start + p.part : p.size;
#define STEP (blockDim.x * WIDE)
#define FIRST (start + threadIdx.x * WIDE)
#define AT_ONCE (WIDE == 4 ? 4 : 8)
// For joins.cu: how many sets have a line, and what the neighbours of a thread share.
#define SETS p.count
#define OF(v, c) v
#define OF_LINE(set, c) set

__device__ __forceinline__ i64 place(const Sets& p, unsigned set, unsigned piece, unsigned j) {
    return set * p.set_step + piece * p.piece_step + (j - piece * p.length);
}
__device__ __forceinline__ unsigned first_channel(const Sets& p, unsigned set) {
    return set % p.groups * p.set_channels;
}

__device__ __forceinline__ Moments moments_of(const T* __restrict__ x, const Sets& p, unsigned set,
        unsigned start, unsigned end) {
    Moments m = {0, 0, 0};
    unsigned j = FIRST;
    for (; j + (AT_ONCE - 1) * STEP < end; j += AT_ONCE * STEP) {
        A v[AT_ONCE * WIDE];
        #pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            unsigned k = j + i * STEP;
            Wide<T> f = wide_at(x + place(p, set, k / p.length, k));
            #pragma unroll
            for (int c = 0; c < WIDE; c++) v[i * WIDE + c] = LOAD(f.v + c);
        }
        m = merged(m, moments(v));
    }
    for (; j < end; j += STEP) {
        A v[WIDE];
        Wide<T> f = wide_at(x + place(p, set, j / p.length, j));
        #pragma unroll
        for (int c = 0; c < WIDE; c++) v[c] = LOAD(f.v + c);
        m = merged(m, moments(v));
    }
    return m;
}
__device__ __forceinline__ void standardize(const T* __restrict__ x, const P* __restrict__ w,
        const P* __restrict__ b, T* __restrict__ y, const Sets& p, unsigned set, unsigned start,
        unsigned end, A mean, A inverse TAIL_PARAMS) {
    if (start >= end) return;
    unsigned channel = first_channel(p, set);
    A scale = w ? inverse * LOAD_P(w + channel) : inverse, shift = b ? LOAD_P(b + channel) : 0;
    LINE(set, threadIdx.x == 0 && blockIdx.y == 0, scale, shift)
    #pragma unroll 4
    for (unsigned j = FIRST; j < end; j += STEP) {
        unsigned piece = j / p.length;
        if (p.piece_channels) {
            if (w) scale = inverse * LOAD_P(w + channel + piece);
            if (b) shift = LOAD_P(b + channel + piece);
        }
        i64 at = place(p, set, piece, j);
        Wide<T> f = wide_at(x + at);
        TAIL_READ(at)
        #pragma unroll
        for (int c = 0; c < WIDE; c++) STORE(f.v + c, affine(LOAD(f.v + c), mean, scale, shift));
        if (y) *(Wide<T>*)(y + at) = f;
        TAIL(at, f)
    }
}
// In one array as batch norm keeps them, or the reciprocal deviations in another.
__device__ __forceinline__ void keep(S* stats, S* more, const Sets& p, unsigned set, A mean,
        A inverse, A var, RUNNING) {
    follow(RUNNING_TOO, set, mean, var);
    STORE_S(stats + set, mean);
    if (more) { STORE_S(more + set, inverse); return; }
    STORE_S(stats + p.count + set, inverse);
    STORE_S(stats + 2 * p.count + set, var);
}

extern "C" __global__ void __launch_bounds__(512) norm_whole(const T* __restrict__ x,
        const P* __restrict__ w, const P* __restrict__ b, T* __restrict__ y, S* __restrict__ stats,
        S* __restrict__ more, A eps, RUNNING, const __grid_constant__ Sets p TAIL_PARAMS) {
    SHARE
    Moments m = of_team(moments_of(x, p, set, start, end));
    A var = m.square / p.size, inverse = inverse_of(var, eps);
    if (threadIdx.x == 0 && set < p.count)
        keep(stats, more, p, set, m.mean, inverse, var, RUNNING_TOO);
    standardize(x, w, b, y, p, set, start, end, m.mean, inverse TAIL_TOO);
}
// Large sets: blocks find the moments of parts, and then all blocks merge those.
extern "C" __global__ void __launch_bounds__(512) norm_parts(const T* __restrict__ x,
        A* __restrict__ parts, const __grid_constant__ Sets p) {
    SHARE
    Moments m = of_team(moments_of(x, p, set, start, end));
    A* part = parts + 2 * (set * (i64)gridDim.y + blockIdx.y);
    if (threadIdx.x == 0) { part[0] = m.mean; part[1] = m.square; }
}
extern "C" __global__ void __launch_bounds__(512) norm_apply(const T* __restrict__ x,
        const A* __restrict__ parts, const P* __restrict__ w, const P* __restrict__ b,
        T* __restrict__ y, S* __restrict__ stats, S* __restrict__ more, A eps, RUNNING,
        const __grid_constant__ Sets p TAIL_PARAMS) {
    SHARE
    Moments m = {0, 0, 0};
    const A* part = parts + 2 * set * (i64)gridDim.y;
    for (unsigned i = threadIdx.x % 32; i < gridDim.y; i += 32) {
        unsigned left = p.size - i * p.part;
        Moments one = {(A)(left < p.part ? left : p.part), part[2 * i], part[2 * i + 1]};
        m = merged(m, one);
    }
    m = of_lanes(m, 32);
    A var = m.square / p.size, inverse = inverse_of(var, eps);
    if (threadIdx.x == 0 && blockIdx.y == 0)
        keep(stats, more, p, set, m.mean, inverse, var, RUNNING_TOO);
    standardize(x, w, b, y, p, set, start, end, m.mean, inverse TAIL_TOO);
}
// By given means and variances.
extern "C" __global__ void __launch_bounds__(512) norm_fixed(const T* __restrict__ x,
        const P* __restrict__ w, const P* __restrict__ b, T* __restrict__ y,
        const P* __restrict__ means, const P* __restrict__ vars, A eps,
        const __grid_constant__ Sets p TAIL_PARAMS) {
    SHARE
    if (start >= end) return;
    standardize(x, w, b, y, p, set, start, end, LOAD_P(means + set),
                inverse_of(LOAD_P(vars + set), eps) TAIL_TOO);
}

// The sums of g, and of g times the distance of x from its mean.
__device__ __forceinline__ Sums sums_of(const T* __restrict__ g, const T* __restrict__ x,
        const Sets& p, unsigned set, unsigned start, unsigned end, A mean PULL_PARAMS) {
    Sums s = {0, 0};
    #pragma unroll 4
    for (unsigned j = FIRST; j < end; j += STEP) {
        i64 at = place(p, set, j / p.length, j);
        Wide<T> f = wide_at(g + at), h = wide_at(x + at);
        PULLED(at, f, h, set)
        KEEP(at, f)
        #pragma unroll
        for (int c = 0; c < WIDE; c++) {
            A v = LOAD(f.v + c);
            s.one += v; s.two += v * (LOAD(h.v + c) - mean);
        }
    }
    return s;
}
__device__ __forceinline__ Sums sums_of_parts(const A* __restrict__ parts, unsigned set) {
    Sums s = {0, 0};
    if (!parts) return s;
    const A* part = parts + 2 * set * (i64)gridDim.y;
    for (unsigned i = threadIdx.x % 32; i < gridDim.y; i += 32) {
        s.one += part[2 * i]; s.two += part[2 * i + 1];
    }
    return of_lanes(s, 32);
}
// The input's gradient: what of g (times the weight) is not a shift or a scaling of the set, whose
// shares of g are `shift` and `scaling`.
__device__ __forceinline__ void pull(const T* __restrict__ g, const T* __restrict__ x,
        const P* __restrict__ w, T* __restrict__ dx, const Sets& p, unsigned set, unsigned start,
        unsigned end, A mean, A inverse, A shift, A scaling PULL_PARAMS) {
    if (start >= end) return;
    unsigned channel = first_channel(p, set);
    A weight = w ? LOAD_P(w + channel) : (A)1;
    #pragma unroll 4
    for (unsigned j = FIRST; j < end; j += STEP) {
        unsigned piece = j / p.length;
        if (p.piece_channels && w) weight = LOAD_P(w + channel + piece);
        i64 at = place(p, set, piece, j);
        Wide<T> f = wide_at(g + at), h = wide_at(x + at);
        PULLED(at, f, h, set)
        #pragma unroll
        for (int c = 0; c < WIDE; c++) {
            A v = LOAD(f.v + c) * weight - shift;
            if (scaling != 0) v -= (LOAD(h.v + c) - mean) * scaling;  // or x may be infinite
            STORE(f.v + c, v * inverse);
        }
        *(Wide<T>*)(dx + at) = f;
    }
}
// Reciprocal deviations as `keep` has put them, or (eps is not negative) variances.
__device__ __forceinline__ A kept_inverse(const S* stats, const S* more, unsigned count, unsigned i,
        A eps) {
    A found = more ? LOAD_S(more + i) : LOAD_S(stats + count + i);
    return eps < 0 ? found : inverse_of(found, eps);
}
// The end of both ways back: gradients of weight, bias and input from the sums over a set.
__device__ __forceinline__ void finish(const T* __restrict__ g, const T* __restrict__ x,
        const P* __restrict__ w, T* __restrict__ dx, P* __restrict__ dw, P* __restrict__ db,
        int training, const Sets& p, unsigned set, unsigned start, unsigned end, Sums s, A mean,
        A inverse PULL_PARAMS) {
    if (start >= end) return;
    if (threadIdx.x == 0 && blockIdx.y == 0) {
        if (dw) STORE_P(dw + set, s.two * inverse);
        if (db) STORE_P(db + set, s.one);
    }
    A share = training ? (w ? LOAD_P(w + first_channel(p, set)) : (A)1) / p.size : (A)0;
    if (!training) s.one = s.two = 0;  // infinite ones as well
    pull(g, x, w, dx, p, set, start, end, mean, inverse, s.one * share,
         s.two * inverse * inverse * share PULL_TOO);
}
extern "C" __global__ void __launch_bounds__(512) back_whole(const T* __restrict__ g,
        const T* __restrict__ x, const S* __restrict__ stats, const S* __restrict__ more, A eps,
        const P* __restrict__ w, T* __restrict__ dx, P* __restrict__ dw, P* __restrict__ db,
        int training, const __grid_constant__ Sets p PULL_PARAMS) {
    SHARE
    A mean = 0, inverse = 0;
    if (set < p.count) {
        mean = LOAD_S(stats + set);
        inverse = kept_inverse(stats, more, p.count, set, eps);
    }
    Sums s = of_team(sums_of(g, x, p, set, start, end, mean PULL_TOO));
    finish(g, x, w, dx, dw, db, training, p, set, start, end, s, mean, inverse PULL_TOO);
}
extern "C" __global__ void __launch_bounds__(512) back_parts(const T* __restrict__ g,
        const T* __restrict__ x, const S* __restrict__ means, A* __restrict__ parts,
        const __grid_constant__ Sets p PULL_PARAMS) {
    SHARE
    A mean = set < p.count ? LOAD_S(means + set / p.per_statistic) : (A)0;
    Sums s = of_team(sums_of(g, x, p, set, start, end, mean PULL_TOO));
    A* part = parts + 2 * (set * (i64)gridDim.y + blockIdx.y);
    if (threadIdx.x == 0 && set < p.count) { part[0] = s.one; part[1] = s.two; }
}
extern "C" __global__ void __launch_bounds__(512) back_apply(const T* __restrict__ g,
        const T* __restrict__ x, const A* __restrict__ parts, const S* __restrict__ stats,
        const S* __restrict__ more, A eps, const P* __restrict__ w, T* __restrict__ dx,
        P* __restrict__ dw, P* __restrict__ db, int training,
        const __grid_constant__ Sets p PULL_PARAMS) {
    SHARE
    finish(g, x, w, dx, dw, db, training, p, set, start, end, sums_of_parts(parts, set),
           LOAD_S(stats + set), kept_inverse(stats, more, p.count, set, eps) PULL_TOO);
}
// Group norm with weights, from the sums over every channel of every sample (`row_parts` of each);
// blocks after those of the groups add up the samples for one channel's weight and bias.
extern "C" __global__ void __launch_bounds__(512) group_back(const T* __restrict__ g,
        const T* __restrict__ x, const A* __restrict__ rows, const S* __restrict__ means,
        const S* __restrict__ inverses, const P* __restrict__ w, T* __restrict__ dx,
        P* __restrict__ dw, P* __restrict__ db, unsigned samples, unsigned row_parts,
        const __grid_constant__ Sets p PULL_PARAMS) {
    Sums s = {0, 0};
    if (blockIdx.x >= p.count) {
        if (blockIdx.y) return;
        unsigned channel = blockIdx.x - p.count, channels = p.groups * p.set_channels;
        for (unsigned i = threadIdx.x; i < samples * row_parts; i += blockDim.x) {
            unsigned n = i / row_parts;
            const A* row = rows + 2 * ((n * (i64)channels + channel) * row_parts + i % row_parts);
            s.one += row[0];
            s.two += row[1] * LOAD_S(inverses + n * p.groups + channel / p.set_channels);
        }
        s = of_team(s);
        if (threadIdx.x == 0) {
            if (dw) STORE_P(dw + channel, s.two);
            if (db) STORE_P(db + channel, s.one);
        }
        return;
    }
    SHARE
    const A* row = rows + 2 * (set * (i64)p.set_channels * row_parts);
    unsigned channel = first_channel(p, set);
    for (unsigned i = threadIdx.x; i < p.set_channels * row_parts; i += blockDim.x) {
        A weight = w ? LOAD_P(w + channel + i / row_parts) : (A)1;
        s.one += weight * row[2 * i];
        s.two += weight * row[2 * i + 1];
    }
    s = of_team(s);
    A inverse = LOAD_S(inverses + set);
    pull(g, x, w, dx, p, set, start, end, LOAD_S(means + set), inverse, s.one / p.size,
         s.two * inverse * inverse / p.size PULL_TOO);
}
