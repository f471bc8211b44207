/* rows.c for half precision: softmax, and conversions from and to float. */

/* p: input, out; n: rows, width, whether rows of minus infinity become zeros */
TG_VERSIONS static void NAMED(softmax_rows)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t n = given->n[1];
    for (int64_t row = begin; row < end; row++) {
        const uint16_t *restrict x = (const uint16_t *)given->p[0] + row * n;
        uint16_t *restrict out = (uint16_t *)given->p[1] + row * n;
        float powers[KEPT];
        if (n <= KEPT)
            NAMED(widen)(powers, x, n);
        const float most = n > KEPT ? NAMED(largest)(x, n) : largest_f32(powers, n);
        if (most == -INFINITY && given->n[2] && NAMED(is_nothing)(x, n)) {
            memset(out, 0, sizeof(uint16_t) * (size_t)n);
            continue;
        }
        if (n > KEPT) {
            const float total = (float)NAMED(sum_of_powers)(x, n, most);
            for (int64_t i = 0; i < n; i++)
                out[i] = NARROW(EXP(WIDEN(x[i]) - most) / total);
            continue;
        }
        for (int64_t i = 0; i < n; i++)
            powers[i] = EXP(powers[i] - most);
        SUM_OF(sum, n, READ(e, powers), e)
        const float total = (float)sum;
        for (int64_t i = 0; i < n; i++)
            powers[i] /= total;
        NAMED(narrow)(out, powers, n);
    }
}
void NAMED(tg_softmax)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], rows_of(n[1], 1.5), NAMED(softmax_rows), &given);
}

/* From half precision to float, and back. p: input, out; n: elements */
TG_VERSIONS static void NAMED(widen_some)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    NAMED(widen)((float *)given->p[1] + begin, (const uint16_t *)given->p[0] + begin, end - begin);
}
void NAMED(tg_widen)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], tg_grain(0.2), NAMED(widen_some), &given);
}

TG_VERSIONS static void NAMED(narrow_some)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    NAMED(narrow)((uint16_t *)given->p[1] + begin, (const float *)given->p[0] + begin, end - begin);
}
void NAMED(tg_narrow)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], tg_grain(0.3), NAMED(narrow_some), &given);
}
