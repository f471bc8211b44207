/* Attention, head by head, in blocks of queries: the scores of a block are computed and used while
   they are in the cache, and never stored as a whole. The gradient computes them again. */

#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "packed.h"
#include "sums.h"
#include "vecmath.h"

#define QUERIES 64 /* of a block, at most */
#define PIECE ((double)(1 << 20)) /* multiplications that are worth a piece of work */

/* The arrays are given as pointer and strides in elements; the width has stride 1. */
typedef struct {
    int64_t batch, head, row;
} steps;

/* The sizes of both kernels: batches, heads, queries, keys, width; strides of query, key, value,
   out (or its gradient), then those of the mask, which has one more; whether queries only see the
   keys up to their own place. */
typedef struct {
    int64_t batches, heads, queries, keys, width;
    steps query, key, value, out, mask;
    int64_t mask_column, causal;
} sizes;

TG_INLINE int64_t place(const steps *s, int64_t item, int64_t heads, int64_t row) {
    return item / heads * s->batch + item % heads * s->head + row * s->row;
}

/* How many queries a block has. With a causal mask, short sequences are cut into smaller blocks, as
   a block reads only the keys up to its last query. PyTorch cuts at the same places, and NaN in a
   value spreads to all queries of a block. */
TG_INLINE int64_t block_of(const sizes *s) {
    return s->causal && s->queries < 192 ? QUERIES / 2 : QUERIES;
}

/* How many keys the block sees that ends before query `end`. */
TG_INLINE int64_t keys_before(const sizes *s, int64_t end) {
    return s->causal && end < s->keys ? end : s->keys;
}

/* Heads, or blocks of queries, of a piece; each costs so many products of the size of the scores. */
TG_INLINE int64_t heads_of(const sizes *s, int64_t queries, int products) {
    const double work = (double)products * (double)queries * (double)s->keys * (double)s->width;
    const double count = PIECE / (work < 1 ? 1 : work);
    return count < 1 ? 1 : (int64_t)count;
}

#define T float
#define VECTOR vector_f32
#define NAMED(name) name##_f32
#define EXP_BELOW exp_below_f32
#include "largest_template.h"
#include "attention_template.h"
#undef T
#undef VECTOR
#undef NAMED
#undef EXP_BELOW

#define T double
#define VECTOR vector_f64
#define NAMED(name) name##_f64
#define EXP_BELOW exp_f64
#include "largest_template.h"
#include "attention_template.h"
