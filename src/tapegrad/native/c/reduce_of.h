/* reduce.c for one type T. */

/* Sums of rows, divided by a number. Long rows are cut into pieces.
   p: input, out, place for a double per piece, or NULL: there is one per row; n: rows, width, length
   of a piece; x: the divisor */
TG_VERSIONS static void NAMED(sum_pieces)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t width = given->n[1], length = given->n[2], pieces = (width + length - 1) / length;
    double *parts = given->p[2];
    for (int64_t piece = begin; piece < end; piece++) {
        const int64_t row = piece / pieces, first = (piece - row * pieces) * length;
        const T *restrict x = (const T *)given->p[0] + row * width + first;
        const int64_t count = lesser(length, width - first);
        SUM_OF(sum, count, READ(v, x), v)
        if (parts)
            parts[piece] = sum;
        else
            ((T *)given->p[1])[row] = (T)(sum / given->x[0]);
    }
}
void NAMED(tg_sum)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    const int64_t pieces = (n[1] + n[2] - 1) / n[2];
    tg_parallel(n[0] * pieces, rows_of(lesser(n[1], n[2]), 0.15), NAMED(sum_pieces), &given);
    const double *parts = p[2];
    for (int64_t row = 0; parts && row < n[0]; row++) {
        double sum = 0;
        for (int64_t i = 0; i < pieces; i++)
            sum += parts[row * pieces + i];
        ((T *)p[1])[row] = (T)(sum / x[0]);
    }
}

/* Sums of columns, out[o, i] = sum over j of input[o, j, i], divided by a number. The rows are cut
   into blocks, the columns into tiles.
   p: input, out, place for a double per block and column, or NULL: there is one block; n: outer,
   tall, inner, rows of a block; x: the divisor */
TG_VERSIONS static void NAMED(sum_tiles)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t tall = given->n[1], inner = given->n[2], height = given->n[3];
    const int64_t tiles = (inner + TILE - 1) / TILE, blocks = (tall + height - 1) / height;
    for (int64_t piece = begin; piece < end; piece++) {
        const int64_t block = piece / tiles, left = (piece - block * tiles) * TILE;
        const int64_t o = block / blocks, top = (block - o * blocks) * height;
        const int64_t bottom = lesser(top + height, tall), width = lesser(TILE, inner - left);
        double sums[TILE];
        for (int64_t i = 0; i < width; i++)
            sums[i] = 0;
        for (int64_t start = top; start < bottom; start += TALL) {
            const int64_t stop = lesser(start + TALL, bottom);
            T some[TILE];
            for (int64_t i = 0; i < width; i++)
                some[i] = 0;
            const T *restrict x = (const T *)given->p[0] + (o * tall + start) * inner + left;
            int64_t j = start;
            for (; j + 4 <= stop; j += 4, x += 4 * inner)
                for (int64_t i = 0; i < width; i++)
                    some[i] += (x[i] + x[inner + i]) + (x[2 * inner + i] + x[3 * inner + i]);
            for (; j < stop; j++, x += inner)
                for (int64_t i = 0; i < width; i++)
                    some[i] += x[i];
            for (int64_t i = 0; i < width; i++)
                sums[i] += (double)some[i];
        }
        if (given->p[2])
            memcpy((double *)given->p[2] + block * inner + left, sums, sizeof(double) * width);
        else
            for (int64_t i = 0; i < width; i++)
                ((T *)given->p[1])[o * inner + left + i] = (T)(sums[i] / given->x[0]);
    }
}
void NAMED(tg_sum_columns)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    const int64_t tiles = (n[2] + TILE - 1) / TILE, blocks = (n[1] + n[3] - 1) / n[3];
    tg_parallel(n[0] * blocks * tiles, rows_of(lesser(n[1], n[3]) * lesser(n[2], TILE), 0.2),
                NAMED(sum_tiles), &given);
    const double *parts = p[2];
    for (int64_t o = 0; parts && o < n[0]; o++)
        for (int64_t i = 0; i < n[2]; i++) {
            double sum = 0;
            for (int64_t block = 0; block < blocks; block++)
                sum += parts[(o * blocks + block) * n[2] + i];
            ((T *)p[1])[o * n[2] + i] = (T)(sum / x[0]);
        }
}

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

/* Running sums or products, in double, along the middle of three dimensions.
   p: input, out; n: outer, size, inner, whether products are wanted */
#define RUN(start, how)                                                                            \
    if (inner == 1) {                                                                              \
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
