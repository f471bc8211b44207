// Random words as they are, and permutations.
#include "random/philox.cu"

extern "C" __global__ void words(u32* __restrict__ y, START, i64 n) {
    const int PER = 4;
    BEGIN
    TURNS {
        Words w = philox(seed, thread, round + turn);
        EACH_NUMBER(j, at) y[at] = w.w[j];
    }
}
extern "C" __global__ void long_words(u64* __restrict__ y, START, i64 n) {
    const int PER = 2;
    BEGIN
    TURNS {
        Words w = philox(seed, thread, round + turn);
        EACH_NUMBER(j, at) y[at] = (u64)w.w[2 * j] << 32 | w.w[2 * j + 1];
    }
}
extern "C" __global__ void fours(float* __restrict__ y, START, i64 n) {
    BEGIN
    for (i64 g = thread; g < (n + 3) / 4; g += threads) {
        Words w = philox(seed, g, round);
        for (int j = 0; j < 4; j++) if (4 * g + j < n) y[4 * g + j] = single(w.w[j]);
    }
}
// Shuffles the places of equal keys; the thread of the first of them does it.
extern "C" __global__ void untied(const u64* __restrict__ keys, i64* __restrict__ order, START,
                                  i64 n) {
    BEGIN
    for (i64 g = thread; g < n - 1; g += threads) {
        u64 key = keys[g];
        if (key != keys[g + 1] || (g && key == keys[g - 1])) continue;
        i64 end = g + 2;
        while (end < n && keys[end] == key) end++;
        Words w;
        int k = 0;
        for (i64 i = end - g - 1; i > 0; i--, k++) {
            if (k % 4 == 0) w = philox(seed, g, round + k / 4);
            i64 other = w.w[k % 4] % (u32)(i + 1), kept = order[g + i];
            order[g + i] = order[g + other]; order[g + other] = kept;
        }
    }
}
extern "C" __global__ void fill_cell(u64* cell, u64 seed, u64 round) {
    if (blockIdx.x == 0 && threadIdx.x == 0) { cell[0] = seed; cell[1] = round; }
}
