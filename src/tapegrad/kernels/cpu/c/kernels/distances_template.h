/* distances.c for one type T. */

/* The sum of `term`, a formula of the distance d along one axis, over all axes. */
#define SUM_OF(term)                                                                               \
    double total = 0;                                                                              \
    for (int64_t from = 0; from < width; from += RUN) {                                            \
        const int64_t end = from + RUN < width ? from + RUN : width;                               \
        const int64_t whole = (end - from) / count * count;                                        \
        T sums[LANES] = {0}, rest = 0;                                                             \
        for (int64_t k = from; k < from + whole; k += count)                                       \
            for (int l = 0; l < count; l++) {                                                      \
                const T d = MATH(fabs)(a[k + l] - b[k + l]);                                       \
                sums[l] += (term);                                                                 \
            }                                                                                      \
        for (int64_t k = from + whole; k < end; k++) {                                             \
            const T d = MATH(fabs)(a[k] - b[k]);                                                   \
            rest += (term);                                                                        \
        }                                                                                          \
        for (int half = count / 2; half > 0; half /= 2)                                            \
            for (int l = 0; l < half; l++)                                                         \
                sums[l] += sums[l + half];                                                         \
        total += (double)(sums[0] + rest);                                                         \
    }

TG_INLINE T NAMED(distance)(const T *a, const T *b, int64_t width, double ord, const int count) {
    if (ord == 0) {
        SUM_OF(d != d ? d : (T)(d != 0))
        return (T)total;
    }
    if (ord == 1 || width == 1) {
        SUM_OF(d)
        return (T)total;
    }
    if (ord == 2) {
        SUM_OF(d * d)
        return MATH(sqrt)((T)total);
    }
    if (isinf(ord)) {
        T most = 0;
        for (int64_t k = 0; k < width; k++) {
            const T d = MATH(fabs)(a[k] - b[k]);
            most = d > most || d != d ? d : most;
            if (d != d)
                break;
        }
        return most;
    }
    const T by = (T)ord;
    SUM_OF(MATH(pow)(d, by))
    return MATH(pow)((T)total, (T)(1 / ord));
}

/* p: rows, others, distances */
TG_VERSIONS static void NAMED(some_rows)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t *n = given->n, rows = n[ROWS], others = n[OTHERS], width = n[WIDTH];
    for (int64_t i = begin; i < end; i++) {
        const int64_t which = i / rows, row = i % rows;
        const T *x = (const T *)given->p[0] + which * n[STEP] + row * width;
        const T *y = (const T *)given->p[1] + which * n[OTHER_STEP];
        T *out = given->p[2];
        int64_t first = 0;
        if (n[IS_PAIRS]) { /* what lies above the diagonal of a symmetric matrix, row after row */
            first = row + 1;
            out += which * (rows * (rows - 1) / 2) + row * (rows - 1) - row * (row - 1) / 2 - first;
        } else {
            out += i * others;
        }
        if (given->ord == 2 && width >= LONG)
            for (int64_t j = first; j < others; j++)
                out[j] = NAMED(distance)(x, y + j * width, width, 2, LANES);
        else if (given->ord == 2)
            for (int64_t j = first; j < others; j++)
                out[j] = NAMED(distance)(x, y + j * width, width, 2, 8);
        else
            for (int64_t j = first; j < others; j++)
                out[j] = NAMED(distance)(x, y + j * width, width, given->ord, 8);
    }
}
void NAMED(tg_distances)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x[0]};
    const double work = (double)(n[OTHERS] * n[WIDTH]) * (x[0] <= 2 ? 0.5 : 20);
    const int64_t rows = (int64_t)(20000.0 / (work + 1));
    tg_parallel(n[STACK] * n[ROWS], rows < 1 ? 1 : rows, NAMED(some_rows), &given);
}
#undef SUM_OF
