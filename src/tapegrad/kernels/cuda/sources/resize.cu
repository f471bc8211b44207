// Resizing by tables (kernels/resampling_taps.py): per place along a dimension, `width` places of x
// with weights. The tables of the dimensions follow each other.
#include "windows.cu"

struct Axes { Cut out[3]; unsigned size[3], width[3], start[3]; };
extern "C" __global__ void resize(const T* __restrict__ x, const int* __restrict__ places,
        const A* __restrict__ weights, T* __restrict__ out, unsigned n,
        const __grid_constant__ Axes a) {
    unsigned whole = a.size[0] * a.size[1] * a.size[2];
    EACH(i, n) {
        Spot s = spot(i, a.out);
        const T* from = x + (i64)s.plane * whole;
        unsigned first[3];
        #pragma unroll
        for (int d = 0; d < 3; d++) first[d] = a.start[d] + s.at[d] * a.width[d];
        A total = 0;
        for (unsigned z = first[0]; z < first[0] + a.width[0]; z++) {
            for (unsigned y = first[1]; y < first[1] + a.width[1]; y++) {
                // What has no weight is no tap at all: infinities must not leave a NaN.
                A by = weights[z] * weights[y], some = 0;
                if (by == 0) continue;
                const T* line = from + (places[z] * a.size[1] + places[y]) * a.size[2];
                for (unsigned q = first[2]; q < first[2] + a.width[2]; q++)
                    if (weights[q] != 0) some += weights[q] * LOAD(line + places[q]);
                total += by * some;
            }
        }
        STORE(out + i, total);
    }
}
