/* recurrent.c for one type: T, with its TANH and SIGMOID. */

/* to = beta to + weight (state before the step), for the sequences from `begin` to `stop`: those up to
   `known` go on (their state is in `out`), the others begin (theirs is in `hx`). `wide` columns, in
   rows of `apart`; `to` is the row of the first sequence. */
TG_INLINE void NAMED(add_states)(int64_t begin, int64_t known, int64_t stop, int64_t width,
                                 int64_t wide, step last, const T *out, const T *hx,
                                 const T *weight, T beta, T *to, int64_t apart) {
    if (known > begin)
        NAMED(tg_by_packed)(known - begin, wide, width, 1, out + (last.first + begin) * width, width,
                            1, weight, beta, to + begin * apart, apart);
    const int64_t fresh = known > begin ? known : begin;
    if (stop > fresh)
        NAMED(tg_by_packed)(stop - fresh, wide, width, 1, hx + fresh * width, width, 1, weight, beta,
                            to + fresh * apart, apart);
}

/* ------------------------------------------------------------------ LSTM */

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
        /* Sequences [begin, known) have a state from the last step; the others begin here. */
        const int64_t known = lesser(stop, last.count);
        T *gate = gates + now.first * wide;
        NAMED(add_states)(begin, known, stop, width, wide, last, out, hx, weight, 1, gate, wide);
        for (int64_t row = begin; row < stop; row++) {
            T *restrict i = gate + row * wide, *restrict f = i + width, *restrict g = f + width,
                        *restrict o = g + width;
            T *restrict cell = cells + (now.first + row) * width;
            T *restrict h = out + (now.first + row) * width;
            const T *restrict before = row < known ? cells + (last.first + row) * width
                                                   : cx + row * width;
            TG_INDEPENDENT
            for (int64_t k = 0; k < 2 * width; k++)
                i[k] = SIGMOID(i[k]);
            TG_INDEPENDENT
            for (int64_t k = 0; k < width; k++)
                g[k] = TANH(g[k]);
            TG_INDEPENDENT
            for (int64_t k = 0; k < width; k++)
                o[k] = SIGMOID(o[k]);
            TG_INDEPENDENT
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
            TG_INDEPENDENT
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

/* A step whose sums are there, with all that its ops make one by one. p: sums (rows x 4 width), cells
   before; i, f, g, o, f c, i g, cells, their tanh, states; n: rows, width */
TG_VERSIONS static void NAMED(lstm_step_rows)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t width = given->n[1];
    for (int64_t row = begin; row < end; row++) {
        const T *restrict sums = (const T *)given->p[0] + row * 4 * width;
        const T *restrict before = (const T *)given->p[1] + row * width;
        T *restrict to[9];
        for (int k = 0; k < 9; k++)
            to[k] = (T *)given->p[2 + k] + row * width;
        T *restrict i = to[0], *restrict f = to[1], *restrict g = to[2], *restrict o = to[3];
        T *restrict forgotten = to[4], *restrict fresh = to[5], *restrict cell = to[6];
        T *restrict squashed = to[7], *restrict h = to[8];
        TG_INDEPENDENT
        for (int64_t k = 0; k < width; k++)
            i[k] = SIGMOID(sums[k]);
        TG_INDEPENDENT
        for (int64_t k = 0; k < width; k++)
            f[k] = SIGMOID(sums[width + k]);
        TG_INDEPENDENT
        for (int64_t k = 0; k < width; k++)
            g[k] = TANH(sums[2 * width + k]);
        TG_INDEPENDENT
        for (int64_t k = 0; k < width; k++)
            o[k] = SIGMOID(sums[3 * width + k]);
        TG_INDEPENDENT
        for (int64_t k = 0; k < width; k++) {
            forgotten[k] = f[k] * before[k];
            fresh[k] = i[k] * g[k];
            cell[k] = forgotten[k] + fresh[k];
            squashed[k] = TANH(cell[k]);
            h[k] = o[k] * squashed[k];
        }
    }
}
void NAMED(tg_lstm_step)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    const int64_t grain = tg_grain(10) / n[1];
    tg_parallel(n[0], grain > 0 ? grain : 1, NAMED(lstm_step_rows), &given);
}

/* ------------------------------------------------------------------ GRU */

/* p: what the input adds to the gates, states before the first step, weight (3 width x width), bias
   or NULL, gates (r, z, n and what r is multiplied by), out, walk, room for the packed weight; n:
   sequences, steps, width */
TG_VERSIONS static void NAMED(gru_rows)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t steps = given->n[1], width = given->n[2], wide = 4 * width;
    const step *walk = given->p[6];
    const T *input = given->p[0], *hx = given->p[1], *bias = given->p[3], *weight = given->p[7];
    T *gates = given->p[4], *out = given->p[5];
    step last = {0, 0};
    for (int64_t s = 0; s < steps; s++) {
        const step now = walk[s];
        const int64_t stop = lesser(now.count, end);
        const int64_t known = lesser(stop, last.count);
        T *gate = gates + now.first * wide;
        /* The states' part of the gates is stored one place to the right of r, z and n. */
        NAMED(add_states)(begin, known, stop, width, 3 * width, last, out, hx, weight, 0,
                          gate + width, wide);
        for (int64_t row = begin; bias && row < stop; row++)
            for (int64_t k = 0; k < 3 * width; k++)
                gate[row * wide + width + k] += bias[k];
        for (int64_t row = begin; row < stop; row++) {
            const T *restrict x = input + (now.first + row) * 3 * width;
            T *restrict r = gate + row * wide, *restrict z = r + width, *restrict n = z + width,
                        *restrict hidden = n + width;
            T *restrict h = out + (now.first + row) * width;
            const T *restrict before = row < known ? out + (last.first + row) * width
                                                   : hx + row * width;
            TG_INDEPENDENT
            for (int64_t k = 0; k < width; k++)
                r[k] = SIGMOID(x[k] + z[k]);
            TG_INDEPENDENT
            for (int64_t k = 0; k < width; k++)
                z[k] = SIGMOID(x[width + k] + n[k]);
            TG_INDEPENDENT
            for (int64_t k = 0; k < width; k++) {
                n[k] = TANH(x[2 * width + k] + hidden[k] * r[k]);
                h[k] = (before[k] - n[k]) * z[k] + n[k];
            }
        }
        last = now;
    }
}
void NAMED(tg_gru)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    NAMED(tg_pack)(n[2], 3 * n[2], p[2], 1, n[2], p[7]);
    tg_parallel(n[0], SEQUENCES, NAMED(gru_rows), &given);
}

/* p: gradient of out, states before the first step, weight, out, gates, gradients of what the input
   and of what the states add to the gates, that of the states before the first step (zeros at
   first), walk, room for the packed weight; n: sequences, steps, width */
TG_VERSIONS static void NAMED(gru_rows_back)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t steps = given->n[1], width = given->n[2], wide = 3 * width;
    const step *walk = given->p[8];
    const T *to_out = given->p[0], *hx = given->p[1], *out = given->p[3], *gates = given->p[4];
    const T *weight = given->p[9];
    T *to_input = given->p[5], *to_inner = given->p[6], *to_h = given->p[7];
    for (int64_t s = steps - 1; s >= 0; s--) {
        const step now = walk[s], last = s ? walk[s - 1] : (step){0, 0};
        const int64_t stop = lesser(now.count, end);
        for (int64_t row = begin; row < stop; row++) {
            const int64_t at = now.first + row;
            const T *restrict r = gates + at * 4 * width, *restrict z = r + width,
                              *restrict n = z + width, *restrict hidden = n + width;
            const T *restrict before = row < last.count ? out + (last.first + row) * width
                                                        : hx + row * width;
            const T *restrict grad = to_out + at * width;
            T *restrict dr = to_inner + at * wide, *restrict dz = dr + width,
                        *restrict d_hidden = dz + width;
            T *restrict dn = to_input + at * wide + 2 * width, *restrict carry = to_h + row * width;
            TG_INDEPENDENT
            for (int64_t k = 0; k < width; k++) {
                const T dh = carry[k] + grad[k];
                const T slope = (1 - z[k]) * (1 - n[k] * n[k]);
                dr[k] = dh * (slope * hidden[k] * (r[k] * (1 - r[k])));
                dz[k] = dh * ((before[k] - n[k]) * (z[k] * (1 - z[k])));
                d_hidden[k] = dh * (slope * r[k]);
                dn[k] = dh * slope;
                carry[k] = dh * z[k];
            }
            memcpy(to_input + at * wide, dr, (size_t)(2 * width) * sizeof(T));
        }
        if (stop > begin)
            NAMED(tg_by_packed)(stop - begin, width, wide, 1, to_inner + (now.first + begin) * wide,
                                wide, 1, weight, 1, to_h + begin * width, width);
    }
}
void NAMED(tg_gru_back)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    NAMED(tg_pack)(3 * n[2], n[2], p[2], n[2], 1, p[9]);
    tg_parallel(n[0], SEQUENCES, NAMED(gru_rows_back), &given);
}

/* ------------------------------------------------------------------ tanh and relu */

/* p: out (what the input adds, at first), states before the first step, weight (width x width), walk,
   room for the packed weight; n: sequences, steps, width, relu */
TG_VERSIONS static void NAMED(rnn_rows)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t steps = given->n[1], width = given->n[2], relu = given->n[3];
    const step *walk = given->p[3];
    T *out = given->p[0];
    const T *hx = given->p[1], *weight = given->p[4];
    step last = {0, 0};
    for (int64_t s = 0; s < steps; s++) {
        const step now = walk[s];
        const int64_t stop = lesser(now.count, end);
        const int64_t known = lesser(stop, last.count);
        T *to = out + now.first * width;
        NAMED(add_states)(begin, known, stop, width, width, last, out, hx, weight, 1, to, width);
        if (relu)
            for (int64_t k = begin * width; k < stop * width; k++)
                to[k] = to[k] <= 0 ? 0 : to[k]; /* NaN stays */
        else
            for (int64_t k = begin * width; k < stop * width; k++)
                to[k] = TANH(to[k]);
        last = now;
    }
}
void NAMED(tg_rnn)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    NAMED(tg_pack)(n[2], n[2], p[2], 1, n[2], p[4]);
    tg_parallel(n[0], SEQUENCES, NAMED(rnn_rows), &given);
}

/* p: gradient of out, weight, out, gradient of what the input adds, that of the states before the
   first step (zeros at first), walk, room for the packed weight; n: sequences, steps, width, relu */
TG_VERSIONS static void NAMED(rnn_rows_back)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t steps = given->n[1], width = given->n[2], relu = given->n[3];
    const step *walk = given->p[5];
    const T *to_out = given->p[0], *out = given->p[2], *weight = given->p[6];
    T *to_input = given->p[3], *to_h = given->p[4];
    for (int64_t s = steps - 1; s >= 0; s--) {
        const int64_t stop = lesser(walk[s].count, end), first = walk[s].first * width;
        const T *restrict grad = to_out + first, *restrict y = out + first;
        T *restrict d = to_input + first;
        for (int64_t k = begin * width; k < stop * width; k++)
            d[k] = (grad[k] + to_h[k]) * (relu ? (T)(y[k] > 0) : 1 - y[k] * y[k]);
        if (stop > begin)
            NAMED(tg_by_packed)(stop - begin, width, width, 1, d + begin * width, width, 1, weight,
                                0, to_h + begin * width, width);
    }
}
void NAMED(tg_rnn_back)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    NAMED(tg_pack)(n[2], n[2], p[1], n[2], 1, p[6]);
    tg_parallel(n[0], SEQUENCES, NAMED(rnn_rows_back), &given);
}
