/* Products of small matrices, for kernels that compute many of them. A BLAS copies both matrices into
   its own order in every call, and asks about threads; here that is done once or not at all.

   The right matrix is packed: panels of PANEL columns, row after row, the last one filled up with
   zeros. The left one is read in place, transposed or not. */

#include <string.h>

#include "packed.h"

/* A product and a sum are rounded once here: it is faster and no less exact. */
TG_FUSED

#define T float
#define INTEGER int32_t
#define NAMED(name) name##_f32
#include "packed_template.h"
#undef T
#undef INTEGER
#undef NAMED

#define T double
#define INTEGER int64_t
#define NAMED(name) name##_f64
#include "packed_template.h"
