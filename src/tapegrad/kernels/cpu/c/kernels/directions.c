/* An elementwise function of a tensor that carries first derivatives along many directions and one
   sum of second derivatives (core/transforms/series.py): y' = f' x' for each direction, and
   y'' = f' x'' + f'' (the sum of the squares of all x'). */

#include <string.h>

#include "kernels.h"

#define BLOCK 256 /* elements whose sums of squares are kept in the first-level cache */

typedef struct {
    void **p;
    const int64_t *n;
} given;

#define DIRECTIONS(T, suffix)                                                                      \
    /* The elements from `begin` to `end` of one entry, `at` in a row of x'. */                    \
    static void span_##suffix(const given *g, int64_t at, int64_t begin, int64_t end) {            \
        const int64_t rows = g->n[0], count = g->n[1], width = g->n[2], size = end - begin;        \
        const T *first = (const T *)g->p[0] + at, *slope = (const T *)g->p[2] + begin;             \
        const T *bend = (const T *)g->p[3] + begin, *second = g->p[4];                             \
        T *out = (T *)g->p[5] + begin, sums[BLOCK];                                                \
        for (int64_t i = 0; i < size; i++)                                                         \
            sums[i] = 0;                                                                           \
        for (int64_t r = 0; r < rows; r++, first += width, out += count)                           \
            for (int64_t i = 0; i < size; i++) {                                                   \
                const T x = first[i];                                                              \
                sums[i] += x * x;                                                                  \
                out[i] = slope[i] * x;                                                             \
            }                                                                                      \
        memcpy(out, (const T *)g->p[1] + begin, (size_t)size * sizeof(T));                         \
        out += count;                                                                              \
        if (second)                                                                                \
            for (int64_t i = 0; i < size; i++)                                                     \
                out[i] = slope[i] * second[begin + i] + bend[i] * sums[i];                               \
        else                                                                                       \
            for (int64_t i = 0; i < size; i++)                                                     \
                out[i] = bend[i] * sums[i];                                                        \
    }                                                                                              \
    static void part_##suffix(void *context, int64_t begin, int64_t end) {                         \
        const given *g = context;                                                                  \
        const int64_t width = g->n[2];                                                             \
        while (begin < end) {                                                                      \
            const int64_t at = begin % width;                                                      \
            int64_t size = width - at < BLOCK ? width - at : BLOCK;                                \
            size = end - begin < size ? end - begin : size;                                        \
            span_##suffix(g, at, begin, begin + size);                                             \
            begin += size;                                                                         \
        }                                                                                          \
    }                                                                                              \
    /* x' (rows x width), y, f', f'', x'' and the result: y', y and y'' (rows + 2 rows of count    \
       elements); rows, count, width (x' is repeated count / width times). NULL: x'' is zero */    \
    void tg_directions_##suffix(void **p, const int64_t *n, const double *x) {                     \
        (void)x;                                                                                   \
        given g = {p, n};                                                                          \
        tg_parallel(n[1], tg_grain(0.1 * (double)(n[0] + 2)), part_##suffix, &g);                  \
    }
DIRECTIONS(float, f32)
DIRECTIONS(double, f64)
