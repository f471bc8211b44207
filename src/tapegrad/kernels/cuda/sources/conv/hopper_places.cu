// y from x, or x from y (hopper.cu). BN: features that a block makes; GROUPS: groups of four warps,
// with 64 places each.
#include "conv/hopper.cu"

#define THREADS (128 * GROUPS)
#define BP (64 * GROUPS)
#define STAGES 4
#define PIECE (BN * BK)
#define PART (BK * PITCH)

// made (images, rows, its places) from given (images, channels, its places) and
// weights (rows, taps, channels). Rows are a multiple of BN, channels of BK, given's places of 4.
// A block makes BN rows of BP places: of one image, in `tiles` parts, or of `several` whole ones.
// Of BK channels at a time it has all that these places meet, and multiplies it by the weights of
// one tap after the other.
extern "C" __global__ void __launch_bounds__(THREADS, 4 / GROUPS) convolve_wide(
        const float* __restrict__ given, const float* __restrict__ weights,
        const float* __restrict__ bias, float* __restrict__ made,
        const __grid_constant__ Windows w, int back, int rows, int channels, int images,
        int tiles, int several) {
    DYNAMIC_SHARED(float, room);
    __shared__ Taps taps;
    float* shared = first_kilobyte(room);
    float* xs = shared + STAGES * PIECE;
    const Class own(w, back, blockIdx.z);
    const Cut* from = back ? w.out : w.size;
    int inside = own.inside(), whole = volume(from), length = volume(back ? w.size : w.out);
    int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    int image = blockIdx.x / tiles * several, first = blockIdx.x % tiles * BP;
    if (first >= inside) return;
    list_taps(w, own, taps);
    if (thread < 2 * BK) xs[thread * PITCH + PITCH - 1] = 0;  // where what lies outside is read
    __syncthreads();

    // What is copied: of each image, from `low` to `high`.
    int at[3], place, count = taps.count, all = w.kernel[0] * w.kernel[1] * w.kernel[2];
    own.find(w, first, at, place);
    int low = max(linear(from, at) + taps.low, 0) & ~3;
    own.find(w, min(first + BP, inside) - 1, at, place);
    int high = min(linear(from, at) + taps.high + 1, whole);
    int fours = max(high - low + 3, 0) / 4, has = min(several, images - image);

    // The two places of this thread.
    int start[2];
    unsigned bits[2];
    float* out[2];
    EVERY for (int h = 0; h < 2; h++) {
        int i = warp * 16 + lane / 4 + h * 8, which = 0;
        if (several > 1) { which = i / inside; i -= which * inside; }
        else i += first;
        bool real = which < has && i < inside;
        own.find(w, real ? i : 0, at, place);
        start[h] = which * fours * 4 + linear(from, at) - low;
        bits[h] = real ? seen(from, taps, at) : 0;
        out[h] = real ? made + (i64)(image + which) * rows * length + place : 0;
    }

    int first_row = blockIdx.y * BN, parts = channels / BK, pieces = parts * count;
    const float* images_at = given + (i64)image * channels * whole + low;
    auto fetch_places = [&](int part) {
        float* to = xs + part % 2 * PART;
        for (int c = warp; c < BK; c += THREADS / 32) {
            const float* channel = images_at + (i64)(part * BK + c) * whole;
            for (int v = lane; v < has * fours; v += 32) {
                int which = has > 1 ? v / fours : 0;
                copy_async(to + c * PITCH + v * 4,
                           channel + (i64)which * channels * whole + (v - which * fours) * 4, 16);
            }
        }
    };
    int next = 0, next_tap = 0, next_part = 0;
    const float* own_weights = weights + (i64)(first_row + thread / 8) * all * channels
        + thread % 8 * 4;
    const i64 rows_apart = (i64)(THREADS / 8) * all * channels;
    auto fetch_weights = [&]() {
        float* to = shared + next % STAGES * PIECE;
        const float* a = own_weights + (i64)taps.tap[next_tap] * channels + next_part * BK;
        EVERY for (int i = 0; i < BN * 8 / THREADS; i++)
            copy_async(to + swapped(thread / 8 + i * (THREADS / 8), thread % 8),
                       a + i * rows_apart, 16);
        next++;
        if (++next_tap == count) { next_tap = 0; next_part++; }
    };

    EVERY for (int s = 0; s < STAGES - 1; s++) {
        if (s < min(parts, 2)) fetch_places(s);
        if (s < pieces) fetch_weights();
        copy_commit();
    }
    // While the tensor cores have one piece, the numbers of the next are read.
    float d[BN / 2] = {};
    unsigned one[BK / 8][4], other[BK / 8][4];
    int p = 0, tap = 0, part = 0;  // of the piece that is multiplied
    auto read = [&](unsigned (&a)[BK / 8][4], int tap, int part) {
        int away = taps.away[tap];
        const float* x = xs + part % 2 * PART + lane % 4 * PITCH;
        const float* x0 = x + (bits[0] >> tap & 1 ? start[0] + away : PITCH - 1);
        const float* x8 = x + (bits[1] >> tap & 1 ? start[1] + away : PITCH - 1);
        EVERY for (int i = 0; i < BK / 8; i++) {
            EVERY for (int h = 0; h < 2; h++) {
                a[i][h * 2] = bits_of(x0[(i * 8 + h * 4) * PITCH]);
                a[i][h * 2 + 1] = bits_of(x8[(i * 8 + h * 4) * PITCH]);
            }
        }
    };
    auto multiply = [&](unsigned (&a)[BK / 8][4], unsigned (&b)[BK / 8][4]) {
        unsigned long long right = described(address(shared + p % STAGES * PIECE));
        mma_begin();
        EVERY for (int i = 0; i < BK / 8; i++) mma_wide(d, a[i], right + 2 * i);
        mma_commit();
        if (count < STAGES - 2) copy_wait<0>();
        else copy_wait<STAGES - 3>();
        fence_copies();
        __syncthreads();
        if (next < pieces) fetch_weights();
        if (tap + 1 == count) {
            if (part + 2 < parts) fetch_places(part + 2);
            tap = 0;
            part++;
        } else {
            tap++;
        }
        copy_commit();
        if (++p < pieces) read(b, tap, part);
        mma_wait<0>();
    };
    copy_wait<STAGES - 2>();
    fence_copies();
    __syncthreads();
    if (pieces) read(one, 0, 0);
    while (p < pieces) {
        multiply(one, other);
        if (p < pieces) multiply(other, one);
    }

    EVERY for (int j = 0; j < BN / 8; j++) {
        EVERY for (int e = 0; e < 2; e++) {
            int r = first_row + j * 8 + lane % 4 * 2 + e;
            float more = bias ? bias[r] : 0.0f;
            EVERY for (int h = 0; h < 2; h++)
                if (out[h]) out[h][(i64)r * length] = d[j * 4 + h * 2 + e] + more;
        }
    }
}
