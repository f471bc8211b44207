/* Maxima and means of windows of planes. A row of windows is done at once, tap by tap. The caller
   makes sure that every row of windows has elements inside the plane. */

#include <math.h>
#include <string.h>

#include "kernels.h"

#define CHUNK 256   /* windows of a row that are done at once */
#define TAPS 64     /* elements of a window along a row, at the most */
#define WIDEST 4096 /* elements of a row, at the most */

typedef struct {
    void **p;
    const int64_t *n;
    const double *x;
} arguments;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t pieces(double cost, int64_t elements) {
    int64_t found = tg_grain(cost) / (elements > 0 ? elements : 1);
    return found < 1 ? 1 : found;
}

/* How many elements a mean is over along one dimension. */
static int64_t extent(const int64_t *side, int64_t window, int with_padding) {
    int64_t begin = window * side[2] - side[3];
    int64_t end = least(begin + side[1], side[0] + side[3]);
    if (!with_padding) {
        begin = most(begin, 0);
        end = least(end, side[0]);
    }
    return end - begin;
}

/* A piece of a row of windows: for each tap, first <= window < last is inside the row. */
typedef struct {
    int64_t start, count, base; /* base: the place of the first element of the first window */
    int64_t first[TAPS], last[TAPS];
    double extents[CHUNK]; /* how many elements means are over, along the row */
} piece;

static void find_piece(piece *at, const int64_t *side, int64_t start, int with_padding) {
    at->start = start;
    at->count = least(CHUNK, side[4] - start);
    at->base = start * side[2] - side[3];
    for (int64_t tap = 0; tap < side[1]; tap++) {
        const int64_t shift = at->base + tap, stride = side[2];
        at->first[tap] = least(at->count, shift < 0 ? (-shift + stride - 1) / stride : 0);
        at->last[tap] = side[0] > shift ? least(at->count, (side[0] - shift + stride - 1) / stride)
                                        : 0;
    }
    for (int64_t i = 0; i < at->count; i++)
        at->extents[i] = (double)extent(side, start + i, with_padding);
}

/* `body` for windows i of [first, last), with `at` for the element's place in a row; strides of one
   and two are known to the compiler. */
#define EACH_WINDOW(first, last, stride, shift, body)                                              \
    if ((stride) == 1)                                                                             \
        for (int64_t i = (first); i < (last); i++) {                                               \
            const int64_t at = i + (shift);                                                        \
            body                                                                                   \
        }                                                                                          \
    else if ((stride) == 2)                                                                        \
        for (int64_t i = (first); i < (last); i++) {                                               \
            const int64_t at = 2 * i + (shift);                                                    \
            body                                                                                   \
        }                                                                                          \
    else                                                                                           \
        for (int64_t i = (first); i < (last); i++) {                                               \
            const int64_t at = (stride)*i + (shift);                                               \
            body                                                                                   \
        }

#define T float
#define INDEX int32_t
#define EVEN(a, b) TG_SHUFFLE(four_places_f32, a, b, 0, 2, 4, 6)
#define ODD(a, b) TG_SHUFFLE(four_places_f32, a, b, 1, 3, 5, 7)
#define NAMED(name) name##_f32
#include "pooling2d_template.h"
#undef T
#undef INDEX
#undef EVEN
#undef ODD
#undef NAMED

#define T double
#define INDEX int64_t
#define EVEN(a, b) TG_SHUFFLE(four_places_f64, a, b, 0, 2)
#define ODD(a, b) TG_SHUFFLE(four_places_f64, a, b, 1, 3)
#define NAMED(name) name##_f64
#include "pooling2d_template.h"
