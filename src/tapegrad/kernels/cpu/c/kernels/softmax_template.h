/* rows.c for one type: T, with its EXP and LOG; not for half precision. */

/* p: input, out; n: rows, width, whether rows of minus infinity become zeros */
TG_VERSIONS static void NAMED(softmax_rows)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t n = given->n[1];
    for (int64_t row = begin; row < end; row++) {
        const T *x = (const T *)given->p[0] + row * n;
        T *out = (T *)given->p[1] + row * n;
        const T most = NAMED(largest)(x, n);
        if (most == (T)-INFINITY && given->n[2] && NAMED(is_nothing)(x, n)) {
            memset(out, 0, sizeof(T) * (size_t)n);
            continue;
        }
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
