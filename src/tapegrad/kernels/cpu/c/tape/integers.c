/* Ops on int64 and bool, which NumPy computes elsewhere: so that a compiled step needs no Python. */

#include "kernels.h"

enum { EQ, NE, LT, LE, GT, GE, ADD, SUB, MUL, REMAINDER, AND, OR, XOR };

#define EACH(type, expression)                                                                     \
    for (int64_t i = 0; i < count; i++) {                                                          \
        const wide x = (wide)a[i * a_step], y = (wide)b[i * b_step];                               \
        ((type *)out)[i] = (type)(expression);                                                     \
    }                                                                                              \
    break;

/* A line of the result. Sums wrap around; a remainder has the sign of what it is divided by, which
   is not zero. */
#define LINE(name, kind)                                                                           \
    static void line_##name(int64_t code, int64_t count, const kind *a, int64_t a_step,            \
                            const kind *b, int64_t b_step, void *out) {                            \
        typedef int64_t wide;                                                                      \
        switch (code) {                                                                            \
        case EQ: EACH(uint8_t, x == y)                                                             \
        case NE: EACH(uint8_t, x != y)                                                             \
        case LT: EACH(uint8_t, x < y)                                                              \
        case LE: EACH(uint8_t, x <= y)                                                             \
        case GT: EACH(uint8_t, x > y)                                                              \
        case GE: EACH(uint8_t, x >= y)                                                             \
        case ADD: EACH(kind, (uint64_t)x + (uint64_t)y)                                            \
        case SUB: EACH(kind, (uint64_t)x - (uint64_t)y)                                            \
        case MUL: EACH(kind, (uint64_t)x * (uint64_t)y)                                            \
        case REMAINDER: EACH(kind, y == -1 ? 0 : (x % y + y) % y)                                  \
        case AND: EACH(kind, x & y)                                                                \
        case OR: EACH(kind, x | y)                                                                 \
        case XOR: EACH(kind, x ^ y)                                                                \
        }                                                                                          \
    }
LINE(i64, int64_t)
LINE(bool, uint8_t)

#define MOST_DIMS 8

/* p: two inputs, out (in C order); n: code, bytes of an input's element, bytes of one of out,
   dimensions (1 or more), sizes …, steps of the first input … (in elements), those of the second … */
void tg_whole(void **p, const int64_t *n, const double *x) {
    const int64_t dims = n[3], *size = n + 4, *first = size + dims, *second = first + dims;
    const int64_t count = size[dims - 1];
    int64_t at[MOST_DIMS] = {0}, lines = 1;
    for (int64_t d = 0; d < dims - 1; d++)
        lines *= size[d];
    const char *a = p[0], *b = p[1];
    char *out = p[2];
    for (int64_t line = 0; line < lines; line++, out += count * n[2]) {
        int64_t i = 0, j = 0;
        for (int64_t d = 0; d < dims - 1; d++)
            i += at[d] * first[d], j += at[d] * second[d];
        if (n[1] == 8)
            line_i64(n[0], count, (const int64_t *)a + i, first[dims - 1], (const int64_t *)b + j,
                     second[dims - 1], out);
        else
            line_bool(n[0], count, (const uint8_t *)a + i, first[dims - 1], (const uint8_t *)b + j,
                      second[dims - 1], out);
        for (int64_t d = dims - 2; d >= 0 && ++at[d] == size[d]; d--)
            at[d] = 0;
    }
}

/* Whether all are true, or any of them. p: input (truths), out; n: outer, how many, inner, whether
   any will do */
void tg_truths(void **p, const int64_t *n, const double *x) {
    const int64_t inner = n[2];
    const uint8_t any = n[3] != 0;
    uint8_t *out = p[1];
    for (int64_t i = 0; i < n[0] * inner; i++) {
        const uint8_t *at = (const uint8_t *)p[0] + i / inner * n[1] * inner + i % inner;
        int64_t j = 0;
        while (j < n[1] && at[j * inner] != any)
            j++;
        out[i] = j < n[1] ? any : !any;
    }
}

/* Numbers of another kind, as C converts them. p: input, out; n: count, which pair */
#define CONVERT(from, to, expression)                                                              \
    for (int64_t i = 0; i < n[0]; i++) {                                                           \
        const from v = ((const from *)p[0])[i];                                                    \
        ((to *)p[1])[i] = (to)(expression);                                                        \
    }                                                                                              \
    break;
void tg_convert(void **p, const int64_t *n, const double *x) {
    switch (n[1]) {
    case 0: CONVERT(int64_t, float, v)
    case 1: CONVERT(int64_t, double, v)
    case 2: CONVERT(uint8_t, int64_t, v)
    case 3: CONVERT(int64_t, uint8_t, v != 0)
    }
}
