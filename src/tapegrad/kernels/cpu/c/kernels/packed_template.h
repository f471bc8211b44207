/* packed.c for one type T. */

typedef T NAMED(wide) __attribute__((vector_size(32)));
typedef T NAMED(loose) __attribute__((vector_size(32), aligned(sizeof(T)), may_alias));
#define V NAMED(wide)
#define L ((int64_t)(sizeof(V) / sizeof(T)))
#define LOAD(from) ((V) * (const NAMED(loose) *)(from))
#define STORE(to, value) (*(NAMED(loose) *)(to) = (NAMED(loose))(value))
typedef INTEGER NAMED(lanes) __attribute__((vector_size(32)));
#include "transpose_template.h"
#define HIGH 6 /* rows of a tile: with two vectors each, twelve registers */
#define DEEP 256

TG_VERSIONS static void NAMED(pack)(int64_t k, int64_t n, const T *b, int64_t down, int64_t right,
                                    T *packed) {
    const int64_t panel = 2 * L;
    for (int64_t first = 0; first < n; first += panel, packed += panel * k) {
        const int64_t count = n - first < panel ? n - first : panel;
        const T *from = b + first * right;
        if (count == panel && right == 1) {
            for (int64_t i = 0; i < k; i++)
                memcpy(packed + i * panel, from + i * down, 2 * sizeof(V));
            continue;
        }
        int64_t i = 0;
        if (down == 1)
            for (; i + L <= k; i += L)
                for (int64_t j = 0; j < panel; j += L) {
                    V square[L];
                    TG_UNROLL(8)
                    for (int r = 0; r < L; r++)
                        square[r] = j + r < count ? LOAD(from + (j + r) * right + i) : (V){0};
                    NAMED(turn_square)(square);
                    TG_UNROLL(8)
                    for (int r = 0; r < L; r++)
                        STORE(packed + (i + r) * panel + j, square[r]);
                }
        for (; i < k; i++)
            for (int64_t j = 0; j < panel; j++)
                packed[i * panel + j] = j < count ? from[i * down + j * right] : 0;
    }
}

void NAMED(tg_pack)(int64_t k, int64_t n, const T *b, int64_t down, int64_t right, T *packed) {
    NAMED(pack)(k, n, b, down, right, packed);
}

/* `high` rows of one panel. */
TG_INLINE void NAMED(tile)(const int high, int64_t count, int64_t k, T alpha, const T *a,
                           int64_t down, int64_t right, const T *packed, T beta, T *out,
                           int64_t ldc) {
    V one[HIGH], other[HIGH];
    TG_UNROLL(6)
    for (int r = 0; r < high; r++)
        one[r] = other[r] = (V){0};
    for (int64_t j = 0; j < k; j++, packed += 2 * L) {
        const V x = LOAD(packed), y = LOAD(packed + L);
        TG_UNROLL(6)
        for (int r = 0; r < high; r++) {
            const T w = a[r * down + j * right];
            one[r] += w * x;
            other[r] += w * y;
        }
    }
    TG_UNROLL(6)
    for (int r = 0; r < high; r++) {
        T *to = out + r * ldc;
        if (count == 2 * L) {
            V x = alpha * one[r], y = alpha * other[r];
            if (beta != 0) {
                x += beta * LOAD(to);
                y += beta * LOAD(to + L);
            }
            STORE(to, x);
            STORE(to + L, y);
        } else {
            T last[2 * L];
            memcpy(last, &one[r], sizeof(V));
            memcpy(last + L, &other[r], sizeof(V));
            for (int64_t c = 0; c < count; c++)
                to[c] = alpha * last[c] + (beta != 0 ? beta * to[c] : 0);
        }
    }
}

/* Rows of the packed matrix in parts of DEEP, so that a part of a panel stays in the cache. */
TG_VERSIONS static void NAMED(by_packed)(int64_t m, int64_t n, int64_t k, T alpha, const T *a,
                                         int64_t down, int64_t right, const T *packed, T beta,
                                         T *out, int64_t ldc) {
    for (int64_t first = 0; first < n; first += 2 * L)
        for (int64_t start = 0; start < k; start += DEEP, packed += 2 * L * DEEP) {
            const int64_t count = n - first < 2 * L ? n - first : 2 * L;
            const int64_t some = k - start < DEEP ? k - start : DEEP;
            const T *left = a + start * right, keep = start ? 1 : beta;
            T *to = out + first;
#define TILE(high)                                                                                 \
    case high:                                                                                     \
        NAMED(tile)(high, count, some, alpha, left + row * down, down, right, packed, keep,        \
                    to + row * ldc, ldc);                                                          \
        break;
            for (int64_t row = 0, high; row < m; row += high) {
                const int64_t tiles = (m - row + HIGH - 1) / HIGH;
                high = (m - row + tiles - 1) / tiles; /* eight are four and four */
                switch (high) {
                    TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6)
                }
            }
#undef TILE
            if (some < DEEP)
                packed -= 2 * L * (DEEP - some); /* the next panel follows at once */
        }
}

void NAMED(tg_by_packed)(int64_t m, int64_t n, int64_t k, T alpha, const T *a, int64_t down,
                         int64_t right, const T *packed, T beta, T *out, int64_t ldc) {
    NAMED(by_packed)(m, n, k, alpha, a, down, right, packed, beta, out, ldc);
}
#undef V
#undef L
#undef LOAD
#undef STORE
#undef HIGH
#undef DEEP
