/* Functions of two numbers, element by element: orthogonal polynomials by degree, and neighbours of
   floats. The formulas are those of ops/special/polynomials.py, with the processor's multiply-add
   where PyTorch has it too. */

#include <math.h>

#include "kernels.h"

typedef struct {
    void **p;
    const int64_t *n;
} arguments;

/* The kinds of Chebyshev's polynomials, and the degree from which they are cosines inside. */
enum { KIND_T, KIND_U, KIND_V, KIND_W };

#define PAIR_FUNCTIONS(X) /* in the order of FUNCTIONS in overrides/pairs.py */                      \
    X(chebyshev_t) X(chebyshev_u) X(chebyshev_v) X(chebyshev_w) X(shifted_t) X(shifted_u)          \
    X(shifted_v) X(shifted_w) X(hermite_h) X(hermite_he) X(laguerre) X(legendre) X(next)

#define T float
#define BITS uint32_t
#define NAMED(name) name##_f32
#define MATH(name) name##f
#define HERMITE_LIMIT 128
#include "pairs_template.h"
#undef T
#undef BITS
#undef NAMED
#undef MATH
#undef HERMITE_LIMIT

#define T double
#define BITS uint64_t
#define NAMED(name) name##_f64
#define MATH(name) name
#define HERMITE_LIMIT 512
#include "pairs_template.h"
