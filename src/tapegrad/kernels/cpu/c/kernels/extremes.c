/* Maximum and minimum along dimensions, and their indices: for few elements, where the overhead of
   a call of NumPy costs more than the comparison. */

#include "kernels.h"

/* The first of equals; of elements among which there is a NaN, the first NaN.
   p: input, values or NULL, places or NULL; n: outer, how many, inner, whether the smallest */
#define EXTREMES(name, type)                                                                       \
    TG_INLINE int64_t extreme_##name(const type *x, int64_t count, int64_t step, int smallest) {   \
        type best = x[0];                                                                          \
        int64_t at = 0;                                                                            \
        for (int64_t j = 1; j < count && best == best; j++) {                                      \
            const type v = x[j * step];                                                            \
            if ((smallest ? v < best : v > best) || v != v) {                                      \
                best = v;                                                                          \
                at = j;                                                                            \
            }                                                                                      \
        }                                                                                          \
        return at;                                                                                 \
    }                                                                                              \
    void tg_extremes_##name(void **p, const int64_t *n, const double *given) {                     \
        const int64_t inner = n[2];                                                                \
        type *values = p[1];                                                                       \
        int64_t *places = p[2];                                                                    \
        for (int64_t i = 0; i < n[0] * inner; i++) {                                               \
            const type *x = (const type *)p[0] + i / inner * n[1] * inner + i % inner;             \
            const int64_t at = n[3] ? extreme_##name(x, n[1], inner, 1)                            \
                                    : extreme_##name(x, n[1], inner, 0);                           \
            if (values)                                                                            \
                values[i] = x[at * inner];                                                         \
            if (places)                                                                            \
                places[i] = at;                                                                    \
        }                                                                                          \
    }
EXTREMES(f32, float)
EXTREMES(f64, double)
