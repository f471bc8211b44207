"""The CUDA C of our kernels, as templates: `T` is what memory holds, `A` what is computed with.

Half precision is stored as 16 bits and converted by hand, so that no header is needed.
"""

from __future__ import annotations

PRELUDE = r"""
typedef unsigned short u16;
typedef long long i64;
#define INFINITY __int_as_float(0x7f800000)
__device__ __forceinline__ float from_half(u16 h) {
    float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f;
}
__device__ __forceinline__ u16 to_half(float f) {
    u16 h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h;
}
__device__ __forceinline__ float from_brain(u16 b) { return __uint_as_float(((unsigned)b) << 16); }
__device__ __forceinline__ u16 to_brain(float f) {
    unsigned u = __float_as_uint(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (u16)0x7fc0;
    return (u16)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
template <typename X> __device__ __forceinline__ X warp_sum(X x) {
    for (int o = 16; o; o >>= 1) x += __shfl_xor_sync(0xffffffffu, x, o);
    return x;
}
template <typename X> __device__ __forceinline__ X warp_max(X x) {
    for (int o = 16; o; o >>= 1) { X y = __shfl_xor_sync(0xffffffffu, x, o); x = y > x ? y : x; }
    return x;
}
"""

# What T, A, LOAD and STORE mean for each dtype.
MEANINGS = {
    "float32": "typedef float T; typedef float A;\n"
    "#define LOAD(p) (*(p))\n#define STORE(p, v) (*(p) = (v))\n",
    "float64": "typedef double T; typedef double A;\n"
    "#define LOAD(p) (*(p))\n#define STORE(p, v) (*(p) = (v))\n",
    "float16": "typedef u16 T; typedef float A;\n"
    "#define LOAD(p) from_half(*(p))\n#define STORE(p, v) (*(p) = to_half(v))\n",
    "bfloat16": "typedef u16 T; typedef float A;\n"
    "#define LOAD(p) from_brain(*(p))\n#define STORE(p, v) (*(p) = to_brain(v))\n",
}

EACH = r"""
#define EACH(i, n) for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < (n); \
                        i += (i64)gridDim.x * blockDim.x)
"""

# Elementwise, all arrays contiguous and of one shape; `s` is a number.
ELEMENTWISE = r"""
extern "C" __global__ void unary(const T* __restrict__ x, T* __restrict__ y, A s, i64 n) {
    EACH(i, n) { A a = LOAD(x + i); STORE(y + i, (%(unary)s)); }
}
extern "C" __global__ void binary(const T* __restrict__ x, const T* __restrict__ y,
                                  T* __restrict__ z, A s, i64 n) {
    EACH(i, n) { A a = LOAD(x + i); A b = LOAD(y + i); STORE(z + i, (%(binary)s)); }
}
"""

# Rows of a matrix, one warp each, eight rows to a block.
ROWS = r"""
#define ROW (blockIdx.x * (i64)blockDim.y + threadIdx.y)
#define LANE threadIdx.x
#define KEPT 8

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

extern "C" __global__ void layer_norm_input(const T* __restrict__ g, const T* __restrict__ x,
        const A* __restrict__ stats, const T* __restrict__ w, T* __restrict__ dx, i64 rows, int n) {
    i64 r = ROW; if (r >= rows) return;
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

// Sums down the columns in chunks of rows: of g, and of g times the standardized x if there is one.
extern "C" __global__ void columns(const T* __restrict__ g, const T* __restrict__ x,
        const A* __restrict__ stats, A* __restrict__ parts, A* __restrict__ scaled,
        T* __restrict__ out, T* __restrict__ out_scaled, i64 rows, int n, int chunk) {
    __shared__ A first[8][33], second[8][33];
    int c = blockIdx.x * 32 + threadIdx.x;
    i64 start = (i64)blockIdx.y * chunk;
    i64 end = start + chunk < rows ? start + chunk : rows;
    A one = 0, two = 0;
    if (c < n) for (i64 r = start + threadIdx.y; r < end; r += 8) {
        A v = LOAD(g + r * n + c);
        one += v;
        if (x) two += v * (LOAD(x + r * n + c) - stats[r]) * stats[rows + r];
    }
    first[threadIdx.y][threadIdx.x] = one; second[threadIdx.y][threadIdx.x] = two;
    __syncthreads();
    if (threadIdx.y == 0 && c < n) {
        for (int i = 1; i < 8; i++) { one += first[i][threadIdx.x]; two += second[i][threadIdx.x]; }
        if (out) {  // this chunk is all there is
            STORE(out + c, one);
            if (x) STORE(out_scaled + c, two);
        } else {
            parts[(i64)blockIdx.y * n + c] = one;
            if (x) scaled[(i64)blockIdx.y * n + c] = two;
        }
    }
}
// The chunks of one or two sums, which lie one after the other; blockIdx.y says which.
extern "C" __global__ void columns_end(const A* __restrict__ parts, T* __restrict__ out,
        int count, int n) {
    __shared__ A sums[8][33];
    int c = blockIdx.x * 32 + threadIdx.x;
    const A* p = parts + (i64)blockIdx.y * count * n;
    A total = 0;
    if (c < n) for (int i = threadIdx.y; i < count; i += 8) total += p[(i64)i * n + c];
    sums[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.y == 0 && c < n) {
        for (int i = 1; i < 8; i++) total += sums[i][threadIdx.x];
        STORE(out + (i64)blockIdx.y * n + c, total);
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
extern "C" __global__ void chosen(const T* __restrict__ x, const i64* __restrict__ t,
        T* __restrict__ out, A* __restrict__ count, int mean, i64 skip, i64 rows, int n) {
    __shared__ A sums[32]; __shared__ A counts[32];
    A total = 0, seen = 0;
    for (i64 r = threadIdx.x; r < rows; r += blockDim.x) {
        i64 c = t[r];
        if (c != skip && c >= 0 && c < n) { if (x) total -= LOAD(x + r * n + c); seen += 1; }
    }
    total = warp_sum(total); seen = warp_sum(seen);
    if (threadIdx.x % 32 == 0) { sums[threadIdx.x / 32] = total; counts[threadIdx.x / 32] = seen; }
    __syncthreads();
    if (threadIdx.x < 32) {
        int warps = blockDim.x / 32;
        total = warp_sum(threadIdx.x < warps ? sums[threadIdx.x] : (A)0);
        seen = warp_sum(threadIdx.x < warps ? counts[threadIdx.x] : (A)0);
        if (threadIdx.x == 0) {
            if (out) STORE(out, mean ? total / seen : total);
            if (count) *count = seen;
        }
    }
}
extern "C" __global__ void chosen_back(const T* __restrict__ g, const i64* __restrict__ t,
        const A* __restrict__ count, T* __restrict__ dx, int mean, int each, i64 skip,
        i64 rows, int n) {
    EACH(i, rows * n) {
        i64 r = i / n; i64 c = t[r];
        A v = 0;
        if (c == i % n && c != skip) {
            v = -LOAD(g + (each ? r : 0));
            if (mean) v /= *count;
        }
        STORE(dx + i, v);
    }
}

// Attention: scores to weights, in place of the scores or beside them.
extern "C" __global__ void attend(const A* __restrict__ s, T* __restrict__ p,
        const T* __restrict__ mask, i64 mask_batch, i64 mask_row, i64 mask_column, int heads,
        i64 mask_head, A scale, i64 rows, int queries, int keys) {
    i64 r = ROW; if (r >= rows) return;
    int row = r % queries; i64 head = r / queries;
    const A* x = s + r * keys; T* y = p + r * keys;
    const T* m = mask ? mask + (head / heads) * mask_batch + (head % heads) * mask_head
                        + row * mask_row : 0;
    A most = -INFINITY, total = 0;
    if (keys <= 32 * KEPT) {  // everything fits into registers
        A kept[KEPT];
        #pragma unroll
        for (int j = 0; j < KEPT; j++) {
            int i = LANE + 32 * j;
            kept[j] = i < keys ? x[i] * scale + (m ? LOAD(m + i * mask_column) : (A)0) : -INFINITY;
            most = kept[j] > most ? kept[j] : most;
        }
        most = warp_max(most); if (most == -INFINITY) most = 0;
        #pragma unroll
        for (int j = 0; j < KEPT; j++) { kept[j] = exp(kept[j] - most); total += kept[j]; }
        total = warp_sum(total);
        A inv = total == 0 ? (A)0 : 1 / total;
        #pragma unroll
        for (int j = 0; j < KEPT; j++) {
            int i = LANE + 32 * j; if (i < keys) STORE(y + i, kept[j] * inv);
        }
        return;
    }
    for (int i = LANE; i < keys; i += 32) {
        A v = x[i] * scale + (m ? LOAD(m + i * mask_column) : (A)0); most = v > most ? v : most;
    }
    most = warp_max(most); if (most == -INFINITY) most = 0;
    for (int i = LANE; i < keys; i += 32)
        total += exp(x[i] * scale + (m ? LOAD(m + i * mask_column) : (A)0) - most);
    total = warp_sum(total);
    A inv = total == 0 ? (A)0 : 1 / total;
    for (int i = LANE; i < keys; i += 32)
        STORE(y + i, exp(x[i] * scale + (m ? LOAD(m + i * mask_column) : (A)0) - most) * inv);
}
// From the gradient of the weights to that of the scores, times the scale.
extern "C" __global__ void attend_back(const A* __restrict__ d, const T* __restrict__ p,
        T* __restrict__ ds, A scale, i64 rows, int keys) {
    i64 r = ROW; if (r >= rows) return;
    const A* x = d + r * keys; const T* q = p + r * keys; T* y = ds + r * keys;
    A total = 0;
    if (keys <= 32 * KEPT) {
        A one[KEPT], two[KEPT];
        #pragma unroll
        for (int j = 0; j < KEPT; j++) {
            int i = LANE + 32 * j;
            one[j] = i < keys ? x[i] : (A)0; two[j] = i < keys ? LOAD(q + i) : (A)0;
            total += one[j] * two[j];
        }
        total = warp_sum(total);
        #pragma unroll
        for (int j = 0; j < KEPT; j++) {
            int i = LANE + 32 * j; if (i < keys) STORE(y + i, (one[j] - total) * two[j] * scale);
        }
        return;
    }
    for (int i = LANE; i < keys; i += 32) total += x[i] * LOAD(q + i);
    total = warp_sum(total);
    for (int i = LANE; i < keys; i += 32) STORE(y + i, (x[i] - total) * LOAD(q + i) * scale);
}
"""

# Addresses of matrices in arrays with two leading dimensions, for products of lists of matrices.
ADDRESSES = r"""
struct Arrays { unsigned long long base[%(limit)d]; i64 outer[%(limit)d]; i64 inner[%(limit)d]; };
extern "C" __global__ void addresses(unsigned long long* __restrict__ out, const Arrays a,
        int outer, int inner) {
    int n = outer * inner, k = blockIdx.y;
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;
    out[(i64)k * n + i] = a.base[k] + (i / inner) * a.outer[k] + (i %% inner) * a.inner[k];
}
"""

GATHER = r"""
extern "C" __global__ void take_rows(const T* __restrict__ w, const i64* __restrict__ t,
        T* __restrict__ y, i64 count, int n, i64 rows) {
    EACH(i, count * n) {
        i64 r = t[i / n]; if (r < 0) r += rows;
        y[i] = (r >= 0 && r < rows) ? w[r * n + i % n] : (T)0;
    }
}
// One 1 in every row: a product with it adds rows up.
extern "C" __global__ void one_hot(const i64* __restrict__ t, T* __restrict__ y, i64 skip,
        i64 count, int rows) {
    EACH(i, count * rows) {
        i64 c = t[i / rows];
        STORE(y + i, (c == i % rows && c != skip) ? (A)1 : (A)0);
    }
}
extern "C" __global__ void add_rows(const T* __restrict__ g, const i64* __restrict__ t,
        A* __restrict__ w, i64 skip, i64 count, int n) {
    EACH(i, count * n) {
        i64 r = t[i / n];
        if (r != skip) atomicAdd(w + r * n + i % n, LOAD(g + i));
    }
}
"""

# Optimizers over many tensors in one launch: blockIdx.y is the tensor.
OPTIMIZERS = r"""
struct Tensors { unsigned long long p[5][%(limit)d]; i64 n[%(limit)d]; };
extern "C" __global__ void adam(const Tensors t, A lr_given, const A* lr_device, A beta1, A beta2,
        A eps, A decay, int decoupled, int amsgrad, int maximize, A step_given,
        const A* step_device) {
    int k = blockIdx.y; i64 n = t.n[k];
    T* p = (T*)t.p[0][k]; const T* g = (const T*)t.p[1][k];
    T* m = (T*)t.p[2][k]; T* v = (T*)t.p[3][k]; T* most = (T*)t.p[4][k];
    A step = step_device ? *step_device : step_given;
    A lr = lr_device ? *lr_device : lr_given;
    A fix1 = 1 - pow(beta1, step), fix2 = sqrt(1 - pow(beta2, step));
    A size = lr / fix1;
    EACH(i, n) {
        A x = LOAD(p + i), d = LOAD(g + i);
        if (maximize) d = -d;
        if (decay != 0) { if (decoupled) x *= 1 - lr * decay; else d += decay * x; }
        A a = LOAD(m + i); a += (d - a) * (1 - beta1);
        A b = LOAD(v + i) * beta2 + d * d * (1 - beta2);
        STORE(m + i, a); STORE(v + i, b);
        if (amsgrad) { A c = LOAD(most + i); b = b > c ? b : c; STORE(most + i, b); }
        STORE(p + i, x - size * (a / (sqrt(b) / fix2 + eps)));
    }
}
extern "C" __global__ void sgd(const Tensors t, A lr_given, const A* lr_device, A momentum,
        A dampening, A decay, int nesterov, int maximize, int first) {
    int k = blockIdx.y; i64 n = t.n[k];
    T* p = (T*)t.p[0][k]; const T* g = (const T*)t.p[1][k]; T* m = (T*)t.p[2][k];
    A lr = lr_device ? *lr_device : lr_given;
    EACH(i, n) {
        A x = LOAD(p + i), d = LOAD(g + i);
        if (maximize) d = -d;
        if (decay != 0) d += decay * x;
        if (momentum != 0) {
            A b = first ? d : LOAD(m + i) * momentum + d * (1 - dampening);
            STORE(m + i, b);
            d = nesterov ? d + momentum * b : b;
        }
        STORE(p + i, x - lr * d);
    }
}
"""
