/* Declarations for every kernel: one signature, the pool, and how loops are compiled for processors.

   A kernel gets pointers to its arrays, sizes and strides, and numbers. It allocates nothing that
   outlives the call, touches no Python object and may run without the GIL, so that Python, another
   kernel or a recorded program can call it in the same way. */

#ifndef TAPEGRAD_H
#define TAPEGRAD_H

#include <stddef.h>
#include <stdint.h>

typedef void (*tg_kernel)(void **p, const int64_t *n, const double *x);

/* Loops are compiled twice: for AVX2 (the build's baseline on x86) and for AVX-512. Only static
   functions: clang gives the versions of others names that no other file finds. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(TG_ONE_VERSION)
#define TG_VERSIONS __attribute__((target_clones("arch=x86-64-v4", "default")))
#else
#define TG_VERSIONS
#endif
#define TG_INLINE static inline __attribute__((always_inline))

#define TG_PRAGMA(...) _Pragma(#__VA_ARGS__)
#if defined(__clang__)
/* In a file that has this line, a product and the sum it is added to are rounded once. */
#define TG_FUSED TG_PRAGMA(clang fp contract(fast))
/* A loop of at most n rounds, whose number is known where it is inlined. */
#define TG_UNROLL(n) TG_PRAGMA(clang loop unroll(full))
/* No round of the loop reads what another one writes. */
#define TG_INDEPENDENT TG_PRAGMA(clang loop vectorize(assume_safety))
#else
#define TG_FUSED TG_PRAGMA(GCC optimize("fp-contract=fast"))
#define TG_UNROLL(n) TG_PRAGMA(GCC unroll n)
#define TG_INDEPENDENT TG_PRAGMA(GCC ivdep)
#endif

/* Functions between the two are compiled for AVX-512, and called where tg_has_avx512(). */
#if defined(__clang__)
#define TG_AVX512_BEGIN                                                                            \
    TG_PRAGMA(clang attribute push(__attribute__((target("arch=x86-64-v4"))), apply_to = function)) \
    TG_PRAGMA(clang attribute push(__attribute__((min_vector_width(512))), apply_to = function))
#define TG_AVX512_END TG_PRAGMA(clang attribute pop) TG_PRAGMA(clang attribute pop)
#else
#define TG_AVX512_BEGIN TG_PRAGMA(GCC push_options) TG_PRAGMA(GCC target("arch=x86-64-v4"))
#define TG_AVX512_END TG_PRAGMA(GCC pop_options)
#endif

/* Elements of two vectors by a list of their numbers; `type` is of integers as wide. */
#if defined(__clang__)
#define TG_SHUFFLE(type, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define TG_SHUFFLE(type, a, b, ...) __builtin_shuffle(a, b, (type){__VA_ARGS__})
#endif

/* ------------------------------------------------------------------ thread_pool.c */

typedef void (*tg_part)(void *context, int64_t begin, int64_t end);

/* Call `part` on pieces of [0, count), of at least `grain` each, on several threads if it pays. The
   pieces do not depend on the number of threads. */
void tg_parallel(int64_t count, int64_t grain, tg_part part, void *context);
int tg_threads(void);
void tg_set_threads(int count);

/* How many elements are worth a piece of their own, for work of `cost` nanoseconds an element. */
int64_t tg_grain(double cost);

/* Memory for the time of a call, on the boundary of a cache line; NULL: there is none. memory.c */
void *tg_scratch(size_t bytes);
void tg_scratch_back(void *memory);

#endif
