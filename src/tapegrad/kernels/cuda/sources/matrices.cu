// Optimizers that look at whole matrices: Adafactor and Muon.
//
// One launch works on many tensors (LIMIT at most): each has some of the blocks, and `first_…`
// holds the first ones. Numbers that all elements share are found in double precision, as on the
// host. ADAFACTOR or MUON is defined.
#include "tensors.cu"

__device__ __forceinline__ int which(const int* first, int count) {
    int low = 0, high = count - 1, block = blockIdx.x;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (first[middle] <= block) low = middle; else high = middle - 1;
    }
    return low;
}
// The elements that a block works on: some of tensor k.
template <typename Launch> struct Chunk {
    int k;
    i64 start, end;
    __device__ __forceinline__ Chunk(const Launch& l) : k(which(l.first, l.count)) {
        start = (blockIdx.x - l.first[k]) * (i64)l.chunk;
        end = start + l.chunk < l.n[k] ? start + l.chunk : l.n[k];
    }
};
// The sum of what the blocks of tensor k have found.
template <typename Launch> __device__ __forceinline__ double total(const Launch& l, int k,
        const double* parts) {
    i64 blocks = (l.n[k] + l.chunk - 1) / l.chunk;
    double sum = 0;
    for (i64 b = threadIdx.x; b < blocks; b += THREADS) sum += parts[l.first[k] + b];
    return block_sum(sum);
}
// As Python's max: what is no number does not count.
__device__ __forceinline__ double at_least(double least, double x) { return x > least ? x : least; }

#ifdef ADAFACTOR
// Adafactor: four kernels, one after the other.
//
// A tensor of `n` elements is a stack of matrices of `rows` and `columns`, or a vector without
// columns, whose mean squares are in `rows_at`. LINE: elements of a vector that a warp takes, as if
// they were a row.
struct Numbers { double lr, step; };
struct Options { double beta2_decay, eps1, eps2, d, weight_decay, maximize; };
struct Launch {
    unsigned long long p[LIMIT], g[LIMIT], rows_at[LIMIT], columns_at[LIMIT];
    i64 n[LIMIT];
    int rows[LIMIT], columns[LIMIT];
    int first_row[LIMIT], first_column[LIMIT], first[LIMIT], first_mean[LIMIT];
    Numbers now; Options o; const Numbers* device; int count, chunk;
};
__device__ __forceinline__ A fresh(const Launch& l) {
    double step = (l.device ? l.device->step : l.now.step) + 1;
    return (A)pow(step, l.o.beta2_decay);
}
__device__ __forceinline__ i64 lines(const Launch& l, int k) {
    return l.columns[k] ? l.n[k] / l.columns[k] : (l.n[k] + LINE - 1) / LINE;
}
// Mean squares of rows, or of the elements of a vector, and parts of the parameters' squares.
extern "C" __global__ void __launch_bounds__(THREADS) squares(const __grid_constant__ Launch l,
        double* __restrict__ parts) {
    int k = which(l.first_row, l.count), lane = threadIdx.x % 32, width = l.columns[k];
    i64 line = (blockIdx.x - l.first_row[k]) * (i64)(THREADS / 32) + threadIdx.x / 32;
    A part = fresh(l), square = 0, own = 0;
    const T *p = (const T*)l.p[k], *g = (const T*)l.g[k];
    T* kept_at = (T*)l.rows_at[k];
    if (line < lines(l, k)) {
        i64 start = line * (width ? width : LINE);
        i64 end = width ? start + width : start + LINE < l.n[k] ? start + LINE : l.n[k];
        for (i64 i = start + lane; i < end; i += 32) {
            A a = LOAD(g + i), x = LOAD(p + i);
            own += x * x;
            if (width) square += a * a;
            else STORE(kept_at + i, toward(LOAD(kept_at + i), a * a, part));
        }
        square = warp_sum(square);
        if (width && lane == 0)
            STORE(kept_at + line, toward(LOAD(kept_at + line), square / width, part));
    }
    double sum = block_sum((double)own);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}
// Blocks of 32 * 8. The first ones of a tensor find the mean of the rows of each matrix, and how
// far the parameter may go; the others the mean squares of 32 columns each.
extern "C" __global__ void __launch_bounds__(THREADS) columns(const __grid_constant__ Launch l,
        const double* __restrict__ parts, A* __restrict__ means, double* __restrict__ sizes) {
    __shared__ A sums[8][32];
    int k = which(l.first_column, l.count), j = blockIdx.x - l.first_column[k];
    int rows = l.rows[k], width = l.columns[k], id = threadIdx.y * 32 + threadIdx.x;
    int matrices = width ? (int)(l.n[k] / ((i64)rows * width)) : 1;
    if (j < matrices) {
        if (width) {
            const T* at = (const T*)l.rows_at[k] + (i64)j * rows;
            A sum = 0;
            for (int r = id; r < rows; r += THREADS) sum += LOAD(at + r);
            sum = block_sum(sum) / rows;
            A least = (A)l.o.eps1;
            if (id == 0) means[l.first_mean[k] + j] = sum < least ? least : sum;
        }
        if (j == 0) {
            i64 blocks = (lines(l, k) + THREADS / 32 - 1) / (THREADS / 32);
            double sum = 0;
            for (i64 b = id; b < blocks; b += THREADS) sum += parts[l.first_row[k] + b];
            sum = block_sum(sum);
            double lr = l.device ? l.device->lr : l.now.lr;
            double most = 1 / sqrt((l.device ? l.device->step : l.now.step) + 1);
            if (id == 0)
                sizes[k] = at_least(l.o.eps2, sqrt(sum / l.n[k])) * (lr < most ? lr : most);
        }
        return;
    }
    j -= matrices;
    int groups = (width + 31) / 32, c = j % groups * 32 + threadIdx.x;
    const T* g = (const T*)l.g[k] + (i64)(j / groups) * rows * width;
    A sum = 0;
    if (c < width) for (int r = threadIdx.y; r < rows; r += 8) {
        A a = LOAD(g + (i64)r * width + c);
        sum += a * a;
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y || c >= width) return;
    for (int r = 1; r < 8; r++) sum += sums[r][threadIdx.x];
    T* at = (T*)l.columns_at[k] + (i64)(j / groups) * width + c;
    STORE(at, toward(LOAD(at), sum / rows, fresh(l)));
}
// The step of an element, before it is limited.
__device__ __forceinline__ A step_of(const Launch& l, int k, i64 i, A least, const A* means) {
    A square, a = LOAD((const T*)l.g[k] + i);
    int width = l.columns[k];
    if (width) {
        i64 row = i / width, matrix = row / l.rows[k];
        square = LOAD((const T*)l.rows_at[k] + row)
            * LOAD((const T*)l.columns_at[k] + matrix * width + i % width)
            / means[l.first_mean[k] + matrix];
    } else {
        square = LOAD((const T*)l.rows_at[k] + i);
    }
    if (square < least) square = least;
    a = a / sqrt(square);
    return l.o.maximize != 0 ? -a : a;
}
extern "C" __global__ void __launch_bounds__(THREADS) steps(const __grid_constant__ Launch l,
        const A* __restrict__ means, double* __restrict__ parts) {
    Chunk<Launch> own(l);
    int k = own.k;
    A least = (A)(l.o.eps1 * l.o.eps1);
    double sum = 0;
    for (i64 i = own.start + threadIdx.x; i < own.end; i += THREADS) {
        A a = step_of(l, k, i, least, means);
        sum += (double)a * a;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}
extern "C" __global__ void __launch_bounds__(THREADS) update(const __grid_constant__ Launch l,
        const A* __restrict__ means, const double* __restrict__ parts,
        const double* __restrict__ sizes) {
    Chunk<Launch> own(l);
    int k = own.k;
    double sum = total(l, k, parts);
    double lr = l.device ? l.device->lr : l.now.lr;
    A size = (A)(sizes[k] / at_least(1.0, sqrt(sum / l.n[k]) / l.o.d));
    A shrink = (A)(1 - lr * l.o.weight_decay), least = (A)(l.o.eps1 * l.o.eps1);
    T* p = (T*)l.p[k];
    for (i64 i = own.start + threadIdx.x; i < own.end; i += THREADS)
        STORE(p + i, product(LOAD(p + i), shrink) - step_of(l, k, i, least, means) * size);
}
// After a captured step.
extern "C" __global__ void next_numbers(Numbers* at) { at->step += 1; }
#endif

#ifdef MUON
// Muon: matrices of bfloat16 are in one array, at `place`, those with more rows than columns
// transposed.
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
#endif
