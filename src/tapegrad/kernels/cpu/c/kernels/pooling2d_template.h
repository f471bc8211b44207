/* pooling2d.c for one type T; INDEX is an integer as wide. n: planes, then for rows and for columns
   size, kernel (at most TAPS columns), stride, padding, windows. */

#define EACH_PIECE(with_padding)                                                                   \
    const arguments *given = context;                                                              \
    const int64_t *h = given->n + 1, *w = given->n + 6;                                            \
    piece at_once;                                                                                 \
    for (int64_t start = 0; start < w[4]; start += CHUNK) {                                        \
        find_piece(&at_once, w, start, with_padding);                                              \
        const int64_t count = at_once.count, base = at_once.base;                                  \
        for (int64_t plane = begin; plane < end; plane++)                                          \
            for (int64_t row = 0; row < h[4]; row++) {                                             \
                const int64_t low = most(row * h[2] - h[3], 0);                                    \
                const int64_t high = least(row * h[2] - h[3] + h[1], h[0]);                        \
                const int64_t to = (plane * h[4] + row) * w[4] + start;
#define END_PIECE                                                                                  \
    }                                                                                              \
    }

/* Windows of two by two that do not overlap, the most frequent ones: `count` of a row, with their maxima
   or the places of those (which are told from `first`), as below. */
typedef T NAMED(four) __attribute__((vector_size(16)));
typedef INDEX NAMED(four_places) __attribute__((vector_size(16)));
#define FOUR ((int64_t)(16 / sizeof(T))) /* or two */
#define CHOOSE(a, b, m) (((b) & (m)) | ((a) & ~(m)))
#define LARGER(v, place)                                                                           \
    {                                                                                              \
        const NAMED(four_places) m = ((v) > best) | ((v) != (v));                                  \
        best = (NAMED(four))CHOOSE((NAMED(four_places))best, (NAMED(four_places))(v), m);          \
        found = CHOOSE(found, at + (INDEX)(place), m);                                             \
    }
TG_INLINE void NAMED(pairs)(const T *x, int64_t width, int64_t count, T *maxima, int64_t *places,
                            int64_t first) {
    NAMED(four_places) step;
    for (int k = 0; k < FOUR; k++)
        step[k] = (INDEX)(first + 2 * k);
    for (int64_t next = 0; next < count; next += FOUR) {
        const int64_t i = least(next, count - FOUR); /* the last ones once more */
        NAMED(four) a, b, c, d;
        memcpy(&a, x + 2 * i, sizeof a);
        memcpy(&b, x + 2 * i + FOUR, sizeof b);
        memcpy(&c, x + width + 2 * i, sizeof c);
        memcpy(&d, x + width + 2 * i + FOUR, sizeof d);
        NAMED(four) best = EVEN(a, b);
        const NAMED(four_places) at = step + (INDEX)(2 * i);
        NAMED(four_places) found = at;
        LARGER(ODD(a, b), 1)
        LARGER(EVEN(c, d), width)
        LARGER(ODD(c, d), width + 1)
        if (maxima)
            memcpy(maxima + i, &best, sizeof best);
        for (int k = 0; places && k < FOUR; k++)
            places[i + k] = found[k];
    }
}
#undef LARGER
#undef CHOOSE

static int NAMED(are_pairs)(const int64_t *side) {
    return side[1] == 2 && side[2] == 2 && side[3] == 0 && 2 * side[4] <= side[0];
}

/* p: x, maxima or NULL, places or NULL */
TG_VERSIONS static void NAMED(max_of_pairs)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t *h = given->n + 1, *w = given->n + 6;
    T *maxima = given->p[1];
    int64_t *places = given->p[2];
    for (int64_t plane = begin; plane < end; plane++)
        for (int64_t row = 0; row < h[4]; row++) {
            const T *x = (const T *)given->p[0] + (plane * h[0] + 2 * row) * w[0];
            const int64_t to = (plane * h[4] + row) * w[4];
            if (!places) /* of either kind the half is left out */
                NAMED(pairs)(x, w[0], w[4], maxima + to, NULL, 0);
            else
                NAMED(pairs)(x, w[0], w[4], maxima ? maxima + to : NULL, places + to,
                             2 * row * w[0]);
        }
}

/* p: x, maxima. First those of each column of a row of windows, then those of the windows. */
TG_VERSIONS static void NAMED(max_only_planes)(void *context, int64_t begin, int64_t end) {
    EACH_PIECE(0)
    T columns[WIDEST];
    const T *x = (const T *)given->p[0] + plane * h[0] * w[0];
    memcpy(columns, x + low * w[0], (size_t)w[0] * sizeof(T));
    for (int64_t r = low + 1; r < high; r++)
        for (int64_t i = 0; i < w[0]; i++) {
            const T v = x[r * w[0] + i];
            columns[i] = (v > columns[i]) | (v != v) ? v : columns[i];
        }
    T *restrict best = (T *)given->p[1] + to;
    for (int64_t i = 0; i < count; i++)
        best[i] = (T)-INFINITY;
    for (int64_t tap = 0; tap < w[1]; tap++) {
        EACH_WINDOW(at_once.first[tap], at_once.last[tap], w[2], base + tap, {
            const T v = columns[at];
            best[i] = (v > best[i]) | (v != v) ? v : best[i];
        })
    }
    END_PIECE
}

/* p: x, maxima or NULL, their places in the plane. The first of equals wins, and the last NaN. */
TG_VERSIONS static void NAMED(max_pool_planes)(void *context, int64_t begin, int64_t end) {
    EACH_PIECE(0)
    T best[CHUNK];
    INDEX found[CHUNK];
    for (int64_t i = 0; i < count; i++) {
        best[i] = (T)-INFINITY;
        /* The first element that is inside, less the place of the window. */
        found[i] = (INDEX)(low * w[0] + most(0, -(base + i * w[2])));
    }
    for (int64_t r = low; r < high; r++)
        for (int64_t tap = 0; tap < w[1]; tap++) {
            const T *from = (const T *)given->p[0] + (plane * h[0] + r) * w[0];
            const INDEX here = (INDEX)(r * w[0] + tap);
            EACH_WINDOW(at_once.first[tap], at_once.last[tap], w[2], base + tap, {
                const T v = from[at];
                const int larger = (v > best[i]) | (v != v);
                best[i] = larger ? v : best[i];
                found[i] = larger ? here : found[i];
            })
        }
    if (given->p[1])
        memcpy((T *)given->p[1] + to, best, (size_t)count * sizeof(T));
    for (int64_t i = 0; i < count; i++)
        ((int64_t *)given->p[2])[to + i] = found[i] + base + i * w[2];
    END_PIECE
}
void NAMED(tg_max_pool2d)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    if (NAMED(are_pairs)(n + 1) && NAMED(are_pairs)(n + 6) && n[10] >= FOUR) {
        tg_parallel(n[0], pieces(1.0, n[5] * n[10]), NAMED(max_of_pairs), &given);
        return;
    }
    tg_parallel(n[0], pieces(0.5, n[5] * n[10] * n[2] * n[7]),
                p[2] ? NAMED(max_pool_planes) : NAMED(max_only_planes), &given);
}

/* p: gradient, places, out; n: planes, windows of a plane, elements of a plane */
static void NAMED(max_pool_back_planes)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t windows = given->n[1], size = given->n[2];
    for (int64_t plane = begin; plane < end; plane++) {
        const T *grad = (const T *)given->p[0] + plane * windows;
        const int64_t *place = (const int64_t *)given->p[1] + plane * windows;
        T *out = (T *)given->p[2] + plane * size;
        memset(out, 0, (size_t)size * sizeof(T));
        for (int64_t i = 0; i < windows; i++)
            if (place[i] >= 0 && place[i] < size) /* else the window had only padding */
                out[place[i]] += grad[i];
    }
}
void NAMED(tg_max_pool2d_back)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], pieces(0.7, n[1] + n[2]), NAMED(max_pool_back_planes), &given);
}

/* Means. n[11]: whether padding counts; x: what sums are divided by instead, or 0. */

/* p: x, out */
TG_VERSIONS static void NAMED(avg_pool_planes)(void *context, int64_t begin, int64_t end) {
    EACH_PIECE((int)given->n[11])
    T *restrict sums = (T *)given->p[1] + to;
    T columns[WIDEST];
    const T *x = (const T *)given->p[0] + plane * h[0] * w[0];
    memcpy(columns, x + low * w[0], (size_t)w[0] * sizeof(T));
    for (int64_t r = low + 1; r < high; r++)
        for (int64_t i = 0; i < w[0]; i++)
            columns[i] += x[r * w[0] + i];
    for (int64_t i = 0; i < count; i++)
        sums[i] = 0;
    for (int64_t tap = 0; tap < w[1]; tap++) {
        EACH_WINDOW(at_once.first[tap], at_once.last[tap], w[2], base + tap,
                    sums[i] += columns[at];)
    }
    const double rows = (double)extent(h, row, (int)given->n[11]), instead = given->x[0];
    for (int64_t i = 0; i < count; i++)
        sums[i] /= (T)(instead != 0 ? instead : rows * at_once.extents[i]);
    END_PIECE
}
void NAMED(tg_avg_pool2d)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], pieces(0.5, n[5] * n[10] * n[2] * n[7]), NAMED(avg_pool_planes), &given);
}

/* p: gradient, out (zeros) */
TG_VERSIONS static void NAMED(avg_pool_back_planes)(void *context, int64_t begin, int64_t end) {
    EACH_PIECE((int)given->n[11])
    const T *grad = (const T *)given->p[0] + to;
    const double rows = (double)extent(h, row, (int)given->n[11]), instead = given->x[0];
    T share[CHUNK], columns[WIDEST];
    for (int64_t i = 0; i < count; i++)
        share[i] = grad[i] / (T)(instead != 0 ? instead : rows * at_once.extents[i]);
    memset(columns, 0, (size_t)w[0] * sizeof(T));
    for (int64_t tap = 0; tap < w[1]; tap++) {
        EACH_WINDOW(at_once.first[tap], at_once.last[tap], w[2], base + tap,
                    columns[at] += share[i];)
    }
    for (int64_t r = low; r < high; r++) {
        T *restrict out = (T *)given->p[1] + (plane * h[0] + r) * w[0];
        for (int64_t i = 0; i < w[0]; i++)
            out[i] += columns[i];
    }
    END_PIECE
}
void NAMED(tg_avg_pool2d_back)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], pieces(0.7, n[5] * n[10] * n[2] * n[7]), NAMED(avg_pool_back_planes), &given);
}

#undef FOUR
#undef EACH_PIECE
#undef END_PIECE
