/* portable_rows.c for one type: T. */

typedef T NAMED(eight) __attribute__((vector_size(8 * sizeof(T))));

/* Up to 128 elements, as NumPy adds them up: eight sums side by side. */
TG_INLINE T NAMED(short_sum)(const T *a, int64_t n) {
    if (n < 8) {
        T total = (T)-0.0;
        for (int64_t i = 0; i < n; i++)
            total += a[i];
        return total;
    }
    NAMED(eight) r, next;
    memcpy(&r, a, sizeof r);
    int64_t i = 8;
    for (; i < n - n % 8; i += 8) {
        memcpy(&next, a + i, sizeof next);
        r += next;
    }
    T total = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    for (; i < n; i++)
        total += a[i];
    return total;
}

TG_VERSIONS static T NAMED(halves_sum)(const T *a, int64_t n) {
    if (n <= 128)
        return NAMED(short_sum)(a, n);
    const int64_t half = n / 2 - n / 2 % 8;
    return NAMED(halves_sum)(a, half) + NAMED(halves_sum)(a + half, n - half);
}

/* numpy.add.reduce along a contiguous row. */
TG_INLINE T NAMED(row_sum)(const T *a, int64_t n) {
    return (T)0 + NAMED(halves_sum)(a, n);
}

TG_INLINE T NAMED(row_most)(const T *x, int64_t n) {
    T most = x[0];
    int odd = x[0] != x[0];
    for (int64_t i = 1; i < n; i++) {
        most = x[i] > most ? x[i] : most;
        odd |= x[i] != x[i];
    }
    return odd ? (T)NAN : most;
}

/* p: input, out; n: rows, width */
TG_VERSIONS static void NAMED(softmax_part)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t n = given->n[1];
    for (int64_t row = begin; row < end; row++) {
        const T *x = (const T *)given->p[0] + row * n;
        T *out = (T *)given->p[1] + row * n;
        const T most = NAMED(row_most)(x, n);
        for (int64_t i = 0; i < n; i++)
            out[i] = x[i] - most;
        EXP(out, out, n);
        const T total = NAMED(row_sum)(out, n);
        for (int64_t i = 0; i < n; i++)
            out[i] /= total;
    }
}
void NAMED(tg_portable_softmax)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], rows_at_once(n[1], 2.0), NAMED(softmax_part), &given);
}

/* p: input, out, powers; n: rows, width */
TG_VERSIONS static void NAMED(log_softmax_part)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t n = given->n[1];
    for (int64_t row = begin; row < end; row++) {
        const T *x = (const T *)given->p[0] + row * n;
        T *out = (T *)given->p[1] + row * n, *powers = (T *)given->p[2] + row * n;
        const T most = NAMED(row_most)(x, n);
        for (int64_t i = 0; i < n; i++)
            out[i] = x[i] - most;
        EXP(out, powers, n);
        T total = NAMED(row_sum)(powers, n);
        LOG(&total, &total, 1);
        for (int64_t i = 0; i < n; i++)
            out[i] -= total;
    }
}
void NAMED(tg_portable_log_softmax)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], rows_at_once(n[1], 2.0), NAMED(log_softmax_part), &given);
}

/* p: gradient, output, out; n: rows, width */
TG_VERSIONS static void NAMED(softmax_back_part)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t n = given->n[1];
    for (int64_t row = begin; row < end; row++) {
        const T *g = (const T *)given->p[0] + row * n, *y = (const T *)given->p[1] + row * n;
        T *out = (T *)given->p[2] + row * n;
        for (int64_t i = 0; i < n; i++)
            out[i] = g[i] * y[i];
        const T total = NAMED(row_sum)(out, n);
        for (int64_t i = 0; i < n; i++)
            out[i] -= y[i] * total;
    }
}
void NAMED(tg_portable_softmax_back)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], rows_at_once(n[1], 0.5), NAMED(softmax_back_part), &given);
}

/* p: gradient, output, out; n: rows, width */
TG_VERSIONS static void NAMED(log_softmax_back_part)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t n = given->n[1];
    for (int64_t row = begin; row < end; row++) {
        const T *g = (const T *)given->p[0] + row * n, *y = (const T *)given->p[1] + row * n;
        T *out = (T *)given->p[2] + row * n;
        const T total = NAMED(row_sum)(g, n);
        EXP(y, out, n);
        for (int64_t i = 0; i < n; i++)
            out[i] = g[i] - out[i] * total;
    }
}
void NAMED(tg_portable_log_softmax_back)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], rows_at_once(n[1], 1.5), NAMED(log_softmax_back_part), &given);
}

/* p: input, weight, bias, out, means, reciprocal deviations, squares; n: rows, width; x: eps */
TG_VERSIONS static void NAMED(layer_norm_part)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t n = given->n[1];
    const T *w = given->p[1], *b = given->p[2], eps = (T)given->x[0];
    T *means = given->p[4], *scales = given->p[5];
    for (int64_t row = begin; row < end; row++) {
        const T *x = (const T *)given->p[0] + row * n;
        T *out = (T *)given->p[3] + row * n, *squares = (T *)given->p[6] + row * n;
        const T mean = NAMED(row_sum)(x, n) / (T)n;
        for (int64_t i = 0; i < n; i++) {
            out[i] = x[i] - mean;
            squares[i] = out[i] * out[i];
        }
        const T r = (T)1 / SQRT(NAMED(row_sum)(squares, n) / (T)n + eps);
        for (int64_t i = 0; i < n; i++)
            out[i] *= r;
        if (w)
            for (int64_t i = 0; i < n; i++)
                out[i] *= w[i];
        if (b)
            for (int64_t i = 0; i < n; i++)
                out[i] += b[i];
        means[row] = mean;
        scales[row] = r;
    }
}
void NAMED(tg_portable_layer_norm)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], rows_at_once(n[1], 0.5), NAMED(layer_norm_part), &given);
}

/* p: gradient, input, means, reciprocal deviations, weight, out, gradient times what was normalized;
   n: rows, width */
TG_VERSIONS static void NAMED(layer_norm_back_part)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t n = given->n[1];
    const T *means = given->p[2], *scales = given->p[3], *w = given->p[4];
    for (int64_t row = begin; row < end; row++) {
        const T *g = (const T *)given->p[0] + row * n, *x = (const T *)given->p[1] + row * n;
        T *out = (T *)given->p[5] + row * n, *along = (T *)given->p[6] + row * n;
        const T mean = means[row], r = scales[row];
        for (int64_t i = 0; i < n; i++)
            out[i] = (x[i] - mean) * r * g[i] * (w ? w[i] : (T)1);
        const T b = NAMED(row_sum)(out, n) / (T)n;
        for (int64_t i = 0; i < n; i++)
            out[i] = w ? g[i] * w[i] : g[i];
        const T a = NAMED(row_sum)(out, n) / (T)n;
        for (int64_t i = 0; i < n; i++) {
            const T hat = (x[i] - mean) * r;
            along[i] = g[i] * hat;
            out[i] = ((out[i] - a) - hat * b) * r;
        }
    }
}
void NAMED(tg_portable_layer_norm_back)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], rows_at_once(n[1], 1.0), NAMED(layer_norm_back_part), &given);
}
