// Elementwise kernels around a function `formula` that is made from the block of an op
// (formulas.py).
//
// `formula.cu` has it, with the numbers that it takes besides: NUMBER_PARAMETERS, NUMBER_ARGUMENTS.
// One of the words below (UNARY, BINARY, …) is defined: the kernel that is wanted. ONCE: the first
// array is a single element, which goes with all elements of the others.
#include "prelude.cu"
#include "formula.cu"

// How many neighbours a thread of an elementwise kernel moves at once: 16 bytes of half precision,
// or four elements.
#define MANY (sizeof(T) == 2 ? 8 : 4)
struct alignas(16) Many { T v[MANY]; };

#ifdef UNARY
// One contiguous array.
extern "C" __global__ void unary(const T* __restrict__ x, T* __restrict__ y,
        i64 n NUMBER_PARAMETERS) {
    i64 many = aligned(x, y) ? n / MANY : 0;
    EACH(i, many) {
        Many f = ((const Many*)x)[i];
        #pragma unroll
        for (int j = 0; j < MANY; j++) {
            A a = LOAD(f.v + j); STORE(f.v + j, formula(a NUMBER_ARGUMENTS));
        }
        ((Many*)y)[i] = f;
    }
    EACH(i, n - MANY * many) {
        i64 k = MANY * many + i;
        A a = LOAD(x + k); STORE(y + k, formula(a NUMBER_ARGUMENTS));
    }
}
#endif

#ifdef BINARY
// Two contiguous arrays.
extern "C" __global__ void binary(const T* __restrict__ x, const T* __restrict__ y,
        T* __restrict__ z, i64 n NUMBER_PARAMETERS) {
    const bool once = ONCE;
    i64 many = aligned(once ? y : x, y, z) ? n / MANY : 0;
    A a = LOAD(x);
    EACH(i, many) {
        Many f, g = ((const Many*)y)[i];
        if (!once) f = ((const Many*)x)[i];
        #pragma unroll
        for (int j = 0; j < MANY; j++) {
            if (!once) a = LOAD(f.v + j);
            A b = LOAD(g.v + j); STORE(g.v + j, formula(a, b NUMBER_ARGUMENTS));
        }
        ((Many*)z)[i] = g;
    }
    EACH(i, n - MANY * many) {
        i64 k = MANY * many + i;
        if (!once) a = LOAD(x + k);
        A b = LOAD(y + k); STORE(z + k, formula(a, b NUMBER_ARGUMENTS));
    }
}
#endif

#ifdef TERNARY
// Three contiguous arrays.
extern "C" __global__ void ternary(const T* __restrict__ x, const T* __restrict__ y,
        const T* __restrict__ z, T* __restrict__ out, i64 n NUMBER_PARAMETERS) {
    const bool once = ONCE;
    i64 many = aligned(once ? y : x, y) && aligned(z, out) ? n / MANY : 0;
    A a = LOAD(x);
    EACH(i, many) {
        Many f, g = ((const Many*)y)[i], h = ((const Many*)z)[i];
        if (!once) f = ((const Many*)x)[i];
        #pragma unroll
        for (int j = 0; j < MANY; j++) {
            if (!once) a = LOAD(f.v + j);
            A b = LOAD(g.v + j), c = LOAD(h.v + j);
            STORE(g.v + j, formula(a, b, c NUMBER_ARGUMENTS));
        }
        ((Many*)out)[i] = g;
    }
    EACH(i, n - MANY * many) {
        i64 k = MANY * many + i;
        if (!once) a = LOAD(x + k);
        A b = LOAD(y + k), c = LOAD(z + k); STORE(out + k, formula(a, b, c NUMBER_ARGUMENTS));
    }
}
#endif

#ifdef MIXED
// Two contiguous arrays, of dtypes X_DTYPE and Y_DTYPE.
typedef OF_DTYPE(stored, X_DTYPE) X;
typedef OF_DTYPE(stored, Y_DTYPE) Y;
__device__ __forceinline__ A read_x(const X* p) { return OF_DTYPE(load, X_DTYPE)(p); }
__device__ __forceinline__ A read_y(const Y* p) { return OF_DTYPE(load, Y_DTYPE)(p); }
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
#endif

#ifdef SPREAD
// A formula of two arrays that are broadcast: each element of an array is used `run` times in a
// row, and the array begins anew after its `size` elements.
extern "C" __global__ void spread(const T* __restrict__ x, const T* __restrict__ y,
        T* __restrict__ z, unsigned n, unsigned x_run, unsigned x_size, unsigned y_run,
        unsigned y_size NUMBER_PARAMETERS) {
    EACH(i, n) {
        unsigned k = i;
        A a = LOAD(x + (x_size == n ? k : k / x_run % x_size));
        A b = LOAD(y + (y_size == n ? k : k / y_run % y_size));
        STORE(z + k, formula(a, b NUMBER_ARGUMENTS));
    }
}
#endif

#ifdef TOTAL
// The sum of a formula over two arrays, divided by a number. Without `parts` there is one block;
// with them each block sums a chunk, and the kernel long_rows_end (sums.cu) adds the parts up.
extern "C" __global__ void __launch_bounds__(1024) total(const T* __restrict__ x,
        const T* __restrict__ y, A* __restrict__ parts, T* __restrict__ out, A by, i64 n,
        i64 chunk NUMBER_PARAMETERS) {
    i64 start = blockIdx.x * chunk, end = start + chunk < n ? start + chunk : n;
    A some[4] = {0, 0, 0, 0};
    i64 i = start + threadIdx.x;
    for (; i + 3 * blockDim.x < end; i += 4 * blockDim.x) {
        #pragma unroll
        for (int j = 0; j < 4; j++) {
            A a = LOAD(x + i + j * blockDim.x), b = LOAD(y + i + j * blockDim.x);
            some[j] += formula(a, b NUMBER_ARGUMENTS);
        }
    }
    for (; i < end; i += blockDim.x) {
        A a = LOAD(x + i), b = LOAD(y + i);
        some[0] += formula(a, b NUMBER_ARGUMENTS);
    }
    A sum = block_sum((some[0] + some[1]) + (some[2] + some[3]));
    if (threadIdx.x == 0) {
        if (parts) parts[blockIdx.x] = sum;
        else STORE(out, sum / by);
    }
}
#endif

#ifdef WEIGHTS
// The sum of a formula over two arrays and weights, divided by a number (`parts` as for TOTAL).
// Each weight is used for `stays` elements in a row; after `size` weights the first one is next.
extern "C" __global__ void __launch_bounds__(1024) weights(const T* __restrict__ x,
        const T* __restrict__ y, const T* __restrict__ w, unsigned stays, unsigned size,
        A* __restrict__ parts, T* __restrict__ out, A by, i64 n, i64 chunk NUMBER_PARAMETERS) {
    i64 start = blockIdx.x * chunk, end = start + chunk < n ? start + chunk : n;
    A sum = 0;
    for (i64 i = start + threadIdx.x; i < end; i += blockDim.x) {
        A a = LOAD(x + i), b = LOAD(y + i), c = LOAD(w + (unsigned)i / stays % size);
        sum += formula(a, b, c NUMBER_ARGUMENTS);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        if (parts) parts[blockIdx.x] = sum;
        else STORE(out, sum / by);
    }
}
#endif

#ifdef WEIGHTED
// A formula of two arrays and weights (as for WEIGHTS), element by element.
extern "C" __global__ void weighted(const T* __restrict__ x, const T* __restrict__ y,
        const T* __restrict__ w, unsigned stays, unsigned size, T* __restrict__ out,
        unsigned n NUMBER_PARAMETERS) {
    EACH(i, n) {
        A a = LOAD(x + i), b = LOAD(y + i), c = LOAD(w + (unsigned)i / stays % size);
        STORE(out + i, formula(a, b, c NUMBER_ARGUMENTS));
    }
}
#endif

#ifdef WEIGHED
// The gradient of WEIGHTS and WEIGHTED from that of the loss, which is one number, or (`each` is
// 1) one for every element.
extern "C" __global__ void weighed(const T* __restrict__ g, const T* __restrict__ x,
        const T* __restrict__ y, const T* __restrict__ w, unsigned stays, unsigned size,
        T* __restrict__ out, unsigned n, unsigned each NUMBER_PARAMETERS) {
    EACH(i, n) {
        A a = LOAD(g + i * each), b = LOAD(x + i), c = LOAD(y + i);
        A d = LOAD(w + (unsigned)i / stays % size);
        STORE(out + i, formula(a, b, c, d NUMBER_ARGUMENTS));
    }
}
#endif
