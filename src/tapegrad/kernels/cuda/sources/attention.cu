// Attention: scores are in registers only, in blocks of queries times keys.
//
// Four warps have 16 rows each of a block of 64 (ROWS); the other side comes in tiles of fewer
// rows: KEYS, or QUERIES. KIND: 0 for float32, 1 for float16, 2 for bfloat16. WIDTH: that of a head
// in shared memory, where narrower ones end in zeros.
#include "prelude.cu"

typedef unsigned char byte;
#define DYNAMIC_SHARED(type, name) extern __shared__ __align__(16) type name[]
__device__ __forceinline__ unsigned shared_address(const void* p) {
    return (unsigned)__cvta_generic_to_shared(p);
}
// 16 bytes to shared memory, zeros after the first `count`; there after `copies_done`.
__device__ __forceinline__ void copy16(void* to, const void* from, int count) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(shared_address(to)), "l"(from), "r"(count) : "memory");
}
__device__ __forceinline__ void copies_end() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
// All groups of copies but the last `LEFT` are there.
template <int LEFT> __device__ __forceinline__ void copies_done() {
    asm volatile("cp.async.wait_group %0;" :: "n"(LEFT) : "memory");
}
__device__ __forceinline__ void matrices(unsigned* r, const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row))
                 : "memory");
}
__device__ __forceinline__ void matrices_turned(unsigned* r, const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row))
                 : "memory");
}
__device__ __forceinline__ float power_of_two(float x) {
    float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y;
}
// c += a * b in the tensor cores: 16 x 8 by 8 x 8 of TF32, or 16 x 16 by 16 x 8 of half precision.
__device__ __forceinline__ void multiply(float* c, const unsigned* a, const unsigned* b) {
#if KIND == 0
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
#elif KIND == 1
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
#else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
#endif
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// Two numbers in half precision, the first in the lower bits.
__device__ __forceinline__ unsigned packed(float first, float second) {
    unsigned r;
#if KIND == 1
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(second), "f"(first));
#else
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(second), "f"(first));
#endif
    return r;
}

#define ITEM ((int)sizeof(T))
#define STEP (WIDTH * ITEM + 16)  // bytes from row to row in shared memory: no two in one bank
#define WIDE (WIDTH / 8)
// How many blocks a processor is to run at once, where a few registers less allow for one more.
#if WIDTH <= 64
#define BOUNDS(blocks) __launch_bounds__(THREADS, blocks)
#else
#define BOUNDS(blocks) __launch_bounds__(THREADS)
#endif
#define LOG2E 1.4426950408889634f
#define LANE (threadIdx.x % 32)
// Which 16 rows a warp has: in turns, as causal attention has least to do for the first of them and
// a warp's number also says on which part of the processor it runs.
#define WARP ((threadIdx.x / 32 + blockIdx.x) % 4)
#define GROUP (LANE / 4)  // the row (and GROUP + 8) that a thread has of a result of `multiply`
#define PAIR (LANE % 4 * 2)  // and its columns, with the next one

// How arrays lie in memory, in elements: [array][sample, head, row].
struct Plan {
    i64 step[7][3]; i64 mask[4];
    int heads, queries, keys, width, causal, aligned, wide_mask; float scale;
};
enum Array { QUERY, KEY, VALUE, OUT, TO_QUERY, TO_KEY, TO_VALUE };

__device__ __forceinline__ i64 start(const Plan& plan, int array) {
    int sample = blockIdx.x / plan.heads, head = blockIdx.x % plan.heads;
    return sample * plan.step[array][0] + head * plan.step[array][1];
}

// Rows of an array into shared memory, zeros where there are none.
template <int COUNT> __device__ __forceinline__ void fetch(byte* tile, const T* from, int array,
        int first, int rows, const Plan& plan) {
    const int chunks = WIDTH * ITEM / 16, jump = THREADS / chunks;
    int row = threadIdx.x / chunks, place = threadIdx.x % chunks * 16;
    int count = min(16, max(0, plan.width * ITEM - place));  // bytes that there are
    const i64 step = plan.step[array][2];
    const T* source = from + (first + row) * step + place / ITEM;
    byte* to = tile + row * STEP + place;
    #pragma unroll 1
    for (; row < COUNT; row += jump, source += jump * step, to += jump * STEP) {
        int some = first + row < rows ? count : 0;
        if (plan.aligned) copy16(to, source, some);
        else for (int e = 0; e < 16 / ITEM; e++)
            ((T*)to)[e] = e * ITEM < some ? source[e] : (T)0;
    }
}

#if KIND == 0
// Numbers as two of TF32 each, whose bits below the upper 19 are not read.
template <int N> __device__ __forceinline__ void split(const unsigned* x, unsigned* upper,
        unsigned* lower) {
    #pragma unroll
    for (int i = 0; i < N; i++) {
        upper[i] = (x[i] + 0x1000u) & 0xffffe000u;
        lower[i] = __float_as_uint(__uint_as_float(x[i]) - __uint_as_float(upper[i]));
    }
}
// Two steps of a product in single precision. Tensor cores cut off what they add up, so chains are
// short, begin with the small parts, and are added to the sum outside.
struct Left { unsigned upper[8], lower[8]; };
__device__ __forceinline__ void multiply_two(float* sum, const Left& a, const unsigned* b) {
    unsigned upper[4], lower[4]; float c[4] = {0, 0, 0, 0};
    split<4>(b, upper, lower);
    multiply(c, a.lower, upper); multiply(c, a.lower + 4, upper + 2);
    multiply(c, a.upper, lower); multiply(c, a.upper + 4, lower + 2);
    multiply(c, a.upper, upper); multiply(c, a.upper + 4, upper + 2);
    #pragma unroll
    for (int i = 0; i < 4; i++) sum[i] += c[i];
}
__device__ __forceinline__ void prepare(Left& a, const unsigned* x) {
    split<8>(x, a.upper, a.lower);
}
#else
struct Left { unsigned x[8]; };
__device__ __forceinline__ void multiply_two(float* sum, const Left& a, const unsigned* b) {
    multiply(sum, a.x, b); multiply(sum, a.x + 4, b + 2);
}
__device__ __forceinline__ void prepare(Left& a, const unsigned* x) {
    #pragma unroll
    for (int i = 0; i < 8; i++) a.x[i] = x[i];
}
#endif

// sum[row][column] = the warp's 16 rows of `left` times the rows of `right`.
template <int N> __device__ __forceinline__ void rows_by_rows(float (&sum)[N][4],
        const byte* left, const byte* right) {
    // What a lane points `matrices` at: its row, and the 16 bytes of it.
    const byte* a = left + (WARP * 16 + LANE % 16) * STEP + LANE / 16 * 16;
    const byte* b = right + LANE % 8 * STEP + LANE / 8 * 16;
    #pragma unroll
    for (int n = 0; n < N; n++) sum[n][0] = sum[n][1] = sum[n][2] = sum[n][3] = 0;
    #pragma unroll 2
    for (int place = 0; place < WIDTH * ITEM; place += 64) {
        unsigned x[8]; Left l;
        matrices(x, a + place); matrices(x + 4, a + place + 32);
        prepare(l, x);
        #pragma unroll
        for (int n = 0; n < N; n++) {
            unsigned y[4];
            matrices(y, b + n * 8 * STEP + place);
            multiply_two(sum[n], l, y);
        }
    }
}

// sum[row][width] += weights[row][column] times the rows of `right`; there are no weights from
// column `end` on. A thread has the weights just where the tensor cores want them (in single
// precision with columns 2i, 2i + 1 for i, i + 4).
template <int N> __device__ __forceinline__ void weights_by_rows(float (*sum)[4],
        const float (&weights)[N][4], const byte* right, int end) {
    #pragma unroll
    for (int n = 0; n < N; n += 2) {
        if (n * 8 >= end) continue;
#if KIND == 0
        Left l; unsigned x[8];
        #pragma unroll
        for (int i = 0; i < 8; i++)
            x[i] = __float_as_uint(weights[n + i / 4][(i & 1) * 2 + (i >> 1 & 1)]);
        prepare(l, x);
        const byte* b = right + (n * 8 + PAIR) * STEP + GROUP * 4;
        #pragma unroll
        for (int w = 0; w < WIDE; w++) {
            unsigned y[4];
            #pragma unroll
            for (int i = 0; i < 4; i++)
                y[i] = *(const unsigned*)(b + ((i / 2) * 8 + i % 2) * STEP + w * 32);
            multiply_two(sum[w], l, y);
        }
#else
        unsigned x[4];
        #pragma unroll
        for (int i = 0; i < 4; i++)
            x[i] = packed(weights[n + i / 2][i % 2 * 2], weights[n + i / 2][i % 2 * 2 + 1]);
        const byte* b = right + (n * 8 + LANE % 16) * STEP + LANE / 16 * 16;
        #pragma unroll
        for (int w = 0; w < WIDE; w += 2) {
            unsigned y[4];
            matrices_turned(y, b + w * 16);
            multiply(sum[w], x, y); multiply(sum[w + 1], x, y + 2);
        }
#endif
    }
}

// Rows of a result, times a factor each.
__device__ __forceinline__ void store(T* out, int array, const float (*sum)[4], int first, int rows,
        const float* factor, const Plan& plan) {
    #pragma unroll
    for (int half = 0; half < 2; half++) {
        int row = first + WARP * 16 + GROUP + half * 8;
        if (row >= rows) continue;
        T* to = out + row * plan.step[array][2] + PAIR;
        #pragma unroll
        for (int w = 0; w < WIDE; w++) {
            float a = sum[w][half * 2] * factor[half], b = sum[w][half * 2 + 1] * factor[half];
            int left = plan.width - w * 8 - PAIR;
            if (plan.width % 2 == 0) {  // our own arrays: pairs are aligned
#if KIND == 0
                if (left > 0) *(float2*)(to + w * 8) = make_float2(a, b);
#else
                if (left > 0) *(unsigned*)(to + w * 8) = packed(a, b);
#endif
            } else {
                if (left > 0) STORE(to + w * 8, a);
                if (left > 1) STORE(to + w * 8 + 1, b);
            }
        }
    }
}

// From products to scores: scaled, masked, and minus infinity where a key is not seen.
// TURNED: the rows are keys.
template <bool TURNED, int N> __device__ __forceinline__ void score(float (&s)[N][4],
        const T* mask, int first_row, int first_column, const Plan& plan) {
    int first_query = TURNED ? first_column : first_row;
    int first_key = TURNED ? first_row : first_column;
    int end = first_key + (TURNED ? ROWS : N * 8);
    bool whole = end <= plan.keys && (!plan.causal || end <= first_query + 1);
    const float scale = plan.scale;
    if (whole && !mask) {
        #pragma unroll
        for (int n = 0; n < N; n++) {
            #pragma unroll
            for (int i = 0; i < 4; i++) s[n][i] *= scale;
        }
        return;
    }
    int own_row = first_row + WARP * 16 + GROUP;
    #pragma unroll
    for (int n = 0; n < N; n++) {
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            int row = own_row + i / 2 * 8, column = first_column + n * 8 + PAIR + i % 2;
            int query = TURNED ? column : row, key = TURNED ? row : column;
            float x = s[n][i] * scale;
            if (key >= plan.keys || (plan.causal && key > query)) x = -INFINITY;
            else if (mask && query < plan.queries) {
                i64 place = query * plan.mask[2] + key * plan.mask[3];
                x += plan.wide_mask ? ((const float*)mask)[place] : LOAD(mask + place);
            }
            s[n][i] = x;
        }
    }
}

__device__ __forceinline__ const T* mask_of_head(const T* mask, const Plan& plan) {
    if (!mask) return 0;
    i64 place = blockIdx.x / plan.heads * plan.mask[0] + blockIdx.x % plan.heads * plan.mask[1];
    return plan.wide_mask ? (const T*)((const float*)mask + place) : mask + place;
}

__device__ __forceinline__ float exponential(float x) { return power_of_two(x * LOG2E); }
// Over the four threads that share a row.
__device__ __forceinline__ float row_sum(float x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// What softmax has seen of the rows of a thread: the largest score, and the sum of exponentials of
// the scores minus it (this thread's part of it).
struct Softmax { float most[2], total[2]; };

// Scores to exponentials; what was summed up before is to be multiplied by `factor`.
template <int N> __device__ __forceinline__ void advance(Softmax& state, float (&s)[N][4],
        float* factor) {
    #pragma unroll
    for (int half = 0; half < 2; half++) {
        float most = state.most[half];
        #pragma unroll
        for (int n = 0; n < N; n++)
            most = fmaxf(most, fmaxf(s[n][half * 2], s[n][half * 2 + 1]));
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
        float shift = most == -INFINITY ? 0 : most, total = 0;
        factor[half] = exponential(state.most[half] - shift);
        #pragma unroll
        for (int n = 0; n < N; n++) {
            #pragma unroll
            for (int i = half * 2; i < half * 2 + 2; i++) {
                s[n][i] = exponential(s[n][i] - shift); total += s[n][i];
            }
        }
        state.most[half] = most; state.total[half] = state.total[half] * factor[half] + total;
    }
}
__device__ __forceinline__ float inverse(float total) { return total == 0 ? 0 : 1 / total; }

extern "C" __global__ void BOUNDS(4) attend(const T* __restrict__ query,
        const T* __restrict__ key, const T* __restrict__ value, const T* __restrict__ mask,
        T* __restrict__ out, const Plan plan) {
    DYNAMIC_SHARED(byte, memory);
    byte *q = memory, *k = q + ROWS * STEP, *v = k + KEYS * STEP;
    int first = (gridDim.y - 1 - blockIdx.y) * ROWS;  // where most keys are seen first
    int end = plan.causal ? min(plan.keys, first + ROWS) : plan.keys;
    key += start(plan, KEY); value += start(plan, VALUE); mask = mask_of_head(mask, plan);
    Softmax state = {{-INFINITY, -INFINITY}, {0, 0}};
    float sum[WIDE][4] = {}, s[KEYS / 8][4], factor[2];
    fetch<ROWS>(q, query + start(plan, QUERY), QUERY, first, plan.queries, plan);
    fetch<KEYS>(k, key, KEY, 0, plan.keys, plan);
    copies_end();
    for (int column = 0; column < end; column += KEYS) {
        copies_done<0>();
        __syncthreads();  // the keys are there, and the values before them are done with
        fetch<KEYS>(v, value, VALUE, column, plan.keys, plan);
        copies_end();
        rows_by_rows(s, q, k);
        score<false>(s, mask, first, column, plan);
        advance(state, s, factor);
        #pragma unroll
        for (int w = 0; w < WIDE; w++) {
            #pragma unroll
            for (int i = 0; i < 4; i++) sum[w][i] *= factor[i / 2];
        }
        __syncthreads();  // the keys are done with
        if (column + KEYS < end) fetch<KEYS>(k, key, KEY, column + KEYS, plan.keys, plan);
        copies_end();
        copies_done<1>();
        __syncthreads();  // the values are there
        weights_by_rows(sum, s, v, plan.causal ? first + WARP * 16 + 16 - column : KEYS);
    }
    for (int half = 0; half < 2; half++) factor[half] = inverse(row_sum(state.total[half]));
    store(out + start(plan, OUT), OUT, sum, first, plan.queries, factor, plan);
}

// The gradient of the queries. For `attend_back_keys` it leaves for every query the largest score,
// the inverse of the sum of exponentials, and the mean of the weights' gradients.
extern "C" __global__ void BOUNDS(3) attend_back_queries(
        const T* __restrict__ grad, const T* __restrict__ query, const T* __restrict__ key,
        const T* __restrict__ value, const T* __restrict__ mask, T* __restrict__ to_query,
        float* __restrict__ stats, const Plan plan) {
    DYNAMIC_SHARED(byte, memory);
    byte *q = memory, *g = q + ROWS * STEP, *k = g + ROWS * STEP, *v = k + KEYS * STEP;
    int first = (gridDim.y - 1 - blockIdx.y) * ROWS;
    int end = plan.causal ? min(plan.keys, first + ROWS) : plan.keys;
    int tiles = (end + KEYS - 1) / KEYS;
    key += start(plan, KEY); value += start(plan, VALUE); mask = mask_of_head(mask, plan);
    Softmax state = {{-INFINITY, -INFINITY}, {0, 0}};
    float mean[2] = {0, 0}, factor[2], shift[2];
    float sum[WIDE][4] = {}, s[KEYS / 8][4], d[KEYS / 8][4];
    fetch<ROWS>(q, query + start(plan, QUERY), QUERY, first, plan.queries, plan);
    fetch<ROWS>(g, grad + start(plan, OUT), OUT, first, plan.queries, plan);
    fetch<KEYS>(k, key, KEY, 0, plan.keys, plan);
    fetch<KEYS>(v, value, VALUE, 0, plan.keys, plan);
    copies_end();
    // Up the keys for what softmax divides by, and down again (the last tile is still there).
    for (int step = 0; step < tiles; step++) {
        int column = step * KEYS;
        copies_done<0>();
        __syncthreads();
        rows_by_rows(s, q, k);
        rows_by_rows(d, g, v);
        __syncthreads();
        if (step + 1 < tiles) {
            fetch<KEYS>(k, key, KEY, column + KEYS, plan.keys, plan);
            fetch<KEYS>(v, value, VALUE, column + KEYS, plan.keys, plan);
        }
        copies_end();
        score<false>(s, mask, first, column, plan);
        advance(state, s, factor);
        #pragma unroll
        for (int half = 0; half < 2; half++) {
            mean[half] *= factor[half];
            #pragma unroll
            for (int n = 0; n < KEYS / 8; n++) {
                #pragma unroll
                for (int i = half * 2; i < half * 2 + 2; i++) mean[half] += s[n][i] * d[n][i];
            }
        }
    }
    for (int half = 0; half < 2; half++) {
        shift[half] = state.most[half] == -INFINITY ? 0 : state.most[half];
        factor[half] = inverse(row_sum(state.total[half]));
        mean[half] = row_sum(mean[half]) * factor[half];
        int row = first + WARP * 16 + GROUP + half * 8;
        if (PAIR == 0 && row < plan.queries) {
            float* own = stats + ((i64)blockIdx.x * plan.queries + row) * 3;
            own[0] = shift[half]; own[1] = factor[half]; own[2] = mean[half];
        }
    }
    for (int step = tiles - 1; step >= 0; step--) {
        int column = step * KEYS;
        copies_done<0>();
        __syncthreads();
        rows_by_rows(s, q, k);
        rows_by_rows(d, g, v);
        score<false>(s, mask, first, column, plan);
        #pragma unroll
        for (int n = 0; n < KEYS / 8; n++) {
            #pragma unroll
            for (int i = 0; i < 4; i++)
                s[n][i] = exponential(s[n][i] - shift[i / 2]) * factor[i / 2]
                          * (d[n][i] - mean[i / 2]);
        }
        __syncthreads();
        if (step) fetch<KEYS>(v, value, VALUE, column - KEYS, plan.keys, plan);
        weights_by_rows(sum, s, k, plan.causal ? first + WARP * 16 + 16 - column : KEYS);
        __syncthreads();
        if (step) fetch<KEYS>(k, key, KEY, column - KEYS, plan.keys, plan);
        copies_end();
    }
    factor[0] = factor[1] = plan.scale;
    store(to_query + start(plan, TO_QUERY), TO_QUERY, sum, first, plan.queries, factor, plan);
}

// The gradients of keys and values; rows are keys, columns queries.
extern "C" __global__ void BOUNDS(KIND ? 4 : 3) attend_back_keys(
        const T* __restrict__ grad, const T* __restrict__ query, const T* __restrict__ key,
        const T* __restrict__ value, const T* __restrict__ mask, const float* __restrict__ stats,
        T* __restrict__ to_key, T* __restrict__ to_value, const Plan plan) {
    DYNAMIC_SHARED(byte, memory);
    byte *k = memory, *v = k + ROWS * STEP, *tiles = v + ROWS * STEP;
    float* known = (float*)(tiles + 4 * QUERIES * STEP);
    int first = blockIdx.y * ROWS;
    query += start(plan, QUERY); grad += start(plan, OUT); mask = mask_of_head(mask, plan);
    stats += (i64)blockIdx.x * plan.queries * 3;
    float to_k[WIDE][4] = {}, to_v[WIDE][4] = {}, s[QUERIES / 8][4], d[QUERIES / 8][4];
    fetch<ROWS>(k, key + start(plan, KEY), KEY, first, plan.keys, plan);
    fetch<ROWS>(v, value + start(plan, VALUE), VALUE, first, plan.keys, plan);
    // With `causal`, queries before the first key see none of these. One turn ahead: the tile that
    // is fetched in one turn is used in the next.
    int begin = plan.causal ? first : 0;
    for (int next = begin; next < plan.queries + QUERIES; next += QUERIES) {
        int odd = (next - begin) / QUERIES % 2;
        if (next < plan.queries) {
            byte* to = tiles + odd * 2 * QUERIES * STEP;
            fetch<QUERIES>(to, query, QUERY, next, plan.queries, plan);
            fetch<QUERIES>(to + QUERIES * STEP, grad, OUT, next, plan.queries, plan);
            for (int i = threadIdx.x; i < QUERIES * 3; i += THREADS)
                known[odd * QUERIES * 3 + i] =
                    next + i / 3 < plan.queries ? stats[(i64)next * 3 + i] : 0;
        }
        copies_end();
        if (next == begin) continue;
        copies_done<1>();
        __syncthreads();
        const byte *q = tiles + (1 - odd) * 2 * QUERIES * STEP, *g = q + QUERIES * STEP;
        const float* own = known + ((1 - odd) * QUERIES + PAIR) * 3;
        if (!plan.causal || next > first + WARP * 16) {  // some query sees some of the warp's keys
            rows_by_rows(s, k, q);
            rows_by_rows(d, v, g);
            score<true>(s, mask, first, next - QUERIES, plan);
            #pragma unroll
            for (int n = 0; n < QUERIES / 8; n++) {
                #pragma unroll
                for (int i = 0; i < 4; i++) {
                    const float* of_query = own + (n * 8 + i % 2) * 3;
                    s[n][i] = exponential(s[n][i] - of_query[0]) * of_query[1];
                    d[n][i] = s[n][i] * (d[n][i] - of_query[2]);
                }
            }
            weights_by_rows(to_v, s, g, QUERIES);
            weights_by_rows(to_k, d, q, QUERIES);
        }
        __syncthreads();
    }
    copies_done<0>();  // of keys and values, if no query came by
    float scale[2] = {plan.scale, plan.scale}, one[2] = {1, 1};
    store(to_key + start(plan, TO_KEY), TO_KEY, to_k, first, plan.keys, scale, plan);
    store(to_value + start(plan, TO_VALUE), TO_VALUE, to_v, first, plan.keys, one, plan);
}
