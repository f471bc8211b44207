/* rows.c for one type: T, with its EXP and LOG. */

/* The largest element. A NaN may be passed over: what follows finds it again in the sum. */
TG_INLINE T NAMED(largest)(const T *x, int64_t n) {
    T lane[LANES];
    for (int k = 0; k < LANES; k++)
        lane[k] = (T)-INFINITY;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] = x[i + k] > lane[k] ? x[i + k] : lane[k];
    T most = (T)-INFINITY;
    for (; i < n; i++)
        most = x[i] > most ? x[i] : most;
    for (int k = 0; k < LANES; k++)
        most = lane[k] > most ? lane[k] : most;
    return most;
}

/* p: input, out; n: rows, width */
TG_VERSIONS static void NAMED(softmax_rows)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t n = given->n[1];
    for (int64_t row = begin; row < end; row++) {
        const T *x = (const T *)given->p[0] + row * n;
        T *out = (T *)given->p[1] + row * n;
        const T most = NAMED(largest)(x, n);
        for (int64_t i = 0; i < n; i++)
            out[i] = EXP(x[i] - most);
        SUM_OF(sum, n, READ(e, out), e)
        const T total = (T)sum;
        for (int64_t i = 0; i < n; i++)
            out[i] /= total;
    }
}
void NAMED(tg_softmax)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], rows_of(n[1], 1.5), NAMED(softmax_rows), &given);
}

/* The sum of the exponentials of x - shift. */
TG_INLINE double NAMED(sum_of_powers)(const T *x, int64_t n, T shift) {
    double sum = 0;
    for (int64_t start = 0; start < n; start += BLOCK) {
        const int64_t count = lesser(BLOCK, n - start);
        T powers[BLOCK];
        for (int64_t i = 0; i < count; i++)
            powers[i] = EXP(x[start + i] - shift);
        SUM_OF(part, count, READ(e, powers), e)
        sum += part;
    }
    return sum;
}

/* p: input, out; n: rows, width */
TG_VERSIONS static void NAMED(logsumexp_rows)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t n = given->n[1];
    for (int64_t row = begin; row < end; row++) {
        const T *x = (const T *)given->p[0] + row * n;
        const T most = NAMED(largest)(x, n), shift = most - most == 0 ? most : 0;
        ((T *)given->p[1])[row] = LOG((T)NAMED(sum_of_powers)(x, n, shift)) + shift;
    }
}
void NAMED(tg_logsumexp)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], rows_of(n[1], 1.0), NAMED(logsumexp_rows), &given);
}

TG_VERSIONS static void NAMED(log_softmax_rows)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t n = given->n[1];
    for (int64_t row = begin; row < end; row++) {
        const T *x = (const T *)given->p[0] + row * n;
        T *out = (T *)given->p[1] + row * n;
        const T most = NAMED(largest)(x, n);
        const T shift = LOG((T)NAMED(sum_of_powers)(x, n, most));
        for (int64_t i = 0; i < n; i++)
            out[i] = (x[i] - most) - shift;
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
        const T *g = (const T *)given->p[0] + row * n, *y = (const T *)given->p[1] + row * n;
        T *out = (T *)given->p[2] + row * n;
        SUM_OF(sum, n, READ(gv, g) READ(yv, y), gv * yv)
        const T total = (T)sum;
        for (int64_t i = 0; i < n; i++)
            out[i] = g[i] * y[i] - y[i] * total;
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
        const T *g = (const T *)given->p[0] + row * n, *y = (const T *)given->p[1] + row * n;
        T *out = (T *)given->p[2] + row * n;
        SUM_OF(sum, n, READ(gv, g), gv)
        const T total = (T)sum;
        for (int64_t i = 0; i < n; i++)
            out[i] = g[i] - EXP(y[i]) * total;
    }
}
void NAMED(tg_log_softmax_back)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], rows_of(n[1], 1.0), NAMED(log_softmax_back_rows), &given);
}
