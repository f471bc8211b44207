/* For kernels that are written once per type T. */

/* The largest element. A NaN may be passed over: what follows finds it again in the sum. */
TG_INLINE T NAMED(largest)(const STORED *x, int64_t n) {
    enum { LANES = 16 };
    T lane[LANES];
    for (int k = 0; k < LANES; k++)
        lane[k] = (T)-INFINITY;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] = WIDEN(x[i + k]) > lane[k] ? WIDEN(x[i + k]) : lane[k];
    T most = (T)-INFINITY;
    for (; i < n; i++)
        most = WIDEN(x[i]) > most ? WIDEN(x[i]) : most;
    for (int k = 0; k < LANES; k++)
        most = lane[k] > most ? lane[k] : most;
    return most;
}
