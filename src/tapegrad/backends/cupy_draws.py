"""Random numbers on the GPU in one launch: the functions of cuda/philox.py, and dropout.

A thread computes one block of four words and writes the numbers that are made of it. Seed and first
block travel with the launch; in a CUDA graph they are read from memory, so that a replay draws new
numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import cublas, cuda_source
from .cublas import NAMES

U64, I64 = np.uint64, np.int64
NOTHING = np.uint64(0)  # a null pointer
MASK = 0xFFFF_FFFF_FFFF_FFFF
THREADS = (256,)
BOOL = np.dtype(np.bool_)
DIGITS = {"float16": 11, "bfloat16": 8}
# What T, A and STORE mean for masks; the floats' are in cuda_source.py.
BYTES = "typedef unsigned char T; typedef float A;\n#define STORE(p, v) (*(p) = (T)(v))\n"

PHILOX = r"""
typedef unsigned int u32;
typedef unsigned long long u64;
// Where a draw starts; in a recorded graph `cell` holds the seed and the block to count from.
#define START const u64* __restrict__ cell, u64 seed, u64 block
#define BEGIN if (cell) { seed = cell[0]; block += cell[1]; }

struct Words { u32 w[4]; };
__device__ __forceinline__ Words philox(u64 seed, u64 block) {
    u32 c0 = (u32)block, c1 = (u32)(block >> 32), c2 = 0, c3 = 0;
    u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
    #pragma unroll
    for (int round = 0; round < 10; round++) {
        u32 low0 = 0xD2511F53u * c0, high0 = __umulhi(0xD2511F53u, c0);
        u32 low1 = 0xCD9E8D57u * c2, high1 = __umulhi(0xCD9E8D57u, c2);
        c0 = high1 ^ c1 ^ k0; c1 = low1;
        c2 = high0 ^ c3 ^ k1; c3 = low0;
        k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
    }
    Words out = {{c0, c1, c2, c3}};
    return out;
}

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

// 24 bits of a word in [0, 1).
__device__ __forceinline__ float unit(u32 word) {
    return (float)(word >> 8) * 5.9604644775390625e-8f;
}
"""

# Numbers of any dtype with coins: `T` is what they are written as.
COINS = r"""
extern "C" __global__ void bernoulli(T* __restrict__ y, START, float chance, i64 n) {
    BEGIN
    EACH(g, (n + 3) / 4) {
        Words w = philox(seed, block + g);
        Pack<T, 4> p;
        for (int j = 0; j < 4; j++) STORE(p.v + j, unit(w.w[j]) < chance ? (A)1 : (A)0);
        write<4>(y, 4 * g, n, p);
    }
}
"""

WORDS = r"""
extern "C" __global__ void words(u32* __restrict__ y, START, i64 n) {
    BEGIN
    EACH(g, (n + 3) / 4) {
        Words w = philox(seed, block + g);
        Pack<u32, 4> p = {{w.w[0], w.w[1], w.w[2], w.w[3]}};
        write<4>(y, 4 * g, n, p);
    }
}
extern "C" __global__ void fill_cell(u64* cell, u64 seed, u64 block) {
    if (blockIdx.x == 0 && threadIdx.x == 0) { cell[0] = seed; cell[1] = block; }
}
"""

# Float64 takes two words a number, so a block makes two; the others make four.
FLOATS = r"""
#define PER (sizeof(A) == 8 ? 2 : 4)
// Products and sums that are rounded one by one, as array functions do.
__device__ __forceinline__ float times(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ float plus(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ double times(double a, double b) { return __dmul_rn(a, b); }
__device__ __forceinline__ double plus(double a, double b) { return __dadd_rn(a, b); }

__device__ __forceinline__ void units(const Words& w, float* v) {
    for (int j = 0; j < 4; j++) v[j] = unit(w.w[j]);
}
__device__ __forceinline__ void units(const Words& w, double* v) {
    for (int j = 0; j < 2; j++) {
        u64 bits = ((u64)w.w[2 * j] << 32 | w.w[2 * j + 1]) >> 11;
        v[j] = (double)bits * 1.1102230246251565e-16;
    }
}
// Box and Muller: a pair of normals in place of a pair of uniforms.
__device__ __forceinline__ void normals(float* v) {
    float radius = sqrtf(times(-2.0f, logf(1.0f - v[0]))), angle = times(6.2831853071795865f, v[1]);
    v[0] = times(radius, cosf(angle)); v[1] = times(radius, sinf(angle));
}
__device__ __forceinline__ void normals(double* v) {
    double radius = sqrt(times(-2.0, log(1.0 - v[0]))), angle = times(6.283185307179586, v[1]);
    v[0] = times(radius, cos(angle)); v[1] = times(radius, sin(angle));
}

extern "C" __global__ void uniform(T* __restrict__ y, START, i64 n) {
    BEGIN
    EACH(g, (n + PER - 1) / PER) {
        Words w = philox(seed, block + g);
        A v[PER]; Pack<T, PER> p;
#ifdef DIGITS  // half precision takes as many of the high bits as it has digits
        for (int j = 0; j < PER; j++) v[j] = (float)(w.w[j] >> (32 - DIGITS)) / (1u << DIGITS);
#else
        units(w, v);
#endif
        for (int j = 0; j < PER; j++) STORE(p.v + j, v[j]);
        write<PER>(y, PER * g, n, p);
    }
}
// `open` and `closed` are the ends of the range as T has them: no number is the open end.
extern "C" __global__ void between(T* __restrict__ y, START, A low, A range, A closed, A open,
                                   i64 n) {
    BEGIN
    EACH(g, (n + PER - 1) / PER) {
        A v[PER]; Pack<T, PER> p;
        units(philox(seed, block + g), v);
        for (int j = 0; j < PER; j++) {
            STORE(p.v + j, plus(times(v[j], range), low));
            if (LOAD(p.v + j) == open) STORE(p.v + j, closed);
        }
        write<PER>(y, PER * g, n, p);
    }
}
extern "C" __global__ void normal(T* __restrict__ y, START, A mean, A std, i64 n) {
    BEGIN
    EACH(g, (n + PER - 1) / PER) {
        A v[PER]; Pack<T, PER> p;
        units(philox(seed, block + g), v);
        for (int j = 0; j < PER; j += 2) normals(v + j);
        for (int j = 0; j < PER; j++) STORE(p.v + j, plus(times(v[j], std), mean));
        write<PER>(y, PER * g, n, p);
    }
}
"""

# What is dropped is multiplied by zero: a NaN stays one.
DROPOUT = r"""
extern "C" __global__ void dropout(const T* __restrict__ x, T* __restrict__ y,
        unsigned char* __restrict__ mask, START, float keep, A scale, i64 n) {
    BEGIN
    EACH(g, (n + 3) / 4) {
        Words w = philox(seed, block + g);
        Pack<T, 4> p = read<4>(x, 4 * g, n);
        Pack<unsigned char, 4> m;
        for (int j = 0; j < 4; j++) {
            m.v[j] = unit(w.w[j]) < keep;
            STORE(p.v + j, LOAD(p.v + j) * (A)m.v[j] * scale);
        }
        write<4>(y, 4 * g, n, p);
        write<4>(mask, 4 * g, n, m);
    }
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
"""
PARTS = {
    **dict.fromkeys(["words", "fill_cell"], WORDS),
    **dict.fromkeys(["uniform", "between", "normal"], FLOATS),
    **dict.fromkeys(["dropout", "masked"], DROPOUT),
    "bernoulli": COINS,
}


def source(name: str, kind: str) -> str:
    """The CUDA C of a kernel for a dtype."""
    meaning = BYTES if kind == "bool" else cuda_source.MEANINGS[kind]
    digits = f"#define DIGITS {DIGITS[kind]}\n" if kind in DIGITS else ""
    parts = [cuda_source.PRELUDE, meaning, cuda_source.EACH, digits, PHILOX, PARTS[name]]
    return "".join(parts)


class Draws:
    """The kernels, compiled when they are first used."""

    def __init__(self, gpu: Any) -> None:
        self.gpu = gpu
        self.compiled: dict[tuple[str, str], Any] = {}

    def kernel(self, name: str, kind: str) -> Any:
        found = self.compiled.get((name, kind))
        if found is None:
            code = source(name, kind)
            found = self.gpu.xp.RawKernel(code, name, ("--std=c++14",))
            self.compiled[(name, kind)] = found
        return found

    def run(self, name: str, kind: str, per: int, args: tuple[Any, ...], count: int) -> None:
        """One thread for `per` of `count` numbers; a launch of nothing is an error."""
        if count:
            grid = self.gpu.grid((count + per - 1) // per)
            self.kernel(name, kind)(grid, THREADS, (*args, I64(count)))

    def drawn(self, name: str, shape: Any, dtype: Any, start: Any, options: Any = ()) -> Any:
        """A new array of floats."""
        kind = NAMES[dtype]
        out = self.gpu.empty(shape, dtype)
        per = 2 if kind == "float64" else 4
        self.run(name, kind, per, (out, *place(start), *options), out.size)
        return out


def place(start: Any) -> tuple[Any, Any, Any]:
    """Where a draw starts, as kernels take it."""
    cell = NOTHING if start.cell is None else start.cell
    return cell, U64(start.seed & MASK), U64(start.block & MASK)


def real(kind: str) -> Any:
    return np.float64 if kind == "float64" else np.float32


def register(backend: Any, gpu: Any, reference: Any) -> None:
    cublas.know_brain()
    draws = Draws(gpu)

    def philox_words(xp: Any, count: int, start: Any) -> Any:
        out = gpu.empty((count,), np.dtype(np.uint32))
        draws.run("words", "float32", 4, (out, *place(start)), count)
        return out

    def philox_uniform(xp: Any, shape: Any, dtype: Any, start: Any) -> Any:
        return draws.drawn("uniform", shape, dtype, start)

    def philox_between(xp: Any, shape: Any, dtype: Any, low: float, high: float, start: Any) -> Any:
        work = real(NAMES[dtype])
        ends = work(dtype.type(low)), work(dtype.type(high))
        options = (work(low), work(high) - work(low), *ends)
        return draws.drawn("between", shape, dtype, start, options)

    def philox_normal(xp: Any, shape: Any, dtype: Any, mean: float, std: float, start: Any) -> Any:
        work = real(NAMES[dtype])
        return draws.drawn("normal", shape, dtype, start, (work(mean), work(std)))

    def philox_bernoulli(xp: Any, shape: Any, dtype: Any, p: float, start: Any) -> Any:
        kind = NAMES.get(dtype, "bool")
        out = gpu.empty(shape, dtype if dtype in NAMES else BOOL)
        draws.run("bernoulli", kind, 4, (out, *place(start), np.float32(p)), out.size)
        return out.astype(dtype, copy=False)

    def fill_cell(cell: Any, seed: int, block: int) -> None:
        run = draws.kernel("fill_cell", "float32")
        run((1,), (1,), (cell, U64(seed & MASK), U64(block & MASK)))

    backend.draws.update(
        philox_words=philox_words,
        philox_uniform=philox_uniform,
        philox_between=philox_between,
        philox_normal=philox_normal,
        philox_bernoulli=philox_bernoulli,
        fill_cell=fill_cell,
    )
    register_dropout(backend, draws, reference)


def register_dropout(backend: Any, draws: Draws, reference: Any) -> None:
    other = reference("drawn_dropout")

    @backend.override("drawn_dropout")
    def drawn_dropout(input: Any, keep: float, scale: float, start: Any) -> Any:
        kind = NAMES.get(input.dtype)
        if kind is None or not input.flags.c_contiguous:
            return other(input, keep, scale, start)
        out = draws.gpu.empty(input.shape, input.dtype)
        mask = draws.gpu.empty(input.shape, BOOL)
        args = (input, out, mask, *place(start), np.float32(keep), real(kind)(scale))
        draws.run("dropout", kind, 4, args, input.size)
        return out, mask

    for name in ("native_dropout", "native_dropout_backward"):
        backend.override(name)(masked_kernel(draws, reference(name)))


def masked_kernel(draws: Draws, other: Any) -> Any:
    def run(x: Any, mask: Any, scale: float) -> Any:
        kind = NAMES.get(x.dtype)
        if (
            kind is None
            or mask.dtype != BOOL
            or x.shape != mask.shape
            or not x.flags.c_contiguous
            or not mask.flags.c_contiguous
        ):
            return other(x, mask, scale)
        out = draws.gpu.empty(x.shape, x.dtype)
        draws.run("masked", kind, 4, (x, mask, out, real(kind)(scale)), x.size)
        return out

    return run
