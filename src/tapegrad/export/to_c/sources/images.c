/*@ lay_real */
/* `depth` channels of an image with zeros around them, for a stride as images of every so many pixels.
   g: size, zeros before, stride, laid-out size, output size (three each), then images per channel and
   where each begins. */
static void lay_real(const real *x, const int64_t *g, int64_t depth, real *out) {
    const int64_t size = g[0] * g[1] * g[2];
    for (int64_t c = 0; c < depth; c++)
        for (int64_t k = 0; k < g[15]; k++)
            for (int64_t plane = 0; plane < g[9]; plane++)
                for (int64_t row = 0; row < g[10]; row++) {
                    const int64_t a = plane * g[6] + g[16 + 3 * k] - g[3];
                    const int64_t b = row * g[7] + g[17 + 3 * k] - g[4];
                    const int64_t first = g[18 + 3 * k] - g[5];
                    const int inside = a >= 0 && a < g[0] && b >= 0 && b < g[1];
                    const int64_t begin = c * size + (a * g[1] + b) * g[2] + first;
                    int64_t i = 0;
                    for (; i < g[11] && (!inside || first + i * g[8] < 0); i++)
                        *out++ = 0;
                    if (inside && g[8] == 1) {
                        const int64_t rest = g[2] - first - i, room = g[11] - i;
                        const int64_t count = rest < 0 ? 0 : rest < room ? rest : room;
                        memcpy(out, x + begin + i, sizeof(real) * (size_t)count);
                        out += count;
                        i += count;
                    }
                    for (; i < g[11]; i++)
                        *out++ = first + i * g[8] < g[2] ? x[begin + i * g[8]] : 0;
                }
}

/*@ conv_real 4x32 8x16 8x8 */
/* Each output is the bias, plus weight by pixel, channel by channel and tap by tap. `offset` says where
   the taps of a channel are in the layout, `place` where they are among the weights. `step`: in the
   weights per group, feature and channel, in `out` per image, channel, plane, row and column. */
static void conv_real(const real *x, const real *weight, const real *bias, real *out,
                      const int64_t *g, const int64_t *offset, const int64_t *place,
                      const int64_t *step, int64_t images, int64_t groups, int64_t features,
                      int64_t depth, int64_t taps, real *room) {
    const int64_t size = g[0] * g[1] * g[2], laid = g[15] * g[9] * g[10] * g[11];
    for (int64_t image = 0; image < images; image++)
        for (int64_t group = 0; group < groups; group++) {
            lay_real(x + (image * groups + group) * depth * size, g, depth, room);
            for (int64_t f = 0; f < features; f += HIGH) {
                const int64_t high = features - f < HIGH ? features - f : HIGH;
                const real *w[HIGH]; /* features that are not there are the last one */
                for (int64_t r = 0; r < HIGH; r++)
                    w[r] = weight + group * step[0] + (f + (r < high ? r : high - 1)) * step[1];
                for (int64_t line = 0; line < g[12] * g[13]; line++)
                    for (int64_t left = 0; left < g[14]; left += WIDE) {
                        const int64_t plane = line / g[13], row = line % g[13];
                        const int64_t count = g[14] - left < WIDE ? g[14] - left : WIDE;
                        const real *at = room + (plane * g[10] + row) * g[11] + left;
                        real sum[HIGH][WIDE];
                        for (int r = 0; r < HIGH; r++)
                            for (int i = 0; i < WIDE; i++)
                                sum[r][i] = bias && r < high ? bias[group * features + f + r] : 0;
                        for (int64_t c = 0; c < depth; c++)
                            for (int64_t t = 0; t < taps; t++) {
                                const real *from = at + c * laid + offset[t];
                                const int64_t tap = c * step[2] + place[t];
                                for (int r = 0; r < HIGH; r++) {
                                    const real factor = w[r][tap];
                                    SIDE_BY_SIDE
                                    for (int i = 0; i < WIDE; i++)
                                        sum[r][i] = FMA(factor, from[i], sum[r][i]);
                                }
                            }
                        real *to = out + image * step[3] + (group * features + f) * step[4] +
                                   plane * step[5] + row * step[6] + left * step[7];
                        for (int64_t r = 0; r < high; r++)
                            for (int64_t i = 0; i < count; i++)
                                to[r * step[4] + i * step[7]] = sum[r][i];
                    }
            }
        }
}

/*@ conv_weights_real 4x32 8x16 12x8 */
/* The gradient of the weights: rows of some pixels are added up, then these sums band by band, then
   those of `parts` of all bands. */
static void conv_weights_real(const real *x, const real *y, real *out, const int64_t *g,
                              const int64_t *offset, int64_t images, int64_t groups,
                              int64_t features, int64_t depth, int64_t taps, int64_t rows,
                              int64_t band, int64_t bands, int64_t parts, real *room) {
    const int64_t size = g[0] * g[1] * g[2], laid = g[15] * g[9] * g[10] * g[11];
    const int64_t columns = g[14], some = 128 / columns > 1 ? 128 / columns : 1;
    const int64_t all = depth * taps, most = some * columns;
    real *pixels = room + depth * laid, *total = pixels + most * WIDE;
    for (int64_t group = 0; group < groups; group++)
        for (int64_t part = 0; part < parts; part++) {
            for (int64_t i = 0; i < all * features; i++)
                total[i] = 0;
            for (int64_t b = images * bands * part / parts; b < images * bands * (part + 1) / parts;
                 b++) {
                const int64_t image = b / bands * groups + group, begin = b % bands * band;
                const int64_t end = begin + band < rows ? begin + band : rows;
                lay_real(x + image * depth * size, g, depth, room);
                for (int64_t f = 0; f < features; f += WIDE)
                    for (int64_t line = begin; line < end; line += some) {
                        const int64_t stop = line + some < end ? line + some : end;
                        const int64_t width = features - f < WIDE ? features - f : WIDE;
                        for (int64_t r = 0; r < width; r++) {
                            const real *from =
                                y + (image * features + f + r) * rows * columns + line * columns;
                            for (int64_t i = 0; i < (stop - line) * columns; i++)
                                pixels[i * WIDE + r] = from[i];
                        }
                        for (int64_t j = 0; j < all; j += HIGH) {
                            real sum[HIGH][WIDE] = {{0}};
                            const real *from[HIGH], *each = pixels;
                            for (int d = 0; d < HIGH; d++) {
                                const int64_t tap = j + d < all ? j + d : all - 1;
                                from[d] = room + tap / taps * laid + offset[tap % taps];
                            }
                            for (int64_t l = line; l < stop; l++) {
                                const int64_t at =
                                    (l / g[13] * g[10] + l % g[13]) * g[11];
                                for (int64_t i = 0; i < columns; i++, each += WIDE)
                                    for (int d = 0; d < HIGH; d++) {
                                        const real pixel = from[d][at + i];
                                        SIDE_BY_SIDE
                                        for (int r = 0; r < WIDE; r++)
                                            sum[d][r] = FMA(pixel, each[r], sum[d][r]);
                                    }
                            }
                            for (int64_t d = 0; d < HIGH && j + d < all; d++)
                                for (int64_t r = 0; r < width; r++)
                                    total[(f + r) * all + j + d] += sum[d][r];
                        }
                    }
            }
            for (int64_t i = 0; i < all * features; i++)
                out[group * features * all + i] =
                    part ? out[group * features * all + i] + total[i] : total[i];
        }
}

/*@ max_pool2d_real */
/* Maxima of windows, and their places in a plane, where they are wanted. n: planes, then of rows and of
   columns size, kernel, stride, padding, windows. The first of equals wins, column by column or row by
   row. A row of windows is done at once, element by element of the windows. */
static void max_pool2d_real(const real *x, real *out, int64_t *place, const int64_t *n,
                            int by_columns) {
    const int64_t *h = n + 1, *w = n + 6;
    for (int64_t line = 0; line < n[0] * h[4]; line++)
        for (int64_t start = 0; start < w[4]; start += 64) {
            const int64_t count = w[4] - start < 64 ? w[4] - start : 64;
            const int64_t top = line % h[4] * h[2] - h[3], left = start * w[2] - w[3];
            const int64_t low = top > 0 ? top : 0, high = top + h[1] < h[0] ? top + h[1] : h[0];
            const real *from = x + line / h[4] * h[0] * w[0];
            real best[64];
            int32_t found[64];
            for (int64_t i = 0; i < count; i++) {
                const int64_t first = left + i * w[2];
                best[i] = -INFINITY;
                found[i] = (int32_t)(low * w[0] + (first > 0 ? first : 0));
            }
            for (int64_t k = 0; k < (high - low) * w[1]; k++) {
                const int64_t a = low + (by_columns ? k % (high - low) : k / w[1]);
                const int64_t b = left + (by_columns ? k / (high - low) : k % w[1]);
                const int64_t step = w[2], begin = b < 0 ? (step - 1 - b) / step : 0;
                const int64_t inside = w[0] > b ? (w[0] - b + step - 1) / step : 0;
                const int64_t end = inside < count ? inside : count, at = a * w[0] + b;
                INDEPENDENT
                for (int64_t i = begin; i < end; i++) {
                    const real v = from[at + i * step];
                    const int larger = (v > best[i]) | (v != v);
                    best[i] = larger ? v : best[i];
                    found[i] = larger ? (int32_t)(at + i * step) : found[i];
                }
            }
            for (int64_t i = 0; out && i < count; i++)
                out[line * w[4] + start + i] = best[i];
            for (int64_t i = 0; place && i < count; i++)
                place[line * w[4] + start + i] = found[i];
        }
}

/*@ max_pool2d_back_real */
static void max_pool2d_back_real(const real *gradient, const int64_t *place, real *out,
                                 int64_t planes, int64_t windows, int64_t size) {
    memset(out, 0, sizeof(real) * (size_t)(planes * size));
    for (int64_t plane = 0; plane < planes; plane++)
        for (int64_t i = 0; i < windows; i++) {
            const int64_t at = place[plane * windows + i];
            if (at >= 0 && at < size) /* else the window had only padding */
                out[plane * size + at] += gradient[plane * windows + i];
        }
}

/*@ conv_dots_real */
/* The gradient of the weights of few features: products of rows in 64 bytes of sums, then in double. `parts` of
   the images have sums of their own, which `totals` holds. */
static void conv_dots_real(const real *x, const real *y, real *out, const int64_t *g,
                           const int64_t *offset, int64_t images, int64_t groups, int64_t features,
                           int64_t depth, int64_t taps, int64_t rows, int64_t band, int64_t bands,
                           int64_t parts, real *room, double *totals) {
    enum { WIDE = 64 / sizeof(real) };
    const int64_t size = g[0] * g[1] * g[2], laid = g[15] * g[9] * g[10] * g[11];
    const int64_t columns = g[14], all = depth * taps, whole = columns - columns % WIDE;
    const int64_t some = 1024 / columns > 1 ? 1024 / columns : 1, weights = groups * features * all;
    for (int64_t i = 0; i < parts * weights; i++)
        totals[i] = 0;
    for (int64_t task = 0; task < parts * groups; task++) {
        const int64_t group = task % groups, part = task / groups;
        for (int64_t b = images * bands * part / parts; b < images * bands * (part + 1) / parts;
             b++) {
            const int64_t image = b / bands * groups + group, begin = b % bands * band;
            const int64_t end = begin + band < rows ? begin + band : rows;
            lay_real(x + image * depth * size, g, depth, room);
            for (int64_t line = begin; line < end; line += some)
                for (int64_t i = 0; i < features * all; i++) {
                    const real *from = room + i % all / taps * laid + offset[i % all % taps];
                    const real *each = y + ((image * features + i / all) * rows + line) * columns;
                    const int64_t stop = line + some < end ? line + some : end;
                    real sums[WIDE] = {0};
                    for (int64_t l = line; l < stop; l++, each += columns) {
                        const real *row = from + (l / g[13] * g[10] + l % g[13]) * g[11];
                        for (int64_t k = 0; k < whole; k += WIDE)
                            for (int64_t j = 0; j < WIDE; j++)
                                sums[j] = FMA(row[k + j], each[k + j], sums[j]);
                        for (int64_t k = whole; k < columns; k++)
                            sums[k - whole] = FMA(row[k], each[k], sums[k - whole]);
                    }
                    double sum = 0;
                    for (int64_t j = 0; j < WIDE; j++)
                        sum += (double)sums[j];
                    totals[task * features * all + i] += sum;
                }
        }
    }
    for (int64_t i = 0; i < weights; i++) {
        double sum = 0;
        for (int64_t part = 0; part < parts; part++)
            sum += totals[part * weights + i];
        out[i] = (real)sum;
    }
}

/*@ windows_real */
/* The windows of images as a matrix: a row for every channel and tap, a column for every output. n:
   images, channels, then for each of three dimensions size, kernel, stride, padding, gap, outputs. With
   `back` the transpose: the matrix is added to the images, tap by tap. */
static void windows_real(real *x, real *matrix, const int64_t *n, int back) {
    const int64_t *d = n + 2, *h = d + 6, *w = h + 6, taps = d[1] * h[1] * w[1];
    const int64_t outputs = d[5] * h[5] * w[5], columns = n[0] * outputs;
    if (back)
        memset(x, 0, sizeof(real) * (size_t)(n[0] * n[1] * d[0] * h[0] * w[0]));
    for (int64_t r = 0; r < n[1] * taps; r++) {
        const int64_t tap = r % taps, channel = r / taps;
        for (int64_t i = 0; i < columns; i++) {
            const int64_t to = i % outputs, image = i / outputs;
            const int64_t a =
                to / (h[5] * w[5]) * d[2] - d[3] + tap / (h[1] * w[1]) * d[4];
            const int64_t b = to / w[5] % h[5] * h[2] - h[3] + tap / w[1] % h[1] * h[4];
            const int64_t c = to % w[5] * w[2] - w[3] + tap % w[1] * w[4];
            const int inside =
                a >= 0 && a < d[0] && b >= 0 && b < h[0] && c >= 0 && c < w[0];
            const int64_t at = (((image * n[1] + channel) * d[0] + a) * h[0] + b) * w[0] + c;
            if (!back)
                matrix[r * columns + i] = inside ? x[at] : 0;
            else if (inside)
                x[at] += matrix[r * columns + i];
        }
    }
}

/*@ features_first_real */
/* (images, features, pixels) as (features, images, pixels); the other way round with these two exchanged. */
static void features_first_real(const real *from, real *to, int64_t images, int64_t features,
                                int64_t pixels) {
    for (int64_t i = 0; i < images; i++)
        for (int64_t f = 0; f < features; f++)
            memcpy(to + (f * images + i) * pixels, from + (i * features + f) * pixels,
                   sizeof(real) * (size_t)pixels);
}
