/* rows.c for one type: T, with its EXP and LOG. */

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

/* p: input, out; n: rows, width */
TG_VERSIONS static void NAMED(log_softmax_rows)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t n = given->n[1];
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

TG_VERSIONS static void NAMED(log_softmax_back_rows)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t n = given->n[1];
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
