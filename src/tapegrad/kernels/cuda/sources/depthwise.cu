// Convolutions with one channel to a group: of one or two dimensions, not dilated.
//
// A block takes a tile of one plane, or of several small ones. The part of the image that the tile
// reads is put into shared memory once, with zeros around it; a thread then makes DOWN places below
// each other, so that a row that it has read is used for all of them. Kernel (KY, KX) and strides
// (SY, SX) are known to the compiler.
#include "windows.cu"

#define DYNAMIC_SHARED(type, name) extern __shared__ __align__(16) type name[]
#define THREADS 256
#define TAPS (KY * KX)
// `width` places across, `groups` times DOWN places down, of `planes` planes; what they meet are
// `met_down` rows of `met_across`. A plane has `across` tiles next to each other, `tiles` in all.
struct Tiles { Cut width, groups, met_across, met_down, across; unsigned planes, tiles; };

struct Tile { int y, x; };  // its first place
__device__ __forceinline__ Tile tile_at(const Tiles& t, unsigned i) {
    unsigned row = quotient(i, t.across);
    return {(int)(row * t.groups.by * DOWN), (int)((i - row * t.across.by) * t.width.by)};
}
// Some elements of shared memory by plane, row and column.
struct Place { unsigned plane, row, column; };
__device__ __forceinline__ Place place_of(unsigned i, const Cut& rows, const Cut& columns) {
    unsigned line = quotient(i, columns), plane = quotient(line, rows);
    return {plane, line - plane * rows.by, i - line * columns.by};
}
// THREADS places further, where `by` is place number THREADS: without a division.
__device__ __forceinline__ void go_on(Place& p, const Place& by, const Cut& rows,
        const Cut& columns) {
    p.column += by.column;
    p.row += by.row;
    p.plane += by.plane;
    if (p.column >= columns.by) { p.column -= columns.by; p.row++; }
    if (p.row >= rows.by) { p.row -= rows.by; p.plane++; }
}
// Fill `met` with what lies from (y, x) on; `plane_of` gives null for a plane that is not there.
template <typename Planes>
__device__ __forceinline__ void fill(A* met, const Tiles& t, int y, int x, const Cut& height,
        const Cut& width, Planes plane_of) {
    unsigned n = t.planes * t.met_down.by * t.met_across.by;
    Place p = place_of(threadIdx.x, t.met_down, t.met_across);
    const Place by = place_of(THREADS, t.met_down, t.met_across);
    #pragma unroll 4
    for (unsigned i = threadIdx.x; i < n; i += THREADS, go_on(p, by, t.met_down, t.met_across)) {
        const T* from = plane_of(p.plane);
        int v = y + (int)p.row, q = x + (int)p.column;
        A found = 0;
        if (from && within(v, height) && within(q, width)) found = LOAD(from + v * width.by + q);
        met[i] = found;
    }
}
__device__ __forceinline__ const A* met_at(const A* met, const Tiles& t, const Place& p, int by_y,
        int by_x) {
    unsigned row = p.plane * t.met_down.by + p.row * DOWN * by_y;
    return met + row * t.met_across.by + p.column * by_x;
}

// y from x; a feature's plane of y needs the plane of its channel, which has `times` features.
extern "C" __global__ void __launch_bounds__(THREADS) depthwise(const T* __restrict__ x,
        const T* __restrict__ weight, const T* __restrict__ bias, T* __restrict__ y, unsigned count,
        const __grid_constant__ Windows w, const __grid_constant__ Tiles t,
        const __grid_constant__ Cut features, const __grid_constant__ Cut times) {
    DYNAMIC_SHARED(A, taps);
    A* met = taps + t.planes * TAPS;
    unsigned first = blockIdx.x * t.planes, whole = volume(w.size);
    Tile tile = tile_at(t, blockIdx.y);
    for (unsigned i = threadIdx.x; i < t.planes * TAPS; i += THREADS) {
        unsigned plane = first + i / TAPS, o = plane - quotient(plane, features) * features.by;
        taps[i] = plane < count ? LOAD(weight + o * TAPS + i % TAPS) : (A)0;
    }
    fill(met, t, tile.y * SY - w.low[1], tile.x * SX - w.low[2], w.size[1], w.size[2],
         [&](unsigned p) -> const T* {
             unsigned plane = first + p;
             return plane < count ? x + (i64)quotient(plane, times) * whole : (const T*)0;
         });
    __syncthreads();
    unsigned n = t.planes * t.groups.by * t.width.by;
    for (unsigned i = threadIdx.x; i < n; i += THREADS) {
        Place p = place_of(i, t.groups, t.width);
        unsigned plane = first + p.plane;
        int row = tile.y + (int)p.row * DOWN, column = tile.x + (int)p.column;
        if (plane >= count || !within(column, w.out[2])) continue;
        unsigned o = plane - quotient(plane, features) * features.by;
        A total[DOWN];
        #pragma unroll
        for (int b = 0; b < DOWN; b++) total[b] = bias ? LOAD(bias + o) : (A)0;
        const A* from = met_at(met, t, p, SY, SX);
        const A* tap = taps + p.plane * TAPS;
        #pragma unroll
        for (int r = 0; r < (DOWN - 1) * SY + KY; r++) {
            #pragma unroll
            for (int kx = 0; kx < KX; kx++) {
                A v = from[r * t.met_across.by + kx];
                #pragma unroll
                for (int b = 0; b < DOWN; b++) {
                    int ky = r - b * SY;
                    if (ky >= 0 && ky < KY) total[b] += v * tap[ky * KX + kx];
                }
            }
        }
        T* to = y + ((i64)plane * w.out[1].by + row) * w.out[2].by + column;
        #pragma unroll
        for (int b = 0; b < DOWN; b++)
            if (within(row + b, w.out[1])) STORE(to + b * w.out[2].by, total[b]);
    }
}

// x from y. Place p of x, `low` further on, is number p / S * S + p % S: the taps p % S, p % S + S,
// ... meet it, and window p / S is the first of theirs. A thread makes all places of a window.
#define MORE_Y ((KY - 1) / SY)
#define MORE_X ((KX - 1) / SX)
extern "C" __global__ void __launch_bounds__(THREADS) depthwise_back(const T* __restrict__ y,
        const T* __restrict__ weight, const T* __restrict__ bias, T* __restrict__ x, unsigned count,
        const __grid_constant__ Windows w, const __grid_constant__ Tiles t,
        const __grid_constant__ Cut channels, unsigned times) {
    DYNAMIC_SHARED(A, taps);
    A* met = taps + t.planes * TAPS;
    unsigned first = blockIdx.x * t.planes, length = volume(w.out);
    Tile tile = tile_at(t, blockIdx.y);
    int top = w.low[1] / SY + tile.y, left = w.low[2] / SX + tile.x;
    unsigned n = t.planes * t.groups.by * t.width.by;
    for (unsigned begin = 0; begin < n; begin += THREADS) {
        unsigned i = begin + threadIdx.x;
        Place p = place_of(i, t.groups, t.width);
        unsigned plane = first + p.plane;
        unsigned c = plane - quotient(plane, channels) * channels.by;
        bool inside = i < n && plane < count;
        A total[DOWN][SY][SX];
        #pragma unroll
        for (int b = 0; b < DOWN * SY * SX; b++)
            total[b / (SY * SX)][b / SX % SY][b % SX] = bias && inside ? LOAD(bias + c) : (A)0;
        for (unsigned j = 0; j < times; j++) {
            if (begin == 0 || times > 1) {
                __syncthreads();
                for (unsigned k = threadIdx.x; k < t.planes * TAPS; k += THREADS) {
                    unsigned own = first + k / TAPS;
                    unsigned o = (own - quotient(own, channels) * channels.by) * times + j;
                    taps[k] = own < count ? LOAD(weight + o * TAPS + k % TAPS) : (A)0;
                }
                fill(met, t, top - MORE_Y, left - MORE_X, w.out[1], w.out[2],
                     [&](unsigned q) -> const T* {
                         i64 own = (i64)(first + q) * times + j;
                         return first + q < count ? y + own * length : (const T*)0;
                     });
                __syncthreads();
            }
            if (!inside) continue;
            const A* from = met_at(met, t, p, 1, 1);
            const A* tap = taps + p.plane * TAPS;
            #pragma unroll
            for (int r = DOWN - 1 + MORE_Y; r >= 0; r--) {
                #pragma unroll
                for (int q = MORE_X; q >= 0; q--) {
                    A v = from[r * t.met_across.by + q];
                    #pragma unroll
                    for (int b = 0; b < DOWN; b++) {
                        #pragma unroll
                        for (int e = 0; e < SY * SX; e++) {
                            int ky = (b + MORE_Y - r) * SY + e / SX;
                            int kx = (MORE_X - q) * SX + e % SX;
                            if (ky >= 0 && ky < KY && kx < KX && r <= b + MORE_Y)
                                total[b][e / SX][e % SX] += v * tap[ky * KX + kx];
                        }
                    }
                }
            }
        }
        if (!inside) continue;
        int row = (top + (int)p.row * DOWN) * SY - w.low[1];
        int column = (left + (int)p.column) * SX - w.low[2];
        T* to = x + ((i64)plane * w.size[1].by + row) * w.size[2].by + column;
        #pragma unroll
        for (int b = 0; b < DOWN * SY; b++, to += w.size[2].by) {
            #pragma unroll
            for (int e = 0; e < SX; e++)
                if (within(row + b, w.size[1]) && within(column + e, w.size[2]))
                    STORE(to + e, total[b / SY][b % SY][e]);
        }
    }
}

// The weights of feature blockIdx.x, from a share of the images: `shares` runs of tiles, blockIdx.y
// has one of them. parts (shares, features, TAPS).
extern "C" __global__ void __launch_bounds__(THREADS) depthwise_weight(const T* __restrict__ x,
        const T* __restrict__ y, A* __restrict__ parts, unsigned images, unsigned share,
        const __grid_constant__ Windows w, const __grid_constant__ Tiles t,
        const __grid_constant__ Cut times) {
    DYNAMIC_SHARED(A, met);
    __shared__ A sums[TAPS][THREADS / 32];
    unsigned o = blockIdx.x, features = gridDim.x, whole = volume(w.size), length = volume(w.out);
    unsigned c = quotient(o, times), channels = quotient(features, times);
    unsigned runs = (images + t.planes - 1) / t.planes * t.tiles;
    unsigned n = t.planes * t.groups.by * t.width.by;
    A total[TAPS];
    #pragma unroll
    for (int k = 0; k < TAPS; k++) total[k] = 0;
    for (unsigned run = blockIdx.y * share; run < runs && run < (blockIdx.y + 1) * share; run++) {
        unsigned first = run / t.tiles * t.planes;
        Tile tile = tile_at(t, run % t.tiles);
        __syncthreads();
        fill(met, t, tile.y * SY - w.low[1], tile.x * SX - w.low[2], w.size[1], w.size[2],
             [&](unsigned p) -> const T* {
                 i64 plane = (i64)(first + p) * channels + c;
                 return first + p < images ? x + plane * whole : (const T*)0;
             });
        __syncthreads();
        for (unsigned i = threadIdx.x; i < n; i += THREADS) {
            Place p = place_of(i, t.groups, t.width);
            int row = tile.y + (int)p.row * DOWN, column = tile.x + (int)p.column;
            if (first + p.plane >= images || !within(column, w.out[2])) continue;
            const T* own = y + ((i64)(first + p.plane) * features + o) * length
                + (i64)row * w.out[2].by + column;
            A g[DOWN];
            #pragma unroll
            for (int b = 0; b < DOWN; b++)
                g[b] = within(row + b, w.out[1]) ? LOAD(own + b * w.out[2].by) : (A)0;
            const A* from = met_at(met, t, p, SY, SX);
            #pragma unroll
            for (int r = 0; r < (DOWN - 1) * SY + KY; r++) {
                #pragma unroll
                for (int kx = 0; kx < KX; kx++) {
                    A v = from[r * t.met_across.by + kx];
                    #pragma unroll
                    for (int b = 0; b < DOWN; b++) {
                        int ky = r - b * SY;
                        if (ky >= 0 && ky < KY) total[ky * KX + kx] += v * g[b];
                    }
                }
            }
        }
    }
    #pragma unroll
    for (int k = 0; k < TAPS; k++) {
        A sum = warp_sum(total[k]);
        if (threadIdx.x % 32 == 0) sums[k][threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x < TAPS) {
        A sum = 0;
        for (int i = 0; i < THREADS / 32; i++) sum += sums[threadIdx.x][i];
        parts[((i64)blockIdx.y * features + o) * TAPS + threadIdx.x] = sum;
    }
}
