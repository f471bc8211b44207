/* pairs.c for one type T. */

#define FUSED(a, b, c) MATH(fma)(a, b, -(c))

/* From the degrees 0 and 1 up to `n`: `following` is the degree k + 1 of p and q, k - 1 and k. */
#define CLIMB(n, first, following)                                                                 \
    T p = 1, q = (first);                                                                          \
    if ((n) == 0)                                                                                  \
        return 1;                                                                                  \
    for (int64_t k = 1; (T)k < (n) && q == q; k++) {                                               \
        const T next = (following);                                                                \
        p = q;                                                                                     \
        q = next;                                                                                  \
    }                                                                                              \
    return q;

/* Degrees are rounded towards zero; NaN counts as negative. */
static T NAMED(degree)(T n) { return MATH(fabs)(n) < (T)9223372036854775808.0 ? MATH(trunc)(n) : -1; }

static T NAMED(chebyshev)(T x, T n, int kind, T cosines_from) {
    const T size = MATH(fabs)(x);
    n = NAMED(degree)(n);
    if (!(n >= 0))
        return 0;
    if (size == 1) {
        const T sign = x < 0 && MATH(fmod)(n, 2) == 1 ? -1 : 1;
        if (kind == KIND_T)
            return sign;
        if (kind == KIND_U)
            return sign * (n + 1);
        return ((x < 0) == (kind == KIND_V) ? 2 * n + 1 : 1) * sign;
    }
    if (n >= cosines_from && size < 1) {
        const T angle = MATH(acos)(x);
        if (kind == KIND_T)
            return MATH(cos)(n * angle);
        if (kind == KIND_U)
            return MATH(sin)((n + 1) * angle) / MATH(sin)(angle);
        if (kind == KIND_V)
            return MATH(cos)((n + (T)0.5) * angle) / MATH(cos)((T)0.5 * angle);
        return MATH(sin)((n + (T)0.5) * angle) / MATH(sin)((T)0.5 * angle);
    }
    const T twice = 2 * x;
    const T first = kind == KIND_T ? x : kind == KIND_U ? twice : kind == KIND_V ? twice - 1 : twice + 1;
    CLIMB(n, first, FUSED(twice, q, p))
}

static T NAMED(chebyshev_t)(T x, T n) { return NAMED(chebyshev)(x, n, KIND_T, 7); }
static T NAMED(chebyshev_u)(T x, T n) { return NAMED(chebyshev)(x, n, KIND_U, 9); }
static T NAMED(chebyshev_v)(T x, T n) { return NAMED(chebyshev)(x, n, KIND_V, 9); }
static T NAMED(chebyshev_w)(T x, T n) { return NAMED(chebyshev)(x, n, KIND_W, 9); }
static T NAMED(shifted_t)(T x, T n) { return NAMED(chebyshev)(2 * x - 1, n, KIND_T, 7); }
static T NAMED(shifted_u)(T x, T n) { return NAMED(chebyshev)(2 * x - 1, n, KIND_U, 7); }
static T NAMED(shifted_v)(T x, T n) { return NAMED(chebyshev)(2 * x - 1, n, KIND_V, 7); }
static T NAMED(shifted_w)(T x, T n) { return NAMED(chebyshev)(2 * x - 1, n, KIND_W, 5); }

static T NAMED(hermite)(T x, T n, T factor) {
    if (n > HERMITE_LIMIT)
        return n < (T)9223372036854775808.0 ? (T)NAN : 0;
    n = NAMED(degree)(n);
    if (!(n >= 0))
        return 0;
    CLIMB(n, factor * x, FUSED(factor * x, q, factor * (T)k * p))
}
static T NAMED(hermite_h)(T x, T n) { return NAMED(hermite)(x, n, 2); }
static T NAMED(hermite_he)(T x, T n) { return NAMED(hermite)(x, n, 1); }

static T NAMED(laguerre)(T x, T n) {
    n = NAMED(degree)(n);
    if (!(n >= 0))
        return 0;
    CLIMB(n, 1 - x, FUSED((T)(2 * k) + (1 - x), q, (T)k * p) / (T)(k + 1))
}

static T NAMED(legendre)(T x, T n) {
    n = NAMED(degree)(n);
    if (!(n >= 0))
        return 0;
    CLIMB(n, x, FUSED((T)(2 * k + 1) * x, q, (T)k * p) / (T)(k + 1))
}

/* The neighbour of x towards y: one up or down among the numbers' bits, without a branch. */
static inline T NAMED(next)(T x, T y) {
    union {
        T value;
        BITS bits;
    } up = {.value = x}, least = {.bits = 1};
    up.bits += (x < y) == (x > 0) ? 1 : (BITS)-1;
    const T beside_zero = MATH(copysign)(least.value, y);
    const T moved = x == 0 ? beside_zero : up.value;
    const T apart = x == y ? y : moved;
    return x != x || y != y ? x + y : apart;
}

TG_VERSIONS static void NAMED(all_next)(const T *restrict x, const T *restrict y, T *restrict out,
                                        int64_t begin, int64_t end, int64_t step) {
    if (step)
        for (int64_t i = begin; i < end; i++)
            out[i] = NAMED(next)(x[i], y[i]);
    else
        for (int64_t i = begin; i < end; i++)
            out[i] = NAMED(next)(x[i], y[0]);
}

#define ENTRY(name) NAMED(name),
static T (*const NAMED(functions)[])(T, T) = {PAIR_FUNCTIONS(ENTRY)};
#undef ENTRY

/* p: x, y, out; n: count, function, steps of x and of y (0: one number for all) */
static void NAMED(some_pairs)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const T *x = given->p[0], *y = given->p[1];
    T *out = given->p[2];
    T (*const function)(T, T) = NAMED(functions)[given->n[1]];
    if (function == NAMED(next) && given->n[2] == 1) {
        NAMED(all_next)(x, y, out, begin, end, given->n[3]);
        return;
    }
    for (int64_t i = begin; i < end; i++)
        out[i] = function(x[i * given->n[2]], y[i * given->n[3]]);
}
void NAMED(tg_pairs)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n};
    (void)x;
    tg_parallel(n[0], tg_grain(20), NAMED(some_pairs), &given);
}
#undef FUSED
#undef CLIMB
