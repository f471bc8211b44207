// Muon: matrices of bfloat16 are in one array, at `place`, those with more rows than columns transposed.
#include "optim/matrices.cu"

struct Numbers { double lr; };
struct Options { double momentum, nesterov, eps, weight_decay; };
struct Launch {
    unsigned long long p[LIMIT], g[LIMIT], buffer[LIMIT];
    i64 n[LIMIT], place[LIMIT];
    double factor[LIMIT];
    int rows[LIMIT], columns[LIMIT], first[LIMIT];
    Numbers now; Options o; const Numbers* device; int count, chunk;
};
__device__ __forceinline__ i64 turned(const Launch& l, int k, i64 i) {
    int rows = l.rows[k], width = l.columns[k];
    return l.place[k] + (rows > width ? i % width * rows + i / width : i);
}
// The mean of the gradients moves on; what it says goes to `x`, and parts of its squares.
extern "C" __global__ void __launch_bounds__(THREADS) momentum(const __grid_constant__ Launch l,
        u16* __restrict__ x, double* __restrict__ parts) {
    Chunk<Launch> own(l);
    int k = own.k;
    const T* g = (const T*)l.g[k];
    T* buffer = (T*)l.buffer[k];
    A part = (A)l.o.momentum, rest = (A)(1 - l.o.momentum);
    double sum = 0;
    for (i64 i = own.start + threadIdx.x; i < own.end; i += THREADS) {
        A a = LOAD(g + i);
        STORE(buffer + i, toward(LOAD(buffer + i), a, rest));
        A mean = LOAD(buffer + i);
        if (l.o.nesterov != 0) {
            T t;
            STORE(&t, toward(a, mean, part));
            mean = LOAD(&t);
        }
        u16 h = to_bfloat16((float)mean);
        x[turned(l, k, i)] = h;
        sum += (double)from_bfloat16(h) * from_bfloat16(h);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}
// Every matrix is divided by its length.
extern "C" __global__ void __launch_bounds__(THREADS) shorten(const __grid_constant__ Launch l,
        u16* __restrict__ x, const double* __restrict__ parts) {
    Chunk<Launch> own(l);
    int k = own.k;
    float length = from_bfloat16(to_bfloat16((float)sqrt(total(l, k, parts))));
    float least = from_bfloat16(to_bfloat16((float)l.o.eps));
    if (length < least) length = least;
    x += l.place[k];
    for (i64 i = own.start + threadIdx.x; i < own.end; i += THREADS)
        x[i] = to_bfloat16(from_bfloat16(x[i]) / length);
}
extern "C" __global__ void __launch_bounds__(THREADS) update(const __grid_constant__ Launch l,
        const u16* __restrict__ x) {
    Chunk<Launch> own(l);
    int k = own.k;
    double lr = l.device ? l.device->lr : l.now.lr;
    A shrink = (A)(1 - lr * l.o.weight_decay), size = (A)(lr * l.factor[k]);
    T* p = (T*)l.p[k];
    for (i64 i = own.start + threadIdx.x; i < own.end; i += THREADS) {
        T t;
        STORE(&t, product(LOAD(p + i), shrink));
        STORE(p + i, LOAD(&t) - size * (A)from_bfloat16(x[turned(l, k, i)]));
    }
}
