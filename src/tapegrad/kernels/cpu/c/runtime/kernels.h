/* The kernels that are written by hand, one file per family. */

#ifndef TAPEGRAD_KERNELS_H
#define TAPEGRAD_KERNELS_H

#include "tapegrad.h"

/* rows.c: what goes along the last dimension */
#define TG_ROW_KERNELS(X)                                                                          \
    X(softmax_f32) X(softmax_f64) X(log_softmax_f32) X(log_softmax_f64) X(softmax_back_f32)        \
    X(softmax_back_f64) X(log_softmax_back_f32) X(log_softmax_back_f64) X(logsumexp_f32)            \
    X(logsumexp_f64) X(softmax_bf16) X(log_softmax_bf16) X(softmax_back_bf16)                      \
    X(log_softmax_back_bf16) X(softmax_f16) X(log_softmax_f16) X(softmax_back_f16)                 \
    X(log_softmax_back_f16) X(widen_bf16) X(narrow_bf16) X(widen_f16) X(narrow_f16)

/* optim.c: optimizers, and what is done to all gradients at once */
#define TG_OPTIM_KERNELS(X)                                                                        \
    X(sgd_f32) X(sgd_f64) X(adam_f32) X(adam_f64) X(rmsprop_f32) X(rmsprop_f64) X(adagrad_f32)     \
    X(adagrad_f64) X(adadelta_f32) X(adadelta_f64) X(adamax_f32) X(adamax_f64) X(nadam_f32)        \
    X(nadam_f64) X(radam_f32) X(radam_f64) X(asgd_f32) X(asgd_f64) X(rprop_f32) X(rprop_f64)       \
    X(norm_parts_f32) X(norm_parts_f64) X(scale_all_f32) X(scale_all_f64) X(limit_all_f32)         \
    X(limit_all_f64)

/* batch_norm.c */
#define TG_BATCH_NORM_KERNELS(X)                                                                   \
    X(batch_norm_f32) X(batch_norm_f64) X(batch_norm_fixed_f32) X(batch_norm_fixed_f64)            \
    X(batch_norm_back_f32) X(batch_norm_back_f64) X(columns_norm_f32) X(columns_norm_f64)          \
    X(columns_norm_back_f32) X(columns_norm_back_f64) X(group_norm_f32) X(group_norm_f64)          \
    X(group_norm_back_f32) X(group_norm_back_f64)

/* conv.c */
#define TG_CONV_KERNELS(X)                                                                         \
    X(conv_f32) X(conv_f64) X(conv_weights_f32) X(conv_weights_f64) X(conv_dots_f32) X(conv_dots_f64)

/* pooling2d.c */
#define TG_POOL2D_KERNELS(X)                                                                       \
    X(max_pool2d_f32) X(max_pool2d_f64) X(max_pool2d_back_f32) X(max_pool2d_back_f64)              \
    X(avg_pool2d_f32) X(avg_pool2d_f64) X(avg_pool2d_back_f32) X(avg_pool2d_back_f64)

/* windows.c */
#define TG_WINDOW_KERNELS(X)                                                                       \
    X(window_max_f32) X(window_max_f64) X(window_mean_f32) X(window_mean_f64)                      \
    X(window_mean_back_f32) X(window_mean_back_f64) X(drawn_max_f32) X(drawn_max_f64)

/* matvec.c */
#define TG_MATVEC_KERNELS(X)                                                                       \
    X(matvec_f32) X(matvec_f64) X(matvec_columns_f32) X(matvec_columns_f64)

/* norms.c: layer norm and rms norm */
#define TG_NORM_KERNELS(X)                                                                         \
    X(layer_norm_f32) X(layer_norm_f64) X(rms_norm_f32) X(rms_norm_f64) X(norm_back_f32)           \
    X(norm_back_f64) X(layer_norm_bf16) X(rms_norm_bf16) X(norm_back_bf16) X(layer_norm_f16)       \
    X(rms_norm_f16) X(norm_back_f16)

/* gather.c: rows and elements by their numbers */
#define TG_GATHER_KERNELS(X)                                                                       \
    X(places) X(take) X(moved) X(gather) X(put_part) X(marked) X(add_rows_f32) X(add_rows_f64)      \
    X(scatter_f32) X(scatter_f64) X(nll_f32) X(nll_f64) X(nll_back_f32) X(nll_back_f64)

/* reduce.c: sums, variances and running sums */
#define TG_REDUCE_KERNELS(X)                                                                       \
    X(sum_f32) X(sum_f64) X(sum_bf16) X(sum_columns_f32) X(sum_columns_f64) X(sum_columns_bf16)    \
    X(sum_f16) X(sum_columns_f16)                                                                  \
    X(spread_f32) X(spread_f64) X(running_f32) X(running_f64) X(recurrence_f32) X(recurrence_f64)

/* extremes.c */
#define TG_EXTREME_KERNELS(X)                                                                      \
    X(extremes_f32) X(extremes_f64) X(running_extremes_f32) X(running_extremes_f64)

/* integers.c */
#define TG_WHOLE_KERNELS(X) X(whole) X(truths) X(convert) X(whole_product)

/* triangles.c */
#define TG_TRIANGLE_KERNELS(X) X(triangle)

/* random.c */
#define TG_RANDOM_KERNELS(X)                                                                       \
    X(words) X(words64) X(integers) X(permutation) X(uniform_f32) X(uniform_f64) X(coins_bool)     \
    X(coins_f32) X(coins_f64) X(coins_of_f32) X(coins_of_f64) X(picks_f32) X(picks_f64)            \
    X(normal_f32) X(normal_f64) X(single_f32) X(single_f64) X(libm_exp) X(libm_log1p) X(libm_tan)

/* rejection.c */
#define TG_REJECTION_KERNELS(X) X(poisson) X(binomial) X(gamma)

/* pairs.c */
#define TG_PAIR_KERNELS(X) X(pairs_f32) X(pairs_f64)

/* gamma_functions.c */
#define TG_GAMMA_KERNELS(X) X(gamma_function_f32) X(gamma_function_f64)

/* distances.c */
#define TG_DISTANCE_KERNELS(X) X(distances_f32) X(distances_f64)

/* grid_sampling.c */
#define TG_GRID_KERNELS(X)                                                                         \
    X(grid_sample_f32) X(grid_sample_f64) X(grid_add_f32) X(grid_add_f64) X(grid_slope_f32)        \
    X(grid_slope_f64)

/* directions.c */
#define TG_DIRECTION_KERNELS(X) X(directions_f32) X(directions_f64)

/* ranges.c */
#define TG_RANGE_KERNELS(X) X(steps_f32) X(steps_f64)

/* sort.c */
#define TG_SORT_KERNELS(X) X(sort_32) X(sort_64)

/* attention.c */
#define TG_ATTENTION_KERNELS(X)                                                                    \
    X(attention_f32) X(attention_f64) X(attention_back_f32) X(attention_back_f64)

/* recurrent.c */
#define TG_RECURRENT_KERNELS(X)                                                                    \
    X(lstm_f32) X(lstm_f64) X(lstm_back_f32) X(lstm_back_f64) X(gru_f32) X(gru_f64)                \
    X(gru_back_f32) X(gru_back_f64) X(rnn_f32) X(rnn_f64) X(rnn_back_f32) X(rnn_back_f64)           \
    X(lstm_step_f32) X(lstm_step_f64)

/* portable_functions.c and gemm_apart.c: with the same bits on every machine */
#define TG_PORTABLE_KERNELS(X)                                                                     \
    X(portable_exp_f32) X(portable_exp_f64) X(portable_exp2_f32) X(portable_exp2_f64)              \
    X(portable_expm1_f32) X(portable_expm1_f64) X(portable_log_f32) X(portable_log_f64)            \
    X(portable_log2_f32) X(portable_log2_f64) X(portable_log10_f32) X(portable_log10_f64)          \
    X(portable_log1p_f32) X(portable_log1p_f64) X(portable_sin_f32) X(portable_sin_f64)            \
    X(portable_cos_f32) X(portable_cos_f64) X(portable_tan_f32) X(portable_tan_f64)                \
    X(portable_sinh_f32) X(portable_sinh_f64) X(portable_cosh_f32) X(portable_cosh_f64)            \
    X(portable_tanh_f32) X(portable_tanh_f64) X(portable_arcsin_f32) X(portable_arcsin_f64)        \
    X(portable_arccos_f32) X(portable_arccos_f64) X(portable_arctan_f32) X(portable_arctan_f64)    \
    X(portable_arcsinh_f32) X(portable_arcsinh_f64) X(portable_arccosh_f32)                        \
    X(portable_arccosh_f64) X(portable_arctanh_f32) X(portable_arctanh_f64) X(portable_power_f32)  \
    X(portable_power_f64) X(portable_hypot_f32) X(portable_hypot_f64) X(portable_arctan2_f32)      \
    X(portable_arctan2_f64) X(portable_logaddexp_f32) X(portable_logaddexp_f64)                    \
    X(portable_logaddexp2_f32) X(portable_logaddexp2_f64) X(portable_erf_f32) X(portable_erf_f64)  \
    X(portable_erfc_f32) X(portable_erfc_f64) X(portable_lgamma_f32) X(portable_lgamma_f64)        \
    X(portable_products_f32)                                                                       \
    X(portable_products_f64) X(portable_powers) X(portable_softmax_f32) X(portable_softmax_f64)    \
    X(portable_log_softmax_f32) X(portable_log_softmax_f64) X(portable_softmax_back_f32)           \
    X(portable_softmax_back_f64) X(portable_log_softmax_back_f32)                                  \
    X(portable_log_softmax_back_f64) X(portable_layer_norm_f32) X(portable_layer_norm_f64)         \
    X(portable_layer_norm_back_f32) X(portable_layer_norm_back_f64)

#define TG_KERNELS(X)                                                                              \
    TG_ROW_KERNELS(X) TG_OPTIM_KERNELS(X) TG_BATCH_NORM_KERNELS(X) TG_CONV_KERNELS(X)              \
    TG_POOL2D_KERNELS(X) TG_WINDOW_KERNELS(X) TG_NORM_KERNELS(X) TG_GATHER_KERNELS(X)              \
    TG_REDUCE_KERNELS(X) TG_MATVEC_KERNELS(X)                                                      \
    TG_RANDOM_KERNELS(X) TG_SORT_KERNELS(X) TG_ATTENTION_KERNELS(X) TG_RECURRENT_KERNELS(X)        \
    TG_EXTREME_KERNELS(X) TG_WHOLE_KERNELS(X) TG_REJECTION_KERNELS(X) TG_RANGE_KERNELS(X)          \
    TG_PAIR_KERNELS(X) TG_TRIANGLE_KERNELS(X) TG_DIRECTION_KERNELS(X) TG_PORTABLE_KERNELS(X) \
    TG_GAMMA_KERNELS(X) TG_GRID_KERNELS(X) TG_DISTANCE_KERNELS(X)

#define X(name) void tg_##name(void **p, const int64_t *n, const double *x);
TG_KERNELS(X)
#undef X

#endif
