/* Rows and elements by their numbers. Every kernel looks at numbers before it touches memory by them,
   and reports in its last array (one int64) whether one was out of range: then the result is not to
   be used, but nothing was read or written elsewhere. */

#include <string.h>

#include "kernels.h"
#include "sums.h"

/* Whether all numbers are in [low, high). */
TG_VERSIONS static int64_t are_within(const int64_t *index, int64_t count, int64_t low,
                                      int64_t high) {
    const uint64_t room = (uint64_t)(high - low);
    int64_t wrong = 0;
    for (int64_t i = 0; i < count; i++)
        wrong |= (uint64_t)(index[i] - low) >= room;
    return !wrong;
}

/* Whether all indices of a piece of work are below `size`; if not, set `wrong` for all threads. */
TG_INLINE int are_fine(const int64_t *index, int64_t count, int64_t size, int64_t *wrong) {
    if (are_within(index, count, 0, size))
        return 1;
    __atomic_store_n(wrong, 1, __ATOMIC_RELAXED);
    return 0;
}

TG_INLINE int64_t wrapped(int64_t i, int64_t size) { return i < 0 ? i + size : i; }

/* ------------------------------------------------------------------ places */

/* Several indices as one, for the dimensions they are of taken together; negative ones count from
   the end. p: out, index arrays …, whether something was wrong; n: count, how many, their sizes … */
TG_VERSIONS static void places_of(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t many = given->n[1], *sizes = given->n + 2;
    int64_t *restrict out = given->p[0];
    for (int64_t k = 0; k < many; k++) {
        const int64_t *restrict index = given->p[1 + k];
        const int64_t size = sizes[k];
        for (int64_t i = begin; i < end; i++)
            out[i] = (k ? out[i] * size : 0) + wrapped(index[i], size);
    }
}
void tg_places(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    int64_t *wrong = p[1 + n[1]];
    *wrong = 0;
    for (int64_t k = 0; k < n[1]; k++)
        *wrong |= !are_within(p[1 + k], n[0], -n[2 + k], n[2 + k]);
    if (!*wrong)
        tg_parallel(n[0], tg_grain(1), places_of, &given);
}

/* ------------------------------------------------------------------ whole rows */

/* out[o, j] = source[o, index[j]], all of them rows of bytes.
   p: source, index, out, whether something was wrong; n: outer, size, bytes of a row, count, whether
   negative numbers count from the end */
#define TAKE(type)                                                                                 \
    for (int64_t j = first; j < last; j++)                                                         \
        ((type *)out)[j] = ((const type *)source)[wrapped(index[j], size)];
TG_VERSIONS static void take_rows(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t size = given->n[1], bytes = given->n[2], count = given->n[3];
    const int64_t *restrict index = given->p[1];
    for (int64_t row = begin; row < end;) {
        const int64_t o = row / count, first = row - o * count;
        const int64_t last = lesser(count, first + end - row);
        const char *restrict source = (const char *)given->p[0] + o * size * bytes;
        char *restrict out = (char *)given->p[2] + o * count * bytes;
        if (bytes == 4)
            TAKE(int32_t)
        else if (bytes == 8)
            TAKE(int64_t)
        else
            for (int64_t j = first; j < last; j++)
                memcpy(out + j * bytes, source + wrapped(index[j], size) * bytes, bytes);
        row += last - first;
    }
}
#undef TAKE
void tg_take(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    int64_t *wrong = p[3];
    *wrong = !are_within(p[1], n[3], n[4] ? -n[1] : 0, n[1]);
    if (!*wrong)
        tg_parallel(n[0] * n[3], rows_of(n[2] + 8, 0.05), take_rows, &given);
}

/* ------------------------------------------------------------------ by a table */

/* out[i] = source[table[i]], where that is not negative. The table is no user's: compiler/plan/gather_tables.py
   has seen to it. p: source, table, out; n: count, bytes of one */
#define MOVE(type)                                                                                 \
    for (int64_t i = 0; i < n[0]; i++)                                                             \
        if (table[i] >= 0)                                                                         \
            ((type *)p[2])[i] = ((const type *)p[0])[table[i]];
void tg_moved(void **p, const int64_t *n, const double *x) {
    const int64_t *table = p[1];
    switch (n[1]) {
    case 1:
        MOVE(int8_t)
        break;
    case 2:
        MOVE(int16_t)
        break;
    case 4:
        MOVE(int32_t)
        break;
    case 8:
        MOVE(int64_t)
    }
}
#undef MOVE

/* ------------------------------------------------------------------ along a dimension */

/* out[o, j, k] = source[o, index[o, j, k], k]
   p: source, index, out, whether something was wrong; n: outer, size, inner, count, bytes of one */
#define GATHER(type)                                                                               \
    for (int64_t row = begin; row < end; row++) {                                                  \
        const type *from = (const type *)given->p[0] + row / count * size * inner;                 \
        const int64_t *index = (const int64_t *)given->p[1] + row * inner;                         \
        type *out = (type *)given->p[2] + row * inner;                                             \
        if (!are_fine(index, inner, size, given->p[3]))                                            \
            return;                                                                                \
        for (int64_t k = 0; k < inner; k++)                                                        \
            out[k] = from[index[k] * inner + k];                                                   \
    }
TG_VERSIONS static void gather_rows(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    int64_t size = given->n[1], inner = given->n[2], count = given->n[3];
    if (inner == 1) { /* rows of the last dimension, the inner loop along it */
        const int64_t bytes = given->n[4];
        for (int64_t o = begin; o < end; o++) {
            const int64_t *index = (const int64_t *)given->p[1] + o * count;
            if (!are_fine(index, count, size, given->p[3]))
                return;
            if (bytes == 4) {
                const int32_t *from = (const int32_t *)given->p[0] + o * size;
                int32_t *out = (int32_t *)given->p[2] + o * count;
                for (int64_t j = 0; j < count; j++)
                    out[j] = from[index[j]];
            } else {
                const int64_t *from = (const int64_t *)given->p[0] + o * size;
                int64_t *out = (int64_t *)given->p[2] + o * count;
                for (int64_t j = 0; j < count; j++)
                    out[j] = from[index[j]];
            }
        }
    } else if (given->n[4] == 4) {
        GATHER(int32_t)
    } else {
        GATHER(int64_t)
    }
}
#undef GATHER
void tg_gather(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    *(int64_t *)p[3] = 0;
    if (n[2] == 1)
        tg_parallel(n[0], rows_of(n[3], 1), gather_rows, &given);
    else
        tg_parallel(n[0] * n[3], rows_of(n[2], 1), gather_rows, &given);
}

/* ------------------------------------------------------------------ parts */

/* out[o, first + j * step, k] = part[o, j, k], and zeros everywhere else.
   p: part, out; n: outer, size, inner, first, step, count, bytes of one, and the strides of part in
   elements (0 where it is broadcast) */
#define PAIRS(value)                                                                               \
    for (int64_t j = 0; j < count - 1; j++) {                                                      \
        out[first + 2 * j] = value;                                                                \
        out[first + 2 * j + 1] = 0;                                                                \
    }
#define PUT(type)                                                                                  \
    for (int64_t line = begin; line < end; line++) {                                               \
        const int64_t o = inner == 1 ? line : line / size;                                         \
        const type *from = (const type *)given->p[0] + o * n[7];                                   \
        if (inner == 1) {                                                                          \
            type *restrict out = (type *)given->p[1] + o * size;                                   \
            if (step == 2 && n[8] < 2) { /* every other one: pairs whose second element is zero */           \
                memset(out, 0, first * sizeof(type));                                              \
                if (n[8])                                                                          \
                    PAIRS(from[j])                                                                 \
                else                                                                               \
                    PAIRS(*from)                                                                   \
                out[first + 2 * count - 2] = from[(count - 1) * n[8]];                             \
                memset(out + first + 2 * count - 1, 0, (size - first - 2 * count + 1) * sizeof(type)); \
                continue;                                                                          \
            }                                                                                      \
            memset(out, 0, size * sizeof(type));                                                   \
            for (int64_t j = 0; j < count; j++)                                                    \
                out[first + j * step] = from[j * n[8]];                                            \
            continue;                                                                              \
        }                                                                                          \
        type *out = (type *)given->p[1] + line * inner;                                            \
        const int64_t behind = line - o * size - first, j = behind / step;                         \
        if (behind < 0 || behind % step || j >= count) {                                           \
            memset(out, 0, inner * sizeof(type));                                                  \
            continue;                                                                              \
        }                                                                                          \
        from += j * n[8];                                                                          \
        if (n[9] == 1)                                                                             \
            memcpy(out, from, inner * sizeof(type));                                               \
        else                                                                                       \
            for (int64_t k = 0; k < inner; k++)                                                    \
                out[k] = from[k * n[9]];                                                           \
    }
TG_VERSIONS static void put_lines(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t *n = given->n;
    const int64_t size = n[1], inner = n[2], first = n[3], step = n[4], count = n[5];
    if (n[6] == 4) {
        PUT(int32_t)
    } else {
        PUT(int64_t)
    }
}
#undef PUT
#undef PAIRS
void tg_put_part(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    const int64_t lines = n[2] == 1 ? n[0] : n[0] * n[1];
    tg_parallel(lines, rows_of(n[2] == 1 ? n[1] : n[2], 0.3), put_lines, &given);
}

/* ------------------------------------------------------------------ masks */

/* Rows of bytes where the mask is set, one after the other; and back. How many stand before each
   piece of the mask is counted first. `total` is what the caller counted: nothing is written beyond
   it, even if someone writes to the mask meanwhile.
   p: all, mask, some, place for a count per piece and one more; n: length of the mask, bytes of a
   row, total, whether they go back, length of a piece */
static void count_marks(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const unsigned char *mask = given->p[1];
    const int64_t length = given->n[4];
    for (int64_t piece = begin; piece < end; piece++) {
        const int64_t last = lesser((piece + 1) * length, given->n[0]);
        int64_t count = 0;
        for (int64_t i = piece * length; i < last; i++)
            count += mask[i] != 0;
        ((int64_t *)given->p[3])[piece] = count;
    }
}
/* Without branches, as masks are hard to foresee: what is not marked is written over by the next. */
#define MOVE(type)                                                                                 \
    {                                                                                              \
        type *all = given->p[0], *some = given->p[2];                                              \
        if (back)                                                                                  \
            for (; i < last && at < stop; i++) {                                                   \
                all[i] = mask[i] ? some[at] : all[i];                                              \
                at += mask[i] != 0;                                                                \
            }                                                                                      \
        else                                                                                       \
            for (; i < last && at < stop; i++) {                                                   \
                some[at] = all[i];                                                                 \
                at += mask[i] != 0;                                                                \
            }                                                                                      \
    }
static void move_marked(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const unsigned char *mask = given->p[1];
    const int64_t *before = given->p[3];
    const int64_t bytes = given->n[1], total = given->n[2], back = given->n[3];
    const int64_t length = given->n[4];
    for (int64_t piece = begin; piece < end; piece++) {
        const int64_t last = lesser((piece + 1) * length, given->n[0]);
        const int64_t stop = lesser(before[piece + 1], total);
        int64_t i = piece * length, at = before[piece];
        if (bytes == 4)
            MOVE(int32_t)
        else if (bytes == 8)
            MOVE(int64_t)
        else
            for (; i < last && at < stop; i++)
                if (mask[i]) {
                    char *one = (char *)given->p[0] + i * bytes;
                    char *other = (char *)given->p[2] + at++ * bytes;
                    memcpy(back ? one : other, back ? other : one, bytes);
                }
    }
}
#undef MOVE
void tg_marked(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    const int64_t pieces = (n[0] + n[4] - 1) / n[4];
    int64_t *before = p[3], sum = 0;
    tg_parallel(pieces, 8, count_marks, &given);
    for (int64_t i = 0; i < pieces; i++) {
        const int64_t count = before[i];
        before[i] = sum;
        sum += count;
    }
    before[pieces] = sum;
    tg_parallel(pieces, 1, move_marked, &given);
}

/* ------------------------------------------------------------------ sums, by type */

#define T float
#define NAMED(name) name##_f32
#include "gather_template.h"
#undef T
#undef NAMED

#define T double
#define NAMED(name) name##_f64
#include "gather_template.h"
