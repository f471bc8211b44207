/* Included before a kernel that computes in float on arrays of bfloat16 (see sums.h): they are widened
   as they are read, and rounded once as they are written. Parameters and statistics are floats. */

#undef STORED
#undef WIDEN
#undef NARROW
#undef GET
#undef HALFWAY
#define STORED uint16_t
#define WIDEN(x) f32_of((uint32_t)(x) << 16)
#define NARROW(x) bf16_of(x)
#define HALFWAY(x) round16_f32(x)

typedef uint16_t eight_bf16 __attribute__((vector_size(16)));
typedef uint32_t eight_words __attribute__((vector_size(32)));

TG_INLINE void widen_eight(vector_f32 *to, const uint16_t *from) {
    eight_bf16 x;
    memcpy(&x, from, sizeof x);
    const eight_words wide = __builtin_convertvector(x, eight_words) << 16;
    memcpy(to, &wide, sizeof wide);
}
TG_INLINE void widen_one(float *to, const uint16_t *from) { *to = WIDEN(*from); }

#define GET(name, array)                                                                           \
    element name;                                                                                  \
    _Generic(&name, vector_f32 *: widen_eight, float *: widen_one)(&name, (array) + i);

#define T float
#define VECTOR vector_f32
#define NAMED(name) name##_bf16
