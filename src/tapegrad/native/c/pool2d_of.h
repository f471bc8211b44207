/* pool2d.c for one type T; INDEX is an integer as wide. n: planes, then for rows and for columns
   size, kernel, stride, padding, windows. */

/* p: x, maxima or NULL, their places in the plane or NULL. The first of equals wins, and the last
   NaN. */
TG_VERSIONS static void NAMED(max_pool_planes)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t *h = given->n + 1, *w = given->n + 6;
    for (int64_t plane = begin; plane < end; plane++) {
        const T *x = (const T *)given->p[0] + plane * h[0] * w[0];
        for (int64_t row = 0; row < h[4]; row++) {
            const int64_t low = most(row * h[2] - h[3], 0);
            const int64_t high = least(row * h[2] - h[3] + h[1], h[0]);
            for (int64_t start = 0; start < w[4]; start += CHUNK) {
                const int64_t count = least(CHUNK, w[4] - start), base = start * w[2] - w[3];
                T best[CHUNK];
                INDEX found[CHUNK];
                for (int64_t i = 0; i < count; i++) {
                    best[i] = (T)-INFINITY;
                    /* The first element that is inside, less the place of the window. */
                    found[i] = (INDEX)(low * w[0] + most(0, -(base + i * w[2])));
                }
                for (int64_t r = low; r < high; r++)
                    for (int64_t tap = 0; tap < w[1]; tap++) {
                        const T *from = x + r * w[0];
                        int64_t first, last;
                        inside(w[0], w[2], -base, count, tap, &first, &last);
                        const INDEX here = (INDEX)(r * w[0] + tap);
                        EACH_WINDOW(first, last, w[2], base + tap, {
                            const T v = from[at];
                            const int larger = v > best[i] || v != v;
                            best[i] = larger ? v : best[i];
                            found[i] = larger ? here : found[i];
                        })
                    }
                const int64_t to = (plane * h[4] + row) * w[4] + start;
                if (given->p[1])
                    memcpy((T *)given->p[1] + to, best, (size_t)count * sizeof(T));
                if (given->p[2])
                    for (int64_t i = 0; i < count; i++)
                        ((int64_t *)given->p[2])[to + i] = found[i] + base + i * w[2];
            }
        }
    }
}
void NAMED(tg_max_pool2d)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], pieces(0.5, n[5] * n[10] * n[2] * n[7]), NAMED(max_pool_planes), &given);
}

/* p: gradient, places, out; n: planes, windows of a plane, elements of a plane */
static void NAMED(max_pool_back_planes)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t windows = given->n[1], size = given->n[2];
    for (int64_t plane = begin; plane < end; plane++) {
        const T *grad = (const T *)given->p[0] + plane * windows;
        const int64_t *place = (const int64_t *)given->p[1] + plane * windows;
        T *out = (T *)given->p[2] + plane * size;
        memset(out, 0, (size_t)size * sizeof(T));
        for (int64_t i = 0; i < windows; i++)
            if (place[i] >= 0 && place[i] < size) /* else the window had only padding */
                out[place[i]] += grad[i];
    }
}
void NAMED(tg_max_pool2d_back)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], pieces(0.7, n[1] + n[2]), NAMED(max_pool_back_planes), &given);
}

/* Means. n[11]: whether padding counts; x: what sums are divided by instead, or 0. */
TG_INLINE T NAMED(divisor)(const arguments *given, int64_t row, int64_t column) {
    const int64_t *h = given->n + 1, *w = given->n + 6;
    if (given->x[0] != 0)
        return (T)given->x[0];
    return (T)(extent(h[0], h[1], h[2], h[3], row, (int)given->n[11]) *
               extent(w[0], w[1], w[2], w[3], column, (int)given->n[11]));
}

/* p: x, out */
TG_VERSIONS static void NAMED(avg_pool_planes)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t *h = given->n + 1, *w = given->n + 6;
    for (int64_t plane = begin; plane < end; plane++) {
        const T *x = (const T *)given->p[0] + plane * h[0] * w[0];
        T *to = (T *)given->p[1] + plane * h[4] * w[4];
        for (int64_t row = 0; row < h[4]; row++, to += w[4]) {
            const int64_t low = most(row * h[2] - h[3], 0);
            const int64_t high = least(row * h[2] - h[3] + h[1], h[0]);
            for (int64_t i = 0; i < w[4]; i++)
                to[i] = 0;
            for (int64_t r = low; r < high; r++)
                for (int64_t tap = 0; tap < w[1]; tap++) {
                    const T *restrict from = x + r * w[0];
                    T *restrict sums = to;
                    int64_t first, last;
                    inside(w[0], w[2], w[3], w[4], tap, &first, &last);
                    EACH_WINDOW(first, last, w[2], tap - w[3], sums[i] += from[at];)
                }
            for (int64_t i = 0; i < w[4]; i++)
                to[i] /= NAMED(divisor)(given, row, i);
        }
    }
}
void NAMED(tg_avg_pool2d)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], pieces(0.5, n[5] * n[10] * n[2] * n[7]), NAMED(avg_pool_planes), &given);
}

/* p: gradient, out */
TG_VERSIONS static void NAMED(avg_pool_back_planes)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t *h = given->n + 1, *w = given->n + 6;
    for (int64_t plane = begin; plane < end; plane++) {
        const T *grad = (const T *)given->p[0] + plane * h[4] * w[4];
        T *x = (T *)given->p[1] + plane * h[0] * w[0];
        memset(x, 0, (size_t)(h[0] * w[0]) * sizeof(T));
        for (int64_t row = 0; row < h[4]; row++, grad += w[4])
            for (int64_t start = 0; start < w[4]; start += CHUNK) {
                const int64_t count = least(CHUNK, w[4] - start), base = start * w[2] - w[3];
                const int64_t low = most(row * h[2] - h[3], 0);
                const int64_t high = least(row * h[2] - h[3] + h[1], h[0]);
                T share[CHUNK];
                for (int64_t i = 0; i < count; i++)
                    share[i] = grad[start + i] / NAMED(divisor)(given, row, start + i);
                for (int64_t r = low; r < high; r++)
                    for (int64_t tap = 0; tap < w[1]; tap++) {
                        T *restrict to = x + r * w[0];
                        int64_t first, last;
                        inside(w[0], w[2], -base, count, tap, &first, &last);
                        EACH_WINDOW(first, last, w[2], base + tap, to[at] += share[i];)
                    }
            }
    }
}
void NAMED(tg_avg_pool2d_back)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    tg_parallel(n[0], pieces(0.7, n[5] * n[10] * n[2] * n[7]), NAMED(avg_pool_back_planes), &given);
}
