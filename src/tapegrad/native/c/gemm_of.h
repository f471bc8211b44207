/* gemm.c for one type T, vectors of WIDE bytes and tiles of at most HIGH rows. */

typedef T NAMED(wide) __attribute__((vector_size(WIDE)));
typedef T NAMED(loose) __attribute__((vector_size(WIDE), aligned(sizeof(T)), may_alias));
typedef INTEGER NAMED(lanes) __attribute__((vector_size(WIDE)));
#define V NAMED(wide)
#define L ((int)(WIDE / sizeof(T)))
#define PANEL (2 * L)
#define LOAD(from) ((V) * (const NAMED(loose) *)(from))
#define STORE(to, value) (*(NAMED(loose) *)(to) = (NAMED(loose))(value))

/* ------------------------------------------------------------------ packing */

#include "turned_of.h"

/* to[i * width + j] = from[i * along + j * across] for j < count, else 0; up to L elements behind
   the last row may be overwritten where `width` is no multiple of L. `safe`: so many elements from
   `from` on can be read in every row. */
static void NAMED(pack)(int64_t k, int64_t count, int width, const T *from, int64_t along,
                        int64_t across, int64_t safe, T *to) {
    int64_t i = 0;
    if (across == 1 && count == width && (safe >= width + L || width % L == 0)) {
        for (; i < k; i++)
            for (int j = 0; j < width; j += L)
                STORE(to + i * width + j, LOAD(from + i * along + j));
        return;
    }
    if (across == 1 && count == width && width <= L && safe >= L) {
        for (; i < k; i++)
            STORE(to + i * width, LOAD(from + i * along));
        return;
    }
    if (along == 1)
        for (; i + L <= k; i += L)
            for (int j = (width - 1) / L * L; j >= 0; j -= L) { /* the last ones run over */
                V square[L];
#pragma GCC unroll 16
                for (int r = 0; r < L; r++)
                    square[r] = j + r < count ? LOAD(from + (j + r) * across + i) : (V){0};
                NAMED(turn_square)(square);
#pragma GCC unroll 16
                for (int r = 0; r < L; r++)
                    STORE(to + (i + r) * width + j, square[r]);
            }
    for (; i < k; i++)
        for (int64_t j = 0; j < width; j++)
            to[i * width + j] = j < count ? from[i * along + j * across] : 0;
}

/* ------------------------------------------------------------------ tiles */

/* The part of a tile that the result has: rows of `whole` are PANEL elements apart. */
static __attribute__((noinline)) void NAMED(put_part)(int high, const T *whole, int start,
                                                      const T *row, T *out, int64_t ldc,
                                                      int64_t count) {
    for (int r = 0; r < high; r++, out += ldc, whole += PANEL)
        for (int64_t c = 0; c < count; c++)
            out[c] = whole[c] + (start == FROM_ROW ? row[c] : start == FROM_OUT ? out[c] : 0);
}

#define FOR_ALL_SUMS                                                                               \
    _Pragma("GCC unroll 16") for (int r = 0; r < high; r++)                                        \
        _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++)

/* `high` rows and `vectors` vectors of the result; `start` is what the sums are added to. */
TG_INLINE void NAMED(tile)(const int high, const int vectors, int64_t k, const T *a, const T *b,
                           int start, const T *row, T *out, int64_t ldc, int64_t count) {
    const int is_whole = count == vectors * L;
    V sum[HIGH][2];
    FOR_ALL_SUMS sum[r][v] = (V){0};
    for (int64_t i = 0; i < k; i++, a += high, b += PANEL) {
        V x[2];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            x[v] = *(const V *)(b + v * L);
        FOR_ALL_SUMS sum[r][v] += a[r] * x[v];
    }
    if (is_whole) {
        if (start == FROM_ROW)
            FOR_ALL_SUMS sum[r][v] += LOAD(row + v * L);
        else if (start == FROM_OUT)
            FOR_ALL_SUMS sum[r][v] += LOAD(out + r * ldc + v * L);
        FOR_ALL_SUMS STORE(out + r * ldc + v * L, sum[r][v]);
        return;
    }
    T whole[HIGH * PANEL];
    FOR_ALL_SUMS STORE(whole + r * PANEL + v * L, sum[r][v]);
    NAMED(put_part)(high, whole, start, row, out, ldc, count);
}
#undef FOR_ALL_SUMS

#define TILE(n)                                                                                    \
    case n:                                                                                        \
        if (count > L)                                                                             \
            NAMED(tile)(n, 2, k, a, b, start, row, out, ldc, count);                               \
        else                                                                                       \
            NAMED(tile)(n, 1, k, a, b, start, row, out, ldc, count);                               \
        break;
static void NAMED(any_tile)(int high, int64_t k, const T *a, const T *b, int start, const T *row,
                            T *out, int64_t ldc, int64_t count) {
    switch (high) {
        TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6)
#if HIGH > 6
        TILE(7) TILE(8) TILE(9) TILE(10) TILE(11) TILE(12) TILE(13) TILE(14)
#endif
    }
}
#undef TILE

/* ------------------------------------------------------------------ the product */

/* Rows of tile `t`: as even as they can be. */
TG_INLINE int64_t NAMED(first_row)(const tg_matrices *g, int64_t t) {
    return g->m * t / g->tiles;
}

static void NAMED(pack_rows)(const tg_matrices *g, int64_t t, T *to) {
    const int64_t first = NAMED(first_row)(g, t), count = NAMED(first_row)(g, t + 1) - first;
    NAMED(pack)(g->deep, count, (int)count,
                (const T *)g->a + first * g->a_down + g->start * g->a_right, g->a_right, g->a_down,
                g->m - first, to);
}

static void NAMED(pack_panel)(const tg_matrices *g, int64_t p, T *to) {
    const int64_t left = g->n - p * PANEL;
    NAMED(pack)(g->deep, left < PANEL ? left : PANEL, PANEL,
                (const T *)g->b + p * PANEL * g->b_right + g->start * g->b_down, g->b_down,
                g->b_right, left, to);
}

static void NAMED(put_tile)(const tg_matrices *g, int64_t t, int64_t p, const T *a, const T *b) {
    const int64_t first = NAMED(first_row)(g, t), high = NAMED(first_row)(g, t + 1) - first;
    const int64_t left = g->n - p * PANEL;
    const int start = g->start || g->adds ? FROM_OUT : g->row ? FROM_ROW : FROM_NOTHING;
    NAMED(any_tile)((int)high, g->deep, a, b, start, (const T *)g->row + (g->row ? p * PANEL : 0),
                    (T *)g->out + first * g->ldc + p * PANEL, g->ldc,
                    left < PANEL ? left : PANEL);
}

static void NAMED(panels_of_b)(void *context, int64_t begin, int64_t end) {
    const tg_matrices *g = context;
    for (int64_t p = begin; p < end; p++)
        NAMED(pack_panel)(g, p, (T *)g->packed + p * PANEL * g->deep);
}

/* Some tiles of rows, with B packed: theirs are packed here and stay in the cache. */
static void NAMED(some_rows)(void *context, int64_t begin, int64_t end) {
    tg_matrices *g = context;
    const int64_t each = HIGH * g->deep;
    _Alignas(64) char few[FEW];
    T *a = room_for((size_t)((end - begin) * each + L) * sizeof(T), few);
    if (!a) {
        g->failed = 1;
        return;
    }
    for (int64_t t = begin; t < end; t++)
        NAMED(pack_rows)(g, t, a + (t - begin) * each);
    for (int64_t p = 0; p * PANEL < g->n; p++)
        for (int64_t t = begin; t < end; t++)
            NAMED(put_tile)(g, t, p, a + (t - begin) * each,
                            (const T *)g->packed + p * PANEL * g->deep);
    give_room(a, few);
}

/* Some panels of columns, with A packed. */
static void NAMED(some_columns)(void *context, int64_t begin, int64_t end) {
    tg_matrices *g = context;
    const int64_t each = PANEL * g->deep, most = g->together;
    _Alignas(64) char few[FEW];
    T *b = room_for((size_t)(most * each) * sizeof(T), few);
    if (!b) {
        g->failed = 1;
        return;
    }
    for (; begin < end; begin += most) {
        const int64_t stop = begin + most < end ? begin + most : end;
        for (int64_t p = begin; p < stop; p++)
            NAMED(pack_panel)(g, p, b + (p - begin) * each);
        for (int64_t t = 0; t < g->tiles; t++)
            for (int64_t p = begin; p < stop; p++)
                NAMED(put_tile)(g, t, p, (const T *)g->packed + t * HIGH * g->deep,
                                b + (p - begin) * each);
    }
    give_room(b, few);
}

static int NAMED(multiply)(tg_matrices *g) {
    const int64_t panels = (g->n + PANEL - 1) / PANEL;
    const int64_t parts = (g->k + DEEP - 1) / DEEP, deep = (g->k + parts - 1) / parts;
    const int by_rows = g->m >= g->n;
    const double work = (double)g->m * (double)g->n * (double)deep;
    const int64_t most = 4 * (int64_t)tg_threads(), worth = (int64_t)(work / PIECE);
    const int64_t pieces = worth < 2 ? 1 : worth < most ? worth : most;
    g->tiles = (g->m + HIGH - 1) / HIGH;
    _Alignas(64) char few[FEW];
    g->packed = room_for(
        (size_t)((by_rows ? panels * PANEL : g->tiles * HIGH) * deep + L) * sizeof(T), few);
    if (!g->packed)
        return 0;
    for (g->start = 0; g->start < g->k; g->start += deep) {
        g->deep = g->k - g->start < deep ? g->k - g->start : deep;
        if (by_rows) {
            const int64_t some = (int64_t)(PACKED_PIECE / (double)(PANEL * deep)) + 1;
            tg_parallel(panels, some, NAMED(panels_of_b), g);
            int64_t rows = (g->tiles + pieces - 1) / pieces;
            rows = rows < MOST_TILES ? rows : MOST_TILES;
            tg_parallel(g->tiles, rows, NAMED(some_rows), g);
        } else {
            for (int64_t t = 0; t < g->tiles; t++)
                NAMED(pack_rows)(g, t, (T *)g->packed + t * HIGH * g->deep);
            const int64_t each = (panels + pieces - 1) / pieces;
            g->together = each < MOST_PANELS ? each : MOST_PANELS;
            tg_parallel(panels, each, NAMED(some_columns), g);
        }
    }
    give_room(g->packed, few);
    return !g->failed;
}
#undef V
#undef L
#undef PANEL
#undef LOAD
#undef STORE
