// Convolutions in TF32 on Hopper's tensor cores, which read one factor from shared memory by
// themselves and the other from registers.
//
// The factor in registers may lie anywhere: images are read as they are, at the distance of a tap,
// and places outside are read from a zero after each channel. So a block has all that its places
// need in shared memory once, for all taps. PITCH: how far apart channels lie in shared memory.
// PLACES or WEIGHTS is defined: what is made.
#include "windows.cu"
#include "instructions.cu"

#define EVERY _Pragma("unroll")
#define BK 32

__device__ __forceinline__ unsigned address(const void* shared) {
    return (unsigned)__cvta_generic_to_shared(shared);
}
// What threads have copied is seen by the tensor cores.
__device__ __forceinline__ void fence_copies() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void mma_begin() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void mma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Wait until all but the newest N groups of products are done.
template <int N> __device__ __forceinline__ void mma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory");
}
#define D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D16(i) D4(i), D4(i + 4), D4(i + 8), D4(i + 12)
// d += a b, of 64 x 8 numbers in registers and 8 x 64 (or 128) in shared memory.
__device__ __forceinline__ void mma_wide(float (&d)[32], const unsigned (&a)[4],
        unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, 1, 1, 1;"
        : D16(0), D16(16) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ __forceinline__ void mma_wide(float (&d)[64], const unsigned (&a)[4],
        unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, 1, 1, 1;"
        : D16(0), D16(16), D16(32), D16(48)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
// How the tensor cores are told of rows of 128 bytes, in groups of eight.
__device__ __forceinline__ unsigned long long described(unsigned at) {
    return (unsigned long long)((at & 0x3ffff) >> 4) | 1ull << 16 | (1024ull >> 4) << 32
        | 1ull << 62;
}
// Where 16 bytes of such a row are: swapped by `x ^ (row % 8)`.
__device__ __forceinline__ int swapped(int row, int part) {
    return row * BK + (part ^ (row % 8)) * 4;
}
__device__ __forceinline__ unsigned bits_of(float x) { return __float_as_uint(x); }
__device__ __forceinline__ float* first_kilobyte(float* room) {
    return room + (1024 - address(room) % 1024) % 1024 / 4;
}

// Places that are made, and where they find what they are made of. Without `back` that is y from x.
// With it, x from y, places are taken by class: those that have the same remainders by the stride
// meet the same taps, and no others are looked at.
struct Class {
    int first[3], count[3], step[3], rest[3];
    bool back;
    __device__ __forceinline__ Class(const Windows& w, bool back, int z) : back(back) {
        EVERY for (int d = 2; d >= 0; d--) {
            int stride = w.stride[d].by;
            rest[d] = first[d] = 0;
            step[d] = 1;
            count[d] = w.out[d].by;
            if (back) {
                rest[d] = z % stride;
                z /= stride;
                first[d] = ((rest[d] - w.low[d]) % stride + stride) % stride;
                step[d] = stride;
                int left = (int)w.size[d].by - first[d];
                count[d] = left > 0 ? (left + stride - 1) / stride : 0;
            }
        }
    }
    __device__ __forceinline__ int inside() const { return count[0] * count[1] * count[2]; }
    // How far along a dimension tap k is from tap 0; `meets` is whether the class meets it.
    __device__ __forceinline__ int away(const Windows& w, int d, int k, bool& meets) const {
        int far = k * w.dilation[d];
        if (!back) return far;
        int stride = w.stride[d].by;
        meets &= (far - rest[d]) % stride == 0;
        return -((far - rest[d]) / stride);
    }
    // Where place `i` of the class finds tap 0 along each dimension; its own place is `made`.
    __device__ __forceinline__ void find(const Windows& w, int i, int* at, int& made) const {
        int place[3];
        EVERY for (int d = 2; d >= 0; d--) {
            int next = back ? i / count[d] : (int)quotient(i, w.out[d]);
            place[d] = first[d] + (i - next * count[d]) * step[d];
            i = next;
            at[d] = back ? (place[d] + w.low[d] - rest[d]) / (int)w.stride[d].by
                         : place[d] * (int)w.stride[d].by - w.low[d];
        }
        const Cut* to = back ? w.size : w.out;
        made = (place[0] * (int)to[1].by + place[1]) * (int)to[2].by + place[2];
    }
};
// The taps that a class meets: which, how far each is from tap 0, along dimensions and in all.
struct Taps { int count, low, high, tap[32], away[32], along[32][3]; };  // low, high: of `away`

// List them, by the first warp.
__device__ __forceinline__ void list_taps(const Windows& w, const Class& own, Taps& taps) {
    if (threadIdx.x >= 32) return;
    int tap = threadIdx.x, wide = w.kernel[2], area = w.kernel[1] * wide;
    const Cut* from = own.back ? w.out : w.size;
    bool meets = tap < w.kernel[0] * area;
    int k[3] = {tap / area, tap % area / wide, tap % wide}, along[3], away = 0;
    EVERY for (int d = 0; d < 3; d++) {
        along[d] = own.away(w, d, k[d], meets);
        away = away * (int)from[d].by + along[d];
    }
    unsigned all = __ballot_sync(0xffffffffu, meets);
    int i = __popc(all & ((1u << tap) - 1));
    if (meets) {
        taps.tap[i] = tap;
        taps.away[i] = away;
        EVERY for (int d = 0; d < 3; d++) taps.along[i][d] = along[d];
    }
    __syncwarp();
    if (tap == 0) {
        int n = taps.count = __popc(all);
        taps.low = n ? min(taps.away[0], taps.away[n - 1]) : 0;
        taps.high = n ? max(taps.away[0], taps.away[n - 1]) : 0;
    }
}
// Which of the listed taps lie inside, one bit each.
__device__ __forceinline__ unsigned seen(const Cut* from, const Taps& taps, const int* at) {
    unsigned bits = 0;
    for (int i = 0; i < taps.count; i++) {
        bool fits = true;
        EVERY for (int d = 0; d < 3; d++)
            fits &= (unsigned)(at[d] + taps.along[i][d]) < from[d].by;
        bits |= (unsigned)fits << i;
    }
    return bits;
}
__device__ __forceinline__ int linear(const Cut* sizes, const int* at) {
    return (at[0] * (int)sizes[1].by + at[1]) * (int)sizes[2].by + at[2];
}

#ifdef PLACES
// y from x, or x from y (hopper.cu). BN: features that a block makes; GROUPS: groups of four warps,
// with 64 places each.
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
#endif

#ifdef WEIGHTS
// The gradient of the weights (hopper.cu). BQ: places that a block multiplies at a time.
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
#endif
