/* batch_norm.c for one type T. */

/* One of two statistics, or of the weights, of a channel; `none` where there are no weights. */
#define AT(array, c, none) ((array) ? ((const T *)(array))[c] : (T)(none))

/* ------------------------------------------------------------------ batch norm of images */

/* p: input, weight, bias, out, stats (3, C: mean, 1/deviation, variance); n: N, C, L; x: eps */
TG_VERSIONS static void NAMED(batch_norm_channels)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t images = given->n[0], channels = given->n[1], length = given->n[2];
    const double count = (double)images * (double)length;
    T *stats = given->p[4];
    for (int64_t c = begin; c < end; c++) {
        double sum = 0, squares = 0;
        for (int64_t image = 0; image < images; image++) {
            const T *x = (const T *)given->p[0] + (image * channels + c) * length;
            SUM_OF(part, length, READ(a, x), a)
            sum += part;
        }
        const T mean = (T)(sum / count);
        for (int64_t image = 0; image < images; image++) {
            const T *x = (const T *)given->p[0] + (image * channels + c) * length;
            SUM_OF(part, length, READ(a, x), (a - mean) * (a - mean))
            squares += part;
        }
        const T var = (T)(squares / count), r = 1 / SQRT(var + (T)given->x[0]);
        const T factor = AT(given->p[1], c, 1) * r, shift = AT(given->p[2], c, 0);
        for (int64_t image = 0; image < images; image++) {
            const T *restrict x = (const T *)given->p[0] + (image * channels + c) * length;
            T *restrict out = (T *)given->p[3] + (image * channels + c) * length;
            for (int64_t i = 0; i < length; i++)
                out[i] = (x[i] - mean) * factor + shift;
        }
        stats[c] = mean;
        stats[channels + c] = r;
        stats[2 * channels + c] = var;
    }
}
void NAMED(tg_batch_norm)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[1], pieces(0.6, n[0] * n[2]), NAMED(batch_norm_channels), &given);
}

/* p: input, weight, bias, mean, var, out; n: N, C, L; x: eps */
TG_VERSIONS static void NAMED(batch_norm_fixed_planes)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t channels = given->n[1], length = given->n[2];
    for (int64_t plane = begin; plane < end; plane++) {
        const int64_t c = plane % channels;
        const T mean = ((const T *)given->p[3])[c], var = ((const T *)given->p[4])[c];
        const T factor = AT(given->p[1], c, 1) * (1 / SQRT(var + (T)given->x[0]));
        const T shift = AT(given->p[2], c, 0);
        const T *restrict x = (const T *)given->p[0] + plane * length;
        T *restrict out = (T *)given->p[5] + plane * length;
        for (int64_t i = 0; i < length; i++)
            out[i] = (x[i] - mean) * factor + shift;
    }
}
void NAMED(tg_batch_norm_fixed)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0] * n[1], pieces(0.3, n[2]), NAMED(batch_norm_fixed_planes), &given);
}

/* p: gradient, input, weight, mean, 1/deviation, to the input, to the weight, to the bias;
   n: N, C, L, training */
TG_VERSIONS static void NAMED(batch_norm_back_channels)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t images = given->n[0], channels = given->n[1], length = given->n[2];
    const T count = (T)images * (T)length;
    for (int64_t c = begin; c < end; c++) {
        const T mean = ((const T *)given->p[3])[c], r = ((const T *)given->p[4])[c];
        const T factor = AT(given->p[2], c, 1) * r;
        double sum = 0, product = 0;
        for (int64_t image = 0; image < images; image++) {
            const int64_t at = (image * channels + c) * length;
            const T *g = (const T *)given->p[0] + at, *x = (const T *)given->p[1] + at;
            TWO_SUMS_OF(part, dot, length, READ(a, x) READ(b, g), b, b * (a - mean))
            sum += part;
            product += dot;
        }
        const T sums = (T)sum, dots = (T)product * r;
        const T slope = factor * r * dots / count, shift = factor * sums / count;
        for (int64_t image = 0; image < images; image++) {
            const int64_t at = (image * channels + c) * length;
            const T *restrict g = (const T *)given->p[0] + at;
            const T *restrict x = (const T *)given->p[1] + at;
            T *restrict out = (T *)given->p[5] + at;
            if (given->n[3])
                for (int64_t i = 0; i < length; i++)
                    out[i] = g[i] * factor - ((x[i] - mean) * slope + shift);
            else
                for (int64_t i = 0; i < length; i++)
                    out[i] = g[i] * factor;
        }
        if (given->p[6])
            ((T *)given->p[6])[c] = dots;
        if (given->p[7])
            ((T *)given->p[7])[c] = sums;
    }
}
void NAMED(tg_batch_norm_back)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[1], pieces(0.8, n[0] * n[2]), NAMED(batch_norm_back_channels), &given);
}

/* ------------------------------------------------------------------ batch norm of matrices */

/* Batch norm with channels last: n[0] is the number of rows, n[2] = 1; tiles of columns. */
TG_VERSIONS static void NAMED(columns_norm_tiles)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t rows = given->n[0], columns = given->n[1];
    T *stats = given->p[4];
    for (int64_t tile = begin; tile < end; tile++) {
        const int64_t first = tile * TILE;
        const int64_t width = columns - first < TILE ? columns - first : TILE;
        const T *x = (const T *)given->p[0] + first;
        double sum[TILE] = {0};
        T mean[TILE], factor[TILE], shift[TILE];
        for (int64_t row = 0; row < rows; row++)
            for (int64_t k = 0; k < width; k++)
                sum[k] += x[row * columns + k];
        for (int64_t k = 0; k < width; k++) {
            mean[k] = (T)(sum[k] / (double)rows);
            sum[k] = 0;
        }
        for (int64_t row = 0; row < rows; row++)
            for (int64_t k = 0; k < width; k++) {
                const double d = x[row * columns + k] - mean[k];
                sum[k] += d * d;
            }
        for (int64_t k = 0; k < width; k++) {
            const int64_t c = first + k;
            const T var = (T)(sum[k] / (double)rows), r = 1 / SQRT(var + (T)given->x[0]);
            factor[k] = AT(given->p[1], c, 1) * r;
            shift[k] = AT(given->p[2], c, 0);
            stats[c] = mean[k];
            stats[columns + c] = r;
            stats[2 * columns + c] = var;
        }
        T *restrict out = (T *)given->p[3] + first;
        for (int64_t row = 0; row < rows; row++)
            for (int64_t k = 0; k < width; k++)
                out[row * columns + k] = (x[row * columns + k] - mean[k]) * factor[k] + shift[k];
    }
}
void NAMED(tg_columns_norm)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel((n[1] + TILE - 1) / TILE, pieces(0.8, n[0] * TILE), NAMED(columns_norm_tiles),
                &given);
}

TG_VERSIONS static void NAMED(columns_norm_back_tiles)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t rows = given->n[0], columns = given->n[1];
    for (int64_t tile = begin; tile < end; tile++) {
        const int64_t first = tile * TILE;
        const int64_t width = columns - first < TILE ? columns - first : TILE;
        const T *g = (const T *)given->p[0] + first, *x = (const T *)given->p[1] + first;
        const T *mean = (const T *)given->p[3] + first, *r = (const T *)given->p[4] + first;
        double sum[TILE] = {0}, product[TILE] = {0};
        T factor[TILE], slope[TILE], shift[TILE];
        for (int64_t row = 0; row < rows; row++)
            for (int64_t k = 0; k < width; k++) {
                const T d = g[row * columns + k];
                sum[k] += d;
                product[k] += d * (x[row * columns + k] - mean[k]);
            }
        for (int64_t k = 0; k < width; k++) {
            const T sums = (T)sum[k], dots = (T)product[k] * r[k];
            factor[k] = AT(given->p[2], first + k, 1) * r[k];
            slope[k] = given->n[3] ? factor[k] * r[k] * dots / (T)rows : 0;
            shift[k] = given->n[3] ? factor[k] * sums / (T)rows : 0;
            if (given->p[6])
                ((T *)given->p[6])[first + k] = dots;
            if (given->p[7])
                ((T *)given->p[7])[first + k] = sums;
        }
        T *restrict out = (T *)given->p[5] + first;
        if (given->n[3])
            for (int64_t row = 0; row < rows; row++)
                for (int64_t k = 0; k < width; k++) {
                    const int64_t i = row * columns + k;
                    out[i] = g[i] * factor[k] - ((x[i] - mean[k]) * slope[k] + shift[k]);
                }
        else
            for (int64_t row = 0; row < rows; row++)
                for (int64_t k = 0; k < width; k++)
                    out[row * columns + k] = g[row * columns + k] * factor[k];
    }
}
void NAMED(tg_columns_norm_back)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel((n[1] + TILE - 1) / TILE, pieces(1.0, n[0] * TILE), NAMED(columns_norm_back_tiles),
                &given);
}

/* ------------------------------------------------------------------ group norm */

/* p: input, weight, bias, out, mean, 1/deviation; n: sets (N times groups), groups, channels of a
   group, L; x: eps */
TG_VERSIONS static void NAMED(group_norm_sets)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t groups = given->n[1], channels = given->n[2], length = given->n[3];
    const int64_t size = channels * length;
    for (int64_t set = begin; set < end; set++) {
        const T *restrict x = (const T *)given->p[0] + set * size;
        T *restrict out = (T *)given->p[3] + set * size;
        SUM_OF(sum, size, READ(a, x), a)
        const T mean = (T)(sum / (double)size);
        SUM_OF(squares, size, READ(a, x), (a - mean) * (a - mean))
        const T r = 1 / SQRT((T)(squares / (double)size) + (T)given->x[0]);
        for (int64_t k = 0; k < channels; k++) {
            const int64_t c = set % groups * channels + k;
            const T weight = AT(given->p[1], c, 1), shift = AT(given->p[2], c, 0);
            for (int64_t i = k * length; i < (k + 1) * length; i++)
                out[i] = (x[i] - mean) * r * weight + shift;
        }
        ((T *)given->p[4])[set] = mean;
        ((T *)given->p[5])[set] = r;
    }
}
void NAMED(tg_group_norm)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], pieces(0.6, n[2] * n[3]), NAMED(group_norm_sets), &given);
}

/* p: gradient, input, mean, 1/deviation, weight, to the input, sums and dots of every channel of
   every image (in double), to the weight and to the bias, or NULL; n as above */
TG_VERSIONS static void NAMED(group_norm_back_sets)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t groups = given->n[1], channels = given->n[2], length = given->n[3];
    const int64_t size = channels * length;
    for (int64_t set = begin; set < end; set++) {
        const T *restrict g = (const T *)given->p[0] + set * size;
        const T *restrict x = (const T *)given->p[1] + set * size;
        const T mean = ((const T *)given->p[2])[set], r = ((const T *)given->p[3])[set];
        T *restrict out = (T *)given->p[5] + set * size;
        double *sums = (double *)given->p[6] + set * channels;
        double *dots = (double *)given->p[7] + set * channels;
        double a = 0, b = 0;
        for (int64_t k = 0; k < channels; k++) {
            const T *row = g + k * length, *values = x + k * length;
            TWO_SUMS_OF(sum, product, length, READ(v, values) READ(d, row), d, d * (v - mean))
            const double weight = AT(given->p[4], set % groups * channels + k, 1);
            sums[k] = sum;
            dots[k] = product * r;
            a += weight * sum;
            b += weight * dots[k];
        }
        const T slope = (T)(b * r * r / (double)size), shift = (T)(a * r / (double)size);
        for (int64_t k = 0; k < channels; k++) {
            const T factor = AT(given->p[4], set % groups * channels + k, 1) * r;
            for (int64_t i = k * length; i < (k + 1) * length; i++)
                out[i] = g[i] * factor - ((x[i] - mean) * slope + shift);
        }
    }
}
void NAMED(tg_group_norm_back)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], pieces(0.8, n[2] * n[3]), NAMED(group_norm_back_sets), &given);
    const int64_t all = n[1] * n[2];
    for (int k = 0; k < 2; k++)
        for (int64_t c = 0; p[8 + k] && c < all; c++) {
            const double *from = k ? p[6] : p[7];
            double sum = 0;
            for (int64_t image = 0; image < n[0] / n[1]; image++)
                sum += from[image * all + c];
            ((T *)p[8 + k])[c] = (T)sum;
        }
}

#undef AT
