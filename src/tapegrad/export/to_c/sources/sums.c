/*@ least */
static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/*@ sum_on_real */
/* Go on with a sum: blocks of 256 in four times LANES lanes, blocks added up in double. */
static void sum_on_real(const real *x, int64_t n, double *sums, double *total) {
    int64_t i = 0;
    while (i + LANES <= n) {
        const int64_t stop = i + 256 < n ? i + 256 : n;
        real s[4][LANES] = {{0}};
        for (; i + 4 * LANES <= stop; i += 4 * LANES)
            for (int v = 0; v < 4; v++)
                for (int l = 0; l < LANES; l++)
                    s[v][l] += x[i + v * LANES + l];
        for (; i + LANES <= stop; i += LANES)
            for (int l = 0; l < LANES; l++)
                s[0][l] += x[i + l];
        for (int l = 0; l < LANES; l++)
            sums[l] += (double)((s[0][l] + s[1][l]) + (s[2][l] + s[3][l]));
    }
    for (; i < n; i++)
        *total += (double)x[i];
}

/*@ sum_end_real */
static double sum_end_real(double *sums, double total) {
    for (int half = LANES / 2; half; half /= 2)
        for (int l = 0; l < half; l++)
            sums[l] += sums[l + half];
    return total + sums[0];
}

/*@ sum_of_real */
static double sum_of_real(const real *x, int64_t n) {
    double sums[LANES] = {0}, total = 0;
    sum_on_real(x, n, sums, &total);
    return sum_end_real(sums, total);
}

/*@ sum_real */
/* Sums of rows over a divisor; long rows are added up in pieces. */
static void sum_real(const real *x, real *out, int64_t rows, int64_t width, int64_t length,
                     double divisor) {
    const int64_t pieces = (width + length - 1) / length;
    for (int64_t row = 0; row < rows; row++) {
        double sum = 0;
        for (int64_t i = 0; i < pieces; i++) {
            const int64_t first = i * length;
            const double part =
                sum_of_real(x + row * width + first, least(length, width - first));
            sum = pieces > 1 ? sum + part : part;
        }
        out[row] = (real)(sum / divisor);
    }
}

/*@ sum_columns_real */
/* out[o, i] = the sum over j of x[o, j, i] over a divisor: 64 rows at a time, in blocks of `height`. */
static void sum_columns_real(const real *x, real *out, int64_t outer, int64_t tall, int64_t inner,
                             int64_t height, double divisor) {
    for (int64_t o = 0; o < outer; o++)
        for (int64_t left = 0; left < inner; left += 64) {
            const int64_t width = least(64, inner - left);
            double all[64] = {0};
            for (int64_t top = 0; top < tall; top += height) {
                const int64_t bottom = least(top + height, tall);
                double sums[64] = {0};
                for (int64_t start = top; start < bottom; start += 64) {
                    const int64_t stop = least(start + 64, bottom);
                    real some[64] = {0};
                    int64_t j = start;
                    const real *row = x + (o * tall + start) * inner + left;
                    for (; j + 4 <= stop; j += 4, row += 4 * inner)
                        for (int64_t i = 0; i < width; i++)
                            some[i] += (row[i] + row[inner + i]) +
                                       (row[2 * inner + i] + row[3 * inner + i]);
                    for (; j < stop; j++, row += inner)
                        for (int64_t i = 0; i < width; i++)
                            some[i] += row[i];
                    for (int64_t i = 0; i < width; i++)
                        sums[i] += (double)some[i];
                }
                for (int64_t i = 0; i < width; i++)
                    all[i] = height < tall ? all[i] + sums[i] : sums[i];
            }
            for (int64_t i = 0; i < width; i++)
                out[o * inner + left + i] = (real)(all[i] / divisor);
        }
}

/*@ sum_few_real */
/* The sum of at most 128 numbers in NumPy's order. */
static real sum_few_real(const real *x, int64_t n) {
    real sum = 0, part[8];
    int64_t i = 0;
    if (n < 8) {
        for (; i < n; i++)
            sum += x[i];
        return sum;
    }
    for (; i < 8; i++)
        part[i] = x[i];
    for (; i < n - n % 8; i += 8)
        for (int k = 0; k < 8; k++)
            part[k] += x[i + k];
    sum = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
    for (; i < n; i++)
        sum += x[i];
    return 0 + sum;
}

/*@ larger_real */
/* The larger one, or NaN if one is. */
static inline real larger_real(real a, real b) { return (b > a || b != b) ? b : a; }
