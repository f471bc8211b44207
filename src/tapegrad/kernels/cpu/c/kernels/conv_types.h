/* conv.c for one kind of processor: both types. */

#define T float
#define NAMED(name) VERSION(name##_f32)
#define ALL_THERE 0xffffu
#if WIDE == 64 /* the lanes that are there, side by side */
#define STORE_SOME(to, there, v)                                                                   \
    _mm512_mask_storeu_ps(to, (__mmask16)((1u << __builtin_popcount(there)) - 1),                  \
                          _mm512_maskz_compress_ps((__mmask16)(there), (__m512)(v)))
#define LOAD_SOME(from, some) ((V)_mm512_maskz_loadu_ps((__mmask16)(some), from)) /* else zeros */
#define SPACED(some) _pdep_u32(some, 0x55555555u) /* every second: the others are not touched */
#define LOAD_EVEN(from, some)                                                                      \
    ((V)_mm512_permutex2var_ps(                                                                    \
        (__m512)LOAD_SOME(from, SPACED(some)),                                                     \
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30),              \
        (__m512)LOAD_SOME((from) + 16, SPACED(some) >> 16)))
#define STORE_EVEN(to, there, v)                                                                   \
    _mm512_mask_storeu_ps(                                                                         \
        to, (__mmask16)SPACED(there),                                                              \
        _mm512_permutexvar_ps(_mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7),   \
                              (__m512)(v)));                                                       \
    _mm512_mask_storeu_ps((to) + 16, (__mmask16)(SPACED(there) >> 16),                             \
                          _mm512_permutexvar_ps(_mm512_setr_epi32(8, 8, 9, 9, 10, 10, 11, 11, 12,  \
                                                                  12, 13, 13, 14, 14, 15, 15),     \
                                                (__m512)(v)))
#endif
#define Q 8 /* side of a square that is transposed, in elements: vectors of 32 bytes */
typedef int32_t VERSION(places_f32) __attribute__((vector_size(32)));
#define PLACES VERSION(places_f32)
#define TURN_ALL(SWAP)                                                                             \
    SWAP(1, (0, 8, 2, 10, 4, 12, 6, 14), (1, 9, 3, 11, 5, 13, 7, 15))                              \
    SWAP(2, (0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15))                              \
    SWAP(4, (0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15))
#include "conv_lay_template.h"
#include "conv_template.h"
#include "conv_weights_template.h"
#undef T
#undef NAMED
#undef Q
#undef PLACES
#undef TURN_ALL
#undef ALL_THERE
#undef STORE_SOME
#undef LOAD_SOME
#undef LOAD_EVEN
#undef STORE_EVEN
#undef SPACED

#define T double
#define NAMED(name) VERSION(name##_f64)
#define ALL_THERE 0xffu
#if WIDE == 64
#define STORE_SOME(to, there, v)                                                                   \
    _mm512_mask_storeu_pd(to, (__mmask8)((1u << __builtin_popcount(there)) - 1),                   \
                          _mm512_maskz_compress_pd((__mmask8)(there), (__m512d)(v)))
#define LOAD_SOME(from, some) ((V)_mm512_maskz_loadu_pd((__mmask8)(some), from))
#define SPACED(some) _pdep_u32(some, 0x5555u)
#define LOAD_EVEN(from, some)                                                                      \
    ((V)_mm512_permutex2var_pd((__m512d)LOAD_SOME(from, SPACED(some)),                             \
                               _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14),                       \
                               (__m512d)LOAD_SOME((from) + 8, SPACED(some) >> 8)))
#define STORE_EVEN(to, there, v)                                                                   \
    _mm512_mask_storeu_pd(                                                                         \
        to, (__mmask8)SPACED(there),                                                               \
        _mm512_permutexvar_pd(_mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3), (__m512d)(v)));           \
    _mm512_mask_storeu_pd(                                                                         \
        (to) + 8, (__mmask8)(SPACED(there) >> 8),                                                  \
        _mm512_permutexvar_pd(_mm512_setr_epi64(4, 4, 5, 5, 6, 6, 7, 7), (__m512d)(v)))
#endif
#define Q 4
typedef int64_t VERSION(places_f64) __attribute__((vector_size(32)));
#define PLACES VERSION(places_f64)
#define TURN_ALL(SWAP)                                                                             \
    SWAP(1, (0, 4, 2, 6), (1, 5, 3, 7))                                                            \
    SWAP(2, (0, 1, 4, 5), (2, 3, 6, 7))
#include "conv_lay_template.h"
#include "conv_template.h"
#include "conv_weights_template.h"
#undef T
#undef NAMED
#undef Q
#undef PLACES
#undef TURN_ALL
#undef ALL_THERE
#undef STORE_SOME
#undef LOAD_SOME
#undef LOAD_EVEN
#undef STORE_EVEN
#undef SPACED
