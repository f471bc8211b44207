/* Maxima and means of any windows of volumes, window by window: those that pooling2d.c does not take
   (few windows in a row, gaps inside them, three dimensions, sizes that the results are to have). */

#include <math.h>
#include <string.h>

#include "kernels.h"

#define AXES 3
#define FIELDS 6 /* of an axis: size, kernel (0: the windows tile it), stride, padding, gap, windows */

typedef struct {
    void **p;
    const int64_t *n;
    const double *x;
} arguments;

/* The elements of a window along an axis, and how many a mean is over. */
typedef struct {
    int64_t first, count, step, length;
} span;

static span span_of(const int64_t *axis, int64_t window, int with_padding) {
    const int64_t size = axis[0], kernel = axis[1], gap = axis[4], windows = axis[5];
    if (!kernel) {
        const int64_t first = window * size / windows;
        const int64_t end = ((window + 1) * size + windows - 1) / windows;
        return (span){first, end - first, 1, end - first};
    }
    const int64_t begin = window * axis[2] - axis[3];
    const int64_t before = begin < 0 ? (-begin + gap - 1) / gap : 0;
    int64_t last = size > begin ? (size - begin + gap - 1) / gap : 0;
    if (last > kernel)
        last = kernel;
    const int64_t count = last > before ? last - before : 0;
    const int64_t reach = begin + kernel < size + axis[3] ? kernel : size + axis[3] - begin;
    return (span){begin + before * gap, count, gap, with_padding ? reach : count};
}

#define EACH_WINDOW_OF_PLANES(with_padding)                                                        \
    const arguments *given = context;                                                              \
    const int64_t *d = given->n + 1, *h = d + FIELDS, *w = h + FIELDS;                             \
    const int64_t plane_size = d[0] * h[0] * w[0];                                                 \
    int64_t to = begin * d[5] * h[5] * w[5];                                                       \
    for (int64_t plane = begin; plane < end; plane++)                                              \
        for (int64_t i = 0; i < d[5]; i++) {                                                       \
            const span deep = span_of(d, i, with_padding);                                         \
            for (int64_t j = 0; j < h[5]; j++) {                                                   \
                const span tall = span_of(h, j, with_padding);                                     \
                for (int64_t k = 0; k < w[5]; k++, to++) {                                         \
                    const span wide = span_of(w, k, with_padding);
#define END_WINDOW                                                                                 \
    }                                                                                              \
    }                                                                                              \
    }

/* `body` for each element of a window; `at`: its place in the volume. */
#define EACH_ELEMENT(body)                                                                         \
    for (int64_t a = 0; a < deep.count; a++)                                                       \
        for (int64_t b = 0; b < tall.count; b++) {                                                 \
            int64_t at = ((deep.first + a * deep.step) * h[0] + tall.first + b * tall.step) * w[0] \
                         + wide.first;                                                             \
            for (int64_t c = 0; c < wide.count; c++, at += wide.step) {                            \
                body                                                                               \
            }                                                                                      \
        }

static int64_t pieces(const int64_t *n) {
    double work = 1; /* elements of the windows of a plane, roughly */
    for (int axis = 0; axis < AXES; axis++) {
        const int64_t *side = n + 1 + axis * FIELDS;
        work *= side[1] ? (double)(side[1] * side[5]) : (double)(side[0] + side[5]);
    }
    const int64_t found = (int64_t)((double)tg_grain(1.0) / (work > 1 ? work : 1));
    return found < 1 ? 1 : found;
}

#define T float
#define NAMED(name) name##_f32
#include "windows_template.h"
#undef T
#undef NAMED

#define T double
#define NAMED(name) name##_f64
#include "windows_template.h"
