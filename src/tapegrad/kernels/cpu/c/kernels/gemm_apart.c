/* gemm.c once more, with every product rounded before it is added: the same bits with and without
   fused instructions. kernels/portable/products.py does the same on NumPy. */

#include "gemm.h"
#include "kernels.h"

#undef TG_FUSED
#define TG_FUSED
#define tg_multiply tg_multiply_apart
#define tg_multiplies tg_multiplies_apart
#include "gemm.c"

/* Where there is no memory for packed factors. */
#define SLOWLY(T)                                                                                  \
    static void slowly_##T(const tg_matrices *g) {                                                 \
        const int64_t parts = (g->k + DEEP - 1) / DEEP, deep = (g->k + parts - 1) / parts;         \
        for (int64_t i = 0; i < g->m; i++)                                                         \
            for (int64_t j = 0; j < g->n; j++) {                                                   \
                T total = 0;                                                                       \
                for (int64_t start = 0; start < g->k; start += deep) {                             \
                    T part = 0;                                                                    \
                    for (int64_t l = start; l < g->k && l < start + deep; l++)                     \
                        part += ((const T *)g->a)[i * g->a_down + l * g->a_right] *                \
                                ((const T *)g->b)[l * g->b_down + j * g->b_right];                 \
                    total = start ? part + total : part;                                           \
                }                                                                                  \
                ((T *)g->out)[i * g->ldc + j] = total;                                             \
            }                                                                                      \
    }
SLOWLY(float)
SLOWLY(double)

/* p: a, b, out, where the matrices of a stack begin in a and in b; n: how many, m, n, k, and the
   steps down and right in a and b. */
static void products(void **p, const int64_t *n, int is_double) {
    const int64_t *starts = p[3];
    const int64_t item = is_double ? sizeof(double) : sizeof(float);
    for (int64_t i = 0; i < n[0]; i++) {
        tg_matrices g = {.m = n[1],
                         .n = n[2],
                         .k = n[3],
                         .a = (const char *)p[0] + starts[i] * item,
                         .b = (const char *)p[1] + starts[n[0] + i] * item,
                         .a_down = n[4],
                         .a_right = n[5],
                         .b_down = n[6],
                         .b_right = n[7],
                         .out = (char *)p[2] + i * n[1] * n[2] * item,
                         .ldc = n[2]};
        if (tg_multiply_apart(&g, is_double))
            continue;
        if (is_double)
            slowly_double(&g);
        else
            slowly_float(&g);
    }
}

void tg_portable_products_f32(void **p, const int64_t *n, const double *x) { products(p, n, 0); }
void tg_portable_products_f64(void **p, const int64_t *n, const double *x) { products(p, n, 1); }
