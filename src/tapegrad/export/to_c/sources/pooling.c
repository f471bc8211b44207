/*@ extent */
/* How many elements a mean is over along one dimension: size, kernel, stride, padding, windows. */
static int64_t extent(const int64_t *side, int64_t window, int with_padding) {
    int64_t begin = window * side[2] - side[3], end = least(begin + side[1], side[0] + side[3]);
    if (!with_padding) {
        begin = begin > 0 ? begin : 0;
        end = least(end, side[0]);
    }
    return end - begin;
}

/*@ avg_pool2d_real */
/* Means of windows: columns are added up, then these sums. `n` as in max_pool2d. */
static void avg_pool2d_real(const real *x, real *out, const int64_t *n, int with_padding,
                            double instead) {
    const int64_t *h = n + 1, *w = n + 6;
    for (int64_t plane = 0; plane < n[0]; plane++, x += h[0] * w[0])
        for (int64_t row = 0; row < h[4]; row++) {
            const int64_t top = row * h[2] - h[3], low = top > 0 ? top : 0;
            const int64_t high = least(top + h[1], h[0]);
            const double rows = (double)extent(h, row, with_padding);
            for (int64_t i = 0; i < w[4]; i++) {
                const int64_t left = i * w[2] - w[3], stop = least(left + w[1], w[0]);
                real sum = 0;
                for (int64_t b = left > 0 ? left : 0; b < stop; b++) {
                    real column = x[low * w[0] + b];
                    for (int64_t a = low + 1; a < high; a++)
                        column += x[a * w[0] + b];
                    sum += column;
                }
                const double count = rows * (double)extent(w, i, with_padding);
                *out++ = sum / (real)(instead != 0 ? instead : count);
            }
        }
}

/*@ avg_pool2d_back_real */
/* `columns` is room for a row of the input; `out` holds zeros at first. */
static void avg_pool2d_back_real(const real *gradient, real *out, const int64_t *n,
                                 int with_padding, double instead, real *columns) {
    const int64_t *h = n + 1, *w = n + 6;
    for (int64_t start = 0; start < w[4]; start += 256) {
        const int64_t end = least(start + 256, w[4]);
        for (int64_t line = 0; line < n[0] * h[4]; line++) {
            const int64_t row = line % h[4], top = row * h[2] - h[3];
            const double rows = (double)extent(h, row, with_padding);
            real share[256], *to = out + line / h[4] * h[0] * w[0];
            for (int64_t i = start; i < end; i++) {
                const double count = rows * (double)extent(w, i, with_padding);
                share[i - start] =
                    gradient[line * w[4] + i] / (real)(instead != 0 ? instead : count);
            }
            for (int64_t b = 0; b < w[0]; b++)
                columns[b] = 0;
            for (int64_t tap = 0; tap < w[1]; tap++)
                for (int64_t i = start; i < end; i++) {
                    const int64_t b = i * w[2] - w[3] + tap;
                    if (b >= 0 && b < w[0])
                        columns[b] += share[i - start];
                }
            for (int64_t a = top > 0 ? top : 0; a < least(top + h[1], h[0]); a++)
                for (int64_t b = 0; b < w[0]; b++)
                    to[a * w[0] + b] += columns[b];
        }
    }
}

/*@ window_span */
/* The elements of a window along an axis (size, kernel or 0: the windows tile it, stride, padding, gap,
   windows): the first, how many, their step, how many a mean is over. */
static void window_span(const int64_t *axis, int64_t window, int with_padding, int64_t *span) {
    const int64_t size = axis[0], kernel = axis[1], gap = axis[4];
    if (!kernel) {
        span[0] = window * size / axis[5];
        span[1] = span[3] = ((window + 1) * size + axis[5] - 1) / axis[5] - span[0];
        span[2] = 1;
        return;
    }
    const int64_t begin = window * axis[2] - axis[3];
    const int64_t before = begin < 0 ? (-begin + gap - 1) / gap : 0;
    const int64_t last = size > begin ? least((size - begin + gap - 1) / gap, kernel) : 0;
    span[0] = begin + before * gap;
    span[1] = last > before ? last - before : 0;
    span[2] = gap;
    span[3] = with_padding ? least(kernel, size + axis[3] - begin) : span[1];
}

/*@ window_share_real */
/* A sum over a window, or a gradient, divided as a mean is; windows that tile an axis divide one axis
   after the other. */
static real window_share_real(real sum, int64_t s[3][4], int tiles, double instead) {
    if (instead != 0)
        return sum / (real)instead;
    if (tiles)
        return sum / (real)s[0][3] / (real)s[1][3] / (real)s[2][3];
    return sum / (real)(s[0][3] * s[1][3] * s[2][3]);
}

/*@ window_mean_real */
/* Means of windows of volumes, or with `back` their transpose. `n`: planes, six numbers for each of three
   axes, whether padding counts. */
static void window_mean_real(const real *x, real *out, const int64_t *n, double instead, int back) {
    const int64_t *d = n + 1, *h = d + 6, *w = h + 6, size = d[0] * h[0] * w[0];
    const int64_t windows = d[5] * h[5] * w[5];
    if (back)
        memset(out, 0, sizeof(real) * (size_t)(n[0] * size));
    for (int64_t to = 0; to < n[0] * windows; to++) {
        int64_t s[3][4];
        window_span(d, to % windows / (h[5] * w[5]), (int)n[19], s[0]);
        window_span(h, to / w[5] % h[5], (int)n[19], s[1]);
        window_span(w, to % w[5], (int)n[19], s[2]);
        const int64_t plane = to / windows * size;
        const real share = back ? window_share_real(x[to], s, !w[1], instead) : 0;
        real sum = 0;
        for (int64_t a = 0; a < s[0][1]; a++)
            for (int64_t b = 0; b < s[1][1]; b++)
                for (int64_t c = 0; c < s[2][1]; c++) {
                    const int64_t row = (s[0][0] + a * s[0][2]) * h[0] + s[1][0] + b * s[1][2];
                    const int64_t at = plane + row * w[0] + s[2][0] + c * s[2][2];
                    if (back)
                        out[at] += share;
                    else
                        sum += x[at];
                }
        if (!back)
            out[to] = window_share_real(sum, s, !w[1], instead);
    }
}
