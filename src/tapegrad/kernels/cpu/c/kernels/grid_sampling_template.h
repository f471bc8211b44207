/* grid_sampling.c for one type T. */

/* The neighbours of a point along one axis. */
typedef struct {
    int count;
    int64_t place[MOST_TAPS];
    int inside[MOST_TAPS];
    T weight[MOST_TAPS];
} NAMED(taps);

/* Moved inside by the padding; `bend` is multiplied by the slope of that. */
static T NAMED(kept_inside)(T x, const int64_t size, int64_t padding, int64_t align, T *bend) {
    if (padding == ZEROS)
        return x;
    T sign = 1;
    if (padding == REFLECTION) {
        const T low = align ? 0 : (T)-0.5, span = (T)(align ? size - 1 : size);
        if (span == 0) {
            x = sign = 0;
        } else {
            const T away = MATH(fabs)(x - low), flips = MATH(floor)(away / span);
            const T rest = away - flips * span;
            const int odd = fmod((double)flips, 2) == 1;
            sign = (x < low) != odd ? -1 : 1;
            x = (odd ? span - rest : rest) + low;
        }
    }
    const T last = (T)(size - 1);
    *bend = sign * (T)(x > 0 && x < last);
    return MATH(fmin)(MATH(fmax)(x, 0), last);
}

static int64_t NAMED(whole)(T x) { return MATH(fabs)(x) < (T)2147483648.0 ? (int64_t)x : -100; }

static T NAMED(polynomial)(const double *c, T x, int64_t order) {
    T total = x * 0;
    for (int64_t i = 0; i <= 3 - order; i++) {
        double by = c[i];
        for (int64_t k = 0; k < order; k++)
            by *= (double)(3 - i - k);
        total = total * x + (T)by;
    }
    return total;
}

static T NAMED(power)(T x, int64_t n) {
    T out = 1;
    for (; n > 0; n--)
        out *= x;
    return out;
}

static void NAMED(weigh)(const T t, int64_t mode, int64_t order, T chain, T *weights) {
    int count = 1;
    if (mode == NEAREST) {
        weights[0] = order == 0;
    } else if (mode == BILINEAR) {
        count = 2;
        weights[0] = order == 0 ? 1 - t : order == 1 ? -1 : 0;
        weights[1] = order == 0 ? t : order == 1 ? 1 : 0;
    } else {
        static const double far[] = {-0.75, 3.75, -6, 3}, near[] = {1.25, -2.25, 0, 1};
        const T sign = order % 2 ? -1 : 1;
        count = 4;
        weights[0] = NAMED(polynomial)(far, t + 1, order);
        weights[1] = NAMED(polynomial)(near, t, order);
        weights[2] = NAMED(polynomial)(near, 1 - t, order) * sign;
        weights[3] = NAMED(polynomial)(far, 2 - t, order) * sign;
    }
    for (int i = 0; i < count && order; i++)
        weights[i] *= NAMED(power)(chain, order);
}

static NAMED(taps) NAMED(along_axis)(const int64_t *n, int64_t d, T x) {
    const int64_t size = n[SIZES + d], mode = n[MODE], align = n[ALIGN], padding = n[PADDING];
    const T slope = (T)(align ? (double)(size - 1) / 2 : (double)size / 2);
    if (n[AXES] == 2)
        x = align ? (x + 1) * slope : (x + 1) * slope - (T)0.5;
    else
        x = align ? (x + 1) / 2 * (T)(size - 1) : ((x + 1) * (T)size - 1) / 2;
    NAMED(taps) out;
    T bend = 1, unused, t = 0;
    if (mode == BICUBIC) {
        const T low = MATH(floor)(x);
        out.count = 4;
        t = x - low;
        for (int i = 0; i < 4; i++)
            out.place[i] =
                NAMED(whole)(NAMED(kept_inside)(low + (T)(i - 1), size, padding, align, &unused));
    } else {
        x = NAMED(kept_inside)(x, size, padding, align, &bend);
        const T low = mode == NEAREST ? MATH(rint)(x) : MATH(floor)(x);
        out.count = mode == NEAREST ? 1 : 2;
        t = x - low;
        out.place[0] = NAMED(whole)(low);
        out.place[1] = out.place[0] + 1;
    }
    for (int i = 0; i < out.count; i++)
        out.inside[i] = out.place[i] >= 0 && out.place[i] < size;
    NAMED(weigh)(t, mode, n[ORDERS + d], slope * bend, out.weight);
    return out;
}

static void NAMED(around)(const int64_t *n, const T *point, NAMED(taps) *axes) {
    for (int64_t d = 0; d < n[AXES]; d++)
        axes[d] = NAMED(along_axis)(n, d, point[n[AXES] - 1 - d]);
}

/* Call `body` for each neighbour: `k` has its number along each axis, `at` its place in a plane,
   `inside` whether it is there, and `by` its weight. */
#define EACH_NEIGHBOUR(body)                                                                       \
    for (int which = 0; which < axes[0].count * axes[1].count * (flat ? 1 : axes[2].count);        \
         which++) {                                                                                \
        int k[MOST_AXES] = {0}, rest = which;                                                      \
        for (int64_t d = n[AXES] - 1; d >= 0; d--) {                                               \
            k[d] = rest % axes[d].count;                                                           \
            rest /= axes[d].count;                                                                 \
        }                                                                                          \
        const int64_t end = n[AXES] - 1;                                                           \
        int64_t at = axes[end].place[k[end]], stride = 1;                                          \
        int inside = axes[end].inside[k[end]];                                                     \
        T by = axes[end].weight[k[end]];                                                           \
        for (int64_t d = end - 1; d >= 0; d--) {                                                   \
            stride *= n[SIZES + d + 1];                                                            \
            at += axes[d].place[k[d]] * stride;                                                    \
            inside = inside && axes[d].inside[k[d]];                                               \
            by *= axes[d].weight[k[d]];                                                            \
        }                                                                                          \
        body                                                                                       \
    }

/* p: images, points, samples */
static void NAMED(some_samples)(void *context, int64_t begin, int64_t end_) {
    const arguments *given = context;
    const int64_t *n = given->n, count = n[POINTS], channels = n[CHANNELS], plane = given->plane;
    const int flat = n[AXES] == 2;
    for (int64_t i = begin; i < end_; i++) {
        const T *x = (const T *)given->p[0] + i / count * channels * plane;
        T *out = (T *)given->p[2] + i / count * channels * count + i % count;
        NAMED(taps) axes[MOST_AXES];
        NAMED(around)(n, (const T *)given->p[1] + i * n[AXES], axes);
        for (int64_t c = 0; c < channels; c++)
            out[c * count] = 0;
        if (n[MODE] == BICUBIC) { /* rows first */
            for (int64_t c = 0; c < channels; c++)
                for (int a = 0; a < 4; a++) {
                    T row = 0;
                    for (int b = 0; b < 4; b++) {
                        const int inside = axes[0].inside[a] && axes[1].inside[b];
                        const int64_t at = axes[0].place[a] * n[SIZES + 1] + axes[1].place[b];
                        row += (inside ? x[c * plane + at] : 0) * axes[1].weight[b];
                    }
                    out[c * count] += row * axes[0].weight[a];
                }
            continue;
        }
        EACH_NEIGHBOUR({
            if (!inside && !(flat && by != by))
                continue;
            for (int64_t c = 0; c < channels; c++)
                out[c * count] += (inside ? x[c * plane + at] : 0) * by;
        })
    }
}
void NAMED(tg_grid_sample)(void **p, const int64_t *n, const double *x) {
    arguments given = arguments_of(p, n);
    (void)x;
    tg_parallel(n[BATCH] * n[POINTS], tg_grain(20.0 + 4.0 * (double)n[CHANNELS]),
                NAMED(some_samples), &given);
}

/* p: values, points, images as double, which are zero */
static void NAMED(some_images)(void *context, int64_t begin, int64_t end_) {
    const arguments *given = context;
    const int64_t *n = given->n, count = n[POINTS], channels = n[CHANNELS], plane = given->plane;
    const int flat = n[AXES] == 2;
    for (int64_t i = begin * count; i < end_ * count; i++) {
        const T *values = (const T *)given->p[0] + i / count * channels * count + i % count;
        double *x = (double *)given->p[2] + i / count * channels * plane;
        NAMED(taps) axes[MOST_AXES];
        NAMED(around)(n, (const T *)given->p[1] + i * n[AXES], axes);
        EACH_NEIGHBOUR({
            if (!inside)
                continue;
            for (int64_t c = 0; c < channels; c++)
                x[c * plane + at] += (double)(values[c * count] * by);
        })
    }
}
void NAMED(tg_grid_add)(void **p, const int64_t *n, const double *x) {
    arguments given = arguments_of(p, n);
    (void)x;
    const int64_t images = tg_grain(1.0) / (20 * n[CHANNELS] * n[POINTS] + 1);
    tg_parallel(n[BATCH], images < 1 ? 1 : images, NAMED(some_images), &given);
}

/* p: values, images, points, slopes for each axis of a point */
static void NAMED(some_slopes)(void *context, int64_t begin, int64_t end_) {
    const arguments *given = context;
    const int64_t *n = given->n, count = n[POINTS], channels = n[CHANNELS], plane = given->plane;
    const int flat = n[AXES] == 2;
    int64_t steeper[ORDERS + MOST_AXES];
    for (int i = 0; i < ORDERS + MOST_AXES; i++)
        steeper[i] = n[i] + (i >= ORDERS);
    for (int64_t i = begin; i < end_; i++) {
        const T *values = (const T *)given->p[0] + i / count * channels * count + i % count;
        const T *x = (const T *)given->p[1] + i / count * channels * plane;
        const T *point = (const T *)given->p[2] + i * n[AXES];
        T *out = (T *)given->p[3] + i * n[AXES];
        NAMED(taps) axes[MOST_AXES], steep[MOST_AXES];
        NAMED(around)(n, point, axes);
        NAMED(around)(steeper, point, steep);
        for (int64_t d = 0; d < n[AXES]; d++)
            out[d] = 0;
        EACH_NEIGHBOUR({
            (void)by;
            if (!inside)
                continue;
            T sum = 0;
            for (int64_t c = 0; c < channels; c++)
                sum += values[c * count] * x[c * plane + at];
            for (int64_t d = 0; d < n[AXES]; d++) {
                T share = steep[d].weight[k[d]];
                for (int64_t e = 0; e < n[AXES]; e++)
                    if (e != d)
                        share *= axes[e].weight[k[e]];
                out[n[AXES] - 1 - d] += sum * share;
            }
        })
    }
}
void NAMED(tg_grid_slope)(void **p, const int64_t *n, const double *x) {
    arguments given = arguments_of(p, n);
    (void)x;
    tg_parallel(n[BATCH] * n[POINTS], tg_grain(40.0 + 8.0 * (double)n[CHANNELS]),
                NAMED(some_slopes), &given);
}
#undef EACH_NEIGHBOUR
