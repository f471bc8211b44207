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
