/*@ scaled_product_real */
/* out = scale * a @ b + keep * out, sums along k in parts of 256. */
static void scaled_product_real(int64_t m, int64_t n, int64_t k, real scale, const real *a,
                                int64_t a_down, int64_t a_right, const real *b, int64_t b_down,
                                int64_t b_right, real keep, real *out, int64_t out_down) {
    enum { HIGH = 8, WIDE = 32 };
    static real panel[256 * WIDE];
    for (int64_t left = 0; left < n; left += WIDE)
        for (int64_t start = 0; start < k; start += 256) {
            const int64_t deep = k - start < 256 ? k - start : 256;
            const int64_t width = n - left < WIDE ? n - left : WIDE;
            const real beta = start ? 1 : keep;
            const real *from = b + start * b_down + left * b_right;
            const int in_place = b_right == 1 && width == WIDE;
            const real *columns = in_place ? from : panel;
            const int64_t apart = in_place ? b_down : WIDE;
            for (int64_t i = 0; !in_place && i < deep; i++)
                for (int64_t j = 0; j < WIDE; j++)
                    panel[i * WIDE + j] = j < width ? from[i * b_down + j * b_right] : 0;
            for (int64_t top = 0; top < m; top += HIGH) {
                real sum[HIGH][WIDE] = {{0}};
                const int64_t high = m - top < HIGH ? m - top : HIGH;
                const real *x[HIGH];
                for (int r = 0; r < HIGH; r++)
                    x[r] = a + (top + (r < high ? r : high - 1)) * a_down + start * a_right;
                for (int64_t i = 0; i < deep; i++)
                    for (int r = 0; r < HIGH; r++) {
                        const real factor = x[r][i * a_right];
                        for (int j = 0; j < WIDE; j++)
                            sum[r][j] = FMA(factor, columns[i * apart + j], sum[r][j]);
                    }
                for (int64_t r = 0; r < high; r++)
                    for (int64_t j = 0; j < width; j++) {
                        real *to = out + (top + r) * out_down + left + j;
                        *to = beta != 0 ? FMA(beta, *to, scale * sum[r][j]) : scale * sum[r][j];
                    }
            }
        }
}

/*@ layer_norm_real */
static void layer_norm_real(const real *input, const real *w, const real *b, real *output,
                            real *means, real *scales, int64_t rows, int64_t n, double eps) {
    for (int64_t row = 0; row < rows; row++) {
        const real *x = input + row * n;
        const real mean = (real)(sum_of_real(x, n) / (double)n);
        double sums[LANES] = {0}, squares = 0;
        for (int64_t start = 0; start < n; start += 256) {
            const int64_t count = n - start < 256 ? n - start : 256;
            real some[256];
            for (int64_t i = 0; i < count; i++)
                some[i] = (x[start + i] - mean) * (x[start + i] - mean);
            sum_on_real(some, count, sums, &squares);
        }
        squares = sum_end_real(sums, squares);
        const real r = (real)(1 / sqrt(squares / (double)n + eps));
        for (int64_t i = 0; i < n; i++) {
            real value = (x[i] - mean) * r;
            value = w ? value * w[i] : value;
            output[row * n + i] = b ? value + b[i] : value;
        }
        means[row] = mean;
        scales[row] = r;
    }
}

/*@ two_sums_on_real */
/* Go on with a sum of fewer lanes: blocks of 256 in two times LANES of them. */
static void two_sums_on_real(const real *x, int64_t n, double *sums, double *total) {
    int64_t i = 0;
    while (i + LANES <= n) {
        const int64_t stop = i + 256 < n ? i + 256 : n;
        real s[2][LANES] = {{0}};
        for (; i + 2 * LANES <= stop; i += 2 * LANES)
            for (int v = 0; v < 2; v++)
                for (int l = 0; l < LANES; l++)
                    s[v][l] += x[i + v * LANES + l];
        for (; i + LANES <= stop; i += LANES)
            for (int l = 0; l < LANES; l++)
                s[0][l] += x[i + l];
        for (int l = 0; l < LANES; l++)
            sums[l] += (double)(s[0][l] + s[1][l]);
    }
    for (; i < n; i++)
        *total += (double)x[i];
}

/*@ norm_back_real */
/* The gradients of layer norm: of the input, and where they are wanted of weight and bias, whose sums
   go over blocks of `tall` rows. */
static void norm_back_real(const real *gradient, const real *input, const real *means,
                           const real *scales, const real *w, real *output, real *to_weight,
                           real *to_bias, int64_t rows, int64_t n, int64_t tall) {
    for (int64_t row = 0; row < rows; row++) {
        const real *g = gradient + row * n, *x = input + row * n;
        const real mean = means ? means[row] : 0, r = scales[row];
        double sums[2][LANES] = {{0}}, sum = 0, along = 0;
        for (int64_t start = 0; start < n; start += 256) {
            const int64_t count = n - start < 256 ? n - start : 256;
            real some[256], others[256];
            for (int64_t i = 0; i < count; i++) {
                const int64_t at = start + i;
                some[i] = w ? g[at] * w[at] : g[at];
                others[i] = some[i] * ((x[at] - mean) * r);
            }
            two_sums_on_real(some, count, sums[0], &sum);
            two_sums_on_real(others, count, sums[1], &along);
        }
        sum = sum_end_real(sums[0], sum);
        along = sum_end_real(sums[1], along);
        const real a = means ? (real)(sum / (double)n) : 0, b = (real)(along / (double)n);
        for (int64_t i = 0; i < n; i++) {
            const real value = w ? g[i] * w[i] : g[i];
            output[row * n + i] = (value - a - (x[i] - mean) * r * b) * r;
        }
    }
    for (int64_t i = 0; (to_weight || to_bias) && i < n; i++) {
        double weight = 0, bias = 0;
        for (int64_t first = 0; first < rows; first += tall) {
            const int64_t last = first + tall < rows ? first + tall : rows;
            double block_weight = 0, block_bias = 0;
            for (int64_t begin = first; begin < last; begin += 64) {
                real some = 0, others = 0;
                for (int64_t row = begin; row < last && row < begin + 64; row++) {
                    const real g = gradient[row * n + i];
                    some += g * ((input[row * n + i] - (means ? means[row] : 0)) * scales[row]);
                    others += g;
                }
                block_weight += (double)some;
                block_bias += (double)others;
            }
            weight += block_weight;
            bias += block_bias;
        }
        if (to_weight)
            to_weight[i] = (real)weight;
        if (to_bias)
            to_bias[i] = (real)bias;
    }
}

/*@ are_within */
static int are_within(const int64_t *index, int64_t count, int64_t low, int64_t high) {
    int inside = 1;
    for (int64_t i = 0; i < count; i++)
        inside &= index[i] >= low && index[i] < high;
    return inside;
}

/*@ take */
/* out[o, j] = source[o, index[j]], rows of bytes. False: a number is out of range. */
static int take(const void *source, const int64_t *index, void *out, int64_t outer, int64_t size,
                int64_t bytes, int64_t count, int64_t from_end) {
    if (!are_within(index, count, from_end ? -size : 0, size))
        return 0;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t j = 0; j < count; j++)
            memcpy((char *)out + (o * count + j) * bytes,
                   (const char *)source + (o * size + (index[j] < 0 ? index[j] + size : index[j])) * bytes,
                   (size_t)bytes);
    return 1;
}

/*@ add_rows_real */
/* out[o, index[j]] += rows[o, j], in the order of the index. */
static int add_rows_real(real *out, const int64_t *index, const real *rows, int64_t outer,
                         int64_t size, int64_t width, int64_t count, int64_t from_end,
                         int64_t skips, int64_t skipped) {
    if (!are_within(index, count, from_end ? -size : 0, size))
        return 0;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t j = 0; j < count; j++) {
            const int64_t to = index[j] < 0 ? index[j] + size : index[j];
            if (skips && to == skipped)
                continue;
            for (int64_t c = 0; c < width; c++)
                out[(o * size + to) * width + c] += rows[(o * count + j) * width + c];
        }
    return 1;
}

/*@ attention_scores_real */
/* e^(score - the largest) of a block of queries, and what rows are to be divided by. s: batches, heads,
   queries, keys, width, then steps per batch, head and row of query, key, value, out and mask, that of
   the mask per column, whether queries see only the keys up to their own place. */
static void attention_scores_real(const int64_t *s, const real *query, const real *key,
                                  const real *mask, real scale, int64_t first, int64_t count,
                                  int64_t seen, real *scores, real *below) {
    scaled_product_real(count, seen, s[4], scale, query, s[7], 1, key, 1, s[10], 0, scores, s[3]);
    for (int64_t i = 0; i < count; i++) {
        real *row = scores + i * s[3];
        const int64_t keys = s[21] && first + i + 1 < seen ? first + i + 1 : seen;
        for (int64_t j = keys; j < seen; j++)
            row[j] = 0;
        for (int64_t j = 0; mask && j < keys; j++)
            row[j] += mask[i * s[19] + j * s[20]];
        const real most = largest_real(row, keys), shift = most == (real)-INFINITY ? 0 : most;
        for (int64_t j = 0; j < keys; j++)
            row[j] = BELOW(row[j] - shift);
        const real sum = (real)sum_of_real(row, keys);
        below[i] = sum == 0 ? 1 : sum;
    }
}

/*@ attention_real */
static void attention_real(const real *query, const real *key, const real *value, const real *mask,
                           real *out, const int64_t *s, double scale, real *scores) {
    const int64_t block = s[21] && s[2] < 192 ? 32 : 64;
    real below[64];
    for (int64_t item = 0; item < s[0] * s[1]; item++)
        for (int64_t first = 0; first < s[2]; first += block) {
            const int64_t batch = item / s[1], head = item % s[1];
            const int64_t count = s[2] - first < block ? s[2] - first : block;
            const int64_t seen = s[21] && first + count < s[3] ? first + count : s[3];
            real *to = out + batch * s[14] + head * s[15] + first * s[16];
            attention_scores_real(s, query + batch * s[5] + head * s[6] + first * s[7],
                                  key + batch * s[8] + head * s[9],
                                  mask ? mask + batch * s[17] + head * s[18] + first * s[19] : NULL,
                                  (real)scale, first, count, seen, scores, below);
            scaled_product_real(count, s[4], seen, 1, scores, s[3], 1,
                                value + batch * s[11] + head * s[12], s[13], 1, 0, to, s[16]);
            for (int64_t i = 0; i < count; i++)
                for (int64_t c = 0; c < s[4]; c++)
                    to[i * s[16] + c] /= below[i];
        }
}

/*@ attention_back_real */
static void attention_back_real(const real *query, const real *key, const real *value,
                                const real *mask, const real *gradient, real *to_query,
                                real *to_key, real *to_value, const int64_t *s, double scale,
                                real *weights) {
    const int64_t block = s[21] && s[2] < 192 ? 32 : 64, keys = s[3], width = s[4];
    real *slopes = weights + 64 * keys, below[64];
    for (int64_t item = 0; item < s[0] * s[1]; item++) {
        const int64_t batch = item / s[1], head = item % s[1];
        const real *k = key + batch * s[8] + head * s[9], *v = value + batch * s[11] + head * s[12];
        real *dk = to_key + item * keys * width, *dv = to_value + item * keys * width;
        for (int64_t i = 0; s[21] && i < keys * width; i++)
            dk[i] = dv[i] = 0;
        for (int64_t first = 0; first < s[2]; first += block) {
            const int64_t count = s[2] - first < block ? s[2] - first : block;
            const int64_t seen = s[21] && first + count < keys ? first + count : keys;
            const real *q = query + batch * s[5] + head * s[6] + first * s[7];
            const real *g = gradient + batch * s[14] + head * s[15] + first * s[16];
            attention_scores_real(s, q, k,
                                  mask ? mask + batch * s[17] + head * s[18] + first * s[19] : NULL,
                                  (real)scale, first, count, seen, weights, below);
            scaled_product_real(count, seen, width, 1, g, s[16], 1, v, 1, s[13], 0, slopes, keys);
            for (int64_t i = 0; i < count; i++) {
                real *weight = weights + i * keys, *slope = slopes + i * keys;
                const int64_t most = s[21] && first + i + 1 < seen ? first + i + 1 : seen;
                double sums[LANES] = {0}, dot = 0;
                for (int64_t j = most; j < seen; j++)
                    slope[j] = 0;
                for (int64_t j = 0; j < most; j++)
                    weight[j] /= below[i];
                for (int64_t start = 0; start < most; start += 256) {
                    const int64_t some = most - start < 256 ? most - start : 256;
                    real products[256];
                    for (int64_t j = 0; j < some; j++)
                        products[j] = slope[start + j] * weight[start + j];
                    sum_on_real(products, some, sums, &dot);
                }
                const real mean = (real)sum_end_real(sums, dot);
                for (int64_t j = 0; j < most; j++)
                    slope[j] = (slope[j] - mean) * weight[j];
            }
            const real adds = s[21] || first > 0;
            scaled_product_real(seen, width, count, 1, weights, 1, keys, g, s[16], 1, adds, dv, width);
            scaled_product_real(seen, width, count, (real)scale, slopes, 1, keys, q, s[7], 1, adds,
                                dk, width);
            scaled_product_real(count, width, seen, (real)scale, slopes, keys, 1, k, s[10], 1, 0,
                                to_query + (item * s[2] + first) * width, width);
        }
    }
}

/*@ put_part */
/* out[o, first + j * step, k] = part[o, j, k], and zeros everywhere else; `by` are the steps of part,
   in elements of `bytes`. */
static void put_part(const void *part, void *out, int64_t outer, int64_t size, int64_t inner,
                     int64_t first, int64_t step, int64_t count, int64_t bytes, int64_t by_outer,
                     int64_t by_row, int64_t by_element) {
    memset(out, 0, (size_t)(outer * size * inner * bytes));
    for (int64_t o = 0; o < outer; o++)
        for (int64_t j = 0; j < count; j++)
            for (int64_t k = 0; k < inner; k++)
                memcpy((char *)out + ((o * size + first + j * step) * inner + k) * bytes,
                       (const char *)part + (o * by_outer + j * by_row + k * by_element) * bytes,
                       (size_t)bytes);
}
