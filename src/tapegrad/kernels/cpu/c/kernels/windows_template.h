/* windows.c for one type T. n: planes, the fields of three axes, whether padding counts in means. */

/* p: x, maxima or NULL, their places or NULL. The first of equals wins, and the last NaN. */
static void NAMED(largest_of_windows)(void *context, int64_t begin, int64_t end) {
    EACH_WINDOW_OF_PLANES(0)
    const T *x = (const T *)given->p[0] + plane * plane_size;
    int64_t found = (deep.first * h[0] + tall.first) * w[0] + wide.first;
    T best = (T)-INFINITY;
    EACH_ELEMENT({
        const T v = x[at];
        if (v > best || v != v) {
            best = v;
            found = at;
        }
    })
    if (given->p[1])
        ((T *)given->p[1])[to] = best;
    if (given->p[2])
        ((int64_t *)given->p[2])[to] = found;
    END_WINDOW
}
void NAMED(tg_window_max)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], pieces(n), NAMED(largest_of_windows), &given);
}

/* Where windows begin along an axis, from a random number: as PyTorch rounds it. */
static int64_t NAMED(drawn_start)(const int64_t *axis, T drawn, int64_t window) {
    const int64_t last = axis[0] - axis[1], windows = axis[5];
    if (window == windows - 1)
        return last;
    const T step = (T)((double)last / (double)(windows - 1));
    return (int64_t)(((T)window + drawn) * step) - (int64_t)(drawn * step);
}

/* p: x, a random number for each axis of a plane, maxima, their places; n: [1 + AXES * FIELDS]: how
   many numbers a plane has. In two dimensions the number for x is the first. */
static void NAMED(largest_of_drawn)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t *d = given->n + 1, *h = d + FIELDS, *w = h + FIELDS, count = d[AXES * FIELDS];
    int64_t to = begin * d[5] * h[5] * w[5];
    for (int64_t plane = begin; plane < end; plane++) {
        const T *x = (const T *)given->p[0] + plane * d[0] * h[0] * w[0];
        const T *drawn = (const T *)given->p[1] + plane * count;
        const T deep = count == 2 ? 0 : drawn[0], tall = drawn[1], wide = drawn[count == 2 ? 0 : 2];
        for (int64_t i = 0; i < d[5]; i++)
            for (int64_t j = 0; j < h[5]; j++)
                for (int64_t k = 0; k < w[5]; k++, to++) {
                    const int64_t front = NAMED(drawn_start)(d, deep, i);
                    const int64_t top = NAMED(drawn_start)(h, tall, j);
                    const int64_t left = NAMED(drawn_start)(w, wide, k);
                    int64_t found = (front * h[0] + top) * w[0] + left;
                    T best = (T)-INFINITY;
                    for (int64_t a = front; a < front + d[1]; a++)
                        for (int64_t b = top; b < top + h[1]; b++)
                            for (int64_t c = left; c < left + w[1]; c++) {
                                const int64_t at = (a * h[0] + b) * w[0] + c;
                                if (x[at] > best || x[at] != x[at]) {
                                    best = x[at];
                                    found = at;
                                }
                            }
                    ((T *)given->p[2])[to] = best;
                    ((int64_t *)given->p[3])[to] = found;
                }
    }
}
void NAMED(tg_drawn_max)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], pieces(n), NAMED(largest_of_drawn), &given);
}

/* A sum, or a gradient, divided by the number of elements as PyTorch does: windows that tile an axis
   divide one axis after the other. x: what is divided by instead, or 0. */
static inline T NAMED(shared)(const arguments *given, T sum, span deep, span tall, span wide) {
    if (given->x[0] != 0)
        return sum / (T)given->x[0];
    if (!given->n[2 + 2 * FIELDS])
        return sum / (T)deep.length / (T)tall.length / (T)wide.length;
    return sum / (T)(deep.length * tall.length * wide.length);
}

/* p: x, means */
static void NAMED(means_of_windows)(void *context, int64_t begin, int64_t end) {
    EACH_WINDOW_OF_PLANES((int)given->n[1 + AXES * FIELDS])
    const T *x = (const T *)given->p[0] + plane * plane_size;
    T sum = 0;
    EACH_ELEMENT(sum += x[at];)
    ((T *)given->p[1])[to] = NAMED(shared)(given, sum, deep, tall, wide);
    END_WINDOW
}
void NAMED(tg_window_mean)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], pieces(n), NAMED(means_of_windows), &given);
}

/* p: gradient of the means, gradient of x */
static void NAMED(spread_over_windows)(void *context, int64_t begin, int64_t end) {
    const arguments *all = context;
    const int64_t size = all->n[1] * all->n[1 + FIELDS] * all->n[1 + 2 * FIELDS];
    memset((T *)all->p[1] + begin * size, 0, (size_t)((end - begin) * size) * sizeof(T));
    EACH_WINDOW_OF_PLANES((int)given->n[1 + AXES * FIELDS])
    T *x = (T *)given->p[1] + plane * plane_size;
    const T share = NAMED(shared)(given, ((const T *)given->p[0])[to], deep, tall, wide);
    EACH_ELEMENT(x[at] += share;)
    END_WINDOW
}
void NAMED(tg_window_mean_back)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], pieces(n), NAMED(spread_over_windows), &given);
}
