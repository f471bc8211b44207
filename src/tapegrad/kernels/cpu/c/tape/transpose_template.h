/* For types T, vectors V of L of them, and lanes: whole numbers (INTEGER) of the same size. */

/* L vectors of L elements, transposed: blocks of one, two, four … change places. */
TG_INLINE void NAMED(turn_square)(V *x) {
#if defined(__clang__)
    T all[L][L];
    memcpy(all, x, sizeof all);
    for (int i = 0; i < L; i++)
        for (int j = 0; j < L; j++)
            x[i][j] = all[j][i];
#else
    static const INTEGER numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    NAMED(lanes) at;
    memcpy(&at, numbers, sizeof at);
    TG_UNROLL(8)
    for (INTEGER s = 1; s < L; s *= 2) {
        const NAMED(lanes) low = at + (((at & s) != 0) & (INTEGER)(L - s)), high = low + s;
        TG_UNROLL(16)
        for (int i = 0; i < L; i++)
            if (!(i & s)) {
                const V a = x[i], b = x[i + s];
                x[i] = __builtin_shuffle(a, b, low);
                x[i + s] = __builtin_shuffle(a, b, high);
            }
    }
#endif
}
