/* reduce.c for one type T: sums. Those of half precision are floats. */

/* Sums of rows, divided by a number. Long rows are cut into pieces.
   p: input, out, place for a double per piece, or NULL: there is one per row; n: rows, width, length
   of a piece, elements from row to row; x: the divisor */
TG_VERSIONS static void NAMED(sum_pieces)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t width = given->n[1], length = given->n[2], pieces = (width + length - 1) / length;
    double *parts = given->p[2];
    for (int64_t piece = begin; piece < end; piece++) {
        const int64_t row = piece / pieces, first = (piece - row * pieces) * length;
        const STORED *restrict x = (const STORED *)given->p[0] + row * given->n[3] + first;
        const int64_t count = lesser(length, width - first);
        SUM_OF(sum, count, GET(v, x), v)
        if (parts)
            parts[piece] = sum;
        else
            ((T *)given->p[1])[row] = (T)(sum / given->x[0]);
    }
}
/* A part of such a sum, for kernels that make the elements themselves; see sums.h. */
TG_VERSIONS static void NAMED(sum_on)(const void *from, int64_t count, double *sums,
                                      double *so_far) {
    const STORED *restrict x = from;
    double total = *so_far;
    SUM_ON(total, sums, count, GET(v, x), v)
    *so_far = total;
}
void NAMED(tg_sum_on)(const void *from, int64_t count, double *sums, double *so_far) {
    NAMED(sum_on)(from, count, sums, so_far);
}
double NAMED(tg_sum_end)(double *sums, double so_far) {
    double total = so_far;
    ADD_UP(total, sums)
    return total;
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
   tall, inner, rows of a block, elements from row to row; x: the divisor */
TG_VERSIONS static void NAMED(sum_tiles)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t tall = given->n[1], inner = given->n[2], height = given->n[3], step = given->n[4];
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
            const STORED *restrict x =
                (const STORED *)given->p[0] + (o * tall + start) * step + left;
            int64_t j = start;
            for (; j + 4 <= stop; j += 4, x += 4 * step)
                for (int64_t i = 0; i < width; i++)
                    some[i] += (WIDEN(x[i]) + WIDEN(x[step + i])) +
                               (WIDEN(x[2 * step + i]) + WIDEN(x[3 * step + i]));
            for (; j < stop; j++, x += step)
                for (int64_t i = 0; i < width; i++)
                    some[i] += WIDEN(x[i]);
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
