/* norms.c for one type T. */

/* p: input, weight or NULL, bias or NULL, out, means, reciprocal deviations; n: rows, width; x: eps */
TG_VERSIONS static void NAMED(layer_norm_rows)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t n = given->n[1];
    const T *w = given->p[1], *b = given->p[2];
    T *means = given->p[4], *scales = given->p[5];
    for (int64_t row = begin; row < end; row++) {
        const STORED *restrict x = (const STORED *)given->p[0] + row * n;
        STORED *restrict out = (STORED *)given->p[3] + row * n;
        SUM_OF(sum, n, GET(v, x), v)
        const T mean = (T)(sum / (double)n);
        SUM_OF(squares, n, GET(v, x), (v - mean) * (v - mean))
        const T r = (T)(1 / sqrt(squares / (double)n + given->x[0]));
        if (w && b)
            for (int64_t i = 0; i < n; i++)
                out[i] = NARROW((WIDEN(x[i]) - mean) * r * w[i] + b[i]);
        else if (w)
            for (int64_t i = 0; i < n; i++)
                out[i] = NARROW((WIDEN(x[i]) - mean) * r * w[i]);
        else if (b)
            for (int64_t i = 0; i < n; i++)
                out[i] = NARROW((WIDEN(x[i]) - mean) * r + b[i]);
        else
            for (int64_t i = 0; i < n; i++)
                out[i] = NARROW((WIDEN(x[i]) - mean) * r);
        means[row] = mean;
        scales[row] = r;
    }
}
void NAMED(tg_layer_norm)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], rows_of(n[1], 0.7), NAMED(layer_norm_rows), &given);
}

/* p: input, weight or NULL, out, reciprocal roots; n: rows, width; x: eps */
TG_VERSIONS static void NAMED(rms_norm_rows)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t n = given->n[1];
    const T *w = given->p[1];
    T *scales = given->p[3];
    for (int64_t row = begin; row < end; row++) {
        const STORED *restrict x = (const STORED *)given->p[0] + row * n;
        STORED *restrict out = (STORED *)given->p[2] + row * n;
        SUM_OF(squares, n, GET(v, x), v * v)
        const T r = (T)(1 / sqrt(squares / (double)n + given->x[0]));
        if (w)
            for (int64_t i = 0; i < n; i++)
                out[i] = NARROW(WIDEN(x[i]) * r * w[i]);
        else
            for (int64_t i = 0; i < n; i++)
                out[i] = NARROW(WIDEN(x[i]) * r);
        scales[row] = r;
    }
}
void NAMED(tg_rms_norm)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], rows_of(n[1], 0.5), NAMED(rms_norm_rows), &given);
}

/* The gradients of both. The rows are cut into blocks, each of which adds its share of the gradients
   of weight and bias to a place of its own: where they are cut does not depend on the threads.

   p: gradient, input, means or NULL, scales, weight or NULL, gradient of the input, of the weight or
   NULL, of the bias or NULL, place for four doubles per column and block; n: rows, width, rows of a
   block */
#define GRADIENT(reads, scaled, value)                                                             \
    TWO_SUMS_OF(sum, along, n, GET(gv, g) GET(xv, x) reads, scaled,                              \
                (scaled) * ((xv - mean) * r))                                                      \
    const T a = centred ? (T)(sum / (double)n) : 0, b = (T)(along / (double)n);                    \
    for (int64_t i = 0; i < n; i++)                                                                \
        out[i] = NARROW(((value) - a - (WIDEN(x[i]) - mean) * r * b) * r);

TG_VERSIONS static void NAMED(norm_back_blocks)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t rows = given->n[0], n = given->n[1], tall = given->n[2];
    const T *means = given->p[2], *scales = given->p[3], *w = given->p[4];
    const int centred = means != NULL, columns = given->p[6] || given->p[7];
    for (int64_t block = begin; block < end; block++) {
        const int64_t first = block * tall, last = lesser(first + tall, rows);
        double *restrict sums = (double *)given->p[8] + 4 * block * n;
        T *restrict to_weight = (T *)(sums + 2 * n), *restrict to_bias = to_weight + n;
        if (columns) {
            memset(sums, 0, sizeof(double) * 2 * n);
            memset(to_weight, 0, sizeof(T) * 2 * n);
        }
        for (int64_t row = first; row < last; row++) {
            const STORED *restrict g = (const STORED *)given->p[0] + row * n;
            const STORED *restrict x = (const STORED *)given->p[1] + row * n;
            STORED *restrict out = (STORED *)given->p[5] + row * n;
            const T mean = centred ? means[row] : 0, r = scales[row];
            if (w) {
                GRADIENT(READ(wv, w), gv * wv, WIDEN(g[i]) * w[i])
            } else {
                GRADIENT(, gv, WIDEN(g[i]))
            }
            if (!columns)
                continue;
            for (int64_t i = 0; i < n; i++) {
                to_weight[i] += WIDEN(g[i]) * ((WIDEN(x[i]) - mean) * r);
                to_bias[i] += WIDEN(g[i]);
            }
            if ((row - first) % TALL == TALL - 1 || row == last - 1)
                for (int64_t i = 0; i < 2 * n; i++) {
                    sums[i] += (double)to_weight[i];
                    to_weight[i] = 0;
                }
        }
    }
}
#undef GRADIENT

TG_VERSIONS static void NAMED(norm_back_columns)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t n = given->n[1], blocks = (given->n[0] + given->n[2] - 1) / given->n[2];
    for (int which = 0; which < 2; which++) {
        T *out = given->p[6 + which];
        const double *parts = (const double *)given->p[8] + which * n;
        for (int64_t i = begin; out && i < end; i++) {
            double sum = 0;
            for (int64_t block = 0; block < blocks; block++)
                sum += parts[4 * block * n + i];
            out[i] = (T)sum;
        }
    }
}
void NAMED(tg_norm_back)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    const int64_t blocks = (n[0] + n[2] - 1) / n[2];
    tg_parallel(blocks, 1, NAMED(norm_back_blocks), &given);
    if (p[6] || p[7])
        tg_parallel(n[1], tg_grain(0.5 * (double)blocks), NAMED(norm_back_columns), &given);
}
