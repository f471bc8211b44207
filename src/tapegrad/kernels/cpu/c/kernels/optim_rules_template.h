/* Made by tools/generate.py from src/tapegrad/optim: do not edit.

   Kernels of optimizers for one type T. x: lr, the state's numbers, the options, in that order. */

typedef struct { T f0, f1, f2, f3, f4; int way; } NAMED(sgd);
TG_VERSIONS TG_SHORT
static void NAMED(sgd_part)(void *context, int64_t begin, int64_t end) {
    EACH_TENSOR {
        const NAMED(sgd) f = *(const NAMED(sgd) *)j->factors;
        T *restrict p = ROW(0), *restrict grad = ROW(1), *restrict momentum_buffer = ROW(2);
        const int64_t count = stop - begin;
        switch (f.way) {
        case 0:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = (grad[i] * f.f0) + (p[i] * f.f1);
                const T new_p = p[i] - ((v0 + (v0 * f.f2)) * f.f3);
                const T new_momentum_buffer = v0;
                p[i] = new_p;
                momentum_buffer[i] = new_momentum_buffer;
            }
            break;
        case 1:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = (grad[i] * f.f0) + (p[i] * f.f1);
                const T new_p = p[i] - (v0 * f.f3);
                const T new_momentum_buffer = v0;
                p[i] = new_p;
                momentum_buffer[i] = new_momentum_buffer;
            }
            break;
        case 2:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = (grad[i] * f.f0) + (p[i] * f.f1);
                const T v1 = (momentum_buffer[i] * f.f2) + (v0 * f.f4);
                const T new_p = p[i] - ((v0 + (v1 * f.f2)) * f.f3);
                const T new_momentum_buffer = v1;
                p[i] = new_p;
                momentum_buffer[i] = new_momentum_buffer;
            }
            break;
        case 3:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = (momentum_buffer[i] * f.f2) + (((grad[i] * f.f0) + (p[i] * f.f1)) * f.f4);
                const T new_p = p[i] - (v0 * f.f3);
                const T new_momentum_buffer = v0;
                p[i] = new_p;
                momentum_buffer[i] = new_momentum_buffer;
            }
            break;
        case 4:
            for (int64_t i = 0; i < count; i++) {
                const T new_p = p[i] - (((grad[i] * f.f0) + (p[i] * f.f1)) * f.f3);
                p[i] = new_p;
            }
            break;
        case 5:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = grad[i] * f.f0;
                const T new_p = p[i] - ((v0 + (v0 * f.f2)) * f.f3);
                const T new_momentum_buffer = v0;
                p[i] = new_p;
                momentum_buffer[i] = new_momentum_buffer;
            }
            break;
        case 6:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = grad[i] * f.f0;
                const T new_p = p[i] - (v0 * f.f3);
                const T new_momentum_buffer = v0;
                p[i] = new_p;
                momentum_buffer[i] = new_momentum_buffer;
            }
            break;
        case 7:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = grad[i] * f.f0;
                const T v1 = (momentum_buffer[i] * f.f2) + (v0 * f.f4);
                const T new_p = p[i] - ((v0 + (v1 * f.f2)) * f.f3);
                const T new_momentum_buffer = v1;
                p[i] = new_p;
                momentum_buffer[i] = new_momentum_buffer;
            }
            break;
        case 8:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = (momentum_buffer[i] * f.f2) + ((grad[i] * f.f0) * f.f4);
                const T new_p = p[i] - (v0 * f.f3);
                const T new_momentum_buffer = v0;
                p[i] = new_p;
                momentum_buffer[i] = new_momentum_buffer;
            }
            break;
        case 9:
            for (int64_t i = 0; i < count; i++) {
                const T new_p = p[i] - ((grad[i] * f.f0) * f.f3);
                p[i] = new_p;
            }
            break;
        }
    }
}
/* x: lr, fresh, momentum, dampening, weight_decay, nesterov, maximize */
void NAMED(tg_sgd)(void **p, const int64_t *n, const double *x) {
    NAMED(sgd) f = {0};
    if (x[4] != (double)0) {
        if (x[2] != (double)0) {
            if (x[1] != (double)0) {
                if (x[5] != (double)0) {
                    f.f0 = (T)((x[6] != (double)0) ? (double)-1 : (double)1);
                    f.f1 = (T)(x[4]);
                    f.f2 = (T)(x[2]);
                    f.f3 = (T)(x[0]);
                    f.way = 0;
                } else {
                    f.f0 = (T)((x[6] != (double)0) ? (double)-1 : (double)1);
                    f.f1 = (T)(x[4]);
                    f.f3 = (T)(x[0]);
                    f.way = 1;
                }
            } else {
                if (x[5] != (double)0) {
                    f.f0 = (T)((x[6] != (double)0) ? (double)-1 : (double)1);
                    f.f1 = (T)(x[4]);
                    f.f2 = (T)(x[2]);
                    f.f3 = (T)(x[0]);
                    f.f4 = (T)((double)1 - x[3]);
                    f.way = 2;
                } else {
                    f.f0 = (T)((x[6] != (double)0) ? (double)-1 : (double)1);
                    f.f1 = (T)(x[4]);
                    f.f2 = (T)(x[2]);
                    f.f3 = (T)(x[0]);
                    f.f4 = (T)((double)1 - x[3]);
                    f.way = 3;
                }
            }
        } else {
            f.f0 = (T)((x[6] != (double)0) ? (double)-1 : (double)1);
            f.f1 = (T)(x[4]);
            f.f3 = (T)(x[0]);
            f.way = 4;
        }
    } else {
        if (x[2] != (double)0) {
            if (x[1] != (double)0) {
                if (x[5] != (double)0) {
                    f.f0 = (T)((x[6] != (double)0) ? (double)-1 : (double)1);
                    f.f2 = (T)(x[2]);
                    f.f3 = (T)(x[0]);
                    f.way = 5;
                } else {
                    f.f0 = (T)((x[6] != (double)0) ? (double)-1 : (double)1);
                    f.f3 = (T)(x[0]);
                    f.way = 6;
                }
            } else {
                if (x[5] != (double)0) {
                    f.f0 = (T)((x[6] != (double)0) ? (double)-1 : (double)1);
                    f.f2 = (T)(x[2]);
                    f.f3 = (T)(x[0]);
                    f.f4 = (T)((double)1 - x[3]);
                    f.way = 7;
                } else {
                    f.f0 = (T)((x[6] != (double)0) ? (double)-1 : (double)1);
                    f.f2 = (T)(x[2]);
                    f.f3 = (T)(x[0]);
                    f.f4 = (T)((double)1 - x[3]);
                    f.way = 8;
                }
            }
        } else {
            f.f0 = (T)((x[6] != (double)0) ? (double)-1 : (double)1);
            f.f3 = (T)(x[0]);
            f.way = 9;
        }
    }
    run(p, n, 3, 0.40, NAMED(sgd_part), &f);
}

typedef struct { T f0, f1, f2, f3, f5, f6, f7, f8, f9, f10; T f4; int way; } NAMED(adam);
TG_VERSIONS TG_SHORT
static void NAMED(adam_part)(void *context, int64_t begin, int64_t end) {
    EACH_TENSOR {
        const NAMED(adam) f = *(const NAMED(adam) *)j->factors;
        T *restrict p = ROW(0), *restrict grad = ROW(1), *restrict exp_avg = ROW(2), *restrict exp_avg_sq = ROW(3), *restrict max_exp_avg_sq = ROW(4);
        const int64_t count = stop - begin;
        switch (f.way) {
        case 0:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = grad[i] * f.f1;
                const T v1 = v0 - exp_avg[i];
                const T v2 = f.f4 ? (exp_avg[i] + (f.f2 * v1)) : (v0 - (v1 * f.f3));
                const T v3 = (exp_avg_sq[i] * f.f6) + ((v0 * f.f7) * v0);
                const T v4 = NAMED(larger)(max_exp_avg_sq[i], v3);
                const T new_p = (p[i] * f.f0) - ((v2 * f.f5) / ((SQRT(v4) / f.f8) + f.f9));
                const T new_exp_avg = v2;
                const T new_exp_avg_sq = v3;
                const T new_max_exp_avg_sq = v4;
                p[i] = new_p;
                exp_avg[i] = new_exp_avg;
                exp_avg_sq[i] = new_exp_avg_sq;
                max_exp_avg_sq[i] = new_max_exp_avg_sq;
            }
            break;
        case 1:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = grad[i] * f.f1;
                const T v1 = v0 - exp_avg[i];
                const T v2 = f.f4 ? (exp_avg[i] + (f.f2 * v1)) : (v0 - (v1 * f.f3));
                const T v3 = (exp_avg_sq[i] * f.f6) + ((v0 * f.f7) * v0);
                const T new_p = (p[i] * f.f0) - ((v2 * f.f5) / ((SQRT(v3) / f.f8) + f.f9));
                const T new_exp_avg = v2;
                const T new_exp_avg_sq = v3;
                p[i] = new_p;
                exp_avg[i] = new_exp_avg;
                exp_avg_sq[i] = new_exp_avg_sq;
            }
            break;
        case 2:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = (grad[i] * f.f1) + (p[i] * f.f10);
                const T v1 = v0 - exp_avg[i];
                const T v2 = f.f4 ? (exp_avg[i] + (f.f2 * v1)) : (v0 - (v1 * f.f3));
                const T v3 = (exp_avg_sq[i] * f.f6) + ((v0 * f.f7) * v0);
                const T v4 = NAMED(larger)(max_exp_avg_sq[i], v3);
                const T new_p = p[i] - ((v2 * f.f5) / ((SQRT(v4) / f.f8) + f.f9));
                const T new_exp_avg = v2;
                const T new_exp_avg_sq = v3;
                const T new_max_exp_avg_sq = v4;
                p[i] = new_p;
                exp_avg[i] = new_exp_avg;
                exp_avg_sq[i] = new_exp_avg_sq;
                max_exp_avg_sq[i] = new_max_exp_avg_sq;
            }
            break;
        case 3:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = (grad[i] * f.f1) + (p[i] * f.f10);
                const T v1 = v0 - exp_avg[i];
                const T v2 = f.f4 ? (exp_avg[i] + (f.f2 * v1)) : (v0 - (v1 * f.f3));
                const T v3 = (exp_avg_sq[i] * f.f6) + ((v0 * f.f7) * v0);
                const T new_p = p[i] - ((v2 * f.f5) / ((SQRT(v3) / f.f8) + f.f9));
                const T new_exp_avg = v2;
                const T new_exp_avg_sq = v3;
                p[i] = new_p;
                exp_avg[i] = new_exp_avg;
                exp_avg_sq[i] = new_exp_avg_sq;
            }
            break;
        case 4:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = grad[i] * f.f1;
                const T v1 = v0 - exp_avg[i];
                const T v2 = f.f4 ? (exp_avg[i] + (f.f2 * v1)) : (v0 - (v1 * f.f3));
                const T v3 = (exp_avg_sq[i] * f.f6) + ((v0 * f.f7) * v0);
                const T v4 = NAMED(larger)(max_exp_avg_sq[i], v3);
                const T new_p = p[i] - ((v2 * f.f5) / ((SQRT(v4) / f.f8) + f.f9));
                const T new_exp_avg = v2;
                const T new_exp_avg_sq = v3;
                const T new_max_exp_avg_sq = v4;
                p[i] = new_p;
                exp_avg[i] = new_exp_avg;
                exp_avg_sq[i] = new_exp_avg_sq;
                max_exp_avg_sq[i] = new_max_exp_avg_sq;
            }
            break;
        case 5:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = grad[i] * f.f1;
                const T v1 = v0 - exp_avg[i];
                const T v2 = f.f4 ? (exp_avg[i] + (f.f2 * v1)) : (v0 - (v1 * f.f3));
                const T v3 = (exp_avg_sq[i] * f.f6) + ((v0 * f.f7) * v0);
                const T new_p = p[i] - ((v2 * f.f5) / ((SQRT(v3) / f.f8) + f.f9));
                const T new_exp_avg = v2;
                const T new_exp_avg_sq = v3;
                p[i] = new_p;
                exp_avg[i] = new_exp_avg;
                exp_avg_sq[i] = new_exp_avg_sq;
            }
            break;
        }
    }
}
/* x: lr, step, betas[2], eps, weight_decay, decoupled_weight_decay, amsgrad, maximize */
void NAMED(tg_adam)(void **p, const int64_t *n, const double *x) {
    NAMED(adam) f = {0};
    if (x[5] != (double)0) {
        if (x[6] != (double)0) {
            if (x[7] != (double)0) {
                const double y0 = (double)1 - x[2];
                const double y1 = x[1] + (double)1;
                f.f0 = (T)((double)1 - (x[0] * x[5]));
                f.f1 = (T)((x[8] != (double)0) ? (double)-1 : (double)1);
                f.f2 = (T)(y0);
                f.f3 = (T)((double)1 - y0);
                f.f4 = (T)(fabs(y0) < (double)0.5);
                f.f5 = (T)(x[0] / ((double)1 - pow(x[2], y1)));
                f.f6 = (T)(x[3]);
                f.f7 = (T)((double)1 - x[3]);
                f.f8 = (T)(pow((double)1 - pow(x[3], y1), (double)0.5));
                f.f9 = (T)(x[4]);
                f.way = 0;
            } else {
                const double y0 = (double)1 - x[2];
                const double y1 = x[1] + (double)1;
                f.f0 = (T)((double)1 - (x[0] * x[5]));
                f.f1 = (T)((x[8] != (double)0) ? (double)-1 : (double)1);
                f.f2 = (T)(y0);
                f.f3 = (T)((double)1 - y0);
                f.f4 = (T)(fabs(y0) < (double)0.5);
                f.f5 = (T)(x[0] / ((double)1 - pow(x[2], y1)));
                f.f6 = (T)(x[3]);
                f.f7 = (T)((double)1 - x[3]);
                f.f8 = (T)(pow((double)1 - pow(x[3], y1), (double)0.5));
                f.f9 = (T)(x[4]);
                f.way = 1;
            }
        } else {
            if (x[7] != (double)0) {
                const double y0 = (double)1 - x[2];
                const double y1 = x[1] + (double)1;
                f.f1 = (T)((x[8] != (double)0) ? (double)-1 : (double)1);
                f.f2 = (T)(y0);
                f.f3 = (T)((double)1 - y0);
                f.f4 = (T)(fabs(y0) < (double)0.5);
                f.f5 = (T)(x[0] / ((double)1 - pow(x[2], y1)));
                f.f6 = (T)(x[3]);
                f.f7 = (T)((double)1 - x[3]);
                f.f8 = (T)(pow((double)1 - pow(x[3], y1), (double)0.5));
                f.f9 = (T)(x[4]);
                f.f10 = (T)(x[5]);
                f.way = 2;
            } else {
                const double y0 = (double)1 - x[2];
                const double y1 = x[1] + (double)1;
                f.f1 = (T)((x[8] != (double)0) ? (double)-1 : (double)1);
                f.f2 = (T)(y0);
                f.f3 = (T)((double)1 - y0);
                f.f4 = (T)(fabs(y0) < (double)0.5);
                f.f5 = (T)(x[0] / ((double)1 - pow(x[2], y1)));
                f.f6 = (T)(x[3]);
                f.f7 = (T)((double)1 - x[3]);
                f.f8 = (T)(pow((double)1 - pow(x[3], y1), (double)0.5));
                f.f9 = (T)(x[4]);
                f.f10 = (T)(x[5]);
                f.way = 3;
            }
        }
    } else {
        if (x[7] != (double)0) {
            const double y0 = (double)1 - x[2];
            const double y1 = x[1] + (double)1;
            f.f1 = (T)((x[8] != (double)0) ? (double)-1 : (double)1);
            f.f2 = (T)(y0);
            f.f3 = (T)((double)1 - y0);
            f.f4 = (T)(fabs(y0) < (double)0.5);
            f.f5 = (T)(x[0] / ((double)1 - pow(x[2], y1)));
            f.f6 = (T)(x[3]);
            f.f7 = (T)((double)1 - x[3]);
            f.f8 = (T)(pow((double)1 - pow(x[3], y1), (double)0.5));
            f.f9 = (T)(x[4]);
            f.way = 4;
        } else {
            const double y0 = (double)1 - x[2];
            const double y1 = x[1] + (double)1;
            f.f1 = (T)((x[8] != (double)0) ? (double)-1 : (double)1);
            f.f2 = (T)(y0);
            f.f3 = (T)((double)1 - y0);
            f.f4 = (T)(fabs(y0) < (double)0.5);
            f.f5 = (T)(x[0] / ((double)1 - pow(x[2], y1)));
            f.f6 = (T)(x[3]);
            f.f7 = (T)((double)1 - x[3]);
            f.f8 = (T)(pow((double)1 - pow(x[3], y1), (double)0.5));
            f.f9 = (T)(x[4]);
            f.way = 5;
        }
    }
    run(p, n, 5, 1.05, NAMED(adam_part), &f);
}

typedef struct { T f0, f1, f2, f3, f4, f6, f7, f8; T f5; int way; } NAMED(rmsprop);
TG_VERSIONS TG_SHORT
static void NAMED(rmsprop_part)(void *context, int64_t begin, int64_t end) {
    EACH_TENSOR {
        const NAMED(rmsprop) f = *(const NAMED(rmsprop) *)j->factors;
        T *restrict p = ROW(0), *restrict grad = ROW(1), *restrict square_avg = ROW(2), *restrict momentum_buffer = ROW(3), *restrict grad_avg = ROW(4);
        const int64_t count = stop - begin;
        switch (f.way) {
        case 0:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = grad[i] * f.f1;
                const T v1 = (square_avg[i] * f.f2) + ((v0 * f.f3) * v0);
                const T v2 = v0 - grad_avg[i];
                const T v3 = f.f5 ? (grad_avg[i] + (f.f3 * v2)) : (v0 - (v2 * f.f4));
                const T v4 = (momentum_buffer[i] * f.f0) + (v0 / (SQRT(v1 + ((v3 * (T)-1) * v3)) + f.f6));
                const T new_p = p[i] - (v4 * f.f7);
                const T new_square_avg = v1;
                const T new_momentum_buffer = v4;
                const T new_grad_avg = v3;
                p[i] = new_p;
                square_avg[i] = new_square_avg;
                momentum_buffer[i] = new_momentum_buffer;
                grad_avg[i] = new_grad_avg;
            }
            break;
        case 1:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = grad[i] * f.f1;
                const T v1 = (square_avg[i] * f.f2) + ((v0 * f.f3) * v0);
                const T v2 = v0 - grad_avg[i];
                const T v3 = f.f5 ? (grad_avg[i] + (f.f3 * v2)) : (v0 - (v2 * f.f4));
                const T new_p = p[i] - ((v0 * f.f7) / (SQRT(v1 + ((v3 * (T)-1) * v3)) + f.f6));
                const T new_square_avg = v1;
                const T new_grad_avg = v3;
                p[i] = new_p;
                square_avg[i] = new_square_avg;
                grad_avg[i] = new_grad_avg;
            }
            break;
        case 2:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = grad[i] * f.f1;
                const T v1 = (square_avg[i] * f.f2) + ((v0 * f.f3) * v0);
                const T v2 = (momentum_buffer[i] * f.f0) + (v0 / (SQRT(v1) + f.f6));
                const T new_p = p[i] - (v2 * f.f7);
                const T new_square_avg = v1;
                const T new_momentum_buffer = v2;
                p[i] = new_p;
                square_avg[i] = new_square_avg;
                momentum_buffer[i] = new_momentum_buffer;
            }
            break;
        case 3:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = grad[i] * f.f1;
                const T v1 = (square_avg[i] * f.f2) + ((v0 * f.f3) * v0);
                const T new_p = p[i] - ((v0 * f.f7) / (SQRT(v1) + f.f6));
                const T new_square_avg = v1;
                p[i] = new_p;
                square_avg[i] = new_square_avg;
            }
            break;
        case 4:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = (grad[i] * f.f1) + (p[i] * f.f8);
                const T v1 = (square_avg[i] * f.f2) + ((v0 * f.f3) * v0);
                const T v2 = v0 - grad_avg[i];
                const T v3 = f.f5 ? (grad_avg[i] + (f.f3 * v2)) : (v0 - (v2 * f.f4));
                const T v4 = (momentum_buffer[i] * f.f0) + (v0 / (SQRT(v1 + ((v3 * (T)-1) * v3)) + f.f6));
                const T new_p = p[i] - (v4 * f.f7);
                const T new_square_avg = v1;
                const T new_momentum_buffer = v4;
                const T new_grad_avg = v3;
                p[i] = new_p;
                square_avg[i] = new_square_avg;
                momentum_buffer[i] = new_momentum_buffer;
                grad_avg[i] = new_grad_avg;
            }
            break;
        case 5:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = (grad[i] * f.f1) + (p[i] * f.f8);
                const T v1 = (square_avg[i] * f.f2) + ((v0 * f.f3) * v0);
                const T v2 = v0 - grad_avg[i];
                const T v3 = f.f5 ? (grad_avg[i] + (f.f3 * v2)) : (v0 - (v2 * f.f4));
                const T new_p = p[i] - ((v0 * f.f7) / (SQRT(v1 + ((v3 * (T)-1) * v3)) + f.f6));
                const T new_square_avg = v1;
                const T new_grad_avg = v3;
                p[i] = new_p;
                square_avg[i] = new_square_avg;
                grad_avg[i] = new_grad_avg;
            }
            break;
        case 6:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = (grad[i] * f.f1) + (p[i] * f.f8);
                const T v1 = (square_avg[i] * f.f2) + ((v0 * f.f3) * v0);
                const T v2 = (momentum_buffer[i] * f.f0) + (v0 / (SQRT(v1) + f.f6));
                const T new_p = p[i] - (v2 * f.f7);
                const T new_square_avg = v1;
                const T new_momentum_buffer = v2;
                p[i] = new_p;
                square_avg[i] = new_square_avg;
                momentum_buffer[i] = new_momentum_buffer;
            }
            break;
        case 7:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = (grad[i] * f.f1) + (p[i] * f.f8);
                const T v1 = (square_avg[i] * f.f2) + ((v0 * f.f3) * v0);
                const T new_p = p[i] - ((v0 * f.f7) / (SQRT(v1) + f.f6));
                const T new_square_avg = v1;
                p[i] = new_p;
                square_avg[i] = new_square_avg;
            }
            break;
        }
    }
}
/* x: lr, step, alpha, eps, weight_decay, momentum, centered, maximize */
void NAMED(tg_rmsprop)(void **p, const int64_t *n, const double *x) {
    NAMED(rmsprop) f = {0};
    if (x[4] == (double)0) {
        if (x[6] != (double)0) {
            if (x[5] > (double)0) {
                const double y0 = (double)1 - x[2];
                f.f0 = (T)(x[5]);
                f.f1 = (T)((x[7] != (double)0) ? (double)-1 : (double)1);
                f.f2 = (T)(x[2]);
                f.f3 = (T)(y0);
                f.f4 = (T)((double)1 - y0);
                f.f5 = (T)(fabs(y0) < (double)0.5);
                f.f6 = (T)(x[3]);
                f.f7 = (T)(x[0]);
                f.way = 0;
            } else {
                const double y0 = (double)1 - x[2];
                f.f1 = (T)((x[7] != (double)0) ? (double)-1 : (double)1);
                f.f2 = (T)(x[2]);
                f.f3 = (T)(y0);
                f.f4 = (T)((double)1 - y0);
                f.f5 = (T)(fabs(y0) < (double)0.5);
                f.f6 = (T)(x[3]);
                f.f7 = (T)(x[0]);
                f.way = 1;
            }
        } else {
            if (x[5] > (double)0) {
                f.f0 = (T)(x[5]);
                f.f1 = (T)((x[7] != (double)0) ? (double)-1 : (double)1);
                f.f2 = (T)(x[2]);
                f.f3 = (T)((double)1 - x[2]);
                f.f6 = (T)(x[3]);
                f.f7 = (T)(x[0]);
                f.way = 2;
            } else {
                f.f1 = (T)((x[7] != (double)0) ? (double)-1 : (double)1);
                f.f2 = (T)(x[2]);
                f.f3 = (T)((double)1 - x[2]);
                f.f6 = (T)(x[3]);
                f.f7 = (T)(x[0]);
                f.way = 3;
            }
        }
    } else {
        if (x[6] != (double)0) {
            if (x[5] > (double)0) {
                const double y0 = (double)1 - x[2];
                f.f0 = (T)(x[5]);
                f.f1 = (T)((x[7] != (double)0) ? (double)-1 : (double)1);
                f.f2 = (T)(x[2]);
                f.f3 = (T)(y0);
                f.f4 = (T)((double)1 - y0);
                f.f5 = (T)(fabs(y0) < (double)0.5);
                f.f6 = (T)(x[3]);
                f.f7 = (T)(x[0]);
                f.f8 = (T)(x[4]);
                f.way = 4;
            } else {
                const double y0 = (double)1 - x[2];
                f.f1 = (T)((x[7] != (double)0) ? (double)-1 : (double)1);
                f.f2 = (T)(x[2]);
                f.f3 = (T)(y0);
                f.f4 = (T)((double)1 - y0);
                f.f5 = (T)(fabs(y0) < (double)0.5);
                f.f6 = (T)(x[3]);
                f.f7 = (T)(x[0]);
                f.f8 = (T)(x[4]);
                f.way = 5;
            }
        } else {
            if (x[5] > (double)0) {
                f.f0 = (T)(x[5]);
                f.f1 = (T)((x[7] != (double)0) ? (double)-1 : (double)1);
                f.f2 = (T)(x[2]);
                f.f3 = (T)((double)1 - x[2]);
                f.f6 = (T)(x[3]);
                f.f7 = (T)(x[0]);
                f.f8 = (T)(x[4]);
                f.way = 6;
            } else {
                f.f1 = (T)((x[7] != (double)0) ? (double)-1 : (double)1);
                f.f2 = (T)(x[2]);
                f.f3 = (T)((double)1 - x[2]);
                f.f6 = (T)(x[3]);
                f.f7 = (T)(x[0]);
                f.f8 = (T)(x[4]);
                f.way = 7;
            }
        }
    }
    run(p, n, 5, 0.90, NAMED(rmsprop_part), &f);
}

typedef struct { T f0, f1, f2, f3; int way; } NAMED(adagrad);
TG_VERSIONS TG_SHORT
static void NAMED(adagrad_part)(void *context, int64_t begin, int64_t end) {
    EACH_TENSOR {
        const NAMED(adagrad) f = *(const NAMED(adagrad) *)j->factors;
        T *restrict p = ROW(0), *restrict grad = ROW(1), *restrict sum = ROW(2);
        const int64_t count = stop - begin;
        switch (f.way) {
        case 0:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = grad[i] * f.f0;
                const T v1 = sum[i] + (v0 * v0);
                const T new_p = p[i] - ((v0 * f.f1) / (SQRT(v1) + f.f2));
                const T new_sum = v1;
                p[i] = new_p;
                sum[i] = new_sum;
            }
            break;
        case 1:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = (grad[i] * f.f0) + (p[i] * f.f3);
                const T v1 = sum[i] + (v0 * v0);
                const T new_p = p[i] - ((v0 * f.f1) / (SQRT(v1) + f.f2));
                const T new_sum = v1;
                p[i] = new_p;
                sum[i] = new_sum;
            }
            break;
        }
    }
}
/* x: lr, step, lr_decay, eps, weight_decay, maximize */
void NAMED(tg_adagrad)(void **p, const int64_t *n, const double *x) {
    NAMED(adagrad) f = {0};
    if (x[4] == (double)0) {
        f.f0 = (T)((x[5] != (double)0) ? (double)-1 : (double)1);
        f.f1 = (T)(x[0] / ((double)1 + (((x[1] + (double)1) - (double)1) * x[2])));
        f.f2 = (T)(x[3]);
        f.way = 0;
    } else {
        f.f0 = (T)((x[5] != (double)0) ? (double)-1 : (double)1);
        f.f1 = (T)(x[0] / ((double)1 + (((x[1] + (double)1) - (double)1) * x[2])));
        f.f2 = (T)(x[3]);
        f.f3 = (T)(x[4]);
        f.way = 1;
    }
    run(p, n, 3, 0.70, NAMED(adagrad_part), &f);
}

typedef struct { T f0, f1, f2, f3, f4, f5; int way; } NAMED(adadelta);
TG_VERSIONS TG_SHORT
static void NAMED(adadelta_part)(void *context, int64_t begin, int64_t end) {
    EACH_TENSOR {
        const NAMED(adadelta) f = *(const NAMED(adadelta) *)j->factors;
        T *restrict p = ROW(0), *restrict grad = ROW(1), *restrict square_avg = ROW(2), *restrict acc_delta = ROW(3);
        const int64_t count = stop - begin;
        switch (f.way) {
        case 0:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = grad[i] * f.f2;
                const T v1 = (square_avg[i] * f.f1) + ((v0 * f.f3) * v0);
                const T v2 = (SQRT(acc_delta[i] + f.f0) / SQRT(v1 + f.f0)) * v0;
                const T new_p = p[i] - (v2 * f.f4);
                const T new_square_avg = v1;
                const T new_acc_delta = (acc_delta[i] * f.f1) + ((v2 * f.f3) * v2);
                p[i] = new_p;
                square_avg[i] = new_square_avg;
                acc_delta[i] = new_acc_delta;
            }
            break;
        case 1:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = (grad[i] * f.f2) + (p[i] * f.f5);
                const T v1 = (square_avg[i] * f.f1) + ((v0 * f.f3) * v0);
                const T v2 = (SQRT(acc_delta[i] + f.f0) / SQRT(v1 + f.f0)) * v0;
                const T new_p = p[i] - (v2 * f.f4);
                const T new_square_avg = v1;
                const T new_acc_delta = (acc_delta[i] * f.f1) + ((v2 * f.f3) * v2);
                p[i] = new_p;
                square_avg[i] = new_square_avg;
                acc_delta[i] = new_acc_delta;
            }
            break;
        }
    }
}
/* x: lr, step, rho, eps, weight_decay, maximize */
void NAMED(tg_adadelta)(void **p, const int64_t *n, const double *x) {
    NAMED(adadelta) f = {0};
    if (x[4] == (double)0) {
        f.f0 = (T)(x[3]);
        f.f1 = (T)(x[2]);
        f.f2 = (T)((x[5] != (double)0) ? (double)-1 : (double)1);
        f.f3 = (T)((double)1 - x[2]);
        f.f4 = (T)(x[0]);
        f.way = 0;
    } else {
        f.f0 = (T)(x[3]);
        f.f1 = (T)(x[2]);
        f.f2 = (T)((x[5] != (double)0) ? (double)-1 : (double)1);
        f.f3 = (T)((double)1 - x[2]);
        f.f4 = (T)(x[0]);
        f.f5 = (T)(x[4]);
        f.way = 1;
    }
    run(p, n, 4, 0.95, NAMED(adadelta_part), &f);
}

typedef struct { T f0, f1, f2, f4, f5, f6, f7; T f3; int way; } NAMED(adamax);
TG_VERSIONS TG_SHORT
static void NAMED(adamax_part)(void *context, int64_t begin, int64_t end) {
    EACH_TENSOR {
        const NAMED(adamax) f = *(const NAMED(adamax) *)j->factors;
        T *restrict p = ROW(0), *restrict grad = ROW(1), *restrict exp_avg = ROW(2), *restrict exp_inf = ROW(3);
        const int64_t count = stop - begin;
        switch (f.way) {
        case 0:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = grad[i] * f.f0;
                const T v1 = v0 - exp_avg[i];
                const T v2 = f.f3 ? (exp_avg[i] + (f.f1 * v1)) : (v0 - (v1 * f.f2));
                const T v3 = NAMED(larger)((exp_inf[i] * f.f5), (ABS(v0) + f.f6));
                const T new_p = p[i] - ((v2 * f.f4) / v3);
                const T new_exp_avg = v2;
                const T new_exp_inf = v3;
                p[i] = new_p;
                exp_avg[i] = new_exp_avg;
                exp_inf[i] = new_exp_inf;
            }
            break;
        case 1:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = (grad[i] * f.f0) + (p[i] * f.f7);
                const T v1 = v0 - exp_avg[i];
                const T v2 = f.f3 ? (exp_avg[i] + (f.f1 * v1)) : (v0 - (v1 * f.f2));
                const T v3 = NAMED(larger)((exp_inf[i] * f.f5), (ABS(v0) + f.f6));
                const T new_p = p[i] - ((v2 * f.f4) / v3);
                const T new_exp_avg = v2;
                const T new_exp_inf = v3;
                p[i] = new_p;
                exp_avg[i] = new_exp_avg;
                exp_inf[i] = new_exp_inf;
            }
            break;
        }
    }
}
/* x: lr, step, betas[2], eps, weight_decay, maximize */
void NAMED(tg_adamax)(void **p, const int64_t *n, const double *x) {
    NAMED(adamax) f = {0};
    if (x[5] == (double)0) {
        const double y0 = (double)1 - x[2];
        f.f0 = (T)((x[6] != (double)0) ? (double)-1 : (double)1);
        f.f1 = (T)(y0);
        f.f2 = (T)((double)1 - y0);
        f.f3 = (T)(fabs(y0) < (double)0.5);
        f.f4 = (T)(x[0] / ((double)1 - pow(x[2], x[1] + (double)1)));
        f.f5 = (T)(x[3]);
        f.f6 = (T)(x[4]);
        f.way = 0;
    } else {
        const double y0 = (double)1 - x[2];
        f.f0 = (T)((x[6] != (double)0) ? (double)-1 : (double)1);
        f.f1 = (T)(y0);
        f.f2 = (T)((double)1 - y0);
        f.f3 = (T)(fabs(y0) < (double)0.5);
        f.f4 = (T)(x[0] / ((double)1 - pow(x[2], x[1] + (double)1)));
        f.f5 = (T)(x[3]);
        f.f6 = (T)(x[4]);
        f.f7 = (T)(x[5]);
        f.way = 1;
    }
    run(p, n, 4, 0.65, NAMED(adamax_part), &f);
}

typedef struct { T f0, f1, f2, f3, f4, f5, f6, f7, f9, f10, f11; T f8; int way; } NAMED(nadam);
TG_VERSIONS TG_SHORT
static void NAMED(nadam_part)(void *context, int64_t begin, int64_t end) {
    EACH_TENSOR {
        const NAMED(nadam) f = *(const NAMED(nadam) *)j->factors;
        T *restrict p = ROW(0), *restrict grad = ROW(1), *restrict exp_avg = ROW(2), *restrict exp_avg_sq = ROW(3);
        const int64_t count = stop - begin;
        switch (f.way) {
        case 0:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = grad[i] * f.f0;
                const T v1 = (exp_avg_sq[i] * f.f2) + ((v0 * f.f3) * v0);
                const T v2 = SQRT(v1 / f.f4) + f.f5;
                const T v3 = v0 - exp_avg[i];
                const T v4 = f.f8 ? (exp_avg[i] + (f.f6 * v3)) : (v0 - (v3 * f.f7));
                const T new_p = (p[i] - ((v0 * f.f1) / v2)) - ((v4 * f.f9) / v2);
                const T new_exp_avg = v4;
                const T new_exp_avg_sq = v1;
                p[i] = new_p;
                exp_avg[i] = new_exp_avg;
                exp_avg_sq[i] = new_exp_avg_sq;
            }
            break;
        case 1:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = grad[i] * f.f0;
                const T v1 = (exp_avg_sq[i] * f.f2) + ((v0 * f.f3) * v0);
                const T v2 = SQRT(v1 / f.f4) + f.f5;
                const T v3 = v0 - exp_avg[i];
                const T v4 = f.f8 ? (exp_avg[i] + (f.f6 * v3)) : (v0 - (v3 * f.f7));
                const T new_p = ((p[i] * f.f10) - ((v0 * f.f1) / v2)) - ((v4 * f.f9) / v2);
                const T new_exp_avg = v4;
                const T new_exp_avg_sq = v1;
                p[i] = new_p;
                exp_avg[i] = new_exp_avg;
                exp_avg_sq[i] = new_exp_avg_sq;
            }
            break;
        case 2:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = (grad[i] * f.f0) + (p[i] * f.f11);
                const T v1 = (exp_avg_sq[i] * f.f2) + ((v0 * f.f3) * v0);
                const T v2 = SQRT(v1 / f.f4) + f.f5;
                const T v3 = v0 - exp_avg[i];
                const T v4 = f.f8 ? (exp_avg[i] + (f.f6 * v3)) : (v0 - (v3 * f.f7));
                const T new_p = (p[i] - ((v0 * f.f1) / v2)) - ((v4 * f.f9) / v2);
                const T new_exp_avg = v4;
                const T new_exp_avg_sq = v1;
                p[i] = new_p;
                exp_avg[i] = new_exp_avg;
                exp_avg_sq[i] = new_exp_avg_sq;
            }
            break;
        }
    }
}
/* x: lr, step, mu_product, betas[2], eps, weight_decay, momentum_decay, decoupled_weight_decay, maximize */
void NAMED(tg_nadam)(void **p, const int64_t *n, const double *x) {
    NAMED(nadam) f = {0};
    if (x[6] == (double)0) {
        const double y0 = x[1] + (double)1;
        const double y1 = x[3] * ((double)1 - ((double)0.5 * pow((double)0.96, y0 * x[7])));
        const double y2 = (n[1] != (double)0) ? (double)(float)(x[2] * (double)(float)(y1)) : (x[2] * y1);
        const double y3 = (double)1 - x[3];
        const double y4 = x[3] * ((double)1 - ((double)0.5 * pow((double)0.96, (y0 + (double)1) * x[7])));
        f.f0 = (T)((x[9] != (double)0) ? (double)-1 : (double)1);
        f.f1 = (T)((x[0] * ((double)1 - y1)) / ((double)1 - y2));
        f.f2 = (T)(x[4]);
        f.f3 = (T)((double)1 - x[4]);
        f.f4 = (T)((double)1 - pow(x[4], y0));
        f.f5 = (T)(x[5]);
        f.f6 = (T)(y3);
        f.f7 = (T)((double)1 - y3);
        f.f8 = (T)(fabs(y3) < (double)0.5);
        f.f9 = (T)((x[0] * y4) / ((double)1 - (y2 * y4)));
        f.way = 0;
    } else {
        if (x[8] != (double)0) {
            const double y0 = x[1] + (double)1;
            const double y1 = x[3] * ((double)1 - ((double)0.5 * pow((double)0.96, y0 * x[7])));
            const double y2 = (n[1] != (double)0) ? (double)(float)(x[2] * (double)(float)(y1)) : (x[2] * y1);
            const double y3 = (double)1 - x[3];
            const double y4 = x[3] * ((double)1 - ((double)0.5 * pow((double)0.96, (y0 + (double)1) * x[7])));
            f.f0 = (T)((x[9] != (double)0) ? (double)-1 : (double)1);
            f.f1 = (T)((x[0] * ((double)1 - y1)) / ((double)1 - y2));
            f.f2 = (T)(x[4]);
            f.f3 = (T)((double)1 - x[4]);
            f.f4 = (T)((double)1 - pow(x[4], y0));
            f.f5 = (T)(x[5]);
            f.f6 = (T)(y3);
            f.f7 = (T)((double)1 - y3);
            f.f8 = (T)(fabs(y3) < (double)0.5);
            f.f9 = (T)((x[0] * y4) / ((double)1 - (y2 * y4)));
            f.f10 = (T)((double)1 - (x[0] * x[6]));
            f.way = 1;
        } else {
            const double y0 = x[1] + (double)1;
            const double y1 = x[3] * ((double)1 - ((double)0.5 * pow((double)0.96, y0 * x[7])));
            const double y2 = (n[1] != (double)0) ? (double)(float)(x[2] * (double)(float)(y1)) : (x[2] * y1);
            const double y3 = (double)1 - x[3];
            const double y4 = x[3] * ((double)1 - ((double)0.5 * pow((double)0.96, (y0 + (double)1) * x[7])));
            f.f0 = (T)((x[9] != (double)0) ? (double)-1 : (double)1);
            f.f1 = (T)((x[0] * ((double)1 - y1)) / ((double)1 - y2));
            f.f2 = (T)(x[4]);
            f.f3 = (T)((double)1 - x[4]);
            f.f4 = (T)((double)1 - pow(x[4], y0));
            f.f5 = (T)(x[5]);
            f.f6 = (T)(y3);
            f.f7 = (T)((double)1 - y3);
            f.f8 = (T)(fabs(y3) < (double)0.5);
            f.f9 = (T)((x[0] * y4) / ((double)1 - (y2 * y4)));
            f.f11 = (T)(x[6]);
            f.way = 2;
        }
    }
    run(p, n, 4, 1.10, NAMED(nadam_part), &f);
}

typedef struct { T f0, f1, f2, f4, f5, f6, f7, f8, f9, f10, f11, f12; T f3; int way; } NAMED(radam);
TG_VERSIONS TG_SHORT
static void NAMED(radam_part)(void *context, int64_t begin, int64_t end) {
    EACH_TENSOR {
        const NAMED(radam) f = *(const NAMED(radam) *)j->factors;
        T *restrict p = ROW(0), *restrict grad = ROW(1), *restrict exp_avg = ROW(2), *restrict exp_avg_sq = ROW(3);
        const int64_t count = stop - begin;
        switch (f.way) {
        case 0:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = grad[i] * f.f0;
                const T v1 = v0 - exp_avg[i];
                const T v2 = f.f3 ? (exp_avg[i] + (f.f1 * v1)) : (v0 - (v1 * f.f2));
                const T v3 = (exp_avg_sq[i] * f.f6) + ((v0 * f.f7) * v0);
                const T new_p = p[i] - ((((v2 / f.f4) * f.f5) * (f.f9 / (SQRT(v3) + f.f8))) * f.f10);
                const T new_exp_avg = v2;
                const T new_exp_avg_sq = v3;
                p[i] = new_p;
                exp_avg[i] = new_exp_avg;
                exp_avg_sq[i] = new_exp_avg_sq;
            }
            break;
        case 1:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = grad[i] * f.f0;
                const T v1 = v0 - exp_avg[i];
                const T v2 = f.f3 ? (exp_avg[i] + (f.f1 * v1)) : (v0 - (v1 * f.f2));
                const T new_p = p[i] - ((v2 / f.f4) * f.f5);
                const T new_exp_avg = v2;
                const T new_exp_avg_sq = (exp_avg_sq[i] * f.f6) + ((v0 * f.f7) * v0);
                p[i] = new_p;
                exp_avg[i] = new_exp_avg;
                exp_avg_sq[i] = new_exp_avg_sq;
            }
            break;
        case 2:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = grad[i] * f.f0;
                const T v1 = v0 - exp_avg[i];
                const T v2 = f.f3 ? (exp_avg[i] + (f.f1 * v1)) : (v0 - (v1 * f.f2));
                const T v3 = (exp_avg_sq[i] * f.f6) + ((v0 * f.f7) * v0);
                const T new_p = (p[i] * f.f11) - ((((v2 / f.f4) * f.f5) * (f.f9 / (SQRT(v3) + f.f8))) * f.f10);
                const T new_exp_avg = v2;
                const T new_exp_avg_sq = v3;
                p[i] = new_p;
                exp_avg[i] = new_exp_avg;
                exp_avg_sq[i] = new_exp_avg_sq;
            }
            break;
        case 3:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = grad[i] * f.f0;
                const T v1 = v0 - exp_avg[i];
                const T v2 = f.f3 ? (exp_avg[i] + (f.f1 * v1)) : (v0 - (v1 * f.f2));
                const T new_p = (p[i] * f.f11) - ((v2 / f.f4) * f.f5);
                const T new_exp_avg = v2;
                const T new_exp_avg_sq = (exp_avg_sq[i] * f.f6) + ((v0 * f.f7) * v0);
                p[i] = new_p;
                exp_avg[i] = new_exp_avg;
                exp_avg_sq[i] = new_exp_avg_sq;
            }
            break;
        case 4:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = (grad[i] * f.f0) + (p[i] * f.f12);
                const T v1 = v0 - exp_avg[i];
                const T v2 = f.f3 ? (exp_avg[i] + (f.f1 * v1)) : (v0 - (v1 * f.f2));
                const T v3 = (exp_avg_sq[i] * f.f6) + ((v0 * f.f7) * v0);
                const T new_p = p[i] - ((((v2 / f.f4) * f.f5) * (f.f9 / (SQRT(v3) + f.f8))) * f.f10);
                const T new_exp_avg = v2;
                const T new_exp_avg_sq = v3;
                p[i] = new_p;
                exp_avg[i] = new_exp_avg;
                exp_avg_sq[i] = new_exp_avg_sq;
            }
            break;
        case 5:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = (grad[i] * f.f0) + (p[i] * f.f12);
                const T v1 = v0 - exp_avg[i];
                const T v2 = f.f3 ? (exp_avg[i] + (f.f1 * v1)) : (v0 - (v1 * f.f2));
                const T new_p = p[i] - ((v2 / f.f4) * f.f5);
                const T new_exp_avg = v2;
                const T new_exp_avg_sq = (exp_avg_sq[i] * f.f6) + ((v0 * f.f7) * v0);
                p[i] = new_p;
                exp_avg[i] = new_exp_avg;
                exp_avg_sq[i] = new_exp_avg_sq;
            }
            break;
        }
    }
}
/* x: lr, step, betas[2], eps, weight_decay, decoupled_weight_decay, maximize */
void NAMED(tg_radam)(void **p, const int64_t *n, const double *x) {
    NAMED(radam) f = {0};
    if (x[5] == (double)0) {
        {
            const double t0 = x[1] + (double)1;
            const double t1 = pow(x[3], t0);
            if (((((double)2 / ((double)1 - x[3])) - (double)1) - ((((double)2 * t0) * t1) / ((double)1 - t1))) > (double)5) {
                const double y0 = (double)1 - x[2];
                const double y1 = x[1] + (double)1;
                const double y2 = (double)1 - x[3];
                const double y3 = pow(x[3], y1);
                const double y4 = (double)1 - y3;
                const double y5 = ((double)2 / y2) - (double)1;
                const double y6 = y5 - ((((double)2 * y1) * y3) / y4);
                f.f0 = (T)((x[7] != (double)0) ? (double)-1 : (double)1);
                f.f1 = (T)(y0);
                f.f2 = (T)((double)1 - y0);
                f.f3 = (T)(fabs(y0) < (double)0.5);
                f.f4 = (T)((double)1 - pow(x[2], y1));
                f.f5 = (T)(x[0]);
                f.f6 = (T)(x[3]);
                f.f7 = (T)(y2);
                f.f8 = (T)(x[4]);
                f.f9 = (T)(pow(y4, (double)0.5));
                f.f10 = (T)(pow((((y6 - (double)4) * (y6 - (double)2)) * y5) / (((y5 - (double)4) * (y5 - (double)2)) * y6), (double)0.5));
                f.way = 0;
            } else {
                const double y0 = (double)1 - x[2];
                f.f0 = (T)((x[7] != (double)0) ? (double)-1 : (double)1);
                f.f1 = (T)(y0);
                f.f2 = (T)((double)1 - y0);
                f.f3 = (T)(fabs(y0) < (double)0.5);
                f.f4 = (T)((double)1 - pow(x[2], x[1] + (double)1));
                f.f5 = (T)(x[0]);
                f.f6 = (T)(x[3]);
                f.f7 = (T)((double)1 - x[3]);
                f.way = 1;
            }
        }
    } else {
        if (x[6] != (double)0) {
            {
                const double t0 = x[1] + (double)1;
                const double t1 = pow(x[3], t0);
                if (((((double)2 / ((double)1 - x[3])) - (double)1) - ((((double)2 * t0) * t1) / ((double)1 - t1))) > (double)5) {
                    const double y0 = (double)1 - x[2];
                    const double y1 = x[1] + (double)1;
                    const double y2 = (double)1 - x[3];
                    const double y3 = pow(x[3], y1);
                    const double y4 = (double)1 - y3;
                    const double y5 = ((double)2 / y2) - (double)1;
                    const double y6 = y5 - ((((double)2 * y1) * y3) / y4);
                    f.f0 = (T)((x[7] != (double)0) ? (double)-1 : (double)1);
                    f.f1 = (T)(y0);
                    f.f2 = (T)((double)1 - y0);
                    f.f3 = (T)(fabs(y0) < (double)0.5);
                    f.f4 = (T)((double)1 - pow(x[2], y1));
                    f.f5 = (T)(x[0]);
                    f.f6 = (T)(x[3]);
                    f.f7 = (T)(y2);
                    f.f8 = (T)(x[4]);
                    f.f9 = (T)(pow(y4, (double)0.5));
                    f.f10 = (T)(pow((((y6 - (double)4) * (y6 - (double)2)) * y5) / (((y5 - (double)4) * (y5 - (double)2)) * y6), (double)0.5));
                    f.f11 = (T)((double)1 - (x[0] * x[5]));
                    f.way = 2;
                } else {
                    const double y0 = (double)1 - x[2];
                    f.f0 = (T)((x[7] != (double)0) ? (double)-1 : (double)1);
                    f.f1 = (T)(y0);
                    f.f2 = (T)((double)1 - y0);
                    f.f3 = (T)(fabs(y0) < (double)0.5);
                    f.f4 = (T)((double)1 - pow(x[2], x[1] + (double)1));
                    f.f5 = (T)(x[0]);
                    f.f6 = (T)(x[3]);
                    f.f7 = (T)((double)1 - x[3]);
                    f.f11 = (T)((double)1 - (x[0] * x[5]));
                    f.way = 3;
                }
            }
        } else {
            {
                const double t0 = x[1] + (double)1;
                const double t1 = pow(x[3], t0);
                if (((((double)2 / ((double)1 - x[3])) - (double)1) - ((((double)2 * t0) * t1) / ((double)1 - t1))) > (double)5) {
                    const double y0 = (double)1 - x[2];
                    const double y1 = x[1] + (double)1;
                    const double y2 = (double)1 - x[3];
                    const double y3 = pow(x[3], y1);
                    const double y4 = (double)1 - y3;
                    const double y5 = ((double)2 / y2) - (double)1;
                    const double y6 = y5 - ((((double)2 * y1) * y3) / y4);
                    f.f0 = (T)((x[7] != (double)0) ? (double)-1 : (double)1);
                    f.f1 = (T)(y0);
                    f.f2 = (T)((double)1 - y0);
                    f.f3 = (T)(fabs(y0) < (double)0.5);
                    f.f4 = (T)((double)1 - pow(x[2], y1));
                    f.f5 = (T)(x[0]);
                    f.f6 = (T)(x[3]);
                    f.f7 = (T)(y2);
                    f.f8 = (T)(x[4]);
                    f.f9 = (T)(pow(y4, (double)0.5));
                    f.f10 = (T)(pow((((y6 - (double)4) * (y6 - (double)2)) * y5) / (((y5 - (double)4) * (y5 - (double)2)) * y6), (double)0.5));
                    f.f12 = (T)(x[5]);
                    f.way = 4;
                } else {
                    const double y0 = (double)1 - x[2];
                    f.f0 = (T)((x[7] != (double)0) ? (double)-1 : (double)1);
                    f.f1 = (T)(y0);
                    f.f2 = (T)((double)1 - y0);
                    f.f3 = (T)(fabs(y0) < (double)0.5);
                    f.f4 = (T)((double)1 - pow(x[2], x[1] + (double)1));
                    f.f5 = (T)(x[0]);
                    f.f6 = (T)(x[3]);
                    f.f7 = (T)((double)1 - x[3]);
                    f.f12 = (T)(x[5]);
                    f.way = 5;
                }
            }
        }
    }
    run(p, n, 4, 0.95, NAMED(radam_part), &f);
}

typedef struct { T f0, f1, f2, f3, f4; int way; } NAMED(asgd);
TG_VERSIONS TG_SHORT
static void NAMED(asgd_part)(void *context, int64_t begin, int64_t end) {
    EACH_TENSOR {
        const NAMED(asgd) f = *(const NAMED(asgd) *)j->factors;
        T *restrict p = ROW(0), *restrict grad = ROW(1), *restrict ax = ROW(2);
        const int64_t count = stop - begin;
        switch (f.way) {
        case 0:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = (p[i] * f.f0) - ((grad[i] * f.f1) * f.f2);
                const T new_p = v0;
                const T new_ax = v0;
                p[i] = new_p;
                ax[i] = new_ax;
            }
            break;
        case 1:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = (p[i] * f.f0) - ((grad[i] * f.f1) * f.f2);
                const T new_p = v0;
                const T new_ax = ax[i] + ((v0 - ax[i]) * f.f3);
                p[i] = new_p;
                ax[i] = new_ax;
            }
            break;
        case 2:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = (p[i] * f.f0) - (((grad[i] * f.f1) + (p[i] * f.f4)) * f.f2);
                const T new_p = v0;
                const T new_ax = v0;
                p[i] = new_p;
                ax[i] = new_ax;
            }
            break;
        case 3:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = (p[i] * f.f0) - (((grad[i] * f.f1) + (p[i] * f.f4)) * f.f2);
                const T new_p = v0;
                const T new_ax = ax[i] + ((v0 - ax[i]) * f.f3);
                p[i] = new_p;
                ax[i] = new_ax;
            }
            break;
        }
    }
}
/* x: lr, step, eta, mu, lambd, alpha, t0, weight_decay, maximize */
void NAMED(tg_asgd)(void **p, const int64_t *n, const double *x) {
    NAMED(asgd) f = {0};
    if (x[7] == (double)0) {
        if (x[3] == (double)1) {
            f.f0 = (T)((double)1 - (x[4] * x[2]));
            f.f1 = (T)((x[8] != (double)0) ? (double)-1 : (double)1);
            f.f2 = (T)(x[2]);
            f.way = 0;
        } else {
            f.f0 = (T)((double)1 - (x[4] * x[2]));
            f.f1 = (T)((x[8] != (double)0) ? (double)-1 : (double)1);
            f.f2 = (T)(x[2]);
            f.f3 = (T)(x[3]);
            f.way = 1;
        }
    } else {
        if (x[3] == (double)1) {
            f.f0 = (T)((double)1 - (x[4] * x[2]));
            f.f1 = (T)((x[8] != (double)0) ? (double)-1 : (double)1);
            f.f2 = (T)(x[2]);
            f.f4 = (T)(x[7]);
            f.way = 2;
        } else {
            f.f0 = (T)((double)1 - (x[4] * x[2]));
            f.f1 = (T)((x[8] != (double)0) ? (double)-1 : (double)1);
            f.f2 = (T)(x[2]);
            f.f3 = (T)(x[3]);
            f.f4 = (T)(x[7]);
            f.way = 3;
        }
    }
    run(p, n, 3, 0.40, NAMED(asgd_part), &f);
}

typedef struct { T f0, f1, f2, f3, f4; int way; } NAMED(rprop);
TG_VERSIONS TG_SHORT
static void NAMED(rprop_part)(void *context, int64_t begin, int64_t end) {
    EACH_TENSOR {
        const NAMED(rprop) f = *(const NAMED(rprop) *)j->factors;
        T *restrict p = ROW(0), *restrict grad = ROW(1), *restrict prev = ROW(2), *restrict step_size = ROW(3);
        const int64_t count = stop - begin;
        switch (f.way) {
        case 0:
            for (int64_t i = 0; i < count; i++) {
                const T v0 = grad[i] * f.f0;
                const T v1 = v0 * prev[i];
                const T v2 = (v1 > (T)0) ? (T)1 : ((v1 < (T)0) ? (T)-1 : (T)0);
                const bool v3 = v2 < (T)0;
                const T v4 = v3 ? (T)0 : v0;
                const T v5 = step_size[i] * (v3 ? f.f2 : ((v2 > (T)0) ? f.f1 : ((v2 == (T)0) ? (T)1 : v2)));
                const T v6 = (v5 < f.f3) ? f.f3 : v5;
                const T v7 = (v6 > f.f4) ? f.f4 : v6;
                const T new_p = p[i] + ((((v4 > (T)0) ? (T)1 : ((v4 < (T)0) ? (T)-1 : (T)0)) * (T)-1) * v7);
                const T new_prev = v4;
                const T new_step_size = v7;
                p[i] = new_p;
                prev[i] = new_prev;
                step_size[i] = new_step_size;
            }
            break;
        }
    }
}
/* x: lr, step, etas[2], step_sizes[2], maximize */
void NAMED(tg_rprop)(void **p, const int64_t *n, const double *x) {
    NAMED(rprop) f = {0};
    f.f0 = (T)((x[6] != (double)0) ? (double)-1 : (double)1);
    f.f1 = (T)(x[3]);
    f.f2 = (T)(x[2]);
    f.f3 = (T)(x[4]);
    f.f4 = (T)(x[5]);
    f.way = 0;
    run(p, n, 4, 0.50, NAMED(rprop_part), &f);
}
