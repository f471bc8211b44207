/* Kernels along the last dimension: each row is read once or twice while it is in the cache. */

#include <string.h>

#include "kernels.h"
#include "sums.h"
#include "vecmath.h"

#define SHORT 16 /* elements of a row */

#define T float
#define VECTOR vector_f32
#define NAMED(name) name##_f32
#define EXP exp_f32
#define LOG log_f32
#include "largest_template.h"
#include "rows_template.h"
#include "softmax_template.h"
#undef T
#undef VECTOR
#undef NAMED
#undef EXP
#undef LOG

#define T double
#define VECTOR vector_f64
#define NAMED(name) name##_f64
#define EXP exp_f64
#define LOG log_f64
#include "largest_template.h"
#include "rows_template.h"
#include "softmax_template.h"

#undef T
#undef VECTOR
#undef NAMED
#undef EXP
#undef LOG

/* The exponentials of rows of half precision that are longer than this are computed twice. */
#define KEPT 8192

#define HALF bf16
#include "stored_half.h"
#define EXP exp_f32
#define LOG log_f32
#include "largest_template.h"
#include "rows_template.h"
#include "softmax_half_template.h"
#undef HALF

#define HALF f16
#include "stored_half.h"
#include "largest_template.h"
#include "rows_template.h"
#include "softmax_half_template.h"
