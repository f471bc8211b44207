/*@ extremes_real */
/* The first of the largest elements along the middle of three dimensions, or of the smallest; of
   elements among which there is a NaN, the first NaN. */
static void extremes_real(const real *input, real *values, int64_t *places, int64_t outer,
                          int64_t count, int64_t inner, int smallest) {
    for (int64_t i = 0; i < outer * inner; i++) {
        const real *x = input + i / inner * count * inner + i % inner;
        real best = x[0];
        int64_t at = 0;
        for (int64_t j = 1; j < count && best == best; j++) {
            const real v = x[j * inner];
            if ((smallest ? v < best : v > best) || v != v) {
                best = v;
                at = j;
            }
        }
        if (values)
            values[i] = best;
        if (places)
            places[i] = at;
    }
}

/*@ truths */
/* Whether all are true, or any of them. */
static void truths(const unsigned char *x, unsigned char *out, int64_t outer, int64_t count,
                   int64_t inner, int any) {
    for (int64_t i = 0; i < outer * inner; i++) {
        const unsigned char *at = x + i / inner * count * inner + i % inner;
        int64_t j = 0;
        while (j < count && at[j * inner] != any)
            j++;
        out[i] = j < count ? any : !any;
    }
}

/*@ place_on */
/* One more index of those that say together where elements are. False: one is out of range. */
static int place_on(int64_t *out, const int64_t *index, int64_t count, int64_t size, int is_first) {
    if (!are_within(index, count, -size, size))
        return 0;
    for (int64_t i = 0; i < count; i++)
        out[i] = (is_first ? 0 : out[i] * size) + (index[i] < 0 ? index[i] + size : index[i]);
    return 1;
}

/*@ moved */
/* out[i] = source[table[i]], where that is not negative. */
static void moved(const void *source, const int64_t *table, void *out, int64_t count,
                  int64_t bytes) {
    for (int64_t i = 0; i < count; i++)
        if (table[i] >= 0)
            memcpy((char *)out + i * bytes, (const char *)source + table[i] * bytes, (size_t)bytes);
}

/*@ gather */
/* out[o, j, k] = source[o, index[o, j, k], k] */
static int gather(const void *source, const int64_t *index, void *out, int64_t outer, int64_t size,
                  int64_t inner, int64_t count, int64_t bytes) {
    if (!are_within(index, outer * count * inner, 0, size))
        return 0;
    for (int64_t i = 0; i < outer * count * inner; i++)
        memcpy((char *)out + i * bytes,
               (const char *)source +
                   ((i / (count * inner) * size + index[i]) * inner + i % inner) * bytes,
               (size_t)bytes);
    return 1;
}

/*@ scatter_real */
/* out[o, index[o, j, k], k] += source[o, j, k], or =, or = number without a source. */
static int scatter_real(real *out, const int64_t *index, const real *source, int64_t outer,
                        int64_t size, int64_t inner, int64_t count, int adds, int clears,
                        double number) {
    if (!are_within(index, outer * count * inner, 0, size))
        return 0;
    if (clears)
        memset(out, 0, sizeof(real) * (size_t)(outer * size * inner));
    for (int64_t i = 0; i < outer * count * inner; i++) {
        real *to = out + (i / (count * inner) * size + index[i]) * inner + i % inner;
        const real value = source ? source[i] : (real)number;
        *to = adds && source ? *to + value : value;
    }
    return 1;
}

/*@ running_real */
/* Running sums or products along the middle of three dimensions, in double. */
static void running_real(const real *x, real *out, int64_t outer, int64_t size, int64_t inner,
                         int multiplies) {
    for (int64_t i = 0; i < outer * inner; i++) {
        const int64_t at = i / inner * size * inner + i % inner;
        double run = multiplies;
        for (int64_t j = at; j < at + size * inner; j += inner) {
            run = multiplies ? run * (double)x[j] : run + (double)x[j];
            out[j] = (real)run;
        }
    }
}

/*@ spread_sum */
/* A sum in double, in two times four lanes. */
static double spread_sum(const double *x, int64_t n) {
    double lane[8] = {0}, total = 0;
    int64_t i = 0;
    for (; i < n - n % 8; i += 8)
        for (int k = 0; k < 8; k++)
            lane[k] += x[i + k];
    for (; i < n; i++)
        total += x[i];
    for (int k = 0; k < 4; k++)
        lane[k] += lane[k + 4];
    return total + ((lane[0] + lane[1]) + (lane[2] + lane[3]));
}

/*@ spread_real */
/* Variances of rows, or their roots, and their means. `room`: a row in double. */
static void spread_real(const real *input, real *out, real *means, int64_t rows, int64_t n,
                        int wants_roots, double freedom, double *room) {
    for (int64_t row = 0; row < rows; row++) {
        const real *x = input + row * n;
        const double first = x[0] - x[0] == 0 ? (double)x[0] : 0;
        for (int64_t i = 0; i < n; i++)
            room[i] = (double)x[i] - first;
        const double mean = first + spread_sum(room, n) / (double)n;
        for (int64_t i = 0; i < n; i++)
            room[i] = ((double)x[i] - mean) * ((double)x[i] - mean);
        const double var = spread_sum(room, n) / freedom;
        out[row] = (real)(wants_roots ? sqrt(var) : var);
        if (means)
            means[row] = (real)mean;
    }
}
