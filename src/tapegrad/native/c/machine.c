#include "machine.h"

#include <stdlib.h>

#include "vecmath.h"

const char *const tg_step_names[] = {
#define X(name, width) #name,
    TG_STEPS(X)
#undef X
};
const int tg_step_widths[] = {
#define X(name, width) width,
    TG_STEPS(X)
#undef X
};

TG_INLINE float exp2_f32(float x) { return (float)exp_f64((double)x * 0x1.62e42fefa39efp-1); }
TG_INLINE float log2_f32(float x) { return (float)(log_f64((double)x) * 0x1.71547652b82fep0); }
TG_INLINE float log10_f32(float x) { return (float)(log_f64((double)x) * 0x1.bcb7b1526e50ep-2); }

#define T float
#define SUFFIX step_f32
#define KIND TG_F32
#define BLOCK 1024
#define LIBM(name) name##f
#define FABS fabsf
#define SQRT sqrtf
#define EXP exp_f32
#define EXP2 exp2_f32
#define EXPM1 expm1_f32
#define LOG log_f32
#define LOG2 log2_f32
#define LOG10 log10_f32
#define LOG1P log1p_f32
#define TANH tanh_f32
#define SIGMOID sigmoid_f32
#define ERF erf_f32
#define ERFINV erfinv_f32
#define GELU_VALUE gelu_value_f32
#define GELU_SLOPE gelu_slope_f32
#define ROUND16 round16_f32
#define FLOOR floorf
#define CEIL ceilf
#define RINT rintf
#define TRUNC truncf
#define SIGNBIT(a) (bits_of_f32(a) >> 31)
#define COPYSIGN copysignf
#define POW powf

TG_VERSIONS static void sin_step_f32(float *d, const float *pa, const float *pb, const float *pc,
                                int64_t n) {
    (void)pb, (void)pc;
    int far = 0;
    for (int64_t i = 0; i < n; i++)
        far |= !(fabsf(pa[i]) <= TRIG_LIMIT);
    if (far) {
        for (int64_t i = 0; i < n; i++)
            d[i] = sinf(pa[i]);
        return;
    }
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) {
        float s, c;
        sincos_f32(pa[i], &s, &c);
        d[i] = pa[i] == 0 ? pa[i] : s;
    }
}
TG_VERSIONS static void cos_step_f32(float *d, const float *pa, const float *pb, const float *pc,
                                int64_t n) {
    (void)pb, (void)pc;
    int far = 0;
    for (int64_t i = 0; i < n; i++)
        far |= !(fabsf(pa[i]) <= TRIG_LIMIT);
    if (far) {
        for (int64_t i = 0; i < n; i++)
            d[i] = cosf(pa[i]);
        return;
    }
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) {
        float s, c;
        sincos_f32(pa[i], &s, &c);
        d[i] = c;
    }
}
#include "machine_steps.h"

#undef T
#undef SUFFIX
#undef KIND
#undef BLOCK
#undef LIBM
#undef FABS
#undef SQRT
#undef EXP
#undef EXP2
#undef EXPM1
#undef LOG
#undef LOG2
#undef LOG10
#undef LOG1P
#undef TANH
#undef SIGMOID
#undef ERF
#undef ERFINV
#undef GELU_VALUE
#undef GELU_SLOPE
#undef ROUND16
#undef FLOOR
#undef CEIL
#undef RINT
#undef TRUNC
#undef SIGNBIT
#undef COPYSIGN
#undef POW

/* Their formulas are as good there. */
#define erfinv_step_f64 NULL
#define gelu_value_step_f64 NULL
#define gelu_slope_step_f64 NULL
#define round16_step_f64 NULL
#define T double
#define SUFFIX step_f64
#define KIND TG_F64
#define BLOCK 512
#define LIBM(name) name
#define FABS fabs
#define SQRT sqrt
#define EXP exp_f64
#define EXP2 exp2
#define EXPM1 expm1_f64
#define LOG log_f64
#define LOG2 log2
#define LOG10 log10
#define LOG1P log1p_f64
#define TANH tanh_f64
#define SIGMOID sigmoid_f64
#define ERF erf
#define FLOOR floor
#define CEIL ceil
#define RINT rint
#define TRUNC trunc
#define SIGNBIT(a) (bits_of_f64(a) >> 63)
#define COPYSIGN copysign
#define POW pow

static void sin_step_f64(double *d, const double *pa, const double *pb, const double *pc, int64_t n) {
    (void)pb, (void)pc;
    for (int64_t i = 0; i < n; i++)
        d[i] = sin(pa[i]);
}
static void cos_step_f64(double *d, const double *pa, const double *pb, const double *pc, int64_t n) {
    (void)pb, (void)pc;
    for (int64_t i = 0; i < n; i++)
        d[i] = cos(pa[i]);
}
#include "machine_steps.h"

/* ------------------------------------------------------------------ the index space */

typedef struct {
    const tg_program *program;
    const tg_operand *operands;
    int count; /* operands */
    int dims;  /* after joining those that lie one behind the other; the last is the row */
    int64_t size[TG_MOST_DIMS];
    int64_t stride[TG_MOST_OPERANDS][TG_MOST_DIMS];
    int64_t last[TG_MOST_OPERANDS]; /* strides along the row */
    int64_t rows;
    int64_t piece; /* elements of a row in one piece of work, if the rows are split */
    union {
        plan_step_f32 f32;
        plan_step_f64 f64;
    } plan;
} space;

/* Rooms for registers: most programs need few. */
#define SMALL_ROOMS 12

static void run_rows(space *s, int64_t first_row, int64_t rows, int64_t begin, int64_t end) {
    const tg_program *program = s->program;
    const int single = program->kind == TG_F32;
    const int rooms = single ? s->plan.f32.rooms : s->plan.f64.rooms;
    char small[SMALL_ROOMS * 4096] __attribute__((aligned(64)));
    char *room = rooms <= SMALL_ROOMS ? small : aligned_alloc(64, (size_t)rooms * 4096);
    char *at[TG_MOST_OPERANDS];
    if (room == NULL)
        abort(); /* a quarter of a megabyte at the most */
    for (int64_t row = first_row; row < first_row + rows; row++) {
        int64_t rest = row;
        for (int k = 0; k < s->count; k++)
            at[k] = s->operands[k].data + begin * s->last[k];
        for (int d = s->dims - 2; d >= 0; d--) {
            int64_t place = rest % s->size[d];
            rest /= s->size[d];
            for (int k = 0; k < s->count; k++)
                at[k] += place * s->stride[k][d];
        }
        if (single)
            row_step_f32(program, s->operands, &s->plan.f32, (float(*)[1024])room, at, s->last,
                    end - begin);
        else
            row_step_f64(program, s->operands, &s->plan.f64, (double(*)[512])room, at, s->last,
                    end - begin);
    }
    if (room != small)
        free(room);
}

static void some_rows(void *context, int64_t begin, int64_t end) {
    space *s = context;
    run_rows(s, begin, end - begin, 0, s->size[s->dims - 1]);
}

static void some_of_the_row(void *context, int64_t begin, int64_t end) {
    run_rows(context, 0, 1, begin, end);
}

/* Drop dimensions of size 1, and join neighbours along which every operand just goes on. */
static int join_dims(space *s, const tg_operand *operands, int dims, const int64_t *size) {
    int made = 0;
    for (int d = 0; d < dims; d++) {
        if (size[d] == 0)
            return 0;
        if (size[d] == 1)
            continue;
        int64_t step[TG_MOST_OPERANDS];
        for (int k = 0; k < s->count; k++) /* a number has no strides */
            step[k] = operands[k].data ? operands[k].stride[d] : 0;
        int joins = made > 0;
        for (int k = 0; joins && k < s->count; k++)
            joins = s->stride[k][made - 1] == step[k] * size[d];
        if (joins) {
            s->size[made - 1] *= size[d];
        } else {
            s->size[made] = size[d];
            made++;
        }
        for (int k = 0; k < s->count; k++)
            s->stride[k][made - 1] = step[k];
    }
    if (made == 0) {
        s->size[made] = 1;
        for (int k = 0; k < s->count; k++)
            s->stride[k][made] = 0;
        made = 1;
    }
    s->dims = made;
    return 1;
}

void tg_machine(const tg_program *program, const tg_operand *operands, int dims,
                const int64_t *size) {
    space s;
    s.program = program;
    s.operands = operands;
    s.count = program->inputs + program->outputs;
    if (!join_dims(&s, operands, dims, size))
        return;
    const int row = s.dims - 1;
    s.rows = 1;
    for (int d = 0; d < row; d++)
        s.rows *= s.size[d];
    for (int k = 0; k < s.count; k++)
        s.last[k] = s.stride[k][row];
    if (s.dims == 1 && s.size[0] == 1) /* one element: its strides say nothing */
        for (int k = 0; k < s.count; k++)
            s.last[k] = k < program->inputs ? 0
                                            : (program->kind == TG_F32 ? (int64_t)sizeof(float)
                                                                       : (int64_t)sizeof(double));
    if (program->kind == TG_F32)
        make_plan_step_f32(&s.plan.f32, program, operands, s.last);
    else
        make_plan_step_f64(&s.plan.f64, program, operands, s.last);
    if (s.rows == 1 && s.size[row] <= 512) { /* one block: nothing to share out */
        run_rows(&s, 0, 1, 0, s.size[row]);
        return;
    }
    int64_t grain = tg_grain(program->cost);
    if (s.rows == 1) {
        int64_t block = program->kind == TG_F32 ? 1024 : 512;
        tg_parallel(s.size[row], (grain + block - 1) / block * block, some_of_the_row, &s);
    } else {
        int64_t per = grain / s.size[row];
        tg_parallel(s.rows, per < 1 ? 1 : per, some_rows, &s);
    }
}
