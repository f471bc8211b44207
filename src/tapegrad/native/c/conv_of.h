/* conv.c for one type T: outputs. */

/* What a task computes with: n and p as given, and one block of features. */
typedef struct {
    const int64_t *g, *offset, *steps; /* steps of the output per channel, plane, row and column */
    int64_t taps, units, start;        /* units of a row, place of the task's first unit */
    const T *x, *weight;
    T *out;
    int64_t count; /* features that there are */
    T bias[HIGHEST];
} NAMED(block);

/* Sums of `high` features at `vectors` places. */
TG_INLINE void NAMED(tile)(const NAMED(block) *given, const int64_t *at, T *out, int64_t down,
                           const int64_t *to, const int high, const int vectors) {
    V sums[HIGHEST][8];
    const T *from[8], *weight = given->weight;
    for (int v = 0; v < vectors; v++)
        from[v] = given->x + at[v];
    for (int r = 0; r < high; r++)
        for (int v = 0; v < vectors; v++)
            sums[r][v] = given->bias[r] - (V){0};
    const int64_t *offset = given->offset, *end = offset + given->taps;
    for (; offset < end; offset++, weight += high) {
        V x[8];
        for (int v = 0; v < vectors; v++)
            x[v] = LOAD(from[v] + *offset);
        for (int r = 0; r < high; r++)
            for (int v = 0; v < vectors; v++)
                sums[r][v] += weight[r] * x[v];
    }
    for (int r = 0; r < high; r++)
        for (int v = 0; v < vectors; v++)
            STORE(out + r * down + to[v], sums[r][v]);
}

/* The outputs of a unit from place q on, of one feature, to where they belong. */
static void NAMED(spread)(const NAMED(block) *given, const T *from, T *out, int64_t q) {
    const int64_t *g = given->g, *steps = given->steps;
    const int64_t stop = q + (g[FLAT] ? L : least(L, g[OUT + 2]));
    while (q < stop) {
        const int64_t line = q / g[LAID + 2], column = q % g[LAID + 2];
        const int64_t row = line % g[LAID + 1], plane = line / g[LAID + 1];
        if (plane >= g[OUT])
            return;
        if (row < g[OUT + 1] && column < g[OUT + 2]) {
            const int64_t count = least(g[OUT + 2] - column, stop - q);
            T *to = out + plane * steps[1] + row * steps[2] + column * steps[3];
            if (steps[3] == 1)
                for (int64_t i = 0; i < count; i++)
                    to[i] = from[i];
            else
                for (int64_t i = 0; i < count; i++)
                    to[i * steps[3]] = from[i];
        }
        from += g[LAID + 2] - column;
        q += g[LAID + 2] - column;
    }
}

/* `count` units from number `u` on. A row's last unit begins early enough to be whole. */
TG_INLINE void NAMED(units)(const NAMED(block) *given, int64_t u, const int high, const int count) {
    const int64_t *g = given->g, *steps = given->steps;
    int64_t place[8], at[8], to[8];
    T sums[HIGHEST * 8 * L]; /* where outputs cannot go to their places at once */
    const int direct =
        !g[FLAT] && g[OUT + 2] >= L && steps[3] == 1 && given->count == high;
    for (int k = 0; k < count; k++) {
        int64_t line = 0, column = (u + k) * L;
        if (!g[FLAT]) {
            line = (u + k) / given->units;
            column = (u + k) % given->units * L;
            if (g[OUT + 2] >= L)
                column = least(column, g[OUT + 2] - L);
        }
        place[k] = line_at(g, line) + column;
        for (int v = 0; v < VECTORS; v++) {
            at[k * VECTORS + v] = place[k] - given->start + v * LANES;
            to[k * VECTORS + v] =
                v * LANES + (direct ? line / g[OUT + 1] * steps[1] +
                                          line % g[OUT + 1] * steps[2] + column
                                    : k * L);
        }
    }
    NAMED(tile)(given, at, direct ? given->out : sums, direct ? steps[0] : count * L, to, high,
                count * VECTORS);
    for (int r = 0; !direct && r < given->count; r++)
        for (int k = 0; k < count; k++)
            NAMED(spread)(given, sums + (r * count + k) * L, given->out + r * steps[0], place[k]);
}

/* All units of a task, for blocks of `high` features: so many at once as there are registers for. */
#define COUNTS(high) ((high) > 4 ? 2 : (high) > 1 ? 4 : 8)
#define BLOCKS(high)                                                                               \
    case high:                                                                                     \
        if (high > HIGHEST)                                                                        \
            break;                                                                                 \
        for (; u + COUNTS(high) / VECTORS <= end; u += COUNTS(high) / VECTORS)                     \
            NAMED(units)(given, u, high, COUNTS(high) / VECTORS);                                  \
        if (COUNTS(high) / VECTORS > 4)                                                            \
            for (; u + 4 <= end; u += 4)                                                           \
                NAMED(units)(given, u, high, 4);                                                   \
        if (COUNTS(high) / VECTORS > 2)                                                            \
            for (; u + 2 <= end; u += 2)                                                           \
                NAMED(units)(given, u, high, 2);                                                   \
        for (; u < end; u++)                                                                       \
            NAMED(units)(given, u, high, 1);                                                       \
        break;
static void NAMED(all_units)(const NAMED(block) *given, int64_t u, int64_t end, int64_t high) {
    switch (high) {
        BLOCKS(1) BLOCKS(2) BLOCKS(3) BLOCKS(4) BLOCKS(5) BLOCKS(6)
#if HIGHEST > 6
        BLOCKS(7) BLOCKS(8)
#endif
    }
}
#undef BLOCKS
#undef COUNTS

/* p: x, weights, places of the taps in them, bias, out, geometry, offsets, room for the weights, rooms;
   n: images, groups, features of a group, channels of a group, taps, steps in the weights per group,
   feature and channel, steps in `out` per image, channel, plane, row and column, then units, of a
   band, bands, parts of the features, elements of a band, rooms and the elements of one */
static int64_t NAMED(high_of)(int64_t features) {
    return ratio(features, ratio(features, HIGHEST));
}

static void NAMED(conv_bands)(void *context, int64_t begin, int64_t end) {
    arguments *given = context;
    const int64_t *n = given->n, *g = given->p[5];
    const int64_t groups = n[1], features = n[2], depth = n[3];
    const int64_t bands = n[BANDS], parts = n[PARTS], each = n[LENGTH];
    const int64_t size = g[SIZE] * g[SIZE + 1] * g[SIZE + 2];
    const int64_t high = NAMED(high_of)(features), blocks = ratio(features, high);
    const int room = take_room(given, n[ROOMS]);
    T *x = NAMED(room)(given->p[8], room, n[ROOM]);
    NAMED(block) block = {.g = g,
                          .offset = given->p[6],
                          .steps = n + 9,
                          .taps = depth * n[4],
                          .units = ratio(g[OUT + 2], L),
                          .x = x};
    for (int64_t task = begin, laid = -1; task < end; task++) {
        const int64_t part = task % parts, band = task / parts % bands;
        const int64_t group = task / parts / bands % groups, image = task / parts / bands / groups;
        const int64_t first = band * n[EACH];
        const int64_t last = least(first + n[EACH], n[UNITS]);
        if (laid != task / parts) { /* not for another part of the features already */
            laid = task / parts;
            block.start = g[FLAT] ? first * L : line_at(g, first / block.units);
            const T *from = (const T *)given->p[0] + (image * groups + group) * depth * size;
            NAMED(lay_channels)(from, g, depth, block.start, each, each, x);
        }
        for (int64_t b = blocks * part / parts; b < blocks * (part + 1) / parts; b++) {
            const int64_t feature = group * features + b * high;
            block.count = least(high, features - b * high);
            block.weight =
                (const T *)given->p[7] + (group * blocks + b) * block.taps * high;
            block.out = (T *)given->p[4] + image * n[8] + feature * n[9];
            for (int64_t r = 0; r < high; r++)
                block.bias[r] =
                    given->p[3] && r < block.count ? ((const T *)given->p[3])[feature + r] : 0;
            NAMED(all_units)(&block, first, last, high);
        }
    }
    leave_room(given, room);
}

static void NAMED(conv)(void **p, const int64_t *n) {
    const int64_t high = NAMED(high_of)(n[2]), blocks = ratio(n[2], high);
    void *weights[] = {p[1], p[2], p[7]};
    const int64_t sizes[] = {n[1], n[2], n[3], n[4], high, n[5], n[6], n[7]};
    arguments packing = {weights, sizes, 0}, given = {p, n, 0};
    tg_parallel(n[1] * blocks, pieces(0.6, (double)(n[3] * n[4]) * (double)high),
                NAMED(pack_blocks), &packing);
    const int64_t tasks = n[0] * n[1] * n[BANDS] * n[PARTS];
    const double each = (double)(n[EACH] * L) * (double)(n[3] * n[4]) *
                        ((double)n[2] / (double)n[PARTS] + 8);
    tg_parallel(tasks, pieces(0.02, each), NAMED(conv_bands), &given);
}
