/* conv.c for one type T: how images, gradients and weights are laid out. */

typedef T NAMED(wide) __attribute__((vector_size(WIDE)));
typedef T NAMED(loose) __attribute__((vector_size(WIDE), aligned(sizeof(T)), may_alias));
#define V NAMED(wide)
#define LANES ((int64_t)(WIDE / sizeof(T)))
#define L ((int64_t)(UNIT / sizeof(T))) /* elements of a unit */
#define VECTORS (UNIT / WIDE)           /* of a unit */
#define LOAD(at) ((V) * (const NAMED(loose) *)(at))
#define STORE(at, v) (*(NAMED(loose) *)(at) = (NAMED(loose))(v))

/* A division is slow, and most strides are one: test that first. */
TG_INLINE int64_t NAMED(steps)(int64_t a, int64_t b) { return b == 1 ? a : ratio(a, b); }

TG_INLINE void NAMED(copy_few)(T *restrict out, const T *restrict from, int64_t count,
                               int64_t step) {
    if (step == 1 && count >= LANES) {
        for (int64_t i = 0; i < count - LANES; i += LANES)
            STORE(out + i, LOAD(from + i));
        STORE(out + count - LANES, LOAD(from + count - LANES)); /* the last ones once more */
        return;
    }
    for (int64_t i = 0; i < count; i++)
        out[i] = from[i * step];
}

#ifdef LOAD_SOME
/* Whole rows of a layout, of which those from `first` to `last` are inside the image: row by row
   `down` elements on from `in`, every one or second, in the lanes that `inside` has. Up to L places
   after it may be overwritten. */
TG_INLINE void NAMED(lay_rows)(const T *in, int64_t down, int64_t first, int64_t last, int64_t rows,
                               int64_t width, const unsigned *inside, const int vectors, const int step,
                               T *out) {
    for (int64_t i = 0; i < first * width; i += L)
        STORE(out + i, (V){0});
    for (int64_t row = first; row < last; row++, in += down)
        for (int k = 0; k < vectors; k++)
            STORE(out + row * width + k * L, step == 1 ? LOAD_SOME(in + k * L, inside[k])
                                                       : LOAD_EVEN(in + 2 * k * L, inside[k]));
    for (int64_t i = last * width; i < rows * width; i += L)
        STORE(out + i, (V){0});
}
#endif

/* Places q to q + length of the layout of one channel `x`, for one phase. */
static void NAMED(lay)(const T *x, const int64_t *g, const int64_t *phase, int64_t q,
                       int64_t length, T *out) {
    const int64_t width = g[LAID + 2], step = g[STRIDE + 2], shift = phase[2] - g[LOW + 2];
    /* The columns that are inside the image: first <= column < last; likewise rows. */
    const int64_t first = shift < 0 ? NAMED(steps)(-shift, step) : 0;
    const int64_t last = g[SIZE + 2] > shift ? NAMED(steps)(g[SIZE + 2] - shift, step) : 0;
    int64_t column = 0, row = 0, plane = 0;
    if (q) {
        column = q % width;
        row = q / width % g[LAID + 1];
        plane = q / width / g[LAID + 1];
    }
#ifdef LOAD_SOME
    const int64_t whole = width * g[LAID + 1], vectors = step < 3 ? ratio(width, L) : 0;
    const int64_t above = g[LOW + 1] - phase[1], under = above + g[SIZE + 1];
    const int64_t top = above > 0 ? NAMED(steps)(above, g[STRIDE + 1]) : 0;
    const int64_t bottom = under > 0 ? NAMED(steps)(under, g[STRIDE + 1]) : 0;
    unsigned inside[4];
    for (int k = 0; k < 4; k++)
        inside[k] = ((1u << least(most(last - k * L, 0), L)) - 1) &
                    ~((1u << least(most(first - k * L, 0), L)) - 1);
#endif
    while (length > 0) {
        const int64_t a = plane * g[STRIDE] + phase[0] - g[LOW];
        const int there = plane < g[LAID] && a >= 0 && a < g[SIZE];
#ifdef LOAD_SOME
        if (vectors > 0 && vectors <= 4 && column == 0 && length >= width) {
            const int64_t rows = least(g[LAID + 1] - row, row || length < whole ? length / width : g[LAID + 1]);
            const int64_t from = there ? least(most(top - row, 0), rows) : rows;
            const int64_t to = there ? least(most(bottom - row, from), rows) : rows;
            const int64_t b = (row + from) * g[STRIDE + 1] - above, down = g[STRIDE + 1] * g[SIZE + 2];
            const T *in = x + (a * g[SIZE + 1] + b) * g[SIZE + 2] + shift;
            switch (step * 8 + vectors) {
#define ROWS(step, count)                                                                          \
    case step * 8 + count:                                                                         \
        NAMED(lay_rows)(in, down, from, to, rows, width, inside, count, step, out);                \
        break;
                ROWS(1, 1) ROWS(1, 2) ROWS(1, 3) ROWS(1, 4) ROWS(2, 1) ROWS(2, 2) ROWS(2, 3) ROWS(2, 4)
#undef ROWS
            }
            out += rows * width;
            length -= rows * width;
            row += rows;
            if (row == g[LAID + 1]) {
                row = 0;
                plane++;
            }
            continue;
        }
#endif
        const int64_t count = least(width - column, length), end = column + count;
        const int64_t b = row * g[STRIDE + 1] + phase[1] - g[LOW + 1];
        int64_t from = end, to = end;
        if (there && b >= 0 && b < g[SIZE + 1]) {
            from = least(most(first, column), end);
            to = least(most(last, from), end);
        }
        for (int64_t i = column; i < from; i++)
            out[i - column] = 0;
        if (from < to)
            NAMED(copy_few)(out + from - column,
                            x + (a * g[SIZE + 1] + b) * g[SIZE + 2] + from * step + shift,
                            to - from, step);
        for (int64_t i = to; i < end; i++)
            out[i - column] = 0;
        out += count;
        length -= count;
        column = 0;
        if (++row == g[LAID + 1]) {
            row = 0;
            plane++;
        }
    }
}

/* `depth` channels of an image, `each` elements apart for every channel and phase. */
static void NAMED(lay_channels)(const T *x, const int64_t *g, int64_t depth, int64_t q,
                                int64_t length, int64_t each, T *out) {
    const int64_t size = g[SIZE] * g[SIZE + 1] * g[SIZE + 2];
    for (int64_t c = 0; c < depth; c++)
        for (int64_t k = 0; k < g[PHASES]; k++, out += each)
            NAMED(lay)(x + c * size, g, g + FIRST + 3 * k, q, length, out);
}

typedef T NAMED(side) __attribute__((vector_size(32)));
typedef T NAMED(loose_side) __attribute__((vector_size(32), aligned(sizeof(T)), may_alias));

/* A square of Q times Q elements, transposed. */
TG_INLINE void NAMED(turn_square)(const T *from, int64_t down, T *out, int64_t out_down) {
    NAMED(side) rows[Q];
    for (int r = 0; r < Q; r++)
        rows[r] = (NAMED(side)) * (const NAMED(loose_side) *)(from + r * down);
#define LIST(...) __VA_ARGS__
#define SWAP(s, low, high)                                                                         \
    for (int r = 0; r < Q; r++)                                                                    \
        if (!(r & s)) {                                                                            \
            const NAMED(side) a = rows[r], b = rows[r + s];                                        \
            rows[r] = TG_SHUFFLE(PLACES, a, b, LIST low);                                          \
            rows[r + s] = TG_SHUFFLE(PLACES, a, b, LIST high);                                     \
        }
    TURN_ALL(SWAP)
#undef SWAP
#undef LIST
    for (int r = 0; r < Q; r++)
        *(NAMED(loose_side) *)(out + r * out_down) = (NAMED(loose_side))rows[r];
}

/* out (columns, rows) = from (rows, columns), transposed. */
static void NAMED(turn)(const T *from, int64_t down, int64_t rows, int64_t columns, T *out,
                        int64_t out_down) {
    const int64_t high = rows / Q * Q, wide = columns / Q * Q;
    for (int64_t i = 0; i < wide; i += Q)
        for (int64_t r = 0; r < high; r += Q)
            NAMED(turn_square)(from + r * down + i, down, out + i * out_down + r, out_down);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = r < high ? wide : 0; i < columns; i++)
            out[i * out_down + r] = from[r * down + i];
}

/* Weights in blocks of `high` features side by side: (groups, blocks, depth, taps, high). p: weights,
   places of the taps in them, packed; n: groups, features, depth, taps, high, steps in the weights per
   group, feature and channel */
static void NAMED(pack_blocks)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t *n = given->n, *place = given->p[1];
    const int64_t features = n[1], depth = n[2], taps = n[3], high = n[4];
    const int64_t blocks = ratio(features, high);
    int in_order = 1;
    for (int64_t t = 0; t < taps; t++)
        in_order &= place[t] == t;
    for (int64_t task = begin; task < end; task++) {
        const int64_t first = task % blocks * high, count = least(high, features - first);
        const T *w = (const T *)given->p[0] + task / blocks * n[5] + first * n[6];
        T *out = (T *)given->p[2] + task * depth * taps * high;
        if (in_order && count == high) {
            const int64_t some = n[7] == taps ? depth : 1; /* channels side by side */
            for (int64_t c = 0; c < depth; c += some, out += some * taps * high)
                NAMED(turn)(w + c * n[7], n[6], high, some * taps, out, high);
            continue;
        }
        for (int64_t c = 0; c < depth; c++)
            for (int64_t t = 0; t < taps; t++, out += high)
                for (int64_t r = 0; r < high; r++)
                    out[r] = r < count ? w[c * n[7] + place[t] + r * n[6]] : 0;
    }
}

/* Where a room begins: at a line of the cache. */
TG_INLINE T *NAMED(room)(void *rooms, int64_t index, int64_t elements) {
    return (T *)(((uintptr_t)rooms + 63) / 64 * 64) + index * elements;
}
