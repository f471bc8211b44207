/* Products of a matrix and a vector, in one order: it depends on the sizes alone. BLAS cuts them by
   the number of its threads. */

#include "kernels.h"
#include "sums.h"

#define ROWS 512 /* sums that are made side by side */
#define SHORT 64 /* elements of a row that are added up without doubles */

#define T float
#define VECTOR vector_f32
#define NAMED(name) name##_f32
#include "matvec_template.h"
#undef T
#undef VECTOR
#undef NAMED

#define T double
#define VECTOR vector_f64
#define NAMED(name) name##_f64
#include "matvec_template.h"
