/* optim.c for one type T. A rule is its factors, which all elements share and which are found in
   double precision, and the step of a run of elements. x: lr, the state's numbers, the options. */

/* The gradient to go down, with the decay of the weights as a part of it. */
#define SLOPE(d, x)                                                                                \
    T d = f->sign * grad[i];                                                                       \
    if (f->decay != 0)                                                                             \
        d = d + x * f->decay;

typedef struct {
    T weight, rest; /* of the end, and of the beginning */
    int near;
} NAMED(mixture);

static NAMED(mixture) NAMED(toward)(double weight) {
    return (NAMED(mixture)){(T)weight, (T)(1 - weight), fabs(weight) < 0.5};
}
TG_INLINE T NAMED(mixed)(T a, T b, NAMED(mixture) by) {
    const T step = b - a;
    return by.near ? a + by.weight * step : b - step * by.rest;
}
/* The larger one, or NaN if one is. */
TG_INLINE T NAMED(larger)(T a, T b) { return b > a || b != b ? b : a; }

/* ------------------------------------------------------------------ SGD */

typedef struct {
    T sign, decay, minus_lr, momentum, fresh_part;
    int nesterov, fresh;
} NAMED(sgd);

TG_INLINE void NAMED(sgd_run)(const NAMED(sgd) *f, T *restrict p, const T *restrict grad,
                              T *restrict buffer, int64_t n, const int momentum, const int fresh,
                              const int nesterov) {
    for (int64_t i = 0; i < n; i++) {
        SLOPE(d, p[i])
        if (momentum) {
            const T b = fresh ? d : buffer[i] * f->momentum + d * f->fresh_part;
            buffer[i] = b;
            d = nesterov ? d + b * f->momentum : b;
        }
        p[i] = p[i] + d * f->minus_lr;
    }
}
TG_VERSIONS static void NAMED(sgd_part)(void *context, int64_t begin, int64_t end) {
    EACH_TENSOR {
        const NAMED(sgd) *f = j->factors;
        T *p = ROW(0), *grad = ROW(1), *buffer = ROW(2);
        const int64_t n = stop - begin;
        if (!buffer)
            NAMED(sgd_run)(f, p, grad, NULL, n, 0, 0, 0);
        else if (f->fresh)
            NAMED(sgd_run)(f, p, grad, buffer, n, 1, 1, f->nesterov);
        else if (f->nesterov)
            NAMED(sgd_run)(f, p, grad, buffer, n, 1, 0, 1);
        else
            NAMED(sgd_run)(f, p, grad, buffer, n, 1, 0, 0);
    }
}
/* x: lr, fresh, momentum, dampening, weight_decay, nesterov, maximize */
void NAMED(tg_sgd)(void **p, const int64_t *n, const double *x) {
    NAMED(sgd) f = {.sign = x[6] != 0 ? -1 : 1,
                    .decay = (T)x[4],
                    .minus_lr = (T)-x[0],
                    .momentum = (T)x[2],
                    .fresh_part = (T)(1 - x[3]),
                    .nesterov = x[5] != 0,
                    .fresh = x[1] != 0};
    run(p, n, 3, 0.4, NAMED(sgd_part), &f);
}

/* ------------------------------------------------------------------ Adam */

typedef struct {
    T sign, decay, shrink, beta2, rest2, eps, minus_size, root;
    NAMED(mixture) mean;
} NAMED(adam);

TG_INLINE void NAMED(adam_run)(const NAMED(adam) *f, T *restrict p, const T *restrict grad,
                               T *restrict mean, T *restrict square, T *restrict highest, int64_t n,
                               const int amsgrad) {
    const NAMED(mixture) by = f->mean;
    for (int64_t i = 0; i < n; i++) {
        SLOPE(d, p[i])
        mean[i] = NAMED(mixed)(mean[i], d, by);
        T s = square[i] * f->beta2 + f->rest2 * d * d;
        square[i] = s;
        if (amsgrad)
            highest[i] = s = NAMED(larger)(highest[i], s);
        const T root = SQRT(s) / f->root + f->eps;
        p[i] = p[i] * f->shrink + f->minus_size * mean[i] / root;
    }
}
TG_VERSIONS static void NAMED(adam_part)(void *context, int64_t begin, int64_t end) {
    EACH_TENSOR {
        const NAMED(adam) *f = j->factors;
        T *p = ROW(0), *grad = ROW(1), *mean = ROW(2), *square = ROW(3), *highest = ROW(4);
        const int64_t n = stop - begin;
        if (highest)
            NAMED(adam_run)(f, p, grad, mean, square, highest, n, 1);
        else
            NAMED(adam_run)(f, p, grad, mean, square, NULL, n, 0);
    }
}
/* x: lr, step, beta1, beta2, eps, weight_decay, decoupled_weight_decay, amsgrad, maximize */
void NAMED(tg_adam)(void **p, const int64_t *n, const double *x) {
    const double step = x[1] + 1;
    const int apart = x[6] != 0;
    NAMED(adam) f = {.sign = x[8] != 0 ? -1 : 1,
                     .decay = (T)(apart ? 0 : x[5]),
                     .shrink = (T)(apart ? 1 - x[0] * x[5] : 1),
                     .beta2 = (T)x[3],
                     .rest2 = (T)(1 - x[3]),
                     .eps = (T)x[4],
                     .minus_size = (T) - (x[0] / (1 - pow(x[2], step))),
                     .root = (T)pow(1 - pow(x[3], step), 0.5),
                     .mean = NAMED(toward)(1 - x[2])};
    run(p, n, 5, 1.0, NAMED(adam_part), &f);
}

/* ------------------------------------------------------------------ RMSprop */

typedef struct {
    T sign, decay, minus_lr, alpha, rest, eps, momentum;
    NAMED(mixture) mean;
} NAMED(rmsprop);

TG_INLINE void NAMED(rmsprop_run)(const NAMED(rmsprop) *f, T *restrict p, const T *restrict grad,
                                  T *restrict square, T *restrict buffer, T *restrict mean,
                                  int64_t n, const int momentum, const int centered) {
    const NAMED(mixture) by = f->mean;
    for (int64_t i = 0; i < n; i++) {
        SLOPE(d, p[i])
        T s = square[i] * f->alpha + f->rest * d * d;
        square[i] = s;
        if (centered) {
            const T m = mean[i] = NAMED(mixed)(mean[i], d, by);
            s = s + -m * m;
        }
        const T root = SQRT(s) + f->eps;
        if (momentum) {
            buffer[i] = buffer[i] * f->momentum + d / root;
            p[i] = p[i] + buffer[i] * f->minus_lr;
        } else
            p[i] = p[i] + f->minus_lr * d / root;
    }
}
TG_VERSIONS static void NAMED(rmsprop_part)(void *context, int64_t begin, int64_t end) {
    EACH_TENSOR {
        const NAMED(rmsprop) *f = j->factors;
        T *p = ROW(0), *grad = ROW(1), *square = ROW(2), *buffer = ROW(3), *mean = ROW(4);
        const int64_t n = stop - begin;
        if (!buffer && !mean)
            NAMED(rmsprop_run)(f, p, grad, square, NULL, NULL, n, 0, 0);
        else if (!mean)
            NAMED(rmsprop_run)(f, p, grad, square, buffer, NULL, n, 1, 0);
        else if (!buffer)
            NAMED(rmsprop_run)(f, p, grad, square, NULL, mean, n, 0, 1);
        else
            NAMED(rmsprop_run)(f, p, grad, square, buffer, mean, n, 1, 1);
    }
}
/* x: lr, step, alpha, eps, weight_decay, momentum, centered, maximize */
void NAMED(tg_rmsprop)(void **p, const int64_t *n, const double *x) {
    NAMED(rmsprop) f = {.sign = x[7] != 0 ? -1 : 1,
                        .decay = (T)x[4],
                        .minus_lr = (T)-x[0],
                        .alpha = (T)x[2],
                        .rest = (T)(1 - x[2]),
                        .eps = (T)x[3],
                        .momentum = (T)x[5],
                        .mean = NAMED(toward)(1 - x[2])};
    run(p, n, 5, 0.8, NAMED(rmsprop_part), &f);
}

/* ------------------------------------------------------------------ Adagrad, Adadelta, Adamax */

typedef struct {
    T sign, decay, minus_size, eps, keep, rest;
    NAMED(mixture) mean;
} NAMED(common);

TG_VERSIONS static void NAMED(adagrad_part)(void *context, int64_t begin, int64_t end) {
    EACH_TENSOR {
        const NAMED(common) *f = j->factors;
        T *restrict p = ROW(0), *restrict grad = ROW(1), *restrict sum = ROW(2);
        for (int64_t i = 0; i < stop - begin; i++) {
            SLOPE(d, p[i])
            sum[i] = sum[i] + d * d;
            p[i] = p[i] + f->minus_size * d / (SQRT(sum[i]) + f->eps);
        }
    }
}
/* x: lr, step, lr_decay, eps, weight_decay, maximize */
void NAMED(tg_adagrad)(void **p, const int64_t *n, const double *x) {
    NAMED(common) f = {.sign = x[5] != 0 ? -1 : 1,
                       .decay = (T)x[4],
                       .minus_size = (T) - (x[0] / (1 + x[1] * x[2])),
                       .eps = (T)x[3]};
    run(p, n, 3, 0.7, NAMED(adagrad_part), &f);
}

TG_VERSIONS static void NAMED(adadelta_part)(void *context, int64_t begin, int64_t end) {
    EACH_TENSOR {
        const NAMED(common) *f = j->factors;
        T *restrict p = ROW(0), *restrict grad = ROW(1), *restrict square = ROW(2),
                    *restrict steps = ROW(3);
        for (int64_t i = 0; i < stop - begin; i++) {
            SLOPE(d, p[i])
            square[i] = square[i] * f->keep + f->rest * d * d;
            const T step = SQRT(steps[i] + f->eps) / SQRT(square[i] + f->eps) * d;
            steps[i] = steps[i] * f->keep + f->rest * step * step;
            p[i] = p[i] + step * f->minus_size;
        }
    }
}
/* x: lr, step, rho, eps, weight_decay, maximize */
void NAMED(tg_adadelta)(void **p, const int64_t *n, const double *x) {
    NAMED(common) f = {.sign = x[5] != 0 ? -1 : 1,
                       .decay = (T)x[4],
                       .minus_size = (T)-x[0],
                       .eps = (T)x[3],
                       .keep = (T)x[2],
                       .rest = (T)(1 - x[2])};
    run(p, n, 4, 1.2, NAMED(adadelta_part), &f);
}

TG_VERSIONS static void NAMED(adamax_part)(void *context, int64_t begin, int64_t end) {
    EACH_TENSOR {
        const NAMED(common) *f = j->factors;
        const NAMED(mixture) by = f->mean;
        T *restrict p = ROW(0), *restrict grad = ROW(1), *restrict mean = ROW(2),
                    *restrict largest = ROW(3);
        for (int64_t i = 0; i < stop - begin; i++) {
            SLOPE(d, p[i])
            mean[i] = NAMED(mixed)(mean[i], d, by);
            largest[i] = NAMED(larger)(largest[i] * f->keep, ABS(d) + f->eps);
            p[i] = p[i] + f->minus_size * mean[i] / largest[i];
        }
    }
}
/* x: lr, step, beta1, beta2, eps, weight_decay, maximize */
void NAMED(tg_adamax)(void **p, const int64_t *n, const double *x) {
    NAMED(common) f = {.sign = x[6] != 0 ? -1 : 1,
                       .decay = (T)x[5],
                       .minus_size = (T) - (x[0] / (1 - pow(x[2], x[1] + 1))),
                       .eps = (T)x[4],
                       .keep = (T)x[3],
                       .mean = NAMED(toward)(1 - x[2])};
    run(p, n, 4, 0.8, NAMED(adamax_part), &f);
}

/* ------------------------------------------------------------------ NAdam, RAdam */

typedef struct {
    T sign, decay, shrink, beta2, rest2, eps, bias, of_grad, of_mean, lr, root, rectify;
    NAMED(mixture) mean;
    int rectified;
} NAMED(means);

TG_VERSIONS static void NAMED(nadam_part)(void *context, int64_t begin, int64_t end) {
    EACH_TENSOR {
        const NAMED(means) *f = j->factors;
        const NAMED(mixture) by = f->mean;
        T *restrict p = ROW(0), *restrict grad = ROW(1), *restrict mean = ROW(2),
                    *restrict square = ROW(3);
        for (int64_t i = 0; i < stop - begin; i++) {
            SLOPE(d, p[i])
            mean[i] = NAMED(mixed)(mean[i], d, by);
            square[i] = square[i] * f->beta2 + f->rest2 * d * d;
            const T root = SQRT(square[i] / f->bias) + f->eps;
            const T after = p[i] * f->shrink + f->of_grad * d / root;
            p[i] = after + f->of_mean * mean[i] / root;
        }
    }
}
/* x: lr, step, mu_product, beta1, beta2, eps, weight_decay, momentum_decay, decoupled_weight_decay,
   maximize; n: count, whether the state keeps its numbers in single precision */
void NAMED(tg_nadam)(void **p, const int64_t *n, const double *x) {
    const double lr = x[0], step = x[1] + 1, beta1 = x[3], beta2 = x[4];
    const double momentum = beta1 * (1.0 - 0.5 * pow(0.96, step * x[7]));
    const double ahead = beta1 * (1.0 - 0.5 * pow(0.96, (step + 1) * x[7]));
    const double so_far = n[1] ? (double)((float)x[2] * (float)momentum) : x[2] * momentum;
    const int apart = x[8] != 0;
    NAMED(means) f = {.sign = x[9] != 0 ? -1 : 1,
                      .decay = (T)(apart ? 0 : x[6]),
                      .shrink = (T)(apart ? 1 - lr * x[6] : 1),
                      .beta2 = (T)beta2,
                      .rest2 = (T)(1 - beta2),
                      .eps = (T)x[5],
                      .bias = (T)(1 - pow(beta2, step)),
                      .of_grad = (T)(-lr * (1.0 - momentum) / (1.0 - so_far)),
                      .of_mean = (T)(-lr * ahead / (1.0 - so_far * ahead)),
                      .mean = NAMED(toward)(1 - beta1)};
    run(p, n, 4, 1.2, NAMED(nadam_part), &f);
}

TG_VERSIONS static void NAMED(radam_part)(void *context, int64_t begin, int64_t end) {
    EACH_TENSOR {
        const NAMED(means) *f = j->factors;
        const NAMED(mixture) by = f->mean;
        T *restrict p = ROW(0), *restrict grad = ROW(1), *restrict mean = ROW(2),
                    *restrict square = ROW(3);
        for (int64_t i = 0; i < stop - begin; i++) {
            SLOPE(d, p[i])
            mean[i] = NAMED(mixed)(mean[i], d, by);
            square[i] = square[i] * f->beta2 + f->rest2 * d * d;
            T step = mean[i] / f->bias * f->lr;
            if (f->rectified)
                step = step * (f->root / (SQRT(square[i]) + f->eps)) * f->rectify;
            p[i] = p[i] * f->shrink - step;
        }
    }
}
/* x: lr, step, beta1, beta2, eps, weight_decay, decoupled_weight_decay, maximize */
void NAMED(tg_radam)(void **p, const int64_t *n, const double *x) {
    const double lr = x[0], step = x[1] + 1, beta2 = x[3], power = pow(beta2, step);
    const double unbias = 1 - power;
    /* How many gradients the mean square stands for, now and in the long run. */
    const double longest = 2 / (1 - beta2) - 1, length = longest - 2 * step * power / unbias;
    const int apart = x[6] != 0;
    NAMED(means) f = {.sign = x[7] != 0 ? -1 : 1,
                      .decay = (T)(apart ? 0 : x[5]),
                      .shrink = (T)(apart ? 1 - lr * x[5] : 1),
                      .beta2 = (T)beta2,
                      .rest2 = (T)(1 - beta2),
                      .eps = (T)x[4],
                      .bias = (T)(1 - pow(x[2], step)),
                      .lr = (T)lr,
                      .root = (T)pow(unbias, 0.5),
                      .rectified = length > 5.0,
                      .mean = NAMED(toward)(1 - x[2])};
    if (f.rectified)
        f.rectify = (T)pow((length - 4) * (length - 2) * longest /
                               ((longest - 4) * (longest - 2) * length),
                           0.5);
    run(p, n, 4, 1.2, NAMED(radam_part), &f);
}

/* ------------------------------------------------------------------ ASGD, Rprop */

typedef struct {
    T sign, decay, shrink, minus_eta, mu, slower, faster, lowest, highest;
    int all;
} NAMED(steps);

TG_VERSIONS static void NAMED(asgd_part)(void *context, int64_t begin, int64_t end) {
    EACH_TENSOR {
        const NAMED(steps) *f = j->factors;
        T *restrict p = ROW(0), *restrict grad = ROW(1), *restrict mean = ROW(2);
        for (int64_t i = 0; i < stop - begin; i++) {
            SLOPE(d, p[i])
            const T after = p[i] * f->shrink + d * f->minus_eta;
            p[i] = after;
            mean[i] = f->all ? after : mean[i] + (after - mean[i]) * f->mu;
        }
    }
}
/* x: lr, step, eta, mu, lambd, alpha, t0, weight_decay, maximize */
void NAMED(tg_asgd)(void **p, const int64_t *n, const double *x) {
    NAMED(steps) f = {.sign = x[8] != 0 ? -1 : 1,
                      .decay = (T)x[7],
                      .shrink = (T)(1 - x[4] * x[2]),
                      .minus_eta = (T)-x[2],
                      .mu = (T)x[3],
                      .all = x[3] == 1};
    run(p, n, 3, 0.5, NAMED(asgd_part), &f);
}

/* The sign; 0 for zeros and NaN, as PyTorch has it. */
TG_INLINE T NAMED(sign_of)(T x) { return x > 0 ? (T)1 : x < 0 ? (T)-1 : (T)0; }

TG_VERSIONS static void NAMED(rprop_part)(void *context, int64_t begin, int64_t end) {
    EACH_TENSOR {
        const NAMED(steps) *f = j->factors;
        T *restrict p = ROW(0), *restrict grad = ROW(1), *restrict before = ROW(2),
                    *restrict size = ROW(3);
        for (int64_t i = 0; i < stop - begin; i++) {
            T d = f->sign * grad[i];
            const T same_way = d * before[i];
            const T factor = same_way > 0 ? f->faster : same_way < 0 ? f->slower : (T)1;
            T s = size[i] * factor;
            s = s < f->lowest ? f->lowest : s;
            s = s > f->highest ? f->highest : s;
            /* Where the sign has turned, the last step went too far. */
            d = same_way < 0 ? (T)0 : d;
            size[i] = s;
            p[i] = p[i] + -NAMED(sign_of)(d) * s;
            before[i] = d;
        }
    }
}
/* x: lr, step, etas, step_sizes, maximize */
void NAMED(tg_rprop)(void **p, const int64_t *n, const double *x) {
    NAMED(steps) f = {.sign = x[6] != 0 ? -1 : 1,
                      .slower = (T)x[2],
                      .faster = (T)x[3],
                      .lowest = (T)x[4],
                      .highest = (T)x[5]};
    run(p, n, 4, 0.8, NAMED(rprop_part), &f);
}

/* ------------------------------------------------------------------ all gradients */

#define NORM_PART(name, start, step)                                                               \
    TG_VERSIONS static void NAMED(name)(void *context, int64_t begin, int64_t end) {               \
        const int64_t piece = begin / PIECE;                                                       \
        double found = start;                                                                      \
        EACH_TENSOR {                                                                              \
            const T *x = ROW(0);                                                                   \
            double lane[8] = {start, start, start, start, start, start, start, start};             \
            const int64_t n = stop - begin;                                                        \
            int64_t i0 = 0;                                                                        \
            for (; i0 + 8 <= n; i0 += 8)                                                           \
                for (int k8 = 0; k8 < 8; k8++) {                                                   \
                    const T a = x[i0 + k8];                                                        \
                    const double sum = lane[k8];                                                   \
                    lane[k8] = step;                                                               \
                }                                                                                  \
            for (; i0 < n; i0++) {                                                                 \
                const T a = x[i0];                                                                 \
                const double sum = lane[i0 % 8];                                                   \
                lane[i0 % 8] = step;                                                               \
            }                                                                                      \
            for (int k8 = 0; k8 < 8; k8++)                                                         \
                found = (start) < 0 ? larger_of(found, lane[k8]) : found + lane[k8];               \
        }                                                                                          \
        ((const job *)context)->parts[piece] = found;                                              \
    }

NORM_PART(squares_part, 0.0, sum + a * a)
NORM_PART(sizes_part, 0.0, sum + ABS(a))
NORM_PART(largest_part, -1.0, larger_of(sum, ABS(a)))
#undef NORM_PART

/* p: table of tensors, parts (one for each piece of PIECE elements); n: count, order (0: largest) */
void NAMED(tg_norm_parts)(void **p, const int64_t *n, const double *x) {
    const int64_t *table = p[0], count = n[0];
    job j = {table, table + count, count, NULL, p[1]};
    tg_part part = n[1] == 2 ? NAMED(squares_part) : n[1] ? NAMED(sizes_part) : NAMED(largest_part);
    if (count)
        tg_parallel(j.stops[count - 1], PIECE, part, &j);
}

TG_VERSIONS static void NAMED(scale_part)(void *context, int64_t begin, int64_t end) {
    EACH_TENSOR {
        T *x = ROW(0);
        const T by = (T) * (const double *)j->factors;
        for (int64_t i = 0; i < stop - begin; i++)
            x[i] *= by;
    }
}
/* x: factor */
void NAMED(tg_scale_all)(void **p, const int64_t *n, const double *x) {
    run(p, n, 1, 0.2, NAMED(scale_part), x);
}

TG_VERSIONS static void NAMED(limit_part)(void *context, int64_t begin, int64_t end) {
    EACH_TENSOR {
        T *x = ROW(0);
        const T most = (T) * (const double *)j->factors;
        for (int64_t i = 0; i < stop - begin; i++) {
            T v = x[i] < -most ? -most : x[i];
            x[i] = v > most ? most : v;
        }
    }
}
/* x: the largest absolute value */
void NAMED(tg_limit_all)(void **p, const int64_t *n, const double *x) {
    run(p, n, 1, 0.2, NAMED(limit_part), x);
}

#undef SLOPE
