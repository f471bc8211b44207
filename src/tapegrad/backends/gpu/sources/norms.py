"""The CUDA C of batch, group and instance norm.

Variances come from numbers in registers, sixteen or eight at a time, whose means and squared
distances are merged: one pass over memory, and no difference of large numbers. Before a source
stand PRELUDE, MEANINGS and EACH of templates.py, and `setting(...)`.
"""

from __future__ import annotations

from .templates import ACCESS


def setting(parameter: str, kept: str, wide: int) -> str:
    """What P (parameters) and S (statistics) are, and how many neighbours move at once."""
    lines = [f"#define WIDE {wide}"]
    for letter, kind in (("P", parameter), ("S", kept)):
        stored, read, write = ACCESS[kind]
        lines += [
            f"typedef {stored} {letter};",
            f"#define LOAD_{letter}(p) {read}",
            f"#define STORE_{letter}(p, v) {write}",
        ]
    return "\n".join(lines) + "\n"


TEAMS = r"""
#define ALL 0xffffffffu
template <typename X>
struct alignas(sizeof(X) * WIDE < 16 ? sizeof(X) * WIDE : 16) Wide { X v[WIDE]; };
template <typename X> __device__ __forceinline__ Wide<X> wide_at(const X* p) {
    return *(const Wide<X>*)p;
}
// A team is a row of the block: a part of a warp, a warp, or all of the block.
__device__ __forceinline__ int team_width() { return blockDim.x < 32 ? blockDim.x : 32; }

struct Sums { A one, two; };
__device__ __forceinline__ Sums of_lanes(Sums s, int width) {
    for (int o = width / 2; o; o >>= 1) {
        s.one += __shfl_xor_sync(ALL, s.one, o);
        s.two += __shfl_xor_sync(ALL, s.two, o);
    }
    return s;
}
__device__ __forceinline__ Sums of_team(Sums s) {
    __shared__ Sums warps[32];
    s = of_lanes(s, team_width());
    if (blockDim.x > 32) {
        if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = s;
        __syncthreads();
        Sums none = {0, 0};
        s = of_lanes(threadIdx.x % 32 < blockDim.x / 32 ? warps[threadIdx.x % 32] : none, 32);
        __syncthreads();
    }
    return s;
}

// Of some numbers: how many, their mean, and the sum of their squared distances from it.
struct Moments { A n, mean, square; };
__device__ __forceinline__ Moments merged(Moments a, Moments b) {
    if (b.n == 0) return a;
    if (a.n == 0) return b;
    A n = a.n + b.n, d = b.mean - a.mean, share = b.n / n;
    Moments m = {n, a.mean + d * share, a.square + b.square + d * d * a.n * share};
    return m;
}
template <int N> __device__ __forceinline__ Moments moments(const A (&v)[N]) {
    A total = 0, square = 0;
    #pragma unroll
    for (int i = 0; i < N; i++) total += v[i];
    A mean = total / N;
    #pragma unroll
    for (int i = 0; i < N; i++) { A d = v[i] - mean; square += d * d; }
    Moments m = {(A)N, mean, square};
    return m;
}
__device__ __forceinline__ Moments of_lanes(Moments m, int width) {
    for (int o = width / 2; o; o >>= 1) {
        Moments b = {__shfl_xor_sync(ALL, m.n, o), __shfl_xor_sync(ALL, m.mean, o),
                     __shfl_xor_sync(ALL, m.square, o)};
        m = merged(m, b);
    }
    // Two lanes merge in two orders, so that they may round apart: all take the first one's.
    m.mean = __shfl_sync(ALL, m.mean, 0, width);
    m.square = __shfl_sync(ALL, m.square, 0, width);
    return m;
}
__device__ __forceinline__ Moments of_team(Moments m) {
    __shared__ Moments warps[32];
    m = of_lanes(m, team_width());
    if (blockDim.x > 32) {
        if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = m;
        __syncthreads();
        Moments none = {0, 0, 0};
        m = of_lanes(threadIdx.x % 32 < blockDim.x / 32 ? warps[threadIdx.x % 32] : none, 32);
    }
    return m;
}
__device__ __forceinline__ A inverse_of(A var, A eps) { return 1 / sqrt(var + eps); }
"""

RUNNING = r"""
// Running statistics follow those of a batch, and batches are counted, where pointers are given.
#define RUNNING S* means, S* vars, i64* batches, A momentum, A unbiased
#define RUNNING_TOO means, vars, batches, momentum, unbiased
__device__ __forceinline__ void follow(RUNNING, unsigned channel, A mean, A var) {
    if (!means) return;
    S* m = means + channel; S* v = vars + channel;
    STORE_S(m, LOAD_S(m) * (1 - momentum) + mean * momentum);
    STORE_S(v, LOAD_S(v) * (1 - momentum) + var * unbiased * momentum);
    if (batches && channel == 0) *batches += 1;
}
"""

# Running statistics follow those of a batch, which are means, reciprocal deviations, variances.
FOLLOW = r"""
extern "C" __global__ void follow(P* __restrict__ mean, P* __restrict__ var,
        const A* __restrict__ stats, A momentum, A unbiased, int n) {
    EACH(i, n) {
        STORE_P(mean + i, LOAD_P(mean + i) * (1 - momentum) + stats[i] * momentum);
        A spread = stats[2 * n + i] * unbiased;
        STORE_P(var + i, LOAD_P(var + i) * (1 - momentum) + spread * momentum);
    }
}
"""

SETS = (
    TEAMS
    + RUNNING
    + r"""
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
        unsigned end, A mean, A inverse) {
    if (start >= end) return;
    unsigned channel = first_channel(p, set);
    A scale = w ? inverse * LOAD_P(w + channel) : inverse, shift = b ? LOAD_P(b + channel) : 0;
    #pragma unroll 4
    for (unsigned j = FIRST; j < end; j += STEP) {
        unsigned piece = j / p.length;
        if (p.piece_channels) {
            if (w) scale = inverse * LOAD_P(w + channel + piece);
            if (b) shift = LOAD_P(b + channel + piece);
        }
        i64 at = place(p, set, piece, j);
        Wide<T> f = wide_at(x + at);
        #pragma unroll
        for (int c = 0; c < WIDE; c++) STORE(f.v + c, (LOAD(f.v + c) - mean) * scale + shift);
        *(Wide<T>*)(y + at) = f;
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
        S* __restrict__ more, A eps, RUNNING, const __grid_constant__ Sets p) {
    SHARE
    Moments m = of_team(moments_of(x, p, set, start, end));
    A var = m.square / p.size, inverse = inverse_of(var, eps);
    if (threadIdx.x == 0 && set < p.count)
        keep(stats, more, p, set, m.mean, inverse, var, RUNNING_TOO);
    standardize(x, w, b, y, p, set, start, end, m.mean, inverse);
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
        const __grid_constant__ Sets p) {
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
    standardize(x, w, b, y, p, set, start, end, m.mean, inverse);
}
// By given means and variances.
extern "C" __global__ void __launch_bounds__(512) norm_fixed(const T* __restrict__ x,
        const P* __restrict__ w, const P* __restrict__ b, T* __restrict__ y,
        const P* __restrict__ means, const P* __restrict__ vars, A eps,
        const __grid_constant__ Sets p) {
    SHARE
    if (start >= end) return;
    standardize(x, w, b, y, p, set, start, end, LOAD_P(means + set),
                inverse_of(LOAD_P(vars + set), eps));
}

// The sums of g, and of g times the distance of x from its mean.
__device__ __forceinline__ Sums sums_of(const T* __restrict__ g, const T* __restrict__ x,
        const Sets& p, unsigned set, unsigned start, unsigned end, A mean) {
    Sums s = {0, 0};
    #pragma unroll 4
    for (unsigned j = FIRST; j < end; j += STEP) {
        i64 at = place(p, set, j / p.length, j);
        Wide<T> f = wide_at(g + at), h = wide_at(x + at);
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
        unsigned end, A mean, A inverse, A shift, A scaling) {
    if (start >= end) return;
    unsigned channel = first_channel(p, set);
    A weight = w ? LOAD_P(w + channel) : (A)1;
    #pragma unroll 4
    for (unsigned j = FIRST; j < end; j += STEP) {
        unsigned piece = j / p.length;
        if (p.piece_channels && w) weight = LOAD_P(w + channel + piece);
        i64 at = place(p, set, piece, j);
        Wide<T> f = wide_at(g + at), h = wide_at(x + at);
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
        A inverse) {
    if (start >= end) return;
    if (threadIdx.x == 0 && blockIdx.y == 0) {
        if (dw) STORE_P(dw + set, s.two * inverse);
        if (db) STORE_P(db + set, s.one);
    }
    A share = training ? (w ? LOAD_P(w + first_channel(p, set)) : (A)1) / p.size : (A)0;
    if (!training) s.one = s.two = 0;  // infinite ones as well
    pull(g, x, w, dx, p, set, start, end, mean, inverse, s.one * share,
         s.two * inverse * inverse * share);
}
extern "C" __global__ void __launch_bounds__(512) back_whole(const T* __restrict__ g,
        const T* __restrict__ x, const S* __restrict__ stats, const S* __restrict__ more, A eps,
        const P* __restrict__ w, T* __restrict__ dx, P* __restrict__ dw, P* __restrict__ db,
        int training, const __grid_constant__ Sets p) {
    SHARE
    A mean = 0, inverse = 0;
    if (set < p.count) {
        mean = LOAD_S(stats + set);
        inverse = kept_inverse(stats, more, p.count, set, eps);
    }
    Sums s = of_team(sums_of(g, x, p, set, start, end, mean));
    finish(g, x, w, dx, dw, db, training, p, set, start, end, s, mean, inverse);
}
extern "C" __global__ void __launch_bounds__(512) back_parts(const T* __restrict__ g,
        const T* __restrict__ x, const S* __restrict__ means, A* __restrict__ parts,
        const __grid_constant__ Sets p) {
    SHARE
    A mean = set < p.count ? LOAD_S(means + set / p.per_statistic) : (A)0;
    Sums s = of_team(sums_of(g, x, p, set, start, end, mean));
    A* part = parts + 2 * (set * (i64)gridDim.y + blockIdx.y);
    if (threadIdx.x == 0 && set < p.count) { part[0] = s.one; part[1] = s.two; }
}
extern "C" __global__ void __launch_bounds__(512) back_apply(const T* __restrict__ g,
        const T* __restrict__ x, const A* __restrict__ parts, const S* __restrict__ stats,
        const S* __restrict__ more, A eps, const P* __restrict__ w, T* __restrict__ dx,
        P* __restrict__ dw, P* __restrict__ db, int training, const __grid_constant__ Sets p) {
    SHARE
    finish(g, x, w, dx, dw, db, training, p, set, start, end, sums_of_parts(parts, set),
           LOAD_S(stats + set), kept_inverse(stats, more, p.count, set, eps));
}
// Group norm with weights, from the sums over every channel of every sample (`row_parts` of each);
// blocks after those of the groups add up the samples for one channel's weight and bias.
extern "C" __global__ void __launch_bounds__(512) group_back(const T* __restrict__ g,
        const T* __restrict__ x, const A* __restrict__ rows, const S* __restrict__ means,
        const S* __restrict__ inverses, const P* __restrict__ w, T* __restrict__ dx,
        P* __restrict__ dw, P* __restrict__ db, unsigned samples, unsigned row_parts,
        const __grid_constant__ Sets p) {
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
         s.two * inverse * inverse / p.size);
}
"""
)

# Batch norm where channels lie next to each other: they are the columns of a matrix. A block takes
# 32 of them (or fewer: a thread has WIDE), and of the rows `part` many.
COLUMNS = (
    TEAMS
    + RUNNING
    + r"""
struct Matrix { unsigned rows, columns, part; };
#define ACROSS 32
#define DOWN 32
#define AT_ONCE (WIDE == 4 ? 4 : 8)
#define SHARE \
    unsigned column = (blockIdx.x * blockDim.x + threadIdx.x) * WIDE; \
    bool inside = column < p.columns; \
    unsigned start = blockIdx.y * p.part, end = 0; \
    if (inside) end = start + p.part < p.rows ? start + p.part : p.rows;
#define EVERY(c) _Pragma("unroll") for (int c = 0; c < WIDE; c++)

__device__ __forceinline__ Wide<T> row_at(const T* x, const Matrix& p, unsigned r, unsigned c) {
    return wide_at(x + (i64)r * p.columns + c);
}
__device__ __forceinline__ void load(const P* __restrict__ w, unsigned column, A (&v)[WIDE]) {
    EVERY(c) v[c] = LOAD_P(w + column + c);
}

__device__ __forceinline__ void moments_of(const T* __restrict__ x, const Matrix& p,
        unsigned column, unsigned start, unsigned end, Moments (&m)[WIDE]) {
    EVERY(c) m[c].n = m[c].mean = m[c].square = 0;
    unsigned r = start + threadIdx.y;
    for (; r + (AT_ONCE - 1) * blockDim.y < end; r += AT_ONCE * blockDim.y) {
        A v[WIDE][AT_ONCE];
        #pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            Wide<T> f = row_at(x, p, r + i * blockDim.y, column);
            EVERY(c) v[c][i] = LOAD(f.v + c);
        }
        EVERY(c) m[c] = merged(m[c], moments(v[c]));
    }
    for (; r < end; r += blockDim.y) {
        Wide<T> f = row_at(x, p, r, column);
        EVERY(c) { Moments one = {1, LOAD(f.v + c), 0}; m[c] = merged(m[c], one); }
    }
}
// Over the threads of a column, for all of them.
__device__ __forceinline__ void of_columns(Moments (&m)[WIDE]) {
    __shared__ A counts[DOWN], means[DOWN][ACROSS], squares[DOWN][ACROSS];
    unsigned y = threadIdx.y, x = threadIdx.x * WIDE;
    for (unsigned o = blockDim.y;; o >>= 1) {
        if (y < o) {
            if (threadIdx.x == 0) counts[y] = m[0].n;
            EVERY(c) { means[y][x + c] = m[c].mean; squares[y][x + c] = m[c].square; }
        }
        __syncthreads();
        if (o == 1) break;
        if (y < o / 2) {
            EVERY(c) {
                Moments b = {counts[y + o / 2], means[y + o / 2][x + c], squares[y + o / 2][x + c]};
                m[c] = merged(m[c], b);
            }
        }
    }
    EVERY(c) { m[c].mean = means[0][x + c]; m[c].square = squares[0][x + c]; }
}
__device__ __forceinline__ void standardize(const T* __restrict__ x, const P* __restrict__ w,
        const P* __restrict__ b, T* __restrict__ y, const Matrix& p, unsigned column,
        unsigned start, unsigned end, const A (&mean)[WIDE], const A (&inverse)[WIDE]) {
    if (start >= end) return;
    A scale[WIDE], shift[WIDE];
    EVERY(c) {
        scale[c] = w ? inverse[c] * LOAD_P(w + column + c) : inverse[c];
        shift[c] = b ? LOAD_P(b + column + c) : (A)0;
    }
    #pragma unroll 4
    for (unsigned r = start + threadIdx.y; r < end; r += blockDim.y) {
        Wide<T> f = row_at(x, p, r, column);
        EVERY(c) STORE(f.v + c, (LOAD(f.v + c) - mean[c]) * scale[c] + shift[c]);
        *(Wide<T>*)(y + (i64)r * p.columns + column) = f;
    }
}
__device__ __forceinline__ void end_norm(const T* __restrict__ x, const P* __restrict__ w,
        const P* __restrict__ b, T* __restrict__ y, S* __restrict__ stats, A eps, RUNNING,
        const Matrix& p, unsigned column, unsigned start, unsigned end, const Moments (&m)[WIDE]) {
    if (start >= end) return;
    A mean[WIDE], inverse[WIDE];
    EVERY(c) {
        A var = m[c].square / p.rows;
        mean[c] = m[c].mean; inverse[c] = inverse_of(var, eps);
        if (threadIdx.y == 0 && blockIdx.y == 0) {
            follow(RUNNING_TOO, column + c, mean[c], var);
            STORE_S(stats + column + c, mean[c]);
            STORE_S(stats + p.columns + column + c, inverse[c]);
            STORE_S(stats + 2 * p.columns + column + c, var);
        }
    }
    standardize(x, w, b, y, p, column, start, end, mean, inverse);
}

extern "C" __global__ void __launch_bounds__(512) norm_whole(const T* __restrict__ x,
        const P* __restrict__ w, const P* __restrict__ b, T* __restrict__ y, S* __restrict__ stats,
        A eps, RUNNING, const __grid_constant__ Matrix p) {
    SHARE
    Moments m[WIDE];
    moments_of(x, p, column, start, end, m);
    of_columns(m);
    end_norm(x, w, b, y, stats, eps, RUNNING_TOO, p, column, start, end, m);
}
extern "C" __global__ void __launch_bounds__(512) norm_parts(const T* __restrict__ x,
        A* __restrict__ parts, const __grid_constant__ Matrix p) {
    SHARE
    Moments m[WIDE];
    moments_of(x, p, column, start, end, m);
    of_columns(m);
    A* part = parts + 2 * blockIdx.y * (i64)p.columns + column;
    if (inside && threadIdx.y == 0) {
        EVERY(c) { part[c] = m[c].mean; part[p.columns + c] = m[c].square; }
    }
}
extern "C" __global__ void __launch_bounds__(512) norm_apply(const T* __restrict__ x,
        const A* __restrict__ parts, const P* __restrict__ w, const P* __restrict__ b,
        T* __restrict__ y, S* __restrict__ stats, A eps, RUNNING,
        const __grid_constant__ Matrix p) {
    SHARE
    Moments m[WIDE];
    EVERY(c) m[c].n = m[c].mean = m[c].square = 0;
    for (unsigned i = threadIdx.y; inside && i < gridDim.y; i += blockDim.y) {
        unsigned left = p.rows - i * p.part;
        const A* part = parts + 2 * i * (i64)p.columns + column;
        EVERY(c) {
            Moments one = {(A)(left < p.part ? left : p.part), part[c], part[p.columns + c]};
            m[c] = merged(m[c], one);
        }
    }
    of_columns(m);
    end_norm(x, w, b, y, stats, eps, RUNNING_TOO, p, column, start, end, m);
}
extern "C" __global__ void __launch_bounds__(512) norm_fixed(const T* __restrict__ x,
        const P* __restrict__ w, const P* __restrict__ b, T* __restrict__ y,
        const P* __restrict__ means, const P* __restrict__ vars, A eps,
        const __grid_constant__ Matrix p) {
    SHARE
    if (start >= end) return;
    A mean[WIDE], inverse[WIDE];
    load(means, column, mean);
    load(vars, column, inverse);
    EVERY(c) inverse[c] = inverse_of(inverse[c], eps);
    standardize(x, w, b, y, p, column, start, end, mean, inverse);
}

struct Kept { A mean[WIDE], inverse[WIDE]; };
// Reciprocal deviations after the means, or (eps is not negative) variances elsewhere.
__device__ __forceinline__ Kept kept_of(const S* stats, const S* more, const Matrix& p,
        unsigned column, bool inside, A eps) {
    Kept k;
    EVERY(c) {
        k.mean[c] = inside ? LOAD_S(stats + column + c) : (A)0;
        const S* at = more ? more + column + c : stats + p.columns + column + c;
        A found = inside ? LOAD_S(at) : (A)0;
        k.inverse[c] = eps < 0 ? found : inverse_of(found, eps);
    }
    return k;
}
__device__ __forceinline__ void sums_of(const T* __restrict__ g, const T* __restrict__ x,
        const Matrix& p, unsigned column, unsigned start, unsigned end, const A (&mean)[WIDE],
        Sums (&s)[WIDE]) {
    EVERY(c) s[c].one = s[c].two = 0;
    #pragma unroll 4
    for (unsigned r = start + threadIdx.y; r < end; r += blockDim.y) {
        Wide<T> f = row_at(g, p, r, column), h = row_at(x, p, r, column);
        EVERY(c) {
            A v = LOAD(f.v + c);
            s[c].one += v; s[c].two += v * (LOAD(h.v + c) - mean[c]);
        }
    }
}
__device__ __forceinline__ void of_columns(Sums (&s)[WIDE]) {
    __shared__ A ones[DOWN][ACROSS], twos[DOWN][ACROSS];
    unsigned y = threadIdx.y, x = threadIdx.x * WIDE;
    EVERY(c) { ones[y][x + c] = s[c].one; twos[y][x + c] = s[c].two; }
    for (unsigned o = blockDim.y / 2; o; o >>= 1) {
        __syncthreads();
        if (y < o) {
            EVERY(c) {
                ones[y][x + c] += ones[y + o][x + c];
                twos[y][x + c] += twos[y + o][x + c];
            }
        }
    }
    __syncthreads();
    EVERY(c) { s[c].one = ones[0][x + c]; s[c].two = twos[0][x + c]; }
}
__device__ __forceinline__ void finish(const T* __restrict__ g, const T* __restrict__ x,
        const P* __restrict__ w, T* __restrict__ dx, P* __restrict__ dw, P* __restrict__ db,
        int training, const Matrix& p, unsigned column, unsigned start, unsigned end,
        const Sums (&s)[WIDE], const Kept& k) {
    if (start >= end) return;
    A shift[WIDE], scaling[WIDE], factor[WIDE];
    EVERY(c) {
        if (threadIdx.y == 0 && blockIdx.y == 0) {
            if (dw) STORE_P(dw + column + c, s[c].two * k.inverse[c]);
            if (db) STORE_P(db + column + c, s[c].one);
        }
        factor[c] = w ? k.inverse[c] * LOAD_P(w + column + c) : k.inverse[c];
        shift[c] = training ? s[c].one / p.rows : (A)0;
        scaling[c] = training ? s[c].two * k.inverse[c] * k.inverse[c] / p.rows : (A)0;
    }
    #pragma unroll 4
    for (unsigned r = start + threadIdx.y; r < end; r += blockDim.y) {
        Wide<T> f = row_at(g, p, r, column), h = row_at(x, p, r, column);
        EVERY(c) {
            A v = LOAD(f.v + c) - shift[c];
            if (scaling[c] != 0) v -= (LOAD(h.v + c) - k.mean[c]) * scaling[c];
            STORE(f.v + c, v * factor[c]);
        }
        *(Wide<T>*)(dx + (i64)r * p.columns + column) = f;
    }
}
extern "C" __global__ void __launch_bounds__(512) back_whole(const T* __restrict__ g,
        const T* __restrict__ x, const S* __restrict__ stats, const S* __restrict__ more, A eps,
        const P* __restrict__ w, T* __restrict__ dx, P* __restrict__ dw, P* __restrict__ db,
        int training, const __grid_constant__ Matrix p) {
    SHARE
    Kept k = kept_of(stats, more, p, column, inside, eps);
    Sums s[WIDE];
    sums_of(g, x, p, column, start, end, k.mean, s);
    of_columns(s);
    finish(g, x, w, dx, dw, db, training, p, column, start, end, s, k);
}
extern "C" __global__ void __launch_bounds__(512) back_parts(const T* __restrict__ g,
        const T* __restrict__ x, const S* __restrict__ means, A* __restrict__ parts,
        const __grid_constant__ Matrix p) {
    SHARE
    A mean[WIDE];
    EVERY(c) mean[c] = inside ? LOAD_S(means + column + c) : (A)0;
    Sums s[WIDE];
    sums_of(g, x, p, column, start, end, mean, s);
    of_columns(s);
    A* part = parts + 2 * blockIdx.y * (i64)p.columns + column;
    if (inside && threadIdx.y == 0) {
        EVERY(c) { part[c] = s[c].one; part[p.columns + c] = s[c].two; }
    }
}
extern "C" __global__ void __launch_bounds__(512) back_apply(const T* __restrict__ g,
        const T* __restrict__ x, const A* __restrict__ parts, const S* __restrict__ stats,
        const S* __restrict__ more, A eps, const P* __restrict__ w, T* __restrict__ dx,
        P* __restrict__ dw, P* __restrict__ db, int training, const __grid_constant__ Matrix p) {
    SHARE
    Sums s[WIDE];
    EVERY(c) s[c].one = s[c].two = 0;
    for (unsigned i = threadIdx.y; parts && inside && i < gridDim.y; i += blockDim.y) {
        const A* part = parts + 2 * i * (i64)p.columns + column;
        EVERY(c) { s[c].one += part[c]; s[c].two += part[p.columns + c]; }
    }
    of_columns(s);
    Kept k = kept_of(stats, more, p, column, inside, eps);
    finish(g, x, w, dx, dw, db, training, p, column, start, end, s, k);
}
"""
)
