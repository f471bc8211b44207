/* recurrent.c for one type: T, with its TANH and SIGMOID. */

/* p: gates (what the input adds to them, at first), states before the first step, cells before it,
   weight (4 width x width), cells, out, walk, room for the packed weight; n: sequences, steps,
   width */
TG_VERSIONS static void NAMED(lstm_rows)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t steps = given->n[1], width = given->n[2], wide = 4 * width;
    const step *walk = given->p[6];
    T *gates = given->p[0], *cells = given->p[4], *out = given->p[5];
    const T *hx = given->p[1], *cx = given->p[2], *weight = given->p[7];
    step last = {0, 0};
    for (int64_t s = 0; s < steps; s++) {
        const step now = walk[s];
        const int64_t stop = lesser(now.count, end);
        /* Sequences that go on, and those that begin. */
        const int64_t known = lesser(stop, last.count);
        T *gate = gates + now.first * wide;
        if (known > begin)
            NAMED(tg_by_packed)(known - begin, wide, width, 1, out + (last.first + begin) * width,
                                width, 1, weight, 1, gate + begin * wide, wide);
        const int64_t fresh = known > begin ? known : begin;
        if (stop > fresh)
            NAMED(tg_by_packed)(stop - fresh, wide, width, 1, hx + fresh * width, width, 1, weight,
                                1, gate + fresh * wide, wide);
        for (int64_t row = begin; row < stop; row++) {
            T *restrict i = gate + row * wide, *restrict f = i + width, *restrict g = f + width,
                        *restrict o = g + width;
            T *restrict cell = cells + (now.first + row) * width;
            T *restrict h = out + (now.first + row) * width;
            const T *restrict before = row < known ? cells + (last.first + row) * width
                                                   : cx + row * width;
#pragma GCC ivdep
            for (int64_t k = 0; k < 2 * width; k++)
                i[k] = SIGMOID(i[k]);
#pragma GCC ivdep
            for (int64_t k = 0; k < width; k++)
                g[k] = TANH(g[k]);
#pragma GCC ivdep
            for (int64_t k = 0; k < width; k++)
                o[k] = SIGMOID(o[k]);
#pragma GCC ivdep
            for (int64_t k = 0; k < width; k++) {
                const T c = f[k] * before[k] + g[k] * i[k];
                cell[k] = c;
                h[k] = TANH(c) * o[k];
            }
        }
        last = now;
    }
}
void NAMED(tg_lstm)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    NAMED(tg_pack)(n[2], 4 * n[2], p[3], 1, n[2], p[7]);
    tg_parallel(n[0], SEQUENCES, NAMED(lstm_rows), &given);
}

/* p: gradients of out and of cells (or NULL), cells before the first step, weight, cells, gates,
   gradient of the sums inside the gates, those of the states and cells before the first step (zeros
   at first; they pass from step to step in there), walk, room for the packed weight; n: sequences,
   steps, width */
TG_VERSIONS static void NAMED(lstm_rows_back)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t steps = given->n[1], width = given->n[2], wide = 4 * width;
    const step *walk = given->p[9];
    const T *to_out = given->p[0], *to_cells = given->p[1], *cx = given->p[2];
    const T *weight = given->p[10], *cells = given->p[4], *gates = given->p[5];
    T *to_gates = given->p[6], *to_h = given->p[7], *to_c = given->p[8];
    for (int64_t s = steps - 1; s >= 0; s--) {
        const step now = walk[s], last = s ? walk[s - 1] : (step){0, 0};
        const int64_t stop = lesser(now.count, end);
        for (int64_t row = begin; row < stop; row++) {
            const int64_t at = now.first + row;
            const T *restrict i = gates + at * wide, *restrict f = i + width,
                              *restrict g = f + width, *restrict o = g + width;
            const T *restrict cell = cells + at * width;
            const T *restrict before = row < last.count ? cells + (last.first + row) * width
                                                        : cx + row * width;
            T *restrict di = to_gates + at * wide, *restrict df = di + width,
                        *restrict dg = df + width, *restrict d_o = dg + width;
            T *restrict carry_h = to_h + row * width, *restrict carry_c = to_c + row * width;
            if (to_out)
                for (int64_t k = 0; k < width; k++)
                    carry_h[k] += to_out[at * width + k];
            if (to_cells)
                for (int64_t k = 0; k < width; k++)
                    carry_c[k] += to_cells[at * width + k];
#pragma GCC ivdep
            for (int64_t k = 0; k < width; k++) {
                const T t = TANH(cell[k]), dh = carry_h[k];
                const T dc = dh * (o[k] * (1 - t * t)) + carry_c[k];
                di[k] = dc * (i[k] * (1 - i[k]) * g[k]);
                df[k] = dc * (f[k] * (1 - f[k]) * before[k]);
                dg[k] = dc * ((1 - g[k] * g[k]) * i[k]);
                d_o[k] = dh * (o[k] * (1 - o[k]) * t);
                carry_c[k] = dc * f[k];
            }
        }
        if (stop > begin)
            NAMED(tg_by_packed)(stop - begin, width, wide, 1, to_gates + (now.first + begin) * wide,
                                wide, 1, weight, 0, to_h + begin * width, width);
    }
}
void NAMED(tg_lstm_back)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    NAMED(tg_pack)(4 * n[2], n[2], p[3], n[2], 1, p[10]);
    tg_parallel(n[0], SEQUENCES, NAMED(lstm_rows_back), &given);
}
