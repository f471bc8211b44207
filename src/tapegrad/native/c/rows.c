/* Kernels along the last dimension: each row is read once or twice while it is in the cache. */

#include "kernels.h"
#include "sums.h"
#include "vecmath.h"

#define LANES 16

#define T float
#define VECTOR vector_f32
#define NAMED(name) name##_f32
#define EXP exp_f32
#define LOG log_f32
#include "rows_of.h"
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
#include "rows_of.h"
