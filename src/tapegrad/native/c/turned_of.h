/* For types T, vectors V of L of them, and lanes: whole numbers of the same size. */

/* L vectors of L elements, turned: blocks of one, two, four … change places. */
TG_INLINE void NAMED(turn_square)(V *x) {
#if defined(__clang__)
    T all[L][L];
    memcpy(all, x, sizeof all);
    for (int i = 0; i < L; i++)
        for (int j = 0; j < L; j++)
            x[i][j] = all[j][i];
#else
#pragma GCC unroll 8
    for (int s = 1; s < L; s *= 2) {
        NAMED(lanes) low, high;
#pragma GCC unroll 16
        for (int j = 0; j < L; j++) {
            low[j] = j & s ? L + j - s : j;
            high[j] = j & s ? L + j : j + s;
        }
#pragma GCC unroll 16
        for (int i = 0; i < L; i++)
            if (!(i & s)) {
                const V a = x[i], b = x[i + s];
                x[i] = __builtin_shuffle(a, b, low);
                x[i + s] = __builtin_shuffle(a, b, high);
            }
    }
#endif
}
