/*@ largest_real */
static real largest_real(const real *x, int64_t n) {
    real most = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        most = x[i] > most ? x[i] : most;
    return most;
}

/*@ softmax_real */
/* Along rows; with `empty`, those of minus infinity become zeros. */
static void softmax_real(const real *input, real *output, int64_t rows, int64_t n, int empty) {
    for (int64_t row = 0; row < rows; row++) {
        const real *x = input + row * n;
        real *out = output + row * n;
        const real most = largest_real(x, n);
        int64_t numbers = 0;
        for (int64_t i = 0; i < n; i++)
            numbers += x[i] != (real)-INFINITY;
        if (empty && !numbers) {
            for (int64_t i = 0; i < n; i++)
                out[i] = 0;
            continue;
        }
        for (int64_t i = 0; i < n; i++)
            out[i] = exp_real(x[i] - most);
        const real total = (real)sum_of_real(out, n);
        for (int64_t i = 0; i < n; i++)
            out[i] /= total;
    }
}

/*@ softmax_back_real */
static void softmax_back_real(const real *gradient, const real *output, real *out, int64_t rows,
                              int64_t n) {
    for (int64_t row = 0; row < rows; row++) {
        const real *g = gradient + row * n, *y = output + row * n;
        double sums[LANES] = {0}, total = 0;
        for (int64_t start = 0; start < n; start += 256) {
            const int64_t count = n - start < 256 ? n - start : 256;
            real products[256];
            for (int64_t i = 0; i < count; i++)
                products[i] = g[start + i] * y[start + i];
            sum_on_real(products, count, sums, &total);
        }
        const real all = (real)sum_end_real(sums, total);
        for (int64_t i = 0; i < n; i++)
            out[row * n + i] = g[i] * y[i] - y[i] * all;
    }
}

/*@ sum_of_powers_real */
/* The sum of e^(x - shift). */
static double sum_of_powers_real(const real *x, int64_t n, real shift) {
    double sum = 0;
    for (int64_t start = 0; start < n; start += 256) {
        const int64_t count = n - start < 256 ? n - start : 256;
        real powers[256];
        for (int64_t i = 0; i < count; i++)
            powers[i] = exp_real(x[start + i] - shift);
        sum += sum_of_real(powers, count);
    }
    return sum;
}

/*@ log_softmax_real */
static void log_softmax_real(const real *input, real *out, int64_t rows, int64_t n) {
    for (int64_t row = 0; row < rows; row++) {
        const real *x = input + row * n, most = largest_real(x, n);
        const real shift = log_real((real)sum_of_powers_real(x, n, most));
        for (int64_t i = 0; i < n; i++)
            out[row * n + i] = (x[i] - most) - shift;
    }
}

/*@ logsumexp_real */
static void logsumexp_real(const real *input, real *out, int64_t rows, int64_t n) {
    for (int64_t row = 0; row < rows; row++) {
        const real *x = input + row * n, most = largest_real(x, n);
        const real shift = most - most == 0 ? most : 0;
        out[row] = log_real((real)sum_of_powers_real(x, n, shift)) + shift;
    }
}

/*@ log_softmax_back_real */
static void log_softmax_back_real(const real *gradient, const real *output, real *out, int64_t rows,
                                  int64_t n) {
    for (int64_t row = 0; row < rows; row++) {
        const real *g = gradient + row * n, *y = output + row * n;
        const real total = (real)sum_of_real(g, n);
        for (int64_t i = 0; i < n; i++)
            out[row * n + i] = g[i] - exp_real(y[i]) * total;
    }
}

/*@ nll_weight_real */
/* What the losses of classes are divided by; -1 if a target is no class. */
static double nll_weight_real(const int64_t *target, const real *weight, int64_t rows,
                              int64_t classes, int64_t skips, int64_t skipped) {
    double total = 0;
    for (int64_t row = 0; row < rows; row++) {
        if (skips && target[row] == skipped)
            continue;
        if ((uint64_t)target[row] >= (uint64_t)classes)
            return -1;
        total += weight ? (double)weight[target[row]] : 1;
    }
    return total;
}

/*@ nll_real */
/* The losses of classes, by their log probabilities: each (0), their sum (1) or mean (2). False: a
   target is no class. */
static int nll_real(const real *x, const int64_t *target, const real *weight, real *out,
                    int64_t rows, int64_t classes, int64_t skips, int64_t skipped, int64_t how) {
    const double total = nll_weight_real(target, weight, rows, classes, skips, skipped);
    double sum = 0;
    if (total < 0)
        return 0;
    for (int64_t row = 0; row < rows; row++) {
        real loss = 0;
        if (!skips || target[row] != skipped) {
            loss = -x[row * classes + target[row]];
            loss = weight ? loss * weight[target[row]] : loss;
        }
        if (how)
            sum += (double)loss;
        else
            out[row] = loss;
    }
    if (how)
        *out = (real)(how == 2 ? sum / total : sum);
    return 1;
}

/*@ nll_back_real */
static int nll_back_real(const real *gradient, const int64_t *target, const real *weight, real *out,
                         int64_t rows, int64_t classes, int64_t skips, int64_t skipped,
                         int64_t how) {
    const double total = nll_weight_real(target, weight, rows, classes, skips, skipped);
    if (total < 0)
        return 0;
    for (int64_t row = 0; row < rows; row++) {
        if (skips && target[row] == skipped)
            continue;
        real value = -gradient[how ? 0 : row];
        value = how == 2 ? value / (real)total : value;
        out[row * classes + target[row]] = weight ? value * weight[target[row]] : value;
    }
    return 1;
}
