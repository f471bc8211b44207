/* attention.c for one type: T, with its EXP_BELOW (of numbers that are not positive). */

/* scale * a block of rows (queries, or gradients) by transposed keys, or values, where the mask
   allows. */
TG_INLINE void NAMED(score)(const sizes *s, int64_t first, int64_t count, int64_t seen, T scale,
                            const T *rows, int64_t step, const T *turned, T *scores) {
    if (!s->causal) {
        NAMED(tg_by_packed)(count, seen, s->width, scale, rows, step, 1, turned, 0, scores, s->keys);
        return;
    }
    for (int64_t at = 0; at < seen; at += TG_PANEL(T), turned += TG_PANEL(T) * s->width) {
        const int64_t skip = at > first ? at - first : 0; /* queries in front of these keys */
        if (skip < count)
            NAMED(tg_by_packed)(count - skip, lesser(TG_PANEL(T), seen - at), s->width, scale,
                                rows + skip * step, step, 1, turned, 0,
                                scores + skip * s->keys + at, s->keys);
    }
}

/* out = scale * a block of weights, or slopes, by packed values, or keys: those that are seen. */
TG_INLINE void NAMED(by_seen)(const sizes *s, int64_t count, int64_t seen, T scale, const T *weights,
                              const T *packed, T *out, int64_t step) {
    for (int64_t at = 0; at < s->width; at += TG_PANEL(T))
        NAMED(tg_by_packed)(count, lesser(TG_PANEL(T), s->width - at), seen, scale, weights, s->keys,
                            1, packed + at * s->keys, 0, out + at, step);
}

/* How much of its row a query sees; the rest of the first `seen` is filled with zeros. */
TG_INLINE int64_t NAMED(own)(const sizes *s, int64_t query, int64_t seen, T *row) {
    const int64_t most = s->causal && query + 1 < seen ? query + 1 : seen;
    memset(row + most, 0, sizeof(T) * (size_t)(seen - most));
    return most;
}

/* exp(scores - the largest) of a block of queries, and what the rows are to be divided by. Where
   every score is minus infinity there is no weight: zeros, to be divided by one. */
TG_VERSIONS static void NAMED(weigh)(const sizes *s, void **p, double scale, int64_t item,
                                     int64_t first, int64_t count, const T *turned_keys, T *scores,
                                     T *below) {
    const int64_t seen = keys_before(s, first + count);
    const T *query = (const T *)p[0] + place(&s->query, item, s->heads, first);
    NAMED(score)(s, first, count, seen, (T)scale, query, s->query.row, turned_keys, scores);
    for (int64_t i = 0; i < count; i++) {
        T *restrict row = scores + i * s->keys;
        const int64_t keys = NAMED(own)(s, first + i, seen, row);
        if (p[3]) {
            const T *mask = (const T *)p[3] + place(&s->mask, item, s->heads, first + i);
            if (s->mask_column == 1)
                for (int64_t j = 0; j < keys; j++)
                    row[j] += mask[j];
            else
                for (int64_t j = 0; j < keys; j++)
                    row[j] += mask[j * s->mask_column];
        }
        const T most = NAMED(largest)(row, keys), shift = most == (T)-INFINITY ? 0 : most;
        for (int64_t j = 0; j < keys; j++)
            row[j] = EXP_BELOW(row[j] - shift);
        SUM_OF(sum, keys, READ(e, row), e)
        below[i] = (T)sum == 0 ? 1 : (T)sum;
    }
}

/* p: query, key, value, mask or NULL, out, whether there was no memory; n: sizes; x: scale */
TG_VERSIONS static void NAMED(attend)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    void **p = given->p;
    const sizes *s = (const sizes *)given->n;
    const int64_t block = block_of(s), blocks = (s->queries + block - 1) / block;
    const int64_t room = TG_PACKED(T, s->width, s->keys), more = TG_PACKED(T, s->keys, s->width);
    T below[QUERIES], *scores = malloc(sizeof(T) * (QUERIES * s->keys + room + more));
    T *turned_keys = scores + QUERIES * s->keys, *values = turned_keys + room;
    int64_t packed = -1;
    if (!scores)
        *(int64_t *)p[5] = 1;
    for (int64_t at = begin; scores && at < end; at++) {
        const int64_t item = at / blocks, first = at % blocks * block;
        const int64_t count = lesser(block, s->queries - first);
        T *out = (T *)p[4] + place(&s->out, item, s->heads, first);
        if (item != packed) {
            const T *key = (const T *)p[1] + place(&s->key, item, s->heads, 0);
            const T *value = (const T *)p[2] + place(&s->value, item, s->heads, 0);
            NAMED(tg_pack)(s->width, s->keys, key, 1, s->key.row, turned_keys);
            NAMED(tg_pack)(s->keys, s->width, value, s->value.row, 1, values);
            packed = item;
        }
        NAMED(weigh)(s, p, given->x[0], item, first, count, turned_keys, scores, below);
        NAMED(by_seen)(s, count, keys_before(s, first + count), 1, scores, values, out, s->out.row);
        for (int64_t i = 0; i < count; i++)
            for (int64_t c = 0; c < s->width; c++)
                out[i * s->out.row + c] /= below[i];
    }
    free(scores);
}
void NAMED(tg_attention)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    const sizes *s = (const sizes *)n;
    const int64_t block = block_of(s), blocks = (s->queries + block - 1) / block;
    tg_parallel(s->batches * s->heads * blocks, heads_of(s, lesser(block, s->queries), 2),
                NAMED(attend), &given);
}

/* p: query, key, value, mask or NULL, gradient, those of query, key and value (dense), whether there
   was no memory; n: sizes; x: scale */
TG_VERSIONS static void NAMED(attend_back)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    void **p = given->p;
    const sizes *s = (const sizes *)given->n;
    const int64_t keys = s->keys, width = s->width;
    const T scale = (T)given->x[0];
    const int64_t turned = TG_PACKED(T, width, keys), straight = TG_PACKED(T, keys, width);
    const int64_t block = block_of(s), of_a_block = TG_PACKED(T, QUERIES, width);
    T below[QUERIES], *weights = malloc(
                          sizeof(T) * (2 * QUERIES * keys + 2 * turned + straight + of_a_block));
    T *slopes = weights + QUERIES * keys, *turned_keys = slopes + QUERIES * keys;
    T *turned_values = turned_keys + turned, *keys_packed = turned_values + turned;
    T *block_packed = keys_packed + straight; /* of queries, or of their gradient */
    if (!weights)
        *(int64_t *)p[8] = 1;
    for (int64_t item = begin; weights && item < end; item++) {
        const T *key = (const T *)p[1] + place(&s->key, item, s->heads, 0);
        const T *value = (const T *)p[2] + place(&s->value, item, s->heads, 0);
        T *to_key = (T *)p[6] + item * keys * width, *to_value = (T *)p[7] + item * keys * width;
        NAMED(tg_pack)(width, keys, key, 1, s->key.row, turned_keys);
        NAMED(tg_pack)(width, keys, value, 1, s->value.row, turned_values);
        NAMED(tg_pack)(keys, width, key, s->key.row, 1, keys_packed);
        if (s->causal) { /* each block adds to the keys that it sees */
            memset(to_key, 0, sizeof(T) * (size_t)(keys * width));
            memset(to_value, 0, sizeof(T) * (size_t)(keys * width));
        }
        for (int64_t first = 0; first < s->queries; first += block) {
            const int64_t count = lesser(block, s->queries - first);
            const int64_t seen = keys_before(s, first + count);
            const T *query = (const T *)p[0] + place(&s->query, item, s->heads, first);
            const T *grad = (const T *)p[4] + place(&s->out, item, s->heads, first);
            T *to_query = (T *)p[5] + (item * s->queries + first) * width;
            NAMED(weigh)(s, p, given->x[0], item, first, count, turned_keys, weights, below);
            NAMED(score)(s, first, count, seen, 1, grad, s->out.row, turned_values, slopes);
            for (int64_t i = 0; i < count; i++) {
                T *restrict weight = weights + i * keys, *restrict slope = slopes + i * keys;
                const int64_t most = NAMED(own)(s, first + i, seen, slope);
                for (int64_t j = 0; j < most; j++)
                    weight[j] /= below[i];
                SUM_OF(dot, most, READ(g, slope) READ(w, weight), g * w)
                const T mean = (T)dot;
                for (int64_t j = 0; j < most; j++)
                    slope[j] = (slope[j] - mean) * weight[j];
            }
            const T adds = s->causal || first > 0;
            NAMED(tg_pack)(count, width, grad, s->out.row, 1, block_packed);
            NAMED(tg_by_packed)(seen, width, count, 1, weights, 1, keys, block_packed, adds,
                                to_value, width);
            NAMED(tg_pack)(count, width, query, s->query.row, 1, block_packed);
            NAMED(tg_by_packed)(seen, width, count, scale, slopes, 1, keys, block_packed, adds,
                                to_key, width);
            NAMED(by_seen)(s, count, seen, scale, slopes, keys_packed, to_query, width);
        }
    }
    free(weights);
}
void NAMED(tg_attention_back)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    const sizes *s = (const sizes *)n;
    tg_parallel(s->batches * s->heads, heads_of(s, s->queries, 5), NAMED(attend_back), &given);
}
