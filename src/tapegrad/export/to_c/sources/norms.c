/*@ batch_norm_real */
/* Of images (N, C, L): every channel to mean 0 and variance 1. `stats`: mean, 1/deviation, variance. */
static void batch_norm_real(const real *input, const real *w, const real *b, real *output,
                            real *stats, int64_t images, int64_t channels, int64_t length,
                            double eps) {
    const double count = (double)images * (double)length;
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0, squares = 0;
        for (int64_t image = 0; image < images; image++)
            sum += sum_of_real(input + (image * channels + c) * length, length);
        const real mean = (real)(sum / count);
        for (int64_t image = 0; image < images; image++)
            squares += squares_about_real(input + (image * channels + c) * length, length, mean);
        const real var = (real)(squares / count), r = 1 / SQRT(var + (real)eps);
        const real factor = (w ? w[c] : 1) * r, shift = b ? b[c] : 0;
        for (int64_t image = 0; image < images; image++) {
            const int64_t at = (image * channels + c) * length;
            for (int64_t i = at; i < at + length; i++)
                output[i] = (input[i] - mean) * factor + shift;
        }
        stats[c] = mean;
        stats[channels + c] = r;
        stats[2 * channels + c] = var;
    }
}

/*@ squares_about_real */
/* The sum of (x - mean)^2. */
static double squares_about_real(const real *x, int64_t n, real mean) {
    double sums[LANES] = {0}, total = 0;
    for (int64_t start = 0; start < n; start += 256) {
        const int64_t count = n - start < 256 ? n - start : 256;
        real some[256];
        for (int64_t i = 0; i < count; i++)
            some[i] = (x[start + i] - mean) * (x[start + i] - mean);
        sum_on_real(some, count, sums, &total);
    }
    return sum_end_real(sums, total);
}

/*@ batch_norm_fixed_real */
static void batch_norm_fixed_real(const real *input, const real *w, const real *b,
                                  const real *means, const real *vars, real *output,
                                  int64_t images, int64_t channels, int64_t length, double eps) {
    for (int64_t plane = 0; plane < images * channels; plane++) {
        const int64_t c = plane % channels;
        const real mean = means[c], factor = (w ? w[c] : 1) * (1 / SQRT(vars[c] + (real)eps));
        const real shift = b ? b[c] : 0;
        for (int64_t i = plane * length; i < (plane + 1) * length; i++)
            output[i] = (input[i] - mean) * factor + shift;
    }
}

/*@ sum_and_dot_real */
/* The sums of g and of g * (x - mean). */
static void sum_and_dot_real(const real *x, const real *g, int64_t n, real mean, double *sum,
                             double *dot) {
    double sums[2][LANES] = {{0}}, totals[2] = {0, 0};
    for (int64_t start = 0; start < n; start += 256) {
        const int64_t count = n - start < 256 ? n - start : 256;
        real some[256];
        for (int64_t i = 0; i < count; i++)
            some[i] = g[start + i] * (x[start + i] - mean);
        two_sums_on_real(g + start, count, sums[0], totals);
        two_sums_on_real(some, count, sums[1], totals + 1);
    }
    *sum = sum_end_real(sums[0], totals[0]);
    *dot = sum_end_real(sums[1], totals[1]);
}

/*@ batch_norm_back_real */
static void batch_norm_back_real(const real *gradient, const real *input, const real *w,
                                 const real *means, const real *scales, real *output,
                                 real *to_weight, real *to_bias, int64_t images, int64_t channels,
                                 int64_t length, int training) {
    const real count = (real)images * (real)length;
    for (int64_t c = 0; c < channels; c++) {
        const real mean = means[c], r = scales[c], factor = (w ? w[c] : 1) * r;
        double sum = 0, product = 0;
        for (int64_t image = 0; image < images; image++) {
            const int64_t at = (image * channels + c) * length;
            double part, dot;
            sum_and_dot_real(input + at, gradient + at, length, mean, &part, &dot);
            sum += part;
            product += dot;
        }
        const real sums = (real)sum, dots = (real)product * r;
        const real slope = factor * r * dots / count, shift = factor * sums / count;
        for (int64_t image = 0; image < images; image++) {
            const int64_t at = (image * channels + c) * length;
            for (int64_t i = at; i < at + length; i++)
                output[i] = training ? gradient[i] * factor - ((input[i] - mean) * slope + shift)
                                     : gradient[i] * factor;
        }
        if (to_weight)
            to_weight[c] = dots;
        if (to_bias)
            to_bias[c] = sums;
    }
}

/*@ columns_norm_real */
/* Batch norm of a matrix (rows, C), with sums in double. */
static void columns_norm_real(const real *input, const real *w, const real *b, real *output,
                              real *stats, int64_t rows, int64_t columns, int64_t length,
                              double eps) {
    (void)length;
    for (int64_t c = 0; c < columns; c++) {
        double sum = 0, squares = 0;
        for (int64_t row = 0; row < rows; row++)
            sum += (double)input[row * columns + c];
        const real mean = (real)(sum / (double)rows);
        for (int64_t row = 0; row < rows; row++) {
            const double d = (double)(input[row * columns + c] - mean);
            squares += d * d;
        }
        const real var = (real)(squares / (double)rows), r = 1 / SQRT(var + (real)eps);
        const real factor = (w ? w[c] : 1) * r, shift = b ? b[c] : 0;
        for (int64_t row = 0; row < rows; row++)
            output[row * columns + c] = (input[row * columns + c] - mean) * factor + shift;
        stats[c] = mean;
        stats[columns + c] = r;
        stats[2 * columns + c] = var;
    }
}

/*@ columns_norm_back_real */
static void columns_norm_back_real(const real *gradient, const real *input, const real *w,
                                   const real *means, const real *scales, real *output,
                                   real *to_weight, real *to_bias, int64_t rows, int64_t columns,
                                   int64_t length, int training) {
    (void)length;
    for (int64_t c = 0; c < columns; c++) {
        const real mean = means[c], r = scales[c];
        double sum = 0, product = 0;
        for (int64_t row = 0; row < rows; row++) {
            const real d = gradient[row * columns + c];
            sum += (double)d;
            product += (double)(d * (input[row * columns + c] - mean));
        }
        const real sums = (real)sum, dots = (real)product * r, factor = (w ? w[c] : 1) * r;
        const real slope = factor * r * dots / (real)rows, shift = factor * sums / (real)rows;
        for (int64_t i = c; i < rows * columns; i += columns)
            output[i] = training ? gradient[i] * factor - ((input[i] - mean) * slope + shift)
                                 : gradient[i] * factor;
        if (to_weight)
            to_weight[c] = dots;
        if (to_bias)
            to_bias[c] = sums;
    }
}

/*@ group_norm_real */
/* `sets` is images times groups, `channels` those of a group. */
static void group_norm_real(const real *input, const real *w, const real *b, real *output,
                            real *means, real *scales, int64_t sets, int64_t groups,
                            int64_t channels, int64_t length, double eps) {
    const int64_t size = channels * length;
    for (int64_t set = 0; set < sets; set++) {
        const real *x = input + set * size;
        const real mean = (real)(sum_of_real(x, size) / (double)size);
        const double squares = squares_about_real(x, size, mean);
        const real r = 1 / SQRT((real)(squares / (double)size) + (real)eps);
        for (int64_t k = 0; k < channels; k++) {
            const int64_t c = set % groups * channels + k;
            const real weight = w ? w[c] : 1, shift = b ? b[c] : 0;
            for (int64_t i = k * length; i < (k + 1) * length; i++)
                output[set * size + i] = (x[i] - mean) * r * weight + shift;
        }
        means[set] = mean;
        scales[set] = r;
    }
}

/*@ group_norm_back_real */
static void group_norm_back_real(const real *gradient, const real *input, const real *means,
                                 const real *scales, const real *w, real *output,
                                 double *all_sums, double *all_dots, real *to_weight,
                                 real *to_bias, int64_t sets, int64_t groups, int64_t channels,
                                 int64_t length) {
    const int64_t size = channels * length, all = groups * channels;
    for (int64_t set = 0; set < sets; set++) {
        double *sums = all_sums + set * channels, *dots = all_dots + set * channels;
        const real *g = gradient + set * size, *x = input + set * size;
        const real mean = means[set], r = scales[set];
        double a = 0, b = 0;
        for (int64_t k = 0; k < channels; k++) {
            const double weight = (double)(w ? w[set % groups * channels + k] : 1);
            double product;
            sum_and_dot_real(x + k * length, g + k * length, length, mean, sums + k, &product);
            dots[k] = product * (double)r;
            a += weight * sums[k];
            b += weight * dots[k];
        }
        const real slope = (real)(b * (double)r * (double)r / (double)size);
        const real shift = (real)(a * (double)r / (double)size);
        for (int64_t k = 0; k < channels; k++) {
            const real factor = (w ? w[set % groups * channels + k] : 1) * r;
            for (int64_t i = k * length; i < (k + 1) * length; i++)
                output[set * size + i] = g[i] * factor - ((x[i] - mean) * slope + shift);
        }
    }
    for (int64_t c = 0; c < all; c++) {
        double sum = 0, dot = 0;
        for (int64_t image = 0; image < sets / groups; image++) {
            sum += all_sums[image * all + c];
            dot += all_dots[image * all + c];
        }
        if (to_weight)
            to_weight[c] = (real)dot;
        if (to_bias)
            to_bias[c] = (real)sum;
    }
}

/*@ follow_real */
/* A running statistic moves towards a new one. */
static void follow_real(real *running, const real *found, int64_t n, real scale, real keeps,
                        real moves) {
    for (int64_t i = 0; i < n; i++)
        running[i] = running[i] * keeps + found[i] * scale * moves;
}
