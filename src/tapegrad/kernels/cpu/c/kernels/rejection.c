/* Numbers drawn by rejection, in double: Poisson, binomial and gamma (ops/draws/rejection.py and
   ops/random/gamma_kernels.py have the same in Python, with the same words of the stream).

   How many uniform numbers one result takes depends on them. A kernel stops before the result for
   which there are too few; `state` says how many results are made and how many numbers are used. */

#define _GNU_SOURCE
#include <math.h>

#include "kernels.h"
#include "platform.h"

#define PI 3.14159265358979323846 /* not every math.h has it */

typedef struct {
    const double *ready;
    int64_t count, used; /* more used than there are: the result does not count */
} uniforms;

static double next(uniforms *u) {
    if (u->used < u->count)
        return u->ready[u->used++];
    u->used = u->count + 1;
    return 0.5;
}
static int is_short(const uniforms *u) { return u->used > u->count; }

static double poisson(double rate, uniforms *u) {
    if (rate == 0)
        return 0;
    if (rate < 10) { /* count factors until the product falls below exp(-rate) */
        const double limit = exp(-rate);
        double product = next(u), count = 0;
        for (; product > limit && !is_short(u); count++)
            product *= next(u);
        return count;
    }
    const double log_rate = log(rate), b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b;
    const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), v_r = 0.9277 - 3.6224 / (b - 2.0);
    while (!is_short(u)) { /* transformed rejection (Hörmann 1993) */
        const double from = next(u) - 0.5, v = next(u), us = 0.5 - fabs(from);
        const double k = floor((2.0 * a / us + b) * from + rate + 0.43);
        if (us >= 0.07 && v <= v_r)
            return k;
        if (k < 0 || (us < 0.013 && v > us))
            continue;
        const double bound = -rate + k * log_rate - tg_log_gamma(k + 1);
        if (log(v) + log(inverse_alpha) - log(a / (us * us) + b) <= bound)
            return k;
    }
    return 0;
}

/* The error of Stirling's formula for log(k!). */
static double stirling(double k) {
    if (k <= 9)
        return tg_log_gamma(k + 1.0) -
               ((k + 0.5) * log(k + 1.0) - (k + 1.0) + 0.5 * log(2.0 * PI));
    const double square = (k + 1.0) * (k + 1.0);
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1.0);
}

/* Transformed rejection for the binomial (Hörmann 1993). */
static double many_throws(double n, double p, uniforms *u) {
    const double spread = sqrt(n * p * (1.0 - p)), b = 1.15 + 2.53 * spread;
    const double a = -0.0873 + 0.0248 * b + 0.01 * p, c = n * p + 0.5, v_r = 0.92 - 4.2 / b;
    const double odds = p / (1.0 - p), alpha = (2.83 + 5.1 / b) * spread;
    const double m = floor((n + 1.0) * p);
    while (!is_short(u)) {
        const double from = next(u) - 0.5, v = next(u), us = 0.5 - fabs(from);
        const double k = floor((2.0 * a / us + b) * from + c);
        if (us >= 0.07 && v <= v_r)
            return k;
        if (k < 0 || k > n)
            continue;
        const double bound = (m + 0.5) * log((m + 1.0) / (odds * (n - m + 1.0))) +
                             (n + 1.0) * log((n - m + 1.0) / (n - k + 1.0)) +
                             (k + 0.5) * log(odds * (n - k + 1.0) / (k + 1.0)) + stirling(m) +
                             stirling(n - m) - stirling(k) - stirling(n - k);
        if (log(v * alpha / (a / (us * us) + b)) <= bound)
            return k;
    }
    return 0;
}

static double binomial(double n, double p, uniforms *u) {
    if (n <= 0 || p <= 0)
        return 0;
    if (p >= 1)
        return n;
    if (p > 0.5)
        return n - binomial(n, 1.0 - p, u);
    if (n * p >= 10)
        return many_throws(n, p, u);
    const double log_miss = log1p(-p);
    double reached = 0, found = 0;
    while (!is_short(u)) { /* jump from success to success */
        reached += ceil(log(next(u)) / log_miss);
        if (!(reached <= n))
            return found;
        found++;
    }
    return 0;
}

/* A standard normal from two uniforms; the odd one is kept. NaN: there is none. */
static double normal(uniforms *u, double *kept) {
    if (*kept == *kept) {
        const double found = *kept;
        *kept = NAN;
        return found;
    }
    const double angle = 2.0 * PI * next(u), radius = sqrt(-2.0 * log1p(-next(u)));
    *kept = radius * sin(angle);
    return radius * cos(angle);
}

/* Marsaglia and Tsang 2000. */
static double gamma_number(double shape, double exponent, double d, uniforms *u, double *kept) {
    if (!(shape > 0 && shape < INFINITY))
        return shape >= 0 ? shape : NAN;
    const double scale = shape < 1 ? pow(1.0 - next(u), exponent) : 1.0, c = 1.0 / sqrt(9.0 * d);
    while (!is_short(u)) {
        const double x = normal(u, kept), y = 1.0 + c * x;
        if (y <= 0)
            continue;
        const double v = y * y * y, w = 1.0 - next(u), square = x * x;
        if (w < 1.0 - 0.0331 * square * square ||
            log(w) < 0.5 * square + d * (1.0 - v + log(v)))
            return scale * d * v;
    }
    return 0;
}

/* p: parameters …, uniforms, out, state, [the odd normal]; n: count, how many uniforms */
#define EACH(parameters, drawn, keep, restore)                                                     \
    uniforms u = {.ready = p[parameters], .count = n[1]};                                          \
    double *out = p[parameters + 1];                                                               \
    int64_t *state = p[parameters + 2];                                                            \
    for (; state[0] < n[0]; state[0]++) {                                                          \
        const int64_t i = state[0], before = u.used;                                               \
        keep;                                                                                      \
        out[i] = (drawn);                                                                          \
        if (is_short(&u)) {                                                                        \
            u.used = before;                                                                       \
            restore;                                                                               \
            break;                                                                                 \
        }                                                                                          \
    }                                                                                              \
    state[1] = u.used;

void tg_poisson(void **p, const int64_t *n, const double *x) {
    const double *rate = p[0];
    EACH(1, poisson(rate[i], &u), , )
}
void tg_binomial(void **p, const int64_t *n, const double *x) {
    const double *throws = p[0], *chance = p[1];
    EACH(2, binomial(throws[i], chance[i], &u), , )
}
void tg_gamma(void **p, const int64_t *n, const double *x) {
    const double *shape = p[0], *exponent = p[1], *d = p[2];
    double *odd = p[6];
    EACH(3, gamma_number(shape[i], exponent[i], d[i], &u, odd), const double was = *odd, *odd = was)
}
