// Batch norm where channels are next to each other: they are the columns of a matrix.
//
// A block takes 32 of them (or fewer: a thread has WIDE), and of the rows `part` many. All else is
// as in norm_sets.cu.
#include "norm_joins.cu"
#include "teams.cu"

struct Matrix { unsigned rows, columns, part; };
#define ACROSS 32
#define DOWN 32
#define AT_ONCE (WIDE == 4 ? 4 : 8)
#define SHARE \
    unsigned column = (blockIdx.x * blockDim.x + threadIdx.x) * WIDE; \
    bool inside = column < p.columns; \
    unsigned start = blockIdx.y * p.part, end = 0; \
    if (inside) end = start + p.part < p.rows ? start + p.part : p.rows;
#define SETS p.columns
#define OF(v, c) v[c]
#define OF_LINE(column, c) (column + c)
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
        unsigned start, unsigned end, const A (&mean)[WIDE], const A (&inverse)[WIDE] TAIL_PARAMS) {
    if (start >= end) return;
    A scale[WIDE], shift[WIDE];
    EVERY(c) {
        scale[c] = w ? inverse[c] * LOAD_P(w + column + c) : inverse[c];
        shift[c] = b ? LOAD_P(b + column + c) : (A)0;
        LINE(column + c, threadIdx.y == 0 && blockIdx.y == 0, scale[c], shift[c])
    }
    #pragma unroll 4
    for (unsigned r = start + threadIdx.y; r < end; r += blockDim.y) {
        i64 at = (i64)r * p.columns + column;
        Wide<T> f = wide_at(x + at);
        TAIL_READ(at)
        EVERY(c) STORE(f.v + c, affine(LOAD(f.v + c), mean[c], scale[c], shift[c]));
        if (y) *(Wide<T>*)(y + at) = f;
        TAIL(at, f)
    }
}
__device__ __forceinline__ void end_norm(const T* __restrict__ x, const P* __restrict__ w,
        const P* __restrict__ b, T* __restrict__ y, S* __restrict__ stats, A eps, RUNNING,
        const Matrix& p, unsigned column, unsigned start, unsigned end,
        const Moments (&m)[WIDE] TAIL_PARAMS) {
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
    standardize(x, w, b, y, p, column, start, end, mean, inverse TAIL_TOO);
}

extern "C" __global__ void __launch_bounds__(512) norm_whole(const T* __restrict__ x,
        const P* __restrict__ w, const P* __restrict__ b, T* __restrict__ y, S* __restrict__ stats,
        A eps, RUNNING, const __grid_constant__ Matrix p TAIL_PARAMS) {
    SHARE
    Moments m[WIDE];
    moments_of(x, p, column, start, end, m);
    of_columns(m);
    end_norm(x, w, b, y, stats, eps, RUNNING_TOO, p, column, start, end, m TAIL_TOO);
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
        const __grid_constant__ Matrix p TAIL_PARAMS) {
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
    end_norm(x, w, b, y, stats, eps, RUNNING_TOO, p, column, start, end, m TAIL_TOO);
}
extern "C" __global__ void __launch_bounds__(512) norm_fixed(const T* __restrict__ x,
        const P* __restrict__ w, const P* __restrict__ b, T* __restrict__ y,
        const P* __restrict__ means, const P* __restrict__ vars, A eps,
        const __grid_constant__ Matrix p TAIL_PARAMS) {
    SHARE
    if (start >= end) return;
    A mean[WIDE], inverse[WIDE];
    load(means, column, mean);
    load(vars, column, inverse);
    EVERY(c) inverse[c] = inverse_of(inverse[c], eps);
    standardize(x, w, b, y, p, column, start, end, mean, inverse TAIL_TOO);
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
        Sums (&s)[WIDE] PULL_PARAMS) {
    EVERY(c) s[c].one = s[c].two = 0;
    #pragma unroll 4
    for (unsigned r = start + threadIdx.y; r < end; r += blockDim.y) {
        Wide<T> f = row_at(g, p, r, column), h = row_at(x, p, r, column);
        PULLED(at, f, h, column)
        KEEP((i64)r * p.columns + column, f)
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
        const Sums (&s)[WIDE], const Kept& k PULL_PARAMS) {
    if (start >= end) return;
    const A (&mean)[WIDE] = k.mean;
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
        PULLED(at, f, h, column)
        EVERY(c) {
            A v = LOAD(f.v + c) - shift[c];
            if (scaling[c] != 0) v -= (LOAD(h.v + c) - mean[c]) * scaling[c];
            STORE(f.v + c, v * factor[c]);
        }
        *(Wide<T>*)(dx + (i64)r * p.columns + column) = f;
    }
}
extern "C" __global__ void __launch_bounds__(512) back_whole(const T* __restrict__ g,
        const T* __restrict__ x, const S* __restrict__ stats, const S* __restrict__ more, A eps,
        const P* __restrict__ w, T* __restrict__ dx, P* __restrict__ dw, P* __restrict__ db,
        int training, const __grid_constant__ Matrix p PULL_PARAMS) {
    SHARE
    Kept k = kept_of(stats, more, p, column, inside, eps);
    Sums s[WIDE];
    sums_of(g, x, p, column, start, end, k.mean, s PULL_TOO);
    of_columns(s);
    finish(g, x, w, dx, dw, db, training, p, column, start, end, s, k PULL_TOO);
}
extern "C" __global__ void __launch_bounds__(512) back_parts(const T* __restrict__ g,
        const T* __restrict__ x, const S* __restrict__ means, A* __restrict__ parts,
        const __grid_constant__ Matrix p PULL_PARAMS) {
    SHARE
    A mean[WIDE];
    EVERY(c) mean[c] = inside ? LOAD_S(means + column + c) : (A)0;
    Sums s[WIDE];
    sums_of(g, x, p, column, start, end, mean, s PULL_TOO);
    of_columns(s);
    A* part = parts + 2 * blockIdx.y * (i64)p.columns + column;
    if (inside && threadIdx.y == 0) {
        EVERY(c) { part[c] = s[c].one; part[p.columns + c] = s[c].two; }
    }
}
extern "C" __global__ void __launch_bounds__(512) back_apply(const T* __restrict__ g,
        const T* __restrict__ x, const A* __restrict__ parts, const S* __restrict__ stats,
        const S* __restrict__ more, A eps, const P* __restrict__ w, T* __restrict__ dx,
        P* __restrict__ dw, P* __restrict__ db, int training,
        const __grid_constant__ Matrix p PULL_PARAMS) {
    SHARE
    Sums s[WIDE];
    EVERY(c) s[c].one = s[c].two = 0;
    for (unsigned i = threadIdx.y; parts && inside && i < gridDim.y; i += blockDim.y) {
        const A* part = parts + 2 * i * (i64)p.columns + column;
        EVERY(c) { s[c].one += part[c]; s[c].two += part[p.columns + c]; }
    }
    of_columns(s);
    Kept k = kept_of(stats, more, p, column, inside, eps);
    finish(g, x, w, dx, dw, db, training, p, column, start, end, s, k PULL_TOO);
}
