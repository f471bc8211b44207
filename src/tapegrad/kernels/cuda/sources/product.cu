// Float32 matrix products on tensor cores, with the accuracy of float32.
//
// A tensor core reads 11 bits of each factor and truncates where it adds. So each number is split
// into two parts of 11 bits, high and low, and a product is low*high + high*low + high*high; and
// only runs of 16 products are added inside the tensor cores: their sums are added to the running
// total by ordinary additions, which round. The low parts are lifted to the size of the high ones
// (LIFT), and what they make is lowered again: of a tiny factor's low part, as it is, a tensor core
// would read but few bits.
//
// A block makes BM x BN of the result, each of its warps 64 x 32. Defined are MIN_BLOCKS, STAGES,
// A_ALONG_K and B_ALONG_K too, and TOGETHER: 2 to let the loads for the next 16 k overlap the
// products, where registers allow it.
//
// The numbers of the factors go to threads in an order that suits memory, not the order in which
// the instruction counts: any order of k is right if it is the same for both factors, and any order
// of rows and columns if the results are stored accordingly. A thread is `lane = 4 * g + t`. Of 32
// rows (or columns) by 16 k it holds those with row / 4 == spread(g) and k / 4 == t: 4 x 4 numbers,
// which are four 16-byte loads whichever way the factor lies, without bank conflicts.
#include "instructions.cu"

#define BK 32
#define THREADS (BM * BN / 64)
#define EVERY _Pragma("unroll")

// Such that a thread's results (columns 2t and 2t+1 of the instruction) are 16-byte stores, of
// which four threads fill whole sectors.
__device__ __forceinline__ int spread(int g) { return g / 2 + g % 2 * 4; }

// One factor: a matrix of `rows` by k, or its transpose, in pieces of WIDTH x BK. In shared memory,
// along k: two panels of 16 k, with the rows of one thread 8 slots apart; else: k in slots such
// that k / 4 counts first.
template <int WIDTH, bool ALONG_K> struct Factor {
    enum {
        PITCH = ALONG_K ? 16 : WIDTH + 4,
        SIZE = ALONG_K ? WIDTH * BK : PITCH * BK,
        COPIES = WIDTH * BK / 4 / THREADS,
        ACROSS = WIDTH / 4,            // copies that one k takes, if not along k
        ROW_SLOTS = THREADS / 8,       // filled by each round of copies, if along k
        K_SLOTS = THREADS / ACROSS
    };
    const float* matrix;
    int step, source, target;
    int left;  // rows from this thread's first one to the end; or the bytes of a copy

    static __device__ __forceinline__ int row_of(int slot) {
        return slot / 32 * 32 + 4 * spread(slot % 8) + slot / 8 % 4;
    }
    static __device__ __forceinline__ int slot_of(int k) {
        return k / 16 * 16 + k % 4 * 4 + k / 4 % 4;
    }

    __device__ __forceinline__ Factor(
            const float* matrix, int step, int first, int rows, int k_first)
            : matrix(matrix), step(step) {
        int thread = threadIdx.x;
        if (ALONG_K) {
            int panel = thread / 8 % 2, slot = thread / 16 * 2 + thread / 4 % 2;
            left = rows - first - row_of(slot);
            source = (first + row_of(slot)) * step + k_first + k_of_thread();
            target = (panel * WIDTH + slot) * PITCH + thread % 4 * 4;
        } else {
            int column = thread % ACROSS * 4;
            left = min(max(rows - first - column, 0), 4) * 4;
            source = (k_first + k_of_thread()) * step + first + column;
            target = slot_of(k_of_thread()) * PITCH + column;
        }
    }

    static __device__ __forceinline__ int k_of_thread() {
        int thread = threadIdx.x;
        return ALONG_K ? thread / 8 % 2 * 16 + thread % 4 * 4 : thread / ACROSS;
    }

    // Start copying the next piece, of which `k_left` are to be read.
    __device__ __forceinline__ void fetch(float* shared, int k_left) {
        k_left -= k_of_thread();
        int bytes = ALONG_K ? min(max(k_left, 0), 4) * 4 : left;
        EVERY for (int c = 0; c < COPIES; c++) {
            if (ALONG_K) {
                int row = row_of(c * ROW_SLOTS);
                copy_async(shared + target + c * ROW_SLOTS * PITCH, matrix + (source + row * step),
                           row < left ? bytes : 0);
            } else {
                int more = c * K_SLOTS;
                copy_async(shared + target + slot_of(more) * PITCH,
                           matrix + (source + more * step), more < k_left ? bytes : 0);
            }
        }
        source += ALONG_K ? BK : BK * step;
    }

    // One number of a piece.
    static __device__ __forceinline__ float number(const float* shared, int row, int k) {
        int slot = row / 32 * 32 + row % 4 * 8 + row / 4 % 4 * 2 + row / 16 % 2;
        return ALONG_K ? shared[(k / 16 * WIDTH + slot) * PITCH + k % 16]
                       : shared[slot_of(k) * PITCH + row];
    }

    // This thread's numbers of 32 rows by 16 k: x[row][k].
    static __device__ __forceinline__ void load(
            const float* shared, int first, int panel, float (&x)[4][4]) {
        int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        EVERY for (int i = 0; i < 4; i++) {
            if (ALONG_K) {
                float4 v = *(const float4*)(
                    shared + (panel * WIDTH + first + i * 8 + g) * PITCH + 4 * t);
                x[i][0] = v.x; x[i][1] = v.y; x[i][2] = v.z; x[i][3] = v.w;
            } else {
                float4 v = *(const float4*)(
                    shared + (panel * 16 + i * 4 + t) * PITCH + first + 4 * spread(g));
                x[0][i] = v.x; x[1][i] = v.y; x[2][i] = v.z; x[3][i] = v.w;
            }
        }
    }
};

// x = high + low / LIFT, but for the last bit. What is not finite, or rounds up to infinity, makes
// low a NaN, and so the results: those are computed again.
#define LIFT 2048.0f
__device__ __forceinline__ void split(float x, unsigned& high, unsigned& low) {
    high = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
    low = __float_as_uint((x - __uint_as_float(high)) * LIFT);
}

// Whether a result is computed again: it is not finite, and infinities have become NaNs.
__device__ __forceinline__ bool doubtful(float x) { return !(fabsf(x) < 3.0e38f); }

// total += 64 x 16 by 16 x 32, from one panel.
template <typename Left, typename Right> __device__ __forceinline__ void multiply(
        const float* left, int row, const float* right, int column, int panel,
        float (&total)[4][4][4]) {
    float a[4][4], b[4][4];
    unsigned b_high[2][4][2], b_low[2][4][2];
    Right::load(right, column, panel, b);
    EVERY for (int j = 0; j < 4; j++) {
        EVERY for (int k = 0; k < 4; k++) {
            split(b[j][k], b_high[k / 2][j][k % 2], b_low[k / 2][j][k % 2]);
        }
    }
    EVERY for (int i = 0; i < 4; i++) {
        if (i % 2 == 0) Left::load(left, row + i * 16, panel, a);
        unsigned high[2][4], low[2][4];
        EVERY for (int k = 0; k < 4; k++) {
            EVERY for (int h = 0; h < 2; h++) {
                split(a[i % 2 * 2 + h][k], high[k / 2][k % 2 * 2 + h], low[k / 2][k % 2 * 2 + h]);
            }
        }
        float part[4][4] = {};
        // Small terms first; four independent sums at a time fill the tensor cores.
        EVERY for (int s = 0; s < 2; s++) {
            EVERY for (int j = 0; j < 4; j++) mma_tf32(part[j], low[s], b_high[s][j]);
        }
        EVERY for (int s = 0; s < 2; s++) {
            EVERY for (int j = 0; j < 4; j++) mma_tf32(part[j], high[s], b_low[s][j]);
        }
        EVERY for (int j = 0; j < 4; j++) {
            EVERY for (int c = 0; c < 4; c++) part[j][c] *= 1 / LIFT;
        }
        EVERY for (int s = 0; s < 2; s++) {
            EVERY for (int j = 0; j < 4; j++) mma_tf32(part[j], high[s], b_high[s][j]);
        }
        EVERY for (int j = 0; j < 4; j++) {
            EVERY for (int c = 0; c < 4; c++) total[i][j][c] += part[j][c];
        }
    }
}

// out = a b + bias for k of this block's share; with several shares, each has an `out` of its own.
extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS) product(
        const float* __restrict__ a, const float* __restrict__ b, const float* __restrict__ bias,
        float* __restrict__ out, int step_a, int step_b, int m, int n, int k, int share) {
    typedef Factor<BM, A_ALONG_K> Left;
    typedef Factor<BN, B_ALONG_K> Right;
    DYNAMIC_SHARED(float, shared);
    const int stage_size = Left::SIZE + Right::SIZE;
    int k_first = blockIdx.z * share, k_left = min(k - k_first, share);
    Left left(a, step_a, blockIdx.y * BM, m, k_first);
    Right right(b, step_b, blockIdx.x * BN, n, k_first);
    EVERY for (int s = 0; s < STAGES - 1; s++) {
        left.fetch(shared + s * stage_size, k_left - s * BK);
        right.fetch(shared + s * stage_size + Left::SIZE, k_left - s * BK);
        copy_commit();
    }

    int warp = threadIdx.x / 32;
    int warp_row = warp % (BM / 64) * 64, warp_column = warp / (BM / 64) * 32;
    float total[4][4][4] = {};
    int reading = 0;
    for (; k_left > 0; k_left -= BK) {
        copy_wait<STAGES - 2>();
        __syncthreads();  // the piece is there for all, and all have left the one before
        int ahead = k_left - (STAGES - 1) * BK;
        if (ahead > 0) {
            float* free = shared + (reading ? reading - 1 : STAGES - 1) * stage_size;
            left.fetch(free, ahead);
            right.fetch(free + Left::SIZE, ahead);
        }
        copy_commit();
        const float* piece = shared + reading * stage_size;
        constexpr int together = TOGETHER;  // nvcc does not expand words in a pragma
#pragma unroll together
        for (int panel = 0; panel < 2; panel++) {
            multiply<Left, Right>(
                piece, warp_row, piece + Left::SIZE, warp_column, panel, total);
        }
        reading = reading == STAGES - 1 ? 0 : reading + 1;
    }

    int lane = threadIdx.x % 32, t = lane % 4;
    int row = blockIdx.y * BM + warp_row + 4 * spread(lane / 4);
    int column = blockIdx.x * BN + warp_column + 4 * t;
    out += (i64)blockIdx.z * m * n;
    bool again = false;
    EVERY for (int c = 0; c < 2; c++) {
        int at = column + 16 * c;
        float more[4] = {};
        if (bias) {
            EVERY for (int j = 0; j < 4; j++) more[j] = at + j < n ? bias[at + j] : 0.0f;
        }
        EVERY for (int i = 0; i < 4; i++) {
            EVERY for (int h = 0; h < 2; h++) {
                float v[4];
                EVERY for (int j = 0; j < 4; j++) {
                    v[j] = total[i][j][2 * h + c] + more[j];
                    again |= doubtful(v[j]);
                }
                int r = row + i / 2 * 32 + i % 2 * 2 + h;
                if (r >= m) continue;
                float* to = out + (i64)r * n + at;
                if (n % 4 == 0) {
                    if (at < n) *(float4*)to = make_float4(v[0], v[1], v[2], v[3]);
                } else {
                    EVERY for (int j = 0; j < 4; j++) if (at + j < n) to[j] = v[j];
                }
            }
        }
    }
    if (!__syncthreads_or(again)) return;

    // The whole tile once more, by ordinary multiplications: 8 rows by 8 columns in each thread.
    Left left_again(a, step_a, blockIdx.y * BM, m, k_first);
    Right right_again(b, step_b, blockIdx.x * BN, n, k_first);
    int tile_row = warp_row + 4 * spread(lane / 4), tile_column = warp_column + 4 * t;
    float sum[8][8] = {};
    copy_wait<0>();
#pragma unroll 1
    for (k_left = min(k - k_first, share); k_left > 0; k_left -= BK) {
        __syncthreads();
        left_again.fetch(shared, k_left);
        right_again.fetch(shared + Left::SIZE, k_left);
        copy_commit();
        copy_wait<0>();
        __syncthreads();
#pragma unroll 2
        for (int i = 0; i < BK; i++) {
            float x[8], y[8];
            EVERY for (int e = 0; e < 8; e++) {
                x[e] = Left::number(shared, tile_row + e % 4 + e / 4 * 32, i);
                y[e] = Right::number(shared + Left::SIZE, tile_column + e % 4 + e / 4 * 16, i);
            }
            EVERY for (int e = 0; e < 8; e++) {
                EVERY for (int f = 0; f < 8; f++) sum[e][f] = fmaf(x[e], y[f], sum[e][f]);
            }
        }
    }
    EVERY for (int e = 0; e < 8; e++) {
        EVERY for (int f = 0; f < 8; f++) {
            int r = row + e % 4 + e / 4 * 32, at = column + f % 4 + f / 4 * 16;
            if (r >= m || at >= n) continue;
            float* to = out + (i64)r * n + at;
            if (doubtful(*to)) *to = bias ? sum[e][f] + bias[at] : sum[e][f];
        }
    }
}
