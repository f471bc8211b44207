/* Included before a kernel that computes in float on arrays of half precision (see sums.h), HALF being
   bf16 or f16: they are widened as they are read, and rounded once as they are written. Parameters
   and statistics are floats. */

#undef T
#undef VECTOR
#undef NAMED
#undef STORED
#undef WIDEN
#undef NARROW
#undef GET
#undef HALFWAY
#define HALF_PASTE_(a, b, c) a##b##c
#define HALF_PASTE(a, b, c) HALF_PASTE_(a, b, c)
#define T float
#define VECTOR vector_f32
#define NAMED(name) HALF_PASTE(name, _, HALF)
#define STORED uint16_t
#define WIDEN(x) HALF_PASTE(f32_of_, HALF, )(x)
#define NARROW(x) HALF_PASTE(HALF, _of, )(x)
#define HALFWAY(x) HALF_PASTE(round_, HALF, _f32)(x)

TG_INLINE void NAMED(widen_eight)(vector_f32 *to, const uint16_t *from) {
    NAMED(widen)((float *)to, from, 8);
}
TG_INLINE void NAMED(widen_one)(float *to, const uint16_t *from) { *to = WIDEN(*from); }

#define GET(name, array)                                                                           \
    element name;                                                                                  \
    _Generic(&name, vector_f32 *: NAMED(widen_eight), float *: NAMED(widen_one))(&name, (array) + i);
