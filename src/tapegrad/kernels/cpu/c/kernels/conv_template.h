/* conv.c for one type T: outputs. */

/* The arguments of a task, for one block of features. */
typedef struct {
    const int64_t *g, *offset, *steps; /* steps of the output per channel, plane, row and column */
    const unit_t *unit;
    int64_t taps, start; /* place of the task's first unit */
    int64_t count;       /* features that there are */
    int direct;          /* whether neighbouring outputs are adjacent in memory */
    int every_second;    /* or every second element of a row is one */
    const T *x, *weight;
    T *out, bias[HIGHEST];
} NAMED(block);

/* The outputs of a unit, of some features, to where they belong: those that are outputs at all. */
static void NAMED(spread)(const NAMED(block) *given, const T *from, int64_t down,
                          const unit_t *unit) {
    const int64_t *g = given->g, *steps = given->steps, width = g[LAID + 2];
#ifdef STORE_SOME
    if (given->direct || given->every_second) {
        T *to = given->out + unit->to;
        for (int64_t r = 0; r < given->count; r++, to += steps[0], from += down)
            if (given->direct)
                STORE_SOME(to, unit->there, LOAD(from));
            else {
                STORE_EVEN(to, unit->there, LOAD(from));
            }
        return;
    }
#endif
    int64_t q = unit->at + given->start;
    const int64_t stop = q + (g[FLAT] ? L : least(L, g[OUT + 2]));
    while (q < stop) {
        const int64_t line = q / width, column = q % width;
        const int64_t row = line % g[LAID + 1], plane = line / g[LAID + 1];
        if (plane >= g[OUT])
            return;
        if (row < g[OUT + 1] && column < g[OUT + 2]) {
            const int64_t count = least(g[OUT + 2] - column, stop - q), step = steps[3];
            T *to = given->out + plane * steps[1] + row * steps[2] + column * step;
            for (int64_t r = 0; r < given->count; r++)
                for (int64_t i = 0; i < count; i++)
                    to[r * steps[0] + i * step] = from[r * down + i];
        }
        from += width - column;
        q += width - column;
    }
}

/* `high` features of `count` units. */
TG_INLINE void NAMED(tile)(const NAMED(block) *given, int64_t u, const int high, const int count) {
    const unit_t *unit = given->unit + u;
    V sums[HIGHEST][8];
    const T *from[8], *weight = given->weight;
    TG_UNROLL(8)
    for (int k = 0; k < count; k++)
        from[k] = given->x + unit[k].at;
    TG_UNROLL(8)
    for (int r = 0; r < high; r++)
        TG_UNROLL(8)
        for (int v = 0; v < count * VECTORS; v++)
            sums[r][v] = given->bias[r] - (V){0};
    const int64_t *offset = given->offset, *end = offset + given->taps;
    for (; offset < end; offset++, weight += high) {
        V x[8];
        TG_UNROLL(8)
        for (int v = 0; v < count * VECTORS; v++)
            x[v] = LOAD(from[v / VECTORS] + *offset + v % VECTORS * LANES);
        TG_UNROLL(8)
        for (int r = 0; r < high; r++)
            TG_UNROLL(8)
            for (int v = 0; v < count * VECTORS; v++)
                sums[r][v] += weight[r] * x[v];
    }
    int whole = given->direct && given->count == high;
    TG_UNROLL(8)
    for (int k = 0; k < count; k++)
        whole &= unit[k].there == ALL_THERE;
    if (whole) {
        TG_UNROLL(8)
        for (int r = 0; r < high; r++)
            TG_UNROLL(8)
            for (int v = 0; v < count * VECTORS; v++)
                STORE(given->out + r * given->steps[0] + unit[v / VECTORS].to +
                          v % VECTORS * LANES,
                      sums[r][v]);
        return;
    }
    T apart[HIGHEST * 8 * LANES];
    TG_UNROLL(8)
    for (int r = 0; r < high; r++)
        TG_UNROLL(8)
        for (int v = 0; v < count * VECTORS; v++)
            STORE(apart + (r * count * VECTORS + v) * LANES, sums[r][v]);
    TG_UNROLL(8)
    for (int k = 0; k < count; k++)
        NAMED(spread)(given, apart + k * L, count * L, unit + k);
}

/* Where the units of a task are. A row's last one begins early enough to be whole. */
static void NAMED(find_units)(const int64_t *g, const int64_t *steps, int64_t first, int64_t last,
                              int64_t start, unit_t *unit) {
    const int64_t columns = g[OUT + 2], width = g[LAID + 2], by_row = ratio(columns, L);
    for (int64_t u = first; u < last; u++, unit++) {
        int64_t line = u / by_row, column = u % by_row * L;
        if (g[FLAT]) {
            line = u * L / width; /* of the layout */
            column = u * L % width;
            const int64_t row = line % g[LAID + 1], plane = line / g[LAID + 1];
            /* Outputs that are before this one: it may be between two rows. */
            unit->at = u * L - start;
            unit->to = plane * steps[1] + least(row, g[OUT + 1]) * steps[2];
            if (row < g[OUT + 1])
                unit->to += least(column, columns);
            unit->there = 0;
            for (int64_t k = 0; k < L; k++) {
                if (line / g[LAID + 1] < g[OUT] && line % g[LAID + 1] < g[OUT + 1] &&
                    column < columns)
                    unit->there |= 1u << k;
                if (++column == width) {
                    column = 0;
                    line++;
                }
            }
            continue;
        }
        if (columns >= L)
            column = least(column, columns - L);
        unit->at = line_at(g, line) + column - start;
        unit->to = line / g[OUT + 1] * steps[1] + line % g[OUT + 1] * steps[2] + column * steps[3];
        unit->there = columns >= L ? ALL_THERE : (1u << columns) - 1;
    }
}

/* All units of a task, for blocks of `high` features: so many at once as there are registers for. */
#define COUNTS(high) ((high) > 4 ? 2 : (high) > 1 ? 4 : 8)
#define BLOCKS(high)                                                                               \
    case high:                                                                                     \
        if (high > HIGHEST)                                                                        \
            break;                                                                                 \
        for (; u + COUNTS(high) / VECTORS <= end; u += COUNTS(high) / VECTORS)                     \
            NAMED(tile)(given, u, high, COUNTS(high) / VECTORS);                                  \
        if (COUNTS(high) / VECTORS > 4)                                                            \
            for (; u + 4 <= end; u += 4)                                                           \
                NAMED(tile)(given, u, high, 4);                                                   \
        if (COUNTS(high) / VECTORS > 2)                                                            \
            for (; u + 2 <= end; u += 2)                                                           \
                NAMED(tile)(given, u, high, 2);                                                   \
        for (; u < end; u++)                                                                       \
            NAMED(tile)(given, u, high, 1);                                                       \
        break;
static void NAMED(all_units)(const NAMED(block) *given, int64_t end, int64_t high) {
    int64_t u = 0;
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
   band, bands, parts of the features, elements of a band, rooms, the elements of one and how many of
   them are for x */
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
    unit_t *unit = (unit_t *)(void *)(x + n[FOR_X]);
    NAMED(block) block = {.g = g,
                          .offset = given->p[6],
                          .steps = n + 9,
                          .unit = unit,
                          .taps = depth * n[4],
                          .x = x};
    /* Units that go across rows need rows that follow each other without gaps. */
    block.direct = n[12] == 1 && (!g[FLAT] || (n[11] == g[OUT + 2] && n[10] == n[11] * g[OUT + 1]));
    block.every_second = n[12] == 2 && !g[FLAT];
    for (int64_t task = begin, laid = -1, found = -1; task < end; task++) {
        const int64_t part = task % parts, band = task / parts % bands;
        const int64_t group = task / parts / bands % groups, image = task / parts / bands / groups;
        const int64_t first = band * n[EACH];
        const int64_t last = least(first + n[EACH], n[UNITS]);
        if (laid != task / parts) { /* not for another part of the features already */
            laid = task / parts;
            block.start = g[FLAT] ? first * L : line_at(g, first / ratio(g[OUT + 2], L));
            const T *from = (const T *)given->p[0] + (image * groups + group) * depth * size;
            NAMED(lay_channels)(from, g, depth, block.start, each, each, x);
            if (found != band)
                NAMED(find_units)(g, n + 9, first, last, block.start, unit);
            found = band;
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
            NAMED(all_units)(&block, last - first, high);
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
