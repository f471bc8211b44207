"""The CUDA C of elementwise kernels, as templates around a function `formula`.

It is made from the block of an op (../formulas.py). `T`, `A`, `LOAD` and the rest are as in
templates.py; `numbers` declares the numbers that come with the arrays, `given` hands them on.
"""

from __future__ import annotations

from ....expressions.cuda import FUNCTIONS

FORMULA = FUNCTIONS + "%(formula)s"
# As many neighbours as 16 bytes have of half precision, or four.
NEIGHBOURS = r"""
#define MANY (sizeof(T) == 2 ? 8 : 4)
struct alignas(16) Many { T v[MANY]; };
"""
COUNT = r"""
extern "C" __global__ void count_on(T* x, i64 n, i64 by) { EACH(i, n) x[i] += (T)by; }
"""
# All arrays are contiguous.
UNARY = (
    NEIGHBOURS
    + FORMULA
    + r"""
extern "C" __global__ void unary(const T* __restrict__ x, T* __restrict__ y, i64 n%(numbers)s) {
    i64 many = aligned(x, y) ? n / MANY : 0;
    EACH(i, many) {
        Many f = ((const Many*)x)[i];
        #pragma unroll
        for (int j = 0; j < MANY; j++) { A a = LOAD(f.v + j); STORE(f.v + j, formula(a%(given)s)); }
        ((Many*)y)[i] = f;
    }
    EACH(i, n - MANY * many) {
        i64 k = MANY * many + i;
        A a = LOAD(x + k); STORE(y + k, formula(a%(given)s));
    }
}
"""
)
# `once`: the first array is one element, which goes with all of the others.
BINARY = (
    NEIGHBOURS
    + FORMULA
    + r"""
extern "C" __global__ void binary(const T* __restrict__ x, const T* __restrict__ y,
        T* __restrict__ z, i64 n%(numbers)s) {
    const bool once = %(once)s;
    i64 many = aligned(once ? y : x, y, z) ? n / MANY : 0;
    A a = LOAD(x);
    EACH(i, many) {
        Many f, g = ((const Many*)y)[i];
        if (!once) f = ((const Many*)x)[i];
        #pragma unroll
        for (int j = 0; j < MANY; j++) {
            if (!once) a = LOAD(f.v + j);
            A b = LOAD(g.v + j); STORE(g.v + j, formula(a, b%(given)s));
        }
        ((Many*)z)[i] = g;
    }
    EACH(i, n - MANY * many) {
        i64 k = MANY * many + i;
        if (!once) a = LOAD(x + k);
        A b = LOAD(y + k); STORE(z + k, formula(a, b%(given)s));
    }
}
"""
)
# Arrays of two dtypes.
MIXED = (
    FORMULA
    + r"""
typedef %(x)s X;
typedef %(y)s Y;
__device__ __forceinline__ A read_x(const X* p) { return %(read_x)s; }
__device__ __forceinline__ A read_y(const Y* p) { return %(read_y)s; }
extern "C" __global__ void mixed(const X* __restrict__ x, const Y* __restrict__ y,
        T* __restrict__ z, i64 n) {
    i64 fours = aligned(x, y, z) ? n / 4 : 0;
    EACH(i, fours) {
        Four<X> f = ((const Four<X>*)x)[i]; Four<Y> g = ((const Four<Y>*)y)[i]; Four<T> h;
        #pragma unroll
        for (int j = 0; j < 4; j++) {
            A a = read_x(f.v + j), b = read_y(g.v + j); STORE(h.v + j, formula(a, b));
        }
        ((Four<T>*)z)[i] = h;
    }
    EACH(i, n - 4 * fours) {
        i64 k = 4 * fours + i;
        A a = read_x(x + k), b = read_y(y + k); STORE(z + k, formula(a, b));
    }
}
"""
)
TERNARY = (
    NEIGHBOURS
    + FORMULA
    + r"""
extern "C" __global__ void ternary(const T* __restrict__ x, const T* __restrict__ y,
        const T* __restrict__ z, T* __restrict__ out, i64 n%(numbers)s) {
    const bool once = %(once)s;
    i64 many = aligned(once ? y : x, y) && aligned(z, out) ? n / MANY : 0;
    A a = LOAD(x);
    EACH(i, many) {
        Many f, g = ((const Many*)y)[i], h = ((const Many*)z)[i];
        if (!once) f = ((const Many*)x)[i];
        #pragma unroll
        for (int j = 0; j < MANY; j++) {
            if (!once) a = LOAD(f.v + j);
            A b = LOAD(g.v + j), c = LOAD(h.v + j); STORE(g.v + j, formula(a, b, c%(given)s));
        }
        ((Many*)out)[i] = g;
    }
    EACH(i, n - MANY * many) {
        i64 k = MANY * many + i;
        if (!once) a = LOAD(x + k);
        A b = LOAD(y + k), c = LOAD(z + k); STORE(out + k, formula(a, b, c%(given)s));
    }
}
"""
)
# Broadcast: each of an array's elements stays for `run` elements, and all of them come again.
SPREAD = (
    FORMULA
    + r"""
extern "C" __global__ void spread(const T* __restrict__ x, const T* __restrict__ y,
        T* __restrict__ z, unsigned n, unsigned x_run, unsigned x_size, unsigned y_run,
        unsigned y_size%(numbers)s) {
    EACH(i, n) {
        unsigned k = i;
        A a = LOAD(x + (x_size == n ? k : k / x_run %% x_size));
        A b = LOAD(y + (y_size == n ? k : k / y_run %% y_size));
        STORE(z + k, formula(a, b%(given)s));
    }
}
"""
)
# By a mask `m`, which is broadcast like that.
CHOICE = r"""
extern "C" __global__ void choice(const unsigned char* __restrict__ mask, const T* __restrict__ x,
        const T* __restrict__ y, T* __restrict__ z, unsigned n, unsigned run, unsigned size, A s) {
    EACH(i, n) {
        unsigned k = i;
        bool m = mask[size == n ? k : k / run %% size] != 0;
        A a = LOAD(x + k), b = LOAD(y + k);
        STORE(z + k, (%(does)s));
    }
}
"""
# The sum of a formula over two arrays, divided by a number. Without `parts` there is one block;
# else each one has a chunk, and the kernel long_rows_end adds the parts up.
TOTAL = (
    FORMULA
    + r"""
extern "C" __global__ void __launch_bounds__(1024) total(const T* __restrict__ x,
        const T* __restrict__ y, A* __restrict__ parts, T* __restrict__ out, A by, i64 n,
        i64 chunk%(numbers)s) {
    i64 start = blockIdx.x * chunk, end = start + chunk < n ? start + chunk : n;
    A some[4] = {0, 0, 0, 0};
    i64 i = start + threadIdx.x;
    for (; i + 3 * blockDim.x < end; i += 4 * blockDim.x) {
        #pragma unroll
        for (int j = 0; j < 4; j++) {
            A a = LOAD(x + i + j * blockDim.x), b = LOAD(y + i + j * blockDim.x);
            some[j] += formula(a, b%(given)s);
        }
    }
    for (; i < end; i += blockDim.x) {
        A a = LOAD(x + i), b = LOAD(y + i);
        some[0] += formula(a, b%(given)s);
    }
    A sum = block_sum((some[0] + some[1]) + (some[2] + some[3]));
    if (threadIdx.x == 0) {
        if (parts) parts[blockIdx.x] = sum;
        else STORE(out, sum / by);
    }
}
"""
)

# The same with weights: each stays for `stays` elements, and all `size` of them come again.
WEIGHTS = (
    FORMULA
    + r"""
extern "C" __global__ void __launch_bounds__(1024) weights(const T* __restrict__ x,
        const T* __restrict__ y, const T* __restrict__ w, unsigned stays, unsigned size,
        A* __restrict__ parts, T* __restrict__ out, A by, i64 n, i64 chunk%(numbers)s) {
    i64 start = blockIdx.x * chunk, end = start + chunk < n ? start + chunk : n;
    A sum = 0;
    for (i64 i = start + threadIdx.x; i < end; i += blockDim.x) {
        A a = LOAD(x + i), b = LOAD(y + i), c = LOAD(w + (unsigned)i / stays %% size);
        sum += formula(a, b, c%(given)s);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        if (parts) parts[blockIdx.x] = sum;
        else STORE(out, sum / by);
    }
}
"""
)
# The same without the sum.
WEIGHTED = (
    FORMULA
    + r"""
extern "C" __global__ void weighted(const T* __restrict__ x, const T* __restrict__ y,
        const T* __restrict__ w, unsigned stays, unsigned size, T* __restrict__ out,
        unsigned n%(numbers)s) {
    EACH(i, n) {
        A a = LOAD(x + i), b = LOAD(y + i), c = LOAD(w + (unsigned)i / stays %% size);
        STORE(out + i, formula(a, b, c%(given)s));
    }
}
"""
)
# Its gradient, from that of the loss: one for all, or (`each` is 1) one for every element.
WEIGHED = (
    FORMULA
    + r"""
extern "C" __global__ void weighed(const T* __restrict__ g, const T* __restrict__ x,
        const T* __restrict__ y, const T* __restrict__ w, unsigned stays, unsigned size,
        T* __restrict__ out, unsigned n, unsigned each%(numbers)s) {
    EACH(i, n) {
        A a = LOAD(g + i * each), b = LOAD(x + i), c = LOAD(y + i);
        A d = LOAD(w + (unsigned)i / stays %% size);
        STORE(out + i, formula(a, b, c, d%(given)s));
    }
}
"""
)
# Activations that look at more than one place; the formulas are those of gates.py.
GATES = (
    FUNCTIONS
    + r"""%(formulas)s
// A row of x has two halves of `half` elements; y has one such half per row.
extern "C" __global__ void glu(const T* __restrict__ x, T* __restrict__ y, unsigned n,
        unsigned half) {
    unsigned fours = half %% 4 == 0 && aligned(x, y) ? n / 4 : 0;
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
    unsigned fours = half %% 4 == 0 && aligned(g, x, dx) ? n / 4 : 0;
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
        A grad = LOAD(g + k), a = LOAD(x + k), slope = LOAD(w + k / run %% size);
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
        i64 k = (e / run * (i64)gridDim.x + blockIdx.x) * run + e %% run;
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
"""
)
