// Convolutions on tensor cores in TF32, gathering windows in shared memory alone.
//
// One tap of the kernel at a time: then a column's place in the image is looked up once for many
// channels, which are evenly spaced.
// - BM: rows of the result that a block makes; BN: columns; DOWN: warps among which the rows go
// - STAGES: pieces that are read ahead; AT_ONCE: taps that a block makes weights' gradients for
// - BACK: 0 to make y from x, 1 to make x from y; FULL: whether sizes are multiples of the pieces'
#include "windows.cu"
#include "instructions.cu"

#define BK 32
#define TURNED 4096
#define THREADS 256
#define WM (BM / DOWN)
#define WN (BN * DOWN / 8)
#define A_PITCH (BK + 4)
#define B_PITCH (BN + 8)
#define EVERY _Pragma("unroll")

// Start a copy of 4 bytes to an address in shared memory, or of a zero if `bytes` is 0.
__device__ __forceinline__ void copy_one(unsigned to, const void* global, int bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :: "r"(to), "l"(global), "r"(bytes) : "memory");
}
__device__ __forceinline__ unsigned address(const void* shared) {
    return (unsigned)__cvta_generic_to_shared(shared);
}
__device__ __forceinline__ unsigned bits_of(float x) { return __float_as_uint(x); }

// totals += the rows and columns of a warp in a piece. A lies along k; so does B if ALONG_K.
template <bool ALONG_K> __device__ __forceinline__ void multiply(
        const float* a, const float* b, float (*totals)[WN / 8][4]) {
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = threadIdx.x / 32;
    a += (warp % DOWN * WM + g) * A_PITCH + t;
    b += ALONG_K ? (warp / DOWN * WN + g) * A_PITCH + t : t * B_PITCH + warp / DOWN * WN + g;
    const int along = ALONG_K ? 1 : B_PITCH, across = ALONG_K ? A_PITCH : 1;
    EVERY for (int k = 0; k < BK; k += 8) {
        unsigned left[WM / 16][4], right[WN / 8][2];
        EVERY for (int i = 0; i < WM / 16; i++) {
            EVERY for (int h = 0; h < 4; h++)
                left[i][h] = bits_of(a[(i * 16 + h % 2 * 8) * A_PITCH + k + h / 2 * 4]);
        }
        EVERY for (int j = 0; j < WN / 8; j++) {
            EVERY for (int h = 0; h < 2; h++)
                right[j][h] = bits_of(b[j * 8 * across + (k + h * 4) * along]);
        }
        EVERY for (int i = 0; i < WM / 16; i++) {
            EVERY for (int j = 0; j < WN / 8; j++) mma_tf32(totals[i][j], left[i], right[j]);
        }
    }
}

// Where the column of an image finds its number for a tap: -1 if that is outside.
__device__ __forceinline__ int found(const Windows& w, const int* at, int tap) {
    int place = 0;
    int k[3] = {tap / (w.kernel[1] * w.kernel[2]), tap / w.kernel[2] % w.kernel[1],
                tap % w.kernel[2]};
    bool inside = true;
    EVERY for (int d = 0; d < 3; d++) {
        int p;
        if (BACK) {
            int from = at[d] + w.low[d] - k[d] * w.dilation[d];
            p = from < 0 ? -1 : (int)quotient(from, w.stride[d]);
            inside &= from >= 0 && p * (int)w.stride[d].by == from && p < (int)w.out[d].by;
            place = place * w.out[d].by + p;
        } else {
            p = at[d] * (int)w.stride[d].by - w.low[d] + k[d] * w.dilation[d];
            inside &= within(p, w.size[d]);
            place = place * w.size[d].by + p;
        }
    }
    return inside ? place : -1;
}

// made (images, rows, its places) from given (images, channels, its places) and
// weights (rows, taps, channels).
extern "C" __global__ void __launch_bounds__(THREADS, 2) convolve(
        const float* __restrict__ given, const float* __restrict__ weights,
        const float* __restrict__ bias, float* __restrict__ made,
        const __grid_constant__ Windows w, int rows, int channels, unsigned columns) {
    DYNAMIC_SHARED(float, shared);
    const int stage = BM * A_PITCH + BK * B_PITCH;
    const Cut* to = BACK ? w.size : w.out;
    int thread = threadIdx.x, taps = w.kernel[0] * w.kernel[1] * w.kernel[2];
    unsigned whole = volume(BACK ? w.out : w.size), length = volume(to);
    // This thread's column of the gathered piece; its rows are `THREADS / BN` apart.
    unsigned column = blockIdx.x * BN + thread % BN;
    Spot spot_of = spot(min(column, columns - 1), to);
    const float* image = given + (i64)spot_of.plane * channels * whole;
    bool real = column < columns;
    int depth = (channels + BK - 1) / BK, pieces = taps * depth;
    int first_row = blockIdx.y * BM;

    int next_tap = 0, next_channel = 0, place = real ? found(w, spot_of.at, 0) : -1;
    const int lines = THREADS / BN, rounds = BK / lines, copies = BM * BK / 4 / THREADS;
    int own_row = first_row + thread / (BK / 4), own_k = thread % (BK / 4) * 4;
    const i64 lines_apart = lines * (i64)whole;
    const i64 rows_apart = (i64)(THREADS * 4 / BK) * taps * channels;
    const float* own_weights = weights + (i64)own_row * taps * channels + own_k;
    const float* lane_image = image + thread / BN * (i64)whole;
    auto fetch = [&](float* piece) {
        EVERY for (int i = 0; i < copies; i++) {
            bool some = FULL || (own_row + i * (THREADS * 4 / BK) < rows
                                 && next_channel + own_k < channels);
            copy_async(piece + (thread / (BK / 4) + i * (THREADS * 4 / BK)) * A_PITCH + own_k,
                       some ? own_weights + i * rows_apart : weights, some ? 16 : 0);
        }
        unsigned to = address(piece + BM * A_PITCH + thread / BN * B_PITCH + thread % BN);
        int bytes = place >= 0 ? 4 : 0;
        const float* from = lane_image + max(place, 0) + next_channel * (i64)whole;
        EVERY for (int i = 0; i < rounds; i++) {
            bool some = FULL || next_channel + thread / BN + i * lines < channels;
            copy_one(to + i * lines * B_PITCH * 4, some ? from : given, some ? bytes : 0);
            from += lines_apart;
        }
        int step = min(BK, channels - next_channel);
        own_weights += step;
        next_channel += step;
        if (next_channel >= channels) {
            next_channel = 0;
            next_tap++;
            place = real && next_tap < taps ? found(w, spot_of.at, next_tap) : -1;
        }
    };

    EVERY for (int s = 0; s < STAGES - 1; s++) {
        if (s < pieces) fetch(shared + s * stage);
        copy_commit();
    }
    float totals[WM / 16][WN / 8][4] = {};
    int reading = 0;
    for (int p = 0; p < pieces; p++) {
        copy_wait<STAGES - 2>();
        __syncthreads();
        if (p + STAGES - 1 < pieces)
            fetch(shared + (reading ? reading - 1 : STAGES - 1) * stage);
        copy_commit();
        const float* piece = shared + reading * stage;
        multiply<false>(piece, piece + BM * A_PITCH, totals);
        reading = reading == STAGES - 1 ? 0 : reading + 1;
    }

    int lane = thread % 32, warp = thread / 32;
    int row = first_row + warp % DOWN * WM + lane / 4;
    unsigned at = blockIdx.x * BN + warp / DOWN * WN + lane % 4 * 2;
    EVERY for (int j = 0; j < WN / 8; j++) {
        EVERY for (int e = 0; e < 2; e++) {
            unsigned c = at + j * 8 + e;
            if (c >= columns) continue;
            unsigned n = spot(c, to).plane;
            float* out = made + (i64)n * rows * length + (c - n * length);
            EVERY for (int i = 0; i < WM / 16; i++) {
                EVERY for (int h = 0; h < 2; h++) {
                    int r = row + i * 16 + h * 8;
                    if (r < rows)
                        out[(i64)r * length] = totals[i][j][h * 2 + e] + (bias ? bias[r] : 0.0f);
                }
            }
        }
    }
}

// parts (blocks along z; features, taps, channels): the gradient of the weights, from the images of
// each block's share. y (images, features, length), x (images, channels, size).
extern "C" __global__ void __launch_bounds__(THREADS, 2) to_weights(
        const float* __restrict__ y, const float* __restrict__ x, float* __restrict__ parts,
        const __grid_constant__ Windows w, int features, int channels, int images, int share) {
    DYNAMIC_SHARED(float, shared);
    const int stage = (BM + BN) * A_PITCH;
    int thread = threadIdx.x, taps = w.kernel[0] * w.kernel[1] * w.kernel[2];
    int length = volume(w.out), whole = volume(w.size);
    const int wide = BN / AT_ONCE;
    int across = (channels + wide - 1) / wide;
    int first_tap = blockIdx.x / across * AT_ONCE, first_channel = blockIdx.x % across * wide;
    int first_row = blockIdx.y * BM;
    int image = blockIdx.z * share, end = min(images, image + share), from = 0;
    int pieces = max(end - image, 0) * ((length + BK - 1) / BK);
    bool fours = length % 4 == 0 && ((unsigned long long)y & 15) == 0;

    const i64 columns_apart = (THREADS / BK) * (i64)whole;
    auto fetch = [&](float* piece) {
        int k = thread % BK, pixel = from + k;
        bool real = pixel < length;
        const float* rows = y + ((i64)image * features + first_row) * length + from;
        if (FULL || fours) {
            EVERY for (int i = 0; i < BM * BK / 4 / THREADS; i++) {
                int r = thread / (BK / 4) + i * (THREADS * 4 / BK), at = thread % (BK / 4) * 4;
                bool some = FULL || (from + at < length && first_row + r < features);
                copy_async(piece + r * A_PITCH + at, some ? rows + (i64)r * length + at : y,
                           some ? 16 : 0);
            }
        } else {
            EVERY for (int i = 0; i < BM * BK / THREADS; i++) {
                int r = thread / BK + i * (THREADS / BK);
                bool some = real && first_row + r < features;
                copy_one(address(piece + r * A_PITCH + k), some ? rows + (i64)r * length + k : y,
                         some ? 4 : 0);
            }
        }
        Spot at = spot(real ? pixel : 0, w.out);
        EVERY for (int o = 0; o < AT_ONCE; o++) {
            int tap = first_tap + o, place = real && tap < taps ? found(w, at.at, tap) : -1;
            int own = first_channel + thread / BK, bytes = place >= 0 ? 4 : 0;
            const float* column = x + ((i64)image * channels + own) * whole + max(place, 0);
            unsigned to = address(piece + (BM + o * wide + thread / BK) * A_PITCH + k);
            EVERY for (int i = 0; i < wide * BK / THREADS; i++) {
                bool some = FULL || own + i * (THREADS / BK) < channels;
                copy_one(to + i * (THREADS / BK) * A_PITCH * 4, some ? column : x,
                         some ? bytes : 0);
                column += columns_apart;
            }
        }
        from += BK;
        if (from >= length) { from = 0; image++; }
    };

    EVERY for (int s = 0; s < STAGES - 1; s++) {
        if (s < pieces) fetch(shared + s * stage);
        copy_commit();
    }
    float totals[WM / 16][WN / 8][4] = {};
    int reading = 0;
    for (int p = 0; p < pieces; p++) {
        copy_wait<STAGES - 2>();
        __syncthreads();
        if (p + STAGES - 1 < pieces)
            fetch(shared + (reading ? reading - 1 : STAGES - 1) * stage);
        copy_commit();
        const float* piece = shared + reading * stage;
        multiply<true>(piece, piece + BM * A_PITCH, totals);
        reading = reading == STAGES - 1 ? 0 : reading + 1;
    }

    int lane = thread % 32, warp = thread / 32;
    int row = first_row + warp % DOWN * WM + lane / 4;
    int column = warp / DOWN * WN + lane % 4 * 2;
    EVERY for (int i = 0; i < WM / 16; i++) {
        EVERY for (int h = 0; h < 4; h++) {
            int r = row + i * 16 + h / 2 * 8;
            EVERY for (int j = 0; j < WN / 8; j++) {
                int at = column + j * 8 + h % 2;
                int tap = first_tap + at / wide, c = first_channel + at % wide;
                if (r < features && c < channels && tap < taps) {
                    i64 place = (((i64)blockIdx.z * features + r) * taps + tap) * channels + c;
                    parts[place] = totals[i][j][h];
                }
            }
        }
    }
}
// Lines of `from` elements as lines of `to`, with zeros behind them if those are longer.
extern "C" __global__ void as_long(const float* __restrict__ x, float* __restrict__ out,
        unsigned from, unsigned to, unsigned n) {
    EACH(i, n) {
        unsigned line = (unsigned)i / to, at = (unsigned)i - line * to;
        out[i] = at < from ? x[(i64)line * from + at] : 0.0f;
    }
}
// Weights (features, channels, taps) as (features, taps, channels), or (channels, taps, features)
// on the way back: the last one is what products run along.
extern "C" __global__ void by_taps(const float* __restrict__ w, float* __restrict__ out,
        int features, int channels, int taps, int back, unsigned n) {
    unsigned across = back ? features : channels;
    EACH(i, n) {
        unsigned last = i % across, tap = i / across % taps, first = i / across / taps;
        unsigned f = back ? last : first, c = back ? first : last;
        out[i] = w[((i64)f * channels + c) * taps + tap];
    }
}
// The sum of the parts, in their order, as (features, channels, taps). A block takes `chunk`
// channels of a feature, so that it reads and writes neighbours; 0: in the order of the result.
extern "C" __global__ void weights_end(const float* __restrict__ parts, float* __restrict__ out,
        int count, int taps, int channels, int chunk, unsigned n) {
    __shared__ float turned[TURNED];
    if (!chunk) {
        EACH(i, n) {
            unsigned tap = i % taps, c = i / taps % channels, f = i / taps / channels;
            const float* from = parts + ((i64)f * taps + tap) * channels + c;
            float total = 0;
            for (int p = 0; p < count; p++) total += from[(i64)p * n];
            out[i] = total;
        }
        return;
    }
    int first = blockIdx.y * chunk, own = min(chunk, channels - first);
    for (int i = threadIdx.x; i < own * taps; i += blockDim.x) {
        int tap = i / own, c = i - tap * own;
        const float* from = parts + ((i64)blockIdx.x * taps + tap) * channels + first + c;
        float total = 0;
        #pragma unroll 8
        for (int p = 0; p < count; p++) total += from[(i64)p * n];
        turned[c * taps + tap] = total;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < own * taps; i += blockDim.x)
        out[((i64)blockIdx.x * channels + first) * taps + i] = turned[i];
}
