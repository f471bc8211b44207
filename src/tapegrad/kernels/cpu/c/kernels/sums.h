/* Sums along rows, for kernels that are written once per type T (with VECTOR, of WIDE of them).

   A sum is made in blocks, each in several vectors side by side, and the blocks are added up in
   double. The order depends on the length alone: not on the processor, nor on threads. */

#ifndef TAPEGRAD_SUMS_H
#define TAPEGRAD_SUMS_H

#include <string.h>

#include "tapegrad.h"

typedef float vector_f32 __attribute__((vector_size(32)));
typedef double vector_f64 __attribute__((vector_size(32)));

#define WIDE ((int64_t)(sizeof(VECTOR) / sizeof(T)))
#define BLOCK 256
#define TALL 64 /* likewise of columns: so many rows are added up before they go to double */

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

TG_INLINE int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }

/* How rows are stored: as the T that is computed with, unless stored_half.h says otherwise.
   HALFWAY rounds what PyTorch rounds between two steps. */
#define STORED T
#define WIDEN(x) (x)
#define NARROW(x) (x)
#define HALFWAY(x) (x)
#define GET READ

/* In SUM_OF: `name` is the element of `array` that the sum is at, or a vector of them. */
#define READ(name, array)                                                                          \
    element name;                                                                                  \
    memcpy(&name, (array) + i, sizeof name);

#define ADD_VECTOR(sums, vector)                                                                   \
    for (int k = 0; k < WIDE; k++)                                                                 \
        sums[k] += (double)vector[k];

#define ADD_UP(total, sums)                                                                        \
    for (int half = WIDE / 2; half; half /= 2)                                                     \
        for (int k = 0; k < half; k++)                                                             \
            sums[k] += sums[k + half];                                                             \
    total += sums[0];

/* The sum of `value`, an expression of what is read. */
#define SUM_OF(total, n, reads, value)                                                             \
    double total = 0;                                                                              \
    {                                                                                              \
        double sums[WIDE] = {0};                                                                   \
        SUM_ON(total, sums, n, reads, value)                                                       \
        ADD_UP(total, sums)                                                                        \
    }

/* Continue a sum: `total` and `sums` hold the state so far. Parts of a sum are whole blocks, except
   for the last one. */
#define SUM_ON(total, sums, n, reads, value)                                                       \
    {                                                                                              \
        int64_t i = 0;                                                                             \
        while (i + WIDE <= (n)) {                                                                  \
            typedef VECTOR element;                                                                \
            const int64_t stop = lesser(i + BLOCK, (n));                                           \
            VECTOR s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};                                         \
            for (; i + 4 * WIDE <= stop;) {                                                        \
                { reads s0 += (value); i += WIDE; }                                                \
                { reads s1 += (value); i += WIDE; }                                                \
                { reads s2 += (value); i += WIDE; }                                                \
                { reads s3 += (value); i += WIDE; }                                                \
            }                                                                                      \
            for (; i + WIDE <= stop; i += WIDE) {                                                  \
                reads s0 += (value);                                                               \
            }                                                                                      \
            s0 = (s0 + s1) + (s2 + s3);                                                            \
            ADD_VECTOR(sums, s0)                                                                   \
        }                                                                                          \
        typedef T element;                                                                         \
        for (; i < (n); i++) {                                                                     \
            reads total += (double)(value);                                                        \
        }                                                                                          \
    }

/* The sums of two of them, in one pass. */
#define TWO_SUMS_OF(total, other, n, reads, value, other_value)                                    \
    double total = 0, other = 0;                                                                   \
    {                                                                                              \
        double sums[WIDE] = {0}, others[WIDE] = {0};                                               \
        int64_t i = 0;                                                                             \
        while (i + WIDE <= (n)) {                                                                  \
            typedef VECTOR element;                                                                \
            const int64_t stop = lesser(i + BLOCK, (n));                                           \
            VECTOR s0 = {0}, s1 = {0}, o0 = {0}, o1 = {0};                                         \
            for (; i + 2 * WIDE <= stop;) {                                                        \
                { reads s0 += (value); o0 += (other_value); i += WIDE; }                           \
                { reads s1 += (value); o1 += (other_value); i += WIDE; }                           \
            }                                                                                      \
            for (; i + WIDE <= stop; i += WIDE) {                                                  \
                reads s0 += (value);                                                               \
                o0 += (other_value);                                                               \
            }                                                                                      \
            s0 += s1;                                                                              \
            o0 += o1;                                                                              \
            ADD_VECTOR(sums, s0)                                                                   \
            ADD_VECTOR(others, o0)                                                                 \
        }                                                                                          \
        typedef T element;                                                                         \
        for (; i < (n); i++) {                                                                     \
            reads total += (double)(value);                                                        \
            other += (double)(other_value);                                                        \
        }                                                                                          \
        ADD_UP(total, sums)                                                                        \
        ADD_UP(other, others)                                                                      \
    }

#endif
