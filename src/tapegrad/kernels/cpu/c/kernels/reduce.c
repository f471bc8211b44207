/* Reductions (sums, variances …) and running sums. */

#include <math.h>

#include "kernels.h"
#include "sums.h"
#include "vecmath.h"

#define TILE 2048   /* columns that are added up in the first cache */
#define COLUMNS 256 /* columns that run side by side */

/* Four of them, as doubles. */
typedef float four_f32 __attribute__((vector_size(16)));
typedef vector_f64 four_f64;

#define T float
#define VECTOR vector_f32
#define FOUR four_f32
#define NAMED(name) name##_f32
#include "reduce_template.h"
#include "variance_template.h"
#undef T
#undef VECTOR
#undef FOUR
#undef NAMED

#define T double
#define VECTOR vector_f64
#define FOUR four_f64
#define NAMED(name) name##_f64
#include "reduce_template.h"
#include "variance_template.h"
#undef T
#undef VECTOR
#undef FOUR
#undef NAMED

#define HALF bf16
#include "stored_half.h"
#include "reduce_template.h"
#undef HALF

#define HALF f16
#include "stored_half.h"
#include "reduce_template.h"
