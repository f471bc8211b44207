/* conv.c for one kind of processor: both types. */

#define T float
#define NAMED(name) VERSION(name##_f32)
#define Q 8 /* a square that is turned has so many elements on a side: vectors of 32 bytes */
typedef int32_t VERSION(places_f32) __attribute__((vector_size(32)));
#define PLACES VERSION(places_f32)
#define TURN_ALL(SWAP)                                                                             \
    SWAP(1, (0, 8, 2, 10, 4, 12, 6, 14), (1, 9, 3, 11, 5, 13, 7, 15))                              \
    SWAP(2, (0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15))                              \
    SWAP(4, (0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15))
#include "conv_lay_of.h"
#include "conv_of.h"
#include "conv_weights_of.h"
#undef T
#undef NAMED
#undef Q
#undef PLACES
#undef TURN_ALL

#define T double
#define NAMED(name) VERSION(name##_f64)
#define Q 4
typedef int64_t VERSION(places_f64) __attribute__((vector_size(32)));
#define PLACES VERSION(places_f64)
#define TURN_ALL(SWAP)                                                                             \
    SWAP(1, (0, 4, 2, 6), (1, 5, 3, 7))                                                            \
    SWAP(2, (0, 1, 4, 5), (2, 3, 6, 7))
#include "conv_lay_of.h"
#include "conv_of.h"
#include "conv_weights_of.h"
#undef T
#undef NAMED
#undef Q
#undef PLACES
#undef TURN_ALL
