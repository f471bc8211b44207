/* Products of matrices: tiles of the result are summed up in registers. Factors are read in place, or
   packed into the order in which tiles read them where reading in place would be slow.

   NumPy's BLAS packs for each call, and once more for every piece of a product that is cut for our
   threads; here one packed matrix serves them all, what is added to a product is added while it is
   in registers, and skinny matrices do not cost more than their size. Reading a factor from where
   it lies costs nothing beside the sums, even if it must come from memory, while packing it waits
   for it. Sums go along k in parts of DEEP, whatever the number of threads. */

#include <string.h>

#include "gemm.h"
#include "platform.h"

/* A product and a sum are rounded once here: it is faster and no less exact. */
TG_FUSED

#define DEEP 512       /* of k: so much of some rows and columns stays in the second cache */
#define MOST_TILES 8   /* of rows that are packed together */
#define MOST_PANELS 4  /* of columns */
#define PIECE ((double)(1 << 20))        /* multiplications that are worth a piece of work */
#define PACKED_PIECE ((double)(1 << 16)) /* elements, likewise */
#define LINE 64        /* bytes that come from memory together */
#define PAGE 4096
#define WAYS 8
#define FEW 16384      /* bytes that are not worth asking for */

/* Where a vector can be multiplied by an element of another one, packed elements of a are loaded as
   vectors: 32 instructions for 24 vector products, where single loads took 43. */
#if defined(__aarch64__)
#define BY_ELEMENT 1
#else
#define BY_ELEMENT 0
#endif

enum { FROM_NOTHING, FROM_ROW, FROM_OUT }; /* what a tile is added to */

static void *room_for(size_t bytes, char *few) { return bytes <= FEW ? few : tg_scratch(bytes); }

static void give_room(void *room, const char *few) {
    if (room != few)
        tg_scratch_back(room);
}

#if defined(__x86_64__) && !defined(TG_ONE_VERSION)
#define SEVERAL_VERSIONS 1
TG_AVX512_BEGIN
#define WIDE 64
#define HIGH 14 /* with two vectors each: 28 of 32 registers */
#define T float
#define INTEGER int32_t
#define NAMED(name) name##_f32_512
#include "gemm_template.h"
#undef T
#undef INTEGER
#undef NAMED
#define T double
#define INTEGER int64_t
#define NAMED(name) name##_f64_512
#include "gemm_template.h"
#undef T
#undef INTEGER
#undef NAMED
#undef WIDE
#undef HIGH
TG_AVX512_END
#endif

#if defined(__AVX512F__)
#define WIDE 64
#define HIGH 14
#elif defined(__AVX__)
#define WIDE 32
#define HIGH 6 /* 12 of 16 registers */
#elif defined(__aarch64__)
#define WIDE 16
#define HIGH 12 /* 24 of 32 registers */
#else
#define WIDE 16
#define HIGH 6
#endif
#define T float
#define INTEGER int32_t
#define NAMED(name) name##_f32
#include "gemm_template.h"
#undef T
#undef INTEGER
#undef NAMED
#define T double
#define INTEGER int64_t
#define NAMED(name) name##_f64
#include "gemm_template.h"

int tg_multiplies(void) {
    /* Apple's BLAS has matrix units of its own. */
#if defined(__AVX2__) || (defined(__aarch64__) && !defined(__APPLE__))
    return 1;
#else
    return 0;
#endif
}

int tg_multiply(tg_matrices *g, int is_double) {
#if defined(SEVERAL_VERSIONS)
    if (tg_has_avx512())
        return is_double ? multiply_f64_512(g) : multiply_f32_512(g);
#endif
    return is_double ? multiply_f64(g) : multiply_f32(g);
}
