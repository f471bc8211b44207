/* Products with a matrix that is packed once: packed.c. */

#ifndef TAPEGRAD_PACKED_H
#define TAPEGRAD_PACKED_H

#include "tapegrad.h"

#define TG_PANEL(T) (64 / (int64_t)sizeof(T)) /* columns: two vectors of 32 bytes */

/* How many elements a packed matrix of k rows and n columns has. */
#define TG_PACKED(T, k, n) (((n) + TG_PANEL(T) - 1) / TG_PANEL(T) * TG_PANEL(T) * (k))

/* Element (i, j) of the matrix is b[i * down + j * right]. */
void tg_pack_f32(int64_t k, int64_t n, const float *b, int64_t down, int64_t right, float *packed);
void tg_pack_f64(int64_t k, int64_t n, const double *b, int64_t down, int64_t right,
                 double *packed);

/* out = alpha a b + beta out, with a (m x k) likewise by steps and b (k x n) packed; what stands in
   `out` is not looked at where beta is 0. k is 1 or more. */
void tg_by_packed_f32(int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t down,
                      int64_t right, const float *packed, float beta, float *out, int64_t ldc);
void tg_by_packed_f64(int64_t m, int64_t n, int64_t k, double alpha, const double *a, int64_t down,
                      int64_t right, const double *packed, double beta, double *out, int64_t ldc);

#endif
