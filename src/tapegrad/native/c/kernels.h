/* The kernels that are written by hand, one file per family. */

#ifndef TAPEGRAD_KERNELS_H
#define TAPEGRAD_KERNELS_H

#include "tapegrad.h"

/* rows.c: what goes along the last dimension */
#define TG_ROW_KERNELS(X)                                                                          \
    X(softmax_f32) X(softmax_f64) X(log_softmax_f32) X(log_softmax_f64) X(softmax_back_f32)        \
    X(softmax_back_f64) X(log_softmax_back_f32) X(log_softmax_back_f64) X(logsumexp_f32)            \
    X(logsumexp_f64)

/* norms.c: layer norm and rms norm */
#define TG_NORM_KERNELS(X)                                                                         \
    X(layer_norm_f32) X(layer_norm_f64) X(rms_norm_f32) X(rms_norm_f64) X(norm_back_f32)           \
    X(norm_back_f64)

/* gather.c: rows and elements by their numbers */
#define TG_GATHER_KERNELS(X)                                                                       \
    X(places) X(take) X(gather) X(marked) X(add_rows_f32) X(add_rows_f64) X(scatter_f32)           \
    X(scatter_f64) X(nll_f32) X(nll_f64) X(nll_back_f32) X(nll_back_f64)

/* reduce.c: sums, variances and running sums */
#define TG_REDUCE_KERNELS(X)                                                                       \
    X(sum_f32) X(sum_f64) X(sum_columns_f32) X(sum_columns_f64) X(spread_f32) X(spread_f64)        \
    X(running_f32) X(running_f64)

#define TG_KERNELS(X)                                                                              \
    TG_ROW_KERNELS(X)                                                                              \
    TG_NORM_KERNELS(X)                                                                             \
    TG_GATHER_KERNELS(X)                                                                           \
    TG_REDUCE_KERNELS(X)

#define X(name) void tg_##name(void **p, const int64_t *n, const double *x);
TG_KERNELS(X)
#undef X

#endif
