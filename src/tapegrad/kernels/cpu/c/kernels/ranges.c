/* arange and linspace, rounded as PyTorch's vector loops round them: each vector is computed from its
   own rounded first number; the elements after the last whole pair of vectors one by one. */

#include <math.h>

#include "kernels.h"
#include "vecmath.h"

/* p: out; n: count; x: start, step */
#define STEPS(name, T)                                                                             \
    TG_VERSIONS static void some_##name(T *restrict out, int64_t count, double start,              \
                                        double step) {                                             \
        enum { WIDTH = 32 / sizeof(T) };                                                           \
        const int64_t whole = count - count % (2 * WIDTH);                                         \
        for (int64_t i = 0; i < whole; i += WIDTH) {                                               \
            const double base = (double)(T)FMA64((double)i, step, start);                          \
            for (int k = 0; k < WIDTH; k++)                                                        \
                out[i + k] = (T)FMA64((double)k, step, base);                                      \
        }                                                                                          \
        for (int64_t i = whole; i < count; i++)                                                    \
            out[i] = (T)FMA64((double)i, step, start);                                             \
    }                                                                                              \
    void tg_steps_##name(void **p, const int64_t *n, const double *x) {                            \
        some_##name(p[0], n[0], x[0], x[1]);                                                       \
    }
STEPS(f32, float)
STEPS(f64, double)
