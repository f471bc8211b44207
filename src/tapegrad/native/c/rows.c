/* Kernels along the last dimension: each row is read once or twice while it is in the cache. */

#include "kernels.h"
#include "vecmath.h"

#define LANES 16
#define BLOCK 1024 /* sums are made in blocks and added up in double */

typedef struct {
    void **p;
    const int64_t *n;
    const double *x;
} arguments;

/* How many rows of `width` are worth a piece of work, at `cost` nanoseconds an element. */
TG_INLINE int64_t rows_of(int64_t width, double cost) {
    int64_t rows = tg_grain(cost) / (width > 0 ? width : 1);
    return rows < 1 ? 1 : rows;
}

#define T float
#define NAMED(name) name##_f32
#define EXP exp_f32
#define LOG log_f32
#include "rows_of.h"
#undef T
#undef NAMED
#undef EXP
#undef LOG

#define T double
#define NAMED(name) name##_f64
#define EXP exp_f64
#define LOG log_f64
#include "rows_of.h"
