// Activations that read more than one place: glu and prelu. Their formulas are made in
// launchers/gates.py.
#include "prelude.cu"
#include "formula.cu"

// A row of x has two halves of `half` elements; y has one such half per row.
extern "C" __global__ void glu(const T* __restrict__ x, T* __restrict__ y, unsigned n,
        unsigned half) {
    unsigned fours = half % 4 == 0 && aligned(x, y) ? n / 4 : 0;
    EACH(i, fours) {
        unsigned k = 4 * i;
        const T* p = x + k + (i64)(k / half) * half;
        Four<T> f = *(const Four<T>*)p, g = *(const Four<T>*)(p + half);
        #pragma unroll
        for (int j = 0; j < 4; j++) STORE(f.v + j, gated(LOAD(f.v + j), LOAD(g.v + j)));
        *(Four<T>*)(y + k) = f;
    }
    EACH(i, n - 4 * fours) {
        unsigned k = 4 * fours + i;
        const T* p = x + k + (i64)(k / half) * half;
        STORE(y + k, gated(LOAD(p), LOAD(p + half)));
    }
}
__device__ __forceinline__ void ungated(T* p, T* q, A grad) {
    A a = LOAD(p), b = LOAD(q);
    STORE(p, glu_first(grad, a, b));
    STORE(q, glu_second(grad, a, b));
}
extern "C" __global__ void glu_back(const T* __restrict__ g, const T* __restrict__ x,
        T* __restrict__ dx, unsigned n, unsigned half) {
    unsigned fours = half % 4 == 0 && aligned(g, x, dx) ? n / 4 : 0;
    EACH(i, fours) {
        unsigned k = 4 * i;
        i64 at = k + (i64)(k / half) * half;
        Four<T> grad = *(const Four<T>*)(g + k);
        Four<T> f = *(const Four<T>*)(x + at), h = *(const Four<T>*)(x + at + half);
        #pragma unroll
        for (int j = 0; j < 4; j++) ungated(f.v + j, h.v + j, LOAD(grad.v + j));
        *(Four<T>*)(dx + at) = f;
        *(Four<T>*)(dx + at + half) = h;
    }
    EACH(i, n - 4 * fours) {
        unsigned k = 4 * fours + i;
        i64 at = k + (i64)(k / half) * half;
        T a = x[at], b = x[at + half];
        ungated(&a, &b, LOAD(g + k));
        dx[at] = a;
        dx[at + half] = b;
    }
}
// Each weight stays for `run` elements, and all `size` of them come again.
extern "C" __global__ void prelu_slopes(const T* __restrict__ g, const T* __restrict__ x,
        const T* __restrict__ w, T* __restrict__ dx, T* __restrict__ dw, unsigned n, unsigned run,
        unsigned size) {
    EACH(i, n) {
        unsigned k = i;
        A grad = LOAD(g + k), a = LOAD(x + k), slope = LOAD(w + k / run % size);
        STORE(dx + k, prelu_input(grad, a, slope));
        STORE(dw + k, prelu_weight(grad, a, slope));
    }
}
// The same with the weights' gradients added up: blockIdx.x is the weight, which has `own`
// elements, blockIdx.y a chunk of them. Parts as above; dx may be null.
extern "C" __global__ void prelu_back(const T* __restrict__ g, const T* __restrict__ x,
        const T* __restrict__ w, T* __restrict__ dx, A* __restrict__ parts, T* __restrict__ dw,
        unsigned own, unsigned run, unsigned chunk) {
    unsigned start = blockIdx.y * chunk, end = start + chunk < own ? start + chunk : own;
    A slope = LOAD(w + blockIdx.x), total = 0;
    for (unsigned e = start + threadIdx.x; e < end; e += blockDim.x) {
        i64 k = (e / run * (i64)gridDim.x + blockIdx.x) * run + e % run;
        A grad = LOAD(g + k), a = LOAD(x + k);
        if (dx) STORE(dx + k, prelu_input(grad, a, slope));
        total += prelu_weight(grad, a, slope);
    }
    total = block_sum(total);
    if (threadIdx.x == 0) {
        if (parts) parts[blockIdx.x * (i64)gridDim.y + blockIdx.y] = total;
        else STORE(dw + blockIdx.x, total);
    }
}
