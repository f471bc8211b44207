/* gather.c for one type T: kernels that add or write. Elements with the same target are added in
   the order of the index, on one thread. */

/* out[o, index[j]] += rows[o, j]
   p: out, index, rows, whether something was wrong; n: outer, size, width, count, whether negative
   numbers count from the end, whether a number is passed over, which; and where to cut: 0 nowhere, 1
   outer, 2 columns, 3 the rows of out */
TG_VERSIONS static void NAMED(add_some_rows)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t size = given->n[1], width = given->n[2], count = given->n[3], cut = given->n[7];
    const int64_t passes = given->n[5], passed = given->n[6];
    const int64_t *index = given->p[1];
    const int64_t o0 = cut == 1 ? begin : 0, o1 = cut == 1 ? end : given->n[0];
    const int64_t c0 = cut == 2 ? begin : 0, c1 = cut == 2 ? end : width;
    const int64_t r0 = cut == 3 ? begin : 0, r1 = cut == 3 ? end : size;
    for (int64_t o = o0; o < o1; o++) {
        if (width == 1 && !passes) {
            T *restrict out = (T *)given->p[0] + o * size;
            const T *restrict source = (const T *)given->p[2] + o * count;
            for (int64_t j = 0; j < count; j++)
                out[wrapped(index[j], size)] += source[j];
            continue;
        }
        for (int64_t j = 0; j < count; j++) {
            const int64_t to = wrapped(index[j], size);
            if (to < r0 || to >= r1 || (passes && to == passed))
                continue;
            T *restrict out = (T *)given->p[0] + (o * size + to) * width;
            const T *restrict row = (const T *)given->p[2] + (o * count + j) * width;
            for (int64_t c = c0; c < c1; c++)
                out[c] += row[c];
        }
    }
}
void NAMED(tg_add_rows)(void **p, const int64_t *n, const double *x) {
    int64_t sizes[8], *wrong = p[3];
    arguments given = {p, sizes, x};
    *wrong = !are_within(p[1], n[3], n[4] ? -n[1] : 0, n[1]);
    if (*wrong)
        return;
    memcpy(sizes, n, 7 * sizeof *n);
    const int64_t width = n[2], work = n[3] * width;
    if (n[0] * work <= tg_grain(0.5)) {
        sizes[7] = 0;
        NAMED(add_some_rows)(&given, 0, 1);
    } else if (n[0] > 1) {
        sizes[7] = 1;
        tg_parallel(n[0], rows_of(work, 0.5), NAMED(add_some_rows), &given);
    } else if (width >= 1024) {
        sizes[7] = 2;
        tg_parallel(width, 256, NAMED(add_some_rows), &given);
    } else if (width >= 16) { /* each piece looks at all numbers: a few wide pieces */
        sizes[7] = 3;
        tg_parallel(n[1], (n[1] + 3) / 4, NAMED(add_some_rows), &given);
    } else {
        sizes[7] = 0;
        NAMED(add_some_rows)(&given, 0, 1);
    }
}

/* out[o, index[o, j, k], k] += source[o, j, k], or = (the last one stays), or = x[0].
   p: out, index, source or NULL, whether something was wrong; n: outer, size, inner, count, whether
   to add, whether to clear `out` first; x: the number, where there is no source */
#define SCATTER(how)                                                                               \
    if (inner == 1)                                                                                \
        for (int64_t i = 0; i < count; i++)                                                        \
            out[index[i]] how;                                                                     \
    else                                                                                           \
        for (int64_t j = 0; j < count; j++)                                                        \
            for (int64_t k = k0, i = j * inner + k0; k < k1; k++, i++)                             \
                out[index[i] * inner + k] how;
TG_VERSIONS static void NAMED(scatter_some)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t size = given->n[1], inner = given->n[2], count = given->n[3];
    const int lone = given->n[0] == 1; /* then columns are cut */
    const int64_t o0 = lone ? 0 : begin, o1 = lone ? 1 : end;
    const int64_t k0 = lone ? begin : 0, k1 = lone ? end : inner;
    const T number = (T)given->x[0];
    for (int64_t o = o0; o < o1; o++) {
        T *restrict out = (T *)given->p[0] + o * size * inner;
        const int64_t *restrict index = (const int64_t *)given->p[1] + o * count * inner;
        if (!lone && !are_fine(index, count * inner, size, given->p[3]))
            return;
        if (given->n[5])
            memset(out, 0, (size_t)(size * inner) * sizeof(T));
        if (!given->p[2]) {
            SCATTER(= number)
            continue;
        }
        const T *restrict source = (const T *)given->p[2] + o * count * inner;
        if (given->n[4]) {
            SCATTER(+= source[i])
        } else {
            SCATTER(= source[i])
        }
    }
}
#undef SCATTER
void NAMED(tg_scatter)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    int64_t *wrong = p[3];
    *wrong = n[0] == 1 && !are_within(p[1], n[2] * n[3], 0, n[1]);
    if (*wrong)
        return;
    if (n[0] == 1) {
        const int64_t columns = rows_of(n[3], 1);
        tg_parallel(n[2], columns > 64 ? columns : 64, NAMED(scatter_some), &given);
    } else {
        const int64_t work = n[2] * (n[3] + (n[5] ? n[1] / 16 : 0));
        tg_parallel(n[0], rows_of(work, 1), NAMED(scatter_some), &given);
    }
}

/* The losses of classes, and their gradients.
   p: log probabilities, targets, weights or NULL, out, whether a target is no class; n: rows,
   classes, whether a target is passed over, which, reduction: 0 none, 1 sum, 2 mean */
TG_INLINE double NAMED(weigh)(const int64_t *target, const T *weight, const int64_t *n,
                              int64_t *wrong) {
    double total = 0;
    *wrong = 0;
    for (int64_t row = 0; row < n[0]; row++) {
        if (n[2] && target[row] == n[3])
            continue;
        if ((uint64_t)target[row] >= (uint64_t)n[1]) {
            *wrong = 1;
            return 0;
        }
        total += weight ? (double)weight[target[row]] : 1;
    }
    return total;
}
void NAMED(tg_nll)(void **p, const int64_t *n, const double *x) {
    const T *input = p[0], *weight = p[2];
    const int64_t *target = p[1];
    T *out = p[3];
    const double total = NAMED(weigh)(target, weight, n, p[4]);
    if (*(int64_t *)p[4])
        return;
    double sum = 0;
    for (int64_t row = 0; row < n[0]; row++) {
        T loss = 0;
        if (!n[2] || target[row] != n[3]) {
            loss = -input[row * n[1] + target[row]];
            loss = weight ? loss * weight[target[row]] : loss;
        }
        if (n[4])
            sum += (double)loss;
        else
            out[row] = loss;
    }
    if (n[4])
        *out = (T)(n[4] == 2 ? sum / total : sum);
}
/* p: gradient, targets, weights or NULL, out (zeros), whether a target is no class; n likewise */
void NAMED(tg_nll_back)(void **p, const int64_t *n, const double *x) {
    const T *gradient = p[0], *weight = p[2];
    const int64_t *target = p[1];
    T *out = p[3];
    const double total = NAMED(weigh)(target, weight, n, p[4]);
    if (*(int64_t *)p[4])
        return;
    for (int64_t row = 0; row < n[0]; row++) {
        if (n[2] && target[row] == n[3])
            continue;
        T value = -gradient[n[4] ? 0 : row];
        value = n[4] == 2 ? value / (T)total : value;
        out[row * n[1] + target[row]] = weight ? value * weight[target[row]] : value;
    }
}
