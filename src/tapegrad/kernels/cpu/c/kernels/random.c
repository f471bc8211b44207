/* PyTorch's random numbers on the CPU: the same words, and the same roundings on the way to numbers.

   The state is that of NumPy's Mersenne twister, 624 words and the place of the next one. Words are
   drawn by one thread, many at a time; what is made of them does not depend on the others and is
   shared out. ops/draws/streams.py says the same on NumPy, with the reasons. */

#include <math.h>
#include <string.h>

#include "kernels.h"
#include "sums.h"

#define WORDS 624
#define FAR 397      /* the word that is mixed into one */
#define SIDE 8       /* a block of normals is made of so many radii and as many angles */
#define CHUNK 131072 /* numbers that are drawn before they are worked on: they stay in the cache */
#define TWO_PI 6.283185307179586

typedef struct {
    uint32_t word[WORDS];
    int32_t next;
} twister;

TG_INLINE uint32_t mixed(uint32_t high, uint32_t low) {
    return (((high & 0x80000000u) | (low & 0x7fffffffu)) >> 1) ^ (-(low & 1u) & 0x9908b0dfu);
}

TG_VERSIONS static void twist(uint32_t *word) {
    for (int i = 0; i < WORDS - FAR; i++)
        word[i] = word[i + FAR] ^ mixed(word[i], word[i + 1]);
    for (int i = WORDS - FAR; i < WORDS - 1; i++)
        word[i] = word[i + FAR - WORDS] ^ mixed(word[i], word[i + 1]);
    word[WORDS - 1] = word[FAR - 1] ^ mixed(word[WORDS - 1], word[0]);
}

TG_VERSIONS static void temper(const uint32_t *restrict word, uint32_t *restrict out, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t y = word[i];
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c5680u;
        y ^= (y << 15) & 0xefc60000u;
        out[i] = y ^ (y >> 18);
    }
}

static void draw(twister *state, uint32_t *out, int64_t n) {
    while (n > 0) {
        if (state->next >= WORDS) {
            twist(state->word);
            state->next = 0;
        }
        const int64_t count = lesser(n, WORDS - state->next);
        temper(state->word + state->next, out, count);
        state->next += (int32_t)count;
        out += count;
        n -= count;
    }
}

/* ------------------------------------------------------------------ words */

/* p: state, out; n: count */
void tg_words(void **p, const int64_t *n, const double *x) { draw(p[0], p[1], n[0]); }

/* Two words each, the high one first. */
TG_VERSIONS static void join(uint64_t *word, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t pair[2];
        memcpy(pair, word + i, sizeof pair);
        word[i] = (uint64_t)pair[0] << 32 | pair[1];
    }
}
static void draw_long(twister *state, uint64_t *out, int64_t n) {
    for (int64_t i = 0; i < n; i += CHUNK) {
        draw(state, (uint32_t *)(out + i), 2 * lesser(CHUNK, n - i));
        join(out + i, lesser(CHUNK, n - i));
    }
}
void tg_words64(void **p, const int64_t *n, const double *x) { draw_long(p[0], p[1], n[0]); }

/* Whole numbers from n[1] on, n[2] of them: a word's remainder, or, where n[3], that of a long one.
   p: state, out */
TG_VERSIONS static void remainders(int64_t *at, int64_t n, int64_t first, uint64_t count) {
    for (int64_t i = 0; i < n; i++)
        at[i] = (int64_t)((uint64_t)first + (uint64_t)at[i] % count);
}
TG_VERSIONS static void short_remainders(const uint32_t *restrict word, int64_t *restrict out,
                                         int64_t n, int64_t first, uint32_t count) {
    for (int64_t i = 0; i < n; i++)
        out[i] = (int64_t)((uint64_t)first + word[i] % count);
}
void tg_integers(void **p, const int64_t *n, const double *x) {
    int64_t *out = p[1];
    if (n[3]) {
        draw_long(p[0], (uint64_t *)out, n[0]);
        remainders(out, n[0], n[1], (uint64_t)n[2]);
        return;
    }
    uint32_t words[WORDS];
    for (int64_t i = 0; i < n[0]; i += WORDS) {
        const int64_t count = lesser(WORDS, n[0] - i);
        draw(p[0], words, count);
        short_remainders(words, out + i, count, n[1], (uint32_t)n[2]);
    }
}

/* randperm: each place in turn is swapped with a later one. p: state, out; n: count */
void tg_permutation(void **p, const int64_t *n, const double *x) {
    uint32_t words[WORDS];
    int64_t *out = p[1];
    for (int64_t i = 0; i < n[0]; i++)
        out[i] = i;
    for (int64_t start = 0; start < n[0] - 1; start += WORDS) {
        const int64_t count = lesser(WORDS, n[0] - 1 - start);
        draw(p[0], words, count);
        for (int64_t k = 0; k < count; k++) {
            const int64_t i = start + k, other = i + words[k] % (uint32_t)(n[0] - i);
            const int64_t held = out[i];
            out[i] = out[other];
            out[other] = held;
        }
    }
}

/* ------------------------------------------------------------------ uniform */

/* In [low, high): a word becomes a number in its place. Rounding may reach the open end, which
   becomes the closed one. */
TG_VERSIONS static void uniform_f32(void *at, int64_t n, float low, float width, float high) {
    float *out = at;
    for (int64_t i = 0; i < n; i++) {
        uint32_t word;
        memcpy(&word, out + i, sizeof word);
        const float unit = (float)(int32_t)(word & 0xffffff) * 0x1p-24f;
        const float made = __builtin_fmaf(unit, width, low);
        out[i] = made == high ? low : made;
    }
}
TG_INLINE double unit53(const void *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    /* The bits of 2**52 + low, and of a multiple of 2**52: what is added and taken off is exact. */
    const uint64_t low = (word & 0xfffffffffffffu) | 0x4330000000000000u;
    double made;
    memcpy(&made, &low, sizeof made);
    made -= 0x1p52;
    return (made + (word >> 52 & 1 ? 0x1p52 : 0.0)) * 0x1p-53;
}
TG_VERSIONS static void uniform_f64(void *at, int64_t n, double low, double width, double high) {
    double *out = at;
    for (int64_t i = 0; i < n; i++) {
        const double made = __builtin_fma(unit53(out + i), width, low);
        out[i] = made == high ? low : made;
    }
}

/* p: state, out; n: count; x: low, high */
void tg_uniform_f32(void **p, const int64_t *n, const double *x) {
    const float low = (float)x[0], high = (float)x[1];
    float *out = p[1];
    for (int64_t i = 0; i < n[0]; i += CHUNK) {
        draw(p[0], (uint32_t *)(out + i), lesser(CHUNK, n[0] - i));
        uniform_f32(out + i, lesser(CHUNK, n[0] - i), low, high - low, high);
    }
}
void tg_uniform_f64(void **p, const int64_t *n, const double *x) {
    double *out = p[1];
    for (int64_t i = 0; i < n[0]; i += CHUNK) {
        draw_long(p[0], (uint64_t *)(out + i), lesser(CHUNK, n[0] - i));
        uniform_f64(out + i, lesser(CHUNK, n[0] - i), x[0], x[1] - x[0], x[1]);
    }
}

/* Ones with a chance. p: state, out; n: count; x: chance */
#define COINS(name, type)                                                                          \
    TG_VERSIONS static void compare_##name(const double *at, type *restrict out, int64_t n,        \
                                           double chance) {                                        \
        for (int64_t i = 0; i < n; i++)                                                            \
            out[i] = unit53(at + i) < chance;                                                      \
    }                                                                                              \
    void tg_coins_##name(void **p, const int64_t *n, const double *x) {                            \
        double drawn[1024];                                                                        \
        for (int64_t i = 0; i < n[0]; i += 1024) {                                                 \
            const int64_t count = lesser(1024, n[0] - i);                                          \
            draw_long(p[0], (uint64_t *)drawn, count);                                             \
            compare_##name(drawn, (type *)p[1] + i, count, x[0]);                                  \
        }                                                                                          \
    }
COINS(bool, uint8_t)
COINS(f32, float)
COINS(f64, double)

/* ------------------------------------------------------------------ chances */

/* Ones with the chance of each, which is compared with as many bits as it has. Nothing is drawn if
   one is no chance: then `wrong` says so. p: state, chances, out, wrong; n: count */
#define COINS_OF(name, type, word, unit)                                                           \
    void tg_coins_of_##name(void **p, const int64_t *n, const double *x) {                         \
        const type *chance = p[1];                                                                 \
        type *out = p[2];                                                                          \
        int64_t *wrong = p[3];                                                                     \
        *wrong = 0;                                                                                \
        for (int64_t i = 0; i < n[0]; i++)                                                         \
            *wrong |= !(chance[i] >= 0 && chance[i] <= 1);                                         \
        for (int64_t i = 0; i < n[0] && !*wrong; i++) {                                            \
            word drawn;                                                                            \
            draw(p[0], (uint32_t *)&drawn, sizeof drawn / 4);                                      \
            out[i] = unit < chance[i];                                                             \
        }                                                                                          \
    }
TG_INLINE double of_long(uint64_t word) {
    const uint64_t turned = word << 32 | word >> 32; /* the high half was drawn first */
    return unit53(&turned);
}
COINS_OF(f32, float, uint32_t, (float)(int32_t)(drawn & 0xffffff) * 0x1p-24f)
COINS_OF(f64, double, uint64_t, of_long(drawn))

/* One of each row of weights, each with its share: the largest of weights divided by exponential
   numbers. p: state, weights, out (places), wrong; n: rows, width */
#define PICKS(name, type)                                                                          \
    void tg_picks_##name(void **p, const int64_t *n, const double *x) {                            \
        const type *weight = p[1];                                                                 \
        int64_t *out = p[2], *wrong = p[3];                                                        \
        *wrong = 0;                                                                                \
        for (int64_t row = 0; row < n[0]; row++) {                                                 \
            double sum = 0;                                                                        \
            for (int64_t i = 0; i < n[1]; i++) {                                                   \
                const type w = weight[row * n[1] + i];                                             \
                *wrong |= !(w >= 0 && w < (type)INFINITY);                                         \
                sum += w;                                                                          \
            }                                                                                      \
            *wrong |= sum == 0;                                                                    \
        }                                                                                          \
        for (int64_t row = 0; row < n[0] && !*wrong; row++) {                                      \
            type most = -1;                                                                        \
            for (int64_t i = 0; i < n[1]; i++) {                                                   \
                uint64_t drawn;                                                                    \
                draw(p[0], (uint32_t *)&drawn, 2);                                                 \
                const type race = weight[row * n[1] + i] / (type)(-1.0 * log1p(-of_long(drawn)));   \
                if (race > most || (race != race && most == most)) {                               \
                    most = race;                                                                   \
                    out[row] = i;                                                                  \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
PICKS(f32, float)
PICKS(f64, double)

/* ------------------------------------------------------------------ normal */

/* log of (0, 1]: m * 2**e with m in [sqrt(1/2), sqrt(2)), a polynomial in m - 1 (Cephes). */
TG_INLINE float log_of(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const int32_t inner = (bits & 0x7fffff) | 0x3f000000;
    float mantissa;
    memcpy(&mantissa, &inner, sizeof mantissa);
    const float small = mantissa < 0.707106781186547524f;
    const float e = (float)((bits >> 23) - 126) - small;
    const float m = (mantissa - 1) + mantissa * small, square = m * m;
    float y = __builtin_fmaf(7.0376836292e-2f, m, -1.1514610310e-1f);
    y = __builtin_fmaf(y, m, 1.1676998740e-1f);
    y = __builtin_fmaf(y, m, -1.2420140846e-1f);
    y = __builtin_fmaf(y, m, 1.4249322787e-1f);
    y = __builtin_fmaf(y, m, -1.6668057665e-1f);
    y = __builtin_fmaf(y, m, 2.0000714765e-1f);
    y = __builtin_fmaf(y, m, -2.4999993993e-1f);
    y = __builtin_fmaf(y, m, 3.3333331174e-1f);
    y = __builtin_fmaf(y * m, square, e * -2.12194440e-4f) - square * 0.5f;
    return __builtin_fmaf(e, 0.693359375f, m + y);
}

TG_INLINE float flipped(float x, int32_t four) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits ^= (int32_t)((uint32_t)four << 29);
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* sin and cos of [0, 2 pi): the octant, the rest in three steps, two polynomials (Cephes). */
TG_INLINE void sine_and_cosine(float x, float *sine, float *cosine) {
    const int32_t octant = ((int32_t)(x * 1.27323954473516f) + 1) & ~1;
    const float count = (float)octant;
    x = __builtin_fmaf(-0.78515625f, count, x);
    x = __builtin_fmaf(-2.4187564849853515625e-4f, count, x);
    x = __builtin_fmaf(-3.77489497744594108e-8f, count, x);
    const float square = x * x;
    float c = __builtin_fmaf(2.443315711809948e-5f, square, -1.388731625493765e-3f);
    c = __builtin_fmaf(c, square, 4.166664568298827e-2f) * square;
    c = __builtin_fmaf(c, square, square * -0.5f) + 1;
    float s = __builtin_fmaf(-1.9515295891e-4f, square, 8.3321608736e-3f);
    s = __builtin_fmaf(s, square, -1.6666654611e-1f) * square;
    s = __builtin_fmaf(s, x, x);
    *sine = flipped(octant & 2 ? c : s, octant & 4);
    *cosine = flipped(octant & 2 ? s : c, ~(octant - 2) & 4);
}

typedef struct {
    void *at;
    double mean, std;
} normals;

/* Blocks of uniforms become normals: radii from the first eight, angles from the others. */
TG_VERSIONS static void normal_f32(void *context, int64_t begin, int64_t end) {
    const normals *given = context;
    const float mean = (float)given->mean, std = (float)given->std;
    for (int64_t block = begin; block < end; block++) {
        float *x = (float *)given->at + block * 2 * SIDE, radius[SIDE], sine[SIDE], cosine[SIDE];
        for (int k = 0; k < SIDE; k++)
            radius[k] = sqrtf(-2 * log_of(1 - x[k]));
        for (int k = 0; k < SIDE; k++)
            sine_and_cosine((float)TWO_PI * x[SIDE + k], sine + k, cosine + k);
        for (int k = 0; k < SIDE; k++) {
            x[k] = __builtin_fmaf(radius[k] * cosine[k], std, mean);
            x[SIDE + k] = __builtin_fmaf(radius[k] * sine[k], std, mean);
        }
    }
}
static void normal_f64(void *context, int64_t begin, int64_t end) {
    const normals *given = context;
    for (int64_t block = begin; block < end; block++) {
        double *x = (double *)given->at + block * 2 * SIDE;
        for (int k = 0; k < SIDE; k++) {
            const double radius = sqrt(-2 * log(1 - x[k])), angle = TWO_PI * x[SIDE + k];
            x[k] = __builtin_fma(radius * cos(angle), given->std, given->mean);
            x[SIDE + k] = __builtin_fma(radius * sin(angle), given->std, given->mean);
        }
    }
}

/* All uniforms, chunk by chunk; a tail is covered by a block of sixteen new ones. */
#define NORMALS(type, uniform, part, cost)                                                         \
    const double unit[] = {0, 1};                                                                  \
    normals given = {p[1], x[0], x[1]};                                                            \
    for (int64_t i = 0; i < n[0]; i += CHUNK) {                                                    \
        const int64_t count = lesser(CHUNK, n[0] - i);                                             \
        given.at = (type *)p[1] + i;                                                               \
        uniform((void *[]){p[0], given.at}, &count, unit);                                         \
        tg_parallel(count / (2 * SIDE), tg_grain(cost) / (2 * SIDE) + 1, part, &given);            \
    }                                                                                              \
    if (n[0] % (2 * SIDE)) {                                                                       \
        const int64_t count = 2 * SIDE;                                                            \
        given.at = (type *)p[1] + n[0] - count;                                                    \
        uniform((void *[]){p[0], given.at}, &count, unit);                                         \
        part(&given, 0, 1);                                                                        \
    }

/* Sixteen or more. p: state, out; n: count; x: mean, standard deviation */
void tg_normal_f32(void **p, const int64_t *n, const double *x) {
    NORMALS(float, tg_uniform_f32, normal_f32, 1.0)
}
void tg_normal_f64(void **p, const int64_t *n, const double *x) {
    NORMALS(double, tg_uniform_f64, normal_f64, 20.0)
}

/* One pair after the other; the odd one out is kept. p: state, out, the one that was kept and whether
   there is one; n: count; x: mean, standard deviation */
#define SINGLE(name, type)                                                                         \
    void tg_single_##name(void **p, const int64_t *n, const double *x) {                           \
        type *out = p[1];                                                                          \
        for (int64_t i = 0; i < n[0]; i++)                                                         \
            out[i] = (type)__builtin_fma(next_normal(p[0], p[2]), x[1], x[0]);                     \
    }
static double next_normal(twister *state, double *kept) {
    double u[2];
    if (kept[1]) {
        kept[1] = 0;
        return kept[0];
    }
    draw_long(state, (uint64_t *)u, 2);
    const double radius = sqrt(-2 * log1p(-unit53(u + 1))), angle = TWO_PI * unit53(u);
    kept[0] = radius * sin(angle), kept[1] = 1;
    return radius * cos(angle);
}
SINGLE(f32, float)
SINGLE(f64, double)

/* ------------------------------------------------------------------ the C library's functions */

typedef struct {
    const double *from;
    double *to;
    double (*function)(double);
} mapping;

static void map(void *context, int64_t begin, int64_t end) {
    const mapping *given = context;
    for (int64_t i = begin; i < end; i++)
        given->to[i] = given->function(given->from[i]);
}
#define MAPS(name)                                                                                 \
    void tg_libm_##name(void **p, const int64_t *n, const double *x) {                             \
        mapping given = {p[0], p[1], name};                                                        \
        tg_parallel(n[0], tg_grain(10.0), map, &given);                                            \
    }
/* p: input, out; n: count */
MAPS(exp)
MAPS(log1p)
MAPS(tan)
