/* gemm.c for one type T, vectors of WIDE bytes and tiles of at most HIGH rows. */

typedef T NAMED(wide) __attribute__((vector_size(WIDE)));
typedef T NAMED(loose) __attribute__((vector_size(WIDE), aligned(sizeof(T)), may_alias));
typedef INTEGER NAMED(lanes) __attribute__((vector_size(WIDE)));
#define V NAMED(wide)
#define L ((int)(WIDE / sizeof(T)))
#define PANEL (2 * L)
#define USES_LINES (HIGH > 6 && WIDE == LINE) /* tiles use what they read; smaller ones read it again */
#define LOAD(from) ((V) * (const NAMED(loose) *)(from))
#define STORE(to, value) (*(NAMED(loose) *)(to) = (NAMED(loose))(value))

/* ------------------------------------------------------------------ packing */

#include "transpose_template.h"

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
                TG_UNROLL(16)
                for (int r = 0; r < L; r++)
                    square[r] = j + r < count ? LOAD(from + (j + r) * across + i) : (V){0};
                NAMED(turn_square)(square);
                TG_UNROLL(16)
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
    TG_UNROLL(16) for (int r = 0; r < high; r++)                                                   \
        TG_UNROLL(2) for (int v = 0; v < vectors; v++)

/* `high` rows and `vectors` vectors of the result; `start` is what the sums are added to. Rows of b
   are `ldb` apart. a's elements are read in place: where `by_row`, those of a row in a row and
   `step` from one row to the next, else the other way round, as in packed ones. */
TG_INLINE void NAMED(tile)(const int high, const int vectors, const int by_row, int64_t k,
                           const T *a, int64_t step, const T *b, int64_t ldb, int start,
                           const T *row, T *out, int64_t ldc, int64_t count) {
    const int is_whole = count == vectors * L;
    V sum[HIGH][2];
    FOR_ALL_SUMS {
        __builtin_prefetch(out + r * ldc + v * L, 1); /* it is wanted when the sums are done */
        sum[r][v] = (V){0};
    }
    const T *some[HIGH]; /* every third row: the next two are reached by an index */
    if (by_row)
        TG_UNROLL(16)
        for (int r = 0; r < high; r += 3)
            some[r] = a + r * step;
    for (int64_t i = 0; i < k; i++, b += ldb) {
        V x[2];
        TG_UNROLL(2)
        for (int v = 0; v < vectors; v++)
            x[v] = LOAD(b + v * L);
        if (BY_ELEMENT && !by_row) {
            V y[(HIGH + L - 1) / L];
            TG_UNROLL(16)
            for (int r = 0; r < high; r += L)
                y[r / L] = LOAD(a + r); /* packed: L more elements can be read */
            FOR_ALL_SUMS sum[r][v] += y[r / L][r % L] * x[v];
        } else
            FOR_ALL_SUMS sum[r][v] += (by_row ? some[r - r % 3][r % 3 * step] : a[r]) * x[v];
        if (by_row)
            TG_UNROLL(16)
            for (int r = 0; r < high; r += 3)
                some[r]++;
        else
            a += step;
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
        NAMED(tile)(n, vectors, by_row, k, a, step, b, ldb, start, row, out, ldc, count);          \
        break;
TG_INLINE void NAMED(tile_of)(int high, const int vectors, const int by_row, int64_t k, const T *a,
                              int64_t step, const T *b, int64_t ldb, int start, const T *row,
                              T *out, int64_t ldc, int64_t count) {
    switch (high) {
        TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6)
#if HIGH > 6
        TILE(7) TILE(8) TILE(9) TILE(10) TILE(11) TILE(12)
#endif
#if HIGH > 12
        TILE(13) TILE(14)
#endif
    }
}
#undef TILE

static void NAMED(any_tile)(int high, int by_row, int64_t k, const T *a, int64_t step, const T *b,
                            int64_t ldb, int start, const T *row, T *out, int64_t ldc,
                            int64_t count) {
    if (by_row && count > L)
        NAMED(tile_of)(high, 2, 1, k, a, step, b, ldb, start, row, out, ldc, count);
    else if (by_row)
        NAMED(tile_of)(high, 1, 1, k, a, step, b, ldb, start, row, out, ldc, count);
    else if (count > L)
        NAMED(tile_of)(high, 2, 0, k, a, step, b, ldb, start, row, out, ldc, count);
    else
        NAMED(tile_of)(high, 1, 0, k, a, step, b, ldb, start, row, out, ldc, count);
}

/* ------------------------------------------------------------------ the product */

/* Rows of tile `t`: as even as they can be. */
TG_INLINE int64_t NAMED(first_row)(const tg_matrices *g, int64_t t) {
    return g->m * t / g->tiles;
}

/* Where a tile's rows and a panel begin. */
TG_INLINE const T *NAMED(rows_of_a)(const tg_matrices *g, int64_t t) {
    return (const T *)g->a + NAMED(first_row)(g, t) * g->a_down + g->start * g->a_right;
}

TG_INLINE const T *NAMED(panel_of_b)(const tg_matrices *g, int64_t p) {
    return (const T *)g->b + p * PANEL * g->b_right + g->start * g->b_down;
}

static void NAMED(pack_rows)(const tg_matrices *g, int64_t t, T *to) {
    const int64_t first = NAMED(first_row)(g, t), count = NAMED(first_row)(g, t + 1) - first;
    NAMED(pack)(g->deep, count, (int)count, NAMED(rows_of_a)(g, t), g->a_right, g->a_down,
                g->m - first, to);
}

static void NAMED(pack_panel)(const tg_matrices *g, int64_t p, T *to) {
    const int64_t left = g->n - p * PANEL;
    NAMED(pack)(g->deep, left < PANEL ? left : PANEL, PANEL, NAMED(panel_of_b)(g, p), g->b_down,
                g->b_right, left, to);
}

/* From packed a and b, where they are packed. */
static void NAMED(put_tile)(const tg_matrices *g, int64_t t, int64_t p, const T *a, const T *b) {
    const int64_t first = NAMED(first_row)(g, t), high = NAMED(first_row)(g, t + 1) - first;
    const int64_t left = g->n - p * PANEL;
    const int start = g->start || g->adds ? FROM_OUT : g->row ? FROM_ROW : FROM_NOTHING;
    const int by_row = !g->packs_a && g->a_right == 1;
    const int64_t step = g->packs_a ? high : by_row ? g->a_down : g->a_right;
    NAMED(any_tile)((int)high, by_row, g->deep, g->packs_a ? a : NAMED(rows_of_a)(g, t), step,
                    g->packs_b ? b : NAMED(panel_of_b)(g, p), g->packs_b ? PANEL : g->b_down,
                    start, (const T *)g->row + (g->row ? p * PANEL : 0),
                    (T *)g->out + first * g->ldc + p * PANEL, g->ldc,
                    left < PANEL ? left : PANEL);
}

static void NAMED(panels_of_b)(void *context, int64_t begin, int64_t end) {
    const tg_matrices *g = context;
    for (int64_t p = begin; p < end; p++)
        NAMED(pack_panel)(g, p, (T *)g->packed + p * PANEL * g->deep);
}

/* Prefetch the rows of a tile into the second-level cache. */
TG_INLINE void NAMED(fetch_rows)(const tg_matrices *g, int64_t t) {
    const int64_t count = NAMED(first_row)(g, t + 1) - NAMED(first_row)(g, t);
    const T *from = NAMED(rows_of_a)(g, t);
    for (int64_t r = 0; r < count; r++, from += g->a_down)
        for (int64_t i = 0; i < g->deep; i += LINE / (int64_t)sizeof(T))
            __builtin_prefetch(from + i, 0, 2);
}

/* Some tiles of rows: theirs are packed here and stay in the cache, B is packed if it is to be. */
static void NAMED(some_rows)(void *context, int64_t begin, int64_t end) {
    tg_matrices *g = context;
    const int64_t each = g->packs_a ? HIGH * g->deep : 0;
    _Alignas(64) char few[FEW];
    T *a = room_for((size_t)((end - begin) * each + L) * sizeof(T), few);
    if (!a) {
        g->failed = 1;
        return;
    }
    for (int64_t t = begin; t < end && g->packs_a; t++)
        NAMED(pack_rows)(g, t, a + (t - begin) * each);
    for (int64_t p = 0; p * PANEL < g->n; p++)
        for (int64_t t = begin; t < end; t++) {
            if (!p && t + 1 < end && !g->packs_a && g->a_right == 1)
                NAMED(fetch_rows)(g, t + 1);
            NAMED(put_tile)(g, t, p, a + (t - begin) * each,
                            (const T *)g->packed + p * PANEL * g->deep);
        }
    give_room(a, few);
}

/* Some panels of columns, with A packed if it is to be. */
static void NAMED(some_columns)(void *context, int64_t begin, int64_t end) {
    tg_matrices *g = context;
    const int64_t each = g->packs_b ? PANEL * g->deep : 0, most = g->together;
    _Alignas(64) char few[FEW];
    T *b = room_for((size_t)(most * each) * sizeof(T), few);
    if (!b) {
        g->failed = 1;
        return;
    }
    for (; begin < end; begin += most) {
        const int64_t stop = begin + most < end ? begin + most : end;
        for (int64_t p = begin; p < stop && g->packs_b; p++)
            NAMED(pack_panel)(g, p, b + (p - begin) * each);
        for (int64_t t = 0; t < g->tiles; t++)
            for (int64_t p = begin; p < stop; p++)
                NAMED(put_tile)(g, t, p, (const T *)g->packed + t * HIGH * g->deep,
                                b + (p - begin) * each);
    }
    give_room(b, few);
}

/* Lines that are a multiple of a page apart share a place in the first cache, with room for WAYS. */
TG_INLINE int NAMED(share_a_place)(int64_t step) { return step * (int64_t)sizeof(T) % PAGE == 0; }

static int NAMED(multiply)(tg_matrices *g) {
    const int64_t panels = (g->n + PANEL - 1) / PANEL;
    const int64_t parts = (g->k + DEEP - 1) / DEEP, deep = (g->k + parts - 1) / parts;
    const int by_rows = g->m >= g->n;
    const double work = (double)g->m * (double)g->n * (double)deep;
    const int64_t most = 4 * (int64_t)tg_threads(), worth = (int64_t)(work / PIECE);
    const int64_t pieces = worth < 2 ? 1 : worth < most ? worth : most;
    g->tiles = (g->m + HIGH - 1) / HIGH;
    g->packs_a = BY_ELEMENT            ? 1
                 : g->a_right == 1 ? HIGH > WAYS && NAMED(share_a_place)(g->a_down)
                                 : !USES_LINES || g->a_down != 1;
    g->packs_b = !USES_LINES || g->b_right != 1 || g->n % L || NAMED(share_a_place)(g->b_down);
    const int64_t room = by_rows ? g->packs_b * panels * PANEL : g->packs_a * g->tiles * HIGH;
    _Alignas(64) char few[FEW];
    g->packed = room_for((size_t)(room * deep + L) * sizeof(T), few);
    if (!g->packed)
        return 0;
    for (g->start = 0; g->start < g->k; g->start += deep) {
        g->deep = g->k - g->start < deep ? g->k - g->start : deep;
        if (by_rows) {
            const int64_t some = (int64_t)(PACKED_PIECE / (double)(PANEL * deep)) + 1;
            if (g->packs_b)
                tg_parallel(panels, some, NAMED(panels_of_b), g);
            int64_t rows = (g->tiles + pieces - 1) / pieces;
            rows = rows < MOST_TILES ? rows : MOST_TILES;
            tg_parallel(g->tiles, rows, NAMED(some_rows), g);
        } else {
            for (int64_t t = 0; t < g->tiles && g->packs_a; t++)
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
#undef USES_LINES
#undef LOAD
#undef STORE
