// Rms norm: a team has a row in registers, HELD times WIDE elements in each thread.
#include "teams.cu"

#define EVERY(c) _Pragma("unroll") for (int c = 0; c < WIDE; c++)
#define HOLDING(i) _Pragma("unroll") for (int i = 0; i < HELD; i++)
#define COLUMN(i) ((i * blockDim.x + threadIdx.x) * WIDE)

extern "C" __global__ void __launch_bounds__(512) rms(const T* __restrict__ x,
        const T* __restrict__ w, T* __restrict__ y, A* __restrict__ kept, A eps, unsigned rows,
        unsigned n) {
    unsigned row = blockIdx.x * blockDim.y + threadIdx.y, end = row < rows ? n : 0;
    const T* from = x + row * (i64)n;
    Wide<T> f[HELD];
    Sums s = {0, 0};
    HOLDING(i) if (COLUMN(i) < end) {
        f[i] = wide_at(from + COLUMN(i));
        EVERY(c) { A v = LOAD(f[i].v + c); s.one += v * v; }
    }
    A inverse = inverse_of(of_team(s).one / n, eps);
    if (end && threadIdx.x == 0) kept[row] = inverse;
    T* to = y + row * (i64)n;
    HOLDING(i) if (COLUMN(i) < end) {
        Wide<T> h;
        if (w) h = wide_at(w + COLUMN(i));
        EVERY(c) {
            A v = LOAD(f[i].v + c) * inverse;
            STORE(f[i].v + c, w ? v * LOAD(h.v + c) : v);
        }
        *(Wide<T>*)(to + COLUMN(i)) = f[i];
    }
}
// A team takes a chunk of rows; a block's share of the weight's gradient is a row of `parts`.
extern "C" __global__ void __launch_bounds__(512) rms_back(const T* __restrict__ g,
        const T* __restrict__ x, const A* __restrict__ kept, const T* __restrict__ w,
        T* __restrict__ dx, A* __restrict__ parts, unsigned rows, unsigned n, unsigned chunk) {
    __shared__ A columns[512];
    A along[HELD][WIDE];
    HOLDING(i) { EVERY(c) along[i][c] = 0; }
    unsigned first = (blockIdx.x * blockDim.y + threadIdx.y) * chunk;
    for (unsigned row = first; row < first + chunk; row++) {
        unsigned end = row < rows ? n : 0;
        i64 at = row * (i64)n;
        A inverse = end ? kept[row] : (A)0;
        Wide<T> f[HELD], h[HELD];
        Sums s = {0, 0};
        HOLDING(i) if (COLUMN(i) < end) {
            f[i] = wide_at(g + at + COLUMN(i));
            h[i] = wide_at(x + at + COLUMN(i));
            Wide<T> k;
            if (w) k = wide_at(w + COLUMN(i));
            EVERY(c) {
                A v = LOAD(f[i].v + c), hat = LOAD(h[i].v + c) * inverse;
                along[i][c] += v * hat;
                s.one += w ? v * LOAD(k.v + c) * hat : v * hat;
            }
        }
        A mean = of_team(s).one / n;
        HOLDING(i) if (COLUMN(i) < end) {
            Wide<T> k;
            if (w) k = wide_at(w + COLUMN(i));
            EVERY(c) {
                A v = LOAD(f[i].v + c), hat = LOAD(h[i].v + c) * inverse;
                if (w) v *= LOAD(k.v + c);
                STORE(f[i].v + c, (v - hat * mean) * inverse);
            }
            *(Wide<T>*)(dx + at + COLUMN(i)) = f[i];
        }
    }
    if (!parts) return;
    A* cell = columns + threadIdx.y * blockDim.x + threadIdx.x;
    HOLDING(i) {
        EVERY(c) {
            A total = along[i][c];
            if (blockDim.y > 1) {
                *cell = total;
                for (unsigned o = blockDim.y / 2; o; o >>= 1) {
                    __syncthreads();
                    if (threadIdx.y < o) *cell += cell[o * blockDim.x];
                }
                total = *cell;
                __syncthreads();
            }
            if (threadIdx.y == 0 && COLUMN(i) < n) {
                parts[blockIdx.x * (i64)n + COLUMN(i) + c] = total;
            }
        }
    }
}
