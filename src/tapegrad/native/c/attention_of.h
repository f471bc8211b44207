/* attention.c for one type: T, with its EXP_BELOW (of numbers that are not positive). */

/* exp(scores - the largest) of a block of queries, and what the rows are to be divided by. Where
   every score is minus infinity there is no weight: zeros, to be divided by one. */
TG_VERSIONS static void NAMED(weigh)(const sizes *s, void **p, double scale, int64_t item,
                                     int64_t first, int64_t count, const T *turned_keys, T *scores,
                                     T *below) {
    const int64_t keys = s->keys;
    const T *query = (const T *)p[0] + place(&s->query, item, s->heads, first);
    NAMED(tg_by_packed)(count, keys, s->width, (T)scale, query, s->query.row, 1, turned_keys, 0,
                        scores, keys);
    for (int64_t i = 0; i < count; i++) {
        T *restrict row = scores + i * keys;
        if (p[3]) {
            const T *mask = (const T *)p[3] + place(&s->mask, item, s->heads, first + i);
            if (s->mask_column == 1)
                for (int64_t j = 0; j < keys; j++)
                    row[j] += mask[j];
            else
                for (int64_t j = 0; j < keys; j++)
                    row[j] += mask[j * s->mask_column];
        }
        int64_t seen = keys;
        if (s->causal && first + i + 1 < keys) {
            const int64_t ahead = first + i + 1;
            seen = ahead;
            for (int64_t j = ahead; j < keys; j++) {
                seen = row[j] - row[j] == 0 ? seen : keys; /* what is no number stays none */
                row[j] += (T)-INFINITY;
            }
            if (seen == ahead)
                memset(row + ahead, 0, sizeof(T) * (size_t)(keys - ahead));
        }
        const T most = NAMED(largest)(row, seen), shift = most == (T)-INFINITY ? 0 : most;
        for (int64_t j = 0; j < seen; j++)
            row[j] = EXP_BELOW(row[j] - shift);
        SUM_OF(sum, seen, READ(e, row), e)
        below[i] = (T)sum == 0 ? 1 : (T)sum;
    }
}

/* p: query, key, value, mask or NULL, out, whether there was no memory; n: sizes; x: scale */
TG_VERSIONS static void NAMED(attend)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    void **p = given->p;
    const sizes *s = (const sizes *)given->n;
    const int64_t blocks = (s->queries + QUERIES - 1) / QUERIES;
    const int64_t room = TG_PACKED(T, s->width, s->keys), more = TG_PACKED(T, s->keys, s->width);
    T below[QUERIES], *scores = malloc(sizeof(T) * (QUERIES * s->keys + room + more));
    T *turned_keys = scores + QUERIES * s->keys, *values = turned_keys + room;
    int64_t packed = -1;
    if (!scores)
        *(int64_t *)p[5] = 1;
    for (int64_t at = begin; scores && at < end; at++) {
        const int64_t item = at / blocks, first = at % blocks * QUERIES;
        const int64_t count = lesser(QUERIES, s->queries - first);
        T *out = (T *)p[4] + place(&s->out, item, s->heads, first);
        if (item != packed) {
            const T *key = (const T *)p[1] + place(&s->key, item, s->heads, 0);
            const T *value = (const T *)p[2] + place(&s->value, item, s->heads, 0);
            NAMED(tg_pack)(s->width, s->keys, key, 1, s->key.row, turned_keys);
            NAMED(tg_pack)(s->keys, s->width, value, s->value.row, 1, values);
            packed = item;
        }
        NAMED(weigh)(s, p, given->x[0], item, first, count, turned_keys, scores, below);
        NAMED(tg_by_packed)(count, s->width, s->keys, 1, scores, s->keys, 1, values, 0, out,
                            s->out.row);
        for (int64_t i = 0; i < count; i++)
            for (int64_t c = 0; c < s->width; c++)
                out[i * s->out.row + c] /= below[i];
    }
    free(scores);
}
void NAMED(tg_attention)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    const sizes *s = (const sizes *)n;
    const int64_t blocks = (s->queries + QUERIES - 1) / QUERIES;
    tg_parallel(s->batches * s->heads * blocks, heads_of(s, lesser(QUERIES, s->queries), 2),
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
    const int64_t block = TG_PACKED(T, QUERIES, width);
    T below[QUERIES], *weights = malloc(
                          sizeof(T) * (2 * QUERIES * keys + 2 * turned + straight + block));
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
        for (int64_t first = 0; first < s->queries; first += QUERIES) {
            const int64_t count = lesser(QUERIES, s->queries - first);
            const T *query = (const T *)p[0] + place(&s->query, item, s->heads, first);
            const T *grad = (const T *)p[4] + place(&s->out, item, s->heads, first);
            T *to_query = (T *)p[5] + (item * s->queries + first) * width;
            NAMED(weigh)(s, p, given->x[0], item, first, count, turned_keys, weights, below);
            NAMED(tg_by_packed)(count, keys, width, 1, grad, s->out.row, 1, turned_values, 0, slopes,
                                keys);
            for (int64_t i = 0; i < count; i++) {
                T *restrict weight = weights + i * keys, *restrict slope = slopes + i * keys;
                for (int64_t j = 0; j < keys; j++)
                    weight[j] /= below[i];
                SUM_OF(dot, keys, READ(g, slope) READ(w, weight), g * w)
                const T mean = (T)dot;
                for (int64_t j = 0; j < keys; j++)
                    slope[j] = (slope[j] - mean) * weight[j];
            }
            const T adds = first > 0;
            NAMED(tg_pack)(count, width, grad, s->out.row, 1, block_packed);
            NAMED(tg_by_packed)(keys, width, count, 1, weights, 1, keys, block_packed, adds,
                                to_value, width);
            NAMED(tg_pack)(count, width, query, s->query.row, 1, block_packed);
            NAMED(tg_by_packed)(keys, width, count, scale, slopes, 1, keys, block_packed, adds,
                                to_key, width);
            NAMED(tg_by_packed)(count, width, keys, scale, slopes, keys, 1, keys_packed, 0, to_query,
                                width);
        }
    }
    free(weights);
}
void NAMED(tg_attention_back)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    const sizes *s = (const sizes *)n;
    tg_parallel(s->batches * s->heads, heads_of(s, s->queries, 5), NAMED(attend_back), &given);
}
