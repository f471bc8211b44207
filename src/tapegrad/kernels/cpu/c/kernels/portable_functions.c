/* The functions of portable_functions.h on whole arrays. */

#include "kernels.h"
#include "machine.h"
#include "portable_functions.h"

#define COST 3.0       /* nanoseconds an element, about */
#define FAR_ANGLE 1e6  /* as in formulas.py */

typedef struct {
    const void *a, *b;
    void *out;
    _Atomic int64_t far; /* whether there are angles that the loops cannot reduce */
} operands;

/* Loops, which the vector machine calls, too: `out` may be an operand. */
#define LOOP_OF_ONE(name, T, of)                                                                   \
    TG_VERSIONS static void name##_##of(const T *a, T *out, int64_t n) {                           \
        TG_INDEPENDENT                                                                             \
        for (int64_t i = 0; i < n; i++)                                                            \
            out[i] = (T)portable_##name##_##of((double)a[i]);                                      \
    }                                                                                              \
    void tg_loop_##name##_##of(const T *a, T *out, int64_t n) { name##_##of(a, out, n); }
#define LOOP_OF_TWO(name, T, of)                                                                   \
    TG_VERSIONS static void name##_##of(const T *a, const T *b, T *out, int64_t n) {               \
        TG_INDEPENDENT                                                                             \
        for (int64_t i = 0; i < n; i++)                                                            \
            out[i] = (T)portable_##name##_##of((double)a[i], (double)b[i]);                        \
    }                                                                                              \
    void tg_loop_##name##_##of(const T *a, const T *b, T *out, int64_t n) {                        \
        name##_##of(a, b, out, n);                                                                 \
    }
#define PART(name, T, of, call)                                                                    \
    static void name##_part_##of(void *context, int64_t begin, int64_t end) {                      \
        operands *o = context;                                                                     \
        const T *a = (const T *)o->a + begin;                                                      \
        T *out = (T *)o->out + begin;                                                              \
        const int64_t n = end - begin;                                                             \
        call;                                                                                      \
    }
#define ONE(name, T, of)                                                                           \
    LOOP_OF_ONE(name, T, of)                                                                       \
    PART(name, T, of, name##_##of(a, out, n))                                                      \
    void tg_portable_##name##_##of(void **p, const int64_t *n, const double *x) {                  \
        operands o = {.a = p[0], .out = p[1]};                                                     \
        tg_parallel(n[0], tg_grain(COST), name##_part_##of, &o);                                   \
    }
/* p: a, out, whether angles are left */
#define ANGLES(name, T, of)                                                                        \
    LOOP_OF_ONE(name, T, of)                                                                       \
    PART(name, T, of, name##_##of(a, out, n); if (has_far_##of(a, n)) o->far = 1)                  \
    void tg_portable_##name##_##of(void **p, const int64_t *n, const double *x) {                  \
        operands o = {.a = p[0], .out = p[1]};                                                     \
        tg_parallel(n[0], tg_grain(COST), name##_part_##of, &o);                                   \
        *(int64_t *)p[2] = o.far;                                                                  \
    }
#define TWO(name, T, of)                                                                           \
    LOOP_OF_TWO(name, T, of)                                                                       \
    PART(name, T, of, name##_##of(a, (const T *)o->b + begin, out, n))                             \
    void tg_portable_##name##_##of(void **p, const int64_t *n, const double *x) {                  \
        operands o = {.a = p[0], .b = p[1], .out = p[2]};                                          \
        tg_parallel(n[0], tg_grain(COST), name##_part_##of, &o);                                   \
    }
#define OF_ONE(name) ONE(name, float, f32) ONE(name, double, f64)
#define OF_ANGLES(name) ANGLES(name, float, f32) ANGLES(name, double, f64)
#define OF_TWO(name) TWO(name, float, f32) TWO(name, double, f64)

TG_VERSIONS static int has_far_f32(const float *a, int64_t n) {
    int found = 0;
    for (int64_t i = 0; i < n; i++)
        found |= fabsf(a[i]) > (float)FAR_ANGLE;
    return found;
}

TG_VERSIONS static int has_far_f64(const double *a, int64_t n) {
    int found = 0;
    for (int64_t i = 0; i < n; i++)
        found |= fabs(a[i]) > FAR_ANGLE;
    return found;
}


/* clang-format off */
OF_ONE(exp) OF_ONE(exp2) OF_ONE(expm1) OF_ONE(log) OF_ONE(log2) OF_ONE(log10) OF_ONE(log1p)
OF_ANGLES(sin) OF_ANGLES(cos) OF_ANGLES(tan)
OF_ONE(sinh) OF_ONE(cosh) OF_ONE(tanh) OF_ONE(arcsin) OF_ONE(arccos) OF_ONE(arctan)
OF_ONE(arcsinh) OF_ONE(arccosh) OF_ONE(arctanh) OF_ONE(erf) OF_ONE(erfc) OF_ONE(lgamma)
OF_TWO(power) OF_TWO(hypot) OF_TWO(arctan2) OF_TWO(logaddexp) OF_TWO(logaddexp2)
/* clang-format on */
