/*@ add_states_real */
/* to = keep * to + (state before the step) weight: `known` sequences go on, the others begin. */
static void add_states_real(int64_t known, int64_t count, int64_t width, int64_t wide,
                            const real *last, const real *hx, const real *turned, real keep,
                            real *to, int64_t apart) {
    if (known)
        scaled_product_real(known, wide, width, 1, last, width, 1, turned, wide, 1, keep, to, apart);
    if (count > known)
        scaled_product_real(count - known, wide, width, 1, hx + known * width, width, 1, turned,
                            wide, 1, keep, to + known * apart, apart);
}

/*@ turn_real */
/* A matrix transposed. */
static void turn_real(const real *from, int64_t rows, int64_t columns, real *to) {
    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = 0; i < rows; i++)
            to[j * rows + i] = from[i * columns + j];
}

/*@ lstm_real */
/* All steps of an LSTM. `gates` are what the input adds to them, at first; `walk` has the first row and
   the number of rows of every step; `turned` is room for the weights. */
static void lstm_real(real *gates, const real *hx, const real *cx, const real *weight, real *cells,
                      real *out, const int64_t *walk, int64_t steps, int64_t width, real *turned) {
    const int64_t wide = 4 * width;
    turn_real(weight, wide, width, turned);
    for (int64_t s = 0; s < steps; s++) {
        const int64_t first = walk[2 * s], count = walk[2 * s + 1];
        const int64_t last = s ? walk[2 * s - 2] : 0, before = s ? walk[2 * s - 1] : 0;
        const int64_t known = count < before ? count : before; /* the others begin here */
        real *gate = gates + first * wide;
        add_states_real(known, count, width, wide, out + last * width, hx, turned, 1, gate, wide);
        for (int64_t row = 0; row < count; row++) {
            real *i = gate + row * wide, *f = i + width, *g = f + width, *o = g + width;
            real *cell = cells + (first + row) * width, *h = out + (first + row) * width;
            const real *c = row < known ? cells + (last + row) * width : cx + row * width;
            INDEPENDENT
            for (int64_t k = 0; k < width; k++) {
                i[k] = sigmoid_real(i[k]);
                f[k] = sigmoid_real(f[k]);
                g[k] = tanh_real(g[k]);
                o[k] = sigmoid_real(o[k]);
                cell[k] = f[k] * c[k] + g[k] * i[k];
                h[k] = tanh_real(cell[k]) * o[k];
            }
        }
    }
}

/*@ lstm_back_real */
/* The gradient of the sums inside the gates, from those of `out` and `cells` (or NULL); `to_h` and
   `to_c` pass from step to step. */
static void lstm_back_real(const real *to_out, const real *to_cells, const real *cx,
                           const real *weight, const real *cells, const real *gates,
                           real *to_gates, real *to_h, real *to_c, const int64_t *walk,
                           int64_t steps, int64_t width) {
    const int64_t wide = 4 * width;
    for (int64_t s = steps - 1; s >= 0; s--) {
        const int64_t first = walk[2 * s], count = walk[2 * s + 1];
        const int64_t last = s ? walk[2 * s - 2] : 0, known = s ? walk[2 * s - 1] : 0;
        for (int64_t row = 0; row < count; row++) {
            const int64_t at = first + row;
            const real *i = gates + at * wide, *f = i + width, *g = f + width, *o = g + width;
            const real *cell = cells + at * width;
            const real *before = row < known ? cells + (last + row) * width : cx + row * width;
            real *di = to_gates + at * wide, *df = di + width, *dg = df + width, *d_o = dg + width;
            real *carry_h = to_h + row * width, *carry_c = to_c + row * width;
            INDEPENDENT
            for (int64_t k = 0; k < width; k++) {
                const real dh = to_out ? carry_h[k] + to_out[at * width + k] : carry_h[k];
                const real dc_on = to_cells ? carry_c[k] + to_cells[at * width + k] : carry_c[k];
                const real t = tanh_real(cell[k]);
                const real dc = dh * (o[k] * (1 - t * t)) + dc_on;
                di[k] = dc * (i[k] * (1 - i[k]) * g[k]);
                df[k] = dc * (f[k] * (1 - f[k]) * before[k]);
                dg[k] = dc * ((1 - g[k] * g[k]) * i[k]);
                d_o[k] = dh * (o[k] * (1 - o[k]) * t);
                carry_c[k] = dc * f[k];
            }
        }
        if (count)
            scaled_product_real(count, width, wide, 1, to_gates + first * wide, wide, 1, weight,
                                width, 1, 0, to_h, width);
    }
}

/*@ gru_real */
/* All steps of a GRU. `gates`: r, z, n, and what r is multiplied by. */
static void gru_real(const real *input, const real *hx, const real *weight, const real *bias,
                     real *gates, real *out, const int64_t *walk, int64_t steps, int64_t width,
                     real *turned) {
    const int64_t wide = 4 * width;
    turn_real(weight, 3 * width, width, turned);
    for (int64_t s = 0; s < steps; s++) {
        const int64_t first = walk[2 * s], count = walk[2 * s + 1];
        const int64_t last = s ? walk[2 * s - 2] : 0, before = s ? walk[2 * s - 1] : 0;
        const int64_t known = count < before ? count : before;
        real *gate = gates + first * wide;
        add_states_real(known, count, width, 3 * width, out + last * width, hx, turned, 0,
                        gate + width, wide);
        for (int64_t row = 0; row < count; row++) {
            const real *x = input + (first + row) * 3 * width;
            real *r = gate + row * wide, *z = r + width, *n = z + width, *hidden = n + width;
            const real *h = row < known ? out + (last + row) * width : hx + row * width;
            real *to = out + (first + row) * width;
            for (int64_t k = 0; bias && k < 3 * width; k++)
                z[k] += bias[k];
            INDEPENDENT
            for (int64_t k = 0; k < width; k++)
                r[k] = sigmoid_real(x[k] + z[k]);
            INDEPENDENT
            for (int64_t k = 0; k < width; k++)
                z[k] = sigmoid_real(x[width + k] + n[k]);
            INDEPENDENT
            for (int64_t k = 0; k < width; k++) {
                n[k] = tanh_real(x[2 * width + k] + hidden[k] * r[k]);
                to[k] = (h[k] - n[k]) * z[k] + n[k];
            }
        }
    }
}

/*@ gru_back_real */
static void gru_back_real(const real *to_out, const real *hx, const real *weight, const real *out,
                          const real *gates, real *to_input, real *to_inner, real *to_h,
                          const int64_t *walk, int64_t steps, int64_t width) {
    const int64_t wide = 3 * width;
    for (int64_t s = steps - 1; s >= 0; s--) {
        const int64_t first = walk[2 * s], count = walk[2 * s + 1];
        const int64_t last = s ? walk[2 * s - 2] : 0, known = s ? walk[2 * s - 1] : 0;
        for (int64_t row = 0; row < count; row++) {
            const int64_t at = first + row;
            const real *r = gates + at * 4 * width, *z = r + width, *n = z + width;
            const real *hidden = n + width, *grad = to_out + at * width;
            const real *before = row < known ? out + (last + row) * width : hx + row * width;
            real *dr = to_inner + at * wide, *dz = dr + width, *d_hidden = dz + width;
            real *dn = to_input + at * wide + 2 * width, *carry = to_h + row * width;
            INDEPENDENT
            for (int64_t k = 0; k < width; k++) {
                const real dh = carry[k] + grad[k];
                const real slope = (1 - z[k]) * (1 - n[k] * n[k]);
                dr[k] = dh * (slope * hidden[k] * (r[k] * (1 - r[k])));
                dz[k] = dh * ((before[k] - n[k]) * (z[k] * (1 - z[k])));
                d_hidden[k] = dh * (slope * r[k]);
                dn[k] = dh * slope;
                carry[k] = dh * z[k];
            }
            memcpy(to_input + at * wide, dr, sizeof(real) * (size_t)(2 * width));
        }
        if (count)
            scaled_product_real(count, width, wide, 1, to_inner + first * wide, wide, 1, weight,
                                width, 1, 1, to_h, width);
    }
}

/*@ rnn_real */
static void rnn_real(real *out, const real *hx, const real *weight, const int64_t *walk,
                     int64_t steps, int64_t width, int relu, real *turned) {
    turn_real(weight, width, width, turned);
    for (int64_t s = 0; s < steps; s++) {
        const int64_t first = walk[2 * s], count = walk[2 * s + 1];
        const int64_t last = s ? walk[2 * s - 2] : 0, before = s ? walk[2 * s - 1] : 0;
        real *to = out + first * width;
        add_states_real(count < before ? count : before, count, width, width, out + last * width, hx,
                        turned, 1, to, width);
        for (int64_t k = 0; k < count * width; k++)
            to[k] = relu ? to[k] <= 0 ? 0 : to[k] : tanh_real(to[k]);
    }
}

/*@ rnn_back_real */
static void rnn_back_real(const real *to_out, const real *weight, const real *out, real *to_input,
                          real *to_h, const int64_t *walk, int64_t steps, int64_t width, int relu) {
    for (int64_t s = steps - 1; s >= 0; s--) {
        const int64_t first = walk[2 * s] * width, count = walk[2 * s + 1];
        const real *grad = to_out + first, *y = out + first;
        real *d = to_input + first;
        for (int64_t k = 0; k < count * width; k++)
            d[k] = (grad[k] + to_h[k]) * (relu ? (real)(y[k] > 0) : 1 - y[k] * y[k]);
        if (count)
            scaled_product_real(count, width, width, 1, d, width, 1, weight, width, 1, 0, to_h, width);
    }
}
