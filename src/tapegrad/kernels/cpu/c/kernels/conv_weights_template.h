/* conv.c for one type T: gradients of weights.

   p: x, y, sums of all parts, out, geometry, offsets, rooms; n: images, groups, features of a group,
   channels of a group, taps, parts of the channels, then from UNITS on: rows of an image, of a band,
   bands of an image, parts that the bands of all images are in, elements of a band, rooms, the
   elements of one and how many of them are for x.

   A task has some of the channels and some of the bands. Its sums stand apart, and are added up in
   the end: what comes out does not depend on who did what. */

/* The products of `high` taps with `vectors` vectors of features, for some rows. */
TG_INLINE void NAMED(add_rows)(const int64_t *g, const T *x, const int64_t *offset, const T *y,
                               int64_t apart, int64_t line, int64_t stop, int64_t start, T *total,
                               int64_t total_apart, int64_t count, const int high,
                               const int vectors) {
    V sums[MOST_TAPS][2];
    const int64_t columns = g[OUT + 2];
    for (int r = 0; r < high; r++)
        for (int v = 0; v < vectors; v++)
            sums[r][v] = (V){0};
    const T *from[MOST_TAPS];
    for (int r = 0; r < high; r++)
        from[r] = x + line_at(g, line) - start + offset[least(r, count - 1)];
    for (int64_t row = line % g[OUT + 1]; line < stop; line++) {
        for (int64_t i = 0; i < columns; i++, y += L) {
            V each[2];
            for (int v = 0; v < vectors; v++)
                each[v] = LOAD(y + v * apart);
            for (int r = 0; r < high; r++)
                for (int v = 0; v < vectors; v++)
                    sums[r][v] += from[r][i] * each[v];
        }
        int64_t further = g[LAID + 2];
        if (++row == g[OUT + 1]) { /* to the next plane */
            row = 0;
            further *= g[LAID + 1] - g[OUT + 1] + 1;
        }
        for (int r = 0; r < high; r++)
            from[r] += further;
    }
    for (int r = 0; r < high; r++)
        if (r < count)
            for (int v = 0; v < vectors; v++) {
                T *at = total + r * L + v * total_apart;
                STORE(at, LOAD(at) + sums[r][v]);
            }
}

/* Call `add_rows` for all taps of a task, with one unit of features, or two of whole vectors. */
#define TILES(high)                                                                                \
    case high:                                                                                     \
        for (int64_t j = 0; j < taps; j += high)                                                   \
            NAMED(add_rows)(g, x, offset + j, y, apart, line, stop, start, total + j * L,          \
                            total_apart, least(high, taps - j), high, vectors);                    \
        break;
TG_INLINE void NAMED(add_taps)(const int64_t *g, const T *x, const int64_t *offset, int64_t taps,
                               const T *y, int64_t apart, int64_t line, int64_t stop, int64_t start,
                               T *total, int64_t total_apart, const int vectors) {
    switch (ratio(taps, ratio(taps, MOST_TAPS))) {
        TILES(1) TILES(2) TILES(3) TILES(4) TILES(5) TILES(6)
#if MOST_TAPS > 6
        TILES(7) TILES(8) TILES(9)
#endif
    }
}
#undef TILES

static void NAMED(weight_parts)(void *context, int64_t begin, int64_t end) {
    arguments *given = context;
    const int64_t *n = given->n, *g = given->p[4], *offset = given->p[5];
    const int64_t images = n[0], groups = n[1], features = n[2], depth = n[3], taps = n[4];
    const int64_t splits = n[5], bands = n[BANDS], parts = n[PARTS], length = n[LENGTH];
    const int64_t units = ratio(features, L), columns = g[OUT + 2], size = n[UNITS] * columns;
    const int64_t some = most(BLOCK / columns, 1), total_apart = depth * taps * L;
    const int64_t pixels = g[SIZE] * g[SIZE + 1] * g[SIZE + 2];
    const int room = take_room(given, n[ROOMS]);
    T *x = NAMED(room)(given->p[6], room, n[ROOM]), *y = x + n[FOR_X];
    for (int64_t task = begin; task < end; task++) {
        const int64_t split = task % splits, group = task / splits % groups;
        const int64_t part = task / splits / groups;
        const int64_t c0 = depth * split / splits, c1 = depth * (split + 1) / splits;
        T *total = (T *)given->p[2] + (part * groups + group) * units * total_apart + c0 * taps * L;
        for (int64_t u = 0; u < units; u++)
            memset(total + u * total_apart, 0, (size_t)((c1 - c0) * taps * L) * sizeof(T));
        for (int64_t i = images * bands * part / parts; i < images * bands * (part + 1) / parts;
             i++) {
            const int64_t image = i / bands * groups + group, line = i % bands * n[EACH];
            const int64_t stop = least(line + n[EACH], n[UNITS]), start = line_at(g, line);
            const int64_t apart = (stop - line) * columns * L;
            NAMED(lay_channels)((const T *)given->p[0] + (image * depth + c0) * pixels, g, c1 - c0,
                                start, length, length, x);
            for (int64_t u = 0; u < units; u++) {
                const int64_t count = least(L, features - u * L);
                if (count < L)
                    memset(y + u * apart, 0, (size_t)apart * sizeof(T));
                NAMED(turn)((const T *)given->p[1] + (image * features + u * L) * size +
                                line * columns,
                            size, count, (stop - line) * columns, y + u * apart, L);
            }
            /* Some rows of y at a time: they stay in the nearest cache for all taps. */
            for (int64_t u = 0; u < units;) {
                const int64_t pair = VECTORS == 1 && u + 2 <= units ? 2 : 1;
                for (int64_t l = line; l < stop; l += some) {
                    const T *from = y + u * apart + (l - line) * columns * L;
                    T *to = total + u * total_apart;
                    const int64_t until = least(l + some, stop);
                    if (pair * VECTORS == 2)
                        NAMED(add_taps)(g, x, offset, (c1 - c0) * taps, from,
                                        VECTORS == 1 ? apart : LANES, l, until, start, to,
                                        VECTORS == 1 ? total_apart : LANES, 2);
                    else
                        NAMED(add_taps)(g, x, offset, (c1 - c0) * taps, from, 0, l, until, start,
                                        to, 0, 1);
                }
                u += pair;
            }
        }
    }
    leave_room(given, room);
}

/* The sums of all parts, transposed into the result. */
static void NAMED(add_parts)(void *context, int64_t begin, int64_t end) {
    arguments *given = context;
    const int64_t *n = given->n, groups = n[1], features = n[2], taps = n[3] * n[4];
    const int64_t units = ratio(features, L);
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t group = unit / units, first = unit % units * L;
        T *out = (T *)given->p[3] + (group * features + first) * taps;
        for (int64_t j = 0; j < taps; j += L) {
            const int64_t count = least(L, taps - j);
            T total[L * L], turned[L * L];
            for (int64_t part = 0; part < n[PARTS]; part++) {
                const T *from =
                    (const T *)given->p[2] + ((part * groups * units + unit) * taps + j) * L;
                for (int64_t i = 0; i < count * L; i++)
                    total[i] = part ? total[i] + from[i] : from[i];
            }
            NAMED(turn)(total, L, count, L, turned, L);
            for (int64_t f = 0; f < least(L, features - first); f++)
                NAMED(copy_few)(out + f * taps + j, turned + f * L, count, 1);
        }
    }
}

static double NAMED(cost_of_part)(const int64_t *n, const int64_t *g) {
    return (double)n[0] * (double)(n[UNITS] * g[OUT + 2]) * (double)(n[3] * n[4]) /
           (double)(n[5] * n[PARTS]);
}

static void NAMED(conv_weights)(void **p, const int64_t *n) {
    arguments given = {p, n, 0};
    const int64_t units = ratio(n[2], L);
    tg_parallel(n[1] * n[5] * n[PARTS],
                pieces(0.02, NAMED(cost_of_part)(n, p[4]) * (double)(units * L)),
                NAMED(weight_parts), &given);
    tg_parallel(n[1] * units, pieces(0.5, (double)(n[3] * n[4] * n[PARTS]) * (double)L),
                NAMED(add_parts), &given);
}

/* ------------------------------------------------------------------ few features */

/* The last elements of a row, fewer than a unit has, as a whole unit with zeros. */
TG_INLINE void NAMED(load_last)(const T *from, int64_t count, V *last) {
#ifdef LOAD_SOME
    *last = LOAD_SOME(from, (1u << count) - 1);
#else
    T some[L] = {0};
    memcpy(some, from, (size_t)count * sizeof(T));
    memcpy(last, some, sizeof some);
#endif
}

/* The sums of products of two images, for `high` taps: some rows of them. There are as many sums side
   by side as a unit has lanes, on every processor: the order is one. */
TG_INLINE void NAMED(dot_rows)(const int64_t *g, const T *x, const int64_t *offset, const T *y,
                               int64_t line, int64_t stop, int64_t start, double *total,
                               const int high) {
    const int64_t columns = g[OUT + 2], whole = columns / L * L, left = columns - whole;
    V sums[MOST_TAPS][VECTORS];
    for (int r = 0; r < high; r++)
        for (int v = 0; v < VECTORS; v++)
            sums[r][v] = (V){0};
    for (; line < stop; line++, y += columns) {
        const T *from[MOST_TAPS], *row = x + line_at(g, line) - start;
        for (int r = 0; r < high; r++)
            from[r] = row + offset[r];
        for (int64_t i = 0; i < whole; i += L)
            for (int v = 0; v < VECTORS; v++) {
                const V each = LOAD(y + i + v * LANES);
                for (int r = 0; r < high; r++)
                    sums[r][v] += LOAD(from[r] + i + v * LANES) * each;
            }
        if (!left)
            continue;
        V last[VECTORS], other[VECTORS];
        NAMED(load_last)(y + whole, left, last);
        for (int r = 0; r < high; r++) {
            NAMED(load_last)(from[r] + whole, left, other);
            for (int v = 0; v < VECTORS; v++)
                sums[r][v] += other[v] * last[v];
        }
    }
    for (int r = 0; r < high; r++) {
        double sum = 0;
        for (int v = 0; v < VECTORS; v++)
            for (int k = 0; k < LANES; k++)
                sum += (double)sums[r][v][k];
        total[r] += sum;
    }
}

/* Gradients of weights with sums in double, laid out (parts, groups, features, taps). */
static void NAMED(dot_parts)(void *context, int64_t begin, int64_t end) {
    arguments *given = context;
    const int64_t *n = given->n, *g = given->p[4], *offset = given->p[5];
    const int64_t images = n[0], groups = n[1], features = n[2], depth = n[3];
    const int64_t bands = n[BANDS], parts = n[PARTS], length = n[LENGTH], taps = depth * n[4];
    const int64_t size = n[UNITS] * g[OUT + 2], some = most(1024 / g[OUT + 2], 1);
    const int64_t pixels = g[SIZE] * g[SIZE + 1] * g[SIZE + 2];
    const int room = take_room(given, n[ROOMS]);
    T *x = NAMED(room)(given->p[6], room, n[ROOM]);
    for (int64_t task = begin; task < end; task++) {
        const int64_t group = task % groups, part = task / groups;
        double *total = (double *)given->p[2] + task * features * taps;
        memset(total, 0, (size_t)(features * taps) * sizeof(double));
        for (int64_t i = images * bands * part / parts; i < images * bands * (part + 1) / parts;
             i++) {
            const int64_t image = i / bands * groups + group, line = i % bands * n[EACH];
            const int64_t stop = least(line + n[EACH], n[UNITS]), start = line_at(g, line);
            NAMED(lay_channels)((const T *)given->p[0] + image * depth * pixels, g, depth, start,
                                length, length, x);
            for (int64_t l = line; l < stop; l += some)
                for (int64_t f = 0; f < features; f++) {
                    const T *y = (const T *)given->p[1] + (image * features + f) * size +
                                 l * g[OUT + 2];
                    const int64_t until = least(l + some, stop);
                    double *to = total + f * taps;
                    int64_t j = 0;
#define DOTS(high)                                                                                 \
    for (; j + high <= taps; j += high)                                                            \
        NAMED(dot_rows)(g, x, offset + j, y, l, until, start, to + j, high);
                    DOTS(MOST_TAPS)
                    DOTS(3)
                    DOTS(1)
#undef DOTS
                }
        }
    }
    leave_room(given, room);
}

static void NAMED(conv_dots)(void **p, const int64_t *n) {
    arguments given = {p, n, 0};
    const double each = NAMED(cost_of_part)(n, p[4]) * (double)n[2];
    tg_parallel(n[1] * n[PARTS], pieces(0.05, each), NAMED(dot_parts), &given);
    const int64_t weights = n[1] * n[2] * n[3] * n[4];
    for (int64_t i = 0; i < weights; i++) {
        double sum = 0;
        for (int64_t part = 0; part < n[PARTS]; part++)
            sum += ((const double *)p[2])[part * weights + i];
        ((T *)p[3])[i] = (T)sum;
    }
}

#undef V
#undef L
#undef LANES
#undef VECTORS
#undef LOAD
#undef STORE
