/* Distances of the rows of matrices: of all pairs of two matrices, or of one with itself. */

#define _GNU_SOURCE
#include <math.h>

#include "kernels.h"

#define LANES 32 /* sums side by side, where rows are long */
#define LONG 64
#define RUN 128 /* elements that are summed up in one go; runs are added in double */

enum { STACK, ROWS, OTHERS, WIDTH, STEP, OTHER_STEP, IS_PAIRS };

typedef struct {
    void **p;
    const int64_t *n;
    double ord;
} arguments;

#define T float
#define NAMED(name) name##_f32
#define MATH(name) name##f
#include "distances_template.h"
#undef T
#undef NAMED
#undef MATH

#define T double
#define NAMED(name) name##_f64
#define MATH(name) name
#include "distances_template.h"
