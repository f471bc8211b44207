// Several arrays one after the other along a dimension: blockIdx.y is the array, zeros if its pointer
// is null. A `row` of the result has `width` elements of it, from `start` on. LIMIT: how many fit into
// a launch.
#include "moves/layout.cu"

struct Parts {
    unsigned long long p[LIMIT]; unsigned n[LIMIT], width[LIMIT]; i64 start[LIMIT];
    int rank[LIMIT]; unsigned size[LIMIT][RANK]; i64 stride[LIMIT][RANK];
};
extern "C" __global__ void join(const __grid_constant__ Parts a, T* __restrict__ out, i64 row) {
    int k = blockIdx.y;
    const T* x = (const T*)a.p[k];
    unsigned width = a.width[k];
    T* to = out + a.start[k];
    EACH(i, a.n[k]) {
        unsigned line = (unsigned)i / width;
        T v = T();
        if (x) v = x[place(a.rank[k], a.size[k], a.stride[k], i)];
        to[line * row + ((unsigned)i - line * width)] = v;
    }
}
