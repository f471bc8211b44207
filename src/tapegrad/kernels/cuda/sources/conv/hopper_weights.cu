// The gradient of the weights (hopper.cu). BQ: places that a block multiplies at a time.
#include "conv/hopper.cu"

#define EACH_GROUP 3
#define GROUPS 3
#define THREADS (128 * GROUPS)
#define STAGES 3
#define BM 64
#define BN 64
#define STAGE (BN * BQ + BM * PITCH)

// parts (blocks along z; features, taps, channels): the gradient of the weights, from the images of
// each block's share. y (images, features, its places), x (images, channels, its places); features
// and channels are multiples of 64, places of 4. A block makes 64 x 64 for nine taps, in pieces of
// BQ places of y and all of x that these meet.
extern "C" __global__ void __launch_bounds__(THREADS, 1) to_weights_wide(
        const float* __restrict__ y, const float* __restrict__ x, float* __restrict__ parts,
        const __grid_constant__ Windows w, int features, int channels, int images, int share) {
    DYNAMIC_SHARED(float, room);
    __shared__ Taps taps;
    float* shared = first_kilobyte(room);
    const Class own(w, false, 0);
    int thread = threadIdx.x, lane = thread % 32, warp = thread / 32, group = thread / 128;
    int across = channels / BM, first_channel = blockIdx.x % across * BM;
    int first_tap = blockIdx.x / across * (GROUPS * EACH_GROUP), first_row = blockIdx.y * BN;
    int length = volume(w.out), whole = volume(w.size);
    int image = blockIdx.z * share, end = min(images, image + share), from = 0;
    int pieces = max(end - image, 0) * ((length + BQ - 1) / BQ);
    list_taps(w, own, taps);
    for (int i = thread; i < BM * STAGES; i += THREADS)
        shared[i / BM * STAGE + BN * BQ + i % BM * PITCH + PITCH - 1] = 0;
    __syncthreads();
    int count = taps.count;

    int next = 0;
    auto fetch = [&]() {
        float* to = shared + next % STAGES * STAGE;
        const float* rows = y + ((i64)image * features + first_row) * length + from;
        for (int i = thread; i < BN * BQ / 4; i += THREADS) {
            int r = i / (BQ / 4), part = i % (BQ / 4);
            bool some = from + part * 4 < length;
            copy_async(to + part / 8 * (BN * BK) + swapped(r, part % 8),
                       some ? rows + (i64)r * length + part * 4 : y, some ? 16 : 0);
        }
        int at[3], place;
        own.find(w, from, at, place);
        int low = max(linear(w.size, at), 0) & ~3;
        own.find(w, min(from + BQ, length) - 1, at, place);
        int high = min(linear(w.size, at) + taps.high + 1, whole);
        int fours = max(high - low + 3, 0) / 4;
        const float* images_at = x + ((i64)image * channels + first_channel) * whole + low;
        float* xs = to + BN * BQ;
        for (int c = warp; c < BM; c += THREADS / 32) {
            for (int v = lane; v < fours; v += 32)
                copy_async(xs + c * PITCH + v * 4, images_at + (i64)c * whole + v * 4, 16);
        }
        if (thread < BQ) {
            int* info = (int*)(shared + STAGES * STAGE) + (next % STAGES * BQ + thread) * 2;
            bool real = from + thread < length;
            own.find(w, real ? from + thread : 0, at, place);
            info[0] = linear(w.size, at) - low;
            info[1] = real ? (int)seen(w.size, taps, at) : 0;
        }
        from += BQ;
        if (from >= length) { from = 0; image++; }
        next++;
    };

    int tap[EACH_GROUP], away[EACH_GROUP];
    EVERY for (int u = 0; u < EACH_GROUP; u++) {
        tap[u] = first_tap + group * EACH_GROUP + u;
        away[u] = tap[u] < count ? taps.away[tap[u]] : 0;
    }
    float d[EACH_GROUP][BN / 2] = {};
    unsigned left[2][EACH_GROUP][4];
    auto read = [&](unsigned (&a)[EACH_GROUP][4], int p, int i) {
        const float* xs = shared + p % STAGES * STAGE + BN * BQ
            + (warp % 4 * 16 + lane / 4) * PITCH;
        const int2* info = (const int2*)(shared + STAGES * STAGE) + p % STAGES * BQ + lane % 4;
        int2 near = info[i * 8], far = info[i * 8 + 4];
        EVERY for (int u = 0; u < EACH_GROUP; u++) {
            const float* x0 = xs + (near.y >> tap[u] & 1 ? near.x + away[u] : PITCH - 1);
            const float* x4 = xs + (far.y >> tap[u] & 1 ? far.x + away[u] : PITCH - 1);
            a[u][0] = bits_of(x0[0]);
            a[u][1] = bits_of(x0[8 * PITCH]);
            a[u][2] = bits_of(x4[0]);
            a[u][3] = bits_of(x4[8 * PITCH]);
        }
    };
    EVERY for (int s = 0; s < 2; s++) {
        if (s < pieces) fetch();
        copy_commit();
    }
    copy_wait<1>();
    fence_copies();
    __syncthreads();
    if (pieces) read(left[0], 0, 0);
    for (int p = 0; p < pieces; p++) {
        unsigned piece = address(shared + p % STAGES * STAGE);
        EVERY for (int i = 0; i < BQ / 8; i++) {
            unsigned long long b = described(piece + i / 4 * (BN * BK * 4)) + i % 4 * 2;
            mma_begin();
            EVERY for (int u = 0; u < EACH_GROUP; u++) mma_wide(d[u], left[i % 2][u], b);
            mma_commit();
            if (i + 1 < BQ / 8) {
                read(left[(i + 1) % 2], p, i + 1);
            } else {
                copy_wait<0>();
                fence_copies();
                __syncthreads();
                if (next < pieces) fetch();
                copy_commit();
                if (p + 1 < pieces) read(left[0], p + 1, 0);
            }
            mma_wait<0>();
        }
    }

    EVERY for (int u = 0; u < EACH_GROUP; u++) {
        if (tap[u] >= count) continue;
        EVERY for (int j = 0; j < BN / 8; j++) {
            EVERY for (int e = 0; e < 4; e++) {
                int f = first_row + j * 8 + lane % 4 * 2 + e % 2;
                int c = first_channel + warp % 4 * 16 + lane / 4 + e / 2 * 8;
                i64 at = (((i64)blockIdx.z * features + f) * count + tap[u]) * channels + c;
                parts[at] = d[u][j * 4 + e];
            }
        }
    }
}
