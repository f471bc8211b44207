/* Convolution without copies of windows, in up to three dimensions.

   A part of an image is laid out in a small room, with zeros around it and, for a stride s, as images
   of every s-th pixel (`lay`). Then each tap of the kernel is an offset in that room, whatever stride,
   padding and dilation are: output q, counted along rows as wide as those of the layout, is the sum
   over j (channels and taps) of weight[j] * X[offset[j] + q].

   That room should stay in the cache while all features are computed from it; each thread has one.
   The positions between the outputs of two rows have no meaning: either vectors begin with each row,
   or they run across rows, and those positions are dropped afterwards (FLAT). */

#include <stdatomic.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels.h"
#include "platform.h"

/* A product and a sum are rounded once here: it is faster and no less exact. */
TG_FUSED
/* Rows are short: a call of memset for one zero costs more than the zero. */
#pragma GCC optimize("no-tree-loop-distribute-patterns")

#define UNIT 64   /* bytes of the outputs that are counted together */
#define BLOCK 128 /* positions whose products are summed up before they go to a larger sum */

/* The sizes that kernels/cpu/overrides/conv.py passes about windows; then three numbers for every phase. */
enum { SIZE = 0, LOW = 3, STRIDE = 6, LAID = 9, OUT = 12, PHASES = 15, FAR, FLAT, FIRST };

/* The last sizes that the kernels are given, after 13 of their own. */
enum { UNITS = 13, EACH, BANDS, PARTS, LENGTH, ROOMS, ROOM, FOR_X };

typedef struct {
    void **p;
    const int64_t *n;
    _Atomic uint64_t taken; /* rooms, by their bits */
} arguments;

/* A unit: its place in a room, where its first output belongs, and which of its lanes are outputs. */
typedef struct {
    int64_t at, to;
    uint32_t there;
} unit_t;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t ratio(int64_t a, int64_t b) { return (a + b - 1) / b; }

static int64_t pieces(double cost, double each) {
    double found = (double)tg_grain(cost) / (each > 1 ? each : 1);
    return found < 1 ? 1 : (int64_t)found;
}

/* Where row `line` of the outputs begins in the layout. */
TG_INLINE int64_t line_at(const int64_t *g, int64_t line) {
    return (line / g[OUT + 1] * g[LAID + 1] + line % g[OUT + 1]) * g[LAID + 2];
}

/* One of `count` rooms, for as long as a piece of work takes. */
static int take_room(arguments *given, int64_t count) {
    uint64_t taken = atomic_load(&given->taken);
    for (;;) {
        const int at = ~taken ? __builtin_ctzll(~taken) : 64;
        if (at >= count) { /* more threads than were asked for when the rooms were made */
            tg_give_way();
            taken = atomic_load(&given->taken);
        } else if (atomic_compare_exchange_weak(&given->taken, &taken, taken | 1ull << at)) {
            return at;
        }
    }
}
static void leave_room(arguments *given, int at) {
    atomic_fetch_and(&given->taken, ~(1ull << at));
}

/* Blocks of registers are as large as there are registers: for AVX-512, and for AVX2 and the rest. */
#define KERNELS(X) X(conv) X(conv_weights) X(conv_dots)

#if defined(__x86_64__) && (!defined(TG_ONE_VERSION) || defined(__AVX512F__))
#define HAS_WIDE
#ifndef __AVX512F__ /* else the compiler may use it anyway, and perhaps more */
TG_AVX512_BEGIN
#endif
#define WIDE 64
#define HIGHEST 8  /* features */
#define MOST_TAPS 9
#define VERSION(name) name##_wide
#include "conv_types.h"
#undef WIDE
#undef HIGHEST
#undef MOST_TAPS
#undef VERSION
#ifndef __AVX512F__
TG_AVX512_END
#endif
#endif

#if !defined(HAS_WIDE) || !defined(TG_ONE_VERSION)
#define HAS_NARROW
#define WIDE 32
#define HIGHEST 6
#define MOST_TAPS 6
#define VERSION(name) name##_narrow
#include "conv_types.h"
#endif

#if defined(HAS_WIDE) && defined(HAS_NARROW)
#define CALL(name) (tg_has_avx512() ? name##_wide : name##_narrow)
#elif defined(HAS_WIDE)
#define CALL(name) name##_wide
#else
#define CALL(name) name##_narrow
#endif

#define FOR_TYPE(name, type)                                                                       \
    void tg_##name##_##type(void **p, const int64_t *n, const double *x) {                         \
        (void)x;                                                                                   \
        CALL(name##_##type)(p, n);                                                                 \
    }
#define X(name) FOR_TYPE(name, f32) FOR_TYPE(name, f64)
KERNELS(X)
