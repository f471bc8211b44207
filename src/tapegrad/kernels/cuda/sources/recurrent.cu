// Recurrent layers: all steps of a layer in one launch, and in one back.
//
// A block owns some units of the state and keeps their part of the weights in shared memory.
// Between two steps all blocks wait for each other, so all of them have to run at once (a
// cooperative launch). A warp has a part of every product's length: 8 times 4 of its threads have 4
// rows and a quarter of the columns each (forward) or of the length (back). `formula.cu` has the
// function `logistic`.
// - KIND: 0 for an LSTM, 1 for a GRU, 2 for tanh, 3 for relu; GATES: matrices of the weight
// - U: columns of a thread; UNITS: units of a block; LONG: columns of the states that are read at
//   once
// - LONG_BACK: columns of each quarter of the gradients that are read at once
#include "prelude.cu"
#include "formula.cu"

#define ROWS 32
#define WARPS 8
#define WIDTH_BACK (4 * LONG_BACK + 4)
extern __shared__ __align__(16) char space[];

// What other blocks have written: past the first cache, which knows nothing of it.
__device__ __forceinline__ Four<A> fresh(const A* p) {
    Four<A> f;
    #pragma unroll
    for (int i = 0; i < 4; i += 16 / sizeof(A)) {
        if (sizeof(A) == 4) *(float4*)(f.v + i) = __ldcg((const float4*)(p + i));
        else *(double2*)(f.v + i) = __ldcg((const double2*)(p + i));
    }
    return f;
}
__device__ __forceinline__ Four<A> zeros() { Four<A> f = {{0, 0, 0, 0}}; return f; }

// All blocks have come here `times` times.
__device__ __forceinline__ void wait_for_all(unsigned* count, unsigned times) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(count, 1);
        unsigned seen;
        do { asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(seen) : "l"(count)); }
        while (seen < times * gridDim.x);
    }
    __syncthreads();
}

// Steps of equal size, or those that a table lists: (first row, rows).
struct Walk { const int* table; int steps, rows, turned; };
__device__ __forceinline__ int2 at(const Walk& w, int step) {
    if (step < 0) return make_int2(0, 0);
    if (w.table) return make_int2(w.table[2 * step], w.table[2 * step + 1]);
    return make_int2((w.turned ? w.steps - 1 - step : step) * w.rows, w.rows);
}

__device__ __forceinline__ void multiply(A (*sums)[U], const A* rows, int row_step,
        const A* columns, int column_step) {
    Four<A> a[4];
    #pragma unroll
    for (int i = 0; i < 4; i++) a[i] = *(const Four<A>*)(rows + 8 * i * row_step);
    #pragma unroll
    for (int j = 0; j < U; j++) {
        Four<A> b = *(const Four<A>*)(columns + j * column_step);
        #pragma unroll
        for (int i = 0; i < 4; i++)
            for (int k = 0; k < 4; k++) sums[i][j] += a[i].v[k] * b.v[k];
    }
}

// x: what the input adds; kept: all gates (LSTM, GRU); cells: of the LSTM.
extern "C" __global__ void __launch_bounds__(256) steps(const A* __restrict__ x,
        const A* __restrict__ hx, const A* __restrict__ cx, const A* __restrict__ weight,
        const A* __restrict__ bias, A* kept, A* cells, A* out, unsigned* count, int width,
        const int* table, int number, int batch, int turned) {
    const int columns = 4 * U, length = width + 4;
    A* weights = (A*)space;
    A* tile = weights + columns * length;
    int thread = threadIdx.x, warp = thread / 32, down = thread % 8, quarter = thread % 32 / 8;
    int first = blockIdx.x * UNITS;
    for (int i = thread; i < columns * width; i += 256) {
        int c = i / width, k = i % width;
        int gate = GATES == 1 ? 0 : c / U, unit = first + (GATES == 1 ? c : c % U);
        bool is_one = gate < GATES && unit < width;
        weights[c * length + k] = is_one ? weight[(gate * (i64)width + unit) * width + k] : (A)0;
    }
    int own_row = thread / UNITS, own = thread % UNITS, unit = first + own;
    bool mine = own_row < ROWS && unit < width;
    Walk walk = {table, number, batch, turned};
    int2 last = make_int2(0, 0);
    for (int step = 0; step < number; step++) {
        int2 now = at(walk, step);
        for (int above = 0; above < now.y; above += ROWS) {
            int row = above + own_row;
            bool here = mine && row < now.y;
            i64 place = now.x + row, before = last.x + row;
            A given[4] = {0, 0, 0, 0}, past = 0;
            if (here) {  // asked for now, needed behind the products
                #pragma unroll
                for (int g = 0; g < GATES; g++) given[g] = x[(place * GATES + g) * width + unit];
                bool known = row < last.y;
                i64 then = (known ? before : (i64)row) * width + unit;
                if (KIND == 0) past = (known ? cells : cx)[then];
                if (KIND == 1) past = (known ? out : hx)[then];
            }
            A sums[4][U];
            #pragma unroll
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < U; j++) sums[i][j] = 0;
            for (int k0 = 0; k0 < width; k0 += LONG) {
                __syncthreads();
                for (int i = thread; i < ROWS * LONG / 4; i += 256) {
                    int r = i / (LONG / 4), k = i % (LONG / 4) * 4, from = above + r;
                    Four<A> f = zeros();
                    if (from < now.y && k0 + k < width) {
                        const A* state = from < last.y ? out + (last.x + from) * (i64)width
                                                       : hx + from * (i64)width;
                        f = fresh(state + k0 + k);
                    }
                    *(Four<A>*)(tile + r * (LONG + 4) + k) = f;
                }
                __syncthreads();
                #pragma unroll
                for (int q = 0; q < LONG / 32; q++) {
                    int k = (warp * (LONG / 32) + q) * 4;
                    if (k0 + k < width)
                        multiply(sums, tile + down * (LONG + 4) + k, LONG + 4,
                                 weights + quarter * U * length + k0 + k, length);
                }
            }
            __syncthreads();
            #pragma unroll
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < U; j++)
                    tile[(warp * ROWS + down + 8 * i) * columns + quarter * U + j] = sums[i][j];
            __syncthreads();
            if (!here) continue;
            A sum[4] = {0, 0, 0, 0};
            #pragma unroll
            for (int g = 0; g < GATES; g++) {
                for (int w = 0; w < WARPS; w++)
                    sum[g] += tile[(w * ROWS + own_row) * columns + g * U + own];
            }
            A* keep = kept + place * 4 * width + unit;
            A h;
            if (KIND == 0) {
                A i = logistic(given[0] + sum[0]), f = logistic(given[1] + sum[1]);
                A g = tanh(given[2] + sum[2]), o = logistic(given[3] + sum[3]);
                A c = f * past + i * g;
                keep[0] = i; keep[width] = f; keep[2 * width] = g; keep[3 * width] = o;
                cells[place * width + unit] = c;
                h = o * tanh(c);
            } else if (KIND == 1) {
                if (bias) {
                    for (int g = 0; g < 3; g++) sum[g] += bias[g * width + unit];
                }
                A r = logistic(given[0] + sum[0]), z = logistic(given[1] + sum[1]);
                A n = tanh(given[2] + r * sum[2]);
                keep[0] = r; keep[width] = z; keep[2 * width] = n; keep[3 * width] = sum[2];
                h = (past - n) * z + n;
            } else {
                h = given[0] + sum[0];
                h = KIND == 2 ? tanh(h) : h < 0 ? (A)0 : h;
            }
            out[place * width + unit] = h;
        }
        last = now;
        if (step + 1 < number) wait_for_all(count, step + 1);
    }
}

// to_sums: of what the weight multiplies into; to_x: of a GRU's input, which differs in one gate.
// to_h and to_c begin as zeros and end as the gradients of the first states.
extern "C" __global__ void __launch_bounds__(256) steps_back(const A* __restrict__ to_out,
        const A* __restrict__ to_cells, const A* __restrict__ hx, const A* __restrict__ cx,
        const A* __restrict__ weight, const A* __restrict__ kept, const A* __restrict__ cells,
        const A* __restrict__ out, A* to_sums, A* to_x, A* to_h, A* to_c, unsigned* count,
        int width, const int* table, int number, int batch, int turned) {
    const int all = GATES * width, part = (all / 4 + 3) / 4 * 4, length = 4 * (part + 4);
    A* weights = (A*)space;
    A* tile = weights + U * length;
    int thread = threadIdx.x, warp = thread / 32, down = thread % 8, quarter = thread % 32 / 8;
    int first = blockIdx.x * U;
    for (int i = thread; i < U * 4 * part; i += 256) {
        int u = i % U, k = i / U;  // neighbours of a row of the weight lie together
        bool is_one = first + u < width && k < all;
        weights[u * length + k / part * (part + 4) + k % part] =
            is_one ? weight[k * (i64)width + first + u] : (A)0;
    }
    Walk walk = {table, number, batch, turned};
    for (int step = number - 1; step >= 0; step--) {
        int2 now = at(walk, step), last = at(walk, step - 1);
        for (int i = thread; i < now.y * U; i += 256) {
            int row = i / U, unit = first + i % U;
            if (unit >= width) continue;
            i64 place = now.x + row, own = row * (i64)width + unit, at_unit = place * width + unit;
            i64 before = (last.x + row) * (i64)width + unit;
            A dh = to_h[own] + (to_out ? to_out[at_unit] : (A)0);
            const A* keep = kept + place * 4 * width + unit;
            A* to = to_sums + place * GATES * width + unit;
            if (KIND == 0) {
                A i_ = keep[0], f = keep[width], g = keep[2 * width], o = keep[3 * width];
                A c = cells[at_unit], past = row < last.y ? cells[before] : cx[own], t = tanh(c);
                A dc = dh * o * (1 - t * t) + to_c[own] + (to_cells ? to_cells[at_unit] : (A)0);
                to[0] = dc * g * i_ * (1 - i_);
                to[width] = dc * past * f * (1 - f);
                to[2 * width] = dc * i_ * (1 - g * g);
                to[3 * width] = dh * t * o * (1 - o);
                to_c[own] = dc * f;
            } else if (KIND == 1) {
                A r = keep[0], z = keep[width], n = keep[2 * width], s = keep[3 * width];
                A past = row < last.y ? out[before] : hx[own];
                A dn = dh * (1 - z) * (1 - n * n), dr = dn * s * r * (1 - r);
                A dz = dh * (past - n) * z * (1 - z);
                A* other = to_x + place * 3 * width + unit;
                other[0] = to[0] = dr; other[width] = to[width] = dz;
                other[2 * width] = dn; to[2 * width] = dn * r;
                to_h[own] = dh * z;
            } else {
                A h = out[at_unit];
                to[0] = KIND == 2 ? dh * (1 - h * h) : h > 0 ? dh : dh * 0;
            }
        }
        wait_for_all(count, number - step);
        for (int above = 0; above < now.y; above += ROWS) {
            A sums[4][U];
            #pragma unroll
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < U; j++) sums[i][j] = 0;
            for (int k0 = 0; k0 < part; k0 += LONG_BACK) {
                __syncthreads();
                for (int i = thread; i < ROWS * LONG_BACK; i += 256) {
                    int r = i / LONG_BACK, p = i % LONG_BACK / (LONG_BACK / 4);
                    int k = i % (LONG_BACK / 4) * 4, column = p * part + k0 + k;
                    Four<A> f = zeros();
                    if (above + r < now.y && k0 + k < part && column < all)
                        f = fresh(to_sums + (now.x + above + r) * (i64)all + column);
                    *(Four<A>*)(tile + r * WIDTH_BACK + p * LONG_BACK + k) = f;
                }
                __syncthreads();
                #pragma unroll
                for (int q = 0; q < LONG_BACK / 32; q++) {
                    int k = (warp * (LONG_BACK / 32) + q) * 4;
                    if (k0 + k < part)
                        multiply(sums, tile + down * WIDTH_BACK + quarter * LONG_BACK + k,
                                 WIDTH_BACK, weights + quarter * (part + 4) + k0 + k, length);
                }
            }
            __syncthreads();
            #pragma unroll
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < U; j++) {
                    A s = sums[i][j];
                    s += __shfl_xor_sync(0xffffffffu, s, 8);
                    s += __shfl_xor_sync(0xffffffffu, s, 16);
                    if (quarter == 0) tile[(warp * ROWS + down + 8 * i) * U + j] = s;
                }
            __syncthreads();
            for (int i = thread; i < ROWS * U; i += 256) {
                int row = above + i / U, unit = first + i % U;
                if (row >= now.y || unit >= width) continue;
                A s = KIND == 1 ? to_h[row * (i64)width + unit] : (A)0;
                for (int w = 0; w < WARPS; w++) s += tile[w * ROWS * U + i];
                to_h[row * (i64)width + unit] = s;
            }
        }
        __syncthreads();
    }
}
