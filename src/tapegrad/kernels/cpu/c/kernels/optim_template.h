/* optim.c for one type T. */

/* The larger one, or NaN if one is. */
TG_INLINE T NAMED(larger)(T a, T b) { return b > a || b != b ? b : a; }

#include "optim_rules_template.h"

/* ------------------------------------------------------------------ all gradients */

#define NORM_PART(name, start, step)                                                               \
    TG_VERSIONS static void NAMED(name)(void *context, int64_t begin, int64_t end) {               \
        const int64_t piece = begin / PIECE;                                                       \
        double found = start;                                                                      \
        EACH_TENSOR {                                                                              \
            const T *x = ROW(0);                                                                   \
            double lane[8] = {start, start, start, start, start, start, start, start};             \
            const int64_t n = stop - begin;                                                        \
            int64_t i0 = 0;                                                                        \
            for (; i0 + 8 <= n; i0 += 8)                                                           \
                for (int k8 = 0; k8 < 8; k8++) {                                                   \
                    const T a = x[i0 + k8];                                                        \
                    const double sum = lane[k8];                                                   \
                    lane[k8] = step;                                                               \
                }                                                                                  \
            for (; i0 < n; i0++) {                                                                 \
                const T a = x[i0];                                                                 \
                const double sum = lane[i0 % 8];                                                   \
                lane[i0 % 8] = step;                                                               \
            }                                                                                      \
            for (int k8 = 0; k8 < 8; k8++)                                                         \
                found = (start) < 0 ? larger_of(found, lane[k8]) : found + lane[k8];               \
        }                                                                                          \
        ((const job *)context)->parts[piece] = found;                                              \
    }

NORM_PART(squares_part, 0.0, sum + a * a)
NORM_PART(sizes_part, 0.0, sum + ABS(a))
NORM_PART(largest_part, -1.0, larger_of(sum, ABS(a)))
#undef NORM_PART

/* p: table of tensors, parts (one for each piece of PIECE elements); n: count, order (0: largest) */
void NAMED(tg_norm_parts)(void **p, const int64_t *n, const double *x) {
    const int64_t *table = p[0], count = n[0];
    job j = {table, table + count, count, NULL, p[1]};
    tg_part part = n[1] == 2 ? NAMED(squares_part) : n[1] ? NAMED(sizes_part) : NAMED(largest_part);
    if (count)
        tg_parallel(j.stops[count - 1], PIECE, part, &j);
}

TG_VERSIONS static void NAMED(scale_part)(void *context, int64_t begin, int64_t end) {
    EACH_TENSOR {
        T *x = ROW(0);
        const T by = (T) * (const double *)j->factors;
        for (int64_t i = 0; i < stop - begin; i++)
            x[i] *= by;
    }
}
/* x: factor */
void NAMED(tg_scale_all)(void **p, const int64_t *n, const double *x) {
    run(p, n, 1, 0.2, NAMED(scale_part), x);
}

TG_VERSIONS static void NAMED(limit_part)(void *context, int64_t begin, int64_t end) {
    EACH_TENSOR {
        T *x = ROW(0);
        const T most = (T) * (const double *)j->factors;
        for (int64_t i = 0; i < stop - begin; i++) {
            T v = x[i] < -most ? -most : x[i];
            x[i] = v > most ? most : v;
        }
    }
}
/* x: the largest absolute value */
void NAMED(tg_limit_all)(void **p, const int64_t *n, const double *x) {
    run(p, n, 1, 0.2, NAMED(limit_part), x);
}
