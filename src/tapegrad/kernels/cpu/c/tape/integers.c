/* Ops on int64 and bool, which NumPy computes elsewhere: so that a compiled step needs no Python. */

#include <string.h>

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

/* A product, in tiles of 4 rows and 16 columns: their sums stay in registers, and 16 columns of b in
   the first cache for all rows. */
enum { TILE_ROWS = 4, LANES = 8, TILE_COLUMNS = 2 * LANES };
typedef uint64_t lanes __attribute__((vector_size(8 * LANES), aligned(8), may_alias));
static TG_VERSIONS void product_of_integers(int64_t rows, int64_t inner, int64_t columns,
                                            const uint64_t *a, const uint64_t *b, uint64_t *out) {
    for (int64_t i = 0; columns == 1 && i < rows; i++) {
        uint64_t sum = 0;
        for (int64_t k = 0; k < inner; k++)
            sum += a[i * inner + k] * b[k];
        out[i] = sum;
    }
    const int64_t whole = columns - columns % TILE_COLUMNS;
    for (int64_t j = 0; j < whole; j += TILE_COLUMNS)
        for (int64_t i = 0; i < rows; i += TILE_ROWS) {
            const int64_t last = rows - 1; /* rows beyond it are computed as that one */
            const uint64_t *first[TILE_ROWS];
            for (int r = 0; r < TILE_ROWS; r++)
                first[r] = a + (i + r < last ? i + r : last) * inner;
            lanes p = {0}, q = {0}, s = {0}, t = {0}, u = {0}, v = {0}, y = {0}, z = {0};
            for (int64_t k = 0; k < inner; k++) {
                const lanes *at = (const lanes *)(b + k * columns + j), left = at[0], right = at[1];
                p += left * first[0][k], q += right * first[0][k];
                s += left * first[1][k], t += right * first[1][k];
                u += left * first[2][k], v += right * first[2][k];
                y += left * first[3][k], z += right * first[3][k];
            }
            const lanes sums[TILE_ROWS][2] = {{p, q}, {s, t}, {u, v}, {y, z}};
            for (int r = 0; r < TILE_ROWS && i + r < rows; r++)
                memcpy(out + (i + r) * columns + j, sums[r], sizeof sums[r]);
        }
    for (int64_t i = 0; whole < columns && columns > 1 && i < rows; i++) {
        uint64_t sums[TILE_COLUMNS] = {0};
        for (int64_t k = 0; k < inner; k++)
            for (int64_t j = whole; j < columns; j++)
                sums[j - whole] += a[i * inner + k] * b[k * columns + j];
        for (int64_t j = whole; j < columns; j++)
            out[i * columns + j] = sums[j - whole];
    }
}

/* Products of int64 matrices in C order; they wrap around. p: a, b, out; n: how many, rows, inner,
   columns */
void tg_whole_product(void **p, const int64_t *n, const double *x) {
    const uint64_t *a = p[0], *b = p[1];
    uint64_t *out = p[2];
    for (int64_t each = 0; each < n[0]; each++) {
        product_of_integers(n[1], n[2], n[3], a, b, out);
        a += n[1] * n[2], b += n[2] * n[3], out += n[1] * n[3];
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
