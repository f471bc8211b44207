/* sort.c for elements as wide as KEY. */

typedef struct {
    KEY key, place;
} NAMED(pair);

#define TOP ((KEY)1 << (8 * sizeof(KEY) - 1))

/* The keys of elements, which are floats or signed integers; `turned`: in descending order. */
TG_VERSIONS static void NAMED(keys)(const KEY *restrict x, KEY *restrict keys, int64_t n,
                                    int floats, int turned) {
    const KEY flip = turned ? ~(KEY)0 : 0;
    if (!floats) {
        for (int64_t i = 0; i < n; i++)
            keys[i] = x[i] ^ TOP ^ flip;
        return;
    }
    const KEY infinity = sizeof(KEY) == 4 ? (KEY)0x7f800000u : (KEY)0x7ff0000000000000u;
    for (int64_t i = 0; i < n; i++) {
        const KEY size = x[i] & ~TOP, bits = size ? x[i] : 0;
        const KEY key = bits & TOP ? ~bits : bits | TOP;
        keys[i] = (size > infinity ? ~(KEY)0 : key) ^ flip;
    }
}

/* Sort pairs; the result is in `a` or in `b`. */
static NAMED(pair) * NAMED(sorted)(NAMED(pair) * a, NAMED(pair) * b, int64_t n) {
    if (n <= FEW) {
        for (int64_t i = 1; i < n; i++) {
            const NAMED(pair) moved = a[i];
            int64_t j = i;
            for (; j && a[j - 1].key > moved.key; j--)
                a[j] = a[j - 1];
            a[j] = moved;
        }
        return a;
    }
    int64_t counts[sizeof(KEY)][256];
    memset(counts, 0, sizeof counts);
    for (int64_t i = 0; i < n; i++)
        for (size_t d = 0; d < sizeof(KEY); d++)
            counts[d][a[i].key >> (8 * d) & 255]++;
    for (size_t d = 0; d < sizeof(KEY); d++) {
        int64_t *at = counts[d];
        if (at[a[0].key >> (8 * d) & 255] == n)
            continue; /* all have the same digit here */
        for (int64_t v = 0, before = 0; v < 256; v++) {
            const int64_t count = at[v];
            at[v] = before;
            before += count;
        }
        for (int64_t i = 0; i < n; i++)
            b[at[a[i].key >> (8 * d) & 255]++] = a[i];
        NAMED(pair) *const other = a;
        a = b;
        b = other;
    }
    return a;
}

/* The first `k` pairs in order, kept while the row is read: only what is smaller than the last of
   them is put in its place. */
TG_VERSIONS static void NAMED(selected)(const KEY *keys, int64_t n, NAMED(pair) * best, int64_t k) {
    int64_t have = 0;
    for (int64_t start = 0; start < n; start += TOGETHER) {
        if (have == k && start + TOGETHER <= n) {
            const KEY last = best[k - 1].key;
            KEY any = 0;
            for (int64_t i = start; i < start + TOGETHER; i++)
                any |= keys[i] < last;
            if (!any)
                continue;
        }
        for (int64_t i = start; i < lesser(start + TOGETHER, n); i++) {
            if (have == k && keys[i] >= best[k - 1].key)
                continue;
            int64_t j = have < k ? have++ : k - 1;
            for (; j && best[j - 1].key > keys[i]; j--)
                best[j] = best[j - 1];
            best[j] = (NAMED(pair)){keys[i], (KEY)i};
        }
    }
}

static void NAMED(sort_rows)(void *context, int64_t begin, int64_t end) {
    const arguments *given = context;
    const int64_t n = given->n[1], k = given->n[2];
    const int select = k <= SELECTED && 4 * k < n;
    const int64_t room = select ? k : 2 * n;
    KEY *const keys = malloc((size_t)n * sizeof(KEY));
    NAMED(pair) *const pairs = malloc((size_t)room * sizeof(NAMED(pair)));
    if (!keys || !pairs) {
        __atomic_store_n((int64_t *)given->p[3], 1, __ATOMIC_RELAXED);
        end = begin;
    }
    for (int64_t row = begin; row < end; row++) {
        const KEY *x = (const KEY *)given->p[0] + row * n;
        KEY *values = (KEY *)given->p[1] + row * k;
        int64_t *places = (int64_t *)given->p[2] + row * k;
        NAMED(pair) *found = pairs;
        NAMED(keys)(x, keys, n, (int)given->n[3], (int)given->n[4]);
        if (select) {
            NAMED(selected)(keys, n, pairs, k);
        } else {
            for (int64_t i = 0; i < n; i++)
                pairs[i] = (NAMED(pair)){keys[i], (KEY)i};
            found = NAMED(sorted)(pairs, pairs + n, n);
        }
        for (int64_t i = 0; i < k; i++) {
            places[i] = (int64_t)found[i].place;
            values[i] = x[found[i].place];
        }
    }
    free(keys);
    free(pairs);
}

/* The first `k` of each row in order.
   p: input, values, places (int64), whether there was no memory; n: rows, width, k, whether floats,
   whether the largest first */
void NAMED(tg_sort)(void **p, const int64_t *n, const double *x) {
    arguments given = {p, n, x};
    *(int64_t *)p[3] = 0;
    const int select = n[2] <= SELECTED && 4 * n[2] < n[1];
    tg_parallel(n[0], rows_of(n[1], select ? 1.0 : 8.0 * sizeof(KEY) / 4), NAMED(sort_rows), &given);
}

#undef TOP
