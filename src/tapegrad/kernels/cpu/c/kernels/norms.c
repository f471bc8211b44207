/* Layer norm and rms norm: every row by its own statistics. */

#include <math.h>
#include <string.h>

#include "kernels.h"
#include "sums.h"
#include "vecmath.h"

#define T float
#define VECTOR vector_f32
#define NAMED(name) name##_f32
#include "norms_template.h"
#undef T
#undef VECTOR
#undef NAMED

#define T double
#define VECTOR vector_f64
#define NAMED(name) name##_f64
#include "norms_template.h"
#undef T
#undef VECTOR
#undef NAMED

#define HALF bf16
#include "stored_half.h"
#include "norms_template.h"
#undef HALF

#define HALF f16
#include "stored_half.h"
#include "norms_template.h"
