/* A tile of a transposed copy, for elements as wide as T, copied as bits: see copies.c. */

typedef T NAMED(wide) __attribute__((vector_size(32)));
typedef T NAMED(loose) __attribute__((vector_size(32), aligned(sizeof(T)), may_alias));
typedef INTEGER NAMED(lanes) __attribute__((vector_size(32)));
typedef INTEGER NAMED(bits) __attribute__((may_alias));
#define V NAMED(wide)
#define L ((int)(sizeof(V) / sizeof(T)))
#include "transpose_template.h"

/* Row r of `to` (its rows are to_step bytes apart) is column r of `from`, `tall` of them. */
static void NAMED(copy_tile)(int64_t tall, int64_t wide, char *restrict to, int64_t to_step,
                             const char *restrict from, int64_t from_step) {
    if (tall % L || wide % L) {
        for (int64_t a = 0; a < tall; a++)
            for (int64_t b = 0; b < wide; b++)
                ((NAMED(bits) *)(to + a * to_step))[b] =
                    ((const NAMED(bits) *)(from + b * from_step))[a];
        return;
    }
    for (int64_t a = 0; a < tall; a += L)
        for (int64_t b = 0; b < wide; b += L) {
            V square[L];
            TG_UNROLL(8)
            for (int r = 0; r < L; r++)
                square[r] = *(const NAMED(loose) *)(from + (b + r) * from_step +
                                                    a * (int64_t)sizeof(T));
            NAMED(turn_square)(square);
            TG_UNROLL(8)
            for (int r = 0; r < L; r++)
                *(NAMED(loose) *)(to + (a + r) * to_step + b * (int64_t)sizeof(T)) = square[r];
        }
}
#undef V
#undef L
