/* Batch, instance and group norm of dense arrays: images (N, C, L), or with channels last a matrix
   (rows, C). Sums are made in blocks and added up in double. */

#include <math.h>

#include "kernels.h"

#define LANES 16
#define BLOCK 1024
#define TILE 64 /* columns of a matrix that are done together */

typedef struct {
    void **p;
    const int64_t *n;
    const double *x;
} arguments;

static int64_t pieces(double cost, int64_t elements) {
    int64_t found = tg_grain(cost) / (elements > 0 ? elements : 1);
    return found < 1 ? 1 : found;
}

#define T float
#define NAMED(name) name##_f32
#define SQRT sqrtf
#include "batch_norm_of.h"
#undef T
#undef NAMED
#undef SQRT

#define T double
#define NAMED(name) name##_f64
#define SQRT sqrt
#include "batch_norm_of.h"
