"""The CUDA C of convolutions in TF32 on Hopper's tensor cores, which read shared memory themselves.

The images lie by pixel (channels next to each other), so that 16 bytes are copied at a time; what
is made lies by channel, as elsewhere. Before it stand PRELUDE, MEANINGS and EACH of templates.py,
WINDOWS of conv.py, INSTRUCTIONS of products.py, and
- BM: rows of the result that a block makes, 64 for each four warps; STAGES: pieces read ahead
- BACK: 0 to make y from x, 1 to make x from y. There the places of x are taken by class: those
  that have the same remainders by the stride meet the same taps, and no others are looked at.
"""

from __future__ import annotations

COLUMNS = 128  # of the result that a block makes
DEPTH = 32  # of a piece: rows of 128 bytes, whose 16-byte parts are swapped by `x ^ (row % 8)`
MOST_TAPS = 32  # one bit each

BY_PIXEL = r"""
// (images, channels, places) as (images, places, channels), or by channel again.
extern "C" __global__ void __launch_bounds__(256) by_pixel(const float* __restrict__ x,
        float* __restrict__ y, int channels, int places) {
    __shared__ float tile[32][33];
    i64 image = blockIdx.z * (i64)channels * places;
    int p = blockIdx.x * 32 + threadIdx.x, c = blockIdx.y * 32;
    EVERY for (int i = threadIdx.y; i < 32; i += 8)
        if (p < places && c + i < channels)
            tile[i][threadIdx.x] = x[image + (i64)(c + i) * places + p];
    __syncthreads();
    p = blockIdx.x * 32;
    c += threadIdx.x;
    EVERY for (int i = threadIdx.y; i < 32; i += 8)
        if (p + i < places && c < channels)
            y[image + (i64)(p + i) * channels + c] = tile[threadIdx.x][i];
}
"""

HOPPER = (
    r"""
#define BN 128
#define BK 32
#define THREADS (BM * 2)
#define EVERY _Pragma("unroll")
#define STAGE ((BM + BN) * BK)
#define ROWS_APART (THREADS / 8)

#ifndef EMULATED
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
__device__ __forceinline__ void mma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}
#define D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D16(i) D4(i), D4(i + 4), D4(i + 8), D4(i + 12)
// d += a b, of 64 x 8 and 8 x 128 numbers in shared memory.
__device__ __forceinline__ void mma_wide(float (&d)[64], unsigned long long a,
        unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, 1, 1, 1;"
        : D16(0), D16(16), D16(32), D16(48)
        : "l"(a), "l"(b));
}
#endif
// How the tensor cores are told of rows of 128 bytes, swapped as above, in groups of eight.
__device__ __forceinline__ unsigned long long described(unsigned at) {
    return (unsigned long long)((at & 0x3ffff) >> 4) | 1ull << 16 | (1024ull >> 4) << 32
        | 1ull << 62;
}

// The places that one launch along z makes: along each dimension `first`, and then every `step`.
struct Class { int first[3], count[3], step[3], rest[3]; };
__device__ __forceinline__ Class class_of(const Windows& w) {
    Class c;
    int z = blockIdx.z;
    EVERY for (int d = 2; d >= 0; d--) {
        int stride = w.stride[d].by;
        if (BACK) {
            c.rest[d] = z % stride;
            z /= stride;
            c.first[d] = ((c.rest[d] - w.low[d]) % stride + stride) % stride;
            c.step[d] = stride;
            int left = (int)w.size[d].by - c.first[d];
            c.count[d] = left > 0 ? (left + stride - 1) / stride : 0;
        } else {
            c.rest[d] = c.first[d] = 0;
            c.step[d] = 1;
            c.count[d] = w.out[d].by;
        }
    }
    return c;
}
// How far from the place of tap 0 that of a tap is, counted in places; `meets` is whether the
// class meets it at all. `k` is where the tap is in the kernel.
__device__ __forceinline__ int offset(const Windows& w, const Class& c, const int* k, bool& meets) {
    int at = 0;
    meets = true;
    EVERY for (int d = 0; d < 3; d++) {
        int far = k[d] * w.dilation[d];
        if (BACK) {
            int stride = w.stride[d].by;
            meets &= (far - c.rest[d]) % stride == 0;
            at = at * (int)w.out[d].by - (far - c.rest[d]) / stride;
        } else {
            at = at * (int)w.size[d].by + far;
        }
    }
    return at;
}

// made (images, rows, its places) from given (images, its places, channels) and
// weights (rows, taps, channels). Rows are a multiple of BM, channels of BK.
extern "C" __global__ void __launch_bounds__(THREADS, BM == 64 ? 3 : 2) convolve_wide(
        const float* __restrict__ given, const float* __restrict__ weights,
        const float* __restrict__ bias, float* __restrict__ made,
        const __grid_constant__ Windows w, int rows, int channels, int images) {
    DYNAMIC_SHARED(float, room);
    float* shared = room + (1024 - address(room) % 1024) % 1024 / 4;
    const Class own = class_of(w);
    const Cut* from = BACK ? w.out : w.size;
    int inside = own.count[0] * own.count[1] * own.count[2];
    int columns = images * inside, first_column = blockIdx.x * BN;
    if (first_column >= columns) return;
    int thread = threadIdx.x, first_row = blockIdx.y * BM;
    int whole = volume(from), length = volume(BACK ? w.size : w.out);
    int taps = w.kernel[0] * w.kernel[1] * w.kernel[2];

    // The pixels that this thread copies: where they find tap 0, and which taps are inside.
    const int pixels = BN / ROWS_APART;
    int start[pixels];
    unsigned seen[pixels];
    EVERY for (int i = 0; i < pixels; i++) {
        int column = first_column + thread / 8 + i * ROWS_APART;
        bool real = column < columns;
        int image = real ? column / inside : 0, rest = real ? column % inside : 0, at[3], p = 0;
        EVERY for (int d = 2; d >= 0; d--) {
            int place = own.first[d] + rest % own.count[d] * own.step[d];
            rest /= own.count[d];
            at[d] = BACK ? (place + w.low[d] - own.rest[d]) / (int)w.stride[d].by
                         : place * (int)w.stride[d].by - w.low[d];
        }
        EVERY for (int d = 0; d < 3; d++) p = p * (int)from[d].by + at[d];
        start[i] = image * whole + p;
        unsigned bits = 0;
        for (int tap = 0; real && tap < taps; tap++) {
            int k[3] = {tap / (w.kernel[1] * w.kernel[2]), tap / w.kernel[2] % w.kernel[1],
                        tap % w.kernel[2]};
            bool fits = true;
            EVERY for (int d = 0; d < 3; d++) {
                int far = k[d] * w.dilation[d];
                int q = BACK ? at[d] - (far - own.rest[d]) / (int)w.stride[d].by : at[d] + far;
                fits &= (unsigned)q < from[d].by;
            }
            bits |= (unsigned)fits << tap;
        }
        seen[i] = bits;
    }

    // The next piece to be copied: a tap that the class meets, and a part of the channels.
    int tap = -1, channel = channels, away = 0, k[3] = {0, 0, -1};
    auto advance = [&]() {  // false if there is none
        channel += BK;
        if (channel < channels) return true;
        channel = 0;
        bool meets = false;
        while (!meets) {
            if (++tap >= taps) return false;
            if (++k[2] == w.kernel[2]) {
                k[2] = 0;
                if (++k[1] == w.kernel[1]) { k[1] = 0; k[0]++; }
            }
            away = offset(w, own, k, meets);
        }
        return true;
    };
    int part = thread % 8 * 4, row = thread / 8;
    int slot = row * BK + ((thread % 8) ^ (row % 8)) * 4;
    const float* own_weights = weights + (i64)(first_row + row) * taps * channels + part;
    auto fetch = [&](float* piece) {
        const float* a = own_weights + (i64)tap * channels + channel;
        EVERY for (int i = 0; i < BM / ROWS_APART; i++)
            copy_async(piece + slot + i * ROWS_APART * BK,
                       a + (i64)i * ROWS_APART * taps * channels, 16);
        float* b = piece + BM * BK;
        EVERY for (int i = 0; i < pixels; i++) {
            bool some = seen[i] >> tap & 1;
            const float* x = given + (i64)(start[i] + away) * channels + channel + part;
            copy_async(b + slot + i * ROWS_APART * BK, some ? x : given, some ? 16 : 0);
        }
    };

    int ahead = 0;  // pieces that are copied and not yet multiplied
    bool more = true;
    EVERY for (int s = 0; s < STAGES - 1; s++) {
        more = more && advance();
        if (more) { fetch(shared + s * STAGE); ahead++; }
        copy_commit();
    }
    float d[64] = {};
    int reading = 0, warps = thread / 128;
    while (ahead) {
        copy_wait<STAGES - 2>();
        mma_wait();
        fence_copies();
        __syncthreads();
        unsigned piece = address(shared + reading * STAGE);
        unsigned long long a = described(piece + warps * 64 * BK * 4);
        unsigned long long b = described(piece + BM * BK * 4);
        mma_begin();
        EVERY for (int i = 0; i < BK / 8; i++) mma_wide(d, a + 2 * i, b + 2 * i);
        mma_commit();
        more = more && advance();
        if (more) fetch(shared + (reading ? reading - 1 : STAGES - 1) * STAGE);
        else ahead--;
        copy_commit();
        reading = reading == STAGES - 1 ? 0 : reading + 1;
    }
    mma_wait();

    int lane = thread % 32, r = first_row + thread / 32 * 16 + lane / 4;
    float more_0 = bias ? bias[r] : 0.0f, more_8 = bias ? bias[r + 8] : 0.0f;
    EVERY for (int j = 0; j < BN / 8; j++) {
        EVERY for (int e = 0; e < 2; e++) {
            int column = first_column + j * 8 + lane % 4 * 2 + e;
            if (column >= columns) continue;
            int image = column / inside, rest = column % inside, place = rest;
            if (BACK) {
                int at[3];
                EVERY for (int x = 2; x >= 0; x--) {
                    at[x] = own.first[x] + rest % own.count[x] * own.step[x];
                    rest /= own.count[x];
                }
                place = (at[0] * (int)w.size[1].by + at[1]) * (int)w.size[2].by + at[2];
            }
            float* out = made + ((i64)image * rows + r) * length + place;
            out[0] = d[j * 4 + e] + more_0;
            out[(i64)8 * length] = d[j * 4 + 2 + e] + more_8;
        }
    }
}
"""
    + BY_PIXEL
)
