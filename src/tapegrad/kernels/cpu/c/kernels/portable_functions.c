/* Elementary functions with the same bits on every machine: + - * / and square roots of doubles in
   one order, no function of the C library, no fused instruction. kernels/portable/formulas.py is the
   text of which the loops are printed. */

#include <math.h>
#include <string.h>

#include "kernels.h"

#define COST 3.0       /* nanoseconds an element, about */
#define FAR_ANGLE 1e6  /* as in formulas.py */

TG_INLINE uint64_t bits_of(double x) {
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

TG_INLINE double double_of(uint64_t u) {
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

typedef struct {
    const void *a, *b;
    void *out;
    _Atomic int64_t far; /* whether there are angles that the loops cannot reduce */
} operands;

#define LOOP_OF_ONE(name, T, of)                                                                   \
    TG_VERSIONS static void name##_##of(const T *restrict a, T *restrict out, int64_t n) {         \
        for (int64_t i = 0; i < n; i++)                                                            \
            out[i] = (T)name##_of((double)a[i]);                                                   \
    }
#define LOOP_OF_TWO(name, T, of)                                                                   \
    TG_VERSIONS static void name##_##of(const T *restrict a, const T *restrict b, T *restrict out, \
                                        int64_t n) {                                               \
        for (int64_t i = 0; i < n; i++)                                                            \
            out[i] = (T)name##_of((double)a[i], (double)b[i]);                                     \
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

#include "portable_functions_template.h"
