/* Kernels along the last dimension: each row is read once or twice while it is in the cache. */

#include "kernels.h"
#include "sums.h"
#include "vecmath.h"

#define T float
#define VECTOR vector_f32
#define NAMED(name) name##_f32
#define EXP exp_f32
#define LOG log_f32
#include "largest_of.h"
#include "rows_of.h"
#undef T
#undef VECTOR
#undef NAMED
#undef EXP
#undef LOG

#define T double
#define VECTOR vector_f64
#define NAMED(name) name##_f64
#define EXP exp_f64
#define LOG log_f64
#include "largest_of.h"
#include "rows_of.h"

/* From bfloat16 to float, and back. p: input, out; n: elements */
TG_VERSIONS static void widen_some(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const uint16_t *restrict x = given->p[0];
    float *restrict out = given->p[1];
    for (int64_t i = begin; i < end; i++)
        out[i] = f32_of((uint32_t)x[i] << 16);
}
void tg_widen(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], tg_grain(0.2), widen_some, &given);
}

TG_VERSIONS static void narrow_some(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const float *restrict x = given->p[0];
    uint16_t *restrict out = given->p[1];
    for (int64_t i = begin; i < end; i++)
        out[i] = bf16_of(x[i]);
}
void tg_narrow(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], tg_grain(0.3), narrow_some, &given);
}
