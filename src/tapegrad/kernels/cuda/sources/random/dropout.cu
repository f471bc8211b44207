// Dropout, and the same with a mask that is given. SIDE: numbers that a thread makes side by side.
#include "random/philox.cu"

// K numbers side by side, moved at once where the address allows.
template <typename X, int K> struct __align__(sizeof(X) * K < 16 ? sizeof(X) * K : 16) Pack {
    X v[K];
};
template <int K, typename X> __device__ __forceinline__ void write(X* y, i64 first, i64 n,
                                                                   const Pack<X, K>& p) {
    if (first + K <= n) *(Pack<X, K>*)(y + first) = p;
    else for (int j = 0; j < K; j++) if (first + j < n) y[first + j] = p.v[j];
}
template <int K, typename X> __device__ __forceinline__ Pack<X, K> read(const X* x, i64 first,
                                                                        i64 n) {
    if (first + K <= n && (u64)x % sizeof(Pack<X, K>) == 0) return *(const Pack<X, K>*)(x + first);
    Pack<X, K> p;
    for (int j = 0; j < K; j++) p.v[j] = first + j < n ? x[first + j] : (X)0;
    return p;
}
extern "C" __global__ void dropout(const T* __restrict__ x, T* __restrict__ y,
        unsigned char* __restrict__ mask, START, A keep, A scale, i64 n) {
    BEGIN
#if SIDE == 1
    const int PER = 4;
    TURNS {
        Words w = philox(seed, thread, round + turn);
        EACH_NUMBER(j, at) {
            unsigned char kept = (A)single(w.w[j]) < keep;
            STORE(y + at, LOAD(x + at) * (A)kept * scale);
            mask[at] = kept;
        }
    }
#else
    const int BLOCKS = SIDE > 4 ? SIDE / 4 : 1;
    for (i64 g = thread; g < n / SIDE; g += threads, turn++) {
        Pack<T, SIDE> p = read<SIDE>(x, SIDE * g, n);
        Pack<unsigned char, SIDE> m;
        Words w;
        #pragma unroll
        for (int j = 0; j < SIDE; j++) {
            if (j % 4 == 0) w = philox(seed, thread, round + turn * BLOCKS + j / 4);
            m.v[j] = (A)single(w.w[j % 4]) < keep;
            STORE(p.v + j, LOAD(p.v + j) * (A)m.v[j] * scale);
        }
        write<SIDE>(y, SIDE * g, n, p);
        write<SIDE>(mask, SIDE * g, n, m);
    }
#endif
}
extern "C" __global__ void masked(const T* __restrict__ x, const unsigned char* __restrict__ mask,
        T* __restrict__ y, A scale, i64 n) {
    EACH(g, (n + 3) / 4) {
        Pack<T, 4> p = read<4>(x, 4 * g, n);
        Pack<unsigned char, 4> m = read<4>(mask, 4 * g, n);
        for (int j = 0; j < 4; j++) STORE(p.v + j, LOAD(p.v + j) * (A)m.v[j] * scale);
        write<4>(y, 4 * g, n, p);
    }
}
