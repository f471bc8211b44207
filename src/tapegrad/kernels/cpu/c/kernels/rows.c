/* Kernels along the last dimension: each row is read once or twice while it is in the cache. */

#include <string.h>

#include "kernels.h"
#include "sums.h"
#include "vecmath.h"

#define SHORT 16 /* elements of a row */

#define T float
#define VECTOR vector_f32
#define NAMED(name) name##_f32
#define EXP exp_f32
#define LOG log_f32
#include "largest_template.h"
#include "rows_template.h"
#include "softmax_template.h"
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
#include "largest_template.h"
#include "rows_template.h"
#include "softmax_template.h"

#undef T
#undef VECTOR
#undef NAMED
#undef EXP
#undef LOG

#include "stored_bf16.h"
#define EXP exp_f32
#define LOG log_f32
#include "largest_template.h"
#include "rows_template.h"

/* The exponentials of rows that are longer than this are computed twice. */
#define KEPT 8192

/* p: input, out; n: rows, width */
TG_VERSIONS static void softmax_rows_bf16(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t n = given->n[1];
    for (int64_t row = begin; row < end; row++) {
        const uint16_t *restrict x = (const uint16_t *)given->p[0] + row * n;
        uint16_t *restrict out = (uint16_t *)given->p[1] + row * n;
        const float most = largest_bf16(x, n);
        if (n > KEPT) {
            const float total = (float)sum_of_powers_bf16(x, n, most);
            for (int64_t i = 0; i < n; i++)
                out[i] = NARROW(EXP(WIDEN(x[i]) - most) / total);
            continue;
        }
        float powers[KEPT];
        for (int64_t i = 0; i < n; i++)
            powers[i] = EXP(WIDEN(x[i]) - most);
        SUM_OF(sum, n, READ(e, powers), e)
        const float total = (float)sum;
        for (int64_t i = 0; i < n; i++)
            out[i] = NARROW(powers[i] / total);
    }
}
void tg_softmax_bf16(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], rows_of(n[1], 1.5), softmax_rows_bf16, &given);
}

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
