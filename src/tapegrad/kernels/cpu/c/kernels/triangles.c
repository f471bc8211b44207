/* The lower and the upper part of matrices. */

#include <string.h>

#include "kernels.h"

/* p: input, out, both in C order; n: matrices, rows, columns, bytes of an element, diagonal, whether
   the part below and on that diagonal is kept, or the one above and on it */
void tg_triangle(void **p, const int64_t *n, const double *x) {
    const int64_t rows = n[1], columns = n[2], item = n[3], line = columns * item;
    const char *in = p[0];
    char *out = p[1];
    for (int64_t each = 0; each < n[0]; each++)
        for (int64_t i = 0; i < rows; i++, in += line, out += line) {
            int64_t at = i + n[4] + (n[5] != 0); /* the first column of the other part */
            at = (at < 0 ? 0 : at > columns ? columns : at) * item;
            memset(n[5] ? out + at : out, 0, (size_t)(n[5] ? line - at : at));
            memcpy(n[5] ? out : out + at, n[5] ? in : in + at, (size_t)(n[5] ? at : line - at));
        }
}
