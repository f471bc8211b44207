/* The vector machine: an elementwise formula, however long, in one pass over memory.

   A program is a list of steps, each one primitive on blocks that stay in the first-level cache. It
   is made from the formula of an op, from its gradient rule, or from a chain of both
   (expressions/program.py), and runs on float or double; other dtypes are converted when they are
   read and written. */

#ifndef TAPEGRAD_MACHINE_H
#define TAPEGRAD_MACHINE_H

#include "tapegrad.h"

/* Functions with the same bits on every machine: kernels/portable_functions.c has their loops. */
#define TG_PORTABLE_UNARY(X)                                                                       \
    X(exp) X(exp2) X(expm1) X(log) X(log2) X(log10) X(log1p) X(sinh) X(cosh) X(tanh) X(arcsin)     \
    X(arccos) X(arctan) X(arcsinh) X(arccosh) X(arctanh) X(erf) X(erfc) X(lgamma)
#define TG_PORTABLE_BINARY(X) X(power) X(hypot) X(arctan2) X(logaddexp) X(logaddexp2)
#define X(name)                                                                                    \
    void tg_loop_##name##_f32(const float *a, float *out, int64_t n);                              \
    void tg_loop_##name##_f64(const double *a, double *out, int64_t n);
TG_PORTABLE_UNARY(X)
#undef X
#define X(name)                                                                                    \
    void tg_loop_##name##_f32(const float *a, const float *b, float *out, int64_t n);              \
    void tg_loop_##name##_f64(const double *a, const double *b, double *out, int64_t n);
TG_PORTABLE_BINARY(X)
#undef X

/* Name, number of operands. What is between `skip` and `skipped` is passed over in blocks where the
   operand of `skip`, a truth, is false everywhere: what it computes, nobody reads there. */
#define TG_STEPS(X)                                                                                \
    X(copy, 1) X(neg, 1) X(abs, 1) X(square, 1) X(sqrt, 1) X(reciprocal, 1) X(exp, 1) X(exp2, 1)   \
    X(expm1, 1) X(log, 1) X(log2, 1) X(log10, 1) X(log1p, 1) X(sin, 1) X(cos, 1) X(tan, 1)         \
    X(asin, 1) X(acos, 1) X(atan, 1) X(sinh, 1) X(cosh, 1) X(tanh, 1) X(asinh, 1) X(acosh, 1)      \
    X(atanh, 1) X(sigmoid, 1) X(erf, 1) X(erfc, 1) X(floor, 1) X(ceil, 1) X(rint, 1) X(trunc, 1)   \
    X(sign, 1) X(isnan, 1) X(isinf, 1) X(isfinite, 1) X(not_, 1) X(signbit, 1) X(polynomial, 1)    \
    X(erfinv, 1) X(gelu_value, 1) X(gelu_slope, 1) X(round_bf16, 1) X(round_f16, 1)                \
    X(portable_exp, 1) X(portable_exp2, 1) X(portable_expm1, 1) X(portable_log, 1)                 \
    X(portable_log2, 1) X(portable_log10, 1) X(portable_log1p, 1) X(portable_sinh, 1)              \
    X(portable_cosh, 1) X(portable_tanh, 1) X(portable_arcsin, 1) X(portable_arccos, 1)            \
    X(portable_arctan, 1) X(portable_arcsinh, 1) X(portable_arccosh, 1) X(portable_arctanh, 1)     \
    X(portable_erf, 1) X(portable_erfc, 1) X(portable_lgamma, 1) X(portable_power, 2)              \
    X(portable_hypot, 2) X(portable_arctan2, 2) X(portable_logaddexp, 2)                           \
    X(portable_logaddexp2, 2)                                                                      \
    X(skip, 1) X(skipped, 1)                                                                       \
    X(add, 2) X(sub, 2) X(mul, 2) X(div, 2) X(maximum, 2) X(minimum, 2) X(fmax, 2) X(fmin, 2)      \
    X(pow, 2) X(fmod, 2) X(atan2, 2) X(hypot, 2) X(copysign, 2) X(lt, 2) X(le, 2) X(gt, 2)         \
    X(ge, 2) X(eq, 2) X(ne, 2) X(and_, 2) X(or_, 2) X(xor_, 2)                                     \
    X(select, 3)

enum {
#define X(name, width) TG_##name,
    TG_STEPS(X)
#undef X
        TG_STEP_COUNT
};

enum { TG_F32, TG_F64, TG_BOOL, TG_BF16, TG_F16, TG_KINDS };
static const int64_t tg_size_of_kind[TG_KINDS] = {4, 8, 1, 2, 2};

#define TG_MOST_DIMS 8
#define TG_MOST_OPERANDS 24
#define TG_MOST_CONSTANTS 48
#define TG_MOST_LISTED 256
#define TG_MOST_REGISTERS 192
#define TG_MOST_STEPS 256

typedef struct {
    uint8_t code, out, a, b, c;
} tg_step;

/* Registers: inputs first, then constants, then outputs, then what is in between. */
typedef struct {
    int kind; /* TG_F32 or TG_F64: what is computed in (halves in float, rounded on the way) */
    int inputs, constants, outputs, registers, steps;
    double constant[TG_MOST_CONSTANTS];
    int list[TG_MOST_CONSTANTS]; /* of a constant that is a list: where it begins; else -1 */
    double listed[TG_MOST_LISTED]; /* the lists: how many, then as many coefficients */
    int all_listed;
    tg_step step[TG_MOST_STEPS];
    double cost; /* nanoseconds an element, about */
} tg_program;

typedef struct {
    char *data; /* NULL: `number` everywhere */
    double number;
    int kind;
    int64_t stride[TG_MOST_DIMS]; /* in bytes */
} tg_operand;

/* Inputs, then outputs, over an index space of `dims` dimensions. Outputs do not overlap inputs,
   except element for element. */
void tg_machine(const tg_program *program, const tg_operand *operands, int dims,
                const int64_t *size);

/* tg_machine in two parts: what depends on layouts alone, and what depends on addresses. NULL:
   there is nothing to do, or no memory. It is given back by free(). */
typedef struct tg_prepared tg_prepared;
tg_prepared *tg_prepare(const tg_program *program, const tg_operand *operands, int dims,
                        const int64_t *size);
int tg_same_prepared(const tg_prepared *a, const tg_prepared *b); /* of one program */
void tg_run_prepared(const tg_prepared *prepared, const tg_operand *operands);
int tg_is_one_row(const tg_prepared *prepared);
/* A part of that row, on this thread: `operands` say where it begins. */
void tg_run_row(const tg_prepared *prepared, const tg_operand *operands, int64_t count);

extern const char *const tg_step_names[];
extern const int tg_step_widths[];

#endif
