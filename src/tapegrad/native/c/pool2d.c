/* Maxima and means of windows of planes. A row of windows is done at once, tap by tap. */

#include <math.h>
#include <string.h>

#include "kernels.h"

#define CHUNK 256 /* windows of a row that are done at once */

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

/* The windows first <= w < last whose element at `tap` is inside. */
static void inside(int64_t size, int64_t stride, int64_t padding, int64_t windows, int64_t tap,
                   int64_t *first, int64_t *last) {
    const int64_t shift = tap - padding; /* of the element in window 0 */
    *first = shift < 0 ? (-shift + stride - 1) / stride : 0;
    *last = size > shift ? least(windows, (size - shift + stride - 1) / stride) : 0;
}

/* How many elements a mean is over along one dimension. */
static int64_t extent(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t window,
                      int with_padding) {
    int64_t begin = window * stride - padding, end = least(begin + kernel, size + padding);
    if (!with_padding) {
        begin = most(begin, 0);
        end = least(end, size);
    }
    return end - begin;
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
#define NAMED(name) name##_f32
#include "pool2d_of.h"
#undef T
#undef INDEX
#undef NAMED

#define T double
#define INDEX int64_t
#define NAMED(name) name##_f64
#include "pool2d_of.h"
