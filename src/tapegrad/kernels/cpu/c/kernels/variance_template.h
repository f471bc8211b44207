/* reduce.c for one type T: what is computed in double. */

/* Variances (or their roots) and means of rows, in double. Equal numbers do not vary at all: all are
   taken relative to the first.
   p: input, out, means or NULL; n: rows, width, whether roots are wanted; x: degrees of freedom */
#define DOUBLE_SUM(total, value)                                                                   \
    double total = 0;                                                                              \
    {                                                                                              \
        vector_f64 s0 = {0}, s1 = {0};                                                             \
        int64_t i = 0;                                                                             \
        for (; i + 8 <= n; i += 8) {                                                               \
            FOUR a, b;                                                                             \
            memcpy(&a, x + i, sizeof a);                                                           \
            memcpy(&b, x + i + 4, sizeof b);                                                       \
            { const vector_f64 v = __builtin_convertvector(a, vector_f64); s0 += (value); }        \
            { const vector_f64 v = __builtin_convertvector(b, vector_f64); s1 += (value); }        \
        }                                                                                          \
        for (; i < n; i++) {                                                                       \
            const double v = (double)x[i];                                                         \
            total += (value);                                                                      \
        }                                                                                          \
        s0 += s1;                                                                                  \
        total += (s0[0] + s0[1]) + (s0[2] + s0[3]);                                                \
    }
TG_VERSIONS static void NAMED(spread_rows)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t n = given->n[1];
    for (int64_t row = begin; row < end; row++) {
        const T *restrict x = (const T *)given->p[0] + row * n;
        const double first = isfinite(x[0]) ? (double)x[0] : 0;
        DOUBLE_SUM(sum, v - first)
        const double mean = first + sum / (double)n;
        DOUBLE_SUM(squares, (v - mean) * (v - mean))
        const double var = squares / given->x[0];
        ((T *)given->p[1])[row] = (T)(given->n[2] ? sqrt(var) : var);
        if (given->p[2])
            ((T *)given->p[2])[row] = (T)mean;
    }
}
#undef DOUBLE_SUM
void NAMED(tg_spread)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], rows_of(n[1], 0.5), NAMED(spread_rows), &given);
}

/* Running sums or products, in double, along the middle of three dimensions. Each addition waits for
   the one before, so four rows run side by side.
   p: input, out; n: outer, size, inner, whether products are wanted */
#define RUN(start, how)                                                                            \
    if (inner == 1 && end - piece >= 4) {                                                          \
        double a = start, b = start, c = start, d = start;                                         \
        for (int64_t j = 0; j < size; j++) {                                                       \
            a = a how(double) x[j];                                                                \
            b = b how(double) x[j + size];                                                         \
            c = c how(double) x[j + 2 * size];                                                     \
            d = d how(double) x[j + 3 * size];                                                     \
            out[j] = (T)a;                                                                         \
            out[j + size] = (T)b;                                                                  \
            out[j + 2 * size] = (T)c;                                                              \
            out[j + 3 * size] = (T)d;                                                              \
        }                                                                                          \
        piece += 3;                                                                                \
    } else if (inner == 1) {                                                                       \
        double run = start;                                                                        \
        for (int64_t j = 0; j < size; j++) {                                                       \
            run = run how(double) x[j];                                                            \
            out[j] = (T)run;                                                                       \
        }                                                                                          \
    } else {                                                                                       \
        double run[COLUMNS];                                                                       \
        for (int64_t k = 0; k < width; k++)                                                        \
            run[k] = start;                                                                        \
        for (int64_t j = 0; j < size; j++)                                                         \
            for (int64_t k = 0; k < width; k++) {                                                  \
                run[k] = run[k] how(double) x[j * inner + k];                                      \
                out[j * inner + k] = (T)run[k];                                                    \
            }                                                                                      \
    }
TG_VERSIONS static void NAMED(run_columns)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t size = given->n[1], inner = given->n[2], tiles = (inner + COLUMNS - 1) / COLUMNS;
    for (int64_t piece = begin; piece < end; piece++) {
        const int64_t o = piece / tiles, left = (piece - o * tiles) * COLUMNS;
        const int64_t width = lesser(COLUMNS, inner - left);
        const T *restrict x = (const T *)given->p[0] + o * size * inner + left;
        T *restrict out = (T *)given->p[1] + o * size * inner + left;
        if (given->n[3]) {
            RUN(1, *)
        } else {
            RUN(0, +)
        }
    }
}
#undef RUN
void NAMED(tg_running)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    const int64_t tiles = (n[2] + COLUMNS - 1) / COLUMNS;
    tg_parallel(n[0] * tiles, rows_of(n[1] * lesser(n[2], COLUMNS), 1.2), NAMED(run_columns), &given);
}

/* out[j] = input[j] + factor[j] * out[j - 1], likewise; the first factor is not looked at.
   p: input, factor, out; n: outer, size, inner */
TG_VERSIONS static void NAMED(recur)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t size = given->n[1], inner = given->n[2], tiles = (inner + COLUMNS - 1) / COLUMNS;
    for (int64_t piece = begin; piece < end; piece++) {
        const int64_t o = piece / tiles, left = (piece - o * tiles) * COLUMNS;
        const int64_t at = o * size * inner + left;
        /* columns side by side, or rows */
        const int64_t rows = inner > 1 ? 1 : lesser(4, end - piece), next = inner > 1 ? 1 : size;
        const int64_t width = inner > 1 ? lesser(COLUMNS, inner - left) : rows;
        const T *restrict x = (const T *)given->p[0] + at, *restrict f = (const T *)given->p[1] + at;
        T *restrict out = (T *)given->p[2] + at;
        T run[COLUMNS];
        for (int64_t k = 0; k < width; k++)
            out[k * next] = run[k] = x[k * next];
        for (int64_t j = inner; j < size * inner; j += inner)
            for (int64_t k = 0; k < width; k++)
                out[j + k * next] = run[k] = x[j + k * next] + f[j + k * next] * run[k];
        piece += rows - 1;
    }
}
void NAMED(tg_recurrence)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    const int64_t tiles = (n[2] + COLUMNS - 1) / COLUMNS;
    tg_parallel(n[0] * tiles, rows_of(n[1] * lesser(n[2], COLUMNS), 1.2), NAMED(recur), &given);
}
