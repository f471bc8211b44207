/* Products of matrices: gemm.c. */

#ifndef TAPEGRAD_GEMM_H
#define TAPEGRAD_GEMM_H

#include "tapegrad.h"

/* out (m x n, rows of length ldc) = a b + row, or += a b. Element (i, j) of a is
   a[i * a_down + j * a_right], likewise of b; `row` may be NULL. All sizes are 1 or more. */
typedef struct {
    int64_t m, n, k;
    const void *a, *b, *row;
    int64_t a_down, a_right, b_down, b_right;
    int adds; /* add to the values in `out` */
    void *out;
    int64_t ldc;
    /* For the kernels alone: */
    int packs_a, packs_b; /* else tiles read it in place */
    int64_t tiles, start, deep, together;
    void *packed;
    _Atomic int failed;
} tg_matrices;

/* 0: there is no memory for it. */
int tg_multiply(tg_matrices *g, int is_double);
int tg_multiplies(void); /* whether these kernels are better than BLAS here */

#endif
