/* The incomplete gamma functions, Hurwitz's zeta function, log Γ, and how gamma and Dirichlet numbers
   move with their parameters: one element after the other, in double.

   ops/special/kernels_gamma.py, ops/special/kernels_incomplete.py and ops/random/gamma_kernels.py say
   what is computed here, and hold the coefficients, which arrive as one table. */

#define _GNU_SOURCE
#include <math.h>

#include "kernels.h"

#define PI 3.14159265358979323846 /* not every math.h has it */

/* The parts of the table, in the order of PARTS in kernels/cpu/gamma_functions.py. */
enum {
    LOG_LOW,
    LOG_LOW_BELOW,
    LOG_HIGH,
    LOG_HIGH_BELOW,
    LOG_MIDDLE,
    LOG_MIDDLE_BELOW,
    STIRLING,
    DIGAMMA_NEAR,
    DIGAMMA_NEAR_BELOW,
    DIGAMMA_FAR,
    DIGAMMA_FAR_BELOW,
    ERFCX_NEAR,
    ERFCX_NEAR_BELOW,
    ERFCX_MIDDLE,
    ERFCX_MIDDLE_BELOW,
    ERFCX_FAR,
    ERFCX_FAR_BELOW,
    ZETA,   /* Bernoulli's numbers over factorials */
    TEMME,  /* rows: powers of η; columns: powers of 1 / a */
    NODES,  /* of an integral over a half line */
    WEIGHTS,
    ROOT,   /* of ψ, in two parts */
    DIRECT, /* how many terms of zeta are summed one by one */
    ORDERS, /* columns of TEMME */
};

typedef struct {
    const double *values;
    const int64_t *starts;
} table;

static const double *part(const table *t, int which) { return t->values + t->starts[which]; }
static int64_t size(const table *t, int which) { return t->starts[which + 1] - t->starts[which]; }

static double horner(const table *t, int which, double x) {
    const double *c = part(t, which), *end = c + size(t, which);
    double out = *c++;
    while (c < end)
        out = out * x + *c++;
    return out;
}
static double ratio(const table *t, int which, double x) {
    return horner(t, which, x) / horner(t, which + 1, x);
}

/* ------------------------------------------------------------------ log Γ and ψ */

static double log_gamma_1p(const table *t, double x) {
    return x * (x - 1) * ratio(t, LOG_LOW, x + 0.5);
}
static double stirling_rest(const table *t, double x) {
    const double inverse = 1 / x;
    return inverse * horner(t, STIRLING, inverse * inverse);
}
static double log_gamma_positive(const table *t, double x) {
    if (x < 0.5)
        return log_gamma_1p(t, x) - log(x);
    if (x < 1.5)
        return (1 - x) * (2 - x) * ratio(t, LOG_LOW, x - 0.5);
    if (x < 3)
        return (x - 1) * (x - 2) * ratio(t, LOG_HIGH, x - 1.5);
    if (x < 8)
        return ratio(t, LOG_MIDDLE, x - 3);
    if (x >= 8)
        return (x - 0.5) * (log(x) - 1) + (0.5 * log(2 * PI) - 0.5 + stirling_rest(t, x));
    return NAN;
}
static double log_gamma(const table *t, double x) {
    if (x > 0)
        return log_gamma_positive(t, x);
    if (x == 0)
        return INFINITY;
    if (!(x < 0))
        return NAN;
    const double sine = sin(PI * fabs(x - rint(x)));
    if (sine == 0 || isinf(x))
        return INFINITY;
    return -(log(sine / PI) + log(-x) + log_gamma_positive(t, -x));
}

static double digamma_near(const table *t, double x) {
    return ((x - part(t, ROOT)[0]) - part(t, ROOT)[1]) * ratio(t, DIGAMMA_NEAR, x - 1);
}
static double digamma_positive(const table *t, double x) {
    if (x < 1)
        return digamma_near(t, x + 1) - 1 / x;
    if (x < 3)
        return digamma_near(t, x);
    if (!(x >= 3))
        return NAN;
    const double inverse = 1 / x, square = inverse * inverse;
    return log(x) - 0.5 * inverse - square * ratio(t, DIGAMMA_FAR, square);
}
static double digamma(const table *t, double x) {
    if (x > 0)
        return digamma_positive(t, x);
    if (x == 0)
        return copysign(INFINITY, -x);
    const double beyond = x - rint(x);
    return !(x < 0) || beyond == 0 ? NAN : digamma_positive(t, 1 - x) - PI / tan(PI * beyond);
}

/* ------------------------------------------------------------------ Hurwitz's zeta function */

static double zeta_positive(const table *t, double s, double q) {
    const int direct = (int)*part(t, DIRECT);
    double last = pow(q, -s), total = last;
    for (int k = 1; k < direct; k++) {
        last = pow(q + k, -s);
        total += last;
    }
    if (last < 1e-16 * total)
        return total;
    const double w = q + direct, power = pow(w, -s), inverse = 1 / (w * w);
    double rest = pow(w, 1 - s) / (s - 1) + 0.5 * power, rising = s * power / w;
    const double *b = part(t, ZETA);
    for (int64_t j = 0; j < size(t, ZETA); j++) {
        const double from = (double)(2 * j);
        rest += b[j] * rising;
        rising = rising * ((s + from + 1) * (s + from + 2)) * inverse;
    }
    return total + rest;
}
static double zeta(const table *t, double s, double q) {
    const int whole = q == floor(q);
    if (s == 1 || (!(s < 1) && q <= 0 && whole))
        return INFINITY;
    if (s > 1 && q > 0 && !isinf(q))
        return zeta_positive(t, s, q);
    if (!(s > 1 && q < 0 && !whole && s == floor(s)))
        return NAN;
    const double first = q - floor(q), sign = fmod(s, 2) == 0 ? 1.0 : -1.0;
    const double near = zeta_positive(t, s, first) + sign * zeta_positive(t, s, 1 - first);
    return near - sign * zeta_positive(t, s, 1 - q);
}

/* ------------------------------------------------------------------ incomplete gamma functions */

#define PRECISION 1.2e-16
#define ROUNDS 2000

/* log(1 + d) - d for |d| <= 1/2. */
static double log1p_less(double d) {
    const double r = d / (2 + d), square = r * r;
    double total = square * (1.0 / 35);
    for (int n = 33; n > 3; n -= 2) {
        total += 1.0 / n;
        total *= square;
    }
    total += 1.0 / 3;
    return 2 * r * square * total - d * r;
}

/* x^a e^-x / Γ(a + 1) */
static double prefactor(const table *t, double a, double x) {
    if (!(a >= 8))
        return exp(a * log(x) - x - log_gamma_positive(t, a + 1));
    const double less =
        fabs(x - a) <= 0.4 * a ? log1p_less((x - a) / a) : log(x / a) - (x - a) / a;
    return exp(a * less - stirling_rest(t, a)) / sqrt(2 * PI * a);
}

static double lower_series(const table *t, double a, double x) {
    double term = 1, total = 1, n = a;
    for (int round = 0; round < ROUNDS; round++) {
        n += 1;
        term *= x / n;
        total += term;
        if (!(term > PRECISION * total))
            break;
    }
    return total * prefactor(t, a, x);
}

static double upper_series(const table *t, double a, double x) {
    double term = 1, total = 0;
    for (int n = 1; n < ROUNDS; n++) {
        term *= -x / n;
        const double share = term / (a + n);
        total += share;
        if (!(fabs(share) > PRECISION * fabs(total)))
            break;
    }
    const double power =
        a * log(x) - (a <= 0.5 ? log_gamma_1p(t, a) : log_gamma_positive(t, a + 1));
    return -expm1(power) - exp(power) * a * total;
}

static double upper_fraction(const table *t, double a, double x) {
    const double first = x + 1 - a;
    double top = 0, top_step = 1 - a, below = (first - 2) * first, below_step = 4 * first;
    double share = 0, term = 1, total = 1;
    for (int n = 1; n < ROUNDS; n++) {
        top += top_step;
        below += below_step;
        top_step += 2;
        below_step += 8;
        const double weight = top * (1 + share);
        share = weight / (below - weight);
        term *= share;
        total += term;
        if (n % 8 == 0 && !(fabs(term) > PRECISION * fabs(total)))
            break;
    }
    return total * (a / first) * prefactor(t, a, x);
}

static double erfcx_positive(const table *t, double x) {
    if (x < 2)
        return ratio(t, ERFCX_NEAR, x);
    if (x < 6)
        return ratio(t, ERFCX_MIDDLE, x - 2);
    const double inverse = 1 / x;
    return inverse * ratio(t, ERFCX_FAR, inverse * inverse);
}

/* For large a and x nearby, the smaller of P and Q: P for x < a. */
static double temme_tail(const table *t, double a, double x) {
    const double fall = log1p_less((x - a) / a), width = sqrt(-2 * fall);
    const int right = x >= a;
    const double eta = right ? width : -width, inverse = 1 / a;
    const int64_t columns = (int64_t)*part(t, ORDERS), count = size(t, TEMME) / columns;
    const double *rows = part(t, TEMME);
    double sums = 0, power = 1;
    for (int64_t k = 0; k < columns; k++) {
        double along = 0;
        for (int64_t n = count - 1; n >= 0; n--)
            along = along * eta + rows[n * columns + k];
        sums += along * power;
        power *= inverse;
    }
    sums /= sqrt(2 * PI * a);
    const double middle = 0.5 * erfcx_positive(t, width * sqrt(0.5 * a));
    return exp(a * fall) * (right ? middle + sums : middle - sums);
}

static double gamma_fraction(const table *t, double a, double x, int upper) {
    const double at_zero = upper ? 1 : 0, at_infinity = upper ? 0 : 1;
    if (a > 0 && x > 0 && !isinf(a) && !isinf(x)) {
        if (a > 20 && fabs(x - a) < 0.3 * a) {
            const double tail = temme_tail(t, a, x);
            return (x >= a) == upper ? tail : 1 - tail;
        }
        if (x > 1.1 && x >= a) {
            const double found = upper_fraction(t, a, x);
            return upper ? found : 1 - found;
        }
        const double edge = x <= 0.5 ? -0.4 / log(x) : 1.1 * x;
        if (upper && x <= 1.1 && a <= edge)
            return upper_series(t, a, x);
        const double found = lower_series(t, a, x);
        return upper ? 1 - found : found;
    }
    if (x == 0 && !(a <= 0))
        return at_zero;
    if (x > 0 && a == 0)
        return at_infinity;
    if (!(x < 0) && !isinf(x) && a == INFINITY)
        return at_zero;
    return x == INFINITY && !(a <= 0) && !isinf(a) ? at_infinity : NAN;
}
static double lower_fraction(const table *t, double a, double x, double unused) {
    (void)unused;
    return gamma_fraction(t, a, x, 0);
}
static double upper_fraction_of(const table *t, double a, double x, double unused) {
    (void)unused;
    return gamma_fraction(t, a, x, 1);
}

/* ------------------------------------------------------------------ derivatives of draws */

#define SERIES_BELOW 12.0
#define TERMS 1000
#define NOTHING 1e-18

/* The integral over u > 0 of `integrand`, a formula of u, that fades over a few times `scale`. */
#define HALF_LINE(t, width, integrand)                                                             \
    const double *nodes = part(t, NODES), *weights = part(t, WEIGHTS), scale = (width);            \
    double total = 0;                                                                              \
    for (int64_t i = 0; i < size(t, NODES); i++) {                                                 \
        const double u = scale * nodes[i];                                                         \
        total += weights[i] * (integrand);                                                         \
    }                                                                                              \
    total *= scale;

/* Σ c_n gap_n with c_0 = `first`: `next_gap` and `growth` are what changes from n to n + 1. */
#define SERIES(first, next_gap, growth)                                                            \
    double coefficient = (first), total = coefficient * gap;                                       \
    for (int n = 0; n < TERMS; n++) {                                                              \
        coefficient *= (growth);                                                                   \
        gap += (next_gap);                                                                         \
        total += coefficient * gap;                                                                \
        if (!(coefficient > NOTHING * fabs(total)))                                                \
            break;                                                                                 \
    }                                                                                              \
    return total;

static double gamma_series(const table *t, double a, double x) {
    double gap = digamma(t, a) - log(x) + 1 / a;
    SERIES(x / a, 1 / (a + (n + 1)), x / (a + n + 1))
}
static double gamma_integral(const table *t, double a, double x, double side) {
    const double gap = fabs(log(x) - digamma(t, a)), slope = side * (a - x);
    HALF_LINE(t, 1 / (fabs(a - x) + sqrt(x)),
              exp(slope * u - x * (expm1(side * u) - side * u)) * (gap + u))
    return x * total;
}
static double gamma_derivative(const table *t, double a, double x, double unused) {
    (void)unused;
    if (x <= 0)
        return 0;
    if (!(a > 0 && x >= 0 && a < INFINITY))
        return NAN;
    if (x < 1 || (a <= SERIES_BELOW && x < a + 1))
        return gamma_series(t, a, x);
    return gamma_integral(t, a, x, log(x) < digamma(t, a) ? -1 : 1);
}

static double beta_series(const table *t, double x, double a, double b) {
    double gap = digamma(t, a) + 1 / a - digamma(t, a + b) - log(x);
    SERIES(x / a, 1 / (a + (n + 1)) - 1 / (a + b + n), x * (a + b + n) / (a + n + 1))
}
static double beta_series_from_1(const table *t, double x, double y, double a, double b) {
    double gap = log(x) - digamma(t, a) + digamma(t, a + b);
    SERIES(x / b, 1 / (a + b + n), y * (a + b + n) / (b + n + 1))
}
static double beta_integral(const table *t, double x, double y, double a, double b) {
    const double gap = digamma(t, a) - digamma(t, a + b) - log(x), odds = x / y;
    HALF_LINE(t, 1 / (fabs(a - (b - 1) * odds) + sqrt(b * odds / y)),
              exp((b - 1) * log1p(-odds * expm1(-u)) - a * u) * (gap + u))
    return odds * total;
}
static double beta_integral_to_1(const table *t, double x, double y, double a, double b) {
    const double gap = log(x) - digamma(t, a) + digamma(t, a + b), odds = y / x;
    HALF_LINE(t, 1 / (fabs(b - (a - 1) * odds) + sqrt(a * odds / x)),
              exp((a - 1) * log1p(-odds * expm1(-u)) - b * u) *
                  (gap + log1p(-odds * expm1(-u))))
    return total;
}
static double dirichlet_derivative(const table *t, double x, double a, double sum) {
    const double b = sum - a, y = 1 - x;
    if (x == 0 || b == 0)
        return 0 * x;
    if (!(a > 0 && b > 0 && x >= 0 && y >= 0 && sum < INFINITY))
        return NAN;
    const int few = sum <= 2 * SERIES_BELOW;
    if (few ? x <= 0.5 : a <= SERIES_BELOW && x * sum <= a + 1.5)
        return beta_series(t, x, a, b);
    if (few || (b <= SERIES_BELOW && y * sum <= b + 1.5))
        return beta_series_from_1(t, x, y, a, b);
    return log(x) < digamma(t, a) - digamma(t, a + b) ? beta_integral(t, x, y, a, b)
                                                      : beta_integral_to_1(t, x, y, a, b);
}

/* ------------------------------------------------------------------ the kernel */

static double zeta_of(const table *t, double s, double q, double unused) {
    (void)unused;
    return zeta(t, s, q);
}
static double log_gamma_of(const table *t, double x, double unused, double unused2) {
    (void)unused, (void)unused2;
    return log_gamma(t, x);
}

/* The logarithm of the multivariate gamma function: `p` is the same for all elements. */
static double log_gamma_of_many(const table *t, double x, double p, double unused) {
    (void)unused;
    double total = p * (p - 1) / 4 * log(PI);
    for (int64_t j = 0; j < (int64_t)p; j++)
        total += log_gamma(t, x - (double)j / 2);
    return total;
}

/* In the order of FUNCTIONS in kernels/cpu/gamma_functions.py. */
static double (*const functions[])(const table *, double, double, double) = {
    lower_fraction,   upper_fraction_of,    zeta_of, log_gamma_of, log_gamma_of_many,
    gamma_derivative, dirichlet_derivative,
};

enum { COUNT, FUNCTION, STEPS };

typedef struct {
    void **p;
    const int64_t *n;
} arguments;

/* p: three operands, out, the table, where its parts start; n: count, function, steps of the operands
   (0: one number for all) */
#define KERNEL(T, NAMED)                                                                           \
    static void NAMED(some)(void *context, int64_t begin, int64_t end) {                           \
        const arguments *given = context;                                                          \
        const int64_t *n = given->n, *steps = n + STEPS;                                           \
        const T *x = given->p[0], *y = given->p[1], *z = given->p[2];                              \
        const table t = {given->p[4], given->p[5]};                                                \
        double (*const function)(const table *, double, double, double) = functions[n[FUNCTION]];  \
        for (int64_t i = begin; i < end; i++)                                                      \
            ((T *)given->p[3])[i] = (T)function(&t, (double)x[i * steps[0]],                       \
                                                (double)y[i * steps[1]], (double)z[i * steps[2]]); \
    }                                                                                              \
    void NAMED(tg_gamma_function)(void **p, const int64_t *n, const double *x) {                   \
        arguments given = {p, n};                                                                  \
        (void)x;                                                                                   \
        tg_parallel(n[COUNT], tg_grain(200), NAMED(some), &given);                                 \
    }
#define IN_SINGLE(name) name##_f32
#define IN_DOUBLE(name) name##_f64
KERNEL(float, IN_SINGLE)
KERNEL(double, IN_DOUBLE)
