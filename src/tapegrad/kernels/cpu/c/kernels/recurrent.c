/* Recurrent layers: all steps of all sequences in one call. What the input adds to the gates is there
   already; a step is a small product and one pass over the gates.

   Rows lie one step after the other, as ops/nn/recurrent.py says; `walk` has the first row and the
   number of rows of every step, in the order in which they are computed. Sequences do not meet, so
   threads share them out. */

#include "kernels.h"
#include "packed.h"
#include "sums.h"
#include "vecmath.h"

#define SEQUENCES 8 /* of a piece */

typedef struct {
    int64_t first, count;
} step;

#define T float
#define NAMED(name) name##_f32
#define TANH tanh_f32
#define SIGMOID sigmoid_f32
#include "recurrent_template.h"
#undef T
#undef NAMED
#undef TANH
#undef SIGMOID

#define T double
#define NAMED(name) name##_f64
#define TANH tanh_f64
#define SIGMOID sigmoid_f64
#include "recurrent_template.h"
