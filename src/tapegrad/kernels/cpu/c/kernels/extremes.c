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

/* The extremes up to each place, and where they are: the last of equals, and the last NaN.
   p: input, values, places; n: outer, how many (> 0), inner, whether the smallest */
#define RUNNING_EXTREMES(name, type)                                                               \
    void tg_running_extremes_##name(void **p, const int64_t *n, const double *given) {             \
        const int64_t inner = n[2];                                                                \
        const type *x = p[0];                                                                      \
        type *values = p[1];                                                                       \
        int64_t *places = p[2];                                                                    \
        for (int64_t i = 0; i < n[0]; i++)                                                         \
            for (int64_t j = 0; j < n[1]; j++, x += inner, values += inner, places += inner)       \
                for (int64_t k = 0; k < inner; k++) {                                              \
                    const type v = x[k], best = j ? values[k - inner] : v;                         \
                    const int is_new = v != v || (n[3] ? v <= best : v >= best);                   \
                    values[k] = is_new ? v : best;                                                 \
                    places[k] = is_new ? j : places[k - inner];                                    \
                }                                                                                  \
    }
RUNNING_EXTREMES(f32, float)
RUNNING_EXTREMES(f64, double)
