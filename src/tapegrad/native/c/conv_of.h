/* conv.c for one type T. */

typedef T NAMED(wide) __attribute__((vector_size(WIDE)));
typedef T NAMED(loose) __attribute__((vector_size(WIDE), aligned(sizeof(T)), may_alias));
#define V NAMED(wide)
#define HALF ((int64_t)(WIDE / sizeof(T)))
#define L (2 * HALF) /* elements of a pair of vectors */
#define LOAD(at) ((V) * (const NAMED(loose) *)(at))
#define STORE(at, v) (*(NAMED(loose) *)(at) = (NAMED(loose))(v))

/* ------------------------------------------------------------------ layout */

/* p: x, out; n: planes, then for each of the two dimensions size, how far the first window reaches
   out of it, stride, and how many rows (columns) of each phase there are */
TG_VERSIONS static void NAMED(lay_planes)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t *h = given->n + 1, *w = given->n + 5;
    const int64_t each = h[2] * w[2] * h[3] * w[3];
    for (int64_t plane = begin; plane < end; plane++) {
        const T *x = (const T *)given->p[0] + plane * h[0] * w[0];
        T *out = (T *)given->p[1] + plane * each;
        for (int64_t a = 0; a < h[2]; a++)
            for (int64_t b = 0; b < w[2]; b++)
                for (int64_t row = 0; row < h[3]; row++, out += w[3]) {
                    const int64_t at = row * h[2] + a - h[1];
                    if (at < 0 || at >= h[0]) {
                        memset(out, 0, (size_t)w[3] * sizeof(T));
                        continue;
                    }
                    /* The columns that are inside: first <= column < last. */
                    const T *from = x + at * w[0];
                    const int64_t shift = b - w[1], step = w[2];
                    int64_t first = shift < 0 ? (-shift + step - 1) / step : 0;
                    int64_t last = w[0] > shift ? (w[0] - shift + step - 1) / step : 0;
                    first = least(first, w[3]);
                    last = least(last, w[3]);
                    if (last < first)
                        last = first;
                    memset(out, 0, (size_t)first * sizeof(T));
                    memset(out + last, 0, (size_t)(w[3] - last) * sizeof(T));
                    if (step == 1)
                        memcpy(out + first, from + first + shift,
                               (size_t)(last - first) * sizeof(T));
                    else
                        for (int64_t i = first; i < last; i++)
                            out[i] = from[i * step + shift];
                }
    }
}
void NAMED(tg_conv_lay)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    const double each = (double)(n[3] * n[4]) * (double)(n[7] * n[8]);
    tg_parallel(n[0], pieces(0.3, each), NAMED(lay_planes), &given);
}

/* p: y (planes, features, length), out (planes, vectors of L features, length, L), with zeros where
   there are no more features; n: planes, features, length */
TG_VERSIONS static void NAMED(turn_planes)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t features = given->n[1], length = given->n[2], vectors = (features + L - 1) / L;
    for (int64_t task = begin; task < end; task++) {
        const int64_t plane = task / vectors, first = task % vectors * L;
        const T *y = (const T *)given->p[0] + (plane * features + first) * length;
        T *out = (T *)given->p[1] + task * L * length;
        const int64_t count = least(L, features - first);
        for (int64_t i0 = 0; i0 < length; i0 += 16)
            for (int64_t f = 0; f < L; f++)
                for (int64_t i = i0; i < least(i0 + 16, length); i++)
                    out[i * L + f] = f < count ? y[f * length + i] : 0;
    }
}
void NAMED(tg_conv_turn)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0] * ((n[1] + L - 1) / L), pieces(0.8, (double)(L * n[2])), NAMED(turn_planes),
                &given);
}

/* Weights in blocks of `high` features side by side. p: w, places of the taps in it, out (groups,
   blocks, depth, taps, high); n: groups, features, depth, taps, high, steps in w per group, feature
   and depth */
TG_VERSIONS static void NAMED(pack_blocks)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t *n = given->n, *place = given->p[1];
    const int64_t features = n[1], depth = n[2], taps = n[3], high = n[4];
    const int64_t blocks = (features + high - 1) / high;
    for (int64_t task = begin; task < end; task++) {
        const int64_t first = task % blocks * high, count = least(high, features - first);
        const T *w = (const T *)given->p[0] + task / blocks * n[5] + first * n[6];
        T *out = (T *)given->p[2] + task * depth * taps * high;
        for (int64_t c = 0; c < depth; c++)
            for (int64_t t = 0; t < taps; t++, out += high)
                for (int64_t r = 0; r < high; r++)
                    out[r] = r < count ? w[c * n[7] + place[t] + r * n[6]] : 0;
    }
}
void NAMED(tg_conv_pack)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    const double each = (double)(n[2] * n[3]) * (double)n[4];
    tg_parallel(n[0] * ((n[1] + n[4] - 1) / n[4]), pieces(0.6, each), NAMED(pack_blocks), &given);
}

/* ------------------------------------------------------------------ outputs */

/* Add to `sums` (rows of CHUNK) for `high` output channels and one pair of vectors of positions. */
TG_INLINE void NAMED(add_taps)(T *sums, const T *x, const T *weight, const int64_t *offset,
                               int64_t taps, const int high) {
    V left[6], right[6];
    for (int r = 0; r < high; r++) {
        left[r] = LOAD(sums + r * CHUNK);
        right[r] = LOAD(sums + r * CHUNK + HALF);
    }
    for (int64_t j = 0; j < taps; j++, weight += high) {
        const V a = LOAD(x + offset[j]), b = LOAD(x + offset[j] + HALF);
        for (int r = 0; r < high; r++) {
            left[r] += weight[r] * a;
            right[r] += weight[r] * b;
        }
    }
    for (int r = 0; r < high; r++) {
        STORE(sums + r * CHUNK, left[r]);
        STORE(sums + r * CHUNK + HALF, right[r]);
    }
}
/* The same for one channel and eight vectors. */
TG_INLINE void NAMED(add_taps_of_one)(T *sums, const T *x, const T *weight, const int64_t *offset,
                                      int64_t taps) {
    V acc[8];
    for (int r = 0; r < 8; r++)
        acc[r] = LOAD(sums + r * HALF);
    for (int64_t j = 0; j < taps; j++) {
        const T *from = x + offset[j];
        for (int r = 0; r < 8; r++)
            acc[r] += weight[j] * LOAD(from + r * HALF);
    }
    for (int r = 0; r < 8; r++)
        STORE(sums + r * HALF, acc[r]);
}

/* p: X, weights (groups, blocks, taps, high), offsets, bias, out; n: images, groups, taps (with the
   channels of a group), features of a group, high, elements of X per image and per group, rows,
   columns, width of X's rows, steps of `out` per image, channel, row and column */
TG_VERSIONS static void NAMED(conv_blocks)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t *n = given->n, *offset = given->p[2];
    const int64_t groups = n[1], taps = n[2], features = n[3], high = n[4];
    const int64_t rows = n[7], columns = n[8], width = n[9], step = n[13];
    const int64_t blocks = (features + high - 1) / high, length = (rows - 1) * width + columns;
    const int64_t most = WEIGHTS / (high * (int64_t)sizeof(T));
    for (int64_t task = begin; task < end; task++) {
        const int64_t block = task % blocks, group = task / blocks % groups;
        const int64_t image = task / blocks / groups;
        const T *x = (const T *)given->p[0] + image * n[5] + group * n[6];
        const T *weight = (const T *)given->p[1] + (group * blocks + block) * taps * high;
        const int64_t first = group * features + block * high; /* channel */
        const int64_t count = least(high, features - block * high);
        T *out = (T *)given->p[4] + image * n[10] + first * n[11];
        T sums[6 * CHUNK];
        for (int64_t q = 0; q < length; q += CHUNK) {
            const int64_t stop = least(q + CHUNK, length);
            for (int64_t r = 0; r < high; r++) {
                const T start = given->p[3] && r < count ? ((const T *)given->p[3])[first + r] : 0;
                for (int64_t i = 0; i < CHUNK; i++)
                    sums[r * CHUNK + i] = start;
            }
            for (int64_t j = 0; j < taps; j += most) {
                const int64_t some = least(most, taps - j);
                const T *w = weight + j * high;
                if (high == 1)
                    for (int64_t i = q; i < stop; i += 4 * L)
                        NAMED(add_taps_of_one)(sums + i - q, x + i, w, offset + j, some);
                else if (high == 4)
                    for (int64_t i = q; i < stop; i += L)
                        NAMED(add_taps)(sums + i - q, x + i, w, offset + j, some, 4);
                else
                    for (int64_t i = q; i < stop; i += L)
                        NAMED(add_taps)(sums + i - q, x + i, w, offset + j, some, 6);
            }
            for (int64_t r = 0; r < count; r++)
                for (int64_t row = q / width; row * width < stop; row++) {
                    const int64_t low = row * width > q ? row * width : q;
                    const int64_t high_end = least(row * width + columns, stop);
                    T *to = out + r * n[11] + row * n[12];
                    const T *from = sums + r * CHUNK - q;
                    if (step == 1)
                        for (int64_t i = low; i < high_end; i++)
                            to[i - row * width] = from[i];
                    else
                        for (int64_t i = low; i < high_end; i++)
                            to[(i - row * width) * step] = from[i];
                }
        }
    }
}
void NAMED(tg_conv)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    const int64_t blocks = (n[3] + n[4] - 1) / n[4];
    const double each = (double)(n[7] * n[9]) * (double)(n[2] * n[4]) + (double)CHUNK;
    tg_parallel(n[0] * n[1] * blocks, pieces(0.03, each), NAMED(conv_blocks), &given);
}

/* ------------------------------------------------------------------ weights */

/* Add to six rows of L sums the products of rows of X, for six taps, with a row of y. */
TG_INLINE void NAMED(add_row)(T *sums, const T *const *x, const T *y, int64_t columns) {
    V left[6], right[6];
    for (int r = 0; r < 6; r++) {
        left[r] = LOAD(sums + r * L);
        right[r] = LOAD(sums + r * L + HALF);
    }
    for (int64_t i = 0; i < columns; i++) {
        const V a = LOAD(y + i * L), b = LOAD(y + i * L + HALF);
        for (int r = 0; r < 6; r++) {
            left[r] += x[r][i] * a;
            right[r] += x[r][i] * b;
        }
    }
    for (int r = 0; r < 6; r++) {
        STORE(sums + r * L, left[r]);
        STORE(sums + r * L + HALF, right[r]);
    }
}

/* p: X, y as `conv_turn` leaves it, offsets, out (groups, features, taps); n: images, groups, taps,
   features, elements of X per image and per group, rows, columns, width of X's rows. A task has six
   times PARTS taps and one vector of features; it takes some rows of y at a time, which stay in the
   cache for all of its taps. */
TG_VERSIONS static void NAMED(weight_blocks)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t *n = given->n, *offset = given->p[2];
    const int64_t images = n[0], groups = n[1], taps = n[2], features = n[3];
    const int64_t rows = n[6], columns = n[7], width = n[8];
    const int64_t vectors = (features + L - 1) / L, blocks = (taps + 6 * PARTS - 1) / (6 * PARTS);
    const int64_t some = 128 / columns > 1 ? 128 / columns : 1;
    for (int64_t task = begin; task < end; task++) {
        const int64_t first = task % blocks * 6 * PARTS, vector = task / blocks % vectors;
        const int64_t group = task / blocks / vectors, count = least(6 * PARTS, taps - first);
        T total[6 * PARTS * 16] = {0};
        for (int64_t image = 0; image < images; image++) {
            const T *x = (const T *)given->p[0] + image * n[4] + group * n[5];
            const T *y = (const T *)given->p[1] +
                         ((image * groups + group) * vectors + vector) * rows * columns * L;
            for (int64_t row0 = 0; row0 < rows; row0 += some)
                for (int64_t j = 0; j < count; j += 6) {
                    T sums[6 * 16] = {0};
                    const T *from[6];
                    for (int64_t r = 0; r < 6; r++)
                        from[r] = x + offset[first + least(j + r, count - 1)] + row0 * width;
                    for (int64_t row = row0; row < least(row0 + some, rows); row++) {
                        NAMED(add_row)(sums, from, y + row * columns * L, columns);
                        for (int r = 0; r < 6; r++)
                            from[r] += width;
                    }
                    for (int64_t k = 0; k < 6 * L; k++)
                        total[j * L + k] += sums[k];
                }
        }
        T *out = (T *)given->p[3] + (group * features + vector * L) * taps + first;
        for (int64_t k = 0; k < least(L, features - vector * L); k++)
            for (int64_t j = 0; j < count; j++)
                out[k * taps + j] = total[j * L + k];
    }
}
void NAMED(tg_conv_weights)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    const int64_t tasks = n[1] * ((n[2] + 6 * PARTS - 1) / (6 * PARTS)) * ((n[3] + L - 1) / L);
    const double each = (double)n[0] * (double)(n[6] * n[7]) * (6.0 * PARTS) * (double)L;
    tg_parallel(tasks, pieces(0.03, each), NAMED(weight_blocks), &given);
}

/* Few features: each weight is the product of two images. p: X, y (images, groups, features, rows,
   columns), offsets, out; n as above */
TG_VERSIONS static void NAMED(weight_dots)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t *n = given->n, *offset = given->p[2];
    const int64_t images = n[0], groups = n[1], taps = n[2], features = n[3];
    const int64_t rows = n[6], columns = n[7], width = n[8];
    for (int64_t feature = begin; feature < end; feature++)
        for (int64_t j = 0; j < taps; j++) {
            double total = 0;
            for (int64_t image = 0; image < images; image++) {
                const T *x = (const T *)given->p[0] + image * n[4] + feature / features * n[5];
                const T *y =
                    (const T *)given->p[1] + (image * groups * features + feature) * rows * columns;
                V sums = {0}, more = {0};
                T rest = 0;
                for (int64_t row = 0; row < rows; row++, y += columns) {
                    const T *from = x + offset[j] + row * width;
                    int64_t i = 0;
                    for (; i + L <= columns; i += L) {
                        sums += LOAD(from + i) * LOAD(y + i);
                        more += LOAD(from + i + HALF) * LOAD(y + i + HALF);
                    }
                    for (; i < columns; i++)
                        rest += from[i] * y[i];
                }
                for (int64_t k = 0; k < HALF; k++)
                    total += sums[k] + more[k];
                total += rest;
            }
            ((T *)given->p[3])[feature * taps + j] = (T)total;
        }
}
void NAMED(tg_conv_dots)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    const double each = (double)n[0] * (double)(n[6] * n[7]) * (double)n[2];
    tg_parallel(n[1] * n[3], pieces(0.1, each), NAMED(weight_dots), &given);
}

#undef V
#undef L
#undef HALF
#undef LOAD
#undef STORE
