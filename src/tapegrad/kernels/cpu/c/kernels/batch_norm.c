/* Batch, instance and group norm of dense arrays: images (N, C, L), or with channels last a matrix
   (rows, C). Sums are made in blocks and added up in double. */

#include <math.h>

#include "kernels.h"
#include "sums.h"

#define TILE 64 /* columns of a matrix that are done together */

static int64_t pieces(double cost, int64_t elements) {
    int64_t found = tg_grain(cost) / (elements > 0 ? elements : 1);
    return found < 1 ? 1 : found;
}

#define T float
#define VECTOR vector_f32
#define NAMED(name) name##_f32
#define SQRT sqrtf
#include "batch_norm_template.h"
#undef T
#undef VECTOR
#undef NAMED
#undef SQRT

#define T double
#define VECTOR vector_f64
#define NAMED(name) name##_f64
#define SQRT sqrt
#include "batch_norm_template.h"
