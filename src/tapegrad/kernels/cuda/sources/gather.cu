// Rows of a table by index (embeddings), and their gradient.
#include "prelude.cu"

extern "C" __global__ void take_rows(const T* __restrict__ w, const i64* __restrict__ t,
        T* __restrict__ y, i64 count, int n, i64 rows) {
    EACH(i, count * n) {
        i64 r = t[i / n]; if (r < 0) r += rows;
        y[i] = (r >= 0 && r < rows) ? w[r * n + i % n] : (T)0;
    }
}
// One 1 in every row: a product with it adds rows up.
extern "C" __global__ void one_hot(const i64* __restrict__ t, T* __restrict__ y, i64 skip,
        i64 count, int rows) {
    EACH(i, count * rows) {
        i64 c = t[i / rows];
        STORE(y + i, (c == i % rows && c != skip) ? (A)1 : (A)0);
    }
}
extern "C" __global__ void add_rows(const T* __restrict__ g, const i64* __restrict__ t,
        A* __restrict__ w, i64 skip, i64 count, int n) {
    EACH(i, count * n) {
        i64 r = t[i / n];
        if (r != skip) atomicAdd(w + r * n + i % n, LOAD(g + i));
    }
}
