/* matvec.c for one type T. */

/* The sum of a few products: WIDE of them side by side, then the rest. */
TG_INLINE T NAMED(short_dot)(const T *restrict a, const T *restrict x, int64_t n) {
    typedef VECTOR element;
    element sums = {0};
    int64_t i = 0;
    for (; i + WIDE <= n; i += WIDE) {
        READ(u, a)
        READ(v, x)
        sums += u * v;
    }
    for (int half = WIDE / 2; half; half /= 2)
        for (int k = 0; k < half; k++)
            sums[k] += sums[k + half];
    T total = sums[0];
    for (; i < n; i++)
        total += a[i] * x[i];
    return total;
}

/* Products of rows with one vector. Rows that are long enough are cut into pieces.
   p: matrix, vector, out, place for a double per piece, or NULL: there is one per row; n: rows,
   width, elements from row to row, length of a piece */
TG_VERSIONS static void NAMED(dot_pieces)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t width = given->n[1], down = given->n[2], length = given->n[3];
    const int64_t pieces = (width + length - 1) / length;
    double *parts = given->p[3];
    for (int64_t piece = begin; piece < end; piece++) {
        const int64_t row = piece / pieces, first = (piece - row * pieces) * length;
        const T *restrict a = (const T *)given->p[0] + row * down + first;
        const T *restrict x = (const T *)given->p[1] + first;
        const int64_t count = lesser(length, width - first);
        if (width <= SHORT) {
            ((T *)given->p[2])[row] = NAMED(short_dot)(a, x, width);
            continue;
        }
        SUM_OF(sum, count, READ(u, a) READ(v, x), u * v)
        if (parts)
            parts[piece] = sum;
        else
            ((T *)given->p[2])[row] = (T)sum;
    }
}
void NAMED(tg_matvec)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    const int64_t pieces = (n[1] + n[3] - 1) / n[3];
    tg_parallel(n[0] * pieces, rows_of(lesser(n[1], n[3]), 0.2), NAMED(dot_pieces), &given);
    const double *parts = p[3];
    for (int64_t row = 0; parts && row < n[0]; row++) {
        double sum = 0;
        for (int64_t i = 0; i < pieces; i++)
            sum += parts[row * pieces + i];
        ((T *)p[2])[row] = (T)sum;
    }
}

/* Product of a vector with a matrix that lies in memory column by column: four columns at a time are
   added to ROWS sums, which stay in the first cache.
   p: matrix, vector, out; n: rows, columns, elements from column to column */
TG_VERSIONS static void NAMED(some_rows)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t rows = given->n[0], columns = given->n[1], right = given->n[2];
    const T *x = given->p[1];
    for (int64_t block = begin; block < end; block++) {
        const int64_t first = block * ROWS, count = lesser(ROWS, rows - first);
        double sums[ROWS];
        for (int64_t i = 0; i < count; i++)
            sums[i] = 0;
        for (int64_t start = 0; start < columns; start += TALL) {
            const int64_t stop = lesser(start + TALL, columns);
            T some[ROWS];
            for (int64_t i = 0; i < count; i++)
                some[i] = 0;
            int64_t j = start;
            const T *restrict a = (const T *)given->p[0] + first + start * right;
            for (; j + 4 <= stop; j += 4, a += 4 * right) {
                const T x0 = x[j], x1 = x[j + 1], x2 = x[j + 2], x3 = x[j + 3];
                for (int64_t i = 0; i < count; i++)
                    some[i] += (a[i] * x0 + a[right + i] * x1) +
                               (a[2 * right + i] * x2 + a[3 * right + i] * x3);
            }
            for (; j < stop; j++, a += right)
                for (int64_t i = 0; i < count; i++)
                    some[i] += a[i] * x[j];
            for (int64_t i = 0; i < count; i++)
                sums[i] += (double)some[i];
        }
        for (int64_t i = 0; i < count; i++)
            ((T *)given->p[2])[first + i] = (T)sums[i];
    }
}
void NAMED(tg_matvec_columns)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel((n[0] + ROWS - 1) / ROWS, tg_grain(0.2) / (n[1] * ROWS), NAMED(some_rows), &given);
}
