/*@ product_real */
/* out = a @ b, plus `row` or nothing: sums go along k, in parts of at most 512, by one fused
   multiply-add after the other. Steps of a and b are down and to the right; `panel` is room for columns
   of b in the order in which they are read, 32 times the rows of a part. */
enum { HIGH_real = 8, WIDE_real = 32 };
static void product_real(int64_t m, int64_t n, int64_t k, const real *a, int64_t a_down,
                         int64_t a_right, const real *b, int64_t b_down, int64_t b_right,
                         const real *row, real *out, int64_t out_down, real *panel) {
    const int64_t parts = (k + 511) / 512, most = (k + parts - 1) / parts;
    for (int64_t start = 0; start < k; start += most) {
        const int64_t deep = k - start < most ? k - start : most;
        for (int64_t left = 0; left < n; left += WIDE_real) {
            const int64_t width = n - left < WIDE_real ? n - left : WIDE_real;
            const real *from = b + start * b_down + left * b_right;
            const int in_place = b_right == 1 && width == WIDE_real;
            const real *columns = in_place ? from : panel;
            const int64_t apart = in_place ? b_down : WIDE_real;
            if (panel && width < WIDE_real)
                memset(panel, 0, sizeof(real) * (size_t)(deep * WIDE_real));
            for (int64_t j = 0; panel && !in_place && j < width; j++)
                for (int64_t i = 0; i < deep; i++)
                    panel[i * WIDE_real + j] = from[i * b_down + j * b_right];
            for (int64_t top = 0; top < m; top += HIGH_real) {
                const int64_t high = m - top < HIGH_real ? m - top : HIGH_real;
                const real *x[HIGH_real];
                real sum[HIGH_real][WIDE_real] = {{0}};
                for (int r = 0; r < HIGH_real; r++) /* rows that are not there are the last one */
                    x[r] = a + (top + (r < high ? r : high - 1)) * a_down + start * a_right;
                for (int64_t i = 0; i < deep; i++)
                    for (int r = 0; r < HIGH_real; r++) {
                        const real factor = x[r][i * a_right];
                        for (int j = 0; j < WIDE_real; j++)
                            sum[r][j] = FMA(factor, columns[i * apart + j], sum[r][j]);
                    }
                for (int64_t r = 0; r < high; r++) {
                    real *to = out + (top + r) * out_down + left;
                    for (int64_t j = 0; j < width; j++)
                        to[j] = sum[r][j] + (start ? to[j] : row ? row[left + j] : 0);
                }
            }
        }
    }
}

/*@ matvec_real */
/* Rows times a vector: short rows in LANES lanes, others in blocks of 256, added up in double. */
static void matvec_real(int64_t rows, int64_t width, int64_t down, const real *a, const real *x,
                        real *out) {
    for (int64_t r = 0; r < rows; r++, a += down) {
        double sums[LANES] = {0}, total = 0;
        int64_t i = 0;
        while (i + LANES <= width) {
            const int64_t stop = width <= 64 || i + 256 > width ? width : i + 256;
            real s[4][LANES] = {{0}};
            for (; width > 64 && i + 4 * LANES <= stop; i += 4 * LANES)
                for (int v = 0; v < 4; v++)
                    for (int l = 0; l < LANES; l++)
                        s[v][l] += a[i + v * LANES + l] * x[i + v * LANES + l];
            for (; i + LANES <= stop; i += LANES)
                for (int l = 0; l < LANES; l++)
                    s[0][l] += a[i + l] * x[i + l];
            for (int l = 0; l < LANES; l++)
                sums[l] += (double)((s[0][l] + s[1][l]) + (s[2][l] + s[3][l]));
        }
        if (width <= 64) { /* the lanes, then the rest, in the type itself */
            real few[LANES], sum;
            for (int l = 0; l < LANES; l++)
                few[l] = (real)sums[l];
            for (int half = LANES / 2; half; half /= 2)
                for (int l = 0; l < half; l++)
                    few[l] += few[l + half];
            sum = few[0];
            for (; i < width; i++)
                sum += a[i] * x[i];
            out[r] = sum;
            continue;
        }
        for (; i < width; i++)
            total += (double)(a[i] * x[i]);
        for (int half = LANES / 2; half; half /= 2)
            for (int l = 0; l < half; l++)
                sums[l] += sums[l + half];
        out[r] = (real)(total + sums[0]);
    }
}

/*@ matvec_columns_real */
/* Columns times the elements of a vector, added up: 64 of them at a time, then in double. */
static void matvec_columns_real(int64_t rows, int64_t columns, int64_t right, const real *a,
                                const real *x, real *out) {
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t start = 0; start < columns; start += 64) {
            const int64_t stop = start + 64 < columns ? start + 64 : columns;
            real some = 0;
            int64_t j = start;
            for (; j + 4 <= stop; j += 4) {
                const real *at = a + r + j * right;
                some += (at[0] * x[j] + at[right] * x[j + 1]) +
                        (at[2 * right] * x[j + 2] + at[3 * right] * x[j + 3]);
            }
            for (; j < stop; j++)
                some += a[r + j * right] * x[j];
            sum += (double)some;
        }
        out[r] = (real)sum;
    }
}
