/*@ random_state */
/* PyTorch's random numbers: the words of a Mersenne twister, those that are handed out next and the
   place of the first of them, and the second number of a normal pair with whether it still waits. */
static struct {
    uint32_t word[624], out[624];
    int64_t next;
    double kept[2];
} random_state;

/*@ random_temper */
static void random_temper(void) {
    for (int i = 0; i < 624; i++) {
        uint32_t y = random_state.word[i];
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c5680u;
        y ^= (y << 15) & 0xefc60000u;
        random_state.out[i] = y ^ y >> 18;
    }
}

/*@ random_seed */
/* What torch.manual_seed does. */
static void random_seed(uint32_t seed) {
    random_state.word[0] = seed;
    for (uint32_t i = 1; i < 624; i++) {
        const uint32_t before = random_state.word[i - 1];
        random_state.word[i] = 1812433253u * (before ^ before >> 30) + i;
    }
    random_state.next = 624;
    random_state.kept[0] = random_state.kept[1] = 0;
}

/*@ twisted */
static inline uint32_t twisted(uint32_t far, uint32_t high, uint32_t low) {
    return far ^ ((high & 0x80000000u) | (low & 0x7fffffffu)) >> 1 ^ ((0u - (low & 1u)) & 0x9908b0dfu);
}

/*@ random_refill */
static void random_refill(void) {
    uint32_t *w = random_state.word;
    for (int i = 0; i < 227; i++)
        w[i] = twisted(w[i + 397], w[i], w[i + 1]);
    for (int i = 227; i < 623; i++)
        w[i] = twisted(w[i - 227], w[i], w[i + 1]);
    w[623] = twisted(w[396], w[623], w[0]);
    random_temper();
    random_state.next = 0;
}

/*@ next_word */
static inline uint32_t next_word(void) {
    if (random_state.next >= 624)
        random_refill();
    return random_state.out[random_state.next++];
}

/*@ next_long */
static inline uint64_t next_long(void) {
    const uint64_t high = next_word();
    return high << 32 | next_word();
}

/*@ next_f32 */
/* In [0, 1). */
static inline float next_f32(void) { return (float)(int32_t)(next_word() & 0xffffff) * 0x1p-24f; }

/*@ next_f64 */
static inline double next_f64(void) { return (double)(next_long() & 0x1fffffffffffffu) * 0x1p-53; }

/*@ coins_f32 */
static void coins_f32(float *out, int64_t n, double chance) {
    for (int64_t i = 0; i < n; i++)
        out[i] = next_f64() < chance;
}

/*@ coins_f64 */
static void coins_f64(double *out, int64_t n, double chance) {
    for (int64_t i = 0; i < n; i++)
        out[i] = next_f64() < chance;
}

/*@ coins_bool */
static void coins_bool(unsigned char *out, int64_t n, double chance) {
    for (int64_t i = 0; i < n; i++)
        out[i] = next_f64() < chance;
}

/*@ coins_of_real */
/* Ones with the chance of each. False: one is no chance. */
static int coins_of_real(const real *chance, real *out, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!(chance[i] >= 0 && chance[i] <= 1))
            return 0;
    for (int64_t i = 0; i < n; i++)
        out[i] = next_real() < chance[i];
    return 1;
}

/*@ uniform_real */
static void uniform_real(real *out, int64_t n, double low, double high) {
    const real width = (real)high - (real)low;
    for (int64_t i = 0; i < n; i++) {
        const real made = FMA(next_real(), width, (real)low);
        out[i] = made == (real)high ? (real)low : made;
    }
}

/*@ integers */
/* Whole numbers from `first` on, `count` of them: the remainders of words. */
static void integers(int64_t *out, int64_t n, int64_t first, int64_t count, int is_long) {
    for (int64_t i = 0; i < n; i++)
        out[i] = first + (int64_t)(is_long ? next_long() % (uint64_t)count
                                           : next_word() % (uint32_t)count);
}

/*@ permutation */
static void permutation(int64_t *out, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        out[i] = i;
    for (int64_t i = 0; i < n - 1; i++) {
        const int64_t other = i + next_word() % (uint32_t)(n - i), held = out[i];
        out[i] = out[other];
        out[other] = held;
    }
}

/*@ picks_real */
/* One of each row of weights: the largest of weights over exponential numbers. False: no weights. */
static int picks_real(const real *weight, int64_t *out, int64_t rows, int64_t n) {
    for (int64_t row = 0; row < rows; row++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++) {
            const real w = weight[row * n + i];
            if (!(w >= 0 && w < (real)INFINITY))
                return 0;
            sum += (double)w;
        }
        if (sum == 0)
            return 0;
    }
    for (int64_t row = 0; row < rows; row++) {
        real most = -1;
        for (int64_t i = 0; i < n; i++) {
            const real race = weight[row * n + i] / (real)(-1.0 * log1p(-next_f64()));
            if (race > most || (race != race && most == most)) {
                most = race;
                out[row] = i;
            }
        }
    }
    return 1;
}

/*@ normal_log */
/* log of (0, 1]: m * 2^e with m in [sqrt(1/2), sqrt(2)), a polynomial in m - 1. */
static float normal_log(float x) {
    int power;
    float m = frexpf(x, &power);
    const float small = m < 0.707106781186547524f, e = (float)power - small;
    m = (m - 1) + m * small;
    const float square = m * m;
    float y = fmaf(7.0376836292e-2f, m, -1.1514610310e-1f);
    y = fmaf(y, m, 1.1676998740e-1f);
    y = fmaf(y, m, -1.2420140846e-1f);
    y = fmaf(y, m, 1.4249322787e-1f);
    y = fmaf(y, m, -1.6668057665e-1f);
    y = fmaf(y, m, 2.0000714765e-1f);
    y = fmaf(y, m, -2.4999993993e-1f);
    y = fmaf(y, m, 3.3333331174e-1f);
    y = fmaf(y * m, square, e * -2.12194440e-4f) - square * 0.5f;
    return fmaf(e, 0.693359375f, m + y);
}

/*@ normal_angle */
/* sin and cos of [0, 2 pi): the octant, the rest in three steps, two polynomials. */
static void normal_angle(float x, float *sine, float *cosine) {
    const int32_t octant = ((int32_t)(x * 1.27323954473516f) + 1) & ~1;
    const float count = (float)octant;
    x = fmaf(-0.78515625f, count, x);
    x = fmaf(-2.4187564849853515625e-4f, count, x);
    x = fmaf(-3.77489497744594108e-8f, count, x);
    const float square = x * x;
    float c = fmaf(2.443315711809948e-5f, square, -1.388731625493765e-3f);
    c = fmaf(c, square, 4.166664568298827e-2f) * square;
    c = fmaf(c, square, square * -0.5f) + 1;
    float s = fmaf(-1.9515295891e-4f, square, 8.3321608736e-3f);
    s = fmaf(s, square, -1.6666654611e-1f) * square;
    s = fmaf(s, x, x);
    *sine = octant & 2 ? c : s;
    *cosine = octant & 2 ? s : c;
    if (octant & 4)
        *sine = -*sine;
    if (~(octant - 2) & 4)
        *cosine = -*cosine;
}

/*@ normal_block_f32 */
/* Sixteen uniform numbers become normal ones: radii from the first eight, angles from the others. */
static void normal_block_f32(float *x, float mean, float std) {
    for (int k = 0; k < 8; k++) {
        float sine, cosine;
        const float radius = sqrtf(-2 * normal_log(1 - x[k]));
        normal_angle(6.283185307179586f * x[8 + k], &sine, &cosine);
        x[k] = fmaf(radius * cosine, std, mean);
        x[8 + k] = fmaf(radius * sine, std, mean);
    }
}

/*@ normal_block_f64 */
static void normal_block_f64(double *x, double mean, double std) {
    for (int k = 0; k < 8; k++) {
        const double radius = sqrt(-2 * log(1 - x[k])), angle = 6.283185307179586 * x[8 + k];
        x[k] = fma(radius * cos(angle), std, mean);
        x[8 + k] = fma(radius * sin(angle), std, mean);
    }
}

/*@ normal_real */
/* Sixteen or more; a tail is covered by a block of new ones. */
static void normal_real(real *out, int64_t n, double mean, double std) {
    uniform_real(out, n, 0, 1);
    for (int64_t i = 0; i + 16 <= n; i += 16)
        normal_block_real(out + i, (real)mean, (real)std);
    if (n % 16) {
        uniform_real(out + n - 16, 16, 0, 1);
        normal_block_real(out + n - 16, (real)mean, (real)std);
    }
}

/*@ next_normal */
static double next_normal(void) {
    if (random_state.kept[1] != 0) {
        random_state.kept[1] = 0;
        return random_state.kept[0];
    }
    const double turn = next_f64(), radius = sqrt(-2 * log1p(-next_f64()));
    const double angle = 6.283185307179586 * turn;
    random_state.kept[0] = radius * sin(angle);
    random_state.kept[1] = 1;
    return radius * cos(angle);
}

/*@ single_real */
static void single_real(real *out, int64_t n, double mean, double std) {
    for (int64_t i = 0; i < n; i++)
        out[i] = (real)fma(next_normal(), std, mean);
}
