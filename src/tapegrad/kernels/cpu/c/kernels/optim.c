/* Optimizers, and operations on all gradients (norm, scaling, clipping): many tensors in one call.

   The first array of each kernel is a table that pointer_tables.c makes: for each row (parameters,
   gradients, state) the addresses of all tensors, then where each tensor ends when they are laid
   end to end. The rules of the optimizers are made from their `update` in Python
   (tools/optimizers.py): each element goes through the same operations in the same order. */

#include <math.h>
#include <stdbool.h>

#include "kernels.h"
#include "machine.h"

/* One loop for both ways of a decision that is the same for all elements: it is cheap beside the
   division and the root, and two loops would make the library 50 KB larger. */
#if defined(__GNUC__) && !defined(__clang__)
#define TG_SHORT __attribute__((optimize("no-unswitch-loops")))
#else
#define TG_SHORT
#endif

typedef struct {
    const int64_t *table;
    const int64_t *stops;
    int64_t count;
    const void *factors;
    double *parts;
} job;

/* The tensor that the element at `place` is in. */
static int64_t tensor_at(const job *j, int64_t place) {
    int64_t low = 0, high = j->count - 1;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (j->stops[middle] > place)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The larger one, or NaN if one is. */
TG_INLINE double larger_of(double a, double b) { return b > a || b != b ? b : a; }

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* The end of a piece within tensor k, and where the piece begins in that tensor's memory. */
#define EACH_TENSOR                                                                                \
    const job *j = context;                                                                        \
    int64_t stop;                                                                                  \
    for (int64_t k = tensor_at(j, begin); begin < end; begin = stop, k++)                          \
        if ((stop = least(end, j->stops[k])) > begin)
#define ROW(row)                                                                                   \
    (j->table[(row)*j->count + k] ? (T *)(intptr_t)j->table[(row)*j->count + k] + begin -          \
                                        (k ? j->stops[k - 1] : 0)                                  \
                                  : NULL)

static void run(void **p, const int64_t *n, int64_t rows, double cost, tg_part part,
                const void *factors) {
    const int64_t *table = p[0], count = n[0];
    job j = {table, table + rows * count, count, factors, NULL};
    if (count)
        tg_parallel(j.stops[count - 1], tg_grain(cost), part, &j);
}

/* Sums over all elements are made in pieces of this many, whatever the number of threads. */
#define PIECE 16384

/* While the same bits are wanted on every machine, a power is not the C library's. */
static int is_portable;
/* n: whether powers are portable from now on */
void tg_portable_powers(void **p, const int64_t *n, const double *x) { is_portable = n[0] != 0; }
static double power_of(double a, double b) {
    double out;
    if (!is_portable)
        return pow(a, b);
    tg_loop_power_f64(&a, &b, &out, 1);
    return out;
}
#define pow power_of

#define T float
#define NAMED(name) name##_f32
#define SQRT sqrtf
#define ABS fabsf
#include "optim_template.h"
#undef T
#undef NAMED
#undef SQRT
#undef ABS

#define T double
#define NAMED(name) name##_f64
#define SQRT sqrt
#define ABS fabs
#include "optim_template.h"
