/*@ norm_on_real */
/* Go on with the parts of a norm of many gradients: sums of squares (order 2) or of sizes (1), or the
   largest size (0), each of 16,384 elements, in eight lanes. `at`: how many were before. */
static void norm_on_real(const real *x, int64_t n, int order, int64_t *at, double *parts) {
    while (n > 0) {
        const int64_t room = 16384 - *at % 16384, count = n < room ? n : room;
        const double start = order ? 0 : -1;
        double lane[8] = {start, start, start, start, start, start, start, start};
        double found = *at % 16384 ? parts[*at / 16384] : start;
        for (int64_t i = 0; i < count; i++) {
            const real size = order == 2 ? x[i] * x[i] : x[i] < 0 ? -x[i] : x[i];
            double *to = lane + i % 8;
            *to = order ? *to + (double)size : larger_f64(*to, (double)size);
        }
        for (int k = 0; k < 8; k++)
            found = order ? found + lane[k] : larger_f64(found, lane[k]);
        parts[*at / 16384] = found;
        *at += count;
        x += count;
        n -= count;
    }
}

/*@ scale_real */
static void scale_real(real *x, int64_t n, real by) {
    for (int64_t i = 0; i < n; i++)
        x[i] *= by;
}

/*@ limit_real */
static void limit_real(real *x, int64_t n, real most) {
    for (int64_t i = 0; i < n; i++) {
        const real v = x[i] < -most ? -most : x[i];
        x[i] = v > most ? most : v;
    }
}
