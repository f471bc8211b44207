/* Softmax and layer norm along contiguous rows in exactly the order of the reference on NumPy:
   the same bits with and without C, on every machine. Sums are NumPy's pairwise sums. */

#include <math.h>
#include <string.h>

#include "kernels.h"
#include "machine.h"

typedef struct {
    void **p;
    const int64_t *n;
    const double *x;
} arguments;

static int64_t rows_at_once(int64_t width, double cost) {
    const int64_t rows = tg_grain(cost) / width;
    return rows < 1 ? 1 : rows;
}

#define T float
#define NAMED(name) name##_f32
#define EXP tg_loop_exp_f32
#define LOG tg_loop_log_f32
#define SQRT sqrtf
#include "portable_rows_template.h"
#undef T
#undef NAMED
#undef EXP
#undef LOG
#undef SQRT

#define T double
#define NAMED(name) name##_f64
#define EXP tg_loop_exp_f64
#define LOG tg_loop_log_f64
#define SQRT sqrt
#include "portable_rows_template.h"
