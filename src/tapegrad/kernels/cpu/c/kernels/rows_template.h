/* rows.c for one type: T, with its EXP and LOG. */

/* Whether there is nothing but minus infinity. */
TG_INLINE int NAMED(is_nothing)(const STORED *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (WIDEN(x[i]) != (T)-INFINITY)
            return 0;
    return 1;
}

/* The sum of the exponentials of x - shift. */
TG_INLINE double NAMED(sum_of_powers)(const STORED *x, int64_t n, T shift) {
    double sum = 0;
    for (int64_t start = 0; start < n; start += BLOCK) {
        const int64_t count = lesser(BLOCK, n - start);
        T powers[BLOCK];
        for (int64_t i = 0; i < count; i++)
            powers[i] = EXP(WIDEN(x[start + i]) - shift);
        SUM_OF(part, count, READ(e, powers), e)
        sum += part;
    }
    return sum;
}

/* Of rows so short that each would be a few elements of a vector: as many as fit into a block at
   once. */
TG_INLINE void NAMED(log_softmax_short)(const STORED *x, STORED *out, int64_t rows, int64_t n) {
    T left[BLOCK], powers[BLOCK], shift[BLOCK];
    for (int64_t r = 0; r < rows; r++) {
        const T most = NAMED(largest)(x + r * n, n);
        for (int64_t i = r * n; i < r * n + n; i++)
            left[i] = WIDEN(x[i]) - most;
    }
    for (int64_t i = 0; i < rows * n; i++)
        powers[i] = EXP(left[i]);
    for (int64_t r = 0; r < rows; r++) {
        SUM_OF(sum, n, READ(e, powers + r * n), e)
        shift[r] = HALFWAY((T)sum);
    }
    for (int64_t r = 0; r < rows; r++)
        shift[r] = HALFWAY(LOG(shift[r]));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = r * n; i < r * n + n; i++)
            out[i] = NARROW(left[i] - shift[r]);
}

/* p: input, out; n: rows, width */
TG_VERSIONS static void NAMED(log_softmax_rows)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t n = given->n[1];
    for (int64_t rows; n <= SHORT && begin < end; begin += rows) {
        rows = lesser(BLOCK / n, end - begin);
        NAMED(log_softmax_short)((const STORED *)given->p[0] + begin * n,
                                 (STORED *)given->p[1] + begin * n, rows, n);
    }
    for (int64_t row = begin; row < end; row++) {
        const STORED *x = (const STORED *)given->p[0] + row * n;
        STORED *out = (STORED *)given->p[1] + row * n;
        const T most = NAMED(largest)(x, n);
        const T shift = HALFWAY(LOG(HALFWAY((T)NAMED(sum_of_powers)(x, n, most))));
        for (int64_t i = 0; i < n; i++)
            out[i] = NARROW((WIDEN(x[i]) - most) - shift);
    }
}
void NAMED(tg_log_softmax)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], rows_of(n[1], 1.5), NAMED(log_softmax_rows), &given);
}

/* p: gradient, output, out; n: rows, width */
TG_VERSIONS static void NAMED(softmax_back_rows)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t n = given->n[1];
    for (int64_t row = begin; row < end; row++) {
        const STORED *g = (const STORED *)given->p[0] + row * n;
        const STORED *y = (const STORED *)given->p[1] + row * n;
        STORED *out = (STORED *)given->p[2] + row * n;
        SUM_OF(sum, n, GET(gv, g) GET(yv, y), gv * yv)
        const T total = (T)sum;
        for (int64_t i = 0; i < n; i++)
            out[i] = NARROW(WIDEN(g[i]) * WIDEN(y[i]) - WIDEN(y[i]) * total);
    }
}
void NAMED(tg_softmax_back)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], rows_of(n[1], 0.5), NAMED(softmax_back_rows), &given);
}

/* As above, of short rows. */
TG_INLINE void NAMED(log_softmax_back_short)(const STORED *g, const STORED *y, STORED *out,
                                             int64_t rows, int64_t n) {
    T powers[BLOCK];
    for (int64_t i = 0; i < rows * n; i++)
        powers[i] = EXP(WIDEN(y[i]));
    for (int64_t r = 0; r < rows; r++) {
        SUM_OF(sum, n, GET(gv, g + r * n), gv)
        const T total = (T)sum;
        for (int64_t i = r * n; i < r * n + n; i++)
            out[i] = NARROW(WIDEN(g[i]) - powers[i] * total);
    }
}

TG_VERSIONS static void NAMED(log_softmax_back_rows)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t n = given->n[1];
    for (int64_t rows; n <= SHORT && begin < end; begin += rows) {
        const int64_t at = begin * n;
        rows = lesser(BLOCK / n, end - begin);
        NAMED(log_softmax_back_short)((const STORED *)given->p[0] + at,
                                      (const STORED *)given->p[1] + at,
                                      (STORED *)given->p[2] + at, rows, n);
    }
    for (int64_t row = begin; row < end; row++) {
        const STORED *g = (const STORED *)given->p[0] + row * n;
        const STORED *y = (const STORED *)given->p[1] + row * n;
        STORED *out = (STORED *)given->p[2] + row * n;
        SUM_OF(sum, n, GET(gv, g), gv)
        const T total = (T)sum;
        for (int64_t i = 0; i < n; i++)
            out[i] = NARROW(WIDEN(g[i]) - EXP(WIDEN(y[i])) * total);
    }
}
void NAMED(tg_log_softmax_back)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], rows_of(n[1], 1.0), NAMED(log_softmax_back_rows), &given);
}
