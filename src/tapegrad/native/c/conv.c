/* Convolution without copies of windows.

   An image is laid out once, with zeros around it and, for a stride s, as s times s images of every
   s-th pixel (`conv_lay`). Then each tap of the kernel is an offset in that memory, whatever stride,
   padding and dilation are: output q, counted along rows as wide as those of the layout, is the sum
   over j (channels and taps) of weight[j] * X[offset[j] + q]. Between the rows of the output lie
   positions that mean nothing; they are computed and left out. */

#include <string.h>

#include "kernels.h"

/* A product and a sum are rounded once here: it is faster and no less exact. */
#pragma GCC optimize("fp-contract=fast")

#define WIDE 32       /* bytes of a vector; two stand side by side */
#define CHUNK 512     /* outputs of a channel that are summed up in one buffer */
#define WEIGHTS 16384 /* bytes of weights that are used for a chunk before the next are */
#define PARTS 12      /* sixes of taps whose weights are found together */

typedef struct {
    void **p;
    const int64_t *n;
    const double *x;
} arguments;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t pieces(double cost, double each) {
    double found = (double)tg_grain(cost) / (each > 1 ? each : 1);
    return found < 1 ? 1 : (int64_t)found;
}

#define T float
#define NAMED(name) name##_f32
#include "conv_of.h"
#undef T
#undef NAMED

#define T double
#define NAMED(name) name##_f64
#include "conv_of.h"
