/* Rows and columns of value_summary.c for one element type.

   REAL, BITS, INTEGER: the element, an unsigned and a signed integer as wide; REALS: a vector of
   HALF of them; LARGEST, INFINITE: the largest integer and the bits of infinity; COLUMN_KEY: the key
   of a column; MIXED(u): an element's bits as the hash takes them; NAME(f): f_float, f_double. */

#define HASH(name, KEY)                                                                            \
    TG_INLINE uint64_t NAME(name)(const REAL *x, int64_t n, const KEY *keys) {                     \
        uint64_t h = 0;                                                                            \
        for (int64_t j = 0; j < n; j++) {                                                          \
            BITS u;                                                                                \
            memcpy(&u, x + j, sizeof u);                                                           \
            h += (uint64_t)MIXED(u) * keys[j];                                                     \
        }                                                                                          \
        return h;                                                                                  \
    }
HASH(hash_by_columns, COLUMN_KEY)
HASH(hash_by_rows, uint64_t)
#undef HASH

/* Bits as signed integers that are in the order of the numbers; NaNs are beyond the infinities. */
TG_INLINE INTEGER NAME(ordered)(const REAL *x) {
    INTEGER u;
    memcpy(&u, x, sizeof u);
#ifndef INTEGERS
    u ^= (u >> (8 * sizeof u - 1)) & LARGEST;
#endif
    return u;
}

TG_INLINE double NAME(from_ordered)(INTEGER u) {
    REAL x;
#ifndef INTEGERS
    u ^= (u >> (8 * sizeof u - 1)) & LARGEST;
#endif
    memcpy(&x, &u, sizeof x);
    return (double)x;
}

/* Add the elements to all sums; `signs` has the sign bit of each. False: one is not finite. */
TG_INLINE int NAME(take)(struct summary *s, const REAL *x, int64_t n, const uint64_t *signs,
                         double *lanes) {
    INTEGER least = LARGEST, most = -LARGEST - 1;
    for (int64_t j = 0; j < n; j++) {
        const INTEGER u = NAME(ordered)(x + j);
        least = u < least ? u : least;
        most = u > most ? u : most;
    }
#ifndef INTEGERS
    if (least <= (-INFINITE - 1) || most >= INFINITE)
        return 0;
#endif
    const double low = NAME(from_ordered)(least), high = NAME(from_ordered)(most);
    s->low = low < s->low ? low : s->low;
    s->high = high > s->high ? high : s->high;
    /* Two vectors of four by name: one wider than a register, or an array of them, is in memory. */
    VALUES sum_0 = s->sums[0], sum_1 = s->sums[1], squares_0 = s->squares[0];
    VALUES squares_1 = s->squares[1], turned_0 = {0}, turned_1 = {0};
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES) {
        REALS given_0, given_1;
        TURNS turn_0, turn_1;
        memcpy(&given_0, x + j, sizeof given_0);
        memcpy(&given_1, x + j + HALF, sizeof given_1);
        memcpy(&turn_0, signs + j, sizeof turn_0);
        memcpy(&turn_1, signs + j + HALF, sizeof turn_1);
        const VALUES v_0 = __builtin_convertvector(given_0, VALUES);
        const VALUES v_1 = __builtin_convertvector(given_1, VALUES);
        sum_0 += v_0;
        sum_1 += v_1;
        squares_0 += v_0 * v_0;
        squares_1 += v_1 * v_1;
        turned_0 += (VALUES)((TURNS)v_0 ^ turn_0);
        turned_1 += (VALUES)((TURNS)v_1 ^ turn_1);
    }
    VALUES sum[2] = {sum_0, sum_1}, squares[2] = {squares_0, squares_1};
    VALUES turned[2] = {turned_0, turned_1};
    for (int l = 0; j + l < n; l++) {
        const double v = (double)x[j + l];
        sum[l / HALF][l % HALF] += v;
        squares[l / HALF][l % HALF] += v * v;
        turned[l / HALF][l % HALF] += signs[j + l] ? -v : v;
    }
    memcpy(s->sums, sum, sizeof sum);
    memcpy(s->squares, squares, sizeof squares);
    memcpy(lanes, turned, sizeof turned);
    return 1;
}

/* All elements: rows of a dense last dimension, or columns of a dense one before it. 1: not all
   are finite, -1: no memory. */
TG_VERSIONS static int NAME(summarise)(struct summary *s, const struct layout *a) {
    const int by_columns = a->by_columns;
    const int outer = a->ndim - (by_columns ? 2 : 1);
    const int64_t inner = by_columns ? a->shape[a->ndim - 2] : 1;
    uint64_t *row_keys = NULL;
    uint64_t *row_signs = NULL;
    if (by_columns) {
        row_keys = malloc((size_t)inner * (sizeof *row_keys + sizeof *row_signs));
        if (!row_keys)
            return -1;
        row_signs = row_keys + inner;
    }
    int64_t at[NPY_MAXDIMS] = {0}, count = 1;
    const char *data = a->data;
    for (int d = 0; d < outer; d++)
        count *= a->shape[d];
    for (int64_t i = 0; i < count; i++) {
        if (!by_columns) {
            const uint64_t key = key_of(i + ROWS);
            for (int64_t b = 0; b * BLOCK < a->columns; b++) {
                const int64_t left = a->columns - b * BLOCK;
                const uint64_t factor = b ? key_of(b + BLOCKS) : 1;
                const int64_t n = left < BLOCK ? left : BLOCK;
                const REAL *x = (const REAL *)data + b * BLOCK;
                double lanes[LANES];
                if (!NAME(take)(s, x, n, column_signs, lanes))
                    return 1;
                s->hash += NAME(hash_by_columns)(x, n, NAME(keys)) * factor * key;
                add_lanes(s, lanes, i, (int)((key ^ factor) >> 5 & 1));
            }
        } else {
            for (int64_t r = 0; r < inner; r++) {
                row_keys[r] = key_of(i * inner + r + ROWS);
                row_signs[r] = row_keys[r] >> 5 << 63;
            }
            for (int64_t j = 0; j < a->columns; j++) {
                const uint64_t factor = j >= BLOCK ? key_of(j / BLOCK + BLOCKS) : 1;
                const uint64_t key = NAME(keys)[j % BLOCK];
                const REAL *x = (const REAL *)(data + j * a->strides[a->ndim - 1]);
                double lanes[LANES];
                if (!NAME(take)(s, x, inner, row_signs, lanes)) {
                    free(row_keys);
                    return 1;
                }
                s->hash += NAME(hash_by_rows)(x, inner, row_keys) * key * factor;
                add_lanes(s, lanes, i * inner + j, (int)((key ^ factor) >> 5 & 1));
            }
        }
        for (int d = outer - 1; d >= 0; d--) {
            data += a->strides[d];
            if (++at[d] < a->shape[d])
                break;
            data -= a->strides[d] * a->shape[d];
            at[d] = 0;
        }
    }
    free(row_keys);
    return 0;
}
